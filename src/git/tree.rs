//! Trees: from the base commit to the tar that goes into the sandbox, and from the files that come
//! out of it to blobs and a tree on that base. Never touches a working directory.

use serde::{Deserialize, Serialize};

use super::Oid;

/// A change: a tree on a base commit, and what differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub base: Oid,
    /// The new tree.
    pub tree: Oid,
    pub files: Vec<FileChange>,
    /// Files that came out of the sandbox and cannot be part of a change: path and reason.
    pub refused: Vec<(String, String)>,
}

/// One file that differs. Paths are git's: relative, `/` between segments, UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    /// Mode and blob in the base; absent when added.
    pub old: Option<Entry>,
    /// Mode and blob now; absent when deleted.
    pub new: Option<Entry>,
    pub added_lines: u64,
    pub removed_lines: u64,
    pub binary: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub mode: Mode,
    pub oid: Oid,
    /// Bytes of the blob.
    pub size: u64,
}

/// The modes that a published tree may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// 100644
    File,
    /// 100755
    Executable,
    /// 120000
    Symlink,
    /// 160000; only ever unchanged.
    Gitlink,
}
