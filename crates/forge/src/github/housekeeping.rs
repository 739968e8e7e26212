//! What a fleet needs of GitHub besides the work itself: closing pull requests, removing branches, one
//! issue that is kept up to date, and how many pull requests stand.
//!
//! Called by `patchwright_fleet::batch`. Everything may be done twice: what is done already counts as done, and
//! an issue whose answer was lost is looked for before it is written again.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::marker::stands_exactly;
use super::body::{fit, fit_title, same};
use super::comments::{LOOKS, WRITES};
use super::http::{Call, WriteOutcome, segment};
use super::token::Scope;
use super::wire::{IssueJson, PullJson, lenient};
use super::{GitHubForge, ISSUES_WRITE, PULLS_WRITE, route};
use crate::{Account, Forge, ForgeError, Issue, PullRequest, RepositoryId, StateProblem};
use patchwright_git::Oid;

const CONTENTS_WRITE: &str = "contents: write";
/// Pages of issues, the newest first, in which ours is looked for.
const ISSUE_PAGES: usize = 20;
/// Pull requests that are asked about in one question.
const PULLS_AT_ONCE: usize = 50;

/// What became of a branch that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchRemoval {
    Yes,
    /// It was gone already.
    Gone,
    /// It points to another commit than it should, and was left alone.
    Moved(Oid),
}

/// How a pull request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullState {
    pub open: bool,
    pub draft: bool,
    pub merged: bool,
    pub url: String,
    /// When it was merged or closed, by the forge's clock.
    pub closed_at: Option<DateTime<Utc>>,
    /// The id of the repository that it is in; empty where it is not told.
    pub repository_id: String,
}

