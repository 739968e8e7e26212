//! The difference of two trees as a pull request shows it: files, hunks, numbered lines. It is what
//! `git diff --find-renames -U3` prints with git's defaults, because that is where a forge accepts
//! comments: the indentation heuristic included, renames found by [`super::renames`]. No diff driver
//! and no attribute of the repository is ever consulted. Text that git takes for binary ([`super::encoding`]) has its
//! lines here all the same: what runs as code is to be read.

use std::fmt;
use std::path::Path;

use git2::{DiffOptions, Odb, Patch};
use serde::{Deserialize, Serialize};

use super::encoding;
use super::renames;
use super::repo::Repo;
use super::stop::Stop;
use super::tree_diff::differing;
use super::{GitError, Oid};

/// Files that differ, at most: nobody reviews more.
pub const MAX_FILES: u64 = 20_000;
/// Larger files are not compared, bytes.
const MAX_FILE: usize = 16 << 20;
/// Files that are not compared are still told from binary ones up to this size, bytes.
const MAX_LOOKED_AT: usize = 64 << 20;
/// Files with more lines are not compared.
pub(super) const MAX_FILE_LINES: usize = 500_000;
/// A file whose difference has more lines, context included, is too large to be shown; GitHub's own
/// limit for one file.
const MAX_SHOWN_LINES: usize = 20_000;
/// Bytes of the lines of one file; GitHub's limit for a whole difference.
const MAX_SHOWN_BYTES: usize = 1 << 20;
/// Bytes that are compared in all files together; later files are not compared.
const MAX_COMPARED: usize = 512 << 20;
/// Bytes of the lines of all files together.
const MAX_KEPT: usize = 64 << 20;
/// So far git looks for a NUL that makes a file binary.
const BINARY_WITHIN: usize = 8000;

pub(super) const TYPE: i32 = 0o170_000;
const REGULAR: i32 = 0o100_000;
pub(super) const GITLINK: i32 = 0o160_000;
pub(super) const LINK: i32 = 0o120_000;

/// All files that differ, ordered by the bytes of their new paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    pub files: Vec<FileDiff>,
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    /// At another path, perhaps changed too.
    Renamed,
    /// Only the mode; or a file became a symbolic link or the other way round (then all lines of both are there), or
    /// one of them is a submodule (then it is opaque).
    ModeChanged,
}

/// One file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The new path; of a deleted file the old one. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The old path of a renamed file.
    pub old_path: Option<String>,
    pub status: FileStatus,
    /// No text, a submodule, of another kind than before, or too large to be shown: there are no hunks.
    pub opaque: bool,
    /// It is opaque because there is too much of it, not because it is no text.
    #[serde(default)]
    pub too_large: bool,
    /// It is a symbolic link now: its one line is where it leads.
    #[serde(default)]
    pub is_link: bool,
    /// It may be executed, or may not any more.
    #[serde(default)]
    pub modes: Option<ModeChange>,
    pub hunks: Vec<Hunk>,
    /// Lines; also of a file that is too large to be shown, when it was compared.
    pub added: u32,
    pub deleted: u32,
}

/// Another mode of a file that is a file before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    old: i32,
    new: i32,
}

impl ModeChange {
    fn of(pair: &FilePair) -> Option<ModeChange> {
        let (old, new) = (pair.old.as_ref()?, pair.new.as_ref()?);
        let is_other = old.is_regular() && new.is_regular() && old.mode != new.mode;
        is_other.then_some(ModeChange { old: old.mode, new: new.mode })
    }
}

impl fmt::Display for ModeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mode {:o} → {:o}", self.old, self.new)
    }
}

/// Lines that stand together, with three lines of context around each change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    pub lines: Vec<Line>,
}

/// A line of a hunk. Numbers count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number in the old file; `None` when it was added.
    pub old: Option<u32>,
    /// Its number in the new file; `None` when it was deleted.
    pub new: Option<u32>,
    /// Without the line end (`\n`, `\r\n`, or `\r` of a last line); bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// What differs from the tree `old` to the tree `new`.
