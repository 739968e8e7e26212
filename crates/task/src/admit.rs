//! Admission of a task: may this actor start it, is there something to do, and what did the issue say when
//! it was triggered? Nothing is written to the forge before access is granted.

use super::run::{DEPTH, Run};
use super::workspace::{self, Workspace};
use super::{collected, left_at_work, resumption};
use crate::context::references::LinkedIssues;
use crate::event::access::{self, AccessConfig, Denied};
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::Config;
use patchwright_forge::{
    Account, Comment, Forge, ForgeError, Issue, Repository, RepositoryId, Role,
};
use patchwright_git::Oid;
use patchwright_types::task::{IssueRequest, IssueSnapshot, PromptRequest, Trigger};

/// Most comments that are read; the newest are kept.
const MAX_COMMENTS: usize = 300;
/// What an account that may not start work can do about it.
const WHO_MAY: &str =
    "ask somebody with write access, or list the bot by its exact login in `allow-bots`";

/// An issue that we may and shall work on.
pub struct AdmittedIssue {
    pub request: IssueRequest,
    pub repository: Repository,
    pub issue: Issue,
    /// Title and body as they stood at the trigger.
    pub snapshot: IssueSnapshot,
    pub comments: Vec<Comment>,
    /// The issues and pull requests that are referred to.
    pub linked: LinkedIssues,
    /// Our own account, when the forge tells.
    pub viewer: Option<Account>,
    /// What the server said when it refused what an earlier run had made of it.
    pub refused_before: Option<String>,
}

/// Checks access and state. Reads only, but for the comment of a killed run on an issue that is not worked on any more.
pub async fn admit(world: &World, config: &Config, request: IssueRequest) -> Result<AdmittedIssue> {
    let (id, number, trigger) = (&request.repository, request.number, request.trigger.as_ref());
    let forge = world.forge()?.as_ref();
    let repository = forge.repository(id).await.map_err(|err| unreachable(id, err))?;
    check_actor(forge, config, &repository.id, trigger).await?;
    not_archived(&repository)?;
    let issue = forge
        .issue(&repository.id, number)
        .await
        .map_err(|err| no_issue(&format!("{id}#{number}"), err))?;
    if let Err(failure) = check_issue(&issue, &format!("{id}#{number}"), "worked on") {
        return Err(left_at_work::ended(world, config, &request, &repository, failure).await);
    }
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    let comments =
        forge.comments(&repository.id, number, MAX_COMMENTS).await.map_err(Failure::from)?;
    let snapshot = trigger
        .and_then(|trigger| trigger.snapshot.clone())
        .unwrap_or_else(|| IssueSnapshot { title: issue.title.clone(), body: issue.body.clone() });
    let linked = LinkedIssues::fetch(forge, &repository, number, &snapshot, &comments).await;
    let linked = linked.as_of(trigger);
    let refused_before = None;
    Ok(AdmittedIssue {
        request,
        repository,
        issue,
        snapshot,
        comments,
        linked,
        viewer,
        refused_before,
    })
}

/// An issue that cannot be read, with what to check where it may not exist.
pub(super) fn no_issue(name: &str, err: ForgeError) -> Failure {
    let missing = matches!(err, ForgeError::NotFound { .. });
    let failure = Failure::from(err);
    if missing { failure.hint(format!("check the number: {name}")) } else { failure }
}

/// Checks that it is an issue, open and not locked. `wanted` is what is to be done with it, such as `worked on`.
pub(super) fn check_issue(issue: &Issue, name: &str, wanted: &str) -> Result<()> {
    if issue.is_pull_request {
        return Err(Failure::usage(format!("{name} is a pull request, not an issue"))
            .hint("give the number of an issue; `patchwright review` reviews pull requests"));
    }
    if !issue.open {
        return Err(Failure::nothing_to_do(format!("issue {name} is closed"))
            .hint(format!("reopen it to have it {wanted}")));
    }
    if issue.locked {
        return Err(Failure::nothing_to_do(format!("issue {name} is locked"))
            .hint(format!("unlock the conversation to have it {wanted}")));
    }
    Ok(())
}

impl AdmittedIssue {
    /// The repository at the branch that the pull request is to be merged into.
    pub(super) async fn open(&self, run: &Run<'_>) -> Result<Workspace> {
        at_base(run, &self.repository, run.config.publish.base.as_deref()).await
    }
}

/// A prompt of the operator that we may follow.
pub struct AdmittedPrompt {
    pub request: PromptRequest,
    pub repository: Repository,
}

/// Checks access and state. Reads only.
pub async fn admit_prompt(
    world: &World,
    config: &Config,
    request: PromptRequest,
) -> Result<AdmittedPrompt> {
    let forge = world.forge()?.as_ref();
    let id = &request.repository;
    let repository = forge.repository(id).await.map_err(|err| unreachable(id, err))?;
    check_actor(forge, config, &repository.id, request.trigger.as_ref()).await?;
    not_archived(&repository)?;
    Ok(AdmittedPrompt { request, repository })
}

