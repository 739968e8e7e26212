//! From the files that came out of a sandbox to a tree on the base commit.
//!
//! Everything that comes in is hostile. What cannot be part of a change is refused with a reason and
//! reported, never published: the list of what changed is not believed either, it is computed by
//! comparing the trees.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use git2::{Repository, Tree};

use super::attributes::Attributes;
use super::collisions::{COLLIDES, collisions};
use super::diffstat::compare;
use super::lfs::{self, Pointer};
use super::modules;
use super::names::{path_problem, target_problem};
use super::repo::Repo;
use super::tree::{Change, FileChange, Mode, OverLimit};
use super::{GitError, Oid, display_path, printable};
use patchwright_sandbox::client::{CollectedFile, CollectedKind, CollectedTree};

/// Times that files are taken out because their names collide. Each time, files that moved there come back, and
/// may collide with others: more of that is somebody's trap.
const MAX_ROUNDS: usize = 8;

/// Why a file stays whose content is in a file that was refused.
const MOVED: &str =
    "its content was moved to where it cannot be part of a change, so the file stays";

/// Turns what the sandbox gave back into a tree on `base`.
pub fn build(repo: &Repo, base: Oid, collected: &CollectedTree) -> Result<Change, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(base.0)?.tree()?;
    let held = modules::held_back(&git, &tree, collected);
    let built = onto(&git, &tree, collected, &held)?;
    let BuiltTree { tree: new, files, mut refused, unused } = built;
    // Policy does not see refused files, and this repository outlives the run, so their contents
    // must not stay.
    for oid in unused {
        repo.forget(Oid(oid))?;
    }
    let mut beyond = OverLimit::default();
    for left in &collected.listing.left_out {
        beyond.files = beyond.files.saturating_add(left.files);
        beyond.bytes = beyond.bytes.saturating_add(left.bytes);
        let (files, bytes) = (left.files, left.bytes);
        let reason = format!("{files} files of {bytes} bytes, too many to be handed over");
        refused.push((display_path(&left.path), reason));
    }
    refused.sort();
    refused.dedup();
    let artefacts = collected.listing.artefacts.iter().map(|path| display_path(path)).collect();
    Ok(Change { base, tree: Oid(new), files, refused, beyond, artefacts })
}

/// [`build`] for a sandbox that had the files of `seen`, a part of `base`. What it has not seen it does not replace.
pub fn build_of(
    repo: &Repo,
    base: Oid,
    seen: Oid,
    mut collected: CollectedTree,
) -> Result<Change, GitError> {
    if seen != base {
        let git = repo.git()?;
        let (whole, part) = (git.find_commit(base.0)?.tree()?, git.find_commit(seen.0)?.tree()?);
        let has = |tree: &Tree<'_>, path: &str| tree.get_path(Path::new(path)).is_ok();
        let is_hidden =
            |file: &mut CollectedFile| has(&whole, &file.path) && !has(&part, &file.path);
        let reason = "it is there already, outside of the sparse checkout";
        let hidden = collected.files.extract_if(.., is_hidden);
        let hidden = hidden.map(|file| (file.path, reason.to_owned()));
        collected.listing.refused.extend(hidden);
    }
    build(repo, base, &collected)
}

/// A tree that was made of another one.
pub(super) struct BuiltTree {
    pub(super) tree: git2::Oid,
    pub(super) files: Vec<FileChange>,
    /// Path and reason.
    pub(super) refused: Vec<(String, String)>,
    /// Contents that were stored for files that are not in it.
    pub(super) unused: Vec<git2::Oid>,
}

/// Lays what the sandbox gave back over a tree, without the paths in `held`, which are refused for these reasons.
pub(super) fn onto(
    git: &Repository,
    tree: &Tree<'_>,
    collected: &CollectedTree,
    held: &BTreeMap<String, String>,
) -> Result<BuiltTree, GitError> {
    let mut draft = Draft {
        git,
        base: tree,
        attributes: Attributes::new(git, tree),
        deleted: collected.listing.deleted.iter().map(String::as_str).collect(),
        edits: Folder::new(),
        refused: Vec::new(),
        stored: BTreeSet::new(),
        blobs: None,
        lost: HashSet::new(),
    };
    draft.take(collected, held)?;
    for _ in 0..MAX_ROUNDS {
        draft.keep_moved()?;
        let new = write_root(git, tree, &draft.edits)?;
        let files = compare(git, tree, &new)?;
        let colliding: BTreeSet<_> = collisions(git, tree, &new, &files)?.into_iter().collect();
        if colliding.is_empty() {
            let kept = files.iter().filter_map(|file| file.new).map(|new| new.oid.0);
            let kept: BTreeSet<_> = kept.collect();
            let unused = draft.stored.difference(&kept).copied().collect();
            return Ok(BuiltTree { tree: new.id(), files, refused: draft.refused, unused });
        }
        // Removing the colliding files changes folders, so the tree is built again.
        for file in files.iter().filter(|file| colliding.contains(&file.path)) {
            forget(&mut draft.edits, &file.path);
            draft.refuse(&file.path, COLLIDES);
            draft.lost.extend(file.new.map(|new| new.oid.0));
        }
    }
    Err(GitError::Unacceptable("the names of its files collide again and again".to_owned()))
}

