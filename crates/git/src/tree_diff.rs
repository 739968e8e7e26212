//! Which files differ between two trees, counted while it is found out. A pack of a kilobyte can hold a
//! tree of millions of files: folders that are there many times are objects that are there once. So
//! nothing here asks libgit2 for a whole difference: a folder that is only on one side is counted first,
//! each distinct one once, two folders that turn out to have the same files are not compared again, and the
//! walk ends at the first file too many.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use git2::{ObjectType, Odb, Repository, Tree};

use super::GitError;
use super::hunks::{FilePair, FileSide};

/// Folders inside folders, at most.
const MAX_DEPTH: usize = 256;

/// Bytes of one folder's object.
const MAX_TREE: usize = 16 << 20;

/// Bytes of all paths of one difference.
const MAX_PATHS: usize = 128 << 20;

/// Bytes of folders' objects that are kept, so that each of them is read once.
const MAX_KEPT: usize = 32 << 20;

/// Distinct folders that are counted, and folders that are gone through, besides the files.
const MAX_FOLDERS: u64 = 200_000;

const GITLINK: u32 = 0o160_000;

/// The files that differ, sorted by path, without renames; at most `most`.
///
/// # Errors
/// [`GitError::Unacceptable`] when there are more, or folders are nested too deeply.
pub(super) fn differing(
    git: &Repository,
    old: Option<&Tree<'_>>,
    new: Option<&Tree<'_>>,
    most: u64,
) -> Result<Vec<FilePair>, GitError> {
    let mut walk = Walk::new(git, most)?;
    walk.folder([old.map(Tree::id), new.map(Tree::id)], &mut Vec::new(), 0)?;
    let mut pairs = walk.pairs;
    pairs.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(pairs)
}

/// An entry of a folder.
#[derive(Clone, Copy, Debug)]
struct Item {
    id: git2::Oid,
    mode: u32,
    is_folder: bool,
}

/// A folder's entries.
type Folder = Rc<[(Box<[u8]>, Item)]>;

/// Reads folders. Those that were read are kept, as many as there is room for.
struct Folders<'a> {
    git: &'a Repository,
    odb: Odb<'a>,
    kept: HashMap<git2::Oid, Folder>,
    room: usize,
    /// How many objects were read.
    read: u64,
}

impl Folders<'_> {
    /// `None` when it is too large.
    fn get(&mut self, id: git2::Oid) -> Result<Option<Folder>, GitError> {
        if let Some(kept) = self.kept.get(&id) {
            return Ok(Some(kept.clone()));
        }
        self.read += 1;
        let (size, _) = self.odb.read_header(id)?;
        if size > MAX_TREE {
            return Ok(None);
        }
        let tree = self.git.find_tree(id)?;
        let items = tree.iter().map(|entry| {
            let is_folder = entry.kind() == Some(ObjectType::Tree);
            let mode = if is_folder { 0 } else { canonical(entry.filemode_raw()) };
            (entry.name_bytes().into(), Item { id: entry.id(), mode, is_folder })
        });
        let folder: Folder = items.collect();
        if let Some(room) = self.room.checked_sub(size) {
            self.room = room;
            self.kept.insert(id, folder.clone());
        }
        Ok(Some(folder))
    }
}

/// Counts what is below folders: files, and folders if asked for. Each distinct folder is read once.
pub(super) struct Counter<'a> {
    folders: Folders<'a>,
    most: u64,
    known: HashMap<git2::Oid, u64>,
    /// What each folder inside counts besides what is in it.
    folder: u64,
}

