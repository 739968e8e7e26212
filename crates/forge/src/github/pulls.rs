//! Pull requests: found by their branch, created once, kept up to date.

use http::Method;
use serde_json::{Map, Value, json};

use super::super::edits::{WORK_IN_PROGRESS, recorded, since_written};
use super::super::marker::stands;
use super::body::{fit, fit_title, same};
use super::comments::{LOOKS, WRITES};
use super::http::{Call, WriteOutcome};
use super::wire::PullJson;
use super::{GitHubForge, PULLS_WRITE, forks, route};
use crate::{
    Edits, ForgeError, Operation, PullRequest, PullRequestDraft, RepositoryId, StateProblem,
};

/// Pull requests from one branch that are looked at.
const MOST_PULLS: usize = 300;

/// How an attempt to create one ended.
enum CreateOutcome {
    Yes(Box<PullRequest>),
    AlreadyThere,
    NoDrafts,
    /// The branch is not visible to the API yet.
    NotYet(ForgeError),
    Lost(ForgeError),
}

impl GitHubForge {
    pub(super) async fn pulls_from(
        &self,
        repository: &RepositoryId,
        from: &RepositoryId,
        branch: &str,
        state: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        let head = forks::filter_of(from, branch);
        let fork = (!from.is_same(repository)).then_some(from);
        let call = Call::get(
            route(repository, &format!("pulls?state={state}&head={head}&per_page=100")),
            format!("the pull requests of `{repository}`"),
        );
        let all: Vec<PullJson> = self.api.list(&call, MOST_PULLS).await?;
        // The filter also lets forks of the same owner through, and other servers ignore it.
        let wanted = all.into_iter().filter(|pull| pull.is_from(fork, branch));
        let mut found: Vec<PullRequest> = wanted.map(PullRequest::from).collect();
        found.sort_by_key(|pull| (!pull.open, std::cmp::Reverse(pull.number)));
        found.dedup_by_key(|pull| pull.number);
        Ok(found)
    }

