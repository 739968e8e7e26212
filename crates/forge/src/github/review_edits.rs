//! When the texts of reviews were edited, which only GraphQL tells.

use serde::Deserialize;
use serde_json::json;

use super::GitHubForge;
use super::wire_reviews::{Connection, ReviewEditNode};
use crate::{ForgeError, RepositoryId, ReviewEdits};

/// The newest: a conversation with more reviews than that has settled the older ones.
const EDITS: &str = "query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) { reviews(last: 100) { nodes { IDS lastEditedAt } } }
  }
}";

#[derive(Deserialize)]
struct EditsData {
    repository: Option<RepositoryData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RepositoryData {
    pull_request: Option<PullData>,
}

#[derive(Deserialize)]
struct PullData {
    reviews: Option<Connection<ReviewEditNode>>,
}

impl GitHubForge {
    /// By the reviews' numbers. Nothing is known where there is no GraphQL, or not with this token.
    pub(super) async fn edits_of_reviews(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<ReviewEdits, ForgeError> {
        let thing = format!("when reviews of `{repository}#{number}` were edited");
        let variables =
            json!({ "owner": repository.owner, "name": repository.name, "number": number });
        let about = (repository, thing.as_str());
        let answer = self.ask_with_ids::<EditsData>(EDITS, &variables, about, &mut 0).await;
        let answer = match answer {
            Ok((_, answer)) => answer,
            Err(
                ForgeError::Forbidden { .. }
                | ForgeError::NotFound { .. }
                | ForgeError::Invalid { .. }
                | ForgeError::Malformed { .. },
            ) => return Ok(ReviewEdits::new()),
            Err(err) => return Err(err),
        };
        let pull = answer.data.and_then(|data| data.repository?.pull_request);
        let nodes = pull.and_then(|pull| pull.reviews?.nodes).unwrap_or_default();
        Ok(nodes.into_iter().flatten().filter_map(ReviewEditNode::edited).collect())
    }
}
