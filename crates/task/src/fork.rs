//! Where the branch of a change is pushed to: the repository itself, or a fork of it, for those who may not push to
//! the repository.
//!
//! Decided before the agent is paid for: a fork that cannot be made, and a repository that nobody lets us push to,
//! are found out first. A fork of ours counts as ours afterwards, when its pull request is worked on.

use super::guard;
use super::run::Run;
use super::workspace::Workspace;
use patchwright_base::error::{Failure, Result};
use patchwright_config::publish::Fork;
use patchwright_forge::{Account, ForgeError, PullRequest, Repository};

/// The repository to push to. A fork is made when it does not exist yet, and is brought up to the base commit.
///
/// # Errors
/// When nothing could be pushed at the end.
pub(super) async fn head(
    run: &Run<'_>,
    upstream: &Repository,
    workspace: &Workspace,
) -> Result<Repository> {
    let forge = run.world.forge()?;
    // A fork that no pull request can come from is not made.
    guard::takes_pulls(forge.as_ref(), upstream).await?;
    let owner = match &run.config.publish.fork {
        Fork::Off if is_closed(run, upstream).await? => return Err(no_push(upstream)),
        Fork::Off => return Ok(upstream.clone()),
        Fork::Auto if !is_closed(run, upstream).await? => return Ok(upstream.clone()),
        Fork::Auto => None,
        Fork::Of(owner) if owner.eq_ignore_ascii_case(&upstream.id.owner) => {
            return Err(Failure::usage(format!(
                "`{owner}` has `{}` itself, so it has no fork of it",
                upstream.id
            ))
            .hint("name another account with `--fork`, or leave it out"));
        }
        Fork::Of(owner) => Some(owner.as_str()),
    };
    let branch = &workspace.base_branch;
    let fork = forge.fork(upstream, owner, branch).await.map_err(|err| failed(upstream, err))?;
    forge
        .catch_up(upstream, &fork, branch, workspace.base)
        .await
        .map_err(|err| failed(upstream, err))?;
    run.environment.ui.say(&format!("pushing to the fork `{}`", fork.id));
    Ok(fork)
}

/// A person's token may not push there. What the tokens of apps may, no question tells.
async fn is_closed(run: &Run<'_>, repository: &Repository) -> Result<bool> {
    if repository.can_push != Some(false) {
        return Ok(false);
    }
    let viewer = run.world.forge()?.viewer().await.map_err(Failure::from)?;
    Ok(viewer.is_some_and(|us| !us.is_machine()))
}

fn no_push(repository: &Repository) -> Failure {
    Failure::forge(format!("the token's account may not push to `{}`", repository.id))
        .hint("push to a fork with `--fork auto`, or ask for write access")
}

fn failed(upstream: &Repository, err: ForgeError) -> Failure {
    let hint = match &err {
        ForgeError::Forbidden { .. } => Some(
            "allow forks in the settings of the repository or organisation, or name another owner with `--fork`",
        ),
        ForgeError::State { .. } => {
            Some("see to the fork on GitHub, or name another owner with `--fork`")
        }
        _ => None,
    };
    let failure = Failure::from(err);
    let message = format!("`{}` cannot be worked on in a fork: {}", upstream.id, failure.message);
    let failure = Failure { message, ..failure };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A pull request that we have made from a fork of our own account, or of the one that the operator names: nobody
/// pushes to its branch but us and those who may write to what it is for.
pub(super) fn is_own(fork: &Fork, viewer: Option<&Account>, pull: &PullRequest) -> bool {
    let (Some(us), Some(head)) = (viewer, &pull.head_repository) else { return false };
    let is_ours = match fork {
        Fork::Of(owner) => owner.eq_ignore_ascii_case(&head.owner),
        Fork::Off | Fork::Auto => !us.is_machine() && us.has_login(&head.owner),
    };
    pull.is_fork && us.is_same(&pull.author) && is_ours
}
