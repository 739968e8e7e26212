//! What a pull request gets beside its text: assignees, a milestone, a merge by GitHub itself.

use std::path::Path;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::graphql::Problem;
use super::http::Call;
use super::token::Scope;
use super::wire::{User, lenient};
use super::{GitHubForge, PULLS_WRITE, route};
use crate::{
    BranchRule, ForgeError, Governance, MissingContent, PullCommit, PullRequest, Repository,
    RepositoryId, Staged, Verification, staging_branch,
};
use patchwright_git::Oid;
use patchwright_git::lfs::Pointer;

/// Open milestones that are looked through.
const MOST_MILESTONES: usize = 1_000;

const MERGE: &str = "mutation($input: EnablePullRequestAutoMergeInput!) {
  enablePullRequestAutoMerge(input: $input) { pullRequest { id } }
}";

const LEAVE: &str = "mutation($input: DisablePullRequestAutoMergeInput!) {
  disablePullRequestAutoMerge(input: $input) { pullRequest { id } }
}";

#[derive(Deserialize)]
struct Milestone {
    number: u64,
    #[serde(default, deserialize_with = "lenient")]
    title: String,
}

#[derive(Deserialize)]
struct AssigneesJson {
    #[serde(default)]
    assignees: Vec<User>,
}

#[derive(Deserialize)]
struct PullJson {
    #[serde(default, deserialize_with = "lenient")]
    node_id: String,
    #[serde(default)]
    auto_merge: Option<IgnoredAny>,
}

impl GitHubForge {
    /// Those who could not be assigned: GitHub leaves them out without a word.
    pub(super) async fn put_assignees_on(
        &self,
        repository: &RepositoryId,
        number: u64,
        logins: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        let call = Call::write(
            Method::POST,
            route(repository, &format!("issues/{number}/assignees")),
            format!("pull request `{repository}#{number}`"),
        )
        .for_action(format!("assign `{repository}#{number}`"), PULLS_WRITE)
        .json(json!({ "assignees": logins }));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        let reply = self.api.good(&call, reply)?;
        let there: AssigneesJson = self.api.parse(&call, &reply)?;
        let is_there =
            |login: &str| there.assignees.iter().any(|it| it.login.eq_ignore_ascii_case(login));
        Ok(logins.iter().filter(|login| !is_there(login)).cloned().collect())
    }

    /// False when no open milestone has this title.
    pub(super) async fn put_milestone_on(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
    ) -> Result<bool, ForgeError> {
        let call = Call::get(
            route(repository, "milestones?state=open&per_page=100"),
            format!("the milestones of `{repository}`"),
        );
        let all: Vec<Milestone> = self.api.list(&call, MOST_MILESTONES).await?;
        let wanted = title.trim();
        let same = all.iter().find(|milestone| milestone.title.trim() == wanted);
        let alike = || all.iter().find(|it| it.title.trim().eq_ignore_ascii_case(wanted));
        let Some(milestone) = same.or_else(alike) else { return Ok(false) };
        let call = Call::write(
            Method::PATCH,
            route(repository, &format!("issues/{number}")),
            format!("pull request `{repository}#{number}`"),
        )
        .for_action(format!("set the milestone of `{repository}#{number}`"), PULLS_WRITE)
        .json(json!({ "milestone": milestone.number }));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        self.api.good(&call, reply).map(|_| true)
    }

    /// Has GitHub merge it when its requirements are met, if it still has this head then.
    pub(super) async fn merge_by_itself(
        &self,
        repository: &RepositoryId,
        number: u64,
        head: &str,
        method: &str,
    ) -> Result<(), ForgeError> {
        let name = format!("pull request `{repository}#{number}`");
        let read = Call::get(route(repository, &format!("pulls/{number}")), name.clone());
        let pull: PullJson = self.api.read_json(&read).await?;
        if pull.auto_merge.is_some() {
            return Ok(());
        }
        let scope = Scope::of_repository(repository);
        let input = json!({
            "pullRequestId": pull.node_id, "expectedHeadOid": head, "mergeMethod": method,
        });
        let call = self
            .api
            .graphql_call(MERGE, &json!({ "input": input }), (scope, name.clone()))
            .for_action(format!("have {name} merged"), PULLS_WRITE);
        let answer = self.api.mutate::<IgnoredAny>(&call).await?;
        if answer.errors.is_empty() {
            return Ok(());
        }
        if answer.errors.iter().any(Problem::is_about_auto_merge) {
            return Err(ForgeError::state(format!(
                "`{repository}` does not allow auto-merge (Settings, General, \u{201c}Allow auto-merge\u{201d})"
            )));
        }
        if answer.errors.iter().any(Problem::is_about_clean_status) {
            return Err(ForgeError::state(format!(
                "nothing is required of {name}, so there is nothing to wait for; protect the branch, or merge it"
            )));
        }
        Err(self.api.refused(&call, &answer.errors))
    }