impl<'a> Counter<'a> {
    pub(super) fn new(git: &'a Repository, most: u64) -> Result<Counter<'a>, GitError> {
        let odb = git.odb()?;
        let folders = Folders { git, odb, kept: HashMap::new(), room: MAX_KEPT, read: 0 };
        Ok(Counter { folders, most, known: HashMap::new(), folder: 0 })
    }

    /// One that counts folders as well.
    pub(super) fn with_folders(git: &'a Repository, most: u64) -> Result<Counter<'a>, GitError> {
        Ok(Counter { folder: 1, ..Counter::new(git, most)? })
    }

    /// How much is in a folder, at any depth; when it is too much, some number above the bound.
    pub(super) fn count(&mut self, tree: git2::Oid, depth: usize) -> Result<u64, GitError> {
        if let Some(known) = self.known.get(&tree) {
            return Ok(*known);
        }
        if depth > MAX_DEPTH {
            return Err(GitError::Unacceptable("folders are nested too deeply".to_owned()));
        }
        if self.known.len() as u64 >= MAX_FOLDERS.max(self.most) {
            return Err(self.too_many());
        }
        let mut sum = 0_u64;
        for (_, item) in self.folder(tree)?.iter() {
            sum = sum.saturating_add(if item.is_folder {
                self.count(item.id, depth + 1)?.saturating_add(self.folder)
            } else {
                1
            });
            // Stop early: above the bound the exact number does not matter.
            if sum > self.most {
                break;
            }
        }
        self.known.insert(tree, sum);
        Ok(sum)
    }

    pub(super) fn too_many(&self) -> GitError {
        GitError::Unacceptable(format!("there are more than {} files", self.most))
    }

    fn folder(&mut self, id: git2::Oid) -> Result<Folder, GitError> {
        self.folders.get(id)?.ok_or_else(|| self.too_many())
    }
}

struct Walk<'a> {
    counter: Counter<'a>,
    pairs: Vec<FilePair>,
    /// Bytes of their paths.
    paths: usize,
    /// How many folders were gone through.
    folders: u64,
    /// Folders that differ and have the same files: they hold empty folders.
    alike: HashSet<[Option<git2::Oid>; 2]>,
}

impl<'a> Walk<'a> {
    fn new(git: &'a Repository, most: u64) -> Result<Walk<'a>, GitError> {
        let counter = Counter::new(git, most)?;
        Ok(Walk { counter, pairs: Vec::new(), paths: 0, folders: 0, alike: HashSet::new() })
    }

    /// Compares two folders, one of which may be absent; `path` ends with a slash, or is empty.
    fn folder(
        &mut self,
        sides: [Option<git2::Oid>; 2],
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), GitError> {
        if self.alike.contains(&sides) {
            return Ok(());
        }
        self.folders += 1;
        if depth > MAX_DEPTH {
            return Err(GitError::Unacceptable("folders are nested too deeply".to_owned()));
        }
        if self.folders > MAX_FOLDERS.max(self.counter.most) {
            return Err(self.counter.too_many());
        }
        if let [Some(only), None] | [None, Some(only)] = sides {
            // A folder that is new or gone adds all files below it. Counting first keeps a small
            // tree that repeats itself from filling the list before the bound is noticed.
            let count = self.counter.count(only, depth)?;
            if count == 0 {
                return Ok(());
            }
            if (self.pairs.len() as u64).saturating_add(count) > self.counter.most {
                return Err(self.counter.too_many());
            }
        }
        let (length, found) = (path.len(), self.pairs.len());
        for (name, [old, new]) in self.names(sides)? {
            if let (Some(old), Some(new)) = (old, new)
                && (old.id, old.mode) == (new.id, new.mode)
            {
                continue;
            }
            path.extend_from_slice(&name);
            let version = |item: Option<Item>| {
                let item = item.filter(|item| !item.is_folder)?;
                let mode = item.mode.cast_signed();
                Some(FileSide { path: path.clone(), id: item.id, mode })
            };
            let (before, after) = (version(old), version(new));
            if before.is_some() || after.is_some() {
                self.add(FilePair { old: before, new: after })?;
            }
            let folder =
                |item: Option<Item>| item.filter(|item| item.is_folder).map(|item| item.id);
            let inner = [folder(old), folder(new)];
            if inner.iter().any(Option::is_some) {
                path.push(b'/');
                self.folder(inner, path, depth + 1)?;
            }
            path.truncate(length);
        }
        // Two different trees without a different file hold empty folders, which git cannot create
        // but a forged pack can. Without this note such a pair would be compared again at each
        // place.
        if self.pairs.len() == found {
            self.alike.insert(sides);
        }
        Ok(())
    }

    fn add(&mut self, pair: FilePair) -> Result<(), GitError> {
        self.paths += pair.path().len();
        if self.pairs.len() as u64 >= self.counter.most || self.paths > MAX_PATHS {
            return Err(self.counter.too_many());
        }
        self.pairs.push(pair);
        Ok(())
    }

    /// The names in either folder.
    fn names(
        &mut self,
        sides: [Option<git2::Oid>; 2],
    ) -> Result<BTreeMap<Vec<u8>, [Option<Item>; 2]>, GitError> {
        let mut names: BTreeMap<Vec<u8>, [Option<Item>; 2]> = BTreeMap::new();
        for (side, id) in sides.into_iter().enumerate() {
            let Some(id) = id else { continue };
            for (name, item) in self.counter.folder(id)?.iter() {
                names.entry(name.to_vec()).or_default()[side] = Some(*item);
            }
        }
        Ok(names)
    }
}

/// The mode as git takes it: of a file's permissions only the owner's `x` counts.
fn canonical(mode: i32) -> u32 {
    let mode = mode.cast_unsigned();
    match mode & 0o170_000 {
        0o100_000 if mode & 0o100 != 0 => 0o100_755,
        0o100_000 => 0o100_644,
        0o120_000 => 0o120_000,
        _ => GITLINK,
    }
}

#[cfg(test)]
mod tests {
    use crate::tree_diff::*;