impl AdmittedPrompt {
    /// For the pull request of a model whose words do not read like a title: how the prompt begins.
    pub(super) fn title(&self) -> Option<String> {
        let first = self.request.prompt.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(first.to_owned())
    }

    /// The repository at the branch that the pull request is to be merged into.
    pub(super) async fn open(&self, run: &Run<'_>) -> Result<Workspace> {
        at_base(run, &self.repository, self.request.base.as_deref()).await
    }
}

pub(super) async fn at_base(
    run: &Run<'_>,
    repository: &Repository,
    base: Option<&str>,
) -> Result<Workspace> {
    let base = resumption::branch_to_open(run, repository, base).await?;
    // A repository says in its own file what is sparse, which is in the clone; an operator says it before.
    let folders = &run.config.checkout.sparse;
    let open = || Workspace::open_part(run.world, repository, (&base, DEPTH), folders);
    let mut opened = open().await?;
    if let Err(err) = collected::check(run, &opened)
        && err.is_corruption()
        && !err.is_missing()
    {
        run.environment.ui.say(&format!("the clone is damaged and is made anew: {err}"));
        opened
            .repo
            .set_aside()
            .map_err(|err| workspace::failure(err, "cannot replace the clone"))?;
        opened = open().await?;
    }
    let recorded = resumption::recorded_base(&run.folder.recorded);
    if let Some(commit) = recorded.and_then(|base| base.commit.parse::<Oid>().ok())
        && !opened.has(commit)
    {
        // The clone is newer than the run. What cannot be had is told where it is missed.
        let refs = [commit.to_string()];
        let _ = run.world.forge()?.fetch(repository, opened.repo.path(), &refs, DEPTH).await;
    }
    run.pinned(opened)
}

fn not_archived(repository: &Repository) -> Result<()> {
    if !repository.archived {
        return Ok(());
    }
    let hint = "unarchive the repository in its settings, or choose another one";
    Err(archived(&repository.id).hint(hint))
}

/// Nobody can push to an archived repository.
pub fn archived(repository: &RepositoryId) -> Failure {
    Failure::forge(format!("`{repository}` is archived, so nothing can be pushed to it"))
}

/// Whether the account is ours; `false` for every account when the forge does not tell who we are. Other workflows
/// may write as the same account, so the markers in a comment are trusted only when it is [`Comment::ours`].
pub fn is_us(viewer: Option<&Account>, author: &Account) -> bool {
    viewer.is_some_and(|viewer| viewer.is_same(author))
}

/// While the model worked, the repository may have been renamed or deleted, and its name taken by another one, which must
/// not be given what was made for this one. Campaigns, which may wait for days, follow it by its id
/// ([`patchwright_forge::same_repository`]).
///
/// # Errors
/// When that is so, or the forge does not say.
pub(super) async fn must_be_same(forge: &dyn Forge, repository: &Repository) -> Result<()> {
    let id = &repository.id;
    let now = forge.repository(id).await.map_err(Failure::from)?;
    let is_known = !now.node_id.is_empty() && !repository.node_id.is_empty();
    if is_known && now.node_id != repository.node_id {
        return Err(Failure::refused(format!(
            "another repository has taken the name `{id}` since the work began, so nothing was published"
        ))
        .hint("see what became of the one that was worked on: it was renamed, transferred or deleted"));
    }
    Ok(())
}

/// The actor of the trigger must have write access; a person at the command line is the operator.
pub async fn check_actor(
    forge: &dyn Forge,
    config: &Config,
    repository: &RepositoryId,
    trigger: Option<&Trigger>,
) -> Result<()> {
    let Some(trigger) = trigger else { return Ok(()) };
    let rules = access_rules(config);
    for login in std::iter::once(&trigger.actor).chain(&trigger.rerun_by) {
        let actor = Account::of(login);
        let may_not = |why: &str| format!("`{login}` may not start work in `{repository}`: {why}");
        match access::check(forge, repository, &actor, &rules).await {
            Ok(_) => {}
            Err(Denied::Unknown(failure)) => {
                let message = may_not(&failure.message);
                let failure = Failure { message, ..*failure };
                let is_final = failure.kind == FailureKind::Refused;
                return Err(if is_final { failure.hint(WHO_MAY) } else { failure });
            }
            Err(Denied::NoRight(why)) => {
                return Err(Failure::stranger(may_not(&why)).hint(WHO_MAY));
            }
        }
    }
    Ok(())
}

/// Who may set us to work.
pub(super) fn access_rules(config: &Config) -> AccessConfig {
    AccessConfig {
        allow_users: config.access.allow_users.clone(),
        allow_bots: config.access.allow_bots.clone(),
        minimum: Role::Write,
    }
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
