//! Trees that come of patches: a difference that somebody has written, laid over a tree. Nothing is checked out, and
//! no `git` program is started.

use git2::build::TreeUpdateBuilder;
use git2::{Delta, Diff, FileMode, Tree, TreeEntry};

use super::patch_text::for_libgit2;
use super::repo::Repo;
use super::{GitError, Oid, display_path};

/// A file that a patch is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedFile {
    pub path: String,
    /// It is not there any more afterwards.
    pub is_deleted: bool,
}

/// The files that a patch is about, in its order. A renamed one is there by both of its names.
///
/// # Errors
/// [`GitError::Unacceptable`] when it is no patch, or a path of it is not UTF-8.
pub fn files_of(patch: &str) -> Result<Vec<PatchedFile>, GitError> {
    let mut files = Vec::new();
    if patch.trim().is_empty() {
        return Ok(files);
    }
    let diff = read(patch)?;
    for delta in diff.deltas() {
        let (old, new) = (delta.old_file().path(), delta.new_file().path());
        if matches!(delta.status(), Delta::Deleted | Delta::Renamed) {
            files.push(PatchedFile { path: utf8(old)?, is_deleted: true });
        }
        if delta.status() != Delta::Deleted {
            files.push(PatchedFile { path: utf8(new)?, is_deleted: false });
        }
    }
    Ok(files)
}

/// The tree with a patch applied to it; the tree itself where the patch is empty. All of it, or an error.
///
/// # Errors
/// [`GitError::Unacceptable`] when it is no patch, or does not apply.
pub fn apply(repo: &Repo, tree: Oid, patch: &str) -> Result<Oid, GitError> {
    if patch.trim().is_empty() {
        return Ok(tree);
    }
    let (git, diff) = (repo.git()?, read(patch)?);
    let base = git.find_tree(tree.0)?;
    refuse_submodules(&base, &diff)?;
    let mut index = git.apply_to_tree(&base, &diff, None).map_err(|err| {
        GitError::Unacceptable(format!("the patch does not apply: {}", err.message()))
    })?;
    Ok(Oid(index.write_tree_to(&git)?))
}

/// `tree` with these files as they are in `other`: what is not there is removed.
///
/// # Errors
/// When an object cannot be read or written.
pub fn with_files_of(
    repo: &Repo,
    tree: Oid,
    other: Oid,
    paths: &[PatchedFile],
) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let (base, other) = (git.find_tree(tree.0)?, git.find_tree(other.0)?);
    let mut update = TreeUpdateBuilder::new();
    let mut is_changed = false;
    for PatchedFile { path, .. } in paths {
        match other.get_path(path.as_ref()) {
            Ok(entry) => {
                update.upsert(path.as_str(), entry.id(), mode_of(entry.filemode()));
            }
            Err(_) if base.get_path(path.as_ref()).is_ok() => {
                update.remove(path.as_str());
            }
            Err(_) => continue,
        }
        is_changed = true;
    }
    if !is_changed {
        return Ok(tree);
    }
    let updated = update.create_updated(&git, &base).map_err(|err| {
        GitError::Unacceptable(format!("the files cannot be laid over the tree: {}", err.message()))
    })?;
    Ok(Oid(updated))
}

fn mode_of(bits: i32) -> FileMode {
    match bits {
        0o100_755 => FileMode::BlobExecutable,
        0o120_000 => FileMode::Link,
        0o160_000 => FileMode::Commit,
        _ => FileMode::Blob,
    }
}

fn read(patch: &str) -> Result<Diff<'static>, GitError> {
    Diff::from_buffer(for_libgit2(patch).as_bytes())
        .map_err(|err| GitError::Unacceptable(format!("it is no patch of git: {}", err.message())))
}

/// libgit2 crashes when it applies a patch to a submodule, and such a patch is nothing that a tree can be made of.
fn refuse_submodules(base: &Tree<'_>, diff: &Diff<'_>) -> Result<(), GitError> {
    for file in diff.deltas().flat_map(|delta| [delta.old_file(), delta.new_file()]) {
        let Some(path) = file.path() else { continue };
        let is_one = |entry: TreeEntry<'_>| entry.filemode() == i32::from(FileMode::Commit);
        if file.mode() == FileMode::Commit || base.get_path(path).is_ok_and(is_one) {
            let shown = display_path(&path.to_string_lossy());
            return Err(GitError::Unacceptable(format!("`{shown}` is a submodule")));
        }
    }
    Ok(())
}

fn utf8(path: Option<&std::path::Path>) -> Result<String, GitError> {
    let path = path.ok_or_else(|| GitError::Unacceptable("a file has no name".to_owned()))?;
    let text = path.to_str().ok_or_else(|| {
        let shown = display_path(&path.to_string_lossy());
        GitError::Unacceptable(format!("the path `{shown}` is not UTF-8"))
    })?;
    Ok(text.to_owned())
}