/// One pull request of many, by where it is.
pub type PullReference = (RepositoryId, u64);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullNode {
    state: String,
    #[serde(default)]
    is_draft: bool,
    #[serde(default)]
    url: String,
    #[serde(default)]
    closed_at: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RepositoryNode {
    #[serde(default, deserialize_with = "lenient")]
    id: String,
    pull_request: Option<PullNode>,
}

impl GitHubForge {
    /// We wrote what `author` wrote.
    pub async fn wrote(&self, author: &Account) -> Result<bool, ForgeError> {
        self.is_ours(author).await
    }

    /// Closes a pull request without merging it; one that is closed or merged stays as it is.
    pub async fn close_pull(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<PullRequest, ForgeError> {
        let call = Call::write(
            Method::PATCH,
            route(repository, &format!("pulls/{number}")),
            format!("pull request `{repository}#{number}`"),
        )
        .for_action(format!("close pull request `{repository}#{number}`"), PULLS_WRITE)
        .json(json!({ "state": "closed" }));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        let reply = self.api.good(&call, reply)?;
        Ok(self.api.parse::<PullJson>(&call, &reply)?.into())
    }

    /// Removes a branch that points to `expected`.
    pub async fn remove_branch(
        &self,
        repository: &RepositoryId,
        branch: &str,
        expected: Oid,
    ) -> Result<BranchRemoval, ForgeError> {
        match self.branch_tip(repository, branch).await? {
            None => return Ok(BranchRemoval::Gone),
            Some(tip) if tip != expected => return Ok(BranchRemoval::Moved(tip)),
            Some(_) => {}
        }
        let path: Vec<String> = branch.split('/').map(segment).collect();
        let call = Call::write(
            Method::DELETE,
            route(repository, &format!("git/refs/heads/{}", path.join("/"))),
            format!("branch `{branch}` of `{repository}`"),
        )
        .for_action(format!("remove branch `{branch}` of `{repository}`"), CONTENTS_WRITE);
        let (reply, again) = self.api.write_repeatable(&call).await?;
        let status = reply.status.as_u16();
        let words = self.api.words(&reply).to_lowercase();
        // Somebody was faster, or our own first attempt was.
        let is_gone = status == 404 || (status == 422 && words.contains("does not exist"));
        if is_gone && self.branch_tip(repository, branch).await?.is_none() {
            return Ok(if again { BranchRemoval::Yes } else { BranchRemoval::Gone });
        }
        self.api.good(&call, reply).map(|_| BranchRemoval::Yes)
    }

    /// The issue of ours that carries exactly this marker, the newest when there are several. `known`
    /// is its number when we have it.
    pub async fn marked_issue(
        &self,
        repository: &RepositoryId,
        known: Option<u64>,
        marker: &str,
    ) -> Result<Option<Issue>, ForgeError> {
        if let Some(number) = known {
            match self.read_issue(repository, number).await {
                Ok(issue)
                    if stands_exactly(&issue.body, marker)
                        && self.is_ours(&issue.author).await? =>
                {
                    return Ok(Some(issue));
                }
                Ok(_)
                | Err(
                    ForgeError::NotFound { .. }
                    | ForgeError::State { what: StateProblem::Gone, .. },
                ) => {}
                Err(err) => return Err(err),
            }
        }
        let viewer = self.own_account().await?;
        let creator = viewer.map(|viewer| format!("&creator={}", segment(&viewer.login)));
        let query = "state=all&sort=created&direction=desc&per_page=100";
        let call = Call::get(
            route(repository, &format!("issues?{query}{}", creator.unwrap_or_default())),
            format!("the issues of `{repository}`"),
        )
        .needs("issues: read");
        let found: Vec<IssueJson> = self.api.first_pages(&call, ISSUE_PAGES).await?;
        for issue in found.into_iter().map(Issue::from) {
            let is_marked = !issue.is_pull_request && stands_exactly(&issue.body, marker);
            if is_marked && self.is_ours(&issue.author).await? {
                return Ok(Some(issue));
            }
        }
        Ok(None)
    }

    /// Writes an issue with this marker. When the answer is lost, looks for it before writing it again.
    pub async fn create_issue(
        &self,
        repository: &RepositoryId,
        title: &str,
        body: &str,
        marker: &str,
    ) -> Result<Issue, ForgeError> {
        let call =
            Call::write(Method::POST, route(repository, "issues"), format!("`{repository}`"))
                .for_action(format!("open an issue in `{repository}`"), ISSUES_WRITE)
                .json(json!({ "title": fit_title(title), "body": fit(body, marker) }));
        let mut lost = None;
        for _ in 0..WRITES {
            match self.api.write(&call).await? {
                WriteOutcome::Answered(reply) => {
                    let reply = self.api.good(&call, reply)?;
                    return Ok(self.api.parse::<IssueJson>(&call, &reply)?.into());
                }
                WriteOutcome::Lost(err) => lost = Some(err),
            }
            for pause in LOOKS {
                self.api.limiter.sleep(pause).await;
                if let Some(found) = self.marked_issue(repository, None, marker).await? {
                    return Ok(found);
                }
            }
        }
        Err(lost.unwrap_or_else(|| self.api.unavailable("the issue was not written")))
    }

    /// Brings title and body of an issue of ours up to date, and closes it when asked to. Nothing is
    /// written when it is so already.
    pub async fn edit_issue(
        &self,
        repository: &RepositoryId,
        issue: &Issue,
        title: &str,
        body: &str,
        marker: &str,
        close: bool,
    ) -> Result<(), ForgeError> {
        let (title, body) = (fit_title(title), fit(body, marker));
        let mut changes = Map::new();
        if issue.title != title {
            changes.insert("title".into(), title.into());
        }
        if !same(&issue.body, &body) {
            changes.insert("body".into(), body.into());
        }
        if close && issue.open {
            changes.insert("state".into(), "closed".into());
        }
        if changes.is_empty() {
            return Ok(());
        }
        let number = issue.number;
        let call = Call::write(
            Method::PATCH,
            route(repository, &format!("issues/{number}")),
            format!("issue `{repository}#{number}`"),
        )
        .for_action(format!("edit issue `{repository}#{number}`"), ISSUES_WRITE)
        .json(Value::Object(changes));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        self.api.good(&call, reply).map(|_| ())
    }

    /// Who edited an issue's text last, which only GraphQL tells; `None` when nobody has, or it does
    /// not say.
    pub async fn issue_editor(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Option<String>, ForgeError> {
        let query = "query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { issue(number: $number) { editor { login } } }
}";
        let variables =
            json!({ "owner": repository.owner, "name": repository.name, "number": number });
        let thing = format!("issue `{repository}#{number}`");
        let call =
            self.api.graphql_call(query, &variables, (Scope::of_repository(repository), thing));
        let answer = self.api.ask::<Value>(&call).await?;
        let data = answer.data.unwrap_or_default();
        let login = data["repository"]["issue"]["editor"]["login"].as_str();
        Ok(login.map(str::to_owned))
    }

    /// What one query each is about.
    fn questions<'a>(&self, places: &'a [PullReference]) -> Vec<(Scope, Vec<&'a PullReference>)> {
        let mut questions = Vec::new();
        for (scope, group) in self.by_token(places.iter().map(|(repository, _)| repository)) {
            for some in group.chunks(PULLS_AT_ONCE) {
                let some = some.iter().filter_map(|at| places.get(*at)).collect();
                questions.push((scope.clone(), some));
            }
        }
        questions
    }

    /// The states of pull requests, fifty per query. A pull request that is missing in the answer is gone, or we
    /// may not see it.
    pub async fn pull_states(
        &self,
        places: &[PullReference],
    ) -> Result<HashMap<PullReference, PullState>, ForgeError> {
        let mut states = HashMap::new();
        for (scope, some) in self.questions(places) {
            let (query, variables) = question(&some);
            let thing = format!("{} pull requests", some.len());
            let call = self.api.graphql_call(&query, &variables, (scope.clone(), thing));
            let answer = self.api.ask::<HashMap<String, Option<RepositoryNode>>>(&call).await;
            let answer = match (answer, &scope) {
                // The App is not installed at this account any more.
                (Err(ForgeError::NotFound { .. }), Scope::Owner(_)) => continue,
                (answer, _) => answer?,
            };
            let Some(mut data) = answer.data else {
                return Err(self.api.refused(&call, &answer.errors));
            };
            for (index, place) in some.into_iter().enumerate() {
                let Some(node) = data.remove(&format!("p{index}")).flatten() else { continue };
                let Some(pull) = node.pull_request else { continue };
                let state = PullState {
                    open: pull.state == "OPEN",
                    draft: pull.is_draft,
                    merged: pull.state == "MERGED",
                    url: pull.url,
                    closed_at: pull.closed_at,
                    repository_id: node.id,
                };
                states.insert(place.clone(), state);
            }
        }
        Ok(states)
    }
}

/// One alias for each pull request. Names travel as variables, never in the text.
fn question(places: &[&PullReference]) -> (String, Value) {
    let (mut heads, mut fields, mut variables) = (Vec::new(), Vec::new(), Map::new());
    for (index, (repository, number)) in places.iter().enumerate() {
        heads.push(format!("$o{index}: String!, $n{index}: String!, $i{index}: Int!"));
        fields.push(format!(
            "  p{index}: repository(owner: $o{index}, name: $n{index}) {{ \
             id pullRequest(number: $i{index}) {{ state isDraft url closedAt }} }}"
        ));
        variables.insert(format!("o{index}"), repository.owner.as_str().into());
        variables.insert(format!("n{index}"), repository.name.as_str().into());
        variables.insert(format!("i{index}"), (*number).into());
    }
    let query = format!("query({}) {{\n{}\n}}", heads.join(", "), fields.join("\n"));
    (query, Value::Object(variables))
}
