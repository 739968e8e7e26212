//! The checks on both sides: how they went, what became of each test, what they printed before and after.

use maud::{Markup, html};

use super::{shown, tables};
use crate::evidence;
use patchwright_base::duration::format_milliseconds;
use patchwright_base::text;
use patchwright_types::evidence::{CheckRun, Comparison, Evidence, EvidenceRow, Standing};

const HEAD: [(&str, &str); 5] =
    [("Command", ""), ("Before", ""), ("After", ""), ("Tests", ""), ("Duration", tables::NUMBER)];

/// Checks, and bytes of all that they printed.
const MAX_ROWS: usize = 100;
const MAX_OUTPUTS: usize = 150 << 10;
const MAX_OUTPUT: usize = 24 << 10;

/// The table of the checks, with what stands behind it.
pub(super) fn section(evidence: &Evidence) -> Markup {
    let rows = &evidence.rows[..evidence.rows.len().min(MAX_ROWS)];
    let outputs = rows.iter().flat_map(|row| [&row.base, &row.head]).flatten();
    let weights = outputs.map(|run| shown::weight(&run.tail).min(MAX_OUTPUT)).collect();
    let most = shown::fair_share(weights, MAX_OUTPUTS).min(MAX_OUTPUT);
    html! {
        @if rows.is_empty() { p { "No checks ran." } } @else {
            (tables::table("Checks", &HEAD, &html! { @for row in rows { (summary(row)) } }))
            @for row in rows { (behind(row, most)) }
            @if !evidence.source.is_empty() {
                p class="soft" {
                    "Run by Patchwright in fresh sandboxes, not by the model. Commands from: " (text::line(&evidence.source)) "."
                }
            }
        }
        @for note in evidence.notes.iter().take(20) { p class="soft" { (text::line(note)) } }
    }
}

fn summary(row: &EvidenceRow) -> Markup {
    html! {
        tr {
            td { code { (text::one_line(&row.command)) } }
            (cell(row.base.as_ref(), Standing::NotRun))
            (cell(row.head.as_ref(), row.standing()))
            td { (row.tests.as_ref().map_or_else(String::new, Comparison::line)) }
            td class="number" { (row.head.as_ref().map_or_else(String::new, |run| format_milliseconds(run.duration_ms))) }
        }
    }
}

fn cell(run: Option<&CheckRun>, standing: Standing) -> Markup {
    let Some(run) = run else { return html! { td class="soft" { "not run" } } };
    let is_red = matches!(standing, Standing::Broken | Standing::StillFailing | Standing::Improved);
    let class = match run {
        run if run.passed() && (is_red || run.has_bad_tests()) => "bad",
        run if run.passed()
            && matches!(standing, Standing::Unknown | Standing::Silenced | Standing::Altered) =>
        {
            "warn"
        }
        run if run.passed() => "good",
        run if run.failed() && standing != Standing::NoNetwork => "bad",
        _ => "warn",
    };
    html! {
        td { span class={ "mark " (class) } {
            (evidence::plain_word(run, standing))
            @if let Some(note) = &run.note { ": " (text::line(note)) }
        } }
    }
}

/// The tests of a check by what became of them, and what it printed on each side.
fn behind(row: &EvidenceRow, most: usize) -> Markup {
    let lists = row.tests.iter().flat_map(|tests| {
        let passing = Some(("New, and pass", &tests.new_passing)).filter(|(_, it)| !it.is_empty());
        evidence::lists(tests).into_iter().chain(passing)
    });
    html! {
        @for (title, list) in lists {
            details class="call" {
                summary { span class="tool" { (title) } " (" (list.count) "), by " code { (text::one_line(&row.command)) } }
                ul class="names" {
                    @for name in list.names.iter().take(100) { li { code { (text::line(name)) } } }
                    @if list.count > list.names.len() { li { "and " (list.count - list.names.len()) " more" } }
                }
            }
        }
        @if let Some(run) = &row.base { (output("before the change", run, Standing::NotRun, most)) }
        @if let Some(run) = &row.head { (output("after the change", run, row.standing(), most)) }
    }
}

fn output(side: &str, run: &CheckRun, standing: Standing, most: usize) -> Markup {
    html! {
        details class="call" {
            summary { span class="line" {
                span class="tool" { "Output " (side) } " "
                code class="headline" { (text::one_line(&run.command)) } " "
                span class="ending" {
                    span class=(if run.is_clean() { "mark good" } else { "mark" }) { (evidence::plain_word(run, standing)) } " "
                    span class="took" { (format_milliseconds(run.duration_ms)) }
                }
            } }
            @if run.tail.trim().is_empty() { p { "It printed nothing." } } @else { pre { (shown::visible(&run.tail, most)) } }
        }
    }
}
