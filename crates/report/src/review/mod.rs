//! Every word of a review: comments on lines, the body, the sticky comment, the check.
//!
//! Pure functions from [`Reviewed`] and what became of its findings to Markdown. What the model wrote
//! goes through [`words`]: it notifies nobody, closes nothing, loads nothing, and no line of it is a
//! command to another bot.

pub mod body;
pub mod check;
pub mod claim;
pub mod inline;
pub mod kept_words;
pub mod limit;
pub mod state;
pub mod sticky;
pub mod unreviewed;

use std::fmt::Write as _;

use self::kept_words::KeptWords;
use super::origin::{self, Origin};
use super::{MAX_BODY, markdown, sections};
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::{MOST_FINDINGS, Priority};
use patchwright_review::incremental::{FindingState, KnownFinding};
use patchwright_review::overall::{self, OverallVerdict};
use patchwright_types::evidence::newly_failing;
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::{Coverage, Reviewed, Skipped, SkippedBecause};

/// Characters that our texts stay below, so that a marker always fits.
pub(super) const ROOM: usize = MAX_BODY - 1000;

/// What finds our review and our sticky comment: [`super::marker`] with this purpose.
pub const PURPOSE: &str = "review";

/// Which review a body belongs to, in a form that survives where HTML comments do not.
pub fn reference_marker(run: &str) -> String {
    format!("[//]: # (patchwright:{PURPOSE} run={} v=1)", super::plain(run))
}

/// A review's body belongs to this run.
pub fn is_of_run(body: &str, run: &str) -> bool {
    let markers = [super::marker(PURPOSE, run), reference_marker(run)];
    let ends = patchwright_forge::marker::ending(body);
    ends.iter().any(|line| markers.iter().any(|marker| line.trim() == marker))
}

/// The first seven characters of a commit id.
pub fn short(sha: &str) -> &str {
    sha.get(..7).unwrap_or(sha)
}

/// The model's Markdown, safe in a comment, at most `most` bytes of it.
pub fn words(untrusted: &str, most: usize) -> String {
    let passage = markdown::passage(untrusted, most);
    let mut out = String::with_capacity(passage.len());
    let mut fence: Option<&str> = None;
    for line in passage.lines() {
        // Fences are tracked, because a backslash in front of a command would be visible in code.
        let run = &line[..line.len() - line.trim_start_matches('`').len()];
        let is_code = fence.is_some();
        match fence {
            Some(open) if line.trim_end() == open => fence = None,
            None if run.len() >= 3 => fence = Some(run),
            _ => {}
        }
        // Bots also accept a command behind the marks of quotations and lists.
        let start = line.trim_start_matches([' ', '\t', '>', '*', '-']);
        if is_command(start) {
            // Other bots run a command such as `/approve` at the start of a line, some of them in
            // code too.
            out.push_str(&line[..line.len() - start.len()]);
            out.push_str(if is_code { " " } else { "\\" });
            out.push_str(start);
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// `/word` alone or before a blank: a path continues with another `/` or a dot.
fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let word = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c));
    word.len() < rest.len() && (word.is_empty() || word.starts_with(char::is_whitespace))
}

/// Part of a line in which nothing acts, at most `most` characters. What stands between backticks is code.
pub(super) fn title(untrusted: &str, most: usize) -> String {
    titled(untrusted, most, text::code)
}

/// [`title`] for a cell of a table.
pub(super) fn title_cell(untrusted: &str, most: usize) -> String {
    titled(untrusted, most, text::code_cell)
}

fn titled(untrusted: &str, most: usize, code: fn(&str) -> String) -> String {
    let line = text::cut(&text::line(untrusted), most);
    let parts: Vec<&str> = line.split('`').collect();
    let (mut out, mut words) = (String::new(), String::new());
    for (at, part) in parts.iter().enumerate() {
        // Every other part is between two backticks, but for one that nothing closes.
        let is_code = at % 2 == 1 && at + 1 < parts.len();
        match if is_code { code(part) } else { String::new() } {
            // Words are escaped together: `@` and a name must not meet afterwards.
            span if span.is_empty() => words.push_str(part),
            span => {
                out.push_str(&text::escape(&std::mem::take(&mut words)));
                out.push_str(&span);
            }
        }
    }
    out.push_str(&text::escape(&words));
    if is_command(&out) { format!("\\{out}") } else { out }
}

/// `**P1 · bug** Title`.
pub(super) fn heading(anchored: &Anchored) -> String {
    let finding = &anchored.finding;
    let title = title(&finding.title, 200);
    format!("**{} · {}** {title}", finding.priority, finding.category.word())
}

