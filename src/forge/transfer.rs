//! Fetching and pushing for a forge: runs the blocking git work on its own thread and tells of its
//! troubles in the forge's words.
//!
//! Called by both forges. What a remote is, and how tokens travel, is the business of [`crate::git`].

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use url::Url;

use super::ForgeError;
use crate::git::clone::{self, Repo};
use crate::git::transport::Remote;
use crate::git::{self, GitError, Oid, PushOutcome};

/// Brings `refs` into the bare repository at `into`.
pub(super) async fn fetch(
    remote: Remote,
    into: &Path,
    refs: &[String],
    depth: u32,
) -> Result<(), ForgeError> {
    let (name, into, refs) = (remote.name(), into.to_owned(), refs.to_vec());
    let work = move || clone::fetch(&Repo::open(&into)?, &remote, &refs, depth);
    git::blocking(work).await.map_err(|err| in_our_words(&name, "read", err))
}

/// Pushes one commit to one branch. `permit` is asked right before the pack of each attempt is sent;
/// what it refuses with is the error.
pub(super) async fn push(
    remote: Remote,
    from: &Path,
    commit: Oid,
    branch: &str,
    expected: Option<Oid>,
    permit: impl Fn(u32) -> BoxFuture<'static, Result<(), ForgeError>> + Send + Sync + 'static,
) -> Result<PushOutcome, ForgeError> {
    let (name, from, branch) = (remote.name(), from.to_owned(), branch.to_owned());
    let (runtime, refusal) = (Handle::current(), Arc::new(Mutex::new(None)));
    let kept = Arc::clone(&refusal);
    let work = move || {
        let ask = |attempt| {
            runtime.block_on(permit(attempt)).map_err(|err| {
                let message = err.to_string();
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
                GitError::Unacceptable(message)
            })
        };
        git::push::push_when(&Repo::open(&from)?, &remote, commit, &branch, expected, &ask)
    };
    let pushed = git::blocking(work).await;
    match refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(refusal) => Err(refusal),
        None => pushed.map_err(|err| in_our_words(&name, "push to", err)),
    }
}

/// For forges that let every push through.
pub(super) fn permitted(_attempt: u32) -> BoxFuture<'static, Result<(), ForgeError>> {
    Box::pin(async { Ok(()) })
}

/// The same trouble as an error of the forge. `verb` is what was being done to the remote.
pub(super) fn in_our_words(remote: &str, verb: &str, err: GitError) -> ForgeError {
    let action = format!("{verb} `{remote}`");
    match err {
        GitError::Authentication { .. } => {
            ForgeError::Authentication { message: format!("git refused it for `{remote}`") }
        }
        GitError::Forbidden { message, .. } if message.contains("archived") => ForgeError::State {
            message: format!("cannot {action}: the repository is archived and read-only"),
        },
        GitError::Forbidden { message, .. } => {
            let need = Some("`contents: write`".to_owned());
            ForgeError::Forbidden { action, message: one_line(&message), need }
        }
        GitError::Rejected { reason, .. } if reason.to_lowercase().contains("workflow") => {
            let need = Some("`workflows: write`, which no Actions token has".to_owned());
            ForgeError::Forbidden { action, message: one_line(&reason), need }
        }
        GitError::Rejected { reference, reason } => ForgeError::Invalid {
            action: format!("the push of `{reference}`"),
            message: one_line(&reason),
        },
        GitError::Moved { .. } => ForgeError::Conflict { message: err.to_string() },
        GitError::NotFound(what) => {
            ForgeError::NotFound { what: format!("`{what}` in `{remote}`") }
        }
        GitError::Empty => ForgeError::State {
            message: format!("cannot {action}: the repository is empty; push a first commit to it"),
        },
        GitError::Transport(message) => {
            ForgeError::Unavailable { host: host(remote), message: one_line(&message) }
        }
        GitError::Machine(message) => ForgeError::Machine { message },
        GitError::Unacceptable(message) => ForgeError::Git { message },
        GitError::Other(err) => ForgeError::Git { message: err.message().to_owned() },
    }
}

/// The server's words, which may have several lines.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

fn host(remote: &str) -> String {
    let host = Url::parse(remote).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| remote.to_owned())
}
