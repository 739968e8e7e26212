//! A tree on its way into a sandbox: a tar in a file.

use tokio::fs::File;
use tokio::io::AsyncSeekExt;
use tokio::sync::Mutex;

use crate::client::{Client, GuestError};

/// A tree as a tar. It can be uploaded any number of times, one after the other, and its room on the
/// disk is free when it is dropped.
#[derive(Debug)]
pub struct Packed(Mutex<File>);

impl Packed {
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
