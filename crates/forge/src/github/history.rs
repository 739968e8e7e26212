//! What has happened in a repository of late: the pull requests that changed since a moment, and the commits of one.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::http::Call;
use super::wire::{PullJson, User, account, lenient};
use super::{GitHubForge, route};
use crate::{ForgeError, PullCommit, PullRequest, RepositoryId};

/// Pull requests of one page.
const PAGE: usize = 50;
/// Commits of one pull request; GitHub lists no more.
const MOST_COMMITS: usize = 250;

#[derive(Deserialize)]
struct CommitJson {
    sha: String,
    /// The account that has the author's address; null when none has.
    #[serde(default)]
    author: Option<User>,
    #[serde(default, deserialize_with = "lenient")]
    parents: Vec<Parent>,
    #[serde(default, deserialize_with = "lenient")]
    commit: Message,
}

#[derive(Default, Deserialize)]
struct Parent {}

#[derive(Default, Deserialize)]
struct Message {
    #[serde(default, deserialize_with = "lenient")]
    message: String,
    #[serde(default, deserialize_with = "lenient")]
    committer: Committer,
}

#[derive(Default, Deserialize)]
struct Committer {
    #[serde(default)]
    date: Option<DateTime<Utc>>,
}

impl From<CommitJson> for PullCommit {
    fn from(json: CommitJson) -> PullCommit {
        PullCommit {
            sha: json.sha,
            author: json.author.map(|user| account(Some(user))),
            parents: json.parents.len(),
            message: json.commit.message,
            committed_at: json.commit.committer.date,
        }
    }
}

impl GitHubForge {
    /// The last changed first. A list by time has no end worth reading, so it is read page by page.
    pub(super) async fn changed_pulls(
        &self,
        repository: &RepositoryId,
        since: DateTime<Utc>,
        most: usize,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        let mut found: Vec<PullRequest> = Vec::new();
        for page in 1..=most.div_ceil(PAGE) {
            let query =
                format!("pulls?state=all&sort=updated&direction=desc&per_page={PAGE}&page={page}");
            let call = Call::get(
                route(repository, &query),
                format!("the pull requests of `{repository}`"),
            )
            .needs("pull-requests: read");
            let pulls: Vec<PullJson> = self.api.read_json(&call).await?;
            let is_last = pulls.len() < PAGE;
            let pulls: Vec<PullRequest> = pulls.into_iter().map(PullRequest::from).collect();
            let reaches_back = pulls.last().is_none_or(|pull| pull.updated_at < since);
            found.extend(pulls.into_iter().filter(|pull| pull.updated_at >= since));
            if is_last || reaches_back {
                break;
            }
        }
        // One that changes meanwhile moves to the front and pushes others onto the next page.
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|pull| seen.insert(pull.number));
        found.truncate(most);
        Ok(found)
    }

    /// Oldest first.
    pub(super) async fn commits_of_pull(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<PullCommit>, ForgeError> {
        let call = Call::get(
            route(repository, &format!("pulls/{number}/commits?per_page=100")),
            format!("the commits of `{repository}#{number}`"),
        )
        .needs("pull-requests: read");
        let commits: Vec<CommitJson> = self.api.list(&call, MOST_COMMITS).await?;
        Ok(commits.into_iter().map(PullCommit::from).collect())
    }
}
