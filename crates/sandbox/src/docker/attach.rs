//! The guest's standard streams through one `exec`. Docker frames standard output and error of an
//! exec without a terminal into one stream; here the output is taken out for the client and the
//! error kept, bounded, for diagnostics.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWrite;
use tokio_util::io::StreamReader;

use super::api::bounded;
use super::{CALL, GUEST, WORKSPACE};
use crate::{ContainerLimits, SandboxError};

/// Bytes of the guest's standard error that are kept: its last words.
const LAST_WORDS: usize = 4 << 10;
/// Read buffer of the stream, in bytes.
const BUFFER: usize = 256 << 10;

type Output = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
pub(super) type Reader = StreamReader<Output, Bytes>;
pub(super) type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// The exec in which the guest serves.
pub(super) struct Session {
    pub(super) exec: String,
    words: Arc<Mutex<Vec<u8>>>,
}

impl Session {
    /// What the guest last wrote to standard error, for a message; empty or `: text`.
    pub(super) fn last_words(&self) -> String {
        let words = self.words.lock();
        let text = String::from_utf8_lossy(&words);
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = text.trim();
        if text.is_empty() { String::new() } else { format!(": {text}") }
    }
}

/// Starts the guest in a running container as `user`, with these options besides, and attaches to it.
pub(super) async fn attach(
    docker: &Docker,
    container: &str,
    user: &str,
    limits: &ContainerLimits,
    more: &[&str],
) -> Result<(Session, Reader, Writer), SandboxError> {
    let (bytes, files) = (limits.workspace_bytes.to_string(), limits.workspace_files.to_string());
    let serve = [GUEST, "serve", "--workspace", WORKSPACE];
    let budget = ["--max-bytes", bytes.as_str(), "--max-files", files.as_str()];
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        privileged: Some(false),
        cmd: Some([&serve[..], &budget, more].concat()),
        user: Some(user),
        working_dir: Some(WORKSPACE),
        ..CreateExecOptions::default()
    };
    let exec = bounded("exec", CALL, docker.create_exec(container, options)).await?.id;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(BUFFER) };
    let started = bounded("exec start", CALL, docker.start_exec(&exec, Some(options))).await?;
    let StartExecResults::Attached { output, input } = started else {
        return Err(SandboxError::Other("docker exec start: did not attach".to_owned()));
    };
    let words = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&words);
    let output = output.filter_map(move |part| {
        let part = match part {
            Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
            Ok(LogOutput::StdErr { message }) => {
                remember(&heard, &message);
                None
            }
            Ok(LogOutput::StdIn { .. }) => None,
            Ok(LogOutput::Console { .. }) => Some(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "bytes outside Docker's framing",
            ))),
            Err(err) => Some(Err(io::Error::other(err))),
        };
        std::future::ready(part)
    });
    let reader = StreamReader::new(Box::pin(output) as Output);
    Ok((Session { exec, words }, reader, input))
}

fn remember(words: &Mutex<Vec<u8>>, message: &[u8]) {
    let mut words = words.lock();
    words.extend_from_slice(&message[message.len().saturating_sub(LAST_WORDS)..]);
    let excess = words.len().saturating_sub(LAST_WORDS);
    words.drain(..excess);
}
