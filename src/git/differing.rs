//! Which files differ between two trees, counted while it is found out. A pack of a kilobyte can hold a
//! tree of millions of files: folders that are there many times are objects that are there once. So
//! nothing here asks libgit2 for a whole difference: a folder that is only on one side is counted first,
//! each distinct one once, and the walk ends at the first file too many.

use std::collections::{BTreeMap, HashMap};

use git2::{ObjectType, Odb, Repository, Tree};

use super::GitError;
use super::hunks::{Pair, Version};

/// Folders inside folders, at most.
const MAX_DEPTH: usize = 256;

/// Bytes of one folder's object.
const MAX_TREE: usize = 16 << 20;

/// Bytes of all paths of one difference.
const MAX_PATHS: usize = 128 << 20;

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
) -> Result<Vec<Pair>, GitError> {
    let mut counter = Counter::new(git, most)?;
    let mut walk = Walk { counter: &mut counter, pairs: Vec::new(), paths: 0, folders: 0 };
    let sides = [old.map(Tree::id), new.map(Tree::id)];
    walk.folder(sides, &mut Vec::new(), 0)?;
    let mut pairs = walk.pairs;
    pairs.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(pairs)
}

/// Counts what is below folders: files, and folders if asked for. Each distinct folder is read once.
pub(super) struct Counter<'a> {
    git: &'a Repository,
    odb: Odb<'a>,
    most: u64,
    known: HashMap<git2::Oid, u64>,
    /// What each folder inside counts besides what is in it.
    folder: u64,
}

impl<'a> Counter<'a> {
    pub(super) fn new(git: &'a Repository, most: u64) -> Result<Counter<'a>, GitError> {
        Ok(Counter { git, odb: git.odb()?, most, known: HashMap::new(), folder: 0 })
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
        for entry in &self.tree(tree)? {
            sum = sum.saturating_add(match entry.kind() {
                Some(ObjectType::Tree) => {
                    self.count(entry.id(), depth + 1)?.saturating_add(self.folder)
                }
                _ => 1,
            });
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

    fn tree(&self, id: git2::Oid) -> Result<Tree<'a>, GitError> {
        let (size, _) = self.odb.read_header(id)?;
        if size > MAX_TREE {
            return Err(self.too_many());
        }
        Ok(self.git.find_tree(id)?)
    }
}

/// An entry of a folder.
#[derive(Clone, Copy)]
struct Item {
    id: git2::Oid,
    mode: u32,
    is_folder: bool,
}

struct Walk<'w, 'a> {
    counter: &'w mut Counter<'a>,
    pairs: Vec<Pair>,
    /// Bytes of their paths.
    paths: usize,
    folders: u64,
}

impl Walk<'_, '_> {
    /// Compares two folders, one of which may be absent; `path` ends with a slash, or is empty.
    fn folder(
        &mut self,
        sides: [Option<git2::Oid>; 2],
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), GitError> {
        self.folders += 1;
        if depth > MAX_DEPTH {
            return Err(GitError::Unacceptable("folders are nested too deeply".to_owned()));
        }
        if self.folders > MAX_FOLDERS.max(self.counter.most) {
            return Err(self.counter.too_many());
        }
        if let [Some(only), None] | [None, Some(only)] = sides {
            let count = self.counter.count(only, depth)?;
            if count == 0 {
                return Ok(());
            }
            if (self.pairs.len() as u64).saturating_add(count) > self.counter.most {
                return Err(self.counter.too_many());
            }
        }
        let length = path.len();
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
                Some(Version { path: path.clone(), id: item.id, mode })
            };
            let (before, after) = (version(old), version(new));
            if before.is_some() || after.is_some() {
                self.add(Pair { old: before, new: after })?;
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
        Ok(())
    }

    fn add(&mut self, pair: Pair) -> Result<(), GitError> {
        self.paths += pair.path().len();
        if self.pairs.len() as u64 >= self.counter.most || self.paths > MAX_PATHS {
            return Err(self.counter.too_many());
        }
        self.pairs.push(pair);
        Ok(())
    }

    /// The names in either folder.
    fn names(
        &self,
        sides: [Option<git2::Oid>; 2],
    ) -> Result<BTreeMap<Vec<u8>, [Option<Item>; 2]>, GitError> {
        let mut names: BTreeMap<Vec<u8>, [Option<Item>; 2]> = BTreeMap::new();
        for (side, id) in sides.into_iter().enumerate() {
            let Some(id) = id else { continue };
            for entry in &self.counter.tree(id)? {
                let is_folder = entry.kind() == Some(ObjectType::Tree);
                let mode = if is_folder { 0 } else { canonical(entry.filemode_raw()) };
                let item = Item { id: entry.id(), mode, is_folder };
                names.entry(entry.name_bytes().to_vec()).or_default()[side] = Some(item);
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
