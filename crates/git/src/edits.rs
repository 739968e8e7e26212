//! What happens to the names of a tree, folder by folder, and the tree that comes of it. Used by [`super::change`].

use std::collections::BTreeMap;

use git2::{Repository, Tree};

use super::GitError;
use super::tree::Mode;

/// What happens to one name in a folder.
pub(super) enum Edit {
    Remove,
    Put(Mode, git2::Oid),
    Inside(Folder),
}

/// The names in a folder that change.
pub(super) type Folder = BTreeMap<String, Edit>;

/// Notes an edit; false when it contradicts an earlier one.
pub(super) fn place(folder: &mut Folder, path: &str, edit: Edit) -> bool {
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
pub(super) fn is_removed(folder: &Folder, path: &str) -> bool {
    match path.split_once('/') {
        None => matches!(folder.get(path), Some(Edit::Remove)),
        Some((name, rest)) => match folder.get(name) {
            Some(Edit::Inside(inside)) => is_removed(inside, rest),
            _ => false,
        },
    }
}

/// Takes back what was noted about a path.
pub(super) fn forget(folder: &mut Folder, path: &str) {
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

/// Writes the tree that comes of the edits of another one.
pub(super) fn write_root<'a>(
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
