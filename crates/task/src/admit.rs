//! Admission of a task: may this actor start it, is there something to do, and what did the issue say when
//! it was triggered? Nothing is written to the forge before access is granted.

use super::run::{DEPTH, Run};
use super::workspace::Workspace;
use crate::context::references::Linked;
use crate::event::access::{self, AccessConfig, Denied};
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::{
    Account, Comment, Forge, ForgeError, Issue, Repository, RepositoryId, Role,
};
use patchwright_types::task::{IssueRequest, IssueSnapshot, Trigger};

/// Most comments that are read; the newest are kept.
const MAX_COMMENTS: usize = 300;

/// An issue that we may and shall work on.
pub struct AdmittedIssue {
    pub request: IssueRequest,
    pub repository: Repository,
    pub issue: Issue,
    /// Title and body as they stood at the trigger.
    pub snapshot: IssueSnapshot,
    pub comments: Vec<Comment>,
    /// The issues and pull requests that are referred to.
    pub linked: Linked,
    /// Our own account, when the forge tells.
    pub viewer: Option<Account>,
}

/// Checks access and state. Reads only.
pub async fn admit(world: &World, config: &Config, request: IssueRequest) -> Result<AdmittedIssue> {
    let (id, number, trigger) = (&request.repository, request.number, request.trigger.as_ref());
    let forge = world.forge()?.as_ref();
    let repository = forge.repository(id).await.map_err(|err| unreachable(id, err))?;
    check_actor(forge, config, &repository.id, trigger).await?;
    if repository.archived {
        return Err(Failure::forge(format!(
            "`{}` is archived, so nothing can be pushed to it",
            repository.id
        ))
        .hint("unarchive the repository in its settings, or choose another one"));
    }
    let issue = forge
        .issue(&repository.id, number)
        .await
        .map_err(|err| Failure::from(err).hint(format!("check the number: {id}#{number}")))?;
    if issue.is_pull_request {
        return Err(Failure::usage(format!("{id}#{number} is a pull request, not an issue"))
            .hint("give the number of an issue"));
    }
    if !issue.open {
        return Err(Failure::nothing_to_do(format!("issue {id}#{number} is closed"))
            .hint("reopen it to have it worked on"));
    }
    if issue.locked {
        return Err(Failure::nothing_to_do(format!("issue {id}#{number} is locked"))
            .hint("unlock the conversation to have it worked on"));
    }
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    let comments =
        forge.comments(&repository.id, number, MAX_COMMENTS).await.map_err(Failure::from)?;
    let snapshot = trigger
        .and_then(|trigger| trigger.snapshot.clone())
        .unwrap_or_else(|| IssueSnapshot { title: issue.title.clone(), body: issue.body.clone() });
    let linked = Linked::fetch(forge, &repository, number, &snapshot, &comments).await;
    let linked = linked.as_of(trigger);
    Ok(AdmittedIssue { linked, repository, issue, snapshot, comments, viewer, request })
}

impl AdmittedIssue {
    /// The repository at the branch that the pull request is to be merged into.
    pub(super) async fn open(&self, run: &Run<'_>) -> Result<Workspace> {
        let base = run.config.publish.base.as_deref();
        let base = base.unwrap_or(&self.repository.default_branch);
        run.pinned(Workspace::open(run.world, &self.repository, base, DEPTH).await?)
    }
}

/// The account is ours; where the forge does not tell who we are, none is. Other workflows may write as
/// the same account: what a comment says of itself counts when it is [`Comment::ours`].
pub fn is_us(viewer: Option<&Account>, author: &Account) -> bool {
    viewer.is_some_and(|viewer| viewer.is_same(author))
}

/// The actor of the trigger must have write access; a person at the command line is the operator.
pub async fn check_actor(
    forge: &dyn Forge,
    config: &Config,
    repository: &RepositoryId,
    trigger: Option<&Trigger>,
) -> Result<()> {
    let Some(trigger) = trigger else { return Ok(()) };
    let rules = AccessConfig {
        allow_users: config.access.allow_users.clone(),
        allow_bots: config.access.allow_bots.clone(),
        minimum: Role::Write,
    };
    for login in std::iter::once(&trigger.actor).chain(&trigger.rerun_by) {
        let actor = Account::of(login);
        if let Err(Denied(why)) = access::check(forge, repository, &actor, &rules).await {
            let hint = "ask somebody with write access, or list the bot by its exact login in \
                        `allow-bots`";
            return Err(Failure::refused(format!(
                "`{login}` may not start work in `{repository}`: {why}"
            ))
            .hint(hint));
        }
    }
    Ok(())
}

/// A repository that cannot be read, with what to check.
pub(super) fn unreachable(id: &RepositoryId, err: ForgeError) -> Failure {
    let missing = matches!(err, ForgeError::NotFound { .. });
    let failure = Failure::from(err);
    if missing {
        failure.hint(format!("check the name `{id}`, and that the token may see the repository"))
    } else {
        failure
    }
}
