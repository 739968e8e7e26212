//! Code as it is compared: a line without its insignificant white space.

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
pub(super) enum MatchQuality {
    Exact,
    /// White space at the ends of lines.
    Ends,
    /// Indentation is missing or too much, equally everywhere.
    Shifted(IndentShift),
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
pub(super) enum IndentShift {
    /// Put this in front of every line.
    Add(String),
    /// Take this away from every line.
    Remove(String),
    /// Put this in front of the first line.
    AddToFirst(String),
}

impl MatchQuality {
    /// Compares lines whose keys are equal, without blank lines at both ends.
    pub(super) fn compare(code: &[&str], quote: &[&str]) -> MatchQuality {
        if code.len() != quote.len() {
            return MatchQuality::Blanks;
        }
        let pairs = || code.iter().zip(quote);
        if pairs().all(|(code, quote)| code == quote) {
            return MatchQuality::Exact;
        }
        if pairs().all(|(code, quote)| code.trim_end() == quote.trim_end()) {
            return MatchQuality::Ends;
        }
        if !pairs().all(|(code, quote)| code.trim() == quote.trim()) {
            return MatchQuality::Spaces;
        }
        IndentShift::between(code, quote).map_or(MatchQuality::Spaces, MatchQuality::Shifted)
    }

    /// Places that fit equally well are decided by other means.
    pub(super) fn class(&self) -> u8 {
        match self {
            MatchQuality::Exact => 0,
            MatchQuality::Ends => 1,
            MatchQuality::Shifted(_) => 2,
            MatchQuality::Spaces => 3,
            MatchQuality::Blanks => 4,
            MatchQuality::Loose => 5,
            MatchQuality::Part => 6,
        }
    }

    /// The quote is whole lines of the code, so that other lines can take their place.
    pub(super) fn is_whole_lines(&self) -> bool {
        matches!(self, MatchQuality::Exact | MatchQuality::Ends | MatchQuality::Shifted(_))
    }
}

impl IndentShift {
    fn between(code: &[&str], quote: &[&str]) -> Option<IndentShift> {
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
            return Some(IndentShift::Add(more.to_owned()));
        }
        if let Some(less) = quote.strip_suffix(code)
            && rest.iter().all(|(code, quote)| quote.strip_suffix(code) == Some(less))
        {
            return Some(IndentShift::Remove(less.to_owned()));
        }
        let only_first = quote.is_empty() && rest.iter().all(|(code, quote)| code == quote);
        only_first.then(|| IndentShift::AddToFirst(code.to_owned()))
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
        let check = |quote: &[&str], fit: &MatchQuality| {
            assert_eq!(&MatchQuality::compare(&code, quote), fit);
        };
        check(&code, &MatchQuality::Exact);
        check(&["    if x {  ", "        y();", " ", "    }"], &MatchQuality::Ends);
        let add = |by: &str| MatchQuality::Shifted(IndentShift::Add(by.to_owned()));
        check(&["if x {", "    y();", "", "}"], &add("    "));
        let remove = MatchQuality::Shifted(IndentShift::Remove("  ".to_owned()));
        check(&["      if x {", "          y();", "", "      }"], &remove);
        let first = MatchQuality::Shifted(IndentShift::AddToFirst("    ".to_owned()));
        check(&["if x {", "        y();", "", "    }"], &first);
        check(&["if x {", "  y();", "", "}"], &MatchQuality::Spaces);
        check(&["    if  x {", "        y();", "", "    }"], &MatchQuality::Spaces);
        check(&["    if x {", "        y();", "    }"], &MatchQuality::Blanks);
    }
}
