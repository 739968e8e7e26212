//! The host's side of the guest wire: sends requests, matches answers, bounds everything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use super::protocol::{Collected, Exec, Hello};
use crate::tools::{CommandOutput, ToolError, ToolOutput};

/// A connection to a serving guest. Clones share it; calls may overlap.
#[derive(Clone)]
pub struct Client {
    hello: Arc<Hello>,
}

/// What came out of the sandbox: parsed, bounded, still untrusted.
#[derive(Debug, Default)]
pub struct CollectedTree {
    pub files: Vec<CollectedFile>,
    pub listing: Collected,
}

/// A file that changed or was added.
#[derive(Debug)]
pub struct CollectedFile {
    /// Relative, `/` between segments, no `.`, `..`, empty or `.git` segments.
    pub path: String,
    pub kind: CollectedKind,
}

#[derive(Debug)]
pub enum CollectedKind {
    File {
        executable: bool,
        content: Bytes,
    },
    /// The target, as it stands in the link.
    Symlink {
        target: Vec<u8>,
    },
}

/// Bounds for one collection.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimits {
    pub files: usize,
    /// Bytes of all contents together.
    pub bytes: u64,
    pub timeout: Duration,
}

/// Why the guest gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The stream ended or broke: the guest or the container is gone.
    #[error("the guest is gone: {0}")]
    Gone(String),
    /// It sent something that the protocol does not allow.
    #[error("the guest broke the protocol: {0}")]
    Protocol(String),
    #[error("the guest did not answer within {0:?}")]
    Timeout(Duration),
    /// It answered with an error of its own.
    #[error("{0}")]
    Failed(String),
}

impl Client {
    /// Waits for the guest's hello and starts serving the connection in the background.
    pub async fn connect<R, W>(reader: R, writer: W, wait: Duration) -> Result<Client, GuestError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let _ = (reader, writer);
        Err(GuestError::Timeout(wait))
    }

    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Runs a guest tool. Dropping the future cancels the call in the guest.
    pub async fn tool(
        &self,
        name: &str,
        args: Value,
        output_cap: usize,
        timeout: Duration,
    ) -> Result<ToolOutput, ToolError> {
        let _ = (name, args, output_cap, timeout);
        Err(ToolError::Broken("not connected".to_owned()))
    }

    /// Runs a command of the harness.
    pub async fn exec(&self, exec: Exec) -> Result<CommandOutput, GuestError> {
        let _ = exec;
        Err(GuestError::Gone("not connected".to_owned()))
    }

    /// Unpacks a tar into the workspace; returns the number of files and bytes.
    pub async fn upload<R>(&self, tar: R) -> Result<(u64, u64), GuestError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let _ = tar;
        Err(GuestError::Gone("not connected".to_owned()))
    }

    /// Fetches what changed since the upload.
    pub async fn collect(&self, limits: CollectLimits) -> Result<CollectedTree, GuestError> {
        let _ = limits;
        Err(GuestError::Gone("not connected".to_owned()))
    }

    /// See [`super::protocol::Request::RemoveBase`].
    pub async fn remove_base(&self, chown: Option<(u32, u32)>) -> Result<(), GuestError> {
        let _ = chown;
        Err(GuestError::Gone("not connected".to_owned()))
    }

    /// Ends the guest.
    pub async fn close(self) {}
}
