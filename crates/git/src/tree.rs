//! Trees: from the base commit to the tar that goes into the sandbox ([`archive`]), from the files
//! that come out of it to blobs and a tree on that base ([`build`]), and reading single files. Never
//! touches a working directory.

use std::io::Read;
use std::path::Path;

use git2::ObjectType;
use serde::{Deserialize, Serialize};

pub use super::archive::{ArchiveOptions, FetchedCommit, OWNER, archive};
pub use super::carry::{carry, differing_paths, is_same_at};
pub use super::change::{between, build, build_of, restrict};
use super::names::path_problem;
pub use super::one_file::with_file;
use super::repo::Repo;
use super::{GitError, Oid};

/// Files read whole from the base (instructions, configuration, lock files) are at most this long.
const MAX_READ: usize = 64 << 20;
/// Names that are visited for a list of paths: folders without files take time as well.
const MAX_NAMES: usize = 4_000_000;
/// Bytes of a blob that are in memory while it is streamed.
const PIECE: usize = 64 << 10;

/// A change: a tree on a base commit, and what differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub base: Oid,
    /// The new tree.
    pub tree: Oid,
    pub files: Vec<FileChange>,
    /// Files that came out of the sandbox and cannot be part of a change: path and reason.
    pub refused: Vec<(String, String)>,
    /// Files that belong to the change and are not in it.
    #[serde(default, skip_serializing_if = "OverLimit::is_nothing")]
    pub beyond: OverLimit,
    /// Packages and caches that appeared in the sandbox and are no part of a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artefacts: Vec<String>,
    /// Files that the model wrote with an edit tool and that `.gitignore` ignores: they are no part of the change either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// What is more than can be taken out of a sandbox. Where it is, [`Change::refused`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverLimit {
    pub files: u64,
    pub bytes: u64,
}

impl OverLimit {
    pub fn is_nothing(&self) -> bool {
        *self == OverLimit::default()
    }
}

/// One file that differs. Paths are git's: relative, `/` between segments, UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Entry {
    pub mode: Mode,
    #[schemars(with = "String")]
    pub oid: Oid,
    /// Bytes of the blob.
    pub size: u64,
}

/// The modes that a published tree may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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

impl Mode {
    /// The number in a git tree.
    pub fn bits(self) -> i32 {
        match self {
            Mode::File => 0o100_644,
            Mode::Executable => 0o100_755,
            Mode::Symlink => 0o120_000,
            Mode::Gitlink => 0o160_000,
        }
    }
}

/// An entry of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name in its folder; bytes that are not UTF-8 are replaced.
    pub name: String,
    pub kind: FolderEntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderEntryKind {
    File,
    Symlink,
    Folder,
    Submodule,
}

/// The content of a blob of at most `cap` bytes.
pub fn read_blob(repo: &Repo, oid: Oid, cap: usize) -> Result<Vec<u8>, GitError> {
    let git = repo.git()?;
    let odb = git.odb()?;
    let (size, kind) = odb.read_header(oid.0)?;
    if kind != ObjectType::Blob || size > cap {
        return Err(GitError::Unacceptable(format!(
            "`{}` is not a file of at most {cap} bytes",
            oid.short()
        )));
    }
    Ok(odb.read(oid.0)?.data().to_vec())
}

/// Gives the content of a blob of any size piece by piece, so that it is never in memory as a whole.
/// One in a pack cannot be read so: it is read at once, when it has at most `cap` bytes.
pub fn stream_blob(
    repo: &Repo,
    oid: Oid,
    cap: usize,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), GitError> {
    let git = repo.git()?;
    let odb = git.odb()?;
    // libgit2 streams loose objects only; packed ones may be deltas.
    let Ok((mut reader, size, kind)) = odb.reader(oid.0) else {
        take(&read_blob(repo, oid, cap)?);
        return Ok(());
    };
    let mut piece = vec![0; PIECE];
    let mut left = size;
    while kind == ObjectType::Blob && left > 0 {
        let read = reader.read(&mut piece)?;
        let Some(given) = piece.get(..read.min(left)).filter(|given| !given.is_empty()) else {
            break;
        };
        take(given);
        left -= given.len();
    }
    // A short read must fail: a search for secrets that stops early would pass the file.
    if kind != ObjectType::Blob || left > 0 {
        return Err(GitError::Unacceptable(format!("`{}` is not a whole file", oid.short())));
    }
    Ok(())
}

