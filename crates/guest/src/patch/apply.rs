//! Applies the hunks of one update section to the bytes of one file.
//!
//! Only lines that the hunks remove or add change; every other byte is copied. The one exception is
//! a last line without an end, which gets one.

use std::fmt;
use std::str::Utf8Error;

use super::parse::{Hunk, Line, LineKind};
use crate::block::finder::{Finder, PASSES};

/// What can be done about a file that is not in UTF-8, which patches and edits are.
pub const OTHER_ENCODING: &str = "The file is not in UTF-8. Change it with a command that works on its bytes or knows its \
                                  encoding, such as `perl -pi -e 's/OLD/NEW/' FILE`, or Python's `open` with `encoding=` \
                                  and `newline=''`";

/// Why the hunks do not fit the file. Printed with the path by [`ApplyError::at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    NotUtf8(Utf8Error),
    /// The text behind an `@@`.
    Header(String),
    /// Context and removed lines, each with a line feed between.
    Lines(String),
}

impl ApplyError {
    /// The message for the model.
    pub fn at(&self, path: &str) -> String {
        match self {
            ApplyError::NotUtf8(err) => {
                format!("Failed to read file to update {path}: {err}\n{OTHER_ENCODING}")
            }
            ApplyError::Header(text) => format!("Failed to find context '{text}' in {path}"),
            ApplyError::Lines(text) => {
                format!("Failed to find expected lines in {path}:\n{text}")
            }
        }
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at("the file"))
    }
}

impl std::error::Error for ApplyError {}

/// Lines to put in the place of others.
struct Edit<'a> {
    at: usize,
    removed: usize,
    added: Vec<&'a str>,
}

/// The file after the hunks.
pub fn update(content: &[u8], hunks: &[Hunk<'_>]) -> Result<Vec<u8>, ApplyError> {
    let text = std::str::from_utf8(content).map_err(ApplyError::NotUtf8)?;
    let file = FileLines::split(text);
    let mut finder = Finder::new(&file.texts, PASSES);
    let mut edits = Vec::new();
    let mut position = 0;
    for hunk in hunks {
        position = place(&mut finder, file.texts.len(), hunk, position, &mut edits)?;
    }
    edits.sort_by_key(|edit| edit.at);
    Ok(file.write(&edits))
}

/// Finds the hunk's place, notes its edits, and returns the position behind it.
fn place<'a>(
    finder: &mut Finder<'_>,
    file_lines: usize,
    hunk: &Hunk<'a>,
    mut position: usize,
    edits: &mut Vec<Edit<'a>>,
) -> Result<usize, ApplyError> {
    for header in &hunk.headers {
        position = finder
            .find(&[header], position)
            .ok_or_else(|| ApplyError::Header((*header).to_owned()))?
            + 1;
    }
    let old = old_lines(&hunk.lines);
    if old.is_empty() {
        let added = hunk.lines.iter().map(|line| line.text).collect();
        edits.push(Edit { at: file_lines, removed: 0, added });
        return Ok(position);
    }
    if let Some(start) = seek(finder, file_lines, &old, position, hunk.at_end) {
        note(&hunk.lines, start, edits);
        return Ok(start + old.len());
    }
    if let [shorter @ .., ""] = old.as_slice()
        && let Some(start) = seek(finder, file_lines, shorter, position, hunk.at_end)
    {
        note(&without_last_blank(&hunk.lines), start, edits);
        return Ok(start + shorter.len());
    }
    Err(ApplyError::Lines(old.join("\n")))
}

fn seek(
    finder: &mut Finder<'_>,
    file_lines: usize,
    block: &[&str],
    position: usize,
    at_end: bool,
) -> Option<usize> {
    if !at_end || block.is_empty() {
        return finder.find(block, position);
    }
    let start = file_lines.checked_sub(block.len())?;
    (start >= position && finder.is_at(block, start)).then_some(start)
}

fn old_lines<'a>(lines: &[Line<'a>]) -> Vec<&'a str> {
    lines.iter().filter(|line| line.kind != LineKind::Add).map(|line| line.text).collect()
}

/// The hunk without its last old line, which is empty, and without its last new line when that is
/// empty too.
fn without_last_blank<'a>(lines: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut lines = lines.to_vec();
    let last_new = lines.iter().rposition(|line| line.kind != LineKind::Remove);
    let Some(last_old) = lines.iter().rposition(|line| line.kind != LineKind::Add) else {
        return lines;
    };
    // Context is old and new; what is taken from one side stays on the other.
    let mut gone = Vec::new();
    match lines[last_old].kind {
        LineKind::Context => lines[last_old].kind = LineKind::Add,
        LineKind::Remove | LineKind::Add => gone.push(last_old),
    }
    if let Some(last_new) = last_new
        && lines[last_new].text.is_empty()
    {
        match lines[last_new].kind {
            LineKind::Context => lines[last_new].kind = LineKind::Remove,
            LineKind::Add | LineKind::Remove => gone.push(last_new),
        }
    }
    gone.sort_unstable();
    for index in gone.into_iter().rev() {
        lines.remove(index);
    }
    lines
}

/// Turns each run of removed and added lines between context lines into an edit.
fn note<'a>(lines: &[Line<'a>], start: usize, edits: &mut Vec<Edit<'a>>) {
    let mut at = start;
    for run in lines.split(|line| line.kind == LineKind::Context) {
        let added: Vec<&str> =
            run.iter().filter(|line| line.kind == LineKind::Add).map(|line| line.text).collect();
        let removed = run.len() - added.len();
        if !run.is_empty() {
            edits.push(Edit { at, removed, added });
        }
        at += removed + 1;
    }
}

/// A file as lines. LF, CRLF and a lone CR end a line.
struct FileLines<'a> {
    text: &'a str,
    texts: Vec<&'a str>,
    /// Where each line begins; one more entry for the end of the file.
    starts: Vec<usize>,
    /// The first line end of the file, LF when it has none.
    line_end: &'a str,
}

impl<'a> FileLines<'a> {
    fn split(text: &'a str) -> FileLines<'a> {
        let mut file = FileLines { text, texts: Vec::new(), starts: Vec::new(), line_end: "\n" };
        let bytes = text.as_bytes();
        let mut start = 0;
        for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            if at < start {
                continue; // the LF of a CRLF
            }
            let is_crlf = bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n');
            let end = at + if is_crlf { 2 } else { 1 };
            if start == 0 && file.texts.is_empty() {
                file.line_end = &text[at..end];
            }
            file.texts.push(&text[start..at]);
            file.starts.push(start);
            start = end;
        }
        if start < text.len() {
            file.texts.push(&text[start..]);
            file.starts.push(start);
        }
        file.starts.push(text.len());
        file
    }

    /// The file with the edits, which are sorted and do not overlap.
    fn write(&self, edits: &[Edit<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + 1024);
        let mut done = 0;
        for edit in edits {
            self.copy(done, edit.at, &mut out);
            for line in &edit.added {
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(self.line_end.as_bytes());
            }
            done = done.max(edit.at + edit.removed);
        }
        self.copy(done, self.texts.len(), &mut out);
        out
    }

    /// Copies lines `from..to` with their ends.
    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        if from >= to {
            return;
        }
        out.extend_from_slice(&self.text.as_bytes()[self.starts[from]..self.starts[to]]);
        let lacks_end = to == self.texts.len() && !self.text.ends_with(['\n', '\r']);
        if lacks_end {
            out.extend_from_slice(self.line_end.as_bytes());
        }
    }
}
