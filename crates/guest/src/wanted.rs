//! What belongs to a change although ignore rules hide it, because somebody put it there on purpose: what git in the
//! sandbox has in its index (`git add -f`, `git mv`), files of the tree that were moved there, and what a checkpoint
//! had. Packages and caches are no part of a change all the same ([`super::survey`]).
//!
//! The index is the model's, and names nothing that it could not have put elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::Write;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::FileType;

use super::folder::{self, Folder, Parents, Stamp};
use super::git_index;
use super::look::{Comparison, compare};
use super::protocol::MAX_CHANGED_FILE;
use super::survey::{Hidden, hidden};
use super::transfer::{Base, Entry, blob_id};

/// Largest index that is read, in bytes.
const MAX_INDEX: u64 = 256 << 20;

/// Most names that are looked at to find where files went.
const MAX_NAMES: usize = 500_000;

/// Deepest nesting of folders that is searched: deeper than what can be part of a change.
const MAX_DEPTH: usize = 400;

/// Paths that are in the change whatever ignores them.
#[derive(Debug, Default)]
pub struct Wanted {
    /// How the index looked when it was read.
    index: Option<Stamp>,
    /// What it has and the uploaded tree has not.
    added: BTreeSet<Vec<u8>>,
    /// Where files of the tree are now, and where they were.
    moved: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What was put there in the place of a file of the tree, or by a checkpoint.
    kept: BTreeSet<Vec<u8>>,
    /// Files of the tree that are gone and were looked for.
    sought: BTreeSet<Vec<u8>>,
    /// Files of the tree that are other ones since: inode and blob.
    latest: BTreeMap<Vec<u8>, (u64, [u8; 20])>,
    /// What edit tools wrote and nobody wants: the change is without it, and says so.
    pub(super) written: BTreeSet<Vec<u8>>,
}

impl Wanted {
    /// Whether a file belongs to the change.
    pub fn has(&self, path: &[u8]) -> bool {
        self.added.contains(path) || self.kept.contains(path) || self.moved.contains_key(path)
    }

    /// Whether something in a folder does.
    pub fn has_below(&self, folder: &[u8]) -> bool {
        let start = [folder, b"/"].concat();
        let from = (Bound::Included(start.clone()), Bound::Unbounded);
        let sets = [&self.added, &self.kept].into_iter();
        let mut first = sets.filter_map(|set| set.range(from.clone()).next());
        first.any(|path| path.starts_with(&start)) || self.moved_to(folder).next().is_some()
    }

    /// The files of the tree that are now at a path, or below it.
    pub fn moved_to<'w>(&'w self, path: &[u8]) -> impl Iterator<Item = &'w [u8]> + use<'w> {
        let (whole, start) = (path.to_vec(), [path, b"/"].concat());
        let from = (Bound::Included(whole.clone()), Bound::Unbounded);
        let found = self.moved.range(from).take_while({
            let whole = whole.clone();
            move |(to, _)| to.starts_with(&whole)
        });
        let found = found.filter(move |(to, _)| **to == whole || to.starts_with(&start));
        found.map(|(_, was)| was.as_slice())
    }

    /// Notes what was put somewhere on purpose.
    pub fn keep(&mut self, path: &[u8]) {
        self.kept.insert(path.to_vec());
    }

    /// Notes that a file of the tree is another one now.
    pub fn note(&mut self, path: &[u8], inode: u64, blob: [u8; 20]) {
        self.latest.insert(path.to_vec(), (inode, blob));
    }

    /// Looks at everything again. `gone` are the files of the tree that are not where they were.
    pub fn refresh(
        &mut self,
        folder: &mut Folder,
        base: &Base,
        gone: BTreeSet<Vec<u8>>,
        stop: &dyn Fn() -> bool,
    ) {
        self.read_index(folder, base);
        self.moved.retain(|to, was| gone.contains(was) && is_there(folder, to));
        let fresh = gone.difference(&self.sought).filter_map(|path| {
            let entry = base.entries.get(path)?;
            let known = (entry.stamp.inode(), entry.blob);
            let (inode, blob) = self.latest.get(path).copied().unwrap_or(known);
            // Files without content are all alike, which says nothing about where one went.
            (blob != blob_id(b"")).then(|| (inode, (path.clone(), blob)))
        });
        let wanted: HashMap<_, _> = fresh.collect();
        if !wanted.is_empty() {
            let found = BTreeMap::new();
            let mut search =
                Search { entries: &base.entries, wanted, found, stop, left: MAX_NAMES };
            search.folder(folder.top(), &mut Vec::new(), 0);
            self.moved.append(&mut search.found);
        }
        self.sought = gone;
    }

    /// Reads git's index again if it has changed. A missing or damaged index adds no paths.
    pub fn read_index(&mut self, folder: &mut Folder, base: &Base) {
        let found = folder.parent(b".git/index", Parents::Require).and_then(|(parent, name)| {
            let stamp = Stamp::of(&folder::look(parent, name)?);
            if self.index == Some(stamp) {
                return Ok(None);
            }
            let content = folder::read_file(parent, name, MAX_INDEX).ok().flatten();
            Ok(Some((stamp, content.unwrap_or_default())))
        });
        match found {
            Ok(None) => {}
            Ok(Some((stamp, content))) => {
                let is_new = |path: &Vec<u8>| !base.entries.contains_key(path);
                self.added = git_index::paths(&content).into_iter().filter(is_new).collect();
                self.index = Some(stamp);
            }
            Err(_) => {
                self.added.clear();
                self.index = None;
            }
        }
    }
}

