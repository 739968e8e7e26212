//! A change put onto another commit than the one it was made on, when no line is in dispute.
//!
//! Trees only: no working folder, no index file, no merge driver of the repository.

use git2::MergeOptions;

use super::repo::Repo;
use super::{GitError, Oid};

/// The tree of `now` with what differs between `old` and `change`; `None` when both have changed the
/// same place.
pub fn onto(repo: &Repo, old: Oid, now: Oid, change: Oid) -> Result<Option<Oid>, GitError> {
    let git = repo.git()?;
    let (old, now) = (git.find_tree(old.0)?, git.find_tree(now.0)?);
    let change = git.find_tree(change.0)?;
    let mut options = MergeOptions::new();
    options.find_renames(false);
    let mut merged = git.merge_trees(&old, &now, &change, Some(&options))?;
    if merged.has_conflicts() {
        return Ok(None);
    }
    Ok(Some(Oid(merged.write_tree_to(&git)?)))
}