///
/// # Errors
/// When one of the trees, or a file that differs, cannot be read; [`GitError::Unacceptable`] when more than
/// [`MAX_FILES`] differ.
pub fn hunks(repo: &Repo, old: Oid, new: Oid) -> Result<Diff, GitError> {
    hunks_until(repo, old, new, &Stop::default())
}

/// [`hunks`], cancelled with an error when `stop` says so.
///
/// # Errors
/// Those of [`hunks`], and that of [`Stop::check`].
pub fn hunks_until(repo: &Repo, old: Oid, new: Oid, stop: &Stop) -> Result<Diff, GitError> {
    let git = repo.git()?;
    let (old, new) = (git.find_tree(old.0)?, git.find_tree(new.0)?);
    let odb = git.odb()?;
    let pairs = differing(&git, Some(&old), Some(&new), MAX_FILES)?;
    let pairs = renames::pair_up(&odb, pairs, stop)?;
    let mut budget = Budget { compared: MAX_COMPARED, kept: MAX_KEPT };
    let files = pairs.iter().map(|pair| {
        stop.check()?;
        file(&odb, pair, &mut budget)
    });
    Ok(Diff { files: files.collect::<Result<_, _>>()? })
}

/// The commit at which two histories parted, which a pull request is compared with; `None` when they
/// have nothing in common.
///
/// # Errors
/// When a commit on the way cannot be read, as in a shallow clone.
pub fn merge_base(repo: &Repo, a: Oid, b: Oid) -> Result<Option<Oid>, GitError> {
    match repo.git()?.merge_base(a.0, b.0) {
        Ok(base) => Ok(Some(Oid(base))),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One side of a file that differs.
#[derive(Clone, Debug)]
pub(super) struct FileSide {
    pub(super) path: Vec<u8>,
    pub(super) id: git2::Oid,
    /// The bits of a tree entry.
    pub(super) mode: i32,
}

impl FileSide {
    /// Neither a link nor a submodule.
    pub(super) fn is_regular(&self) -> bool {
        self.mode & TYPE == REGULAR
    }
}

/// A file that differs; at least one side is there.
#[derive(Clone, Debug)]
pub(super) struct FilePair {
    pub(super) old: Option<FileSide>,
    pub(super) new: Option<FileSide>,
}

impl FilePair {
    /// What orders files: the new path, of a deleted file the old one.
    pub(super) fn path(&self) -> &[u8] {
        self.new.as_ref().or(self.old.as_ref()).map_or(&[], |version| &version.path)
    }
}

/// What may still be done for the whole difference.
struct Budget {
    compared: usize,
    kept: usize,
}

/// What a pair looks like.
fn file(odb: &Odb<'_>, pair: &FilePair, budget: &mut Budget) -> Result<FileDiff, GitError> {
    let path = String::from_utf8_lossy(pair.path()).into_owned();
    let mut file = FileDiff {
        path,
        old_path: None,
        status: FileStatus::Modified,
        opaque: false,
        too_large: false,
        is_link: pair.new.as_ref().is_some_and(|new| new.mode == LINK),
        modes: ModeChange::of(pair),
        hunks: Vec::new(),
        added: 0,
        deleted: 0,
    };
    match (&pair.old, &pair.new) {
        (Some(old), Some(new)) if old.path != new.path => {
            file.status = FileStatus::Renamed;
            file.old_path = Some(String::from_utf8_lossy(&old.path).into_owned());
        }
        (Some(old), Some(new)) if old.mode & TYPE != new.mode & TYPE => {
            file.status = FileStatus::ModeChanged;
        }
        (Some(old), Some(new)) if old.id == new.id => file.status = FileStatus::ModeChanged,
        (Some(_), Some(_)) => {}
        (Some(_), None) => file.status = FileStatus::Deleted,
        (None, _) => file.status = FileStatus::Added,
    }
    match content(odb, pair, budget)? {
        FileContent::Lines { hunks, added, deleted } => {
            (file.added, file.deleted) = (added, deleted);
            file.hunks = hunks;
        }
        FileContent::TooLarge { added, deleted } => {
            (file.opaque, file.too_large) = (true, true);
            (file.added, file.deleted) = (added, deleted);
        }
        FileContent::NotText => file.opaque = true,
    }
    Ok(file)
}

/// How much of a changed file can be shown.
enum FileContent {
    Lines { hunks: Vec<Hunk>, added: u32, deleted: u32 },
    TooLarge { added: u32, deleted: u32 },
    NotText,
}

/// A file that became something of another kind is one that went and one that came, as git prints it.
fn content(odb: &Odb<'_>, pair: &FilePair, budget: &mut Budget) -> Result<FileContent, GitError> {
    let (Some(old), Some(new)) = (&pair.old, &pair.new) else {
        return file_content(odb, pair, budget);
    };
    let is_submodule = old.mode == GITLINK || new.mode == GITLINK;
    if old.mode & TYPE == new.mode & TYPE || is_submodule {
        return file_content(odb, pair, budget);
    }
    let went = FilePair { old: Some(old.clone()), new: None };
    let came = FilePair { old: None, new: Some(new.clone()) };
    Ok(file_content(odb, &went, budget)?.and(file_content(odb, &came, budget)?))
}

impl FileContent {
    fn and(self, other: FileContent) -> FileContent {
        use FileContent::{Lines, NotText, TooLarge};
        match (self, other) {
            (NotText, _) | (_, NotText) => NotText,
            (
                Lines { mut hunks, added, deleted },
                Lines { hunks: more, added: more_added, deleted: more_deleted },
            ) => {
                hunks.extend(more);
                Lines { hunks, added: added + more_added, deleted: deleted + more_deleted }
            }
            (
                Lines { added, deleted, .. } | TooLarge { added, deleted },
                Lines { added: more_added, deleted: more_deleted, .. }
                | TooLarge { added: more_added, deleted: more_deleted },
            ) => TooLarge { added: added + more_added, deleted: deleted + more_deleted },
        }
    }
}

fn file_content(
    odb: &Odb<'_>,
    pair: &FilePair,
    budget: &mut Budget,
) -> Result<FileContent, GitError> {
    let sides = [&pair.old, &pair.new];
    if sides.iter().any(|side| side.as_ref().is_some_and(|version| version.mode == GITLINK)) {
        return Ok(FileContent::NotText);
    }
    if let (Some(old), Some(new)) = (&pair.old, &pair.new)
        && old.id == new.id
    {
        return Ok(FileContent::Lines { hunks: Vec::new(), added: 0, deleted: 0 });
    }
    let mut contents = [Vec::new(), Vec::new()];
    let mut is_too_large = false;
    for (version, content) in sides.into_iter().zip(&mut contents) {
        let Some(version) = version else { continue };
        let (size, _) = odb.read_header(version.id)?;
        is_too_large |= size > MAX_FILE || size > budget.compared;
        // A file that was not read is not called binary: it may be text.
        if size > MAX_LOOKED_AT || size > budget.compared {
            continue;
        }
        budget.compared -= size;
        let object = odb.read(version.id)?;
        // Of a file that is too large only the beginning decides whether it is binary.
        let kept = if is_too_large { BINARY_WITHIN } else { size };
        *content = object.data()[..object.len().min(kept)].to_vec();
    }
    let Some(Texts { old, new, is_certain }) = texts(pair, contents, is_too_large) else {
        return Ok(FileContent::NotText);
    };
    if is_too_large {
        return Ok(FileContent::TooLarge { added: 0, deleted: 0 });
    }
    // A file that was added or deleted needs no comparison: all its lines are on one side.
    let content = if old.is_empty() || new.is_empty() {
        whole(&old, &new, budget)
    } else {
        compare(&old, &new, budget)?
    };
    Ok(match content {
        // Nobody is kept waiting for a file that is binary for all that its name says.
        FileContent::TooLarge { .. } if !is_certain => FileContent::NotText,
        content => content,
    })
}

/// Both versions of a file as text.
struct Texts {
    old: Vec<u8>,
    new: Vec<u8>,
    /// Git takes both for text, or the name says that the file is text.
    is_certain: bool,
}

/// `None` when there is no text to read. Of a file that is too large, `contents` are the beginnings.
fn texts(pair: &FilePair, contents: [Vec<u8>; 2], is_too_large: bool) -> Option<Texts> {
    let [old, new] = contents;
    if !is_binary(&old) && !is_binary(&new) {
        return Some(Texts { old, new, is_certain: true });
    }
    let is_named = |content: &[u8]| encoding::is_named_text(pair.path(), content);
    let is_certain = is_named(&old) || is_named(&new);
    let read = |content: Vec<u8>| {
        if !is_binary(&content) {
            return Some(content);
        }
        let is_text = is_certain || (!is_too_large && encoding::is_mostly_text(&content));
        is_text.then(|| encoding::decoded(&content).into_owned())
    };
    match (read(old), read(new)) {
        (Some(old), Some(new)) => Some(Texts { old, new, is_certain }),
        // A binary file that became text: all of its lines are new.
        (None, Some(new)) if !new.is_empty() => Some(Texts { old: Vec::new(), new, is_certain }),
        _ => None,
    }
}

/// As git sees it: a NUL near the beginning.
pub(super) fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, &content[..content.len().min(BINARY_WITHIN)]).is_some()
}

