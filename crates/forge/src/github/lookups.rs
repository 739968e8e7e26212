//! One pull request by its number or by its commit, and how two commits relate.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::http::{Call, segment};
use super::token::Scope;
use super::wire::PullJson;
use super::wire_reviews::ComparisonJson;
use super::{GitHubForge, route};
use crate::{Comparison, ForgeError, PullRequest, RepositoryId};

/// Pages of open pull requests, the last changed first, that are searched for a commit.
const SEARCHED_PAGES: usize = 10;
/// Pull requests with the same head that are read.
const MOST_AT_ONE_COMMIT: usize = 10;
/// Files that GitHub tells of a comparison; more may be left out.
const MOST_FILES: usize = 300;

impl GitHubForge {
    /// The name of the repository with this id, which was called `name` once. REST knows repositories by another number
    /// only.
    pub(super) async fn name_of(
        &self,
        name: &RepositoryId,
        node_id: &str,
    ) -> Result<Option<RepositoryId>, ForgeError> {
        let query = "query($id: ID!) { node(id: $id) { ... on Repository { nameWithOwner } } }";
        let thing = format!("the repository with the id `{node_id}`");
        // Not of the name: another repository may have that now, or none.
        let scope = Scope::Owner(name.owner.clone());
        let call = self.api.graphql_call(query, &json!({ "id": node_id }), (scope, thing));
        let answer = match self.api.ask::<Value>(&call).await {
            Ok(answer) => answer,
            // No GraphQL here, or not with this token.
            Err(ForgeError::NotFound { .. } | ForgeError::Forbidden { .. }) => return Ok(None),
            Err(err) => return Err(err),
        };
        let data = answer.data.unwrap_or_default();
        let name = data["node"]["nameWithOwner"].as_str();
        Ok(name.and_then(|name| name.parse().ok()))
    }

    pub(super) async fn read_pull(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<PullRequest, ForgeError> {
        let call = Call::get(
            route(repository, &format!("pulls/{number}")),
            format!("pull request `{repository}#{number}`"),
        )
        .needs("pull-requests: read");
        Ok(self.api.read_json::<PullJson>(&call).await?.into())
    }

    pub(super) async fn pulls_at(
        &self,
        repository: &RepositoryId,
        head_sha: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        let at_head = |pull: &PullRequest| pull.open && pull.head_sha == head_sha;
        let thing = format!("the pull requests of `{repository}`");
        let of_commit = Call::get(
            route(repository, &format!("commits/{}/pulls?per_page=100", segment(head_sha))),
            thing.clone(),
        );
        let found: Vec<PullJson> = match self.api.first_pages(&of_commit, SEARCHED_PAGES).await {
            Ok(found) => found,
            // A commit of a fork may be unknown here.
            Err(
                ForgeError::NotFound { .. }
                | ForgeError::Invalid { .. }
                | ForgeError::Conflict { .. }
                | ForgeError::State { .. },
            ) => Vec::new(),
            Err(err) => return Err(err),
        };
        let mut numbers = numbers_at(found, at_head);
        if numbers.is_empty() {
            let query = "pulls?state=open&sort=updated&direction=desc&per_page=100";
            let open = Call::get(route(repository, query), thing);
            numbers = numbers_at(self.api.first_pages(&open, SEARCHED_PAGES).await?, at_head);
        }
        // Lists leave out whether people here may push to a fork's branch.
        let mut pulls = Vec::new();
        for number in numbers.into_iter().take(MOST_AT_ONE_COMMIT) {
            let pull = self.read_pull(repository, number).await?;
            if at_head(&pull) {
                pulls.push(pull);
            }
        }
        Ok(pulls)
    }

    pub(super) async fn compare_commits(
        &self,
        repository: &RepositoryId,
        base: &str,
        head: &str,
    ) -> Result<Comparison, ForgeError> {
        if base.is_empty() || head.is_empty() {
            return Ok(Comparison::Unknown);
        }
        let path = |name: &str| name.split('/').map(segment).collect::<Vec<_>>().join("/");
        let call = Call::get(
            route(repository, &format!("compare/{}...{}?per_page=1", path(base), path(head))),
            format!("how two commits of `{repository}` relate"),
        );
        match self.api.read_json::<ComparisonJson>(&call).await {
            Ok(compared) => Ok(compared.into()),
            Err(ForgeError::NotFound { .. } | ForgeError::Invalid { .. }) => {
                Ok(Comparison::Unknown)
            }
            Err(err) => Err(err),
        }
    }
}

/// How a commit relates to another, and what has changed from where the two parted to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFiles {
    pub relation: Comparison,
    /// By all names that they have or had.
    pub paths: BTreeSet<String>,
}

impl GitHubForge {
    /// How `head` relates to `base`, and the files that have changed from where the two parted to `head`. `None` where
    /// GitHub does not know the commits, or does not tell all files.
    ///
    /// # Errors
    /// When GitHub does not answer.
    pub async fn changed_files(
        &self,
        repository: &RepositoryId,
        base: &str,
        head: &str,
    ) -> Result<Option<ChangedFiles>, ForgeError> {
        if base.is_empty() || head.is_empty() {
            return Ok(None);
        }
        // One commit on the page, because only files are wanted; these are all on the first page.
        let names = format!("{}...{}", segment(base), segment(head));
        let call = Call::get(
            route(repository, &format!("compare/{names}?per_page=1")),
            format!("what has changed between two commits of `{repository}`"),
        );
        let compared = match self.api.read_json::<ComparisonJson>(&call).await {
            Ok(compared) => compared,
            Err(ForgeError::NotFound { .. } | ForgeError::Invalid { .. }) => return Ok(None),
            Err(err) => return Err(err),
        };
        let Some(files) = compared.files.as_ref().filter(|files| files.len() < MOST_FILES) else {
            return Ok(None);
        };
        let names = files.iter().flat_map(|file| {
            std::iter::once(file.filename.clone()).chain(file.previous_filename.clone())
        });
        let paths = names.filter(|name| !name.is_empty()).collect();
        Ok(Some(ChangedFiles { relation: compared.into(), paths }))
    }
}

/// The numbers of those that are wanted, each once, in their order.
fn numbers_at(found: Vec<PullJson>, wanted: impl Fn(&PullRequest) -> bool) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::new();
    for pull in found.into_iter().map(PullRequest::from).filter(|pull| wanted(pull)) {
        if !numbers.contains(&pull.number) {
            numbers.push(pull.number);
        }
    }
    numbers
}
