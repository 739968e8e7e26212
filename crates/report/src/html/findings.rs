//! What a review found: a card for each finding with its code, and what was read.

use maud::{Markup, html};

use super::diff::{self, DiffRow};
use super::{Pages, markdown, shown};
use crate::review::inline;
use crate::sarif::encoded;
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::Verdict;
use patchwright_types::reviewed::{Coverage, Reviewed, SkippedBecause};

/// Bytes of all findings, and of one text of a finding.
const MAX_BYTES: usize = 400 << 10;
const MAX_TEXT: usize = 12 << 10;
/// Bytes of what was run to show a finding.
const MAX_REPRODUCTION: usize = 4 << 10;
/// Lines of code of one side.
const MAX_LINES: usize = 200;
/// Findings and files that are listed.
const MAX_FINDINGS: usize = 300;
const MAX_FILES: usize = 200;

/// The cards, the most important first.
pub(super) fn section(reviewed: &Reviewed, pages: &Pages) -> Markup {
    let found = &reviewed.findings[..reviewed.findings.len().min(MAX_FINDINGS)];
    let weight = |found: &Anchored| {
        let Anchored { finding, suggestion, .. } = found;
        let code = suggestion.iter().chain(&finding.replacement).chain([&finding.quote]);
        code.map(|it| (shown::weight(it) * 3).min(MAX_TEXT)).sum::<usize>()
            + (shown::weight(&finding.body) * markdown::GROWTH).min(MAX_TEXT)
            + finding
                .reproduction
                .as_ref()
                .map_or(0, |it| shown::weight(it) * markdown::GROWTH)
                .min(MAX_TEXT)
    };
    let most = shown::fair_share(found.iter().map(weight).collect(), MAX_BYTES).min(MAX_TEXT) / 3;
    html! {
        @if found.is_empty() { p { "Nothing was found." } }
        @for (at, anchored) in found.iter().enumerate() { (card(anchored, at, reviewed, pages, most)) }
        @if reviewed.findings.len() > found.len() { p { "and " (reviewed.findings.len() - found.len()) " more" } }
        @if reviewed.below > 0 { p class="soft" { (shown::plural(reviewed.below, "finding")) " below the thresholds." } }
        @if reviewed.withdrawn > 0 {
            p class="soft" { (shown::plural(reviewed.withdrawn, "finding")) " withdrawn by the model." }
        }
        @if reviewed.dropped > 0 {
            p class="soft" { (shown::plural(reviewed.dropped, "finding")) " beyond the most that a review may have." }
        }
        (coverage(&reviewed.coverage))
        @for note in reviewed.notes.iter().take(MAX_FILES) { p class="soft" { (text::line(note)) } }
    }
}

fn card(anchored: &Anchored, at: usize, reviewed: &Reviewed, pages: &Pages, most: usize) -> Markup {
    let finding = &anchored.finding;
    let priority = finding.priority.number();
    let tone = ["bad", "bad", "warn", "idle"][usize::from(priority).min(3)];
    let confidence = (finding.confidence.clamp(0.0, 1.0) * 100.0).round();
    html! {
        article class="finding" id={ "finding-" (at + 1) } {
            h3 { span class={ "mark " (tone) } { (finding.priority) } " " (text::line(&finding.title)) }
            p class="soft" {
                (place(anchored, reviewed, pages)) " · " (finding.category.word()) " · " (confidence) " % sure · " (finding.shown())
                @match finding.verdict {
                    Verdict::Confirmed => " · confirmed",
                    Verdict::Unconfirmed => " · not confirmed",
                    Verdict::Pending | Verdict::Withdrawn => "",
                }
            }
            @if let Some(note) = anchored.note() { (markdown::passage(&note, 1_000)) }
            (code(anchored, most))
            (markdown::passage(&finding.body, most))
            @if let Some(shown) = inline::reproduced(finding) {
                details {
                    summary { "Reproduced" }
                    (markdown::passage(&shown, most.min(MAX_REPRODUCTION)))
                }
            }
        }
    }
}