/// A file that had nothing, or has nothing now: one hunk without context.
fn whole(old: &[u8], new: &[u8], budget: &mut Budget) -> FileContent {
    let (added, deleted) = (count_lines(new), count_lines(old));
    let too_large = FileContent::TooLarge { added: to_number(added), deleted: to_number(deleted) };
    let bytes = old.len() + new.len();
    if added + deleted > MAX_SHOWN_LINES || bytes > MAX_SHOWN_BYTES || bytes > budget.kept {
        return too_large;
    }
    budget.kept -= bytes;
    let mut lines = Vec::with_capacity(added + deleted);
    for (at, line) in old.split_inclusive(|byte| *byte == b'\n').enumerate() {
        lines.push(Line { old: Some(to_number(at + 1)), new: None, text: text(line) });
    }
    for (at, line) in new.split_inclusive(|byte| *byte == b'\n').enumerate() {
        lines.push(Line { old: None, new: Some(to_number(at + 1)), text: text(line) });
    }
    let hunks = if lines.is_empty() { Vec::new() } else { vec![Hunk { lines }] };
    FileContent::Lines { hunks, added: to_number(added), deleted: to_number(deleted) }
}

fn compare(old: &[u8], new: &[u8], budget: &mut Budget) -> Result<FileContent, GitError> {
    if count_lines(old).max(count_lines(new)) > MAX_FILE_LINES {
        return Ok(FileContent::TooLarge { added: 0, deleted: 0 });
    }
    // Without a path and a repository libgit2 reads no attributes; binary files were excluded
    // above.
    let mut options = DiffOptions::new();
    options.context_lines(3).interhunk_lines(0).indent_heuristic(true).force_text(true);
    let patch = Patch::from_buffers(old, None::<&Path>, new, None, Some(&mut options))?;
    let (context, added, deleted) = patch.line_stats()?;
    let (added_lines, deleted_lines) = (to_number(added), to_number(deleted));
    let too_large = FileContent::TooLarge { added: added_lines, deleted: deleted_lines };
    if context + added + deleted > MAX_SHOWN_LINES {
        return Ok(too_large);
    }
    let mut bytes = 0;
    let mut hunks = Vec::with_capacity(patch.num_hunks());
    for at in 0..patch.num_hunks() {
        let count = patch.num_lines_in_hunk(at)?;
        let mut lines = Vec::with_capacity(count);
        for within in 0..count {
            let line = patch.line_in_hunk(at, within)?;
            // The other origins carry the note `\ No newline at end of file`.
            if !matches!(line.origin(), ' ' | '+' | '-') {
                continue;
            }
            bytes += line.content().len();
            if bytes > MAX_SHOWN_BYTES || bytes > budget.kept {
                return Ok(too_large);
            }
            lines.push(Line {
                old: line.old_lineno(),
                new: line.new_lineno(),
                text: text(line.content()),
            });
        }
        hunks.push(Hunk { lines });
    }
    budget.kept -= bytes;
    Ok(FileContent::Lines { hunks, added: added_lines, deleted: deleted_lines })
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}

pub(super) fn count_lines(content: &[u8]) -> usize {
    let unfinished = usize::from(content.last().is_some_and(|byte| *byte != b'\n'));
    memchr::memchr_iter(b'\n', content).count() + unfinished
}

fn to_number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
