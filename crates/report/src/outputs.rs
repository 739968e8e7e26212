//! The Action's outputs: `name<<delimiter` blocks for `GITHUB_OUTPUT`, with a delimiter that no value
//! can contain.

use std::fmt::Write as _;
use std::path::Path;

use super::review::check;
use super::sections;
use patchwright_types::outcome::Outcome;
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

/// All outputs of a run that came to an end. What does not apply to it, such as the checks of a question, is empty or
/// `none`.
pub fn of_run(outcome: &Outcome, published: Option<&Published>, folder: &Path) -> String {
    let values = values_of_run(outcome, published, folder);
    let values: Vec<_> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    block(&values)
}

/// A file of a run, where it is there.
fn file(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    if path.exists() { path.display().to_string() } else { String::new() }
}

/// The files of a run that changes something, whatever became of it.
pub fn files(folder: &Path) -> [(&'static str, String); 6] {
    [
        ("output-file", file(folder, "output.json")),
        ("plan-file", file(folder, "plan.md")),
        ("patch-file", file(folder, "change.patch")),
        ("held-back-file", file(folder, "held-back.patch")),
        ("journal-file", file(folder, patchwright_journal::FILE)),
        ("report-file", file(folder, "report.html")),
    ]
}

/// As [`of_run`], by name.
pub fn values_of_run(
    outcome: &Outcome,
    published: Option<&Published>,
    folder: &Path,
) -> Vec<(&'static str, String)> {
    let number = published.map(|p| p.pull_request.to_string()).unwrap_or_default();
    let operation = published.map(|p| p.operation.word()).unwrap_or_default();
    let cost = sections::dollars_output(&outcome.spending);
    let output = outcome.output.as_ref().map(ToString::to_string);
    // Half of a document is none; the file has all of it.
    let output = output.filter(|text| text.len() <= LONGEST).unwrap_or_default();
    let of_pull =
        |value: fn(&Published) -> &str| published.map(value).unwrap_or_default().to_owned();
    let mut values = vec![
        ("conclusion", outcome.conclusion.word().to_owned()),
        ("checks", outcome.evidence.verdict().word().to_owned()),
        ("final-message", outcome.final_message.clone()),
        ("pull-request-number", number),
        ("pull-request-url", of_pull(|pull| &pull.url)),
        ("pull-request-operation", operation.to_owned()),
        ("pull-request-head-sha", of_pull(|pull| &pull.head_sha)),
        ("branch", of_pull(|pull| &pull.branch)),
        ("output", output),
    ];
    values.extend(files(folder));
    values.push(("cost-usd", cost));
    values
}

/// All outputs of a review that came to an end. `coverage` is the part of the changed lines that was
/// read, in percent; 100 only when nothing was left out that should have been read.
pub fn of_review(
    reviewed: &Reviewed,
    published: Option<&PublishedReview>,
    folder: &Path,
) -> String {
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
        ("checks", reviewed.evidence.verdict().word()),
        ("final-message", &reviewed.summary),
        ("pull-request-number", &reviewed.number.to_string()),
        ("pull-request-head-sha", &reviewed.head),
        ("review-id", &number(review)),
        ("review-url", published.and_then(|p| p.url.as_deref()).unwrap_or_default()),
        ("review-verdict", verdict.map(check::word).unwrap_or_default()),
        ("coverage", &percent.to_string()),
        ("findings", &reviewed.findings.len().to_string()),
        ("findings-file", &file(folder, "findings.json")),
        ("sarif-file", &file(folder, "findings.sarif")),
        ("review-file", &file(folder, "review.json")),
        ("handed-over", if handed_over { "true" } else { "false" }),
        ("journal-file", &file(folder, patchwright_journal::FILE)),
        ("report-file", &file(folder, "report.html")),
        ("cost-usd", &cost),
    ])
}

/// All outputs of a triage that came to an end; `result` is its form for programs.
pub fn of_triage(triaged: &Triaged, result: &str, folder: &Path) -> String {
    block(&[
        ("conclusion", triaged.conclusion.word()),
        ("final-message", &triaged.summary),
        ("output", if result.len() <= LONGEST { result } else { "" }),
        ("output-file", &file(folder, "triage.json")),
        ("journal-file", &file(folder, patchwright_journal::FILE)),
        ("report-file", &file(folder, "report.html")),
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
