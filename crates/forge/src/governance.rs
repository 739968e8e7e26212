//! What a forge does beyond keeping branches and conversations: it signs and verifies commits, has rules for
//! branches, and arranges who looks at a pull request and when it is merged.

use std::path::Path;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{
    Account, BranchRule, ForgeError, PullRequest, Repository, RepositoryId, Staged, Verification,
};
use patchwright_git::Oid;
use patchwright_git::lfs::Pointer;

/// A content that is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingContent {
    pub sha256: String,
    pub why: String,
}

/// A commit of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullCommit {
    pub sha: String,
    /// The account that its author's address belongs to. Whoever commits chooses the address.
    pub author: Option<Account>,
    /// How many commits it follows; a merge follows several.
    pub parents: usize,
    pub message: String,
    pub committed_at: Option<DateTime<Utc>>,
}

impl RepositoryId {
    /// Whether this may be somebody who can review here: a login, or a team (`organisation/team`) of its owner.
    pub fn may_ask(&self, reviewer: &str) -> bool {
        let organisation = reviewer.split_once('/').map(|(organisation, _)| organisation);
        organisation.is_none_or(|organisation| organisation.eq_ignore_ascii_case(&self.owner))
    }
}

/// The part of [`Forge`](super::Forge) that a plain one does without.
#[async_trait]
pub trait Governance: Send + Sync {
    /// Assigns people; returns those who could not be assigned.
    async fn assign(
        &self,
        _repository: &RepositoryId,
        _number: u64,
        logins: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        Ok(logins.to_vec())
    }

    /// Puts it under the open milestone of this title; false when there is none.
    async fn set_milestone(
        &self,
        _repository: &RepositoryId,
        _number: u64,
        _title: &str,
    ) -> Result<bool, ForgeError> {
        Ok(false)
    }

    /// Has the forge merge the pull request when its requirements are met, if `head` is its head then.
    /// `method` is `MERGE`, `SQUASH` or `REBASE`.
    async fn merge_when_ready(
        &self,
        _repository: &RepositoryId,
        _number: u64,
        _head: &str,
        _method: &str,
    ) -> Result<(), ForgeError> {
        Err(ForgeError::state("this forge merges nothing by itself"))
    }

    /// Has the forge not merge the pull request by itself any more; false when it would not have.
    async fn stop_merging(
        &self,
        _repository: &RepositoryId,
        _number: u64,
    ) -> Result<bool, ForgeError> {
        Ok(false)
    }

    /// Has the forge make this commit of the bare repository at `from` once more, and sign it: the same tree,
    /// parents and message, by the account of the token. The new commit is in that repository; no branch points
    /// to it, but perhaps the [staging branch](super::staging_branch) of `key`.
    async fn sign(
        &self,
        _repository: &RepositoryId,
        _from: &Path,
        _commit: Oid,
        _key: &str,
    ) -> Result<Staged<Oid>, ForgeError> {
        Err(ForgeError::state("this forge signs no commits"))
    }

    /// What the forge thinks of the signature of a commit of the bare repository at `from` that it has not got. It is
    /// shown the commit by way of the [staging branch](super::staging_branch) of `key`.
    async fn try_verification(
        &self,
        _repository: &Repository,
        _from: &Path,
        _commit: Oid,
        _key: &str,
    ) -> Result<Staged<Verification>, ForgeError> {
        Ok(Staged::gone(Verification::none()))
    }

    /// Takes away the [staging branch](super::staging_branch) of `key`, where there is one. Why it is still there, for
    /// people.
    async fn unstage(
        &self,
        _repository: &RepositoryId,
        _key: &str,
    ) -> Result<Option<String>, ForgeError> {
        Ok(None)
    }

    /// The address by which commits are a person's on the forge; `None` for bots and where there is none.
    async fn commit_address(&self, _login: &str) -> Result<Option<String>, ForgeError> {
        Ok(None)
    }

    /// What the forge thinks of the signature of a commit that it has.
    async fn verification(
        &self,
        _repository: &RepositoryId,
        _commit: &str,
    ) -> Result<Verification, ForgeError> {
        Ok(Verification::none())
    }

    /// The current name of the repository with this node id, whose former name is `name`; `None` when no repository that
    /// the token can see has the id, or the forge has no ids.
    async fn repository_by_id(
        &self,
        _name: &RepositoryId,
        _node_id: &str,
    ) -> Result<Option<RepositoryId>, ForgeError> {
        Ok(None)
    }

    /// The first of these permissions (`contents: write`) that we are known not to have there. Of most tokens
    /// nothing is known.
    async fn missing_permission(
        &self,
        _repository: &RepositoryId,
        _needs: &[&'static str],
    ) -> Result<Option<&'static str>, ForgeError> {
        Ok(None)
    }

    /// Whether the token may push to the repository at all, as far as that is to be found out without a push. A server
    /// that cannot be asked now has refused nothing.
    ///
    /// # Errors
    /// What a push would be refused with.
    async fn may_push(&self, _repository: &Repository) -> Result<(), ForgeError> {
        Ok(())
    }

    /// The rules that hold for a branch of this name, as far as we may know them.
    async fn branch_rules(
        &self,
        _repository: &RepositoryId,
        _branch: &str,
    ) -> Result<Vec<BranchRule>, ForgeError> {
        Ok(Vec::new())
    }

    /// The fork of a repository that belongs to `owner`, or to our own account: found, or made and waited for.
    /// It has `branch`, or has been there for longer than that; `catch_up` sees to the branch.
    async fn fork(
        &self,
        _upstream: &Repository,
        _owner: Option<&str>,
        _branch: &str,
    ) -> Result<Repository, ForgeError> {
        Err(ForgeError::state("this forge has no forks"))
    }

    /// Has `branch` of a fork contain a commit that the repository has on its own; it is made where the fork lacks it.
    /// What somebody has committed to it stays as it is.
    async fn catch_up(
        &self,
        _upstream: &Repository,
        _fork: &Repository,
        _branch: &str,
        _commit: Oid,
    ) -> Result<(), ForgeError> {
        Ok(())
    }

    /// Brings contents that Git LFS keeps into the bare repository at `into`, each where [`Pointer::place`] says.
    /// Those that are not to be had, with the reason.
    async fn contents(
        &self,
        _repository: &RepositoryId,
        _wanted: &[Pointer],
        _into: &Path,
    ) -> Result<Vec<MissingContent>, ForgeError> {
        Err(ForgeError::state("this forge keeps nothing for Git LFS"))
    }

    /// Whether the rule does not hold for us; what cannot be told counts as no.
    async fn may_bypass(
        &self,
        _repository: &RepositoryId,
        _rule: &BranchRule,
    ) -> Result<bool, ForgeError> {
        Ok(false)
    }

    /// The pull requests in which something has happened since then, open or not, the last changed first.
    async fn pull_requests_since(
        &self,
        _repository: &RepositoryId,
        _since: DateTime<Utc>,
        _most: usize,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        Ok(Vec::new())
    }

    /// The commits of a pull request, oldest first.
    async fn pull_request_commits(
        &self,
        _repository: &RepositoryId,
        _number: u64,
    ) -> Result<Vec<PullCommit>, ForgeError> {
        Ok(Vec::new())
    }
}
