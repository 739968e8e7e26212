//! Fetching and pushing for a forge: runs the blocking git work on its own thread and tells of its
//! troubles in the forge's words.
//!
//! Called by both forges. What a remote is, and how tokens travel, is the business of [`patchwright_git`];
//! how long trouble is waited out is the forge's.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use url::Url;

use super::{Credential, ForgeError, Requirement, StateProblem, WayThere};
use patchwright_base::error::Service;
use patchwright_git::clone::{self, Repo};
use patchwright_git::push::NewCommits;
use patchwright_git::rate_limit::Limit;
use patchwright_git::stop::Stop;
use patchwright_git::transport::Remote;
use patchwright_git::{self as git, Denial, GitError, Oid, PushOutcome, Rejection};

/// Why nothing was transferred.
pub(super) enum TransferError {
    /// Git, or the server behind it.
    Git(GitError),
    /// We were not let to send it.
    NotPermitted(ForgeError),
}

impl TransferError {
    /// This trouble as an error of the forge. `verb` is what was being done to the remote.
    pub(super) fn into_forge_error(self, remote: &str, verb: &str) -> ForgeError {
        match self {
            TransferError::Git(err) => forge_error(remote, verb, err),
            TransferError::NotPermitted(err) => err,
        }
    }
}

/// Brings `refs` into the bare repository at `into`.
pub(super) async fn fetch(
    remote: Remote,
    into: &Path,
    refs: &[String],
    depth: u32,
) -> Result<(), TransferError> {
    let (into, refs) = (into.to_owned(), refs.to_vec());
    // The thread that works does not end with this future, but what it waits for does.
    let stop = Stop::default();
    let _ends_with_this = stop.cancel.clone().drop_guard();
    let remote = remote.until(stop);
    let work = move || clone::fetch(&Repo::open(&into)?, &remote, &refs, depth);
    git::blocking(work).await.map_err(TransferError::Git)
}

/// The branches of a remote that have one of these names, or are in the way of one.
pub(super) async fn branches_beside(
    remote: Remote,
    names: &[String],
) -> Result<Vec<String>, TransferError> {
    let names = names.to_vec();
    git::blocking(move || clone::branches_beside(&remote, &names)).await.map_err(TransferError::Git)
}

/// Begins a push to a remote that is not made.
pub(super) async fn ask_to_push(remote: Remote) -> Result<(), GitError> {
    git::blocking(move || clone::ask_to_push(&remote)).await
}

/// Commits on their way to one branch.
#[derive(Clone, Copy)]
pub(super) struct PushSpec<'a> {
    pub(super) from: &'a Path,
    pub(super) commits: NewCommits,
    pub(super) branch: &'a str,
    /// What the branch must point to now.
    pub(super) expected: Option<Oid>,
}

/// Pushes to one branch. `permit` is asked right before the pack is sent; what it refuses
/// with is the error.
pub(super) async fn push(
    remote: Remote,
    what: PushSpec<'_>,
    permit: impl Fn() -> BoxFuture<'static, Result<(), ForgeError>> + Send + Sync + 'static,
) -> Result<PushOutcome, TransferError> {
    let (from, branch) = (what.from.to_owned(), what.branch.to_owned());
    let (commits, expected) = (what.commits, what.expected);
    let (runtime, refusal) = (Handle::current(), Arc::new(Mutex::new(None)));
    let kept = Arc::clone(&refusal);
    let work = move || {
        let ask = |_attempt| {
            runtime.block_on(permit()).map_err(|err| {
                let message = err.to_string();
                *kept.lock() = Some(err);
                GitError::Unacceptable(message)
            })
        };
        git::push::push_when(&Repo::open(&from)?, &remote, commits, &branch, expected, &ask)
    };
    let pushed = git::blocking(work).await;
    match refusal.lock().take() {
        Some(refusal) => Err(TransferError::NotPermitted(refusal)),
        None => pushed.map_err(TransferError::Git),
    }
}

/// For forges that let every push through.
pub(super) fn permitted() -> BoxFuture<'static, Result<(), ForgeError>> {
    Box::pin(async { Ok(()) })
}

/// Trouble of git as an error of the forge. `verb` is what was being done to the remote.
pub(super) fn forge_error(remote: &str, verb: &str, err: GitError) -> ForgeError {
    let action = format!("{verb} `{remote}`");
    match err {
        GitError::Authentication { .. } => ForgeError::Authentication {
            credential: Credential::Token,
            message: format!("git refused it for `{remote}`"),
        },
        GitError::Forbidden { why: Denial::Archived, .. } => ForgeError::State {
            what: StateProblem::Archived,
            message: format!("cannot {action}: the repository is archived and read-only"),
        },
        GitError::Forbidden { why: Denial::Permission, message, .. } => {
            let need = Some(Requirement::Permission("contents: write".to_owned()));
            ForgeError::Forbidden { action, message: one_line(&message), need }
        }
        GitError::Rejected { reason, reference, why } => {
            let message = one_line(&reason);
            match why {
                Rejection::Workflows => {
                    ForgeError::Forbidden { action, message, need: Some(Requirement::Workflows) }
                }
                Rejection::InTheWay => {
                    let branch = reference.trim_start_matches("refs/heads/").to_owned();
                    ForgeError::InTheWay { branch, message }
                }
                Rejection::Secrets => ForgeError::SecretFound {
                    action: format!("the push of `{reference}`"),
                    message,
                },
                Rejection::Locked | Rejection::Rule => {
                    ForgeError::Invalid { action: format!("the push of `{reference}`"), message }
                }
            }
        }
        GitError::TooLarge { .. } => too_large(&action),
        GitError::Moved { .. } => ForgeError::Moved { message: err.to_string() },
        GitError::Limited { limit, .. } => ForgeError::RateLimited {
            until: match limit {
                Limit::For(wait) => format!("{} minutes from now", wait.as_secs().div_ceil(60)),
                Limit::Unexplained => "a time that the server does not name".to_owned(),
            },
        },
        GitError::NotFound(what) => {
            ForgeError::NotFound { what: format!("`{what}` in `{remote}`") }
        }
        GitError::Empty => ForgeError::State {
            what: StateProblem::Empty,
            message: format!("cannot {action}: the repository is empty; push a first commit to it"),
        },
        GitError::Transport(message) => away(remote, &message, WayThere::Open),
        GitError::ProxyAway(message) => away(remote, &message, WayThere::ProxyAway),
        GitError::Machine(message) => ForgeError::Machine { message },
        GitError::Unacceptable(message) => ForgeError::Git { message },
        GitError::Other(err) => ForgeError::Git { message: err.message().to_owned() },
    }
}

fn away(remote: &str, message: &str, way: WayThere) -> ForgeError {
    ForgeError::Unavailable {
        service: Service::Git,
        host: host(remote),
        message: one_line(message),
        way,
    }
}

/// 413: not GitHub itself, but a proxy before it or a server of one's own, which says no more than that.
pub(super) fn too_large(action: &str) -> ForgeError {
    ForgeError::state(format!(
        "cannot {action}: what is sent is larger than the server, or a proxy before it, takes (status 413); have that \
         limit raised (nginx calls it `client_max_body_size`), or have less sent"
    ))
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
