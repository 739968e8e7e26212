//! Checkpoints of a workspace as git trees, in a bare repository of the run's own.
//!
//! The repository borrows what the base has from our mirror of the forge's, and keeps one pack for each
//! checkpoint that had anything new. A pack is on the disk when [`Store::add`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use git2::Repository;

use super::change::{BuiltTree, onto};
use super::diffstat::MAX_FILES;
use super::hunks::{GITLINK, LINK};
use super::packed;
use super::repo::Repo;
use super::tree::FileChange;
use super::tree_diff::differing;
use super::{GitError, Oid};
use patchwright_sandbox::client::{
    Client, CollectedFile, CollectedKind, CollectedTree, GuestError,
};
use patchwright_sandbox::packed::Packed;

const EXECUTABLE: i32 = 0o100_755;

/// Before every other place for objects.
const FIRST: i32 = 1_000;

/// The trees of one run.
#[derive(Clone, Debug)]
pub struct Store {
    repo: Repo,
}

/// What has to be done to an uploaded tree to make it another one.
#[derive(Debug)]
pub struct Difference {
    /// Files that are put there.
    pub put: Vec<String>,
    /// Files that are removed first.
    pub remove: Vec<String>,
    packed: Packed,
}

impl Store {
    /// Opens the repository in `folder`, which is made when it is not there. It sees all objects of
    /// `mirror`.
    ///
    /// # Errors
    /// [`GitError::Machine`] when it cannot be made or opened.
    pub fn open(folder: &Path, mirror: &Repo) -> Result<Store, GitError> {
        let repo = if folder.is_dir() { Repo::open(folder)? } else { Repo::create(folder)? };
        // The mirror may have another place than when the run began.
        let borrowed = fs_err::canonicalize(mirror.path())?.join("objects");
        let info = folder.join("objects/info");
        fs_err::create_dir_all(&info)?;
        fs_err::write(info.join("alternates"), format!("{}\n", borrowed.display()))?;
        Ok(Store { repo })
    }

    /// Lays what changed over a tree. What is new in the result is on the disk when this returns. With it: files that it
    /// does not have because no change can have them, and why.
    ///
    /// # Errors
    /// When the tree cannot be read or the disk is full.
    pub fn add(
        &self,
        tree: Oid,
        changed: &CollectedTree,
    ) -> Result<(Oid, Vec<(String, String)>), GitError> {
        let git = self.repo.git()?;
        let before = self.packs()?;
        let odb = git.odb()?;
        // New objects stay in memory, because it is known only at the end which of them are kept.
        let _memory = odb.add_new_mempack_backend(FIRST)?;
        // The work as it is, also what will not be published.
        let held = BTreeMap::new();
        let built = onto(&git, &git.find_tree(tree.0)?, changed, &held)?;
        let BuiltTree { tree: new, files, refused, .. } = built;
        if new == tree.0 {
            return Ok((tree, refused));
        }
        let mut pack = git.packbuilder()?;
        for oid in made(&git, new, &files)? {
            pack.insert_object(oid, None)?;
        }
        let mut writer = odb.packwriter()?;
        let mut written = Ok(());
        pack.foreach(|bytes| {
            written = writer.write_all(bytes);
            written.is_ok()
        })?;
        written?;
        writer.commit()?;
        drop(writer);
        for name in self.packs()?.difference(&before) {
            File::open(self.pack_folder().join(name))?.sync_all()?;
        }
        File::open(self.pack_folder())?.sync_all()?;
        Ok((Oid(new), refused))
    }

    /// How `tree` differs from `base`. Every file that is put there has been read: its content is whole.
    /// `now` is when they are put there, in seconds since 1970.
    ///
    /// # Errors
    /// When an object is not there or damaged.
    pub fn difference(&self, base: Oid, tree: Oid, now: u64) -> Result<Difference, GitError> {
        let git = self.repo.git()?;
        let odb = git.odb()?;
        let (old, new) = (git.find_tree(base.0)?, git.find_tree(tree.0)?);
        let (mut put, mut remove) = (Vec::new(), Vec::new());
        for pair in differing(&git, Some(&old), Some(&new), MAX_FILES)? {
            let path = String::from_utf8(pair.path().to_vec())
                .map_err(|_| GitError::Unacceptable("a path that is not UTF-8".to_owned()))?;
            match &pair.new {
                Some(new) if new.mode == GITLINK => {}
                Some(new) => {
                    odb.read(new.id)?;
                    put.push(path);
                }
                None => remove.push(path),
            }
        }
        let packed = packed::some(&self.repo, tree, &put, now)?;
        Ok(Difference { put, remove, packed })
    }

    /// How `tree` differs from `base`, as if it had come out of a sandbox: a change is made of it like of any other.
    ///
    /// # Errors
    /// When an object is not there or damaged.
    pub fn changed(&self, base: Oid, tree: Oid) -> Result<CollectedTree, GitError> {
        let git = self.repo.git()?;
        let (old, new) = (git.find_tree(base.0)?, git.find_tree(tree.0)?);
        let mut changed = CollectedTree::default();
        for pair in differing(&git, Some(&old), Some(&new), MAX_FILES)? {
            let path = String::from_utf8(pair.path().to_vec())
                .map_err(|_| GitError::Unacceptable("a path that is not UTF-8".to_owned()))?;
            let Some(new) = &pair.new else {
                changed.listing.deleted.push(path);
                continue;
            };
            if new.mode == GITLINK {
                continue;
            }
            let content = git.find_blob(new.id)?.content().to_vec();
            let kind = match new.mode {
                LINK => CollectedKind::Symlink { target: content },
                mode => {
                    CollectedKind::File { executable: mode == EXECUTABLE, content: content.into() }
                }
            };
            changed.files.push(CollectedFile { path, kind });
        }
        Ok(changed)
    }

    fn pack_folder(&self) -> PathBuf {
        self.repo.path().join("objects/pack")
    }

    fn packs(&self) -> Result<BTreeSet<OsString>, GitError> {
        let names = fs_err::read_dir(self.pack_folder())?;
        Ok(names.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?)
    }
}

impl Difference {
    /// Makes an uploaded base the other tree.
    ///
    /// # Errors
    /// Those of [`Client::restore`].
    pub async fn restore(&self, client: &Client) -> Result<(), GuestError> {
        self.packed.restore(client, self.remove.clone()).await
    }
}

/// The contents of changed files, and the folders on the way to them.
fn made(
    git: &Repository,
    root: git2::Oid,
    files: &[FileChange],
) -> Result<BTreeSet<git2::Oid>, GitError> {
    let mut made: BTreeSet<git2::Oid> = BTreeSet::from([root]);
    let mut folders: BTreeMap<&str, git2::Oid> = BTreeMap::new();
    for file in files {
        made.extend(file.new.map(|new| new.oid.0));
        let mut above = root;
        for (at, _) in file.path.match_indices('/') {
            let (path, start) =
                (&file.path[..at], file.path[..at].rfind('/').map_or(0, |at| at + 1));
            above = if let Some(oid) = folders.get(path) {
                *oid
            } else {
                let tree = git.find_tree(above)?;
                // It went with its last file, or a file has its place.
                let inner = tree.get_name(&path[start..]).filter(|it| it.filemode() == 0o040_000);
                let Some(inner) = inner else { break };
                folders.insert(path, inner.id());
                inner.id()
            };
            made.insert(above);
        }
    }
    Ok(made)
}