    /// Ten names for the folder below in each of `depth` folders, and as many files or empty folders.
    fn bomb(git: &Repository, depth: u32, leaf: Option<&[u8]>, inner: &str) -> git2::Oid {
        let (mut id, mut mode) = match leaf {
            Some(content) => (git.blob(content).unwrap(), 0o100_644),
            None => (git.treebuilder(None).unwrap().write().unwrap(), 0o040_000),
        };
        for level in 0..depth {
            let mut tree = git.treebuilder(None).unwrap();
            for number in 0..10 {
                let prefix = if level == 0 { inner } else { "" };
                tree.insert(format!("{prefix}{number}"), id, mode).unwrap();
            }
            id = tree.write().unwrap();
            mode = 0o040_000;
        }
        id
    }

    /// What a walk did: whether it came to an end, objects read, folders gone through, files found.
    fn walked(git: &Repository, sides: [Option<git2::Oid>; 2]) -> (bool, u64, u64, usize) {
        let mut walk = Walk::new(git, 20_000).unwrap();
        let is_whole = walk.folder(sides, &mut Vec::new(), 0).is_ok();
        (is_whole, walk.counter.folders.read, walk.folders, walk.pairs.len())
    }

    #[test]
    fn a_tree_of_ten_million_files_is_seven_objects() {
        let place = tempfile::tempdir().unwrap();
        let git = Repository::init_bare(place.path()).unwrap();
        let one = bomb(&git, 7, Some(b"x"), "");
        assert_eq!(walked(&git, [None, Some(one)]), (false, 7, 1, 0));
        assert_eq!(walked(&git, [Some(one), None]), (false, 7, 1, 0));
        // Both sides are there: nothing tells before it is walked that all files differ.
        let other = bomb(&git, 7, Some(b"y"), "");
        let (is_whole, read, folders, found) = walked(&git, [Some(one), Some(other)]);
        assert_eq!((is_whole, read, found), (false, 14, 20_000));
        assert!(folders < 20_000 / 9 + 10, "{folders}");
    }

    #[test]
    fn folders_without_files_are_compared_once() {
        let place = tempfile::tempdir().unwrap();
        let git = Repository::init_bare(place.path()).unwrap();
        let (one, other) = (bomb(&git, 30, None, ""), bomb(&git, 30, None, "x"));
        let (is_whole, read, folders, found) = walked(&git, [Some(one), Some(other)]);
        assert_eq!((is_whole, found), (true, 0));
        assert!(read <= 62 && folders <= 62, "{read} {folders}");
    }
}
