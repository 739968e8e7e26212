//! What is in a diff, as the real `git diff -U3 -M` says: files, hunks, and which lines can take a
//! comment. Nothing here knows the product, so that it can judge it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::support::git_http::command;

/// A diff between two commits.
#[derive(Debug)]
pub(crate) struct Diff {
    /// As git wrote it.
    pub(crate) text: String,
    pub(crate) files: Vec<FileDiff>,
}

/// One file of a diff.
#[derive(Clone, Debug)]
pub(crate) struct FileDiff {
    /// `A`, `D`, `M`, `R`, `C`, `T`.
    pub(crate) status: char,
    /// Its new name; the old one when it is gone.
    pub(crate) path: String,
    pub(crate) old_path: String,
    pub(crate) blob: String,
    /// Empty for what has no lines: binary files, mere renames, submodules.
    pub(crate) hunks: Vec<Hunk>,
    pub(crate) additions: usize,
    pub(crate) deletions: usize,
    /// From the first `@@` on, without the last newline.
    pub(crate) patch: String,
}

/// Lines that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Hunk {
    /// The line with `@@`.
    pub(crate) header: String,
    pub(crate) old: (u32, u32),
    pub(crate) new: (u32, u32),
    pub(crate) lines: Vec<Line>,
}

/// A line of a hunk.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Number in the old file; none for an added line.
    pub(crate) old: Option<u32>,
    /// Number in the new file; none for a deleted line.
    pub(crate) new: Option<u32>,
    pub(crate) text: String,
}

impl Line {
    fn number(&self, side: &str) -> Option<u32> {
        if side == "LEFT" { self.old } else { self.new }
    }

    fn shown(&self) -> String {
        let sign = match (self.old, self.new) {
            (Some(_), None) => '-',
            (None, _) => '+',
            _ => ' ',
        };
        format!("{sign}{}", self.text)
    }
}

impl FileDiff {
    /// Hunk and place in it of a line.
    pub(crate) fn find(&self, side: &str, line: u32) -> Option<(usize, usize)> {
        self.hunks.iter().enumerate().find_map(|(index, hunk)| {
            let at = hunk.lines.iter().position(|other| other.number(side) == Some(line))?;
            Some((index, at))
        })
    }

    /// What GitHub calls position: lines below the first `@@`, further `@@` lines counted.
    pub(crate) fn position(&self, hunk: usize, at: usize) -> usize {
        let before: usize = self.hunks[..hunk].iter().map(|hunk| hunk.lines.len() + 1).sum();
        before + at + 1
    }

    /// The line at a position.
    pub(crate) fn at_position(&self, position: usize) -> Option<(&'static str, u32)> {
        let mut lines = self.hunks.iter().enumerate().flat_map(|(index, hunk)| {
            let header = (index > 0).then_some(None);
            header.into_iter().chain(hunk.lines.iter().map(Some))
        });
        let line = lines.nth(position.checked_sub(1)?)??;
        match line.new {
            Some(new) => Some(("RIGHT", new)),
            None => line.old.map(|old| ("LEFT", old)),
        }
    }

    /// The hunk down to a line, as comments carry it.
    pub(crate) fn hunk_text(&self, hunk: usize, at: usize) -> String {
        let hunk = &self.hunks[hunk];
        let mut text = hunk.header.clone();
        for line in &hunk.lines[..=at] {
            text.push('\n');
            text.push_str(&line.shown());
        }
        text
    }

    /// The text of the lines from `start` to `line`, as a comment on them shows it.
    pub(crate) fn quoted(&self, start: Option<(&str, u32)>, side: &str, line: u32) -> Vec<String> {
        let Some((hunk, last)) = self.find(side, line) else { return Vec::new() };
        let first = start.and_then(|(side, line)| self.find(side, line)).map_or(last, |(_, at)| at);
        let lines = self.hunks[hunk].lines.get(first..=last).unwrap_or_default();
        // Between two lines of one side, what is only on the other is not meant.
        let meant = |line: &&Line| {
            start.is_some_and(|(other, _)| other != side) || line.number(side).is_some()
        };
        lines.iter().filter(meant).map(|line| line.text.clone()).collect()
    }
}

impl Diff {
    pub(crate) fn file(&self, path: &str) -> Option<&FileDiff> {
        self.files.iter().find(|file| file.path == path)
    }
}

type Key = (String, String, u32);

