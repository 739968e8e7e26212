//! A comment on lines of the diff: what is wrong, why, and what could stand there instead.

use super::{ROOM, heading, words};
use patchwright_base::redact::keys;
use patchwright_base::text;
use patchwright_review::anchor::Anchored;
use patchwright_review::finding::{Finding, Verdict};
use patchwright_review::suggestion;

/// Longest replacement that is offered, in characters.
const SUGGESTION: usize = 20_000;
/// Characters of what was run to show a finding.
const REPRODUCTION: usize = 4_000;

/// The line by which an inline comment's finding is known again.
pub fn marker(fingerprint: &str) -> String {
    format!("<!-- patchwright:finding fp={} v=1 -->", crate::plain(fingerprint))
}

/// The fingerprint that a comment of ours ends with.
pub fn fingerprint(body: &str) -> Option<&str> {
    patchwright_forge::marker::ending(body).into_iter().rev().find_map(|line| {
        let inside = line.trim().strip_prefix("<!-- patchwright:finding fp=")?;
        let fingerprint = inside.strip_suffix(" v=1 -->")?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (!fingerprint.is_empty() && fingerprint.chars().all(is_plain)).then_some(fingerprint)
    })
}

/// The comment, with its marker.
pub fn comment(anchored: &Anchored, suggestions: bool) -> String {
    let suggestion = anchored.suggestion.as_deref().filter(|_| suggestions);
    let suggestion = suggestion.and_then(suggestion_block).unwrap_or_default();
    let marker = marker(&anchored.fingerprint);
    let is_unconfirmed = anchored.finding.verdict == Verdict::Unconfirmed;
    let doubt = is_unconfirmed.then(|| "Not confirmed by a second look.".to_owned());
    let notes = anchored.note().into_iter().chain(doubt).map(|note| format!("*{note}*"));
    let note = notes.collect::<Vec<_>>().join(" ");
    let reproduction = reproduction(&anchored.finding);
    let mut out = String::new();
    // The suggestion goes first when the comment is too long: a cut replacement would delete code.
    for (most, suggestion) in [(20_000, suggestion.as_str()), (8000, ""), (3000, "")] {
        let body = words(&anchored.finding.body, most);
        let heading = heading(anchored);
        let parts = [&heading, &note, body.trim(), &reproduction, suggestion.trim_end(), &marker];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        out = parts.join("\n\n");
        if out.chars().count() <= ROOM {
            break;
        }
    }
    out
}

/// How the finding was shown, folded; empty when it was found by reading.
fn reproduction(finding: &Finding) -> String {
    let Some(shown) = &finding.reproduction else { return String::new() };
    format!(
        "<details><summary>Reproduced</summary>\n\n{}\n\n</details>",
        words(shown, REPRODUCTION).trim()
    )
}

/// What GitHub offers to commit. Text that would have to be changed to be shown is not offered: what
/// people see must be what they commit.
fn suggestion_block(replacement: &str) -> Option<String> {
    let shown = text::without_markers(&text::visible(&text::without_ansi(replacement)));
    let is_shown_as_it_is = shown == replacement;
    let fits = replacement.chars().count() <= SUGGESTION;
    // What is posted has no keys in it, and what would be committed is not what was suggested then.
    let has_keys = keys::has_keys(replacement);
    (is_shown_as_it_is && fits && !has_keys).then(|| suggestion::block(replacement))
}
