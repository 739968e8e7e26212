//! Plain text and code spans.

use comrak::nodes::NodeCode;

use super::{HiddenUntil, Page, formulas};
use patchwright_base::gfm;
use patchwright_base::gfm::tags::{self, At};

impl Page<'_> {
    pub(super) fn words(&mut self, from: usize, to: usize, words: &str) {
        // The parser's place of a text that begins with an escape is behind the backslash.
        let before = from.checked_sub(1).filter(|before| *before >= self.at);
        let from = match before.and_then(|before| Some((before, self.text.get(before..to)?))) {
            Some((before, whole))
                if whole.starts_with('\\') && gfm::shows(whole, words) == Some(whole.len()) =>
            {
                before
            }
            _ => from,
        };
        let source = &self.text[from..to];
        let as_is = source == words;
        let is_there = as_is || gfm::shows(source, words) == Some(source.len());
        let lost = source.find("[^").filter(|_| !is_there);
        if lost.is_some_and(|open| spans_lines(&self.text[from + open..])) {
            return self.lose(from, to);
        }
        let is_next = from >= self.at || from < self.cut;
        if !is_there || !is_next || self.hiding.is_some() {
            return self.piece((from, to), is_there, &escaped(words, self.tables > 0));
        }
        self.reach(from);
        self.at = self.at.max(self.cut.min(to));
        while self.at < to {
            let rest = &self.text[self.at..to];
            let stops = |c: char| matches!(c, '$' | '<' | '[') || !as_is && matches!(c, '\\' | '&');
            let plain = rest.find(stops).unwrap_or(rest.len());
            self.push(&rest[..plain]);
            self.at += plain;
            if let Some(first) = rest[plain..].chars().next() {
                self.special(first, &rest[plain..], to);
            }
        }
    }

    /// The rest of the block is not shown.
    fn lose(&mut self, from: usize, to: usize) {
        self.reach(from.max(self.at));
        self.count("unused footnote");
        self.hiding = self.hiding.or(Some(HiddenUntil::Block));
        self.at = self.at.max(to);
    }

    /// One character of a text that means something, or several.
    pub(super) fn special(&mut self, first: char, rest: &str, to: usize) {
        let hidden = match first {
            '$' => formulas::invisible(self.text, self.at, &mut self.ends)
                .map(|end| (end, "invisible formula")),
            // Browsers end a comment with this as well.
            '<' if rest.starts_with("<!--") => {
                let end = self.ends.find(self.text, "--!>", self.at);
                end.map(|end| (self.at + end + 4, "HTML comment"))
            }
            _ => None,
        };
        if let Some((end, kind)) = hidden {
            self.count(kind);
            self.at = end.min(to);
            self.cut = end;
            return;
        }
        let second = rest[first.len_utf8()..].chars().next();
        // GitHub's parser loses words of what looks like a footnote over several lines.
        if first == '[' && second == Some('^') && spans_lines(&self.text[self.at..]) {
            return self.lose(self.at, to);
        }
        let (shown, length) = match first {
            // Shown as it is typed, but nobody types attributes there to be read.
            '<' if second == Some('/') => match tags::tag(rest) {
                At::Tag(tag) if !tag.has_odd_name() && !tag.attributes.is_empty() => {
                    self.count("HTML attribute");
                    (tag.bare(), tag.length)
                }
                _ => ("<".to_owned(), 1),
            },
            '&' => match tags::entity(rest) {
                Some((decoded, length)) => (escaped(&decoded, self.tables > 0), length),
                None => ("&".to_owned(), 1),
            },
            '\\' if second.is_some_and(|c| c.is_ascii_punctuation()) => (rest[..2].to_owned(), 2),
            '$' if second == Some('$') => ("$$".to_owned(), 2),
            other => (other.to_string(), other.len_utf8()),
        };
        self.push(&shown);
        self.at += length;
    }
}

/// How far the end of what looks like a footnote is looked for, in bytes.
const LONGEST_FOOTNOTE: usize = 2000;

/// Whether the bracket that opens here closes on another line, or far away.
fn spans_lines(rest: &str) -> bool {
    let (mut depth, mut lines) = (0usize, 0);
    for byte in rest.bytes().take(LONGEST_FOOTNOTE) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return lines > 0,
            b']' => depth -= 1,
            b'\n' => lines += 1,
            _ => {}
        }
    }
    lines > 0 && rest.len() > LONGEST_FOOTNOTE
}

/// Whether the source is this code span.
pub(super) fn is_code(source: &str, code: &NodeCode) -> bool {
    let fence = "`".repeat(code.num_backticks);
    let inner = source.strip_prefix(&fence).and_then(|source| source.strip_suffix(&fence));
    inner.is_some_and(|inner| {
        let is_literal = |inner: &str| {
            let trimmed = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
            inner == code.literal || trimmed == Some(code.literal.as_str())
        };
        is_literal(inner) || is_literal(&inner.replace('\n', " ").replace("\\|", "|"))
    })
}

/// Escapes plain text so that it parses as the same text again. Angle brackets are not escaped: the next
/// pass cleans any HTML that they make.
fn escaped(words: &str, in_table: bool) -> String {
    let mut out = String::with_capacity(words.len());
    let mut before = ' ';
    let mut chars = words.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let is_markup = match c {
            '`' | '*' | '[' | ']' | '~' => true,
            '\\' => next.is_ascii_punctuation(),
            '_' => !before.is_alphanumeric() || !next.is_alphanumeric(),
            '|' => in_table,
            _ => false,
        };
        if is_markup {
            out.push('\\');
        }
        out.push(c);
        before = c;
    }
    out
}
