//! Several attempts at the work side by side: which one was kept, and why. Names, reasons and a judge's words come
//! from operators and models, and are shown as text.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::html::tables::{NUMBER, table};
use super::{markdown, sections};
use patchwright_base::text::{self, code_cell, inline};
use patchwright_types::attempts::{AttemptEnd, AttemptReport, Attempts};
use patchwright_types::outcome::Spending;

/// Bytes of a name, and of a reason.
const MAX_NAME: usize = 120;
const MAX_REASON: usize = 600;

/// The table, why one was chosen, and what a judge said. Empty for a run with one attempt.
pub fn section(attempts: &Attempts) -> String {
    if attempts.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "| Attempt | Model | Ended | Checks | Change | Turns | Cost |\n|---|---|---|---|---|---|---|\n",
    );
    for report in &attempts.all {
        let number = match report.attempt {
            number if number == attempts.chosen => format!("**{number}, kept**"),
            number => number.to_string(),
        };
        let _ = writeln!(
            out,
            "| {number} | {} | {} | {} | {} | {} | {} |",
            code_cell(&text::cut(&report.model, MAX_NAME)),
            ended(report),
            checks(report),
            change(report),
            report.turns,
            cost(report),
        );
    }
    if let Some(why) = why(attempts) {
        let _ = writeln!(out, "\n{}.", inline(&why));
    }
    if let Some(judge) = &attempts.judge {
        let said = markdown::line(&judge.said, MAX_REASON);
        let model = text::code(&text::cut(&judge.model, MAX_NAME));
        let _ = if judge.decided {
            writeln!(out, "\nThe judge, {model}, says: {said}")
        } else {
            writeln!(out, "\nThe judge, {model}, did not decide: {said}")
        };
    }
    out
}

/// The table of the attempts, folded, for descriptions of pull requests.
pub(super) fn folded(attempts: &Attempts) -> String {
    let table = section(attempts);
    if table.is_empty() {
        return table;
    }
    let (chosen, count) = (attempts.chosen, attempts.all.len());
    format!(
        "<details><summary>Attempt {chosen} of {count} was kept</summary>\n\n{table}\n</details>\n"
    )
}

/// The table of the attempts on a page.
pub(super) fn page(attempts: &Attempts) -> Markup {
    let rows = html! {
        @for report in &attempts.all {
            tr {
                td {
                    (report.attempt)
                    @if report.attempt == attempts.chosen { " " span class="mark good" { "kept" } }
                }
                td { code { (text::line(&text::cut(&report.model, MAX_NAME))) } }
                td {
                    (ended(report))
                    @if let Some(reason) = &report.reason {
                        div class="soft" { (text::line(&text::cut(reason, MAX_REASON))) }
                    }
                }
                td { (checks(report)) }
                td { (change(report)) }
                td class="number" { (report.turns) }
                td class="number" { (report.tokens) }
                td class="number" { (cost(report)) }
                td class="number" { (time(report)) }
            }
        }
    };
    let head = [
        ("Attempt", ""),
        ("Model", ""),
        ("Ended", ""),
        ("Checks", ""),
        ("Change", ""),
        ("Turns", NUMBER),
        ("Tokens", NUMBER),
        ("Cost", NUMBER),
        ("Time", NUMBER),
    ];
    html! {
        @if let Some(why) = why(attempts) { p { (text::line(&why)) "." } }
        (table("Attempts", &head, &rows))
        @if let Some(judge) = &attempts.judge {
            p {
                "The judge, " code { (text::line(&text::cut(&judge.model, MAX_NAME))) }
                @if judge.decided { ", says: " } @else { ", did not decide: " }
                (text::line(&text::cut(&judge.said, MAX_REASON)))
            }
        }
        p class="soft" { "Each attempt has its own report in the folder of the run, in " code { "attempts/" } "." }
    }
}

fn why(attempts: &Attempts) -> Option<String> {
    (attempts.chosen > 0).then(|| format!("Attempt {} was kept: {}", attempts.chosen, attempts.why))
}

fn ended(report: &AttemptReport) -> &'static str {
    match (report.end, report.conclusion) {
        (AttemptEnd::Ended, Some(conclusion)) => sections::state(conclusion),
        (end, _) => end.words(),
    }
}

/// `passed`, or what fails.
fn checks(report: &AttemptReport) -> String {
    let AttemptReport { fixed, broke, failing, .. } = report;
    match (report.end, report.checks.as_str()) {
        (AttemptEnd::Ended, "passed") if *fixed > 0 => format!("passed, fixed {fixed}"),
        (AttemptEnd::Ended, "passed") => "passed".to_owned(),
        (AttemptEnd::Ended, "failed") => {
            let broken = if *broke > 0 { format!(", {broke} of them new") } else { String::new() };
            format!("{failing} fail{broken}")
        }
        _ => "–".to_owned(),
    }
}

fn change(report: &AttemptReport) -> String {
    let AttemptReport { files, added, removed, .. } = report;
    match files {
        0 => "–".to_owned(),
        1 => format!("1 file, +{added} −{removed}"),
        files => format!("{files} files, +{added} −{removed}"),
    }
}

fn cost(report: &AttemptReport) -> String {
    let AttemptReport { cost_usd, price_is_unknown, .. } = *report;
    match report.end {
        AttemptEnd::NotStarted => "–".to_owned(),
        _ => sections::dollars(&Spending { cost_usd, price_is_unknown, ..Spending::default() }),
    }
}

fn time(report: &AttemptReport) -> String {
    if report.wall_seconds > 0.0 {
        sections::wall_time(report.wall_seconds)
    } else {
        "–".to_owned()
    }
}
