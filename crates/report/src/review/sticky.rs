//! The one comment on a pull request that is edited in place: the verdict, the model's words, what became
//! of every finding, coverage, checks and cost, and what the next review has to remember. What stands here
//! stands in no review's body and in no check.

use std::fmt::Write as _;

use super::kept_words::{self, KeptWords};
use super::{
    OLD_LINES, ROOM, SAYS_NEEDS_WORK, beyond, details, is_anything, is_left_out, is_whole,
    is_without_reason, open, origin_in_short, plural, scope, shortfall, skipped, state, title_cell,
    words,
};
use crate::pr_body::is_plain_url;
use crate::{self as report, sections};
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::Verdict;
use patchwright_review::incremental::{CodeLocation, FindingState, KnownFinding, Memory};
use patchwright_types::evidence::newly_failing;
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::Reviewed;

/// What the comment is made of.
pub struct Sticky<'a> {
    pub reviewed: &'a Reviewed,
    /// New first, then still there, fixed, dismissed.
    pub known: &'a [KnownFinding],
    /// Fingerprint and address of the thread of a finding.
    pub links: &'a dyn Fn(&str) -> Option<String>,
    /// Findings that are in a review's body only.
    pub review_url: Option<&'a str>,
    /// What a model said of an earlier commit, for a review that asked none.
    pub kept: Option<&'a KeptWords>,
    /// Sentences of ours that people should know first.
    pub remarks: &'a [String],
    /// What the next review starts from.
    pub memory: &'a Memory,
    /// The name after `@`.
    pub mention: &'a str,
}

/// The comment, with its marker and its memory. What does not fit is cut with a count; marker and
/// memory always stay.
pub fn comment(sticky: &Sticky<'_>) -> String {
    let end = format!(
        "{}\n\n{}\n",
        report::marker(super::PURPOSE, &sticky.reviewed.run),
        state::line(sticky.memory)
    );
    let room = ROOM.saturating_sub(end.len());
    let mut out = String::new();
    // The table comes last to be cut: it is what the next reader needs.
    for budget in BUDGETS {
        out = assembled(sticky, budget);
        if out.chars().count() <= room {
            break;
        }
    }
    format!("{}\n\n{end}", out.trim_end())
}

/// Rows of the table.
const MAX_ROWS: usize = 80;
/// Bytes of the model's words that stand open.
const OPEN_WORDS: usize = 1000;

/// How much of what may be shortened is shown.
struct Budget {
    rows: usize,
    /// Folded sections.
    sections: usize,
    /// Bytes of the model's words.
    words: usize,
}

const BUDGETS: &[Budget] = &[
    Budget { rows: MAX_ROWS, sections: 3, words: 8000 },
    Budget { rows: MAX_ROWS, sections: 2, words: 2000 },
    Budget { rows: MAX_ROWS, sections: 1, words: 500 },
    Budget { rows: MAX_ROWS, sections: 0, words: 0 },
    Budget { rows: 15, sections: 0, words: 0 },
];

fn assembled(sticky: &Sticky<'_>, budget: &Budget) -> String {
    let reviewed = sticky.reviewed;
    let mut out = format!("### Patchwright review: {}\n\n", verdict(sticky));
    if let Some(shortfall) = shortfall(reviewed) {
        let _ = writeln!(out, "> [!WARNING]\n> This review is not complete. {shortfall}\n");
    }
    for remark in sticky.remarks {
        let _ = writeln!(out, "> [!NOTE]\n> {}\n", remark.replace('\n', " "));
    }
    let name = report::plain(sticky.mention);
    if sticky.memory.paused {
        let _ = writeln!(
            out,
            "Reviews of this pull request are paused; `@{name} review` starts one.\n"
        );
    }
    out.push_str(&summary(sticky, budget.words));
    let table = rows_of(reviewed, sticky.known, sticky.links, budget.rows);
    if !table.is_empty() {
        let _ = writeln!(out, "{table}");
    }
    out.push_str(&coverage(sticky));
    out.push_str(&folded(reviewed, budget.sections));
    if !sticky.known.is_empty() {
        let _ = writeln!(
            out,
            "<sub>Reply in a thread to discuss a finding; resolve it or reply `@{name} ignore` to dismiss it. \
             `@{name} help` lists more.</sub>"
        );
    }
    out
}

/// The model's words, folded when they are many. A review that asked no model has those of the last one that did.
fn summary(sticky: &Sticky<'_>, most: usize) -> String {
    let reviewed = sticky.reviewed;
    let words = if most == 0 { String::new() } else { words(&reviewed.summary, most) };
    let said = match words.trim() {
        "" if reviewed.conclusion == Conclusion::NothingToDo => {
            return sticky.kept.map(|kept| kept.again(most)).unwrap_or_default();
        }
        "" => return String::new(),
        few if few.len() <= OPEN_WORDS => format!("{few}\n\n{}", sections::BY_MODEL),
        many => details("What the model says about the change", many),
    };
    kept_words::kept(&reviewed.head, &said)
}

