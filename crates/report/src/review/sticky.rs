//! The one comment on a pull request that is edited in place: the verdict, what became of every
//! finding, and what the next review has to remember.

use std::fmt::Write as _;

use super::{
    ROOM, beyond, details, is_anything, is_whole, open, origin, plural, scope, shortfall, skipped,
    state, title,
};
use crate::pr_body::is_plain_url;
use crate::{self as report, sections};
use patchwright_base::text;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::incremental::{FindingState, KnownFinding, Memory};
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
    // The table comes last to be cut: it is what the next reader needs, the sections are also in
    // the review.
    for (rows, sections) in [(MAX_ROWS, 3), (MAX_ROWS, 2), (MAX_ROWS, 1), (MAX_ROWS, 0), (15, 0)] {
        out = assembled(sticky, rows, sections);
        if out.chars().count() <= room {
            break;
        }
    }
    format!("{}\n\n{end}", out.trim_end())
}

/// Rows of the table.
const MAX_ROWS: usize = 80;

fn assembled(sticky: &Sticky<'_>, rows: usize, sections: usize) -> String {
    let reviewed = sticky.reviewed;
    let mut out = format!("### Patchwright review: {}\n\n", verdict(sticky));
    let _ = writeln!(out, "{}\n", scope(reviewed));
    if let Some(shortfall) = shortfall(reviewed) {
        let _ = writeln!(out, "> [!WARNING]\n> This review is not complete. {shortfall}\n");
    }
    for remark in sticky.remarks {
        let _ = writeln!(out, "> [!NOTE]\n> {}\n", remark.replace('\n', " "));
    }
    if sticky.memory.paused {
        let _ = writeln!(
            out,
            "Reviews of this pull request are paused; `@{} review` starts one.\n",
            report::plain(sticky.mention)
        );
    }
    out.push_str(&rows_of(reviewed, sticky.known, sticky.links, rows));
    out.push('\n');
    if let Some(url) = sticky.review_url.filter(|url| is_plain_url(url)) {
        let _ = writeln!(out, "[The latest review with comments]({url})\n");
    }
    if reviewed.below > 0 {
        let below = plural(reviewed.below, "finding");
        let _ = writeln!(out, "Not shown: {below} below the configured thresholds.\n");
    }
    if reviewed.dropped > 0 {
        let dropped = plural(reviewed.dropped, "finding");
        let _ = writeln!(
            out,
            "Not shown: {dropped} {}\n",
            beyond().trim_end_matches(',').to_owned() + "."
        );
    }
    let all = [
        ("Checks", sections::evidence(&reviewed.evidence)),
        ("What was not read", skipped(&reviewed.coverage)),
        ("Cost, model and where this comes from", origin(reviewed)),
    ];
    let filled = all.iter().filter(|(_, text)| !text.trim().is_empty());
    for (summary, content) in filled.clone().take(sections) {
        out.push_str(&details(summary, content));
    }
    let left: Vec<&str> = filled.skip(sections).map(|(summary, _)| *summary).collect();
    if !left.is_empty() {
        let _ = writeln!(out, "*Left out for want of room: {}.*\n", left.join("; "));
    }
    let name = report::plain(sticky.mention);
    let _ = writeln!(
        out,
        "Answer in a thread to discuss a finding, resolve it or reply `@{name} ignore` to dismiss it; \
         `@{name} help` lists what else can be asked for."
    );
    out
}

fn verdict(sticky: &Sticky<'_>) -> String {
    let reviewed = sticky.reviewed;
    let count = open(sticky.known).count();
    let counts = super::counts(open(sticky.known).map(|known| known.priority));
    match count {
        0 if !is_anything(reviewed) => "nothing was read".to_owned(),
        0 if is_whole(reviewed) => "no open findings".to_owned(),
        0 => "no open findings in what was read".to_owned(),
        count => format!("{} ({counts})", plural(count, "open finding")),
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
        // Only findings of this review have a line number that is right for the current head.
        let now = reviewed.findings.iter().find(|now| now.fingerprint == finding.fingerprint);
        let words = title(&finding.title, 120);
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
    match now.map(|now| &now.anchor) {
        Some(Anchor::Lines { line, .. }) => text::code_cell(&format!("{path}:{line}")),
        Some(Anchor::File { .. } | Anchor::Nowhere { .. }) | None => text::code_cell(&path),
    }
}
