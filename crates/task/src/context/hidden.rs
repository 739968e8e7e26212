//! Takes out what a person who reads the page does not see, so that the model reads what people
//! read, and counts what was taken out.
//!
//! [`invisible`] is for any text: characters that show nothing. [`clean`] is for Markdown as GitHub
//! shows it: comments, hidden elements, attributes, alternative texts and link titles as well. Code
//! stays as it is apart from invisible characters. Where in doubt, text is taken out. This is no
//! defence by itself: what is visible can lie as well.
//!
//! [`is_invisible`] is for everybody who shows, stores or sends one line of somebody's text.

use super::markup;
use patchwright_base::gfm;
use patchwright_base::invisible::Cleaned;
use patchwright_base::invisible::Counts;
use patchwright_base::invisible::invisible;

/// Longest text that is cleaned, in bytes: as much as GitHub stores of one.
const MAX_TEXT: usize = 256 << 10;

/// How often removing may uncover something new (`<!-<!-- -->- … -->`) before all of the text goes.
const ROUNDS: usize = 10;

/// In place of a text in which something is hidden again and again, or that takes too long to parse.
const UNREADABLE: &str = "[a text was left out: its markup cannot be read]";

/// Removes everything hidden from Markdown.
///
/// Takes time in proportion to the text's length, whatever is in it. Of a longer text than GitHub
/// stores the beginning is read, and the result says so.
pub fn clean(text: &str) -> Cleaned {
    let kept = head(text, MAX_TEXT);
    let mut cleaned = gfm::apart_if_long(kept, || bounded(kept));
    if kept.len() < text.len() {
        cleaned.text.push_str("\n[the rest was left out]");
    }
    cleaned
}

fn bounded(text: &str) -> Cleaned {
    let mut cleaned = invisible(text);
    for _ in 0..ROUNDS {
        let Some(Cleaned { text, removed }) = markup::strip(&cleaned.text) else { break };
        add(&mut cleaned.removed, removed);
        let Cleaned { text, removed } = invisible(&text);
        add(&mut cleaned.removed, removed);
        if text == cleaned.text {
            return cleaned;
        }
        cleaned.text = text;
    }
    add(&mut cleaned.removed, Counts::from([("unreadable text", 1)]));
    UNREADABLE.clone_into(&mut cleaned.text);
    cleaned
}

/// The text with a blank in every `</tag`, however it is spelled: what stands in a block cannot end
/// it.
pub(super) fn without_closing(text: &str, tag: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let inner = from.trim_start_matches('<');
        // One look ahead serves a whole run of `<`: one for each would make this quadratic.
        let run = from.len() - inner.len();
        let inner = inner.trim_start();
        let name = inner.strip_prefix('/').map(str::trim_start).unwrap_or_default();
        let is_closing = name.get(..tag.len()).is_some_and(|it| it.eq_ignore_ascii_case(tag));
        out.push_str(&if is_closing { "< " } else { "<" }.repeat(run));
        rest = &from[run..];
    }
    out.push_str(rest);
    out
}

/// The beginning of a text, at most `most` bytes of it: for what is long only when it is hostile.
pub fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

pub(super) fn add(counts: &mut Counts, more: Counts) {
    for (kind, count) in more {
        *counts.entry(kind).or_default() += count;
    }
}

/// The counts as a phrase: `2 HTML comments, 1 tag character`.
pub fn describe(counts: &Counts) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let parts: Vec<String> =
        counts.iter().map(|(kind, count)| format!("{count} {kind}{}", plural(*count))).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use patchwright_base::invisible::{invisible, is_invisible};

    #[test]
    fn what_nobody_sees_is_known_by_its_character() {
        for (c, hides) in [
            ('a', false),
            ('é', false),
            ('語', false),
            (' ', false),
            ('\u{a0}', false),
            ('\u{301}', false),
            ('👍', false),
            ('\n', false),
            ('\u{1b}', false),
            ('\u{fe0f}', false),
            ('\u{ad}', true),
            ('\u{34f}', true),
            ('\u{61c}', true),
            ('\u{115f}', true),
            ('\u{180e}', true),
            ('\u{200b}', true),
            ('\u{200d}', true),
            ('\u{200e}', true),
            ('\u{2010}', false),
            ('\u{2028}', true),
            ('\u{202a}', true),
            ('\u{202e}', true),
            ('\u{202f}', false),
            ('\u{205f}', false),
            ('\u{2060}', true),
            ('\u{2066}', true),
            ('\u{206f}', true),
            ('\u{2070}', false),
            ('\u{3164}', true),
            ('\u{feff}', true),
            ('\u{ffa0}', true),
            ('\u{fffd}', false),
            ('\u{1d173}', true),
            ('\u{e0001}', true),
            ('\u{e0041}', true),
            ('\u{e0100}', true),
        ] {
            assert_eq!(is_invisible(c), hides, "U+{:04X}", u32::from(c));
            // What a model reads has none of them either.
            assert!(!hides || invisible(&c.to_string()).text.is_empty(), "U+{:04X}", u32::from(c));
        }
    }
}
