//! What the real git says of two trees: the judge of places on a diff. Shares nothing with the code
//! that it judges.

use std::path::Path;

use patchwright_forge::Side;
use patchwright_git::hunks::{Diff, FileStatus};
use patchwright_review::anchor::Anchor;

use crate::support::git_repo::git_bytes;

/// `git diff --find-renames -U3`, parsed.
#[derive(Debug, Default)]
pub(crate) struct RealDiff {
    pub(crate) files: Vec<RealFile>,
}

#[derive(Debug, Default)]
pub(crate) struct RealFile {
    pub(crate) path: String,
    pub(crate) old_path: Option<String>,
    /// As git calls it: `A`, `M`, `D`, `R`, `T`.
    pub(crate) status: char,
    pub(crate) is_submodule: bool,
    pub(crate) is_binary: bool,
    pub(crate) hunks: Vec<Vec<RealLine>>,
}

/// Numbers in the old and the new file, and the text without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RealLine {
    pub(crate) old: Option<u32>,
    pub(crate) new: Option<u32>,
    pub(crate) text: String,
}

impl RealDiff {
    /// Between two commits or trees of a repository.
    pub(crate) fn between(repository: &Path, old: &str, new: &str) -> RealDiff {
        let diff = |format: &[&str]| {
            let mut args = vec!["-c", "core.quotePath=false", "diff", "--find-renames"];
            args.extend(["--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"]);
            args.extend(format);
            args.extend([old, new, "--"]);
            git_bytes(repository, &args)
        };
        let mut files = raw(&diff(&["--raw", "-z", "--abbrev=40"]));
        let patch = diff(&["--patch", "-U3", "--full-index"]);
        let mut sections = Sections { rest: &patch };
        for file in &mut files {
            // Another kind of file at the same path is printed as a deletion and an addition.
            for _ in 0..if file.status == 'T' { 2 } else { 1 } {
                sections.read(file);
            }
        }
        assert!(sections.rest.is_empty(), "{}", String::from_utf8_lossy(sections.rest));
        RealDiff { files }
    }

    /// The files of which lines are shown.
    pub(crate) fn shown(&self) -> Vec<&RealFile> {
        let is_shown = |file: &&RealFile| {
            let lines: usize = file.hunks.iter().map(Vec::len).sum();
            let bytes: usize = file.hunks.iter().flatten().map(|line| line.text.len() + 1).sum();
            let is_text = !file.is_binary && !file.is_submodule;
            is_text && lines <= 20_000 && bytes < 1_000_000 && lines > 0
        };
        self.files.iter().filter(is_shown).collect()
    }

    /// What we say of the same trees is the same; returns the first difference.
    pub(crate) fn differs_from(&self, ours: &Diff) -> Option<String> {
        let paths: Vec<_> = ours.files.iter().map(|file| (&file.path, &file.old_path)).collect();
        let real: Vec<_> = self.files.iter().map(|file| (&file.path, &file.old_path)).collect();
        if paths != real {
            let at = paths.iter().zip(&real).position(|(a, b)| a != b);
            let at = at.unwrap_or(paths.len().min(real.len()));
            return Some(format!("{at}: {:?} instead of {:?}", paths.get(at), real.get(at)));
        }
        self.files.iter().zip(&ours.files).find_map(|(real, ours)| {
            let status = match real.status {
                'A' => FileStatus::Added,
                'D' => FileStatus::Deleted,
                'R' => FileStatus::Renamed,
                'T' => FileStatus::ModeChanged,
                _ if real.hunks.is_empty() && !real.is_binary => FileStatus::ModeChanged,
                _ => FileStatus::Modified,
            };
            if status != ours.status {
                return Some(format!("{}: {:?} instead of {status:?}", real.path, ours.status));
            }
            let opaque = real.is_binary || real.is_submodule;
            if ours.opaque {
                let lines: usize = real.hunks.iter().map(Vec::len).sum();
                let bytes: usize = real.hunks.iter().flatten().map(|line| line.text.len()).sum();
                let is_large = lines > 20_000 || bytes > 1_000_000;
                return (!opaque && !is_large).then(|| format!("{} is opaque", real.path));
            }
            if real.is_binary {
                // Text for us all the same; git does not say how it differs.
                return None;
            }
            if opaque {
                return Some(format!("{} is not opaque", real.path));
            }
            let hunks: Vec<Vec<RealLine>> = ours
                .hunks
                .iter()
                .map(|hunk| {
                    let line = |line: &patchwright_git::hunks::Line| RealLine {
                        old: line.old,
                        new: line.new,
                        text: line.text.clone(),
                    };
                    hunk.lines.iter().map(line).collect()
                })
                .collect();
            if hunks != real.hunks {
                return Some(format!("{}:\n{hunks:#?}\ninstead of\n{:#?}", real.path, real.hunks));
            }
            let count = |of: fn(&RealLine) -> bool| {
                u32::try_from(hunks.iter().flatten().filter(|line| of(line)).count()).unwrap()
            };
            let (added, deleted) =
                (count(|line| line.old.is_none()), count(|line| line.new.is_none()));
            ((added, deleted) != (ours.added, ours.deleted))
                .then(|| format!("{}: +{} -{}", real.path, ours.added, ours.deleted))
        })
    }