/// The diff between two commits with so many lines of context.
pub(crate) fn between(path: &Path, from: &str, to: &str, context: u32) -> Arc<Diff> {
    static KNOWN: OnceLock<Mutex<HashMap<Key, Arc<Diff>>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let key = (from.to_owned(), to.to_owned(), context);
    if let Some(diff) = known.lock().get(&key) {
        return diff.clone();
    }
    let context = format!("-U{context}");
    let common = ["-c", "core.quotePath=false", "diff", "-M", "--no-ext-diff", "--no-color"];
    let run = |more: &[&str]| {
        let args: Vec<&str> = common.iter().chain(more).chain([&from, &to]).copied().collect();
        let output = command(path, &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?} in {}: {said}", path.display());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = run(&["--full-index", &context]);
    let raw = run(&["--raw", "-z", "--no-abbrev"]);
    let diff = Arc::new(Diff { files: files(&raw, &text), text });
    known.lock().insert(key, diff.clone());
    diff
}

/// Where two histories parted.
pub(crate) fn merge_base(path: &Path, one: &str, other: &str) -> Option<String> {
    static KNOWN: OnceLock<Mutex<HashMap<(String, String), String>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let key = (one.to_owned(), other.to_owned());
    if let Some(base) = known.lock().get(&key) {
        return Some(base.clone());
    }
    let base = super::git::run(path, &["merge-base", one, other])?;
    // Names of branches mean something else tomorrow.
    if one.len() == 40 && other.len() == 40 {
        known.lock().insert(key, base.clone());
    }
    Some(base)
}

/// Where a line of one commit is in another; none when it was changed or its file is gone or renamed.
pub(crate) fn follow(path: &Path, from: &str, to: &str, file: &str, line: u32) -> Option<u32> {
    if from == to {
        return Some(line);
    }
    let diff = between(path, from, to, 0);
    let Some(changed) = diff.files.iter().find(|other| other.old_path == file) else {
        return Some(line);
    };
    if changed.path != file || changed.status == 'D' || changed.hunks.is_empty() {
        return None;
    }
    let mut moved = i64::from(line);
    for hunk in &changed.hunks {
        let (start, count) = hunk.old;
        if count > 0 && (start..start + count).contains(&line) {
            return None;
        }
        // An insertion stands after the line that it names.
        if start < line {
            moved += i64::from(hunk.new.1) - i64::from(count);
        }
    }
    u32::try_from(moved).ok()
}

fn files(raw: &str, text: &str) -> Vec<FileDiff> {
    let mut sections = sections(text).into_iter();
    let mut fields = raw.split('\0');
    let mut files = Vec::new();
    while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
        let parts: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let status = parts[4].chars().next().unwrap();
        let old_path = fields.next().unwrap().to_owned();
        let path = if "RC".contains(status) {
            fields.next().unwrap().to_owned()
        } else {
            old_path.clone()
        };
        let section = sections.next().unwrap_or_default();
        if status == 'T' {
            // The old kind goes and the new kind comes, each with a section.
            sections.next();
        }
        let submodule = parts[0] == "160000" || parts[1] == "160000";
        let hunks = if submodule || status == 'T' { Vec::new() } else { hunks(section) };
        let count = |what: fn(&Line) -> bool| {
            hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| what(line)).count()
        };
        let start = section.find("\n@@ -").map_or(section.len(), |at| at + 1);
        let shown = if hunks.is_empty() { "" } else { &section[start..] };
        files.push(FileDiff {
            status,
            blob: parts[if status == 'D' { 2 } else { 3 }].to_owned(),
            additions: count(|line| line.old.is_none()),
            deletions: count(|line| line.new.is_none()),
            patch: shown.trim_end_matches('\n').to_owned(),
            path,
            old_path,
            hunks,
        });
    }
    files
}

/// The parts of a diff that begin with `diff --git`. Lines of files begin with a sign.
fn sections(text: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]).collect::<Vec<_>>();
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

fn hunks(section: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let (mut old, mut new) = (0, 0);
    for line in section.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        if let Some((from, to)) = ranges(line) {
            (old, new) = (from.0, to.0);
            hunks.push(Hunk { header: line.to_owned(), old: from, new: to, lines: Vec::new() });
            continue;
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        let Some(text) = line.get(1..) else { continue };
        let (has_old, has_new) = match line.as_bytes()[0] {
            b' ' => (true, true),
            b'-' => (true, false),
            b'+' => (false, true),
            // `\ No newline at end of file`
            _ => continue,
        };
        let line = Line {
            old: has_old.then_some(old),
            new: has_new.then_some(new),
            text: text.to_owned(),
        };
        old += u32::from(has_old);
        new += u32::from(has_new);
        hunk.lines.push(line);
    }
    hunks
}

/// `@@ -1,2 +3 @@`: first line and number of lines on both sides.
fn ranges(line: &str) -> Option<((u32, u32), (u32, u32))> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some((range(old)?, range(new)?))
}
