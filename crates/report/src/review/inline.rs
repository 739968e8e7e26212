//! A comment on lines of the diff: what is wrong, why, and what could stand there instead.

use super::{ROOM, heading, state, words};
use patchwright_base::redact::keys;
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::{Finding, Priority, Verdict};
use patchwright_review::incremental::{CodeLocation, FindingState, KnownFinding};
use patchwright_review::suggestion;

/// Longest replacement that is offered, in characters.
const SUGGESTION: usize = 20_000;
/// Bytes of a replacement for deleted lines.
const MAX_FOR_DELETED: usize = 4_000;
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

/// The line by which a finding is remembered where nothing else remembers it: its code, and the commit that it
/// was found at.
fn memory(anchored: &Anchored, commit: &str) -> String {
    let side = match &anchored.anchor {
        Anchor::Lines { side: Side::Left, .. } => "left",
        Anchor::Lines { .. } | Anchor::File { .. } | Anchor::Nowhere { .. } => "right",
    };
    let (code, commit) = (crate::plain(&anchored.sketch), crate::plain(commit));
    format!(
        "<!-- patchwright:known code={code} nth={} side={side} at={commit} v=1 -->",
        anchored.nth
    )
}

/// The finding of a comment of ours on a file, as open as its thread is. One whose comment says nothing of its code
/// stands until somebody says no to it.
pub fn known(body: &str, path: &str) -> Option<KnownFinding> {
    let mut known = KnownFinding {
        fingerprint: fingerprint(body)?.to_owned(),
        path: path.to_owned(),
        title: "A finding of an earlier review".to_owned(),
        // What cannot be told is taken for the worst.
        priority: Priority::P0,
        fate: FindingState::Still,
        since: String::new(),
        sketch: String::new(),
        code: CodeLocation::NoFile,
        nth: 0,
        old_threads: 0,
        times: 0,
        line: None,
        suggestion: None,
    };
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if let Some((what, title)) = first.strip_prefix("**P").and_then(|it| it.split_once("** ")) {
        let number = what.split(' ').next().and_then(|number| number.parse::<u8>().ok());
        known.priority = number.and_then(|it| it.try_into().ok()).unwrap_or(Priority::P0);
        known.title = unescaped(title);
    }
    let lines = patchwright_forge::marker::ending(body);
    let words = lines.into_iter().map(patchwright_forge::marker::words);
    let Some(words) = words.into_iter().rfind(|words| words.first() == Some(&"known")) else {
        return Some(known);
    };
    let value =
        |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    if let Some(commit) = value("at").filter(|it| state::is_hex(it, 40) || state::is_hex(it, 64)) {
        commit.clone_into(&mut known.since);
    }
    let is_code = |code: &&str| code.len() <= 48 && state::is_hex(code, code.len());
    value("code").filter(is_code).unwrap_or_default().clone_into(&mut known.sketch);
    known.nth = value("nth").and_then(|nth| nth.parse().ok()).unwrap_or_default();
    known.code = match value("side") {
        Some("left") => CodeLocation::Deleted,
        _ => CodeLocation::InHead,
    };
    Some(known)
}

/// A comment of ours as its reviewer wrote it: without folds and escapes, but for those in code.
pub fn plain(comment: &str) -> String {
    let mut out = String::with_capacity(comment.len());
    let mut fence: Option<&str> = None;
    for line in comment.lines() {
        let run = &line[..line.len() - line.trim_start_matches('`').len()];
        let is_code = fence.is_some() || run.len() >= 3;
        fence = match fence {
            Some(open) if line.trim_end() == open => None,
            None if run.len() >= 3 => Some(run),
            fence => fence,
        };
        if is_code {
            out.push_str(line);
        } else if let Some(head) = line.strip_prefix("<details><summary>") {
            out.push_str(head.strip_suffix("</summary>").unwrap_or(head));
            out.push(':');
        } else if line == "</details>" {
            continue;
        } else {
            out.push_str(&unescaped_words(line));
        }
        out.push('\n');
    }
    out.trim_end().to_owned()
}

/// A line without escapes, but for what stands between two backticks.
fn unescaped_words(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_code = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    let plain = parts
        .iter()
        .enumerate()
        .map(|(at, part)| if is_code(at) { (*part).to_owned() } else { unescaped(part) });
    plain.collect::<Vec<_>>().join("`")
}

/// A title as it was before it was written as Markdown.
fn unescaped(title: &str) -> String {
    let plain = title.replace("&#8203;", "");
    let mut out = String::with_capacity(plain.len());
    let mut chars = plain.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next_if(char::is_ascii_punctuation) } else { None };
        out.push(escaped.unwrap_or(c));
    }
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The comment, with its markers. `commit` is the one that was read.
pub fn comment(anchored: &Anchored, suggestions: bool, commit: &str) -> String {
    let suggestion = anchored.suggestion.as_deref().filter(|_| suggestions);
    let suggestion = suggestion.and_then(suggestion_block);
    let suggestion = suggestion.or_else(|| for_deleted(anchored).filter(|_| suggestions));
    let suggestion = suggestion.unwrap_or_default();
    let marker = format!("{}\n{}", memory(anchored, commit), marker(&anchored.fingerprint));
    let note = notes(anchored);
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

/// What was run to show a finding, as Markdown that is not checked yet. A command and what came out are code; who has marked
/// what is code has written the rest for people.
pub(crate) fn reproduced(finding: &Finding) -> Option<String> {
    let shown = finding.reproduction.as_ref()?;
    Some(if shown.contains('`') { shown.clone() } else { text::fence(shown, "") })
}

/// What a reader should know about a finding, on one line; empty when there is nothing.
pub(super) fn notes(anchored: &Anchored) -> String {
    let is_unconfirmed = anchored.finding.verdict == Verdict::Unconfirmed;
    let doubt = is_unconfirmed.then(|| "Not confirmed by a second look.".to_owned());
    let notes = anchored.note().into_iter().chain(doubt).map(|note| format!("*{note}*"));
    notes.collect::<Vec<_>>().join(" ")
}

/// How the finding was shown, folded; empty when it was found by reading.
pub(super) fn reproduction(finding: &Finding) -> String {
    let Some(shown) = reproduced(finding) else { return String::new() };
    format!(
        "<details><summary>Reproduced</summary>\n\n{}\n\n</details>",
        words(&shown, REPRODUCTION).trim()
    )
}

/// What could stand where lines were deleted: GitHub commits nothing there, so people can read and copy it.
fn for_deleted(anchored: &Anchored) -> Option<String> {
    let Anchor::Lines { side: Side::Left, .. } = anchored.anchor else { return None };
    let replacement = anchored.finding.replacement.as_deref()?;
    let is_shown = !replacement.trim().is_empty()
        && replacement.len() <= MAX_FOR_DELETED
        && !keys::has_keys(replacement);
    is_shown.then(|| format!("Could be:\n\n{}", text::fence(replacement, "")))
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
