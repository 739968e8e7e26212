//! Names that are one file on systems that ignore case or normalise Unicode. Used by [`super::change`].

use std::collections::HashMap;
use std::path::Path;

use git2::{Repository, Tree};

use super::GitError;
use super::names::collision_key;
use super::tree::FileChange;

/// Why a file whose name collides is refused.
pub(super) const COLLIDES: &str = "its name differs from another one only in case or Unicode form";

/// Added files of which some name on the way is, to other systems, the same as a sibling's.
pub(super) fn collisions(
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
