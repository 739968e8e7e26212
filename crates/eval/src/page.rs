//! The results as one page that loads nothing: a chart of the shares with their intervals, figures, comparisons, and each
//! instance.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::ledger::{Key, Ledger, Row, slug};
use crate::statistics::count;
use crate::summary::{ModelSummary, Summary};
use crate::verdict::Verdict;
use patchwright_report::content_security_policy::{Forms, content_security_policy};

const CSS: &str = include_str!("page.css");

/// The chart: pixels of a row, of the names, and of the whole axis.
const ROW: usize = 34;
const NAMES: usize = 260;
const AXIS: usize = 600;

/// The page. `folder` is the one that it will be in, for links to the pages of runs.
pub fn page(title: &str, summary: &Summary, rows: &[Row], ledger: Option<&Ledger>) -> String {
    let policy = content_security_policy(CSS, None, Forms::Denied);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Evaluation: " (title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                h1 { "Evaluation: " (title) }
                (chart(&summary.models))
                (figures(&summary.models))
                (comparisons(summary))
                (instances(summary, rows, ledger))
            }
        }
    };
    page.into_string()
}

/// A bar for each model, with the interval that its true share is in.
fn chart(models: &[ModelSummary]) -> Markup {
    let height = ROW * models.len() + 30;
    let at = |share: f64| format!("{:.1}", count(NAMES) + share * count(AXIS));
    html! {
        svg viewBox=(format!("0 0 {} {height}", NAMES + AXIS + 60)) role="img"
            aria-label="Share of the instances that each model resolved" {
            @for step in 0..=4_u32 {
                @let share = f64::from(step) / 4.0;
                line class="grid" x1=(at(share)) x2=(at(share)) y1="0" y2=(height - 24) {}
                text class="axis" x=(at(share)) y=(height - 8) { (step * 25) " %" }
            }
            @for (row, model) in models.iter().enumerate() {
                @let middle = ROW * row + ROW / 2;
                text class="name" x=(NAMES - 8) y=(middle + 4) { (model.model) }
                rect class="share" x=(NAMES) y=(middle - 9) height="18"
                    width=(format!("{:.1}", model.share * count(AXIS))) {}
                line class="interval" x1=(at(model.low)) x2=(at(model.high)) y1=(middle) y2=(middle) {}
                line class="interval" x1=(at(model.low)) x2=(at(model.low)) y1=(middle - 5) y2=(middle + 5) {}
                line class="interval" x1=(at(model.high)) x2=(at(model.high)) y1=(middle - 5) y2=(middle + 5) {}
            }
        }
        p.note { "Bars: share of the instances that were resolved. Lines: where the share is with 95 % confidence, as far as \
                  so many instances can say (Wilson)." }
    }
}

fn figures(models: &[ModelSummary]) -> Markup {
    html! {
        h2 { "Models" }
        div.scroll { table {
            thead { tr {
                th { "Model" } th { "Resolved" } th { "Share" } th { "95 %" } th { "In any trial" }
                th { "Nothing changed" } th { "Cost" } th { "Per resolved" } th { "Turns" } th { "Time" }
            } }
            tbody { @for model in models { tr {
                td { (model.model) }
                td.number { (resolved(model)) " of " (model.instances) }
                td.number { (percent(model.share)) }
                td.number { (percent(model.low)) " to " (percent(model.high)) }
                td.number { (model.resolved_once) }
                td.number { (model.empty_patch) }
                td.number { (dollars(model)) }
                td.number { (per_resolved(model)) }
                td.number { (of_runs(model, format!("{:.0}", model.median_turns))) }
                td.number { (of_runs(model, format!("{:.0} s", model.median_seconds))) }
            } } }
        } }
        p.note { "Turns and time are medians." }
    }
}

fn comparisons(summary: &Summary) -> Markup {
    html! {
        @if !summary.comparisons.is_empty() {
            h2 { "Model against model" }
            ul { @for comparison in &summary.comparisons { li { (comparison.words()) } } }
            p.note { "p: how likely equally good models differ as much (McNemar, exact)." }
        }
    }
}

fn instances(summary: &Summary, rows: &[Row], ledger: Option<&Ledger>) -> Markup {
    let mut ids: Vec<&str> = Vec::new();
    for row in rows {
        if !ids.contains(&row.key.instance_id.as_str()) {
            ids.push(&row.key.instance_id);
        }
    }
    html! {
        h2 { "Instances" }
        div.scroll { table {
            thead { tr { th { "Instance" } @for model in &summary.models { th { (model.model) } } } }
            tbody { @for id in ids { tr {
                td { (id) }
                @for model in &summary.models { td {
                    @for row in rows.iter().filter(|row| row.key.instance_id == *id && row.key.model == model.model) {
                        (result(row, ledger))
                    }
                } }
            } } }
        } }
    }
}

/// One result, with a link to the run where it is in the same folder.
fn result(row: &Row, ledger: Option<&Ledger>) -> Markup {
    let (class, mark) = match row.judgement.verdict {
        Verdict::Resolved if !row.judgement.touched.is_empty() => ("good", "✓?"),
        Verdict::Resolved => ("good", "✓"),
        Verdict::Unresolved => ("bad", "✗"),
        Verdict::EmptyPatch => ("bad", "∅"),
        Verdict::NotApplicable => ("bad", "!"),
    };
    let told = told(row);
    let has_page = ledger
        .is_some_and(|ledger| ledger.folder_of("runs", &row.key).join("report.html").is_file());
    html! {
        @if has_page {
            a class=(class) title=(told) href=(link(&row.key)) { (mark) } " "
        } @else {
            span class=(class) title=(told) { (mark) } " "
        }
    }
}

fn link(key: &Key) -> String {
    format!("runs/{}/{}.{}/report.html", slug(&key.model), key.instance_id, key.trial)
}

/// A result in a sentence.
fn told(row: &Row) -> String {
    let judgement = &row.judgement;
    let mut told = judgement.in_words();
    if judgement.verdict == Verdict::Unresolved {
        let (fixed, kept) = (judgement.fail_to_pass, judgement.pass_to_pass);
        told = format!(
            "{told}: {} of {} that had to pass do, {} of {} that passed still do",
            fixed.passed, fixed.of, kept.passed, kept.of
        );
    }
    if !matches!(row.used.conclusion.as_str(), "" | "done") {
        told = format!("{told}; the run ended with {}", row.used.conclusion);
    }
    told
}

/// Instances resolved, with a digit behind the point where trials make it no whole number.
pub(crate) fn resolved(model: &ModelSummary) -> String {
    let whole = model.resolved.round();
    if (model.resolved - whole).abs() < 1e-9 {
        format!("{whole:.0}")
    } else {
        format!("{:.1}", model.resolved)
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(crate) fn dollars(model: &ModelSummary) -> String {
    let about = if model.cost_is_estimate { "about " } else { "" };
    of_runs(model, format!("{about}${:.2}", model.cost_usd))
}

/// A figure of runs; none where a model's changes were made elsewhere.
pub(crate) fn of_runs(model: &ModelSummary, figure: String) -> String {
    if model.runs > 0 { figure } else { "–".to_owned() }
}

pub(crate) fn per_resolved(model: &ModelSummary) -> String {
    model.cost_per_resolved_usd.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.2}"))
}
