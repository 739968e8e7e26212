//! Whether the code of earlier findings still stands: looked for in the files of the head, and, for code
//! that the pull request deletes, in its difference.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::workspace::Workspace;
use patchwright_git::hunks::{Diff, FileStatus, Hunk};
use patchwright_git::{encoding, tree};
use patchwright_review::anchor::Anchored;
use patchwright_review::fingerprint::{self, SketchIndex};
use patchwright_review::incremental::{CodeLocation, KnownFinding};
use patchwright_review::suggested::{KnownSuggestion, SuggestionCounts};

/// The reviewed commit and its difference.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) diff: &'a Diff,
}

/// Looks for code, reading each file once.
pub(super) struct CodeSearch<'a> {
    head: Head<'a>,
    files: RefCell<HashMap<String, File>>,
}

#[derive(Clone)]
enum File {
    Absent,
    /// It is there, and its lines are not.
    Unread,
    Lines(Rc<FileLines>),
}

struct FileLines {
    text: String,
    index: SketchIndex,
}

impl FileLines {
    fn new(text: String) -> FileLines {
        let index = SketchIndex::new(text.lines());
        FileLines { text, index }
    }

    fn all(&self) -> Vec<&str> {
        self.text.lines().collect()
    }
}

impl<'a> CodeSearch<'a> {
    pub(super) fn new(head: Head<'a>) -> CodeSearch<'a> {
        CodeSearch { head, files: RefCell::default() }
    }

    /// How often the code of a finding stands where it was; `None` when that cannot be told.
    pub(super) fn times(&self, known: &KnownFinding) -> Option<usize> {
        match known.code {
            CodeLocation::Deleted => self.deleted(known),
            CodeLocation::InHead if known.sketch.is_empty() => self.absent(&known.path),
            CodeLocation::InHead => match self.file(&known.path) {
                File::Absent => Some(0),
                File::Unread => None,
                File::Lines(lines) => Some(lines.index.times(&known.sketch)),
            },
            CodeLocation::Nowhere | CodeLocation::NoFile => self.absent(&known.path),
        }
    }

    /// The line on which the code of a finding ends, counted from 1, where it stands at one place of the head.
    pub(super) fn line(&self, known: &KnownFinding) -> Option<u32> {
        let File::Lines(lines) = self.file(&known.path) else { return None };
        let is_in_head = known.code == CodeLocation::InHead;
        match fingerprint::places(&lines.all(), &known.sketch).as_slice() {
            [(_, last)] if is_in_head => u32::try_from(last + 1).ok(),
            _ => None,
        }
    }

    /// The suggestion of a finding, as it is remembered.
    pub(super) fn suggestion(&self, anchored: &Anchored) -> Option<KnownSuggestion> {
        match self.file(anchored.path()) {
            File::Lines(lines) => KnownSuggestion::new(anchored, &lines.all()),
            File::Absent | File::Unread => None,
        }
    }

    /// What of the suggestion of a finding stands in its file; `None` when it has none, or that cannot be told.
    pub(super) fn suggested(&self, known: &KnownFinding) -> Option<SuggestionCounts> {
        match (&known.suggestion, self.file(&known.path)) {
            (Some(suggestion), File::Lines(lines)) => {
                suggestion.counts(&lines.all(), &known.sketch)
            }
            _ => None,
        }
    }

    /// Without code to look for, only the end of the file is an end.
    fn absent(&self, path: &str) -> Option<usize> {
        matches!(self.file(path), File::Absent).then_some(0)
    }

    fn file(&self, path: &str) -> File {
        if let Some(file) = self.files.borrow().get(path) {
            return file.clone();
        }
        let Workspace { repo, base, .. } = self.head.workspace;
        let file = match tree::file_at(repo, *base, path) {
            Ok(None) => self.shown(path),
            // A file that cannot be read is no file that is gone.
            Err(_) => File::Unread,
            Ok(Some(content)) => {
                let text = String::from_utf8_lossy(&encoding::decoded(&content)).into_owned();
                File::Lines(Rc::new(FileLines::new(text)))
            }
        };
        self.files.borrow_mut().insert(path.to_owned(), file.clone());
        file
    }

    /// What is no regular file at this very path, a link or one whose name is not UTF-8, as the difference shows it.
    fn shown(&self, path: &str) -> File {
        let files = &self.head.diff.files;
        let file = files.iter().find(|it| it.path == path && it.status != FileStatus::Deleted);
        let Some(file) = file else { return File::Absent };
        let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
        let lines = lines.filter(|line| line.new.is_some()).map(|line| line.text.as_str());
        File::Lines(Rc::new(FileLines::new(lines.collect::<Vec<_>>().join("\n"))))
    }

    /// How often the lines of the old version that hold the code are still deleted.
    fn deleted(&self, known: &KnownFinding) -> Option<usize> {
        let named = |path: &str| path == known.path;
        let files = &self.head.diff.files;
        let file = files
            .iter()
            .find(|file| named(&file.path) || file.old_path.as_deref().is_some_and(named));
        let Some(file) = file else { return Some(0) };
        if file.opaque {
            return None;
        }
        let times = |hunk: &Hunk| {
            let old = || hunk.lines.iter().filter(|line| line.old.is_some());
            let kept = old().filter(|line| line.new.is_some());
            let all = SketchIndex::new(old().map(|line| line.text.as_str()));
            // Where nothing of it is deleted, it is context.
            let context = SketchIndex::new(kept.map(|line| line.text.as_str()));
            all.times(&known.sketch).saturating_sub(context.times(&known.sketch))
        };
        Some(file.hunks.iter().map(times).sum())
    }
}
