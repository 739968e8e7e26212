//! The tar that goes into the sandbox, made straight from git objects: files, executable bits,
//! symlinks with their targets verbatim, the files of submodules that were fetched and empty folders for others, and a
//! fresh `.git`
//! ([`super::dotgit`]). No file is checked out and no filter is applied: LFS pointers stay pointers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use git2::{ObjectType, Odb, Repository, Tree};
use serde::{Deserialize, Serialize};
use tar::{Builder, EntryType, Header};

use super::lfs::Pointer;
use super::names::{MAX_PATH, path_problem, segment_problem};
use super::repo::Repo;
use super::tree_diff::Counter;
use super::{GitError, Oid, display_path, dotgit};

/// The account that owns the workspace in a sandbox.
pub const OWNER: u64 = 10_000;

/// Folders inside folders, at most.
const MAX_DEPTH: usize = 256;

/// A file is in memory while it is packed; GitHub takes none that is larger than 100 MB.
const MAX_FILE: usize = 512 << 20;

/// Bytes of all files together, unless somebody says less: a tree that is larger is not what a model
/// works on, and its tar is on the host's disk as often as runs are under way.
const MAX_BYTES: u64 = 8 << 30;

/// Seconds by which files are older than their commit.
const BEFORE_COMMIT: i64 = 2;
/// Bytes of all paths together: they are in memory until the index is written, and folders that are there
/// many times once make many of few objects.
const MAX_PATHS: usize = 128 << 20;

/// What the tar contains and how large it may become.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArchiveOptions {
    /// The branch that `HEAD` is on in the sandbox.
    pub branch: String,
    /// Commits of history that go along, counted along every line of parents; at least one.
    pub history_depth: u32,
    /// Another branch beside it, with as much history: its name, and the commit that it is at.
    #[serde(default)]
    pub beside: Option<(String, Oid)>,
    /// Files, links and folders.
    pub max_entries: usize,
    /// Bytes of all files together, without `.git`.
    pub max_bytes: u64,
    /// Submodules that were fetched, by path.
    #[serde(default)]
    pub submodules: BTreeMap<String, FetchedCommit>,
    /// Contents in the place of the pointers of Git LFS, by the blob of the pointer; they lie in the repository.
    #[serde(default)]
    pub contents: BTreeMap<Oid, Pointer>,
    /// What goes along of git's objects is what the commit reaches, whatever else its repository has.
    #[serde(default)]
    pub is_apart: bool,
    /// Where a pack may lie while it is made; the usual place when absent.
    pub scratch: Option<PathBuf>,
}

/// A commit of another repository of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedCommit {
    /// Our bare repository that has it.
    pub repository: PathBuf,
    pub commit: Oid,
}

impl ArchiveOptions {
    /// The usual bounds.
    pub fn new(branch: &str, history_depth: u32) -> ArchiveOptions {
        ArchiveOptions {
            branch: branch.to_owned(),
            history_depth,
            beside: None,
            max_entries: 1_000_000,
            max_bytes: MAX_BYTES,
            submodules: BTreeMap::new(),
            contents: BTreeMap::new(),
            is_apart: false,
            scratch: None,
        }
    }
}

/// Writes the tar of `commit` and returns the writer.
///
/// Trees that break our limits or contain names such as `.git` or `..` are [`GitError::Unacceptable`];
/// then the part that was written is not to be used.
pub fn archive<W: Write>(
    repo: &Repo,
    commit: Oid,
    options: &ArchiveOptions,
    writer: W,
) -> Result<W, GitError> {
    let git = repo.git()?;
    let commit = git.find_commit(commit.0)?;
    // One time for all files, so that the same commit gives the same tar. That of the commit may be this very second, and what
    // is changed in it and keeps its length would look to git as it does in the index.
    let before = commit.time().seconds().saturating_sub(BEFORE_COMMIT);
    let mtime = u64::from(u32::try_from(before).unwrap_or(0));
    // A tree can name the same folder a million times with a few objects. Counting each distinct
    // folder once shows that before the walk below has to visit them all.
    let most = options.max_entries as u64;
    if Counter::with_folders(&git, most)?.count(commit.tree_id(), 0)? > most {
        return Err(too_many(options));
    }
    let mut walk = Walk {
        options,
        tar: Tar { builder: Builder::new(writer), mtime },
        files: Vec::new(),
        entries: 0,
        paths: 0,
        bytes: 0,
        below: 0,
    };
    walk.tree(&Source { git: &git, odb: git.odb()? }, &commit.tree()?, &mut Vec::new(), 0)?;
    let Walk { mut tar, files, .. } = walk;
    dotgit::append(&git, &commit, options, files, &mut tar)?;
    Ok(tar.builder.into_inner()?)
}

