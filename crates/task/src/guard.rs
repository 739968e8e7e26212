//! What would be refused at the end, found out before the agent is paid for: rules of the repository about names
//! of branches, addresses of authors and signatures.

use super::run::Run;
use super::signing::{SIGN, Signer, UNSIGNED};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_config::publish::Signing;
use patchwright_forge::{
    BranchRule, Forge, ForgeError, Repository, RepositoryId, RuleKind, TextRule, staging_branch,
};
use patchwright_git::clone::collide;
use patchwright_policy::names::Patterns;

/// Whether a branch is there already, so that its name is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch<'a> {
    /// One that we make.
    Ours(&'a str),
    /// The branch of a pull request that somebody has opened.
    There(&'a str),
}

impl<'a> Branch<'a> {
    fn name(self) -> &'a str {
        match self {
            Branch::Ours(name) | Branch::There(name) => name,
        }
    }
}

/// What it takes to open a pull request, or to say something on one.
pub(super) const PULLS: &str = "pull-requests: write";
/// What it takes to push.
pub(super) const PUSH: &str = "contents: write";

/// # Errors
/// When a pull request could not be opened in the end.
pub(super) async fn may_propose(forge: &dyn Forge, repository: &Repository) -> Result<()> {
    takes_pulls(forge, repository).await?;
    permitted(forge, &repository.id, &[PULLS]).await
}

/// # Errors
/// When pull requests are turned off, or are not taken from us.
pub(super) async fn takes_pulls(forge: &dyn Forge, repository: &Repository) -> Result<()> {
    let id = &repository.id;
    if repository.refuses_pulls {
        let message = format!("pull requests are turned off in `{id}`");
        let hint = "turn them on in its settings (General, Features), or have the change only made, with `--dry-run`";
        return Err(Failure::forge(message).hint(hint));
    }
    if repository.pulls_by_collaborators_only
        && repository.can_push == Some(false)
        // What an app may is in its permissions.
        && forge.viewer().await.map_err(Failure::from)?.is_some_and(|us| !us.is_machine())
    {
        let message = format!(
            "`{id}` takes pull requests from nobody but those who may push to it, and the token's account may not"
        );
        let hint = "ask for write access, have its settings (General, Features) let everybody open pull requests, \
                    or have the change only made, with `--dry-run`";
        return Err(Failure::forge(message).hint(hint));
    }
    Ok(())
}

