//! The operations of the hosted `apply_patch` tool: one file each, a diff without an envelope.
//!
//! The dialect is that of the `OpenAI` Agents SDK, whose diffs the hosted models write. It differs from
//! the `apply_patch` format in many small ways: nothing adds a final newline, a file has one kind of
//! line end, a single header is advice, a pure addition goes to the cursor, and nothing is folded.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use crate::block::finder::{Finder, Key};

/// One `apply_patch_call` operation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Operation {
    CreateFile { path: String, diff: String },
    UpdateFile { path: String, diff: String },
    DeleteFile { path: String },
}

/// Why a diff does not fit; the text is for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedError(String);

impl HostedError {
    /// The lines that are not in the file, where that is what is wrong.
    pub fn block(&self) -> Option<&str> {
        let (head, block) = self.0.split_once('\n')?;
        head.starts_with("Invalid").then_some(block).filter(|_| head.contains("Context"))
    }
}

impl fmt::Display for HostedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HostedError {}

const END_OF_FILE: &str = "*** End of File";
const TERMINATORS: [&str; 4] =
    ["*** End Patch", "*** Update File:", "*** Delete File:", "*** Add File:"];

const EXACT: usize = 0;
const TRIMMED: usize = 2;
const PASSES: &[Key] = &[
    |line| Cow::Borrowed(line),
    |line| Cow::Borrowed(line.trim_end_matches(is_blank)),
    |line| Cow::Borrowed(line.trim_matches(is_blank)),
];

/// White space as the SDK's language has it: the four ASCII separators belong to it.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The content of a new file.
pub fn create(diff: &str) -> Result<String, HostedError> {
    let lines = diff_lines(diff);
    let kept = lines.iter().take_while(|line| !is_terminator(line));
    let content: Result<Vec<&str>, HostedError> = kept
        .map(|line| {
            line.strip_prefix('+')
                .ok_or_else(|| HostedError(format!("Invalid Add File Line: {line}")))
        })
        .collect();
    Ok(content?.join(line_end(diff)))
}

/// The content of a changed file.
pub fn update(input: &str, diff: &str) -> Result<String, HostedError> {
    let end = line_end(if input.contains('\n') { input } else { diff });
    let normal = input.replace("\r\n", "\n");
    let file: Vec<&str> = normal.split('\n').collect();
    let diff = diff_lines(diff);
    let mut cursor = Cursor { file: &file, finder: Finder::new(&file, PASSES), at: 0 };
    let mut edits: Vec<Edit<'_>> = Vec::new();
    let mut next = 0;
    while next < diff.len() && !is_terminator(diff[next]) && !diff[next].starts_with(END_OF_FILE) {
        let (headers, count) = headers(&diff[next..]);
        next += count;
        if count == 0 && cursor.at != 0 {
            return Err(HostedError(format!("Invalid Line:\n{}", diff[next])));
        }
        cursor.pass_headers(&headers, count)?;
        let hunk = Hunk::read(&diff, next)?;
        let start = cursor.pass_block(&hunk)?;
        edits.extend(hunk.edits.into_iter().map(|edit| Edit { at: edit.at + start, ..edit }));
        next = hunk.end;
    }
    splice(&file, &edits).map(|lines| lines.join(end))
}

fn splice<'a>(file: &[&'a str], edits: &[Edit<'a>]) -> Result<Vec<&'a str>, HostedError> {
    let mut out = Vec::with_capacity(file.len());
    let mut done = 0;
    for edit in edits {
        if edit.at < done {
            return Err(HostedError(format!(
                "applyDiff: overlapping chunk at {} (cursor {done})",
                edit.at
            )));
        }
        let kept = file.get(done..edit.at).ok_or_else(|| {
            HostedError(format!(
                "applyDiff: chunk at {} is behind the last line, {}",
                edit.at,
                file.len()
            ))
        })?;
        out.extend_from_slice(kept);
        out.extend_from_slice(&edit.added);
        done = edit.at + edit.removed;
    }
    out.extend_from_slice(file.get(done..).unwrap_or_default());
    Ok(out)
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn diff_lines(diff: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = diff.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

fn is_terminator(line: &str) -> bool {
    TERMINATORS.iter().any(|prefix| line.starts_with(prefix))
}

/// The headers in front of a hunk that are not empty, and how many lines they take in all.
fn headers<'a>(diff: &[&'a str]) -> (Vec<&'a str>, usize) {
    let texts: Vec<&str> = diff
        .iter()
        .map_while(|line| if *line == "@@" { Some("") } else { line.strip_prefix("@@ ") })
        .collect();
    let count = texts.len();
    (texts.into_iter().filter(|text| !text.trim_matches(is_blank).is_empty()).collect(), count)
}

/// The place in the file up to which hunks have been applied.
struct Cursor<'f> {
    file: &'f [&'f str],
    finder: Finder<'f>,
    at: usize,
}

