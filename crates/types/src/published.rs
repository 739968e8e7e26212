//! The published result of a run.

use serde::{Deserialize, Serialize};

use patchwright_forge::CheckConclusion;
use patchwright_forge::Operation;
use patchwright_review::incremental::KnownFinding;

/// The published change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Published {
    pub branch: String,
    pub head_sha: String,
    pub pull_request: u64,
    pub url: String,
    pub operation: Operation,
    /// It is a draft now.
    #[serde(default)]
    pub draft: bool,
}

/// The published review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PublishedReview {
    pub review: Option<u64>,
    pub url: Option<String>,
    /// Inline comments that are there now because of this run.
    pub inline: usize,
    /// Findings in the body instead.
    pub in_body: usize,
    /// Threads that were resolved.
    pub resolved: usize,
    pub check_url: Option<String>,
    /// The comment with the state of all findings.
    #[serde(default)]
    pub comment_url: Option<String>,
    /// We may not write to this pull request; findings became annotations and files instead.
    pub handed_over: bool,
    /// What the check says, whether or not it could be written.
    #[serde(default)]
    pub verdict: Option<CheckConclusion>,
    /// The state of all findings, old and new.
    #[serde(default)]
    pub known: Vec<KnownFinding>,
}