/// Whether there is anything at a path.
pub(super) fn is_there(folder: &mut Folder, path: &[u8]) -> bool {
    let found = folder.parent(path, Parents::Require);
    found.and_then(|(parent, name)| folder::look(parent, name)).is_ok()
}

impl Base {
    /// Notes what a checkpoint put back that only it knew to belong to the change.
    pub fn restored(&mut self, workspace: &Path, files: &Base) {
        let Ok(mut folder) = Folder::open(workspace) else { return };
        for path in files.entries.keys().filter(|path| !self.entries.contains_key(*path)) {
            if hidden(&mut folder, self, path) == Some(Hidden::Ignored) {
                self.wanted.kept.insert(path.clone());
            }
        }
    }

    /// What a model should know about files that its edit tool has changed; nothing, as a rule. A file that came in the
    /// place of one of the tree belongs to the change as that did.
    pub fn edited(&mut self, workspace: &Path, changed: &[String]) -> String {
        let mut remarks = String::new();
        let Ok(mut folder) = Folder::open(workspace) else { return remarks };
        if self.entries.is_empty() {
            return remarks;
        }
        self.wanted.written.retain(|path| is_there(&mut folder, path));
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.read_index(&mut folder, self);
        let paths = || changed.iter().map(String::as_bytes);
        let is_tracked = |path: &[u8]| self.entries.contains_key(path);
        let is_move = paths().any(|path| is_tracked(path) && !is_there(&mut folder, path));
        for path in changed {
            let bytes = path.as_bytes();
            if is_tracked(bytes) || wanted.has(bytes) || !is_there(&mut folder, bytes) {
                continue;
            }
            match hidden(&mut folder, self, bytes) {
                Some(Hidden::Ignored) if is_move => wanted.keep(bytes),
                Some(Hidden::Ignored) => {
                    wanted.written.insert(bytes.to_vec());
                    let _ = write!(
                        remarks,
                        "\nNote: `.gitignore` ignores `{path}`, so it is no part of your change. If it belongs there, \
                         run `git add -f` on it."
                    );
                }
                Some(Hidden::Artefact) => {
                    let _ = write!(
                        remarks,
                        "\nNote: `{path}` counts as an installed package or a cache, and is no part of your change."
                    );
                }
                None => {}
            }
        }
        self.wanted = wanted;
        remarks
    }
}

/// Looks for files by their inodes, which a move leaves as they are. Their contents have to be the same too: the inode
/// of a deleted file is soon that of another one.
struct Search<'a> {
    entries: &'a BTreeMap<Vec<u8>, Entry>,
    /// Path and blob by inode.
    wanted: HashMap<u64, (Vec<u8>, [u8; 20])>,
    found: BTreeMap<Vec<u8>, Vec<u8>>,
    stop: &'a dyn Fn() -> bool,
    /// Names that may still be looked at.
    left: usize,
}

impl Search<'_> {
    /// What cannot be read is passed over: then the deletion counts, as it would have.
    fn folder(&mut self, fd: BorrowedFd<'_>, path: &mut Vec<u8>, depth: usize) {
        let Ok(names) = folder::names(fd) else { return };
        let length = path.len();
        for name in names.iter().filter(|name| length > 0 || *name != ".git") {
            if self.left == 0 || self.wanted.is_empty() || (self.stop)() {
                return;
            }
            self.left -= 1;
            path.extend_from_slice(name.as_bytes());
            self.name(fd, name, path, depth);
            path.truncate(length);
        }
    }

    fn name(&mut self, parent: BorrowedFd<'_>, name: &OsStr, path: &mut Vec<u8>, depth: usize) {
        let Ok(stat) = folder::look(parent, name) else { return };
        if folder::kind(&stat) == FileType::Directory {
            if depth < MAX_DEPTH
                && let Ok(inner) = folder::open_directory(parent, name)
            {
                path.push(b'/');
                self.folder(inner.as_fd(), path, depth + 1);
            }
            return;
        }
        let inode = Stamp::of(&stat).inode();
        if self.entries.contains_key(path.as_slice()) {
            return;
        }
        let Some((was, blob)) = self.wanted.get(&inode) else { return };
        let is_same = match compare(parent, name, &stat, None) {
            Comparison::Changed(changed, _) => *blob == changed.blob,
            // Too large to be read.
            Comparison::Refused(_) => {
                let size = self.entries.get(was).map(|entry| entry.stamp.size());
                size.is_some_and(|size| size > MAX_CHANGED_FILE && size == Stamp::of(&stat).size())
            }
            Comparison::Unchanged | Comparison::Folder | Comparison::Gone => false,
        };
        if is_same && let Some((was, _)) = self.wanted.remove(&inode) {
            self.found.insert(path.clone(), was);
        }
    }
}
