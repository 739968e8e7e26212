//! Differences: a unified diff read into files and lines, and lines drawn to the end of their row.

use maud::{Markup, html};

use super::shown;
use patchwright_base::text;

/// Bytes of one line.
const MAX_LINE: usize = 2_000;

/// A file of a change.
#[derive(Debug, Default)]
pub(super) struct FileDiff<'a> {
    /// As it is now; that of the base when it was deleted.
    pub path: &'a str,
    /// The path before, of a file that was moved.
    pub from: Option<&'a str>,
    /// `added`, `deleted`, `binary`, …
    pub kind: &'static str,
    pub added: usize,
    pub removed: usize,
    pub rows: Vec<DiffRow<'a>>,
}

/// A line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffRow<'a> {
    /// Where a hunk begins.
    Hunk(&'a str),
    /// A line of both sides, with its number before and now.
    Same(usize, usize, &'a str),
    Added(usize, &'a str),
    Removed(usize, &'a str),
    /// What git says about the line before.
    Remark(&'a str),
}

impl<'a> DiffRow<'a> {
    /// Its class, the numbers on both sides, its sign, its text.
    fn parts(self) -> (&'static str, Option<usize>, Option<usize>, &'static str, &'a str) {
        match self {
            DiffRow::Same(old, new, text) => ("same", Some(old), Some(new), " ", text),
            DiffRow::Added(new, text) => ("add", None, Some(new), "+", text),
            DiffRow::Removed(old, text) => ("del", Some(old), None, "-", text),
            DiffRow::Hunk(text) | DiffRow::Remark(text) => ("hunk", None, None, "", text),
        }
    }

    /// Bytes that it takes on the page.
    pub(super) fn weight(self) -> usize {
        let (.., text) = self.parts();
        88 + text.len().min(MAX_LINE)
            + text.matches(['<', '>', '&', '"']).take(MAX_LINE).count() * 4
    }
}

/// The files of a unified diff as git writes it. Anything else in the text is left out.
pub(super) fn files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut files: Vec<FileDiff<'_>> = Vec::new();
    // Lines of the hunk that are still to come, on both sides, and the next numbers.
    let (mut left, mut next) = ((0, 0), (0, 0));
    let mut is_open = false;
    for line in diff.lines() {
        // No line of a hunk begins like this, even when the hunk has fewer lines than it says.
        let is_next = line.starts_with("diff --git ");
        if is_next || (left == (0, 0) && line.starts_with("--- ") && !is_open) {
            left = (0, 0);
            files.push(FileDiff { kind: "changed", ..FileDiff::default() });
            is_open = true;
        }
        let Some(file) = files.last_mut() else { continue };
        if left == (0, 0) {
            if let Some((old, new)) = hunk(line) {
                (left, next) = ((old.1, new.1), (old.0, new.0));
                is_open = false;
                file.rows.push(DiffRow::Hunk(line));
            } else {
                file.header(line);
            }
            continue;
        }
        let (sign, text) = line.split_at_checked(1).unwrap_or(("", line));
        let row = match sign {
            "+" => DiffRow::Added(next.1, text),
            "-" => DiffRow::Removed(next.0, text),
            "\\" => DiffRow::Remark(line),
            _ => DiffRow::Same(next.0, next.1, text),
        };
        let (old, new) = match row {
            DiffRow::Added(..) => (0, 1),
            DiffRow::Removed(..) => (1, 0),
            DiffRow::Same(..) => (1, 1),
            DiffRow::Hunk(_) | DiffRow::Remark(_) => (0, 0),
        };
        left = (usize::saturating_sub(left.0, old), usize::saturating_sub(left.1, new));
        next = (next.0.saturating_add(old), next.1.saturating_add(new));
        file.removed += usize::from(matches!(row, DiffRow::Removed(..)));
        file.added += usize::from(matches!(row, DiffRow::Added(..)));
        file.rows.push(row);
    }
    files.retain(|file| !file.path.is_empty());
    files
}

impl<'a> FileDiff<'a> {
    /// A line before the first hunk, or between two.
    fn header(&mut self, line: &'a str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            // The paths stand in lines of their own wherever there is something to show of the file.
            "diff" => self.path = rest.rsplit_once(" b/").map_or("", |(_, path)| path),
            "---" if self.path.is_empty() => self.path = side(rest, "a/"),
            "+++" if rest.trim_end() != "/dev/null" => self.path = side(rest, "b/"),
            "new" if rest.starts_with("file") => self.kind = "added",
            "deleted" => self.kind = "deleted",
            "new" if self.kind == "changed" => self.kind = "mode",
            "Binary" | "GIT" => self.kind = "binary",
            "rename" if rest.starts_with("from ") => {
                self.from = rest.strip_prefix("from ");
                self.kind = "moved";
            }
            "\\" => self.rows.push(DiffRow::Remark(line)),
            _ => {}
        }
    }
}

fn side<'a>(path: &'a str, prefix: &str) -> &'a str {
    let path = path.trim_end_matches('\t').trim_matches('"');
    path.strip_prefix(prefix).unwrap_or(path)
}