/// Where it is, as far as that is known.
fn place(anchored: &Anchored, reviewed: &Reviewed, pages: &Pages) -> Markup {
    let path = anchored.path();
    let words = |lines: &str| html! { code { (text::line(path)) (lines) } };
    match &anchored.anchor {
        Anchor::Lines { side, line, start_line, .. } => {
            let first = start_line.unwrap_or(*line);
            let (lines, part) = if first == *line {
                (format!(":{line}"), format!("#L{line}"))
            } else {
                (format!(":{first}–{line}"), format!("#L{first}-L{line}"))
            };
            let commit = match side {
                Side::Right => &reviewed.head,
                Side::Left => &reviewed.base,
            };
            let page = pages.below("blob", &format!("{commit}/{}{part}", encoded(path)));
            html! {
                (shown::link(page.as_deref(), &words(&lines)))
                @if *side == Side::Left { " (before)" }
            }
        }
        Anchor::File { why, .. } | Anchor::Nowhere { why } => {
            html! { (words("")) " (" (text::line(why)) ")" }
        }
    }
}

/// The quoted code with its numbers; with a suggestion, what would change.
fn code(anchored: &Anchored, most: usize) -> Markup {
    let finding = &anchored.finding;
    let first = match &anchored.anchor {
        Anchor::Lines { line, start_line, .. } => start_line.unwrap_or(*line),
        Anchor::File { .. } | Anchor::Nowhere { .. } => finding.line.unwrap_or(1),
    };
    let first = usize::try_from(first).unwrap_or(1);
    let wanted = anchored.suggestion.as_ref().or(finding.replacement.as_ref());
    let old = text::head(&finding.quote, most);
    let new = text::head(wanted.map_or("", String::as_str), most);
    let rows: Vec<DiffRow<'_>> = if wanted.is_some() {
        let removed =
            old.lines().take(MAX_LINES).zip(first..).map(|(text, at)| DiffRow::Removed(at, text));
        removed
            .chain(
                new.lines().take(MAX_LINES).zip(first..).map(|(text, at)| DiffRow::Added(at, text)),
            )
            .collect()
    } else {
        old.lines()
            .take(MAX_LINES)
            .zip(first..)
            .map(|(text, at)| DiffRow::Same(at, at, text))
            .collect()
    };
    html! {
        @if !rows.is_empty() {
            @if wanted.is_some() { p class="label" { "Suggestion" } }
            (diff::table(&rows, "The code"))
        }
    }
}

/// What was read, and what was not.
fn coverage(coverage: &Coverage) -> Markup {
    let why = |why: SkippedBecause| match why {
        SkippedBecause::Filtered => "filtered",
        SkippedBecause::NotText => "not text",
        SkippedBecause::Submodule => "a submodule, whose code is elsewhere",
        SkippedBecause::Earlier => "reviewed before",
        SkippedBecause::ByPackage => "a lock file, told by package",
        SkippedBecause::LockFile => "a lock file, not read",
        SkippedBecause::TooLarge => "too large",
        SkippedBecause::NotRead => "not read",
    };
    html! {
        p class="soft" {
            (coverage.read_files) " of " (shown::plural(coverage.files, "file")) " read, " (coverage.read_lines) " of "
            (coverage.lines) " changed lines."
        }
        @if !coverage.skipped.is_empty() {
            details class="call" {
                summary { span class="tool" { "Not read" } " (" (coverage.skipped.len()) ")" }
                ul class="names" {
                    @for file in coverage.skipped.iter().take(MAX_FILES) {
                        li { code { (text::line(&file.path)) } " (" (why(file.why)) ", " (file.lines) " lines)" }
                    }
                    @if coverage.skipped.len() > MAX_FILES { li { "and " (coverage.skipped.len() - MAX_FILES) " more" } }
                }
            }
        }
    }
}
