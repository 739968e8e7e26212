//! Characters that nobody sees.

use std::collections::BTreeMap;

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

/// It shows nothing, or changes how its neighbours are read: no name, message or line needs it. Control
/// characters are not meant, because callers differ in which of those they keep; nor are the variation
/// selectors of emoji (U+FE00 to U+FE0F), which stand in names and messages that mean no harm.
pub fn is_invisible(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{fe00}'..='\u{fe0f}') && kind(c).is_some()
}

/// Why a character cannot be seen; `None` when it can.
pub fn kind(c: char) -> Option<&'static str> {
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
