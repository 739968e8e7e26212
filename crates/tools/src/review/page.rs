//! A file's difference as a model reads it: each line with its sign and its number in the file. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::summary;
use patchwright_base::text;
use patchwright_git::hunks::{FileDiff, Hunk, Line};

/// Characters of a line that are shown.
const MAX_LINE: usize = 500;

/// A part of a file's difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub text: String,
    /// Which lines of the difference it holds; the first one is 0.
    pub lines: Range<usize>,
    /// Lines of the whole difference.
    pub total: usize,
}

impl Page {
    /// It reaches to the end of the difference.
    pub fn is_last(&self) -> bool {
        self.lines.end >= self.total
    }
}

/// As many lines as fit into `room` bytes, and at least one. `fresh` are the numbers of added lines that
/// came after the last review, where there was one.
pub fn page(file: &FileDiff, from: usize, room: usize, fresh: Option<&BTreeSet<u32>>) -> Page {
    let total = file.hunks.iter().map(|hunk| hunk.lines.len()).sum();
    let mut out = summary(file);
    out.push('\n');
    let mut at = 0;
    let mut end = from.min(total);
    'all: for hunk in &file.hunks {
        let is_past = at + hunk.lines.len() <= from;
        if is_past {
            at += hunk.lines.len();
            continue;
        }
        let mut is_begun = false;
        for line in &hunk.lines {
            if at >= from {
                let shown = shown(line, fresh);
                let head = if is_begun { String::new() } else { head(hunk) };
                if out.len() + head.len() + shown.len() > room && end > from {
                    break 'all;
                }
                out.push_str(&head);
                out.push_str(&shown);
                is_begun = true;
                end = at + 1;
            }
            at += 1;
        }
    }
    Page { text: out, lines: from.min(total)..end, total }
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

fn shown(line: &Line, fresh: Option<&BTreeSet<u32>>) -> String {
    let is_fresh = |number: u32| fresh.is_some_and(|lines| lines.contains(&number));
    let (sign, number) = match (line.old, line.new) {
        (Some(_), Some(new)) => (' ', new),
        (Some(old), None) => ('-', old),
        (None, Some(new)) if is_fresh(new) => ('*', new),
        (None, new) => ('+', new.unwrap_or_default()),
    };
    let mut out = format!("{sign} {number}|");
    let visible = text::visible(line.text.trim_end_matches('\r')).replace('\n', "\\n");
    let mut characters = visible.chars();
    out.extend(characters.by_ref().take(MAX_LINE));
    let left = characters.count();
    if left > 0 {
        let _ = write!(out, "… [{left} more characters]");
    }
    out.push('\n');
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
    fn pages_together_are_the_whole_difference_and_no_line_is_split() {
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
            hunks: vec![Hunk { lines: first }, Hunk { lines: second }],
            added: 2,
            deleted: 1,
        };
        let whole = page(&file, 0, 10_000, Some(&BTreeSet::from([2])));
        assert!(whole.is_last());
        assert_eq!(whole.lines, 0..5);
        let start = "src/a.rs: modified, +2 -1\n@@ old 1-3, new 1-3 @@\n  1|fn a() {\n- 2|    old()\n\
                     * 2|    new()\n  3|}\n@@ old none, new 40-40 @@\n+ 40|xxx";
        assert!(whole.text.starts_with(start), "{}", whole.text);
        assert!(whole.text.ends_with("x… [100 more characters]\n"), "{}", whole.text);
        let (mut from, mut pages) = (0, 0);
        while from < 5 {
            let part = page(&file, from, 60, None);
            assert_eq!(part.lines.start, from);
            assert!(part.lines.end > from);
            from = part.lines.end;
            pages += 1;
        }
        assert!(pages > 1);
        assert_eq!(page(&file, 99, 60, None).lines, 5..5);
    }
}