    /// Has GitHub not merge it by itself; false when it would not have.
    pub(super) async fn leave_unmerged(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<bool, ForgeError> {
        let name = format!("pull request `{repository}#{number}`");
        let read = Call::get(route(repository, &format!("pulls/{number}")), name.clone());
        let pull: PullJson = self.api.read_json(&read).await?;
        if pull.auto_merge.is_none() {
            return Ok(false);
        }
        let scope = Scope::of_repository(repository);
        let input = json!({ "input": { "pullRequestId": pull.node_id } });
        let call = self
            .api
            .graphql_call(LEAVE, &input, (scope, name.clone()))
            .for_action(format!("have {name} not merged by itself"), PULLS_WRITE);
        let answer = self.api.mutate::<IgnoredAny>(&call).await?;
        if answer.errors.is_empty() {
            return Ok(true);
        }
        // Somebody may have been faster.
        let pull: PullJson = self.api.read_json(&read).await?;
        if pull.auto_merge.is_none() {
            return Ok(false);
        }
        Err(self.api.refused(&call, &answer.errors))
    }
}

#[async_trait]
impl Governance for GitHubForge {
    async fn pull_requests_since(
        &self,
        repository: &RepositoryId,
        since: DateTime<Utc>,
        most: usize,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        self.changed_pulls(repository, since, most).await
    }

    async fn pull_request_commits(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<PullCommit>, ForgeError> {
        self.commits_of_pull(repository, number).await
    }

    async fn repository_by_id(
        &self,
        name: &RepositoryId,
        node_id: &str,
    ) -> Result<Option<RepositoryId>, ForgeError> {
        self.name_of(name, node_id).await
    }

    async fn missing_permission(
        &self,
        repository: &RepositoryId,
        needs: &[&'static str],
    ) -> Result<Option<&'static str>, ForgeError> {
        self.not_granted(repository, needs).await
    }

    async fn fork(
        &self,
        upstream: &Repository,
        owner: Option<&str>,
        branch: &str,
    ) -> Result<Repository, ForgeError> {
        self.fork_of(upstream, owner, branch).await
    }

    async fn contents(
        &self,
        repository: &RepositoryId,
        wanted: &[Pointer],
        into: &Path,
    ) -> Result<Vec<MissingContent>, ForgeError> {
        self.bring_contents(repository, wanted, into).await
    }

    async fn catch_up(
        &self,
        upstream: &Repository,
        fork: &Repository,
        branch: &str,
        commit: Oid,
    ) -> Result<(), ForgeError> {
        self.bring_up(upstream, fork, branch, commit).await
    }

    async fn assign(
        &self,
        repository: &RepositoryId,
        number: u64,
        logins: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        self.put_assignees_on(repository, number, logins).await
    }

    async fn set_milestone(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
    ) -> Result<bool, ForgeError> {
        self.put_milestone_on(repository, number, title).await
    }

    async fn merge_when_ready(
        &self,
        repository: &RepositoryId,
        number: u64,
        head: &str,
        method: &str,
    ) -> Result<(), ForgeError> {
        self.merge_by_itself(repository, number, head, method).await
    }

    async fn stop_merging(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<bool, ForgeError> {
        self.leave_unmerged(repository, number).await
    }

    async fn sign(
        &self,
        repository: &RepositoryId,
        from: &Path,
        commit: Oid,
        key: &str,
    ) -> Result<Staged<Oid>, ForgeError> {
        self.sign_commit(repository, from, commit, key).await
    }

    async fn try_verification(
        &self,
        repository: &Repository,
        from: &Path,
        commit: Oid,
        key: &str,
    ) -> Result<Staged<Verification>, ForgeError> {
        self.try_signature(repository, from, commit, key).await
    }

    async fn unstage(
        &self,
        repository: &RepositoryId,
        key: &str,
    ) -> Result<Option<String>, ForgeError> {
        Ok(self.take_away(repository, &staging_branch(key)).await)
    }

    async fn commit_address(&self, login: &str) -> Result<Option<String>, ForgeError> {
        self.address_of(login).await
    }

    async fn verification(
        &self,
        repository: &RepositoryId,
        commit: &str,
    ) -> Result<Verification, ForgeError> {
        self.verification_of(repository, commit).await
    }

    async fn may_push(&self, repository: &Repository) -> Result<(), ForgeError> {
        self.ask_to_push(repository).await
    }

    async fn branch_rules(
        &self,
        repository: &RepositoryId,
        branch: &str,
    ) -> Result<Vec<BranchRule>, ForgeError> {
        self.rules_of(repository, branch).await
    }

    async fn may_bypass(
        &self,
        repository: &RepositoryId,
        rule: &BranchRule,
    ) -> Result<bool, ForgeError> {
        self.bypasses(repository, rule.ruleset).await
    }
}
