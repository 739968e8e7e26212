//! From the files that came out of a sandbox to a tree on the base commit.
//!
//! Everything that comes in is hostile. What cannot be part of a change is refused with a reason and
//! reported, never published: the list of what changed is not believed either, it is computed by
//! comparing the trees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use git2::{Repository, Tree};

use super::attributes::Attributes;
use super::compared::compare;
use super::names::{collision_key, path_problem, target_problem};
use super::repo::Repo;
use super::tree::{Change, FileChange, Mode, OverLimit};
use super::{GitError, Oid, display_path, printable};
use patchwright_sandbox::client::{CollectedFile, CollectedKind, CollectedTree};

/// Turns what the sandbox gave back into a tree on `base`.
pub fn build(repo: &Repo, base: Oid, collected: &CollectedTree) -> Result<Change, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(base.0)?.tree()?;
    let BuiltTree { tree: new, files, mut refused, unused } = onto(&git, &tree, collected)?;
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

/// Lays what the sandbox gave back over a tree.
pub(super) fn onto(
    git: &Repository,
    tree: &Tree<'_>,
    collected: &CollectedTree,
) -> Result<BuiltTree, GitError> {
    let mut draft = Draft {
        git,
        base: tree,
        attributes: Attributes::new(git, tree),
        deleted: collected.listing.deleted.iter().map(String::as_str).collect(),
        edits: Folder::new(),
        refused: Vec::new(),
        stored: BTreeSet::new(),
    };
    for (path, reason) in &collected.listing.refused {
        draft.refuse(path, printable(reason, 300));
    }
    for path in &collected.listing.deleted {
        draft.delete(path);
    }
    for file in &collected.files {
        draft.add(file)?;
    }
    let Draft { mut edits, mut refused, stored, .. } = draft;
    let mut new = write_root(git, tree, &edits)?;
    let mut files = compare(git, tree, &new)?;
    let colliding = collisions(git, tree, &new, &files)?;
    // Removing the colliding files changes folders, so the tree is built a second time.
    if !colliding.is_empty() {
        for path in colliding {
            forget(&mut edits, &path);
            let reason = "its name differs from another one only in case or Unicode form";
            refused.push((display_path(&path), reason.to_owned()));
        }
        new = write_root(git, tree, &edits)?;
        files = compare(git, tree, &new)?;
    }
    let kept: BTreeSet<_> = files.iter().filter_map(|file| file.new).map(|new| new.oid.0).collect();
    let unused = stored.difference(&kept).copied().collect();
    Ok(BuiltTree { tree: new.id(), files, refused, unused })
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
    let reason = "its name differs from another one only in case or Unicode form";
    let colliding = collisions(&git, &old, &new, &files)?.into_iter();
    let refused = colliding.map(|path| (display_path(&path), reason.to_owned())).collect();
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
}

impl Draft<'_> {
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
        if let Some(reason) = self.problem(file)? {
            self.refuse(&file.path, reason);
            return Ok(());
        }
        let edit = match &file.kind {
            CollectedKind::File { executable, content } => {
                let mode = if *executable { Mode::Executable } else { Mode::File };
                Edit::Put(mode, self.store(content)?)
            }
            CollectedKind::Symlink { target } => Edit::Put(Mode::Symlink, self.store(target)?),
        };
        if !place(&mut self.edits, &file.path, edit) {
            self.refuse(&file.path, "a path that is also a folder or was sent twice");
        }
        Ok(())
    }

    fn store(&mut self, content: &[u8]) -> Result<git2::Oid, GitError> {
        // Noted before it is stored, because only new objects may be removed again.
        let oid = git2::Oid::hash_object(git2::ObjectType::Blob, content)?;
        if !self.git.odb()?.exists(oid) {
            self.stored.insert(oid);
        }
        Ok(self.git.blob(content)?)
    }

    /// Why a file cannot be part of the change, if so.
    fn problem(&mut self, file: &CollectedFile) -> Result<Option<String>, GitError> {
        let path = file.path.as_str();
        if let Some(problem) = path_problem(path) {
            return Ok(Some(problem));
        }
        if let Some(problem) = self.place_problem(path) {
            return Ok(Some(problem.to_owned()));
        }
        if let CollectedKind::Symlink { target } = &file.kind {
            let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
            // git's fsck refuses these as links (`gitmodulesSymlink` and others): following one
            // could read a file outside.
            if matches!(name.as_str(), ".gitmodules" | ".gitattributes" | ".gitignore" | ".mailmap")
            {
                return Ok(Some("a file of git's own as a symlink".to_owned()));
            }
            return Ok(target_problem(path, target).map(str::to_owned));
        }
        if self.attributes.is_lfs(path)? {
            return Ok(Some(
                "git LFS keeps this file, and LFS objects cannot be uploaded".to_owned(),
            ));
        }
        Ok(None)
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

/// Added files of which some name on the way is, to other systems, the same as a sibling's.
fn collisions(
    git: &Repository,
    base: &Tree<'_>,
    new: &Tree<'_>,
    files: &[FileChange],
) -> Result<Vec<String>, GitError> {
    // How many names of a folder share a key, by folder.
    let mut folders: HashMap<&str, HashMap<String, usize>> = HashMap::new();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.old.is_none()) {
        // Folders collide as well: `Docs/a` and `docs/b` are one folder on a Mac.
        let ends = file.path.match_indices('/').map(|(at, _)| at).chain([file.path.len()]);
        for end in ends {
            let place = &file.path[..end];
            // A collision that the base has already is not this change's fault.
            if base.get_path(Path::new(place)).is_ok() {
                continue;
            }
            let (folder, name) = place.rsplit_once('/').unwrap_or(("", place));
            if !folders.contains_key(folder) {
                folders.insert(folder, keys(git, new, folder)?);
            }
            if folders[folder].get(&collision_key(name)).is_some_and(|count| *count > 1) {
                found.push(file.path.clone());
                break;
            }
        }
    }
    Ok(found)
}

fn keys(
    git: &Repository,
    root: &Tree<'_>,
    folder: &str,
) -> Result<HashMap<String, usize>, GitError> {
    let mut keys = HashMap::new();
    let mut count = |tree: &Tree<'_>| {
        for entry in tree {
            if let Ok(name) = entry.name() {
                *keys.entry(collision_key(name)).or_insert(0) += 1;
            }
        }
    };
    if folder.is_empty() {
        count(root);
    } else {
        count(&git.find_tree(root.get_path(Path::new(folder))?.id())?);
    }
    Ok(keys)
}
