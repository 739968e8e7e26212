//! Issues, their labels and reactions.

use http::Method;
use serde_json::json;

use super::http::{Call, segment};
use super::wire::{IssueJson, Reaction};
use super::{GitHubForge, ISSUES_WRITE, route};
use crate::{Forge, ForgeError, Issue, RepositoryId, StateProblem};

impl GitHubForge {
    pub(super) async fn read_issue(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Issue, ForgeError> {
        let thing = format!("issue `{repository}#{number}`");
        let call = Call::get(route(repository, &format!("issues/{number}")), thing);
        let reply = self.api.repeat(&call).await?;
        if reply.redirected && matches!(reply.status.as_u16(), 403 | 404) {
            // The repository has this name still, so it is not the repository that is elsewhere.
            if self.repository(repository).await?.id.is_same(repository) {
                return Err(transferred(repository, number, None));
            }
        }
        let reply = self.api.good(&call, reply)?;
        let issue: IssueJson = self.api.parse(&call, &reply)?;
        if reply.redirected {
            self.same_repository(repository, number, &issue).await?;
        }
        Ok(issue.into())
    }

    /// After a redirect: a renamed repository is fine, a transferred issue is somebody else's.
    async fn same_repository(
        &self,
        repository: &RepositoryId,
        number: u64,
        issue: &IssueJson,
    ) -> Result<(), ForgeError> {
        let now = self.repository(repository).await?.id;
        let Some(url) = issue.repository_url.as_deref() else { return Ok(()) };
        let here = format!("/repos/{now}").to_lowercase();
        if url.to_lowercase().ends_with(&here) {
            return Ok(());
        }
        let there = url.rsplit("/repos/").next().unwrap_or("another repository");
        let there = super::refusal::clean(there, &[]);
        Err(transferred(repository, number, Some(format!("{there}#{}", issue.number))))
    }

    pub(super) async fn add_reaction(
        &self,
        repository: &RepositoryId,
        issue: u64,
        content: &str,
    ) -> Result<u64, ForgeError> {
        let call = Call::write(
            Method::POST,
            route(repository, &format!("issues/{issue}/reactions")),
            format!("issue `{repository}#{issue}`"),
        )
        .for_action(format!("react to `{repository}#{issue}`"), ISSUES_WRITE)
        .json(json!({ "content": content }));
        // The same reaction again is answered with the one that is there.
        let (reply, _) = self.api.write_repeatable(&call).await?;
        let reply = self.api.good(&call, reply)?;
        Ok(self.api.parse::<Reaction>(&call, &reply)?.id)
    }

    pub(super) async fn take_label_off(
        &self,
        repository: &RepositoryId,
        issue: u64,
        label: &str,
    ) -> Result<bool, ForgeError> {
        let call = Call::write(
            Method::DELETE,
            route(repository, &format!("issues/{issue}/labels/{}", segment(label))),
            format!("label `{label}` on `{repository}#{issue}`"),
        )
        .for_action(format!("remove a label from `{repository}#{issue}`"), ISSUES_WRITE);
        let (reply, perhaps_done) = self.api.write_repeatable(&call).await?;
        // Gone after an attempt whose answer was lost: most likely it was that attempt.
        if reply.status.as_u16() == 404 {
            return Ok(perhaps_done);
        }
        self.api.good(&call, reply).map(|_| true)
    }

    pub(super) async fn put_labels_on(
        &self,
        repository: &RepositoryId,
        number: u64,
        labels: &[String],
    ) -> Result<(), ForgeError> {
        if labels.is_empty() {
            return Ok(());
        }
        let call = Call::write(
            Method::POST,
            route(repository, &format!("issues/{number}/labels")),
            format!("`{repository}#{number}`"),
        )
        .for_action(format!("label `{repository}#{number}`"), ISSUES_WRITE)
        .json(json!({ "labels": labels }));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        self.api.good(&call, reply).map(|_| ())
    }
}

/// An issue that is in another repository now.
fn transferred(repository: &RepositoryId, number: u64, to: Option<String>) -> ForgeError {
    let there = match &to {
        Some(to) => format!("`{to}`; ask for it there"),
        None => "a repository that the token may not see".to_owned(),
    };
    ForgeError::State {
        message: format!("issue `{repository}#{number}` was transferred to {there}"),
        what: StateProblem::Transferred { to },
    }
}
