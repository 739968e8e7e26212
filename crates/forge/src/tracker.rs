//! What a forge knows of issues beside the one that is worked on: the labels that there are, and other issues.

use async_trait::async_trait;

use super::{ForgeError, Issue, RepositoryId};

/// A label of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub name: String,
    /// Empty where nobody has described it.
    pub description: String,
}

/// The part of [`Forge`](super::Forge) that triage needs. A forge without labels and without a search has
/// nothing to say here.
#[async_trait]
pub trait Tracker: Send + Sync {
    /// The labels that there are, at most `limit`.
    async fn labels(
        &self,
        _repository: &RepositoryId,
        _limit: usize,
    ) -> Result<Vec<Label>, ForgeError> {
        Ok(Vec::new())
    }

    /// Issues of this repository that have words in common, the best first, open and closed, at most `limit`.
    /// Plain words: the operators and qualifiers of the search syntax have no meaning in them.
    async fn issues_about(
        &self,
        _repository: &RepositoryId,
        _words: &[String],
        _match: WordMatch,
        _limit: usize,
    ) -> Result<Vec<Issue>, ForgeError> {
        Ok(Vec::new())
    }
}

/// How many of the words an issue needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordMatch {
    All,
    Any,
}