    pub(super) async fn publish_pull(
        &self,
        repository: &RepositoryId,
        draft: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError> {
        let title = fit_title(&draft.title);
        let body = recorded(&title, &fit(&draft.body, marker));
        let mut wanted = PullRequestDraft { title, body, ..draft.clone() };
        if let Some(pull) = self.open_pull(repository, &wanted).await? {
            return self.adopt(repository, pull, &wanted, marker).await;
        }
        let mut problem = None;
        for attempt in 1..=WRITES {
            match self.create_pull(repository, &wanted).await? {
                CreateOutcome::Yes(pull) => {
                    return Ok((*pull, Operation::Created, Edits::default()));
                }
                CreateOutcome::NoDrafts => {
                    wanted.draft = false;
                    wanted.title = fit_title(&format!("{WORK_IN_PROGRESS}{}", wanted.title));
                    continue;
                }
                CreateOutcome::NotYet(err) => {
                    self.api.limiter.back_off(attempt).await;
                    problem = Some(err);
                    continue;
                }
                CreateOutcome::AlreadyThere => problem = None,
                CreateOutcome::Lost(err) => problem = Some(err),
            }
            if let Some(pull) = self.appearing_pull(repository, &wanted).await? {
                let lost = problem.is_some();
                let (pull, operation, edits) =
                    self.adopt(repository, pull, &wanted, marker).await?;
                let made = lost && operation == Operation::Unchanged;
                return Ok((pull, if made { Operation::Created } else { operation }, edits));
            }
        }
        Err(problem.unwrap_or_else(|| ForgeError::Conflict {
            message: format!(
                "`{repository}` says that branch `{}` has a pull request, but does not show it",
                wanted.head_branch
            ),
        }))
    }

    async fn open_pull(
        &self,
        repository: &RepositoryId,
        wanted: &PullRequestDraft,
    ) -> Result<Option<PullRequest>, ForgeError> {
        let (from, branch) = (&wanted.head_repository, &wanted.head_branch);
        let found = self.pulls_from(repository, from, branch, "open").await?;
        Ok(found.into_iter().find(|pull| pull.open))
    }

    /// Looks for a pull request that must be there or may just have been made.
    async fn appearing_pull(
        &self,
        repository: &RepositoryId,
        wanted: &PullRequestDraft,
    ) -> Result<Option<PullRequest>, ForgeError> {
        for pause in LOOKS {
            self.api.limiter.sleep(pause).await;
            if let Some(pull) = self.open_pull(repository, wanted).await? {
                return Ok(Some(pull));
            }
        }
        Ok(None)
    }

    /// Brings an open pull request up to date when it is ours, but for what people have edited; leaves it alone when
    /// it is not.
    async fn adopt(
        &self,
        repository: &RepositoryId,
        pull: PullRequest,
        wanted: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError> {
        if !stands(&pull.body, marker) && !self.is_ours(&pull.author).await? {
            return Err(ForgeError::Conflict {
                message: format!(
                    "branch `{}` already has a pull request of `{}`: {}",
                    wanted.head_branch, pull.author.login, pull.html_url
                ),
            });
        }
        let mut changes = Map::new();
        let work_in_progress = wanted.draft
            && !pull.draft
            && pull.title.strip_prefix(WORK_IN_PROGRESS) == Some(wanted.title.as_str());
        let edits = since_written(&pull.title, &pull.body, marker);
        if pull.title != wanted.title && !work_in_progress && !edits.title {
            changes.insert("title".into(), Value::from(wanted.title.as_str()));
        }
        if !same(&pull.body, &wanted.body) && !edits.body {
            changes.insert("body".into(), Value::from(wanted.body.as_str()));
        }
        if wanted.moves_base && pull.base_branch != wanted.base_branch {
            changes.insert("base".into(), Value::from(wanted.base_branch.as_str()));
        }
        if changes.is_empty() {
            return Ok((pull, Operation::Unchanged, edits));
        }
        let updated = self.change_pull(repository, pull.number, Value::Object(changes)).await?;
        Ok((updated, Operation::Updated, edits))
    }

    pub(super) async fn describe(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let changes = json!({ "title": fit_title(title), "body": body });
        self.change_pull(repository, number, changes).await.map(drop)
    }

    /// Changes fields of a pull request. Saying the same twice changes nothing.
    pub(super) async fn change_pull(
        &self,
        repository: &RepositoryId,
        number: u64,
        changes: Value,
    ) -> Result<PullRequest, ForgeError> {
        let name = format!("pull request `{repository}#{number}`");
        let path = route(repository, &format!("pulls/{number}"));
        let call = Call::write(Method::PATCH, path, name.clone())
            .for_action(format!("update {name}"), PULLS_WRITE)
            .json(changes);
        let (reply, _) = self.api.write_repeatable(&call).await?;
        let reply = self.api.good(&call, reply)?;
        Ok(self.api.parse::<PullJson>(&call, &reply)?.into())
    }

    async fn create_pull(
        &self,
        repository: &RepositoryId,
        wanted: &PullRequestDraft,
    ) -> Result<CreateOutcome, ForgeError> {
        let mut body = json!({
            "title": wanted.title,
            "head": wanted.named_from(repository),
            "base": wanted.base_branch,
            "body": wanted.body,
            "draft": wanted.draft,
        });
        if !wanted.head_repository.is_same(repository) {
            // Those who decide about the pull request may then add to it.
            body["maintainer_can_modify"] = true.into();
        }
        let call = Call::write(
            Method::POST,
            route(repository, "pulls"),
            format!("repository `{repository}`"),
        )
        .for_action(format!("open a pull request in `{repository}`"), PULLS_WRITE)
        .json(body);
        let reply = match self.api.write(&call).await? {
            WriteOutcome::Answered(reply) => reply,
            WriteOutcome::Lost(err) => return Ok(CreateOutcome::Lost(err)),
        };
        let err = match self.api.good(&call, reply) {
            Ok(reply) => {
                let pull: PullJson = self.api.parse(&call, &reply)?;
                return Ok(CreateOutcome::Yes(Box::new(pull.into())));
            }
            Err(err) => err,
        };
        let ForgeError::Invalid { message, .. } = &err else { return Err(err) };
        let text = message.to_lowercase();
        if text.contains("already exists") {
            Ok(CreateOutcome::AlreadyThere)
        } else if text.contains("no commits between") {
            Err(ForgeError::State {
                what: StateProblem::NothingToPropose,
                message: format!(
                    "branch `{}` has no commits that `{}` lacks, so there is nothing to propose",
                    wanted.head_branch, wanted.base_branch
                ),
            })
        } else if wanted.draft && text.contains("draft") {
            Ok(CreateOutcome::NoDrafts)
        } else if text.contains("head invalid") || text.contains("could not resolve") {
            Ok(CreateOutcome::NotYet(err))
        } else {
            Err(err)
        }
    }

    pub(super) async fn ask_reviewers(
        &self,
        repository: &RepositoryId,
        number: u64,
        reviewers: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        // GitHub is told a team's name only, and would ask one of the same name here.
        let (reviewers, mut refused): (Vec<String>, Vec<String>) =
            reviewers.iter().cloned().partition(|name| repository.may_ask(name));
        if reviewers.is_empty() || self.ask(repository, number, &reviewers).await? {
            return Ok(refused);
        }
        // One wrong name spoils the whole request, without being named.
        for reviewer in &reviewers {
            let alone = std::slice::from_ref(reviewer);
            if reviewers.len() == 1 || !self.ask(repository, number, alone).await? {
                refused.push(reviewer.clone());
            }
        }
        Ok(refused)
    }

    /// False when GitHub refuses one of the names. `org/team` asks a team.
    async fn ask(
        &self,
        repository: &RepositoryId,
        number: u64,
        names: &[String],
    ) -> Result<bool, ForgeError> {
        let (teams, people): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| name.contains('/'));
        let teams: Vec<&str> = teams.iter().filter_map(|team| team.rsplit('/').next()).collect();
        let mut body = Map::new();
        if !people.is_empty() {
            body.insert("reviewers".into(), json!(people));
        }
        if !teams.is_empty() {
            body.insert("team_reviewers".into(), json!(teams));
        }
        let call = Call::write(
            Method::POST,
            route(repository, &format!("pulls/{number}/requested_reviewers")),
            format!("pull request `{repository}#{number}`"),
        )
        .for_action(format!("ask for reviews of `{repository}#{number}`"), PULLS_WRITE)
        .json(Value::Object(body));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        if reply.status.as_u16() == 422 {
            return Ok(false);
        }
        self.api.good(&call, reply).map(|_| true)
    }
}
