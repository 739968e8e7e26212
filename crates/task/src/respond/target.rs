//! The branch of a pull request, as something to push to.

use super::admit::AdmittedCommand;
use super::own_commits::IsForeign;
use crate::guard;
use crate::run::Run;
use crate::signing::Signer;
use patchwright_base::error::{Failure, Result};
use patchwright_config::publish::Signing;
use patchwright_forge::{ForgeError, PullRequest, Repository};

/// The branch of a pull request.
pub(super) struct Target {
    pub(super) repository: Repository,
    pub(super) branch: String,
    /// What it is proposed to.
    base_branch: String,
    pub(super) is_foreign: IsForeign,
    /// The repository of the pull request itself.
    upstream: Repository,
}

impl Target {
    /// In a fork of somebody else's, no branch can be made to ask about signatures on.
    pub(super) fn signer<'a>(&'a self, run: &'a Run<'_>) -> Result<Signer<'a>> {
        let asked_at = (self.is_foreign == IsForeign::Yes).then_some(&self.upstream);
        Ok(Signer { asked_at, ..Signer::of(run)? })
    }

    /// Where the pull request goes by now, when that is not where it went.
    pub(super) fn moved_to(&self, pull: &PullRequest) -> Option<&str> {
        let now = self.base_branch.as_str();
        (now != pull.base_branch).then_some(now)
    }
}

/// Where the change goes, or why it cannot go anywhere.
pub(super) async fn target(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<Result<Target, String>> {
    let (branch, base_branch) = (pull.head_branch.clone(), pull.base_branch.clone());
    // What would read like an option is pushed to nowhere.
    if branch.starts_with('-') {
        return Ok(Err(format!("`{branch}` is no name of a branch that can be pushed to")));
    }
    if !pull.is_fork {
        let repository = admitted.repository.clone();
        if branch == repository.default_branch {
            return Ok(Err(format!(
                "`{branch}` is the default branch, and nothing is pushed to it"
            )));
        }
        let upstream = repository.clone();
        return Ok(Ok(Target {
            repository,
            branch,
            base_branch,
            is_foreign: IsForeign::No,
            upstream,
        }));
    }
    let Some(fork) = &pull.head_repository else {
        return Ok(Err("the fork that the pull request came from is gone".to_owned()));
    };
    let is_foreign = IsForeign::of(run, admitted, pull);
    if is_foreign == IsForeign::Yes && !pull.maintainer_can_modify {
        return Ok(Err(format!("`{fork}` does not let maintainers push to its branch")));
    }
    match run.world.forge()?.repository(fork).await {
        Ok(repository) => {
            let upstream = admitted.repository.clone();
            Ok(Ok(Target { repository, branch, base_branch, is_foreign, upstream }))
        }
        Err(ForgeError::NotFound { .. } | ForgeError::Forbidden { .. }) => {
            Ok(Err(format!("`{fork}` cannot be read with this token")))
        }
        Err(err) => Err(Failure::from(err).hint(run.files_hint())),
    }
}

/// Why nothing can be pushed to the fork of a pull request of ours, as far as that is known before there is anything.
pub(super) async fn unreachable(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<Option<String>> {
    if !pull.is_fork {
        return Ok(None);
    }
    let Target { repository, is_foreign, .. } = match target(run, admitted, pull).await? {
        Ok(target) => target,
        Err(why) => return Ok(Some(why)),
    };
    if repository.archived {
        return Ok(Some(format!(
            "`{}` is archived, so nothing can be pushed to it",
            repository.id
        )));
    }
    let is_ours = is_foreign == IsForeign::No;
    let may_not = is_ours && repository.can_push == Some(false);
    Ok(may_not.then(|| format!("the token may not push to `{}`", repository.id)))
}

/// What would be refused at the end, found out before anything is paid for. A fork that takes no push from us is not
/// refused: the change is handed over as a patch, which whoever owns the fork can apply.
///
/// # Errors
/// When that is known of the branch.
pub(super) async fn guard(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<()> {
    let branch = guard::Branch::There(&pull.head_branch);
    if !pull.is_fork {
        return guard::check(run, &admitted.repository, branch).await;
    }
    guard::settings(&run.config, branch)?;
    let Ok(Target { repository, is_foreign, .. }) = target(run, admitted, pull).await? else {
        return Ok(());
    };
    let id = &repository.id;
    if repository.archived {
        let message = format!("the fork `{id}` is archived, so nothing can be pushed to it");
        let hint = "have it unarchived, or ask for the change in an issue";
        return Err(Failure::refused(message).hint(hint));
    }
    match is_foreign {
        IsForeign::Yes if run.config.commits.signing == Signing::Github => {
            let message = format!(
                "commits are to be signed by GitHub, which makes none for us in the fork `{id}` of somebody else"
            );
            Err(Failure::refused(message).hint(SIGN_OTHERWISE))
        }
        IsForeign::Yes => Ok(()),
        IsForeign::No if repository.can_push == Some(false) => {
            let message = format!("the token may not push to the fork `{id}`");
            let hint = "use a token of the account that the fork belongs to";
            Err(Failure::refused(message).hint(hint))
        }
        IsForeign::No => guard::check(run, &repository, branch).await,
    }
}

/// As [`guard`], for what takes the place of commits that are there.
///
/// # Errors
/// When a rule is known that refuses it.
pub(super) async fn may_rewrite(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<()> {
    let Ok(Target { repository, branch, .. }) = target(run, admitted, pull).await? else {
        return Ok(());
    };
    guard::may_rewrite(run, &repository, &branch).await
}

/// GitHub signs what it makes over its API, and maintainers may do no more in a fork than push. A branch of the repository
/// itself is no way around that: a stranger's commits would be on it, and its workflows would run them with its secrets.
const SIGN_OTHERWISE: &str = "set `commits.signing` to `ssh` with a key in `PATCHWRIGHT_SIGNING_KEY`, or ask for the \
                              change in an issue";
