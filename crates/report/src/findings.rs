//! `findings.json`: a review for programs, in the shape that Codex's reviewer made known
//! (`findings[]` with `title`, `body`, `confidence_score`, `priority`, `code_location`; then
//! `overall_correctness`, `overall_explanation`, `overall_confidence_score`), with fields of our own
//! beside them.

use std::fmt::Write as _;

use serde::Serialize;

use super::review;
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::{Category, Finding, Priority, Verdict};
use patchwright_review::incremental::{FindingState, KnownFinding};
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::{Coverage, Reviewed, Skipped, SkippedBecause};

/// The whole file.
#[derive(Debug, Serialize)]
pub struct Findings<'a> {
    pub findings: Vec<Row<'a>>,
    /// `patch is correct` or `patch is incorrect`; the latter with a finding of priority 0 or 1.
    pub overall_correctness: &'static str,
    pub overall_explanation: &'a str,
    /// From 0 to 1: of the surest grave finding, else the part of the change that was read.
    pub overall_confidence_score: f64,
    pub repository: String,
    pub pull_request: u64,
    pub head_sha: &'a str,
    pub base_sha: &'a str,
    pub since_sha: Option<&'a str>,
    pub conclusion: &'static str,
    pub coverage: &'a Coverage,
    /// Findings below the thresholds, which are not listed.
    pub below_thresholds: usize,
    /// The least important of more findings than one review may have, which are not listed either.
    pub beyond_the_most: usize,
    /// Findings that the model took back.
    pub withdrawn: usize,
}

/// One finding.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub confidence_score: f64,
    pub priority: u8,
    pub code_location: CodeLocation,
    /// Relative to the root of the repository.
    pub path: &'a str,
    pub fingerprint: &'a str,
    pub category: Category,
    /// Which version of the file the lines count in.
    pub side: Option<Side>,
    /// The quoted code was found on the diff; otherwise `line_range` is the model's guess.
    pub anchored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_anchored_because: Option<&'a str>,
    /// New, or known from an earlier review of the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fate: Option<FindingState>,
    pub quote: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<&'a str>,
    /// `reproduced`, or `read`.
    pub shown: &'static str,
    /// What was run to show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reproduction: Option<&'a str>,
    /// What a second look said: `pending` when there was none.
    pub verdict: Verdict,
}

/// Where a finding is.
#[derive(Debug, Serialize)]
pub struct CodeLocation {
    pub absolute_file_path: String,
    pub line_range: LineRange,
}

/// Both ends belong to it. Lines count from 1.
#[derive(Debug, Serialize)]
pub struct LineRange {
    pub start: u32,
    pub end: u32,
}

/// The file's content. `root` is the folder that absolute paths begin with.
pub fn findings<'a>(reviewed: &'a Reviewed, known: &[KnownFinding], root: &str) -> Findings<'a> {
    let rows = reviewed.findings.iter().map(|anchored| row(anchored, known, root)).collect();
    let is_grave = |found: &&Anchored| found.finding.priority <= Priority::P1;
    // The surest grave finding decides how sure the whole verdict is.
    let surest = reviewed
        .findings
        .iter()
        .filter(is_grave)
        .map(|found| sure(&found.finding))
        .reduce(f64::max);
    Findings {
        findings: rows,
        overall_correctness: match surest {
            Some(_) => "patch is incorrect",
            None => "patch is correct",
        },
        overall_explanation: &reviewed.summary,
        overall_confidence_score: surest.unwrap_or_else(|| part_read(&reviewed.coverage)),
        repository: reviewed.repository.to_string(),
        pull_request: reviewed.number,
        head_sha: &reviewed.head,
        base_sha: &reviewed.base,
        since_sha: reviewed.since.as_deref(),
        conclusion: reviewed.conclusion.word(),
        coverage: &reviewed.coverage,
        below_thresholds: reviewed.below,
        beyond_the_most: reviewed.dropped,
        withdrawn: reviewed.withdrawn,
    }
}

/// The part of the changed lines that was read, from 0 to 1.
fn part_read(coverage: &Coverage) -> f64 {
    if coverage.is_complete() {
        return 1.0;
    }
    let number = |lines: u64| f64::from(u32::try_from(lines).unwrap_or(u32::MAX));
    // Nothing was read and nothing could be counted, so there is no confidence.
    if coverage.lines == 0 {
        return 0.0;
    }
    (number(coverage.read_lines) / number(coverage.lines)).clamp(0.0, 1.0)
}

