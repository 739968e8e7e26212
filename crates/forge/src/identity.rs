//! One repository, found again although it was renamed or has another owner, and never mistaken for the one
//! that took over its name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Forge, ForgeError, Repository, RepositoryId};

/// The repository with this id, which was called `name` when it was looked at last. Without an id, the one
/// that has the name.
///
/// # Errors
/// [`ForgeError::NotFound`] when it is gone, or we may not see it any more; also when another one has its name.
pub async fn same_repository(
    forge: &dyn Forge,
    name: &RepositoryId,
    node_id: Option<&str>,
) -> Result<Repository, ForgeError> {
    let by_name = forge.repository(name).await;
    let Some(node_id) = node_id.filter(|id| !id.is_empty()) else { return by_name };
    let is_it = |found: &Repository| found.node_id.is_empty() || found.node_id == node_id;
    match &by_name {
        Ok(found) if !is_it(found) => {}
        // A redirect ends when somebody takes the old name; the one that was chosen still has its id.
        Err(ForgeError::NotFound { .. }) => {}
        Ok(_) | Err(_) => return by_name,
    }
    let gone = || match by_name {
        Err(err) => Err(err),
        Ok(_) => Err(ForgeError::NotFound {
            what: format!("another repository is called `{name}` now, and the one that was chosen"),
        }),
    };
    let Some(now) = forge.repository_by_id(name, node_id).await? else { return gone() };
    let found = forge.repository(&now).await?;
    if is_it(&found) { Ok(found) } else { gone() }
}

impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// A pull request as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PullRequestDraft {
    pub title: String,
    pub body: String,
    /// Where the branch is: the repository itself, or a fork of its network.
    pub head_repository: RepositoryId,
    pub head_branch: String,
    pub base_branch: String,
    /// An open pull request with another base is moved to this one.
    pub moves_base: bool,
    pub draft: bool,
}

impl PullRequestDraft {
    /// The branch as the repository that the pull request is for names it: `owner:branch` where it is a fork's.
    pub fn named_from(&self, repository: &RepositoryId) -> String {
        self.head_repository.branch_seen_from(&self.head_branch, repository)
    }
}

impl RepositoryId {
    /// A branch of this repository as another one of its network, or itself, names it.
    pub fn branch_seen_from(&self, branch: &str, repository: &RepositoryId) -> String {
        if self.is_same(repository) {
            branch.to_owned()
        } else {
            format!("{}:{branch}", self.owner)
        }
    }
}
