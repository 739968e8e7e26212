//! A tree as the tar that a sandbox takes, in a file. A small repository can have a large tree (git
//! keeps what is there many times once), so a tar never is in memory.

use std::io::{BufWriter, IntoInnerError};

use tokio::fs::File;
use tokio::io::AsyncSeekExt;
use tokio::sync::Mutex;

use super::archive::{self, ArchiveOptions};
use super::helper;
use super::repo::Repo;
use super::{GitError, Oid};
use crate::guest::client::{Client, GuestError};

/// Bytes that are collected for one write.
const BUFFER: usize = 256 << 10;

/// The tar of a commit. It can be uploaded any number of times, one after the other, and its room on the
/// disk is free when it is dropped.
#[derive(Debug)]
pub struct Packed(Mutex<File>);

impl Packed {
    /// Packs `commit` into a file without a name beside the objects of `repo`, so that it goes with this
    /// process, however that ends.
    ///
    /// # Errors
    /// Those of [`archive::archive`]; [`GitError::Machine`] when the disk is full.
    pub fn new(repo: &Repo, commit: Oid, options: &ArchiveOptions) -> Result<Packed, GitError> {
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
        let writer =
            archive::some(repo, tree, paths, mtime, BufWriter::with_capacity(BUFFER, file))?;
        Ok(Packed::from(writer.into_inner().map_err(IntoInnerError::into_error)?))
    }

    /// Puts its files back into the workspace of a sandbox, beside the tree that was unpacked there and
    /// without the files that are to be removed.
    ///
    /// # Errors
    /// Those of [`Client::restore`], also when the file cannot be read.
    pub async fn restore(&self, client: &Client, remove: Vec<String>) -> Result<(), GuestError> {
        let mut file = self.0.lock().await;
        file.rewind().await.map_err(|err| GuestError::Failed(format!("the files: {err}")))?;
        client.restore(remove, &mut *file).await.map(drop)
    }

    /// Unpacks it into the workspace of a sandbox.
    ///
    /// # Errors
    /// Those of [`Client::upload`], also when the file cannot be read.
    pub async fn upload(&self, client: &Client) -> Result<(), GuestError> {
        // All readers share the file's one position.
        let mut file = self.0.lock().await;
        file.rewind().await.map_err(|err| GuestError::Failed(format!("the tree: {err}")))?;
        client.upload(&mut *file).await.map(drop)
    }
}

/// A tar that is in a file already.
impl From<std::fs::File> for Packed {
    fn from(file: std::fs::File) -> Packed {
        Packed(Mutex::new(File::from_std(file)))
    }
}
