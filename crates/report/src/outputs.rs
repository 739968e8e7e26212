//! The Action's outputs: `name<<delimiter` blocks for `GITHUB_OUTPUT`, with a delimiter that no value
//! can contain.

use std::fmt::Write as _;
use std::path::Path;

use super::review::check;
use super::sections;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;
use patchwright_types::triaged::Triaged;

/// Longest value; GitHub takes 1 MB for all outputs of a job together.
const LONGEST: usize = 64 << 10;

/// Writes values as one block each.
pub fn block(values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in values {
        let value: String = value.chars().take(LONGEST).filter(|c| *c != '\0').collect();
        let mut delimiter = format!("end-{:032x}", rand::random::<u128>());
        while value.contains(&delimiter) {
            delimiter = format!("end-{:032x}", rand::random::<u128>());
        }
        let _ = write!(text, "{name}<<{delimiter}\n{value}\n{delimiter}\n");
    }
    text
}

/// All outputs of a run that came to an end.
pub fn of_run(outcome: &Outcome, published: Option<&Published>, folder: &Path) -> String {
    let file = |name: &str| {
        let path = folder.join(name);
        if path.exists() { path.display().to_string() } else { String::new() }
    };
    let number = published.map(|p| p.pull_request.to_string()).unwrap_or_default();
    let operation = published.map(|p| p.operation.word()).unwrap_or_default();
    let cost = sections::dollars_output(&outcome.spending);
    let output = outcome.output.as_ref().map(ToString::to_string);
    // Half of a document is none; the file has all of it.
    let output = output.filter(|text| text.len() <= LONGEST).unwrap_or_default();
    block(&[
        ("conclusion", outcome.conclusion.word()),
        ("checks", outcome.evidence.verdict().word()),
        ("final-message", &outcome.final_message),
        ("pull-request-number", &number),
        ("pull-request-url", published.map(|p| p.url.as_str()).unwrap_or_default()),
        ("pull-request-operation", operation),
        ("pull-request-head-sha", published.map(|p| p.head_sha.as_str()).unwrap_or_default()),
        ("branch", published.map(|p| p.branch.as_str()).unwrap_or_default()),
        ("output", &output),
        ("output-file", &file("output.json")),
        ("plan-file", &file("plan.md")),
        ("patch-file", &file("change.patch")),
        ("held-back-file", &file("held-back.patch")),
        ("journal-file", &file(patchwright_journal::FILE)),
        ("report-file", &file("report.html")),
        ("cost-usd", &cost),
    ])
}

/// All outputs of a run that proposed lessons, or found none.
pub fn of_lessons(conclusion: Conclusion, message: &str, published: Option<&Published>) -> String {
    let number = published.map(|p| p.pull_request.to_string()).unwrap_or_default();
    block(&[
        ("conclusion", conclusion.word()),
        ("final-message", message),
        ("pull-request-number", &number),
        ("pull-request-url", published.map(|p| p.url.as_str()).unwrap_or_default()),
        ("pull-request-operation", published.map(|p| p.operation.word()).unwrap_or_default()),
        ("pull-request-head-sha", published.map(|p| p.head_sha.as_str()).unwrap_or_default()),
        ("branch", published.map(|p| p.branch.as_str()).unwrap_or_default()),
    ])
}

/// All outputs of a review that came to an end. `coverage` is the part of the changed lines that was
/// read, in percent; 100 only when nothing was left out that should have been read.
pub fn of_review(
    reviewed: &Reviewed,
    published: Option<&PublishedReview>,
    folder: &Path,
) -> String {
    let file = |name: &str| {
        let path = folder.join(name);
        if path.exists() { path.display().to_string() } else { String::new() }
    };
    let coverage = &reviewed.coverage;
    let percent = match (coverage.is_complete(), coverage.lines) {
        (true, _) => 100,
        (false, 0) => 0,
        (false, lines) => (coverage.read_lines.saturating_mul(100) / lines).min(99),
    };
    let review = published.and_then(|published| published.review);
    let verdict = published.and_then(|published| published.verdict);
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let handed_over = published.is_some_and(|published| published.handed_over);
    let cost = sections::dollars_output(&reviewed.spending);
    block(&[
        ("conclusion", reviewed.conclusion.word()),
        ("final-message", &reviewed.summary),
        ("pull-request-number", &reviewed.number.to_string()),
        ("pull-request-head-sha", &reviewed.head),
        ("review-id", &number(review)),
        ("review-url", published.and_then(|p| p.url.as_deref()).unwrap_or_default()),
        ("review-verdict", verdict.map(check::word).unwrap_or_default()),
        ("coverage", &percent.to_string()),
        ("findings", &reviewed.findings.len().to_string()),
        ("findings-file", &file("findings.json")),
        ("sarif-file", &file("findings.sarif")),
        ("review-file", &file("review.json")),
        ("handed-over", if handed_over { "true" } else { "false" }),
        ("journal-file", &file(patchwright_journal::FILE)),
        ("report-file", &file("report.html")),
        ("cost-usd", &cost),
    ])
}

/// All outputs of a triage that came to an end; `result` is its form for programs.
pub fn of_triage(triaged: &Triaged, result: &str, folder: &Path) -> String {
    let file = |name: &str| {
        let path = folder.join(name);
        if path.exists() { path.display().to_string() } else { String::new() }
    };
    block(&[
        ("conclusion", triaged.conclusion.word()),
        ("final-message", &triaged.summary),
        ("output", if result.len() <= LONGEST { result } else { "" }),
        ("output-file", &file("triage.json")),
        ("journal-file", &file(patchwright_journal::FILE)),
        ("report-file", &file("report.html")),
        ("cost-usd", &sections::dollars_output(&triaged.spending)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::outputs::block;

    #[test]
    fn no_value_can_end_its_block() {
        let text = block(&[("a", "x\nb<<EOF\nevil\nEOF")]);
        let lines: Vec<&str> = text.lines().collect();
        let delimiter = lines[0].strip_prefix("a<<").unwrap();
        assert_eq!(lines.last(), Some(&delimiter));
        assert_eq!(lines.iter().filter(|line| **line == delimiter).count(), 1);
        assert_eq!(&lines[1..lines.len() - 1], ["x", "b<<EOF", "evil", "EOF"]);
    }
}