/// # Errors
/// When we are known to lack one of these permissions, which the run would need at its end.
pub(super) async fn permitted(
    forge: &dyn Forge,
    repository: &RepositoryId,
    needs: &[&'static str],
) -> Result<()> {
    match missing(forge, repository, needs).await.map_err(Failure::from)? {
        Some(missing) => Err(missing),
        None => Ok(()),
    }
}

/// The first of these permissions that we are known to lack, as a failure.
///
/// # Errors
/// When the forge cannot be asked.
pub(super) async fn missing(
    forge: &dyn Forge,
    repository: &RepositoryId,
    needs: &[&'static str],
) -> std::result::Result<Option<Failure>, ForgeError> {
    let Some(missing) = forge.missing_permission(repository, needs).await? else { return Ok(None) };
    let message =
        format!("the GitHub App's installation with `{repository}` does not grant `{missing}`");
    Ok(Some(Failure::forge(message).hint(
        "give the App that permission in its settings, and have it accepted where it is installed",
    )))
}

/// What the configuration itself says against a push to the branch, whatever the repository has for rules.
///
/// # Errors
/// When it is not to be made: nobody signs what has to be verified, or the name is not as it is wanted.
pub fn settings(config: &Config, branch: Branch<'_>) -> Result<()> {
    if config.commits.require_verified && config.commits.signing == Signing::None {
        return Err(Failure::refused(UNSIGNED).hint(SIGN));
    }
    let Branch::Ours(name) = branch else { return Ok(()) };
    let patterns = Patterns::new(&config.policy.branches);
    let Some(unmet) = patterns.unmet(name) else { return Ok(()) };
    Err(Failure::refused(format!(
        "the branch `{name}` is not as `policy.branches` wants it: {unmet}"
    ))
    .hint(OTHER_NAME))
}

/// Why what comes of a run could not be pushed.
pub(super) enum GuardError {
    /// Settings or rules are against it.
    Failure(Failure),
    /// The forge says so itself, or cannot be asked.
    Forge(ForgeError),
}

impl From<Failure> for GuardError {
    fn from(failure: Failure) -> GuardError {
        GuardError::Failure(failure)
    }
}

impl From<ForgeError> for GuardError {
    fn from(err: ForgeError) -> GuardError {
        GuardError::Forge(err)
    }
}

impl From<GuardError> for Failure {
    fn from(err: GuardError) -> Failure {
        match err {
            GuardError::Failure(failure) => failure,
            GuardError::Forge(err) => err.into(),
        }
    }
}

/// # Errors
/// When what comes of the run could not be pushed to the branch.
pub(super) async fn check(
    run: &Run<'_>,
    repository: &Repository,
    branch: Branch<'_>,
) -> Result<()> {
    Ok(refusal(run, repository, branch).await?)
}

/// [`check`], with what the forge itself said.
///
/// # Errors
/// When what comes of the run could not be pushed to the branch.
pub(super) async fn refusal(
    run: &Run<'_>,
    repository: &Repository,
    branch: Branch<'_>,
) -> std::result::Result<(), GuardError> {
    settings(&run.config, branch)?;
    let forge = run.world.forge()?;
    if let Some(missing) = missing(forge.as_ref(), &repository.id, &[PUSH]).await? {
        return Err(missing.into());
    }
    let is_there = move || async move {
        match branch {
            Branch::There(_) => Ok(true),
            Branch::Ours(name) => {
                forge.branch_tip(&repository.id, name).await.map(|tip| tip.is_some())
            }
        }
    };
    let rules = forge.branch_rules(&repository.id, branch.name());
    // What a rule refuses is said first: it names the branch.
    let (rules, pushed) = tokio::join!(rules, forge.may_push(repository));
    for rule in rules? {
        let problem = match &rule.kind {
            RuleKind::Creation if !is_there().await? => {
                Some(closed(&rule, branch.name(), "made").hint(OTHER_NAME))
            }
            // A branch of ours that takes no push stays as it is, and another one is used.
            RuleKind::Update if matches!(branch, Branch::There(_)) => {
                Some(closed(&rule, branch.name(), "pushed to").hint(BYPASS))
            }
            _ => problem(run, branch, &rule),
        };
        unless_bypassed(run, repository, &rule, problem).await?;
    }
    pushed?;
    Ok(staging(run, repository).await?)
}

/// # Errors
/// When commits of the branch could not be replaced by others, as far as we may know the rules.
pub(super) async fn may_rewrite(
    run: &Run<'_>,
    repository: &Repository,
    branch: &str,
) -> Result<()> {
    let rules = run.world.forge()?.branch_rules(&repository.id, branch).await;
    for rule in rules.map_err(Failure::from)? {
        let is_against = matches!(rule.kind, RuleKind::ForcePush);
        let problem = is_against.then(|| closed(&rule, branch, "rewritten").hint(MERGE));
        unless_bypassed(run, repository, &rule, problem).await?;
    }
    Ok(())
}

/// The branch that signing takes is a branch, too.
async fn staging(run: &Run<'_>, repository: &Repository) -> Result<()> {
    if !Signer::of(run)?.stages().await.map_err(Failure::from)? {
        return Ok(());
    }
    let name = staging_branch(&run.folder.id);
    let forge = run.world.forge()?;
    let beside = forge.branches_beside(repository, std::slice::from_ref(&name)).await;
    let beside = beside.map_err(Failure::from)?;
    if let Some(other) = beside.iter().find(|branch| collide(branch, &name)) {
        let message = format!("no branch can be called `{name}` beside the branch `{other}`");
        return Err(Failure::refused(message).hint(format!(
            "commits are signed and verified on such a branch before they are pushed: delete or rename `{other}`"
        )));
    }
    let rules = forge.branch_rules(&repository.id, &name).await;
    for rule in rules.map_err(Failure::from)? {
        let problem = match &rule.kind {
            RuleKind::BranchName(text) if !text.holds(&name) => Some(misnamed(&rule, &name, text)),
            RuleKind::Creation => Some(closed(&rule, &name, "made")),
            RuleKind::Update => Some(closed(&rule, &name, "pushed to")),
            _ => None,
        };
        let problem = problem.map(|problem| problem.hint(STAGED));
        unless_bypassed(run, repository, &rule, problem).await?;
    }
    Ok(())
}

/// A problem with a rule that holds for us. Whether it does is asked only when it matters: most rules are kept.
async fn unless_bypassed(
    run: &Run<'_>,
    repository: &Repository,
    rule: &BranchRule,
    problem: Option<Failure>,
) -> Result<()> {
    let Some(problem) = problem else { return Ok(()) };
    let bypassed = run.world.forge()?.may_bypass(&repository.id, rule).await;
    if bypassed.map_err(Failure::from)? { Ok(()) } else { Err(problem) }
}

const OTHER_NAME: &str = "choose another name with `--branch`, in a campaign with `publish.branch`";
const BYPASS: &str = "have the rule except the branch, or let the account of the token bypass it";
const MERGE: &str = "have the rule except the branch, let the account of the token bypass it, or merge the base branch \
                     into this one by hand: that adds a commit and rewrites none";
const STAGED: &str = "commits are signed and verified on such a branch before they are pushed: have the rule except \
                      `patchwright-staging/**`, or let the account of the token bypass it; a GitHub App has GitHub sign \
                      without such a branch";

/// A rule, named for people.
fn of(rule: &BranchRule) -> String {
    let source: String = rule.source.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("a rule of `{source}`")
}

fn misnamed(rule: &BranchRule, name: &str, text: &TextRule) -> Failure {
    let of = of(rule);
    Failure::refused(format!("{of} refuses the branch `{name}`: its name {}", text.words()))
}

fn closed(rule: &BranchRule, name: &str, done: &str) -> Failure {
    Failure::refused(format!("{} does not let the branch `{name}` be {done}", of(rule)))
}

/// What the rule has against what the run would push.
fn problem(run: &Run<'_>, branch: Branch<'_>, rule: &BranchRule) -> Option<Failure> {
    let (config, name) = (&run.config, branch.name());
    let of = of(rule);
    match &rule.kind {
        RuleKind::SignedCommits if config.commits.signing == Signing::None => Some(
            Failure::refused(format!(
                "{of} takes signed commits only on `{name}`, and nobody signs them"
            ))
            .hint(SIGN),
        ),
        RuleKind::BranchName(text) if !text.holds(name) && matches!(branch, Branch::Ours(_)) => {
            Some(misnamed(rule, name, text).hint(OTHER_NAME))
        }
        // Who commits through GitHub has the address of the token's account.
        RuleKind::AuthorEmail(text)
            if config.commits.signing != Signing::Github && !text.holds(&config.identity.email) =>
        {
            let email = &config.identity.email;
            let message = format!(
                "{of} refuses commits of the author `{email}`: the address {}",
                text.words()
            );
            Some(Failure::refused(message).hint("set `identity.email`"))
        }
        RuleKind::CommitterEmail(text)
            if config.commits.signing != Signing::Github
                && !text.holds(config.identity.committer_email()) =>
        {
            let email = config.identity.committer_email();
            let message = format!(
                "{of} refuses commits of the committer `{email}`: the address {}",
                text.words()
            );
            Some(Failure::refused(message).hint("set `identity.committer-email`"))
        }
        // It forbids rewriting a branch, not adding to it; see [`may_rewrite`].
        RuleKind::ForcePush
        | RuleKind::SignedCommits
        | RuleKind::Creation
        | RuleKind::Update
        | RuleKind::BranchName(_)
        | RuleKind::Message(_)
        | RuleKind::AuthorEmail(_)
        | RuleKind::CommitterEmail(_) => None,
    }
}
