//! Whose commits a branch has, which decides whether we may replace it.
//!
//! Called before a branch is written, by the publishers of a single run and of a campaign. All commits
//! that the branch has and its base has not are looked at, not only the last one.

use super::workspace::may_be_replaced;
use patchwright_forge::{Comparison, Forge, ForgeError, Repository, RepositoryId};
use patchwright_git::clone::Repo;
use patchwright_git::commit::{self, CommitFacts};
use patchwright_git::{GitError, Oid, blocking};

/// Commits of ours that are followed back from a branch's tip.
const MOST_COMMITS: u32 = 50;

/// Whose a branch is.
#[derive(Clone, Debug, PartialEq)]
pub enum BranchState {
    Absent,
    /// Nothing on it is anybody else's, and nothing was asked for on its pull request.
    Ours {
        tip: Oid,
        facts: CommitFacts,
    },
    /// `commit` is not ours, or a person has asked for it on the pull request, and the base has not got it.
    Theirs {
        tip: Oid,
        commit: Oid,
    },
}

/// What is needed to look at a branch.
pub struct BranchLookup<'a> {
    pub forge: &'a dyn Forge,
    pub repository: &'a Repository,
    /// Where the base branch is: the repository itself, or what it is a fork of.
    pub upstream: &'a RepositoryId,
    /// Our bare repository, which has `base`.
    pub repo: &'a Repo,
    pub base: Oid,
    pub base_branch: &'a str,
    /// The committer of our commits.
    pub email: &'a str,
}

impl BranchLookup<'_> {
    /// Looks at a branch; what it points to is fetched.
    pub async fn state(&self, branch: &str) -> Result<BranchState, ForgeError> {
        let Some(tip) = self.forge.branch_tip(&self.repository.id, branch).await? else {
            return Ok(BranchState::Absent);
        };
        let refs = [branch.to_owned()];
        let fetched =
            self.forge.fetch(self.repository, self.repo.path(), &refs, MOST_COMMITS).await;
        match fetched {
            Ok(()) => {}
            // Deleted since we asked.
            Err(ForgeError::NotFound { .. }) => return Ok(BranchState::Absent),
            Err(err) => return Err(err),
        }
        let (repo, base, email) = (self.repo.clone(), self.base, self.email.to_owned());
        let looked = blocking(move || {
            let ours = |facts: &CommitFacts| may_be_replaced(facts, &email);
            Ok((commit::read(&repo, tip)?, commit::follow(&repo, tip, base, MOST_COMMITS, &ours)?))
        });
        let (facts, other) = looked.await.map_err(in_words)?;
        match other {
            Some(commit) if !self.base_has(commit).await? => {
                Ok(BranchState::Theirs { tip, commit })
            }
            _ => Ok(BranchState::Ours { tip, facts }),
        }
    }

    /// The forge knows all of history; we may have the end of it only. What the default branch has is no work that would
    /// be lost either: ours stood on it before its pull request was moved to another base.
    async fn base_has(&self, commit: Oid) -> Result<bool, ForgeError> {
        let (commit, default) = (commit.to_string(), self.repository.default_branch.as_str());
        let bases = [Some(self.base_branch), Some(default).filter(|it| *it != self.base_branch)];
        for base in bases.into_iter().flatten() {
            let compared = self.forge.compare(self.upstream, base, &commit).await?;
            if matches!(compared, Comparison::Identical | Comparison::Behind) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn in_words(error: GitError) -> ForgeError {
    match error {
        GitError::Machine(message) => ForgeError::Machine { message },
        error => ForgeError::Git { message: error.to_string() },
    }
}
