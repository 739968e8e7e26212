//! What would be refused at the end, found out before the agent is paid for: rules of the repository about names
//! of branches, addresses of authors and signatures.

use super::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_config::publish::Signing;
use patchwright_forge::{BranchRule, Forge, ForgeError, Repository, RepositoryId, RuleKind};
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
        return Err(Failure::refused(
            "`commits.require-verified` wants verified commits, and nobody signs them",
        )
        .hint(SIGN));
    }
    let Branch::Ours(name) = branch else { return Ok(()) };
    let patterns = Patterns::new(&config.policy.branches);
    let Some(unmet) = patterns.unmet(name) else { return Ok(()) };
    Err(Failure::refused(format!(
        "the branch `{name}` is not as `policy.branches` wants it: {unmet}"
    ))
    .hint("choose another name with `--branch`, in a campaign with `publish.branch`"))
}

/// # Errors
/// When what comes of the run could not be pushed to the branch.
pub(super) async fn check(
    run: &Run<'_>,
    repository: &Repository,
    branch: Branch<'_>,
) -> Result<()> {
    settings(&run.config, branch)?;
    let forge = run.world.forge()?;
    permitted(forge.as_ref(), &repository.id, &[PUSH]).await?;
    let rules = forge.branch_rules(&repository.id, branch.name()).await.map_err(Failure::from)?;
    for rule in &rules {
        let Some(problem) = problem(run, branch, rule) else { continue };
        // Asked only when it matters: most rules are kept.
        if !forge.may_bypass(&repository.id, rule).await.map_err(Failure::from)? {
            return Err(problem);
        }
    }
    Ok(())
}

const SIGN: &str = "set `commits.signing` to `github` to have GitHub sign them, or to `ssh` with a key in \
                    `PATCHWRIGHT_SIGNING_KEY`";

/// What the rule has against what the run would push.
fn problem(run: &Run<'_>, branch: Branch<'_>, rule: &BranchRule) -> Option<Failure> {
    let (config, name) = (&run.config, branch.name());
    let source: String = rule.source.chars().filter(|c| !c.is_control()).take(200).collect();
    let of = format!("a rule of `{source}`");
    match &rule.kind {
        RuleKind::SignedCommits if config.commits.signing == Signing::None => Some(
            Failure::refused(format!(
                "{of} takes signed commits only on `{name}`, and nobody signs them"
            ))
            .hint(SIGN),
        ),
        RuleKind::BranchName(text) if !text.holds(name) && matches!(branch, Branch::Ours(_)) => {
            let message = format!("{of} refuses the branch `{name}`: its name {}", text.words());
            Some(
                Failure::refused(message).hint(
                    "choose another name with `--branch`, in a campaign with `publish.branch`",
                ),
            )
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
        RuleKind::SignedCommits
        | RuleKind::BranchName(_)
        | RuleKind::Message(_)
        | RuleKind::AuthorEmail(_)
        | RuleKind::CommitterEmail(_) => None,
    }
}
