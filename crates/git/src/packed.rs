//! Makes the tar that a sandbox takes of a tree, in a file. A small repository can have a large tree (git
//! keeps what is there many times once), so a tar never is in memory.

use std::io::{BufWriter, IntoInnerError};

use super::archive::{self, ArchiveOptions};
use super::helper;
use super::repo::Repo;
use super::{GitError, Oid};
use patchwright_sandbox::packed::Packed;

/// Bytes that are collected for one write.
const BUFFER: usize = 256 << 10;

/// Packs `commit` into a file without a name beside the objects of `repo`, so that it goes with this
/// process, however that ends.
///
/// # Errors
/// Those of [`archive::archive`]; [`GitError::Machine`] when the disk is full.
pub fn whole(repo: &Repo, commit: Oid, options: &ArchiveOptions) -> Result<Packed, GitError> {
    let file = tempfile::tempfile_in(repo.path())?;
    let mut writer = BufWriter::with_capacity(BUFFER, file);
    helper::archive(repo, commit, options, &mut writer)?;
    Ok(Packed::from(writer.into_inner().map_err(IntoInnerError::into_error)?))
}

/// Single files of a tree, to be put back where they were, with this time of their last change in
/// seconds since 1970. Those that cannot be read are left out.
///
/// # Errors
/// When the tree cannot be read, or the disk is full.
pub fn some(repo: &Repo, tree: Oid, paths: &[String], mtime: u64) -> Result<Packed, GitError> {
    let file = tempfile::tempfile_in(repo.path())?;
    let writer = archive::some(repo, tree, paths, mtime, BufWriter::with_capacity(BUFFER, file))?;
    Ok(Packed::from(writer.into_inner().map_err(IntoInnerError::into_error)?))
}