    /// The lines of a place, when a forge would accept a comment there; otherwise why not.
    pub(crate) fn lines_at(&self, anchor: &Anchor) -> Result<Vec<&str>, String> {
        let Anchor::Lines { path, side, line, start_line } = anchor else {
            return Err(format!("not on lines: {anchor:?}"));
        };
        let file = self.files.iter().find(|file| file.path == *path).ok_or("no such file")?;
        let number = |one: &RealLine| if *side == Side::Right { one.new } else { one.old };
        let start = start_line.unwrap_or(*line);
        if start_line.is_some() && start >= *line {
            return Err(format!("{start} is not before {line}"));
        }
        let hunk = file.hunks.iter().find(|hunk| {
            let has = |wanted: u32| hunk.iter().any(|one| number(one) == Some(wanted));
            has(start) && has(*line)
        });
        let hunk =
            hunk.ok_or_else(|| format!("{start} to {line} are not in one hunk of {path}"))?;
        let inside = |one: &&RealLine| number(one).is_some_and(|at| (start..=*line).contains(&at));
        Ok(hunk.iter().filter(inside).map(|one| one.text.as_str()).collect())
    }
}

/// `:oldmode newmode oldid newid S[score]` NUL path NUL [path NUL].
fn raw(output: &[u8]) -> Vec<RealFile> {
    let mut fields = output.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut files = Vec::new();
    while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let status = words[4].chars().next().unwrap();
        let first = fields.next().unwrap().into_owned();
        let second = (status == 'R').then(|| fields.next().unwrap().into_owned());
        let (path, old_path) = match second {
            Some(second) => (second, Some(first)),
            None => (first, None),
        };
        let is_submodule = words[0] == "160000" || words[1] == "160000";
        files.push(RealFile { path, old_path, status, is_submodule, ..RealFile::default() });
    }
    files
}

/// The rest of a patch.
struct Sections<'a> {
    rest: &'a [u8],
}

impl<'a> Sections<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        let rest = self.rest;
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        (end > 0).then(|| &rest[..end])
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.peek()?;
        self.rest = &self.rest[line.len()..];
        Some(line)
    }

    fn read(&mut self, file: &mut RealFile) {
        let head = self.next().unwrap();
        assert!(head.starts_with(b"diff --git "), "{}", String::from_utf8_lossy(head));
        while let Some(line) = self.peek().filter(|line| !line.starts_with(b"diff --git ")) {
            self.next();
            if line.starts_with(b"Binary files ") {
                file.is_binary = true;
            }
            if line.starts_with(b"@@ ") {
                let hunk = self.hunk(&String::from_utf8_lossy(line));
                file.hunks.push(hunk);
            }
        }
    }

    fn hunk(&mut self, head: &str) -> Vec<RealLine> {
        let mut ranges = head.split(' ').skip(1).take(2).map(|range| {
            let (start, count) = range[1..].split_once(',').unwrap_or((&range[1..], "1"));
            (start.parse::<u32>().unwrap(), count.parse::<u32>().unwrap())
        });
        let ((mut old, mut olds), (mut new, mut news)) =
            (ranges.next().unwrap(), ranges.next().unwrap());
        let mut lines = Vec::new();
        while olds > 0 || news > 0 {
            let line = self.next().unwrap();
            let (sign, text) = (line[0], text(&line[1..]));
            if sign == b'\\' {
                continue;
            }
            let (in_old, in_new) = (sign != b'+', sign != b'-');
            lines.push(RealLine { old: in_old.then_some(old), new: in_new.then_some(new), text });
            (old, olds) = (old + u32::from(in_old), olds - u32::from(in_old));
            (new, news) = (new + u32::from(in_new), news - u32::from(in_new));
        }
        lines
    }
}

fn text(line: &[u8]) -> String {
    let ended = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(ended.strip_suffix(b"\r").unwrap_or(ended)).into_owned()
}