/// The trees that name a file: the root's and those of its folders, as far as they are there.
pub fn trees_of(repo: &Repo, root: Oid, path: &str) -> Result<Vec<Oid>, GitError> {
    let git = repo.git()?;
    let mut tree = git.find_tree(root.0)?;
    let mut found = vec![root];
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    for name in folders.split('/').filter(|name| !name.is_empty()) {
        let inner = tree.get_name(name).and_then(|entry| git.find_tree(entry.id()).ok());
        let Some(inner) = inner else { break };
        found.push(Oid(inner.id()));
        tree = inner;
    }
    Ok(found)
}

/// The content of a regular file in a commit; `None` when there is no file at `path`. Symlinks are
/// not followed.
pub fn file_at(repo: &Repo, commit: Oid, path: &str) -> Result<Option<Vec<u8>>, GitError> {
    file_within(repo, commit, path, MAX_READ)
}

/// [`file_at`] for a content of at most `cap` bytes.
pub fn file_within(
    repo: &Repo,
    commit: Oid,
    path: &str,
    cap: usize,
) -> Result<Option<Vec<u8>>, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    if path_problem(path).is_some() {
        return Ok(None);
    }
    match tree.get_path(Path::new(path)) {
        Ok(entry) if matches!(entry.filemode(), 0o100_644 | 0o100_755) => {
            read_blob(repo, Oid(entry.id()), cap).map(Some)
        }
        Ok(_) => Ok(None),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// There is a regular file at this path of a commit, as far as it can be read.
pub fn is_file_at(repo: &Repo, commit: Oid, path: &str) -> bool {
    let Ok(git) = repo.git() else { return false };
    let entry = || git.find_commit(commit.0)?.tree()?.get_path(Path::new(path));
    path_problem(path).is_none()
        && entry().is_ok_and(|entry| matches!(entry.filemode(), 0o100_644 | 0o100_755))
}

/// What is in one folder of a commit (the root when `path` is empty); empty when there is no such
/// folder.
pub fn list_at(repo: &Repo, commit: Oid, path: &str) -> Result<Vec<FolderEntry>, GitError> {
    let git = repo.git()?;
    let mut tree = git.find_commit(commit.0)?.tree()?;
    if !path.is_empty() {
        if path_problem(path).is_some() {
            return Ok(Vec::new());
        }
        let Ok(entry) = tree.get_path(Path::new(path)) else { return Ok(Vec::new()) };
        let Ok(folder) = git.find_tree(entry.id()) else { return Ok(Vec::new()) };
        tree = folder;
    }
    Ok(tree
        .iter()
        .map(|entry| FolderEntry {
            name: String::from_utf8_lossy(entry.name_bytes()).into_owned(),
            kind: match entry.filemode() {
                0o040_000 => FolderEntryKind::Folder,
                0o120_000 => FolderEntryKind::Symlink,
                0o160_000 => FolderEntryKind::Submodule,
                _ => FolderEntryKind::File,
            },
        })
        .collect())
}

/// The regular files of a commit whose paths are `wanted`, with their ids, at most `most`; names that are
/// not UTF-8 are left out.
pub fn blobs_at(
    repo: &Repo,
    commit: Oid,
    most: usize,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, Oid)>, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let mut found = Vec::new();
    let mut names = 0;
    let walked = tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        names += 1;
        if matches!(entry.filemode(), 0o100_644 | 0o100_755)
            && let Ok(name) = entry.name()
        {
            let path = format!("{folder}{name}");
            if wanted(&path) {
                found.push((path, Oid(entry.id())));
            }
        }
        let goes_on = found.len() < most && names < MAX_NAMES;
        if goes_on { git2::TreeWalkResult::Ok } else { git2::TreeWalkResult::Abort }
    });
    let is_cut = found.len() >= most || names >= MAX_NAMES;
    walked.or_else(|error| if is_cut { Ok(()) } else { Err(error) })?;
    Ok(found)
}

/// The paths of regular files of a commit in tree order, at most `most`; names that are not UTF-8 are
/// left out.
pub fn paths_at(repo: &Repo, commit: Oid, most: usize) -> Result<Vec<String>, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let mut paths = Vec::new();
    let mut names = 0;
    tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        names += 1;
        if entry.kind() == Some(git2::ObjectType::Blob)
            && let Ok(name) = entry.name()
        {
            paths.push(format!("{folder}{name}"));
        }
        let goes_on = paths.len() < most && names < MAX_NAMES;
        if goes_on { git2::TreeWalkResult::Ok } else { git2::TreeWalkResult::Abort }
    })
    .or_else(|error| if paths.len() < most { Err(error) } else { Ok(()) })?;
    Ok(paths)
}
