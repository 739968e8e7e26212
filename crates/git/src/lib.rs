//! libgit2, wrapped once.
//!
//! Invariants: the repositories here are bare and ours; nothing that the container could write is
//! ever opened as a repository; there is never a working tree; no `git` program is started; tokens
//! travel in a request header of our own HTTP client, never in a URL, an argument or a file.

pub mod apply;
mod archive;
mod attributes;
pub mod bundle;
mod by_id;
pub mod cache;
mod carry;
mod change;
pub mod change_id;
pub mod checkpoint;
pub mod clone;
mod collisions;
pub mod commit;
pub mod diff;
mod diffstat;
mod dotgit;
mod edits;
pub mod encoding;
pub mod helper;
mod http;
pub mod hunks;
mod incoming;
pub mod lfs;
pub mod merge;
mod merge_moves;
pub mod modules;
mod names;
mod one_file;
mod own_messages;
mod owners;
pub mod packed;
mod partial;
mod patch_text;
pub mod patching;
pub mod push;
mod quarantine;
pub mod rate_limit;
mod refusal;
mod renames;
pub mod repo;
pub mod signing;
pub mod source;
pub mod sparse;
pub mod stop;
pub mod transport;
pub mod tree;
mod tree_diff;
mod uncommitted;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use self::rate_limit::Limit;
use patchwright_base::invisible::is_invisible;

pub use self::own_messages::{OwnMessages, own_messages};
pub use self::refusal::{Denial, Rejection};
pub use self::uncommitted::uncommitted;

/// A git object id (SHA-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(pub git2::Oid);

impl Oid {
    /// The first ten hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.0.to_string()[..10].to_owned()
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Oid {
    type Err = git2::Error;

    fn from_str(text: &str) -> Result<Oid, git2::Error> {
        git2::Oid::from_str(text).map(Oid)
    }
}

impl TryFrom<String> for Oid {
    type Error = git2::Error;

    fn try_from(text: String) -> Result<Oid, git2::Error> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> String {
        oid.to_string()
    }
}

/// The working folder of the repository that a folder is in, as git looks for it: the folder itself or one above it.
pub fn working_folder_of(folder: &std::path::Path) -> Option<&std::path::Path> {
    folder.ancestors().find(|folder| folder.join(".git").exists())
}

/// The commit that an expression of git's stands for in a repository of this machine: a shortened id, `HEAD~2`. `None`
/// for a branch, a tag and `HEAD`, which are asked for by their names, and where there is no such commit.
pub fn commit_named(repository: &std::path::Path, name: &str) -> Option<Oid> {
    let git = git2::Repository::open(repository).ok()?;
    let is_reference = |kind: &str| git.find_reference(&format!("{kind}{name}")).is_ok();
    if name == "HEAD" || ["", "refs/heads/", "refs/tags/"].into_iter().any(is_reference) {
        return None;
    }
    let commit = git.revparse_single(name).ok()?.peel_to_commit().ok()?;
    Some(Oid(commit.id()))
}

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    Pushed,
    /// The branch already pointed to the commit.
    UpToDate,
}

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The server wants other credentials.
    #[error("authentication failed for `{url}`")]
    Authentication { url: String },
    /// The server knows who we are and does not let us.
    #[error("access to `{url}` is denied: {message}")]
    Forbidden { url: String, message: String, why: Denial },
    /// The server said no and why (protected branch, rulesets, workflow permission).
    #[error("the server rejected the push of `{reference}`: {reason}")]
    Rejected { reference: String, reason: String, why: Rejection },
    /// Asked too often. Nothing happened.
    #[error("`{url}` was asked too often, and refuses for now")]
    Limited { url: String, limit: Limit },
    /// What was sent is more than the server, or a proxy before it, takes.
    #[error("`{url}` takes nothing as large as what was sent (status 413)")]
    TooLarge { url: String },
    /// The branch is not where it was expected to be.
    #[error("`{reference}` points to {actual} instead of {expected}")]
    Moved { reference: String, expected: String, actual: String },
    #[error("`{0}` was not found")]
    NotFound(String),
    /// The repository has no commits.
    #[error("the repository is empty")]
    Empty,
    /// Worth another try: the connection, a 5xx.
    #[error("{0}")]
    Transport(String),
    /// Worth another try: the proxy that requests go by cannot be connected to.
    #[error("{0}")]
    ProxyAway(String),
    /// The tree breaks our limits or git's own rules.
    #[error("{0}")]
    Unacceptable(String),
    /// This machine: the state folder, the disk, another process that holds the mirror.
    #[error("{0}")]
    Machine(String),
    #[error(transparent)]
    Other(git2::Error),
}

impl GitError {
    /// The connection, a 5xx, or a branch that is being written: the same request may succeed later.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            GitError::Transport(_) | GitError::ProxyAway(_) => true,
            GitError::Rejected { why, .. } => *why == Rejection::Locked,
            _ => false,
        }
    }

    /// An object is not in our own repository.
    pub fn is_missing(&self) -> bool {
        matches!(self, GitError::Other(error) if error.code() == git2::ErrorCode::NotFound)
    }

    /// An object or pack in our own repository cannot be read.
    pub fn is_corruption(&self) -> bool {
        use git2::ErrorClass::{Config, Indexer, Object, Odb, Reference, Repository, Tree, Zlib};
        matches!(self, GitError::Other(error) if matches!(
            error.class(),
            Object | Odb | Zlib | Indexer | Tree | Reference | Repository | Config
        ))
    }
}

impl From<git2::Error> for GitError {
    /// libgit2 has no code for a full disk, only the system's words.
    fn from(error: git2::Error) -> GitError {
        const FULL: [&str; 3] = ["No space left", "Disk quota exceeded", "File too large"];
        if FULL.iter().any(|words| error.message().contains(words)) {
            return GitError::Machine(error.message().to_owned());
        }
        GitError::Other(error)
    }
}

impl From<std::io::Error> for GitError {
    fn from(error: std::io::Error) -> GitError {
        GitError::Machine(error.to_string())
    }
}

/// Runs `work` on a thread where blocking is allowed; everything in these modules blocks.
pub async fn blocking<T, W>(work: W) -> Result<T, GitError>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, GitError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(GitError::Machine(format!("git work did not finish: {error}"))),
    }
}

/// Text from a server or a repository, fit to be shown: control characters become spaces (line
/// breaks stay), and at most `cap` characters are kept, with an ellipsis where there was more.
pub fn printable(text: &str, cap: usize) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .filter(|c| !is_invisible(*c))
        .collect();
    let clean = clean.trim();
    match clean.char_indices().nth(cap) {
        // Between words where there is a space not far back, so that nothing ends in half a word.
        Some((end, _)) => {
            let cut = &clean[..end];
            let at = cut.rfind(char::is_whitespace).filter(|at| at * 2 > end).unwrap_or(end);
            format!("{} \u{2026}", cut[..at].trim_end())
        }
        None => clean.to_owned(),
    }
}

/// A path as it is shown: control and invisible characters are spelled out, so that it stays on one
/// line and says what it is.
pub fn display_path(path: &str) -> String {
    let mut out = String::new();
    for c in path.chars().take(500) {
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
