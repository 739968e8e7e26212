//! How commits descend from each other.

use git2::ErrorCode;

use super::repo::Repo;
use super::{GitError, Oid};

/// The best common ancestor of two commits; `None` when they have none in what was fetched.
pub fn merge_base(repo: &Repo, one: Oid, other: Oid) -> Result<Option<Oid>, GitError> {
    let git = repo.git()?;
    match git.merge_base(one.0, other.0) {
        Ok(base) => Ok(Some(Oid(base))),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
