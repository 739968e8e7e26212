//! May this change leave the building? Pure rules over a [`Change`] and the text that goes with it.

pub mod paths;
pub mod secrets;
pub mod size;

use serde::{Deserialize, Serialize};

use crate::git::tree::FileChange;

/// What the rules say about a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Reasons not to publish anything.
    pub violations: Vec<Violation>,
    /// Files that are not published but handed over as a patch.
    pub held_back: Vec<HeldBack>,
    /// Things that a reviewer should look at: protected files, deleted tests, bidi characters.
    pub flags: Vec<Violation>,
}

/// A broken rule. Never contains the secret that broke it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Stable id of the rule: `secret.own`, `size.files`, `path.symlink-outside`.
    pub rule: String,
    /// File and line, where it has one.
    pub path: Option<String>,
    pub message: String,
}

/// A file kept out of the published change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldBack {
    pub file: FileChange,
    pub rule: String,
}

/// Limits and lists for the rules; configured by the operator, tightened by the repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub max_files: usize,
    /// Bytes of added and changed blobs together.
    pub max_bytes: u64,
    /// Globs of files that make the pull request a draft with a section about them.
    pub protected_paths: Vec<String>,
    /// Globs of files that are never published, only handed over as a patch.
    pub blocked_paths: Vec<String>,
    /// Globs of files in which well-known key formats are expected (test fixtures).
    pub secret_allow_paths: Vec<String>,
    /// The operator allows changes to `.github/workflows`.
    pub allow_workflows: bool,
}
