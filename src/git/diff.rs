//! Patches for people and for `git apply`: git's own format, binary files included, renames spelled
//! out as a deletion and an addition. No diff driver of the repository is ever consulted.

use git2::{DiffFormat, DiffOptions};

use super::repo::Repo;
use super::{GitError, Oid};

/// Which part of a difference to write, and how much.
#[derive(Clone, Copy, Debug)]
pub struct DiffSpec<'a> {
    /// Exact paths (or folders); everything when empty.
    pub paths: &'a [&'a str],
    /// Bytes of the patch.
    pub max_bytes: usize,
}

impl DiffSpec<'_> {
    /// Everything, up to 64 MiB.
    pub fn all() -> DiffSpec<'static> {
        DiffSpec { paths: &[], max_bytes: 64 << 20 }
    }
}

/// The patch from one tree to another, fit for `git apply --index`. Bytes, because files are.
///
/// A patch over the limit is [`GitError::Unacceptable`]: a cut one would apply to the wrong thing.
pub fn unified(repo: &Repo, old: Oid, new: Oid, spec: DiffSpec<'_>) -> Result<Vec<u8>, GitError> {
    let git = repo.git()?;
    let (old, new) = (git.find_tree(old.0)?, git.find_tree(new.0)?);
    let mut options = DiffOptions::new();
    options.show_binary(true).id_abbrev(40).context_lines(3).disable_pathspec_match(true);
    for path in spec.paths {
        options.pathspec(*path);
    }
    let diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))?;
    let mut patch = Vec::new();
    let printed = diff.print(DiffFormat::Patch, |_, _, line| {
        if matches!(line.origin(), '+' | '-' | ' ') {
            patch.extend_from_slice(line.origin().to_string().as_bytes());
        }
        patch.extend_from_slice(line.content());
        patch.len() <= spec.max_bytes
    });
    if patch.len() > spec.max_bytes {
        return Err(GitError::Unacceptable(format!(
            "the patch is larger than {} bytes",
            spec.max_bytes
        )));
    }
    printed?;
    Ok(patch)
}

/// The tree of a commit, for [`unified`].
pub fn tree_of(repo: &Repo, commit: Oid) -> Result<Oid, GitError> {
    Ok(Oid(repo.git()?.find_commit(commit.0)?.tree_id()))
}