/// Where a finding is, as a code span; of deleted lines it says so, because their numbers are those of the old file.
pub(super) fn place(anchored: &Anchored) -> String {
    let (path, lines, side) = match &anchored.anchor {
        Anchor::Lines { path, line, start_line: Some(start), side } => {
            (path, format!(":{start}-{line}"), Some(*side))
        }
        Anchor::Lines { path, line, side, .. } => (path, format!(":{line}"), Some(*side)),
        Anchor::File { path, .. } => (path, String::new(), None),
        Anchor::Nowhere { .. } => (&anchored.finding.path, String::new(), None),
    };
    let place = text::code(&format!("{path}{lines}"));
    if side == Some(Side::Left) { format!("{place}{OLD_LINES}") } else { place }
}

/// Stands behind a place whose lines the change deletes.
pub(super) const OLD_LINES: &str = " (deleted)";

/// `1 × P0, 2 × P2`; empty without findings.
pub fn counts(priorities: impl IntoIterator<Item = Priority>) -> String {
    let mut numbers = [0usize; 4];
    for priority in priorities {
        if let Some(number) = numbers.get_mut(usize::from(priority.number())) {
            *number += 1;
        }
    }
    let parts: Vec<String> = numbers
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(priority, count)| format!("{count} × P{priority}"))
        .collect();
    parts.join(", ")
}

/// Which findings a review has too many of.
pub(super) fn beyond() -> String {
    format!("beyond the {MOST_FINDINGS} of one review, the least important,")
}

/// `1 finding`, `2 findings`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// How much a review has found, in words: `count` by itself, after one at the commit `since`, with what became of all
/// findings. What is still open is no less open because nobody said it again.
pub fn found(count: usize, since: Option<&str>, known: &[KnownFinding]) -> String {
    let of = |fate: FindingState| known.iter().filter(move |known| known.fate == fate);
    let some = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        count => plural(count, noun),
    };
    let still = of(FindingState::Still).count();
    if still > 0 {
        let counts = counts(of(FindingState::Still).map(|known| known.priority));
        let new = some(of(FindingState::New).count(), "new finding");
        return format!("{new}, {still} still open ({counts})");
    }
    let is_later = since.is_some() || !known.is_empty();
    some(count, if count == 0 && is_later { "new finding" } else { "finding" })
}

/// What is neither fixed nor dismissed.
pub fn open(known: &[KnownFinding]) -> impl Iterator<Item = &KnownFinding> {
    known.iter().filter(|known| matches!(known.fate, FindingState::New | FindingState::Still))
}

/// Whether the model says that the change needs work, and nothing that was found is a reason for it: no finding, none that
/// is not shown, and no check that the change breaks. Where no model was asked, what one said before and gave no reason
/// for is `kept`.
pub fn is_without_reason(
    reviewed: &Reviewed,
    known: &[KnownFinding],
    kept: Option<&KeptWords>,
) -> bool {
    let said = match (reviewed.conclusion, kept) {
        (Conclusion::NothingToDo, Some(kept)) if known.is_empty() => kept.verdict(),
        _ => overall::said(&reviewed.summary),
    };
    said == Some(OverallVerdict::NeedsWork)
        && open(known).next().is_none()
        && reviewed.below == 0
        && reviewed.dropped == 0
        && newly_failing(&reviewed.evidence).is_empty()
}

/// The heading where [`is_without_reason`] holds.
pub(crate) const SAYS_NEEDS_WORK: &str = "the model says that it needs work";

/// Whether the review looked at everything that it was to look at.
pub fn is_whole(reviewed: &Reviewed) -> bool {
    use patchwright_types::outcome::Conclusion::{Done, NothingToDo};
    matches!(reviewed.conclusion, Done | NothingToDo) && reviewed.coverage.is_complete()
}

/// Whether there was nothing to look at, because the operator's rules leave all of it out.
pub fn is_left_out(skipped: &[Skipped]) -> bool {
    !skipped.is_empty() && skipped.iter().all(|file| file.why == SkippedBecause::Filtered)
}

/// Whether anything was looked at, now or at an earlier commit.
pub fn is_anything(reviewed: &Reviewed) -> bool {
    let earlier = |file: &Skipped| file.why == SkippedBecause::Earlier;
    reviewed.coverage.read_files > 0 || reviewed.coverage.skipped.iter().any(earlier)
}

/// `12 of 14 changed files, 830 of 912 changed lines`.
pub fn read(coverage: &Coverage) -> String {
    format!(
        "{} of {}, {} of {} changed lines",
        coverage.read_files,
        plural(coverage.files, "changed file"),
        coverage.read_lines,
        coverage.lines
    )
}

/// What was read, at which commit, since which.
pub(super) fn scope(reviewed: &Reviewed) -> String {
    let mut out = format!("Read at `{}`", plain_sha(&reviewed.head));
    if let Some(since) = &reviewed.since {
        let _ = write!(out, ", changes since `{}` only", plain_sha(since));
    }
    let _ = write!(out, ": {}.", read(&reviewed.coverage));
    out
}

