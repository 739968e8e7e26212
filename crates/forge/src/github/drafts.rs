//! Turning a pull request into a draft and back, which only GraphQL can.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::graphql::Problem;
use super::http::Call;
use super::token::Scope;
use super::{GitHubForge, PULLS_WRITE, route};
use crate::{ForgeError, RepositoryId};

const TO_DRAFT: &str = "mutation($pull: ID!) {
  convertPullRequestToDraft(input: { pullRequestId: $pull }) { pullRequest { isDraft } }
}";
const TO_READY: &str = "mutation($pull: ID!) {
  markPullRequestReadyForReview(input: { pullRequestId: $pull }) { pullRequest { isDraft } }
}";

#[derive(Deserialize)]
struct PullState {
    #[serde(default)]
    node_id: String,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    state: String,
}

impl GitHubForge {
    pub(super) async fn turn_draft(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: bool,
    ) -> Result<(), ForgeError> {
        let pull = self.draft_state(repository, number).await?;
        if pull.draft == draft {
            return Ok(());
        }
        let what = if draft { "a draft" } else { "ready for review" };
        let action = format!("mark `{repository}#{number}` as {what}");
        if pull.state != "open" {
            let message = format!("cannot {action}: the pull request is closed");
            return Err(ForgeError::state(message));
        }
        let mutation = if draft { TO_DRAFT } else { TO_READY };
        let thing = format!("pull request `{repository}#{number}`");
        let call = self.api.graphql_call(
            mutation,
            &json!({ "pull": pull.node_id }),
            (Scope::of_repository(repository), thing),
        );
        let call = call.for_action(&action, PULLS_WRITE);
        let answer = self.api.mutate::<IgnoredAny>(&call).await;
        let err = match answer {
            Ok(answer) if answer.errors.is_empty() => return Ok(()),
            Ok(answer) if answer.errors.iter().any(Problem::is_about_drafts) => {
                let message = format!("cannot {action}: the repository has no draft pull requests");
                ForgeError::state(message)
            }
            Ok(answer) => self.api.refused(&call, &answer.errors),
            Err(err @ ForgeError::Fenced { .. }) => return Err(err),
            Err(err) => err,
        };
        // Done all the same, by an attempt whose answer was lost or by somebody else.
        match self.draft_state(repository, number).await {
            Ok(now) if now.draft == draft => Ok(()),
            _ => Err(err),
        }
    }

    async fn draft_state(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<PullState, ForgeError> {
        let call = Call::get(
            route(repository, &format!("pulls/{number}")),
            format!("pull request `{repository}#{number}`"),
        );
        self.api.read_json(&call).await
    }
}
