//! Code as it is compared: what of a line counts when white space does not.

use std::hash::{DefaultHasher, Hasher};

/// The line without white space and marks that nobody sees; bytes that were no text count once.
pub(super) fn push_key(line: &str, key: &mut String) {
    let mut replaced = false;
    for c in line.chars() {
        let is_replacement = c == char::REPLACEMENT_CHARACTER;
        let counts = !c.is_whitespace() && !matches!(c, '\u{feff}' | '\u{200b}');
        if counts && !(is_replacement && replaced) {
            key.push(c);
        }
        replaced = is_replacement;
    }
}

/// See [`push_key`].
pub(super) fn key(line: &str) -> String {
    let mut key = String::with_capacity(line.len());
    push_key(line, &mut key);
    key
}

/// Stands for a key; equal hashes are compared as texts before they are believed.
pub(super) fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

/// There is more than brackets and commas.
pub(super) fn has_word(key: &str) -> bool {
    key.chars().any(char::is_alphanumeric)
}

/// The white space that a line begins with.
pub(super) fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// How quoted lines differ from the lines of the diff, from the least to the most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Exact,
    /// White space at the ends of lines.
    Ends,
    /// The same indentation is missing or too much everywhere.
    Shifted(Shift),
    /// Other white space.
    Spaces,
    /// Blank lines, too.
    Blanks,
    /// The quote begins or ends within a line, or leaves lines out.
    Loose,
    /// Only a part of the quote is there.
    Part,
}

/// What makes of the quote's indentation that of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    /// Put this in front of every line.
    Add(String),
    /// Take this away from every line.
    Remove(String),
    /// Put this in front of the first line.
    AddToFirst(String),
}

impl Fit {
    /// Compares lines whose keys are equal, without blank lines at both ends.
    pub(super) fn of(code: &[&str], quote: &[&str]) -> Fit {
        if code.len() != quote.len() {
            return Fit::Blanks;
        }
        let pairs = || code.iter().zip(quote);
        if pairs().all(|(code, quote)| code == quote) {
            return Fit::Exact;
        }
        if pairs().all(|(code, quote)| code.trim_end() == quote.trim_end()) {
            return Fit::Ends;
        }
        if !pairs().all(|(code, quote)| code.trim() == quote.trim()) {
            return Fit::Spaces;
        }
        Shift::of(code, quote).map_or(Fit::Spaces, Fit::Shifted)
    }

    /// Places that fit equally well are decided by other means.
    pub(super) fn class(&self) -> u8 {
        match self {
            Fit::Exact => 0,
            Fit::Ends => 1,
            Fit::Shifted(_) => 2,
            Fit::Spaces => 3,
            Fit::Blanks => 4,
            Fit::Loose => 5,
            Fit::Part => 6,
        }
    }

    /// The quote is whole lines of the code, so that other lines can take their place.
    pub(super) fn is_whole_lines(&self) -> bool {
        matches!(self, Fit::Exact | Fit::Ends | Fit::Shifted(_))
    }
}

impl Shift {
    fn of(code: &[&str], quote: &[&str]) -> Option<Shift> {
        let indentations: Vec<(&str, &str)> = code
            .iter()
            .zip(quote)
            .filter(|(code, _)| !code.trim().is_empty())
            .map(|(code, quote)| (indentation(code), indentation(quote)))
            .collect();
        let (&(code, quote), rest) = indentations.split_first()?;
        if let Some(more) = code.strip_suffix(quote)
            && rest.iter().all(|(code, quote)| code.strip_suffix(quote) == Some(more))
        {
            return Some(Shift::Add(more.to_owned()));
        }
        if let Some(less) = quote.strip_suffix(code)
            && rest.iter().all(|(code, quote)| quote.strip_suffix(code) == Some(less))
        {
            return Some(Shift::Remove(less.to_owned()));
        }
        let only_first = quote.is_empty() && rest.iter().all(|(code, quote)| code == quote);
        only_first.then(|| Shift::AddToFirst(code.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use crate::code::*;

    #[test]
    fn keys_leave_out_white_space_only() {
        assert_eq!(key("\u{feff}  let x\t= 1; "), "letx=1;");
        assert_eq!(key("caf\u{fffd}\u{fffd} x"), "caf\u{fffd}x");
        assert_eq!(key(" \t\u{a0}"), "");
    }

    #[test]
    fn fits_from_exact_to_other_blank_lines() {
        let code = ["    if x {", "        y();", "", "    }"];
        let check = |quote: &[&str], fit: &Fit| assert_eq!(&Fit::of(&code, quote), fit);
        check(&code, &Fit::Exact);
        check(&["    if x {  ", "        y();", " ", "    }"], &Fit::Ends);
        let add = |by: &str| Fit::Shifted(Shift::Add(by.to_owned()));
        check(&["if x {", "    y();", "", "}"], &add("    "));
        let remove = Fit::Shifted(Shift::Remove("  ".to_owned()));
        check(&["      if x {", "          y();", "", "      }"], &remove);
        let first = Fit::Shifted(Shift::AddToFirst("    ".to_owned()));
        check(&["if x {", "        y();", "", "    }"], &first);
        check(&["if x {", "  y();", "", "}"], &Fit::Spaces);
        check(&["    if  x {", "        y();", "", "    }"], &Fit::Spaces);
        check(&["    if x {", "        y();", "    }"], &Fit::Blanks);
    }
}