impl Cursor<'_> {
    /// Moves behind the headers. A lone header that is not in the file is ignored; of several
    /// (counting bare ones), each must be found.
    fn pass_headers(&mut self, headers: &[&str], count: usize) -> Result<(), HostedError> {
        for (index, header) in headers.iter().enumerate() {
            let found = [EXACT, TRIMMED].into_iter().any(|pass| {
                // The first header may also stand above the cursor, which then stays.
                if index == 0
                    && self.finder.find_in_pass(pass, &[header], 0).is_some_and(|at| at < self.at)
                {
                    return true;
                }
                let place = self.finder.find_in_pass(pass, &[header], self.at);
                self.at = place.map_or(self.at, |place| place + 1);
                place.is_some()
            });
            if !found && count > 1 {
                return Err(HostedError(format!("Invalid Anchor {}:\n{header}", self.at)));
            }
        }
        Ok(())
    }

    /// Finds the hunk's old lines, moves behind them, and returns where they begin.
    fn pass_block(&mut self, hunk: &Hunk<'_>) -> Result<usize, HostedError> {
        let start = if hunk.at_end {
            self.find_at_end(&hunk.old)
        } else {
            self.finder.find(&hunk.old, self.at)
        };
        let Some(start) = start else {
            let kind = if hunk.at_end { "Invalid EOF Context" } else { "Invalid Context" };
            return Err(HostedError(format!("{kind} {}:\n{}", self.at, hunk.old.join("\n"))));
        };
        self.at = start + hunk.old.len();
        Ok(start)
    }

    /// At the last line if it fits there, even above the cursor, else anywhere below the cursor. The
    /// empty text behind the final newline is not a line here.
    fn find_at_end(&mut self, old: &[&str]) -> Option<usize> {
        let lines = self.file.strip_suffix(&[""]).unwrap_or(self.file).len();
        let start = lines.saturating_sub(old.len());
        if start + old.len() <= lines && self.finder.is_at(old, start) {
            return Some(start);
        }
        let from = self.at.min(lines);
        (0..PASSES.len()).find_map(|pass| {
            let found = self.finder.find_in_pass(pass, old, from)?;
            (found + old.len() <= lines).then_some(found)
        })
    }
}

/// Lines to put in the place of others.
struct Edit<'a> {
    at: usize,
    removed: usize,
    added: Vec<&'a str>,
}

/// One hunk of a diff.
struct Hunk<'a> {
    /// Context and removed lines.
    old: Vec<&'a str>,
    /// Relative to the first old line.
    edits: Vec<Edit<'a>>,
    at_end: bool,
    /// Index of the first line behind the hunk.
    end: usize,
}

impl<'a> Hunk<'a> {
    fn read(diff: &[&'a str], start: usize) -> Result<Hunk<'a>, HostedError> {
        let mut hunk = Hunk { old: Vec::new(), edits: Vec::new(), at_end: false, end: start };
        let mut in_run = false;
        while let Some(line) = diff.get(hunk.end).copied() {
            let ends = ["@@", END_OF_FILE].iter().any(|prefix| line.starts_with(prefix));
            if ends || is_terminator(line) || line == "***" {
                break;
            }
            if line.starts_with("***") {
                return Err(HostedError(format!("Invalid Line: {line}")));
            }
            let (kind, text) = match line.as_bytes().first() {
                None => (b' ', ""),
                Some(kind @ (b' ' | b'+' | b'-')) => (*kind, &line[1..]),
                Some(_) => return Err(HostedError(format!("Invalid Line: {line}"))),
            };
            hunk.end += 1;
            if kind != b' ' && !in_run {
                hunk.edits.push(Edit { at: hunk.old.len(), removed: 0, added: Vec::new() });
            }
            in_run = kind != b' ';
            if let Some(edit) = hunk.edits.last_mut() {
                match kind {
                    b'+' => edit.added.push(text),
                    b'-' => edit.removed += 1,
                    _ => {}
                }
            }
            if kind != b'+' {
                hunk.old.push(text);
            }
        }
        if diff.get(hunk.end) == Some(&END_OF_FILE) {
            hunk.at_end = true;
            hunk.end += 1;
        } else if hunk.end == start {
            let line = diff.get(start).copied().unwrap_or(TERMINATORS[0]);
            return Err(HostedError(format!("Nothing in this section - index={start} {line}")));
        }
        Ok(hunk)
    }
}
