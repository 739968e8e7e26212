//! What decides about a pull request, as GraphQL and REST tell of it.

use serde::Deserialize;

use super::discovery::{MergeFacts, PullFacts};
use super::wire::lenient;
use super::wire_reviews::Connection;
use crate::PullRequest;
use crate::marker::has_purpose;

/// The purpose in the marker of our pull requests.
const OUR_PURPOSE: &str = "pull-request";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PullNode {
    number: u64,
    #[serde(default, deserialize_with = "lenient")]
    state: String,
    #[serde(default, deserialize_with = "lenient")]
    is_draft: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_cross_repository: bool,
    #[serde(default, deserialize_with = "lenient")]
    head_ref_oid: String,
    #[serde(default, deserialize_with = "lenient")]
    base_ref_oid: String,
    #[serde(default, deserialize_with = "lenient")]
    body: String,
    #[serde(default)]
    merge_commit: Option<MergeCommit>,
}

#[derive(Deserialize)]
struct MergeCommit {
    oid: String,
    #[serde(default)]
    parents: Option<Connection<Parent>>,
}

#[derive(Deserialize)]
struct Parent {
    oid: String,
}

impl MergeCommit {
    fn facts(self) -> Option<MergeFacts> {
        let parents = self.parents?.nodes?;
        let parent = parents.into_iter().flatten().next()?.oid;
        Some(MergeFacts { sha: self.oid, parent })
    }
}

impl PullNode {
    pub(super) fn facts(self) -> PullFacts {
        PullFacts {
            number: self.number,
            open: self.state == "OPEN",
            merged: self.state == "MERGED",
            draft: self.is_draft,
            head_sha: self.head_ref_oid,
            base_sha: self.base_ref_oid,
            ours: has_purpose(&self.body, OUR_PURPOSE),
            merge: self.merge_commit.and_then(MergeCommit::facts),
        }
    }
}

pub(super) fn pull_facts(pull: PullRequest) -> PullFacts {
    PullFacts {
        number: pull.number,
        open: pull.open,
        merged: pull.merged,
        draft: pull.draft,
        ours: has_purpose(&pull.body, OUR_PURPOSE),
        head_sha: pull.head_sha,
        base_sha: pull.base_sha,
        // REST names the commit, and not what it was made on.
        merge: None,
    }
}
