//! Which commits of a branch are ours and answer a comment: what a run that was killed, or another one, has pushed.

use super::admit::AdmittedCommand;
use super::fix;
use super::land;
use super::work::Instruction;
use crate::authorship::trailer_lines;
use crate::fork;
use crate::run::Run;
use crate::workspace::{Checkout, Workspace, is_ours};
use patchwright_forge::PullRequest;
use patchwright_git::{Oid, commit};
use patchwright_journal::Entry;

/// Commits of a branch that are searched for one of ours.
const SEARCHED: usize = 50;

/// A commit on the head that answers this very comment: a run that was killed had pushed already.
pub(super) fn landed_before(
    run: &Run<'_>,
    checkout: &Checkout,
    instruction: &Instruction<'_>,
    is_foreign: IsForeign,
) -> Option<Oid> {
    let asked = asked_in(&instruction.trailers);
    let workspace = &checkout.workspace;
    let proof = Proof::of(run, is_foreign);
    find_ours(workspace, run.config.identity.committer_email(), (workspace.base, &asked), &proof)
}

/// What has to be known of a commit that says that it is ours.
pub(super) enum Proof {
    /// Who can push to the branch may do what we do, and gains nothing by a name that is not theirs.
    Words,
    /// The branch is a stranger's, who can write anybody's name: only commits that this run meant to push are ours.
    Pushed(Vec<String>),
}

impl Proof {
    pub(super) fn of(run: &Run<'_>, is_foreign: IsForeign) -> Proof {
        if is_foreign == IsForeign::No {
            return Proof::Words;
        }
        let pushes = run.folder.recorded.iter().filter_map(|line| match &line.entry {
            Entry::EffectIntended { effect, detail, .. } if effect == land::EFFECT => {
                detail["commit"].as_str().map(str::to_owned)
            }
            _ => None,
        });
        Proof::Pushed(pushes.collect())
    }

    pub(super) fn add(&mut self, commit: Oid) {
        if let Proof::Pushed(commits) = self {
            commits.push(commit.to_string());
        }
    }

    fn holds(&self, commit: Oid) -> bool {
        match self {
            Proof::Words => true,
            Proof::Pushed(commits) => commits.contains(&commit.to_string()),
        }
    }
}

/// Whether a branch is in a fork that belongs to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsForeign {
    Yes,
    No,
}

impl IsForeign {
    pub(super) fn of(run: &Run<'_>, admitted: &AdmittedCommand, pull: &PullRequest) -> IsForeign {
        let is_own = fork::is_own(&run.config.publish.fork, admitted.viewer.as_ref(), pull);
        if pull.is_fork && !is_own { IsForeign::Yes } else { IsForeign::No }
    }
}

/// Those of a commit's trailers that name the comment that it answers.
pub(super) fn asked_in(trailers: &[String]) -> Vec<String> {
    trailers.iter().filter(|line| line.starts_with(fix::ASKED_TRAILER)).cloned().collect()
}

/// The newest commit of ours, from `tip` back, with one of these lines in its message.
pub(super) fn find_ours(
    workspace: &Workspace,
    email: &str,
    (tip, lines): (Oid, &[String]),
    proof: &Proof,
) -> Option<Oid> {
    let mut at = tip;
    for _ in 0..SEARCHED {
        let facts = commit::read(&workspace.repo, at).ok()?;
        let says = |line: &str| lines.iter().any(|wanted| line == wanted);
        if is_ours(&facts, email) && trailer_lines(&facts.message).any(says) && proof.holds(at) {
            return Some(at);
        }
        at = *facts.parents.first()?;
    }
    None
}