/// A file of the tree, as the index in the sandbox lists it.
pub(super) struct IndexEntry {
    pub(super) path: Vec<u8>,
    pub(super) mode: u32,
    pub(super) oid: git2::Oid,
    pub(super) size: u32,
    /// git does not look whether it has changed.
    pub(super) is_assumed: bool,
}

/// Where the objects of a tree are.
struct Source<'a> {
    git: &'a Repository,
    odb: Odb<'a>,
}

struct Walk<'a, W: Write> {
    options: &'a ArchiveOptions,
    tar: Tar<W>,
    files: Vec<IndexEntry>,
    entries: usize,
    /// Bytes of their paths.
    paths: usize,
    bytes: u64,
    /// In how many submodules, one in the other, the walk is.
    below: usize,
}

impl<W: Write> Walk<'_, W> {
    /// Writes one folder; `path` is its path with a final `/`, empty for the root.
    fn tree(
        &mut self,
        from: &Source<'_>,
        tree: &Tree<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), GitError> {
        if depth > MAX_DEPTH {
            return Err(unacceptable(path, "is nested too deeply"));
        }
        let mut previous: Option<Vec<u8>> = None;
        for entry in tree {
            let name = entry.name_bytes();
            let parent = path.len();
            path.extend_from_slice(name);
            if let Some(problem) = segment_problem(name) {
                return Err(unacceptable(path, &format!("has {problem}")));
            }
            // git sorts the entries of a tree by name, so a duplicate is the entry before. A
            // container's file system would keep only the last of the two.
            if previous.as_deref() == Some(name) {
                return Err(unacceptable(path, "is there twice"));
            }
            previous = Some(name.to_owned());
            self.count(path)?;
            match entry.filemode() {
                0o040_000 => {
                    path.push(b'/');
                    self.tar.put(EntryType::Directory, path, b"", 0o755, 0, &mut io::empty())?;
                    self.tree(from, &from.git.find_tree(entry.id())?, path, depth + 1)?;
                }
                0o160_000 => {
                    self.index(path, 0o160_000, entry.id(), 0);
                    self.submodule(path, entry.id(), depth)?;
                }
                mode => self.blob(from, path, mode.cast_unsigned(), entry.id())?,
            }
            path.truncate(parent);
        }
        Ok(())
    }

    /// A submodule is a commit of another repository. Where nobody has fetched it, an empty folder and its entry in
    /// the index are what `git clone` without `--recurse-submodules` leaves. Where somebody has, its files are
    /// there as well: git in the sandbox does not look below such a folder, which has no `.git`.
    fn submodule(
        &mut self,
        path: &mut Vec<u8>,
        commit: git2::Oid,
        depth: usize,
    ) -> Result<(), GitError> {
        let name = std::str::from_utf8(path).ok();
        let fetched = name.and_then(|name| self.options.submodules.get(name));
        let fetched = fetched.filter(|fetched| fetched.commit.0 == commit);
        path.push(b'/');
        self.tar.put(EntryType::Directory, path, b"", 0o755, 0, &mut io::empty())?;
        if let Some(fetched) = fetched {
            let git = Repo::open(&fetched.repository)?.git()?;
            let tree = git.find_commit(commit)?.tree()?;
            self.below += 1;
            self.tree(&Source { git: &git, odb: git.odb()? }, &tree, path, depth + 1)?;
            self.below -= 1;
        }
        Ok(())
    }

    fn blob(
        &mut self,
        from: &Source<'_>,
        path: &[u8],
        mode: u32,
        id: git2::Oid,
    ) -> Result<(), GitError> {
        if mode & 0o170_000 == 0o100_000
            && self.below == 0
            && let Some(pointer) = self.options.contents.get(&Oid(id))
            && self.content(from, path, (mode, id), pointer)?
        {
            return Ok(());
        }
        // The header gives the size without inflating the object, so a file that is too large is
        // never in memory.
        let (size, kind) = from.odb.read_header(id)?;
        self.bytes += size as u64;
        if kind != ObjectType::Blob {
            return Err(unacceptable(path, "is not a file"));
        }
        if size > MAX_FILE {
            return Err(unacceptable(path, "is larger than 512 MiB"));
        }
        if self.bytes > self.options.max_bytes {
            return Err(self.too_large());
        }
        let object = from.odb.read(id)?;
        let content = object.data();
        if mode == 0o120_000 {
            // Linux refuses such targets, and unpacking would fail half-way through the tar.
            if content.is_empty() || content.len() > MAX_PATH || content.contains(&0) {
                return Err(unacceptable(path, "is a symlink without a usable target"));
            }
            self.tar.put(EntryType::Symlink, path, content, 0o777, 0, &mut io::empty())?;
        } else {
            let permissions = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
            let mut data = content;
            self.tar.put(EntryType::Regular, path, b"", permissions, size as u64, &mut data)?;
        }
        // Frees the content before the next file is read.
        drop(object);
        // Old repositories have modes such as 100664, which stand for 100644.
        let kept = match mode {
            0o120_000 => 0o120_000,
            _ if mode & 0o111 == 0 => 0o100_644,
            _ => 0o100_755,
        };
        self.index(path, kept, id, size);
        Ok(())
    }

    /// The content that a pointer stands for; false when it is not there any more. In the index the file is the pointer,
    /// as it is in a clone, and counts as unchanged: git in the sandbox has no LFS to compare the two.
    fn content(
        &mut self,
        from: &Source<'_>,
        path: &[u8],
        (mode, id): (u32, git2::Oid),
        pointer: &Pointer,
    ) -> Result<bool, GitError> {
        let Ok(mut file) = File::open(pointer.place(from.git.path())) else { return Ok(false) };
        if file.metadata()?.len() != pointer.size {
            return Ok(false);
        }
        self.bytes += pointer.size;
        if self.bytes > self.options.max_bytes {
            return Err(self.too_large());
        }
        let permissions = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        self.tar.put(EntryType::Regular, path, b"", permissions, pointer.size, &mut file)?;
        let kept = if mode & 0o111 == 0 { 0o100_644 } else { 0o100_755 };
        // The index keeps the lower 32 bits of a size.
        let size = usize::try_from(pointer.size & u64::from(u32::MAX)).unwrap_or_default();
        self.index(path, kept, id, size);
        if let Some(entry) = self.files.last_mut() {
            entry.is_assumed = true;
        }
        Ok(true)
    }

    fn too_large(&self) -> GitError {
        GitError::Unacceptable(format!(
            "the files of the repository are larger than {} MiB",
            self.options.max_bytes >> 20
        ))
    }

    fn index(&mut self, path: &[u8], mode: u32, oid: git2::Oid, size: usize) {
        // The index is that of the commit, which knows nothing of what is in a submodule.
        if self.below > 0 {
            return;
        }
        // The index keeps the lower 32 bits of a size.
        #[expect(clippy::cast_possible_truncation, reason = "the format says so")]
        let size = size as u32;
        self.files.push(IndexEntry { path: path.to_owned(), mode, oid, size, is_assumed: false });
    }

    fn count(&mut self, path: &[u8]) -> Result<(), GitError> {
        self.entries += 1;
        self.paths += path.len();
        if path.len() > MAX_PATH {
            return Err(unacceptable(path, "is too long a path"));
        }
        if self.entries > self.options.max_entries {
            return Err(too_many(self.options));
        }
        if self.paths > MAX_PATHS {
            return Err(GitError::Unacceptable(format!(
                "the paths of the repository are longer than {} MiB together",
                MAX_PATHS >> 20
            )));
        }
        Ok(())
    }
}

