//! Takes out what a person who reads the page does not see, so that the model reads what people
//! read, and counts what was taken out.
//!
//! [`invisible`] is for any text: characters that show nothing. [`clean`] is for Markdown as GitHub
//! shows it: comments, hidden elements, attributes, alternative texts and link titles as well. Code
//! stays as it is apart from invisible characters. Where in doubt, text is taken out. This is no
//! defence by itself: what is visible can lie as well.
//!
//! [`is_invisible`] is for everybody who shows, stores or sends one line of somebody's text.

use std::collections::BTreeMap;

use super::markup;
use crate::gfm;

/// What was removed, by kind.
pub type Counts = BTreeMap<&'static str, usize>;

/// A text without its hidden parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub text: String,
    pub removed: Counts,
}

impl Cleaned {
    /// Number of hidden parts in all.
    pub fn total(&self) -> usize {
        self.removed.values().sum()
    }
}

/// Longest text that is cleaned, in bytes: as much as GitHub stores of one.
const MAX_TEXT: usize = 256 << 10;

/// How often removing may uncover something new (`<!-<!-- -->- … -->`) before all of the text goes.
const ROUNDS: usize = 10;

/// In place of a text in which something is hidden again and again, or that takes too long to parse.
const UNREADABLE: &str = "[a text was left out: its markup cannot be read]";

/// Removes invisible characters and makes line ends `\n`.
pub fn invisible(text: &str) -> Cleaned {
    let mut out = String::with_capacity(text.len());
    let mut removed = Counts::new();
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let kind = match c {
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
                continue;
            }
            // Parts of emoji: gone, but not worth a note.
            '\u{fe0f}' | '\u{200d}' if before > '\u{203b}' || before.is_ascii_digit() => continue,
            c => kind(c),
        };
        match kind {
            Some(kind) => *removed.entry(kind).or_default() += 1,
            None => out.push(c),
        }
        before = c;
    }
    Cleaned { text: out, removed }
}

/// It shows nothing, or changes how its neighbours are read: no name, message or line needs it. Control
/// characters are not meant, because callers differ in which of those they keep; nor are the variation
/// selectors of emoji (U+FE00 to U+FE0F), which stand in names and messages that mean no harm.
pub fn is_invisible(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{fe00}'..='\u{fe0f}') && kind(c).is_some()
}

/// Why a character cannot be seen; `None` when it can.
fn kind(c: char) -> Option<&'static str> {
    Some(match c {
        '\n' | '\t' => return None,
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{180e}' => {
            "zero-width character"
        }
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{61c}' => {
            "direction control"
        }
        '\u{e0000}'..='\u{e007f}' => "tag character",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180f}' => {
            "variation selector"
        }
        '\u{ad}' => "soft hyphen",
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e0fff}'
        | '\u{13430}'..='\u{1345f}' => "invisible character",
        c if c.is_control() => "control character",
        _ => return None,
    })
}

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
    cleaned.text = UNREADABLE.to_owned();
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
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
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
    use super::{invisible, is_invisible};

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