/// The change with only those files for which `keep` says so; the rest stays as in the base.
pub fn restrict(
    repo: &Repo,
    change: &Change,
    keep: impl Fn(&FileChange) -> bool,
) -> Result<Change, GitError> {
    let git = repo.git()?;
    let base = git.find_commit(change.base.0)?.tree()?;
    let mut edits = Folder::new();
    let kept: Vec<&FileChange> = change.files.iter().filter(|file| keep(file)).collect();
    // Deletions first, so that a folder can replace a file of the same name.
    for file in kept.iter().filter(|file| file.new.is_none()) {
        place(&mut edits, &file.path, Edit::Remove);
    }
    for file in &kept {
        if let Some(entry) = &file.new {
            place(&mut edits, &file.path, Edit::Put(entry.mode, entry.oid.0));
        }
    }
    let new = write_root(&git, &base, &edits)?;
    let files = compare(&git, &base, &new)?;
    // A file that replaces a folder removes the folder's files, held back or not.
    let paths: BTreeSet<&str> = kept.iter().map(|file| file.path.as_str()).collect();
    if let Some(file) = files.iter().find(|file| !paths.contains(file.path.as_str())) {
        return Err(GitError::Unacceptable(format!(
            "`{}` cannot be held back, because another file takes its place",
            display_path(&file.path)
        )));
    }
    Ok(Change { tree: Oid(new.id()), files, ..change.clone() })
}

/// What differs between a commit and a tree that is in the repository already. Added files whose
/// names collide with others are in it, and named in `refused`.
pub fn between(repo: &Repo, base: Oid, tree: Oid) -> Result<Change, GitError> {
    let git = repo.git()?;
    let (old, new) = (git.find_commit(base.0)?.tree()?, git.find_tree(tree.0)?);
    let files = compare(&git, &old, &new)?;
    let colliding = collisions(&git, &old, &new, &files)?.into_iter();
    let refused = colliding.map(|path| (display_path(&path), COLLIDES.to_owned())).collect();
    Ok(Change { base, tree, files, refused, beyond: OverLimit::default(), artefacts: Vec::new() })
}

/// What happens to one name in a folder.
enum Edit {
    Remove,
    Put(Mode, git2::Oid),
    Inside(Folder),
}

type Folder = BTreeMap<String, Edit>;

struct Draft<'a> {
    git: &'a Repository,
    base: &'a Tree<'a>,
    attributes: Attributes<'a>,
    deleted: BTreeSet<&'a str>,
    edits: Folder,
    refused: Vec<(String, String)>,
    /// Contents that our repository did not have before.
    stored: BTreeSet<git2::Oid>,
    /// The blobs of the base, once somebody has asked for them.
    blobs: Option<HashSet<git2::Oid>>,
    /// Contents of refused files, by the blobs that the base would have them in.
    lost: HashSet<git2::Oid>,
}

