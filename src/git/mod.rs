//! libgit2, wrapped once.
//!
//! Invariants: the repositories here are bare and ours; nothing that the container could write is
//! ever opened as a repository; there is never a working tree; no `git` program is started; tokens
//! travel in a request header of our own HTTP client, never in a URL, an argument or a file.

pub mod clone;
pub mod commit;
pub mod diff;
pub mod push;
pub mod transport;
pub mod tree;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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

/// What became of a push.
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
    /// The server said no and why (protected branch, rulesets, workflow permission).
    #[error("the server rejected the push of `{reference}`: {reason}")]
    Rejected { reference: String, reason: String },
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
    /// The tree breaks our limits or git's own rules.
    #[error("{0}")]
    Unacceptable(String),
    #[error(transparent)]
    Other(#[from] git2::Error),
}
