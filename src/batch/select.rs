//! From `select` to repositories, with what is needed to decide about each.

use super::campaign::Campaign;
use super::fleet::Fleet;
use crate::error::{Failure, Result};

/// A repository that was selected, with what decides whether there is something to do.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as the forge tells them")]
pub struct Candidate {
    /// `OWNER/REPO`, as the forge spells it now (after renames).
    pub repository: String,
    /// The branch to start from; the campaign's `base` or the default branch.
    pub base_branch: String,
    /// Its tip; `None` when the repository is empty or has no such branch.
    pub base_sha: Option<String>,
    pub archived: bool,
    pub fork: bool,
    pub template: bool,
    pub private: bool,
    /// We may push to it.
    pub can_push: bool,
    pub topics: Vec<String>,
    /// Why nothing more is known: gone, no access.
    pub trouble: Option<String>,
    /// Pull requests to review (mode `review`), or the one from the campaign's branch (mode `pr`).
    pub pull_requests: Vec<CandidatePull>,
}

/// A pull request of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidatePull {
    pub number: u64,
    pub open: bool,
    pub merged: bool,
    pub draft: bool,
    pub head_sha: String,
    /// Its body has our marker.
    pub ours: bool,
}

/// Finds the campaign's repositories. One that cannot be read is a candidate with `trouble`, not an
/// error.
pub async fn discover(_fleet: &Fleet, _campaign: &Campaign) -> Result<Vec<Candidate>> {
    Err(Failure::internal("not there yet"))
}