impl Draft<'_> {
    fn take(
        &mut self,
        collected: &CollectedTree,
        held: &BTreeMap<String, String>,
    ) -> Result<(), GitError> {
        for (path, reason) in &collected.listing.refused {
            self.refuse(path, printable(reason, 300));
        }
        for (path, reason) in held {
            self.refuse(path, reason.as_str());
        }
        for path in collected.listing.deleted.iter().filter(|path| !held.contains_key(*path)) {
            self.delete(path);
        }
        for file in collected.files.iter().filter(|file| !held.contains_key(&file.path)) {
            self.add(file)?;
        }
        Ok(())
    }

    /// Takes back the deletions of files whose content is in a refused file: without its new place, a move would
    /// be published as a deletion.
    fn keep_moved(&mut self) -> Result<(), GitError> {
        if self.lost.is_empty() {
            return Ok(());
        }
        // Files without content are all alike, which says nothing about where one went.
        self.lost.remove(&git2::Oid::hash_object(git2::ObjectType::Blob, b"")?);
        for path in self.deleted.clone() {
            let Ok(entry) = self.base.get_path(Path::new(path)) else { continue };
            if self.lost.contains(&entry.id()) && is_removed(&self.edits, path) {
                forget(&mut self.edits, path);
                self.refuse(path, MOVED);
            }
        }
        Ok(())
    }

    /// Remembers what a refused file has in it.
    fn lose(&mut self, file: &CollectedFile) -> Result<(), GitError> {
        let blob = |content: &[u8]| git2::Oid::hash_object(git2::ObjectType::Blob, content);
        match &file.kind {
            CollectedKind::Symlink { target } => {
                self.lost.insert(blob(target)?);
            }
            CollectedKind::File { content, .. } => {
                self.lost.insert(blob(content)?);
                self.lost.insert(blob(Pointer::text_of(content).as_bytes())?);
            }
        }
        Ok(())
    }

    fn refuse(&mut self, path: &str, reason: impl Into<String>) {
        self.refused.push((display_path(path), reason.into()));
    }

    fn delete(&mut self, path: &str) {
        let Ok(entry) = self.base.get_path(Path::new(path)) else {
            if let Some(reason) = self.place_problem(path) {
                self.refuse(path, reason);
            }
            return;
        };
        match entry.filemode() {
            // git has no empty folders: one disappears with its last file.
            0o040_000 => {}
            0o160_000 => self.refuse(path, "a submodule, which cannot be changed"),
            _ => {
                place(&mut self.edits, path, Edit::Remove);
            }
        }
    }

    fn add(&mut self, file: &CollectedFile) -> Result<(), GitError> {
        let reason = match self.edit(file)? {
            Ok(edit) => {
                if place(&mut self.edits, &file.path, edit) {
                    return Ok(());
                }
                "a path that is also a folder or was sent twice".to_owned()
            }
            Err(reason) => reason,
        };
        self.refuse(&file.path, reason);
        self.lose(file)
    }

    /// What a file does to the tree, or why it cannot be part of the change.
    fn edit(&mut self, file: &CollectedFile) -> Result<Result<Edit, String>, GitError> {
        if let Some(problem) = self.problem(file) {
            return Ok(Err(problem));
        }
        let (mode, content) = match &file.kind {
            CollectedKind::Symlink { target } => {
                return Ok(Ok(Edit::Put(Mode::Symlink, self.store(target)?)));
            }
            CollectedKind::File { executable: true, content } => (Mode::Executable, content),
            CollectedKind::File { executable: false, content } => (Mode::File, content),
        };
        if !self.attributes.is_lfs(&file.path)? {
            return Ok(Ok(Edit::Put(mode, self.store(content)?)));
        }
        Ok(match self.known_pointer(content)? {
            Some(pointer) => Ok(Edit::Put(mode, self.store(&pointer)?)),
            None => Err("git LFS keeps this file, and LFS objects cannot be uploaded".to_owned()),
        })
    }

    /// The pointer of the base that is this content or stands for it: what it points to is on the server
    /// already, whatever the file is called now.
    fn known_pointer(&mut self, content: &[u8]) -> Result<Option<Vec<u8>>, GitError> {
        let blobs = match self.blobs.take() {
            Some(blobs) => blobs,
            None => lfs::blobs_of(self.git, self.base)?,
        };
        let is_pointer = Pointer::parse(content).is_some();
        let text =
            if is_pointer { content.to_vec() } else { Pointer::text_of(content).into_bytes() };
        let blob = git2::Oid::hash_object(git2::ObjectType::Blob, &text)?;
        let is_known = blobs.contains(&blob);
        self.blobs = Some(blobs);
        Ok(is_known.then_some(text))
    }

    fn store(&mut self, content: &[u8]) -> Result<git2::Oid, GitError> {
        // Noted before it is stored, because only new objects may be removed again.
        let oid = git2::Oid::hash_object(git2::ObjectType::Blob, content)?;
        if !self.git.odb()?.exists(oid) {
            self.stored.insert(oid);
        }
        Ok(self.git.blob(content)?)
    }

    /// Why nothing may be at a path, or no such link, if so.
    fn problem(&self, file: &CollectedFile) -> Option<String> {
        let path = file.path.as_str();
        if let Some(problem) = path_problem(path) {
            return Some(problem);
        }
        if let Some(problem) = self.place_problem(path) {
            return Some(problem.to_owned());
        }
        let CollectedKind::Symlink { target } = &file.kind else { return None };
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        // git's fsck refuses these as links (`gitmodulesSymlink` and others): following one
        // could read a file outside.
        if matches!(name.as_str(), ".gitmodules" | ".gitattributes" | ".gitignore" | ".mailmap") {
            return Some("a file of git's own as a symlink".to_owned());
        }
        target_problem(path, target).map(str::to_owned)
    }

    /// Whether something in the base is in the way and was not deleted.
    fn place_problem(&self, path: &str) -> Option<&'static str> {
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
        for place in parents.chain([path]) {
            let Ok(entry) = self.base.get_path(Path::new(place)) else { return None };
            match entry.filemode() {
                0o160_000 => return Some("part of a submodule, which cannot be changed"),
                0o040_000 => {}
                _ if place != path && !self.deleted.contains(place) => {
                    return Some("a path through a file or symlink of the base");
                }
                _ => return None,
            }
        }
        None
    }
}

