//! The beginning of a Markdown line: quote marks, list marks, code fences. Keeps track of which list
//! items are open, because they decide where a fence begins and ends. Used by [`super::markup`] only.

/// Lists inside each other, as many as GitHub reads.
const MAX_DEPTH: usize = 100;

/// Columns at which the content of open list items begins.
#[derive(Default)]
pub(super) struct Lists {
    /// Items that are open for certain: a fence may be that much further in.
    pub(super) surely: Vec<usize>,
    /// Items that may be open (a paragraph goes on without indentation): code must keep to them.
    pub(super) maybe: Vec<usize>,
}

/// A line without its quote marks and list marks.
pub(super) struct Line<'a> {
    pub(super) quotes: usize,
    /// It has a list mark, so it goes on with nothing.
    pub(super) opens_item: bool,
    /// Column where the rest begins.
    pub(super) indent: usize,
    pub(super) rest: &'a str,
}

pub(super) fn indent(line: &str) -> usize {
    let mut column = 0;
    for c in line.chars() {
        match c {
            ' ' => column += 1,
            '\t' => column += 4 - column % 4,
            _ => break,
        }
    }
    column
}

/// The line behind `count` quote marks; `None` when it has fewer.
pub(super) fn without_quotes(line: &str, count: usize) -> Option<&str> {
    let mut line = line;
    for _ in 0..count {
        let trimmed = line.trim_start_matches(' ');
        if line.len() - trimmed.len() > 3 {
            return None;
        }
        line = trimmed.strip_prefix('>')?;
        line = line.strip_prefix(' ').unwrap_or(line);
    }
    Some(line)
}

impl Lists {
    /// Reads the quote and list marks at the start of a line and notes what they open and close.
    pub(super) fn enter<'a>(&mut self, line: &'a str) -> Line<'a> {
        let mut quotes = 0;
        let mut rest = line;
        while let Some(inner) = without_quotes(rest, 1) {
            quotes += 1;
            rest = inner;
        }
        let mut column = indent(rest);
        rest = rest.trim_start();
        let marks = list_mark(rest).is_some();
        let opens_block = marks || rest.starts_with(['`', '~', '<', '#', '>', '|']);
        self.surely.retain(|item| *item <= column);
        if opens_block {
            self.maybe.retain(|item| *item <= column);
        }
        while let Some(length) = list_mark(rest).filter(|_| self.surely.len() < MAX_DEPTH) {
            let content = rest[length..].trim_start();
            let spaces = indent(&rest[length..]);
            // Five or more spaces are one space and indented code.
            column += length + if spaces > 4 { 1 } else { spaces };
            self.surely.push(column);
            self.maybe.push(column);
            if spaces > 4 || content.is_empty() {
                rest = &rest[length..];
                break;
            }
            rest = content;
        }
        Line { quotes, opens_item: marks, indent: column, rest }
    }
}

/// Length of a list mark (`-`, `*`, `+`, `1.`, `2)`) that is followed by a space.
fn list_mark(rest: &str) -> Option<usize> {
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length = match rest.as_bytes().get(digits)? {
        b'-' | b'*' | b'+' if digits == 0 => 1,
        b'.' | b')' if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    rest[length..].starts_with([' ', '\t']).then_some(length)
}

/// Mark, length and info string of a fence that begins here.
pub(super) fn fence_opening<'a>(line: &Line<'a>, column: usize) -> Option<(char, usize, &'a str)> {
    let mark = line.rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.rest.trim_start_matches(mark);
    let length = line.rest.len() - info.len();
    let fits = line.indent <= column + 3 && length >= 3;
    let valid = mark == '~' || !info.contains('`');
    (fits && valid).then_some((mark, length, info.trim()))
}

/// Bytes of the info string at the end of a fence's opening line.
pub(super) fn info_length(line: &str) -> usize {
    let mark = if line.contains("```") { '`' } else { '~' };
    line.rfind(mark).map_or(0, |at| line.len() - at - 1)
}
