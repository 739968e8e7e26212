//! A file's difference as a model reads it: each line with its sign and its number in the file. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::summary;
use patchwright_base::text;
use patchwright_git::hunks::{FileDiff, Hunk, Line};

/// Characters of a line that are shown in one row. Longer lines have several: what stands far to the right is read like
/// everything else.
const ROW: usize = 500;

/// A part of a file's difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub text: String,
    /// Which rows of the difference it holds; the first one is 0. A line is one row, or several where it is long.
    pub rows: Range<usize>,
    /// Rows of the whole difference.
    pub total: usize,
}

impl Page {
    /// It reaches to the end of the difference.
    pub fn is_last(&self) -> bool {
        self.rows.end >= self.total
    }
}

/// How many rows a line is shown in.
pub fn rows(line: &Line) -> usize {
    // No text has more characters than bytes, and counting those of each line takes a while.
    if line.text.len() <= ROW { 1 } else { pieces(line).count() }
}

/// What stands in the rows of a line, without the end of it that Windows has; one that is empty has a row all the same.
fn pieces(line: &Line) -> impl Iterator<Item = &str> {
    let mut rest = Some(line.text.trim_end_matches('\r'));
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some((end, _)) = text.char_indices().nth(ROW) else { return Some(text) };
        let (piece, left) = text.split_at(end);
        rest = Some(left);
        Some(piece)
    })
}

/// As many rows as fit into `room` bytes, and at least one. `fresh` are the numbers of added lines that
/// came after the last review, where there was one.
pub fn page(file: &FileDiff, from: usize, room: usize, fresh: Option<&BTreeSet<u32>>) -> Page {
    let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let total = lines().map(rows).sum();
    let mut out = summary(file);
    out.push('\n');
    let mut at = 0;
    let mut end = from.min(total);
    'all: for hunk in &file.hunks {
        let mut is_begun = false;
        for line in &hunk.lines {
            let count = rows(line);
            if at + count <= from {
                at += count;
                continue;
            }
            for (part, piece) in pieces(line).enumerate().skip(from.saturating_sub(at)) {
                let shown = shown(line, (part, piece), fresh);
                let head = if is_begun { String::new() } else { head(hunk) };
                if out.len() + head.len() + shown.len() > room && end > from {
                    break 'all;
                }
                out.push_str(&head);
                out.push_str(&shown);
                is_begun = true;
                end = at + part + 1;
            }
            at += count;
        }
    }
    Page { text: out, rows: from.min(total)..end, total }
}

/// `@@ old 10-12, new 10-15 @@`
fn head(hunk: &Hunk) -> String {
    let span = |numbers: Vec<u32>| match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) => format!("{first}-{last}"),
        _ => "none".to_owned(),
    };
    let old = span(hunk.lines.iter().filter_map(|line| line.old).collect());
    let new = span(hunk.lines.iter().filter_map(|line| line.new).collect());
    format!("@@ old {old}, new {new} @@\n")
}

/// One row: `+ 12|text`, and for more of the same line `+ 12, from 501|text`.
fn shown(line: &Line, (part, piece): (usize, &str), fresh: Option<&BTreeSet<u32>>) -> String {
    let is_fresh = |number: u32| fresh.is_some_and(|lines| lines.contains(&number));
    let (sign, number) = match (line.old, line.new) {
        (Some(_), Some(new)) => (' ', new),
        (Some(old), None) => ('-', old),
        (None, Some(new)) if is_fresh(new) => ('*', new),
        (None, new) => ('+', new.unwrap_or_default()),
    };
    let mut out = format!("{sign} {number}");
    if part > 0 {
        let _ = write!(out, ", from {}", part * ROW + 1);
    }
    let _ = writeln!(out, "|{}", text::visible(piece).replace('\n', "\\n"));
    out
}

#[cfg(test)]
mod tests {
    use crate::review::page::*;
    use patchwright_git::hunks::FileStatus;

    fn line(old: Option<u32>, new: Option<u32>, text: &str) -> Line {
        Line { old, new, text: text.to_owned() }
    }

    #[test]
    fn pages_together_are_the_whole_difference_however_long_its_lines_are() {
        let first = vec![
            line(Some(1), Some(1), "fn a() {"),
            line(Some(2), None, "    old()"),
            line(None, Some(2), "    new()"),
            line(Some(3), Some(3), "}"),
        ];
        let second = vec![line(None, Some(40), &"x".repeat(600))];
        let file = FileDiff {
            path: "src/a.rs".to_owned(),
            old_path: None,
            status: FileStatus::Modified,
            opaque: false,
            too_large: false,
            is_link: false,
            modes: None,
            hunks: vec![Hunk { lines: first }, Hunk { lines: second }],
            added: 2,
            deleted: 1,
        };
        let whole = page(&file, 0, 10_000, Some(&BTreeSet::from([2])));
        assert!(whole.is_last());
        assert_eq!(whole.rows, 0..6);
        let start = "src/a.rs: modified, +2 -1\n@@ old 1-3, new 1-3 @@\n  1|fn a() {\n- 2|    old()\n\
                     * 2|    new()\n  3|}\n@@ old none, new 40-40 @@\n+ 40|xxx";
        assert!(whole.text.starts_with(start), "{}", whole.text);
        let end = format!("+ 40|{}\n+ 40, from 501|{}\n", "x".repeat(500), "x".repeat(100));
        assert!(whole.text.ends_with(&end), "{}", whole.text);
        let (mut from, mut pages, mut seen) = (0, 0, 0);
        while from < 6 {
            let part = page(&file, from, 60, None);
            assert_eq!(part.rows.start, from);
            assert!(part.rows.end > from);
            seen += part.text.matches('x').count();
            from = part.rows.end;
            pages += 1;
        }
        assert!(pages > 1);
        assert_eq!(seen, 600);
        assert_eq!(page(&file, 99, 60, None).rows, 6..6);
    }
}