pub(super) fn plain_sha(sha: &str) -> String {
    short(sha).chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Why the review is not a whole one; `None` when it is.
pub(super) fn shortfall(reviewed: &Reviewed) -> Option<String> {
    use patchwright_types::outcome::Conclusion::{Done, NothingToDo, Partial};
    let unread = unread(&reviewed.coverage);
    let unread = (unread > 0).then(|| format!("{} not read.", was(unread, "changed file")));
    let why = match (&reviewed.reason, reviewed.conclusion) {
        (_, Done | NothingToDo) => return unread,
        // It says how much was not read.
        (Some(reason), Partial) => return Some(sentence(reason)),
        (Some(reason), _) => sentence(reason),
        (None, conclusion) => format!("It ended early: {}.", sections::state(conclusion)),
    };
    Some(unread.map_or(why.clone(), |unread| format!("{why} {unread}")))
}

fn sentence(reason: &str) -> String {
    let mut chars = reason.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{}.", text::inline(&format!("{first}{}", chars.as_str())).trim_end_matches('.'))
}

fn was(count: usize, noun: &str) -> String {
    format!("{} {}", plural(count, noun), if count == 1 { "was" } else { "were" })
}

pub(super) fn unread(coverage: &Coverage) -> usize {
    coverage.skipped.iter().filter(|file| file.why.is_shortfall()).count()
}

/// What was not read and why: counts, and the first names of each reason.
pub(super) fn skipped(coverage: &Coverage) -> String {
    not_read(&coverage.skipped)
}

/// Files that were not read and why: counts, and the first names of each reason.
fn not_read(skipped: &[Skipped]) -> String {
    const NAMES: usize = 20;
    let reasons = [
        (SkippedBecause::NotRead, "not looked at"),
        (SkippedBecause::TooLarge, "too large to be shown"),
        (SkippedBecause::ByPackage, "told by package instead of line by line (lock files)"),
        (SkippedBecause::LockFile, "whose lines were not read (lock files)"),
        (SkippedBecause::NotText, "without text to read (binary)"),
        (SkippedBecause::Submodule, "of submodules, whose code nobody has read here"),
        (SkippedBecause::Filtered, "left out by `review.paths` or `review.ignore-paths`"),
        (SkippedBecause::Earlier, "unchanged since an earlier review"),
    ];
    let mut out = String::new();
    for (why, words) in reasons {
        let files: Vec<&Skipped> = skipped.iter().filter(|f| f.why == why).collect();
        if files.is_empty() {
            continue;
        }
        let names: Vec<String> =
            files.iter().take(NAMES).map(|f| text::code(&text::cut(&f.path, 150))).collect();
        let more = files.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let count = plural(files.len(), "file");
        let _ = writeln!(out, "- {count} {words}: {}{more}", names.join(", "));
    }
    out
}

/// A section that opens when people want it; empty without text.
pub(super) fn details(summary: &str, content: &str) -> String {
    if content.trim().is_empty() {
        return String::new();
    }
    format!("<details><summary>{summary}</summary>\n\n{}\n\n</details>\n\n", content.trim_end())
}

/// Notes that do not stand among the `shown` first ones about the input.
fn further_notes(reviewed: &Reviewed, shown: usize) -> impl Iterator<Item = &String> {
    let said = &reviewed.provenance.input_notes;
    let said = &said[..said.len().min(shown)];
    reviewed.notes.iter().filter(|note| !said.contains(note)).take(40)
}

/// Cost and provenance of a review, in full.
pub(super) fn origin(reviewed: &Reviewed) -> String {
    let mut out = format!("{}\n\n", sections::cost(&reviewed.spending));
    out.push_str(&sections::provenance(&reviewed.run, &reviewed.provenance));
    for note in further_notes(reviewed, sections::MAX_ROWS) {
        let _ = writeln!(out, "- Note: {}", text::inline(note));
    }
    out
}

/// Cost and provenance of a review in a few words, folded.
pub(super) fn origin_in_short(reviewed: &Reviewed) -> String {
    let mut more = origin::enforced(&reviewed.provenance);
    for note in further_notes(reviewed, origin::MAX_ROWS) {
        let _ = writeln!(more, "- Note: {}", text::inline(note));
    }
    let Reviewed { run, spending, provenance, .. } = reviewed;
    origin::folded(&Origin { run, spending, provenance, more: &more }) + "\n"
}

/// A text of ours, cut to at most `most` bytes, with what the cut left open closed.
pub(super) fn cut(out: &str, most: usize) -> String {
    if out.len() <= most {
        return out.to_owned();
    }
    super::pr_body::closed(&text::head(out, most.saturating_sub(1000)))
}