/// A finding's confidence, from 0 to 1 whatever the model wrote: neither format has a word for NaN.
pub(super) fn sure(finding: &Finding) -> f64 {
    if finding.confidence.is_nan() { 0.0 } else { finding.confidence.clamp(0.0, 1.0) }
}

fn row<'a>(anchored: &'a Anchored, known: &[KnownFinding], root: &str) -> Row<'a> {
    let finding = &anchored.finding;
    // The format requires a line; `anchored` tells that this one is a guess.
    let guess = finding.line.unwrap_or(1).max(1);
    let (path, side, start, end, why) = match &anchored.anchor {
        Anchor::Lines { path, side, line, start_line } => {
            (path.as_str(), Some(*side), start_line.unwrap_or(*line), *line, None)
        }
        Anchor::File { path, why } => (path.as_str(), None, guess, guess, Some(why.as_str())),
        Anchor::Nowhere { why } => (finding.path.as_str(), None, guess, guess, Some(why.as_str())),
    };
    let known = known.iter().find(|known| known.fingerprint == anchored.fingerprint);
    Row {
        title: &finding.title,
        body: &finding.body,
        confidence_score: sure(finding),
        priority: finding.priority.number(),
        code_location: CodeLocation {
            absolute_file_path: format!("{}/{path}", root.trim_end_matches('/')),
            line_range: LineRange { start, end },
        },
        path,
        fingerprint: &anchored.fingerprint,
        category: finding.category,
        side,
        anchored: matches!(anchored.anchor, Anchor::Lines { .. }),
        not_anchored_because: why,
        fate: known.map(|known| known.fate),
        quote: &finding.quote,
        replacement: finding.replacement.as_deref(),
        shown: finding.shown(),
        reproduction: finding.reproduction.as_deref(),
        verdict: finding.verdict,
    }
}

/// A finding as a line of a terminal.
pub fn line(anchored: &Anchored) -> String {
    let path = text::line(anchored.path());
    let place = match &anchored.anchor {
        Anchor::Lines { line, side: Side::Left, .. } => format!("{path}:{line} (deleted)"),
        Anchor::Lines { line, .. } => format!("{path}:{line}"),
        Anchor::File { .. } | Anchor::Nowhere { .. } => path,
    };
    let finding = &anchored.finding;
    format!("{} {place}: {}", finding.priority, text::line(&finding.title))
}

/// How much was found in how much, as a line of a terminal. `known` is what became of all findings.
pub fn headline(reviewed: &Reviewed, known: &[KnownFinding]) -> String {
    let found = found(reviewed, known);
    let is_earlier = |file: &&Skipped| file.why == SkippedBecause::Earlier;
    let unchanged = match reviewed.coverage.skipped.iter().filter(is_earlier).count() {
        0 => String::new(),
        1 => " (1 file is unchanged since an earlier review)".to_owned(),
        count => format!(" ({count} files are unchanged since an earlier review)"),
    };
    format!("{found}; read {}{unchanged}", review::read(&reviewed.coverage))
}

/// What was found, as far as the review came to a result.
fn found(reviewed: &Reviewed, known: &[KnownFinding]) -> String {
    let has_ended = matches!(
        reviewed.conclusion,
        Conclusion::Done | Conclusion::NothingToDo | Conclusion::Partial | Conclusion::Budget
    );
    if !has_ended && reviewed.findings.is_empty() {
        return "the review came to no result".to_owned();
    }
    let found = review::found(reviewed.findings.len(), reviewed.since.as_deref(), known);
    if review::is_without_reason(reviewed, known, None) {
        return format!("{found}, but {}", review::SAYS_NEEDS_WORK);
    }
    found
}

/// The file as text, indented, with a line end.
pub fn json(reviewed: &Reviewed, known: &[KnownFinding], root: &str) -> String {
    let json = serde_json::to_string_pretty(&findings(reviewed, known, root)).unwrap_or_default();
    // JSON escapes control characters only. Invisible and bidirectional characters are escaped too,
    // so that the file shows what it says.
    let hidden = |c: char| text::is_deceptive(c) && c != '\n';
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out.push('\n');
    out
}
