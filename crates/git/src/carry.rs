//! What was changed between two trees, carried over to a third one that has more in it than they. Re-exported by
//! [`super::tree`].

use std::collections::BTreeSet;
use std::path::Path;

use super::diffstat::compare;
use super::edits::{Edit, Folder, place, write_root};
use super::repo::Repo;
use super::{GitError, Oid, display_path};

/// The tree `onto` with every file as `to` has it that differs between `from` and `to`; all other files stay.
///
/// # Errors
/// [`GitError::Unacceptable`] when a file would take the place of others that did not change; and when a tree cannot be
/// read or written.
pub fn carry(repo: &Repo, from: Oid, to: Oid, onto: Oid) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let (from, to) = (git.find_tree(from.0)?, git.find_tree(to.0)?);
    let onto = git.find_tree(onto.0)?;
    let changed = compare(&git, &from, &to)?;
    let mut edits = Folder::new();
    // Deletions first, so that a folder can replace a file of the same name.
    for file in changed.iter().filter(|file| file.new.is_none()) {
        place(&mut edits, &file.path, Edit::Remove);
    }
    for file in &changed {
        if let Some(entry) = &file.new {
            place(&mut edits, &file.path, Edit::Put(entry.mode, entry.oid.0));
        }
    }
    let new = write_root(&git, &onto, &edits)?;
    let paths: BTreeSet<&str> = changed.iter().map(|file| file.path.as_str()).collect();
    let files = compare(&git, &onto, &new)?;
    if let Some(file) = files.iter().find(|file| !paths.contains(file.path.as_str())) {
        return Err(GitError::Unacceptable(format!(
            "`{}` cannot stay, because another file takes its place",
            display_path(&file.path)
        )));
    }
    Ok(Oid(new.id()))
}

/// The paths at which two trees differ, as they are shown.
///
/// # Errors
/// When one of the trees cannot be read.
pub fn differing_paths(repo: &Repo, one: Oid, other: Oid) -> Result<BTreeSet<String>, GitError> {
    let git = repo.git()?;
    let files = compare(&git, &git.find_tree(one.0)?, &git.find_tree(other.0)?)?;
    Ok(files.iter().map(|file| display_path(&file.path)).collect())
}

/// Whether two trees have the same at a path, and something at all.
///
/// # Errors
/// When one of the trees cannot be read.
pub fn is_same_at(repo: &Repo, one: Oid, other: Oid, path: &str) -> Result<bool, GitError> {
    let git = repo.git()?;
    let at = |tree: Oid| -> Result<Option<(git2::Oid, i32)>, GitError> {
        match git.find_tree(tree.0)?.get_path(Path::new(path)) {
            Ok(entry) => Ok(Some((entry.id(), entry.filemode()))),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    let one = at(one)?;
    Ok(one.is_some() && one == at(other)?)
}