/// Notes an edit; false when it contradicts an earlier one.
fn place(folder: &mut Folder, path: &str, edit: Edit) -> bool {
    let Some((name, rest)) = path.split_once('/') else {
        let free = match folder.get(path) {
            None | Some(Edit::Remove) => true,
            Some(Edit::Put(..)) => false,
            Some(Edit::Inside(inside)) => only_removes(inside),
        };
        if free {
            folder.insert(path.to_owned(), edit);
        }
        return free;
    };
    let inside = folder.entry(name.to_owned()).or_insert_with(|| Edit::Inside(Folder::new()));
    // A file that was deleted can become a folder.
    if matches!(inside, Edit::Remove) {
        *inside = Edit::Inside(Folder::new());
    }
    match inside {
        Edit::Inside(inside) => place(inside, rest, edit),
        Edit::Remove | Edit::Put(..) => false,
    }
}

fn only_removes(folder: &Folder) -> bool {
    folder.values().all(|edit| match edit {
        Edit::Remove => true,
        Edit::Put(..) => false,
        Edit::Inside(inside) => only_removes(inside),
    })
}

/// Whether the file at a path is removed and nothing took its place.
fn is_removed(folder: &Folder, path: &str) -> bool {
    match path.split_once('/') {
        None => matches!(folder.get(path), Some(Edit::Remove)),
        Some((name, rest)) => match folder.get(name) {
            Some(Edit::Inside(inside)) => is_removed(inside, rest),
            _ => false,
        },
    }
}

fn forget(folder: &mut Folder, path: &str) {
    match path.split_once('/') {
        None => {
            folder.remove(path);
        }
        Some((name, rest)) => {
            if let Some(Edit::Inside(inside)) = folder.get_mut(name) {
                forget(inside, rest);
            }
        }
    }
}

fn write_root<'a>(
    git: &'a Repository,
    base: &Tree<'_>,
    edits: &Folder,
) -> Result<Tree<'a>, GitError> {
    let oid = match write(git, Some(base), edits)? {
        Some(oid) => oid,
        None => git.treebuilder(None)?.write()?,
    };
    Ok(git.find_tree(oid)?)
}

/// Writes one folder with its edits; `None` when nothing is left in it.
fn write(
    git: &Repository,
    base: Option<&Tree<'_>>,
    edits: &Folder,
) -> Result<Option<git2::Oid>, GitError> {
    let mut builder = git.treebuilder(base)?;
    for (name, edit) in edits {
        let old = base.and_then(|base| base.get_name(name));
        let is_folder = old.as_ref().is_some_and(|old| old.filemode() == 0o040_000);
        match edit {
            Edit::Remove if old.is_some() => builder.remove(name.as_str())?,
            Edit::Remove => {}
            Edit::Put(mode, oid) => {
                builder.insert(name.as_str(), *oid, mode.bits())?;
            }
            Edit::Inside(inside) => {
                let folder = match &old {
                    Some(old) if is_folder => Some(git.find_tree(old.id())?),
                    _ => None,
                };
                match write(git, folder.as_ref(), inside)? {
                    Some(oid) => {
                        builder.insert(name.as_str(), oid, 0o040_000)?;
                    }
                    None if is_folder => builder.remove(name.as_str())?,
                    None => {}
                }
            }
        }
    }
    if builder.is_empty() { Ok(None) } else { Ok(Some(builder.write()?)) }
}
