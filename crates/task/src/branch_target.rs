//! The branch that a change goes to, as it is at this moment: whose commits it has decides whether it may be replaced.

use super::branch::{BranchLookup, BranchState};
use super::branch_name::not_the_base;
use super::publish::{Origin, Proposal};
use super::run::Run;
use super::workspace::Workspace;
use super::{failures, kept};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{Repository, RepositoryId};
use patchwright_git::Oid;
use patchwright_types::publish_notes::LeftAlone;

/// Branches that are looked at, one after the other.
const NAMES: usize = 3;
/// The same where each change needs another one.
pub(super) const MOST_NAMES: usize = 10;

/// Whether branches of ours may be replaced by what is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rewriting {
    Allowed,
    /// A rule takes nothing but what is added.
    Refused,
}

/// The branch that the change is pushed to.
pub(super) struct BranchTarget {
    pub branch: String,
    /// What the branch points to now.
    pub tip: Option<Oid>,
    /// The branch already holds this very tree on this very base.
    pub same: Option<Oid>,
    /// The branches of ours that were left alone.
    pub passed: Vec<(String, LeftAlone)>,
}

/// Where a branch is, and how it is now.
pub(super) async fn state_of(
    run: &Run<'_>,
    upstream: &RepositoryId,
    head: &Repository,
    workspace: &Workspace,
    branch: &str,
) -> Result<BranchState> {
    let lookup = BranchLookup {
        forge: run.world.forge()?.as_ref(),
        repository: head,
        upstream,
        repo: &workspace.repo,
        base: workspace.base,
        base_branch: &workspace.base_branch,
        email: run.config.identity.committer_email(),
    };
    let state = lookup.state(branch).await;
    state.map_err(|error| failures::of_forge(format!("cannot look at `{branch}`"), error))
}

/// The branch beside one that is left alone: named after its last commit, so that the next run finds it again.
pub(super) fn beside(wanted: &str, tip: Oid) -> String {
    format!("{wanted}-{}", &tip.to_string()[..7])
}

/// Our own branch is brought up to date; one that a person has pushed to, or has had us push to, is left alone, and the one
/// [`beside`] it is used instead.
pub(super) async fn choose(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    rewriting: Rewriting,
) -> Result<BranchTarget> {
    let Proposal { workspace, outcome, head, branch: wanted, .. } = *proposal;
    let mut branch = wanted.to_owned();
    let mut passed = Vec::new();
    let names = if rewriting == Rewriting::Allowed { NAMES } else { MOST_NAMES };
    for _ in 0..names {
        not_the_base(origin, workspace, head, &branch)?;
        let upstream = &origin.repository().id;
        let (tip, why) = match state_of(run, upstream, head, workspace, &branch).await? {
            BranchState::Absent => {
                return Ok(BranchTarget { branch, tip: None, same: None, passed });
            }
            BranchState::Ours { tip, facts } => {
                let tree = outcome.change.as_ref().map(|change| change.tree);
                let is_same = Some(facts.tree) == tree
                    && facts.parents == [workspace.base]
                    && kept::is_as_wanted(run, proposal, (tip, &facts)).await?;
                let same = is_same.then_some(tip);
                if same.is_some() || rewriting == Rewriting::Allowed {
                    return Ok(BranchTarget { branch, tip: Some(tip), same, passed });
                }
                (tip, LeftAlone::Rule)
            }
            BranchState::Theirs { tip, .. } => {
                run.environment.ui.say(&format!(
                    "`{branch}` has commits that people made or asked for; leaving it alone"
                ));
                (tip, LeftAlone::CommitsOfPeople)
            }
        };
        passed.push((branch, why));
        branch = beside(wanted, tip);
    }
    let whose = match rewriting {
        Rewriting::Allowed => "has commits of other people",
        Rewriting::Refused => "is there, and may not be rewritten",
    };
    Err(Failure::forge(format!("every branch like `{wanted}` {whose}"))
        .hint("delete a branch that is no longer needed, or choose a name with `--branch`"))
}