/// What was read, what is not shown, and where the comments are.
fn coverage(sticky: &Sticky<'_>) -> String {
    let reviewed = sticky.reviewed;
    let mut out = scope(reviewed);
    if reviewed.evidence.rows.is_empty() {
        out.push_str(" No checks ran.");
    }
    if reviewed.below > 0 {
        let below = plural(reviewed.below, "finding");
        let _ = write!(out, " Not shown: {below} below the configured thresholds.");
    }
    if reviewed.dropped > 0 {
        let dropped = plural(reviewed.dropped, "finding");
        let _ = write!(out, " Not shown: {dropped} {}.", beyond().trim_end_matches(','));
    }
    if reviewed.withdrawn > 0 {
        let withdrawn = plural(reviewed.withdrawn, "finding");
        let _ = write!(out, " A second look withdrew {withdrawn}.");
    }
    let is_unconfirmed = |one: &&Anchored| one.finding.verdict == Verdict::Unconfirmed;
    match reviewed.findings.iter().filter(is_unconfirmed).count() {
        0 => {}
        count => {
            let _ = write!(out, " Not confirmed by a second look: {}.", plural(count, "finding"));
        }
    }
    if let Some(url) = sticky.review_url.filter(|url| is_plain_url(url)) {
        let _ = write!(out, " [Latest review]({url})");
    }
    out + "\n\n"
}

/// What opens when people want it, the most important first.
fn folded(reviewed: &Reviewed, most: usize) -> String {
    let evidence = &reviewed.evidence;
    let checks = match evidence.rows.as_slice() {
        [] => String::new(),
        _ => details(&sections::checks(evidence), &sections::evidence(evidence)),
    };
    // What the change breaks is the first thing that people have to see.
    let checks = match newly_failing(evidence).len() {
        0 => checks,
        _ => checks.replacen("<details>", "<details open>", 1),
    };
    let all = [
        ("checks", checks),
        ("what was not read", details("What was not read", &skipped(&reviewed.coverage))),
        ("cost and model", origin_in_short(reviewed)),
    ];
    let filled = all.iter().filter(|(_, text)| !text.is_empty());
    let mut out: String = filled.clone().take(most).map(|(_, text)| text.as_str()).collect();
    let left: Vec<&str> = filled.skip(most).map(|(name, _)| *name).collect();
    if !left.is_empty() {
        let _ = writeln!(out, "*Left out for want of room: {}.*\n", left.join(", "));
    }
    out
}

fn verdict(sticky: &Sticky<'_>) -> String {
    let reviewed = sticky.reviewed;
    let count = open(sticky.known).count();
    let counts = super::counts(open(sticky.known).map(|known| known.priority));
    let findings = match count {
        0 if is_left_out(&reviewed.coverage.skipped) => "nothing to review".to_owned(),
        0 if !is_anything(reviewed) => "nothing was read".to_owned(),
        0 if is_without_reason(reviewed, sticky.known, sticky.kept) => {
            format!("no open findings, but {SAYS_NEEDS_WORK}")
        }
        0 if is_whole(reviewed) => "no open findings".to_owned(),
        0 => "no open findings in what was read".to_owned(),
        count => format!("{} ({counts})", plural(count, "open finding")),
    };
    match newly_failing(&reviewed.evidence).len() {
        0 => findings,
        1 => format!("{findings}, 1 check fails that did not fail before"),
        several => format!("{findings}, {several} checks fail that did not fail before"),
    }
}

/// What became of the findings, as a table; empty without findings.
pub fn table(
    reviewed: &Reviewed,
    known: &[KnownFinding],
    links: &dyn Fn(&str) -> Option<String>,
) -> String {
    rows_of(reviewed, known, links, MAX_ROWS)
}

fn rows_of(
    reviewed: &Reviewed,
    known: &[KnownFinding],
    links: &dyn Fn(&str) -> Option<String>,
    rows: usize,
) -> String {
    if known.is_empty() {
        return String::new();
    }
    let mut out = String::from("| | Finding | Where | Since |\n|---|---|---|---|\n");
    for finding in known.iter().take(rows) {
        let now = reviewed.findings.iter().find(|now| now.fingerprint == finding.fingerprint);
        let words = title_cell(&finding.title, 120);
        let words = match links(&finding.fingerprint).filter(|url| is_plain_url(url)) {
            Some(url) => format!("[{words}]({url})"),
            None => words,
        };
        let _ = writeln!(
            out,
            "| {} | **{}** {words} | {} | `{}` |",
            fate(finding.fate),
            finding.priority,
            place(finding, now),
            super::plain_sha(&finding.since)
        );
    }
    if known.len() > rows {
        let left = &known[rows..];
        let of = |fate: FindingState| left.iter().filter(|known| known.fate == fate).count();
        let _ = writeln!(
            out,
            "\n… and {} more: {} new, {} still there, {} fixed, {} dismissed.",
            left.len(),
            of(FindingState::New),
            of(FindingState::Still),
            of(FindingState::Fixed),
            of(FindingState::Dismissed)
        );
    }
    out
}

fn fate(fate: FindingState) -> &'static str {
    match fate {
        FindingState::New => "🆕 new",
        FindingState::Still => "⏳ still there",
        FindingState::Fixed => "✅ fixed",
        FindingState::Dismissed => "🚫 dismissed",
    }
}

fn place(known: &KnownFinding, now: Option<&Anchored>) -> String {
    let path = text::cut(&text::line(&known.path), 120);
    let (line, is_old) = match now.map(|now| &now.anchor) {
        Some(Anchor::Lines { line, side, .. }) => (Some(*line), *side == Side::Left),
        // An older one has the line on which its code stands now.
        Some(Anchor::File { .. } | Anchor::Nowhere { .. }) | None => {
            (known.line, known.code == CodeLocation::Deleted)
        }
    };
    let place = match line {
        Some(line) => text::code_cell(&format!("{path}:{line}")),
        None => text::code_cell(&path),
    };
    if is_old { format!("{place}{OLD_LINES}") } else { place }
}