fn too_many(options: &ArchiveOptions) -> GitError {
    let most = options.max_entries;
    GitError::Unacceptable(format!("the repository has more than {most} files and folders"))
}

/// Writes a tar of single files of a tree, without any folders; what is no file of it is passed over.
pub(super) fn some<W: Write>(
    repo: &Repo,
    tree: Oid,
    paths: &[String],
    mtime: u64,
    writer: W,
) -> Result<W, GitError> {
    let git = repo.git()?;
    let tree = git.find_tree(tree.0)?;
    let mut tar = Tar { builder: Builder::new(writer), mtime };
    for path in paths.iter().filter(|path| path_problem(path).is_none()) {
        let Ok(entry) = tree.get_path(Path::new(path)) else { continue };
        let Ok(blob) = git.find_blob(entry.id()) else { continue };
        let (content, path) = (blob.content(), path.as_bytes());
        match entry.filemode() {
            0o120_000 => {
                tar.put(EntryType::Symlink, path, content, 0o777, 0, &mut io::empty())?;
            }
            mode => {
                let permissions = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
                let (size, mut data) = (content.len() as u64, content);
                tar.put(EntryType::Regular, path, b"", permissions, size, &mut data)?;
            }
        }
    }
    Ok(tar.builder.into_inner()?)
}

