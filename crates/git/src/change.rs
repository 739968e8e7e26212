//! From the files that came out of a sandbox to a tree on the base commit.
//!
//! Everything that comes in is hostile. What cannot be part of a change is refused with a reason and
//! reported, never published: the list of what changed is not believed either, it is computed by
//! comparing the trees.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use git2::{Repository, Tree};

use super::attributes::{self, Attributes};
use super::collisions::{COLLIDES, collisions};
use super::diffstat::compare;
use super::edits::{Edit, Folder, forget, is_removed, place, write_root};
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

/// Why a pointer is nowhere but where LFS keeps files.
const POINTER_ALONE: &str = "a pointer of git LFS under a name that LFS does not keep; give the name to LFS in \
                             `.gitattributes`, or have the contents in the sandbox (`checkout.lfs`)";

/// Turns what the sandbox gave back into a tree on `base`.
pub fn build(repo: &Repo, base: Oid, collected: &CollectedTree) -> Result<Change, GitError> {
    build_without(repo, base, collected, BTreeMap::new())
}

/// [`build`] without the paths in `hidden`, which are refused for these reasons.
fn build_without(
    repo: &Repo,
    base: Oid,
    collected: &CollectedTree,
    hidden: BTreeMap<String, String>,
) -> Result<Change, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(base.0)?.tree()?;
    let mut held = modules::held_back(&git, &tree, collected);
    held.extend(hidden);
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
    let shown = |paths: &[String]| paths.iter().map(|path| display_path(path)).collect();
    let (artefacts, ignored) =
        (shown(&collected.listing.artefacts), shown(&collected.listing.ignored));
    Ok(Change { base, tree: Oid(new), files, refused, beyond, artefacts, ignored })
}

/// [`build`] for a sandbox that had the files of `seen`, a part of `base`. What it has not seen it does not replace.
pub fn build_of(
    repo: &Repo,
    base: Oid,
    seen: Oid,
    collected: &CollectedTree,
) -> Result<Change, GitError> {
    let mut hidden = BTreeMap::new();
    if seen != base {
        let git = repo.git()?;
        let (whole, part) = (git.find_commit(base.0)?.tree()?, git.find_commit(seen.0)?.tree()?);
        let has = |tree: &Tree<'_>, path: &str| tree.get_path(Path::new(path)).is_ok();
        let is_hidden = |file: &&CollectedFile| has(&whole, &file.path) && !has(&part, &file.path);
        let reason = "it is there already, outside of the sparse checkout";
        let found = collected.files.iter().filter(is_hidden);
        hidden.extend(found.map(|file| (file.path.clone(), reason.to_owned())));
    }
    build_without(repo, base, collected, hidden)
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
        attributes: [
            Attributes::new(git, tree),
            Attributes::with(git, tree, attributes::of_change(collected, held)),
        ],
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
    let (beyond, artefacts, ignored) = (OverLimit::default(), Vec::new(), Vec::new());
    Ok(Change { base, tree, files, refused, beyond, artefacts, ignored })
}

struct Draft<'a> {
    git: &'a Repository,
    base: &'a Tree<'a>,
    /// As they are in the base, and as they are with the change: a file that either gives to LFS has a pointer for its
    /// content, or none of ours.
    attributes: [Attributes<'a>; 2],
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
        for file in &collected.files {
            if held.contains_key(&file.path) {
                self.lose(file)?;
            } else {
                self.add(file)?;
            }
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
        let [before, after] = &mut self.attributes;
        if !before.is_lfs(&file.path)? && !after.is_lfs(&file.path)? {
            if self.was_kept_by_lfs(content)? {
                return Ok(Err(POINTER_ALONE.to_owned()));
            }
            let stored = self.as_git_stores(&file.path, content)?;
            return Ok(Ok(Edit::Put(mode, self.store(&stored)?)));
        }
        Ok(match self.known_pointer(content)? {
            Some(pointer) => Ok(Edit::Put(mode, self.store(&pointer)?)),
            None => Err("git LFS keeps this file, and LFS objects cannot be uploaded".to_owned()),
        })
    }

    /// It is a pointer that stands for a content of the base: at a place that LFS does not keep, readers would get the
    /// pointer for a file.
    fn was_kept_by_lfs(&mut self, content: &[u8]) -> Result<bool, GitError> {
        if Pointer::parse(content).is_none() {
            return Ok(false);
        }
        let blob = git2::Oid::hash_object(git2::ObjectType::Blob, content)?;
        let paths = lfs::paths_of(self.base, blob)?;
        let [before, _] = &mut self.attributes;
        for path in paths {
            if before.is_lfs(&path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The content with LF for CRLF, where git would store it so. Files of the base that have CRLF keep it, also where
    /// they are moved: their lines have not changed.
    fn as_git_stores<'c>(
        &mut self,
        path: &str,
        content: &'c [u8],
    ) -> Result<Cow<'c, [u8]>, GitError> {
        let has_crlf = |content: &[u8]| content.windows(2).any(|pair| pair == b"\r\n");
        if !content.contains(&b'\r') || !has_crlf(content) {
            return Ok(Cow::Borrowed(content));
        }
        let before = self.base.get_path(Path::new(path)).ok();
        let before = before.and_then(|entry| self.git.find_blob(entry.id()).ok());
        if before.is_some_and(|before| has_crlf(before.content())) {
            return Ok(Cow::Borrowed(content));
        }
        let blob = git2::Oid::hash_object(git2::ObjectType::Blob, content)?;
        let was = |path: &&str| self.base.get_path(Path::new(path)).is_ok_and(|it| it.id() == blob);
        if self.deleted.iter().any(was) {
            return Ok(Cow::Borrowed(content));
        }
        let [_, after] = &mut self.attributes;
        after.stored(path, content)
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