/// The sides of `@@ -1,2 +3,4 @@`: where they begin, and how many lines they have.
fn hunk(line: &str) -> Option<((usize, usize), (usize, usize))> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |range: &str| match range.split_once(',') {
        Some((from, count)) => Some((from.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    };
    Some((range(old)?, range(new)?))
}

/// The rows of a file with the numbers of both sides.
pub(super) fn table(rows: &[DiffRow<'_>], label: &str) -> Markup {
    let marks = replaced(rows);
    html! {
        table class="diff" aria-label=(label) {
            @for (row, mark) in rows.iter().zip(marks) {
                @let (class, old, new, sign, text) = row.parts();
                tr class=(class) {
                    td { @if let Some(old) = old { (old) } }
                    td { @if let Some(new) = new { (new) } }
                    td {
                        (sign)
                        @if let Some((from, to)) = mark {
                            (line(&text[..from])) mark { (line(&text[from..to])) } (line(&text[to..]))
                        } @else { (line(text)) }
                    }
                }
            }
        }
    }
}

/// The part of each line that differs from the line that it replaces, or that replaces it, where as many lines
/// came as went and most of a line stayed.
fn replaced(rows: &[DiffRow<'_>]) -> Vec<Option<(usize, usize)>> {
    let mut marks = vec![None; rows.len()];
    let run = |from: usize, is: fn(&DiffRow<'_>) -> bool| {
        rows[from..].iter().take_while(|row| is(row)).count()
    };
    let mut at = 0;
    while at < rows.len() {
        let went = run(at, |row| matches!(row, DiffRow::Removed(..)));
        let came = run(at + went, |row| matches!(row, DiffRow::Added(..)));
        if went == came {
            for pair in at..at + went {
                let (old, new) = (rows[pair].parts().4, rows[pair + went].parts().4);
                if let Some((start, end)) = common(old, new) {
                    marks[pair] = Some((start, old.len() - end));
                    marks[pair + went] = Some((start, new.len() - end));
                }
            }
        }
        at += (went + came).max(1);
    }
    marks
}

/// Bytes that two lines have in common at their beginnings and at their ends, when that is most of them.
fn common(old: &str, new: &str) -> Option<(usize, usize)> {
    let same = |(a, b): &(char, char)| a == b;
    let length = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(same).map(|(c, _)| c.len_utf8()).sum::<usize>()
    };
    let start = length(&mut old.chars().zip(new.chars()));
    let end = length(&mut old[start..].chars().rev().zip(new[start..].chars().rev()));
    let shorter = old.len().min(new.len());
    (old.len().max(new.len()) <= MAX_LINE && (start + end) * 2 > shorter && shorter > 0)
        .then_some((start, end))
}

/// Lines without numbers, for edits of which the place is not known; as many as `most` bytes hold. The first
/// character of a line says what it is.
pub(super) fn patch(lines: &[String], most: usize) -> Markup {
    let class = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@' | b'*') => "hunk",
        _ => "same",
    };
    let mut room = most;
    let mut fits = |text: &&String| {
        let left = room.checked_sub(27 + shown::weight(text).min(MAX_LINE));
        room = left.unwrap_or(0);
        left.is_some()
    };
    let shown: Vec<&String> = lines.iter().take_while(|text| fits(text)).collect();
    html! {
        pre class="diff" {
            @for text in &shown { span class=(class(text)) { (line(text)) "\n" } }
            @if shown.len() < lines.len() { "… " (lines.len() - shown.len()) " more lines" }
        }
    }
}

fn line(untrusted: &str) -> String {
    if untrusted.len() <= MAX_LINE
        && untrusted.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
    {
        return untrusted.to_owned();
    }
    // A carriage return in a line would begin another one.
    shown::visible(&text::head(untrusted, MAX_LINE), MAX_LINE).replace('\n', "␤")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_read_with_its_numbers() {
        let text = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ fn\n a\n--- b\n+++ c\n d\n\
                    \\ No newline at end of file\ndiff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n\
                    @@ -0,0 +1 @@\n+n\ndiff --git a/i.png b/i.png\nBinary files a/i.png and b/i.png differ\n";
        let files = files(text);
        let seen: Vec<_> =
            files.iter().map(|it| (it.path, it.kind, it.added, it.removed)).collect();
        assert_eq!(seen, [("x", "changed", 1, 1), ("n", "added", 1, 0), ("i.png", "binary", 0, 0)]);
        assert_eq!(
            files[0].rows[1..],
            [
                DiffRow::Same(1, 1, "a"),
                DiffRow::Removed(2, "-- b"),
                DiffRow::Added(2, "++ c"),
                DiffRow::Same(3, 3, "d"),
                DiffRow::Remark("\\ No newline at end of file"),
            ]
        );
    }

    #[test]
    fn what_differs_in_a_line_is_marked() {
        let marked = |old: &'static str, new: &'static str| {
            let marks = replaced(&[DiffRow::Removed(1, old), DiffRow::Added(1, new)]);
            let part = |text: &'static str, mark: Option<(usize, usize)>| {
                mark.map(|(from, to)| &text[from..to])
            };
            (part(old, marks[0]), part(new, marks[1]))
        };
        assert_eq!(marked("echo $(($1 - $2))", "echo $(($1 + $2))"), (Some("-"), Some("+")));
        assert_eq!(marked("let é = 1;", "let è = 1;"), (Some("é"), Some("è")));
        assert_eq!(marked("aaaa", "aaaaa"), (Some(""), Some("a")));
        assert_eq!(marked("one", "two"), (None, None));
        assert_eq!(marked("", ""), (None, None));
        let rows = [DiffRow::Removed(1, "ab"), DiffRow::Removed(2, "ab"), DiffRow::Added(1, "ac")];
        assert_eq!(replaced(&rows), [None, None, None], "nobody knows which became which");
    }

    #[test]
    fn what_is_no_diff_is_no_file() {
        for text in ["", "words\n", "@@ -1 +1 @@\n-a\n", "+a\n-b\n", "@@ -x +y @@", "diff --git "] {
            assert!(files(text).is_empty(), "{text:?}");
        }
        // Numbers that cannot be end where the text does.
        let text = "--- a/x\n+++ b/x\n@@ -1,99999999999999 +18446744073709551615,2 @@\n+a";
        assert_eq!(files(text).len(), 1);
    }
}
