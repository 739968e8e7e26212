//! What is particular to a repository in a folder of this machine: which one it is, whatever its path, and whether all
//! of it is there.

use std::path::Path;

use git2::{ErrorCode, Repository};
use url::Url;

use super::repo::{Repo, parents};
use super::{GitError, Oid, tree};

/// Commits that are read to find the first one.
const MAX_STEPS: usize = 500_000;
/// Files that are looked for in a clone that may lack some.
const MAX_FILES: usize = 500_000;

/// What tells the repository in `folder` from others that were at the same path: where it was cloned from, and the first
/// commit of the history of `commit`. The address alone where the history is cut off, for its end moves with each
/// fetch.
///
/// # Errors
/// When the history cannot be read.
pub fn lineage(repo: &Repo, commit: Oid, folder: &Path) -> Result<String, GitError> {
    let (first, is_whole) = first(repo, commit)?;
    Ok(match (origin(folder), is_whole) {
        (Some(origin), true) => format!("{origin} {first}"),
        (Some(origin), false) => origin,
        (None, _) => first,
    })
}

/// The oldest commit that is there, by the first parents, and whether it is the first of all.
fn first(repo: &Repo, commit: Oid) -> Result<(String, bool), GitError> {
    let git = repo.git()?;
    let mut at = git.find_commit(commit.0)?;
    for _ in 0..MAX_STEPS {
        let Some(parent) = parents(&at).first().copied() else {
            return Ok((at.id().to_string(), true));
        };
        match git.find_commit(parent) {
            Ok(older) => at = older,
            Err(error) if error.code() == ErrorCode::NotFound => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((at.id().to_string(), false))
}

/// The address of `origin`, without credentials: those may be new in each job.
fn origin(folder: &Path) -> Option<String> {
    let git = Repository::open(folder).ok()?;
    let address = git.find_remote("origin").ok()?.url().ok()?.to_owned();
    let Ok(mut url) = Url::parse(&address) else { return Some(address) };
    // Where there is no host, there is nobody to sign in as.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    Some(url.to_string())
}

/// Refuses a repository in `folder` that lacks files of `commit`, as partial clones do: nothing fetches them here.
///
/// # Errors
/// [`GitError::Unacceptable`] when one is missing.
pub fn must_be_whole(repo: &Repo, commit: Oid, folder: &Path) -> Result<(), GitError> {
    if !Repository::open(folder).is_ok_and(|git| is_partial(&git)) {
        return Ok(());
    }
    let lacks = |what: &str| {
        GitError::Unacceptable(format!(
            "it is a partial clone that lacks {what} of the commit; clone it without `--filter`, or give its \
             address instead of the folder"
        ))
    };
    let files = tree::blobs_at(repo, commit, MAX_FILES, &|_| true);
    let files = files.map_err(|error| if error.is_missing() { lacks("folders") } else { error })?;
    let git = repo.git()?;
    let objects = git.odb()?;
    match files.iter().find(|(_, blob)| !objects.exists(blob.0)) {
        Some((path, _)) => Err(lacks(&format!("`{}`, among others,", super::display_path(path)))),
        None => Ok(()),
    }
}

fn is_partial(git: &Repository) -> bool {
    let Ok(config) = git.config() else { return false };
    config.get_string("extensions.partialclone").is_ok()
        || config.get_bool("remote.origin.promisor").unwrap_or_default()
}

/// Why the repository in `folder` cannot be opened.
pub(super) fn refused(folder: &Path, error: &git2::Error) -> GitError {
    let why = error.message();
    if error.code() == ErrorCode::NotFound || !folder.exists() {
        return GitError::NotFound(folder.display().to_string());
    }
    let (why, named) = (why.to_lowercase(), folder.display());
    if ["object format", "objectformat"].iter().any(|word| why.contains(word)) {
        return GitError::Unacceptable(format!(
            "`{named}` is in a format of git that cannot be read here ({why}): only repositories whose object \
             names are SHA-1 can; `git fast-export --all | git -C OTHER fast-import` copies it into one of those"
        ));
    }
    if ["extension", "repository version"].iter().any(|word| why.contains(word)) {
        return GitError::Unacceptable(format!(
            "`{named}` is in a format of git that cannot be read here ({why}): a plain `git clone` of it can be, and \
             references in tables (`reftable`) become files by `git refs migrate --ref-format=files`"
        ));
    }
    GitError::NotFound(folder.display().to_string())
}
