//! The repository as it is now, with the change in it: what the publisher looks at before it writes.

use std::sync::Arc;

use super::vetted::{MovedBase, StoredChange, VettedChange};
use super::{PublishError, PublishOutcome, PublishResult, Publisher};
use crate::batch::campaign::Repeat;
use crate::batch::{selection, stored};
use patchwright_base::error::Failure;
use patchwright_forge::{Comparison, Forge, Repository, RepositoryId, same_repository};
use patchwright_git::clone::{DEFAULT_DEPTH, Repo, mirror};
use patchwright_git::merge::{BaseComparison, compare_with_base};
use patchwright_git::{Oid, blocking, commit};
use patchwright_task::{admit, guard};
use patchwright_types::campaign::{ErrorClass, TargetState};

/// The repository as it is now, and our copy of what matters.
pub(super) struct RepositorySnapshot {
    pub(super) repository: Repository,
    pub(super) repo: Repo,
    /// Where the pull request goes.
    pub(super) base_branch: String,
    /// What is published.
    pub(super) vetted: VettedChange,
    /// Remarks about the repository and its base, for the target's reason.
    pub(super) said: Option<String>,
}

impl Publisher<'_> {
    pub(super) fn repository_id(&self) -> PublishResult<RepositoryId> {
        self.changeset
            .repository
            .parse()
            .map_err(|message| PublishError::Final { class: ErrorClass::Internal, message })
    }

    /// The repository, our copy of it with the base and the change, and the branch to merge into.
    pub(super) async fn open_place(
        &self,
    ) -> PublishResult<std::result::Result<RepositorySnapshot, PublishOutcome>> {
        let id = self.repository_id()?;
        let node_id = self.target.repository_id.as_deref();
        let repository = same_repository(self.forge.as_ref(), &id, node_id).await?;
        let names = [id.to_string(), repository.id.to_string()];
        let [recorded, now] = &names;
        if let Some(message) =
            selection::refusal(self.fleet, &self.campaign, recorded, Some(now), node_id).await?
        {
            return Err(PublishError::Final { class: ErrorClass::Policy, message });
        }
        if repository.archived {
            let message = admit::archived(&repository.id).message;
            return Err(PublishError::Final { class: ErrorClass::Access, message });
        }
        let mut said = Vec::new();
        // GitHub follows renames, so the answer may name another repository than the one asked
        // about.
        if repository.id != id {
            self.renamed(&repository).await?;
            said.push(format!("`{id}` is called `{}` now", repository.id));
        }
        let base_branch = self.base_branch(&repository, &mut said).await?;
        let (state, url) = (self.fleet.state.clone(), repository.clone_url.clone());
        let repo = blocking(move || mirror(&state, &url)).await?;
        for reference in [self.changeset.base_sha.clone(), base_branch.clone()] {
            let refs = [reference];
            self.forge.fetch(&repository, repo.path(), &refs, DEFAULT_DEPTH).await?;
        }
        let (copy, pack, commit) = (repo.clone(), self.changeset.pack.clone(), self.commit);
        let unpacked =
            tokio::task::spawn_blocking(move || stored::unpack(&copy, &pack, commit)).await;
        let unpacked = unpacked.unwrap_or_else(|error| Err(Failure::internal(error.to_string())));
        unpacked.map_err(|failure| PublishError::Final {
            class: ErrorClass::Internal,
            message: format!("the stored change cannot be read: {}", failure.message),
        })?;
        self.must_be_on(&repository, &repo, &base_branch).await?;
        let (tip, compared) = self.compared(&repo, &base_branch).await?;
        let conflicts = compared == BaseComparison::Conflicts;
        let moved = (tip != self.base).then_some(MovedBase { tip, conflicts });
        let vetted = self.vet(&repository, &repo, &base_branch, moved).await?;
        guard::settings(&vetted.config, guard::Branch::Ours(&self.campaign.branch()))
            .map_err(|failure| PublishError::refused(&failure))?;
        match compared {
            BaseComparison::Same | BaseComparison::Clean => {}
            BaseComparison::Contained => {
                let reason = format!("`{base_branch}` has this change already");
                let state = TargetState::Unchanged;
                return Ok(Err(PublishOutcome::Settled { state, reason, pull: None }));
            }
            BaseComparison::Conflicts => said.push(format!(
                "`{base_branch}` has moved since and conflicts with the change, which is proposed \
                 on the commit that it was made on; {}",
                self.made_anew(&repository)
            )),
        }
        let said = (!said.is_empty()).then(|| said.join("; "));
        Ok(Ok(RepositorySnapshot { repository, repo, base_branch, vetted, said }))
    }

    /// How the change is made on the commit where the base branch is now.
    fn made_anew(&self, repository: &Repository) -> String {
        match self.campaign.repeats() {
            Repeat::Never => format!(
                "`patchwright batch retry {} --repository {} --run` makes it anew",
                self.campaign.id(),
                repository.id
            ),
            Repeat::WhenMoved | Repeat::EveryMove => {
                "the next run of the campaign makes it anew".to_owned()
            }
        }
    }

    /// Where the base branch is, and how the change stands to that.
    async fn compared(&self, repo: &Repo, branch: &str) -> PublishResult<(Oid, BaseComparison)> {
        let (copy, name) = (repo.clone(), branch.to_owned());
        // What is published has the tree of the stored commit.
        let (commit, base) = (self.commit, self.base);
        let compared = blocking(move || {
            let tip = copy.resolve(&name)?;
            Ok((tip, compare_with_base(&copy, base, tip, commit)?))
        });
        Ok(compared.await?)
    }

    /// The target follows its repository: pages, and looks at its pull request, go by the name.
    async fn renamed(&self, repository: &Repository) -> PublishResult<()> {
        let Some(id) = &self.target.repository_id else { return Ok(()) };
        let name = repository.id.to_string();
        Ok(self.fleet.store.rename_target(self.target.id, id, &name).await?)
    }

    /// The change has to be made on a commit of the branch that it goes to: otherwise everything between
    /// the two would be proposed with it, unseen.
    async fn must_be_on(
        &self,
        repository: &Repository,
        repo: &Repo,
        branch: &str,
    ) -> PublishResult<()> {
        let (copy, name, base) = (repo.clone(), branch.to_owned(), self.base);
        let is_here =
            blocking(move || commit::is_within(&copy, base, copy.resolve(&name)?)).await?;
        if is_here {
            return Ok(());
        }
        // The local copy has a limited depth; GitHub knows all of history.
        let compared = self.forge.compare(&repository.id, branch, &self.base.to_string()).await?;
        if matches!(compared, Comparison::Identical | Comparison::Behind) {
            return Ok(());
        }
        let message = format!(
            "commit {}, on which the change was made, is not on `{branch}`: run the campaign again",
            self.base.short()
        );
        Err(PublishError::Final { class: ErrorClass::Publish, message })
    }

    async fn vet(
        &self,
        repository: &Repository,
        repo: &Repo,
        branch: &str,
        moved: Option<MovedBase>,
    ) -> PublishResult<VettedChange> {
        let name = repository.id.to_string();
        let config = self.campaign.overlay(self.fleet.config.clone(), &name, branch);
        let config = config.map_err(|failure| PublishError::Final {
            class: ErrorClass::Configuration,
            message: failure.message,
        })?;
        let stored = StoredChange {
            campaign: self.campaign.clone(),
            config,
            changeset: self.changeset.clone(),
            repository: repository.clone(),
            base_branch: branch.to_owned(),
            base: self.base,
            moved,
            commit: self.commit,
            redactor: Arc::clone(&self.fleet.redactor),
        };
        let copy = repo.clone();
        let vetted = tokio::task::spawn_blocking(move || stored.vet(&copy)).await;
        vetted.unwrap_or_else(|error| {
            let class = ErrorClass::Internal;
            Err(PublishError::Final { class, message: error.to_string() })
        })
    }

    /// The branch that the campaign says: its own, or the default branch of today.
    async fn base_branch(
        &self,
        repository: &Repository,
        said: &mut Vec<String>,
    ) -> PublishResult<String> {
        let recorded = &self.target.base_branch;
        if let Some(base) = &self.campaign.publish.base {
            if self.forge.branch_tip(&repository.id, base).await?.is_none() {
                let message = format!("branch `{base}`, which the change is for, is gone");
                return Err(PublishError::Final { class: ErrorClass::Publish, message });
            }
            return Ok(base.clone());
        }
        let now = &repository.default_branch;
        if now.is_empty() {
            let message = format!("branch `{recorded}`, which the change is for, is gone");
            return Err(PublishError::Final { class: ErrorClass::Publish, message });
        }
        if recorded != now {
            let is_there = self.forge.branch_tip(&repository.id, recorded).await?.is_some();
            let how = if is_there { "is no longer the default branch" } else { "is gone" };
            said.push(format!("`{recorded}` {how}, so the change is proposed to `{now}`"));
        }
        Ok(now.clone())
    }
}
