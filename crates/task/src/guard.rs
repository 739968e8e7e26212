//! What would be refused at the end, found out before the agent is paid for: rules of the repository about names
//! of branches, addresses of authors and signatures.

use super::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_config::publish::Signing;
use patchwright_forge::{BranchRule, Forge, Repository, RepositoryId, RuleKind};
use patchwright_policy::names::Patterns;

/// Whether a branch is there already, so that its name is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch<'a> {
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
const PUSH: &str = "contents: write";

/// # Errors
/// When we are known to lack one of these permissions, which the run would need at its end.
pub(super) async fn permitted(
    forge: &dyn Forge,
    repository: &RepositoryId,
    needs: &[&'static str],
) -> Result<()> {
    let missing = forge.missing_permission(repository, needs).await.map_err(Failure::from)?;
    let Some(missing) = missing else { return Ok(()) };
    let message =
        format!("the GitHub App's installation with `{repository}` does not grant `{missing}`");
    Err(Failure::forge(message).hint(
        "give the App that permission in its settings, and have it accepted where it is installed",
    ))
}

/// # Errors
/// When what comes of the run could not be pushed to the branch.
pub(super) async fn check(
    run: &Run<'_>,
    repository: &Repository,
    branch: Branch<'_>,
) -> Result<()> {
    let config = &run.config;
    if config.commits.require_verified && config.commits.signing == Signing::None {
        return Err(Failure::refused(
            "`commits.require-verified` wants verified commits, and nobody signs them",
        )
        .hint(SIGN));
    }
    if let Branch::Ours(name) = branch
        && let Some(unmet) = Patterns::new(&config.policy.branches).unmet(name)
    {
        return Err(Failure::refused(format!(
            "the branch `{name}` is not as `policy.branches` wants it: {unmet}"
        ))
        .hint("choose another name with `--branch`"));
    }
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
            Some(Failure::refused(message).hint("choose another name with `--branch`"))
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