fn unacceptable(path: &[u8], what: &str) -> GitError {
    GitError::Unacceptable(format!("`{}` {what}", display_path(&String::from_utf8_lossy(path))))
}

/// A tar whose entries all have our owner and one time.
pub(super) struct Tar<W: Write> {
    builder: Builder<W>,
    pub(super) mtime: u64,
}

impl<W: Write> Tar<W> {
    /// Adds an entry. Names and targets are taken as they are; long ones use GNU's extension.
    pub(super) fn put(
        &mut self,
        kind: EntryType,
        path: &[u8],
        target: &[u8],
        mode: u32,
        size: u64,
        data: &mut dyn Read,
    ) -> io::Result<()> {
        let mut header = Header::new_gnu();
        self.name(
            EntryType::GNULongName,
            path,
            |old, short| {
                old.name[..short.len()].copy_from_slice(short);
            },
            &mut header,
        )?;
        self.name(
            EntryType::GNULongLink,
            target,
            |old, short| {
                old.linkname[..short.len()].copy_from_slice(short);
            },
            &mut header,
        )?;
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        self.finish(&mut header);
        self.builder.append(&header, data)
    }

    /// A file whose content is at hand.
    pub(super) fn file(&mut self, path: &str, mut content: &[u8]) -> io::Result<()> {
        let size = content.len() as u64;
        self.put(EntryType::Regular, path.as_bytes(), b"", 0o644, size, &mut content)
    }

    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.put(EntryType::Directory, path.as_bytes(), b"", 0o755, 0, &mut io::empty())
    }

    /// Sets a name of up to 100 bytes in the header, or writes a longer one in front of it.
    fn name(
        &mut self,
        kind: EntryType,
        name: &[u8],
        set: fn(&mut tar::OldHeader, &[u8]),
        header: &mut Header,
    ) -> io::Result<()> {
        // GNU tar puts a long name into an entry of its own in front; the header then has the first
        // 100 bytes, as tar itself writes it.
        set(header.as_old_mut(), &name[..name.len().min(100)]);
        if name.len() <= 100 {
            return Ok(());
        }
        let mut long = Header::new_gnu();
        set_plain_name(&mut long, b"././@LongLink");
        long.set_entry_type(kind);
        long.set_mode(0o644);
        // The name ends with a NUL, which counts.
        long.set_size(name.len() as u64 + 1);
        self.finish(&mut long);
        self.builder.append(&long, name.chain(&b"\0"[..]))
    }

    fn finish(&self, header: &mut Header) {
        header.set_uid(OWNER);
        header.set_gid(OWNER);
        header.set_mtime(self.mtime);
        header.set_cksum();
    }
}

fn set_plain_name(header: &mut Header, name: &[u8]) {
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
}
