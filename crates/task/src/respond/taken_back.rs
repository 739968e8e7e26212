//! Commits that the base branch had when a pull request of ours was made on it, and has no more: somebody took them back
//! with a forced push. `git rebase` finds such a fork point in its log of the base branch; we find it by our own first
//! commit, which always stands on the base branch as that was, and believe it where the forge has the same on record.

use super::admit::AdmittedCommand;
use super::rebase::RebaseWorkspace;
use super::rebased::{MAX_COMMITS, REBASED_TRAILER, RebaseSpec};
use crate::run::{DEPTH, Run};
use crate::workspace::{is_ours, may_be_replaced};
use patchwright_base::error::Result;
use patchwright_forge::PullRequest;
use patchwright_git::commit::{self, CommitFacts};
use patchwright_git::{GitError, Oid, blocking, hunks};
use patchwright_report::rebase::{self as said, ForeignCommits};

/// The commits of a branch below our first one that the base branch has not got.
#[derive(Clone, Debug)]
pub(super) struct BelowOurs {
    /// The newest of them.
    pub(super) fork_point: Oid,
    /// Id and subject, the oldest first.
    commits: Vec<(String, String)>,
    /// Everything above them is ours, so that it can be made again elsewhere.
    is_ours_above: bool,
}

impl RebaseSpec {
    /// Finds them.
    pub(super) fn below_ours(&self) -> Result<Option<BelowOurs>, GitError> {
        let chain = commit::between(&self.repo, self.base, self.head, MAX_COMMITS)?;
        let mut facts = Vec::new();
        for commit in chain.unwrap_or_default() {
            facts.push((commit, commit::read(&self.repo, commit)?));
        }
        let email = &self.committer.email;
        let Some(first) = facts.iter().position(|(_, facts)| is_on_base(facts, email)) else {
            return Ok(None);
        };
        let (below, above) = facts.split_at(first);
        // Ours without a place on the base were asked for by people, on a branch that they have made anew.
        let (Some((fork_point, _)), false) =
            (below.last(), below.iter().any(|(_, facts)| is_ours(facts, email)))
        else {
            return Ok(None);
        };
        let subject = |facts: &CommitFacts| facts.message.lines().next().unwrap_or("").to_owned();
        Ok(Some(BelowOurs {
            fork_point: *fork_point,
            commits: below.iter().map(|(id, facts)| (id.to_string(), subject(facts))).collect(),
            is_ours_above: above
                .iter()
                .all(|(_, facts)| is_ours(facts, email) && facts.parents.len() == 1),
        }))
    }
}

/// A commit of ours that was made on the base branch: by a run of an issue, or by a rebase. What was asked for on a pull
/// request stands on its branch, whatever that has.
fn is_on_base(facts: &CommitFacts, email: &str) -> bool {
    let is_rebased = || facts.message.lines().any(|line| line.starts_with(REBASED_TRAILER));
    facts.parents.len() == 1
        && (may_be_replaced(facts, email) || (is_ours(facts, email) && is_rebased()))
}

/// What becomes of them.
pub(super) struct TakenBack {
    /// What the branch is taken off from; without it, it keeps everything.
    pub(super) left_out: Option<Oid>,
    /// What the answer says of it; empty where there are none.
    pub(super) note: String,
}

impl TakenBack {
    /// `decided`: what an earlier process of this run has left out.
    ///
    /// # Errors
    /// When the run is interrupted.
    pub(super) async fn of(
        run: &Run<'_>,
        admitted: &AdmittedCommand,
        pull: &PullRequest,
        (opened, below): (&RebaseWorkspace, Option<BelowOurs>),
        decided: Option<Oid>,
    ) -> Result<TakenBack> {
        let Some(below) = below else {
            return Ok(TakenBack { left_out: None, note: String::new() });
        };
        let fork_point = below.fork_point;
        let looking = async { Ok(was_on_base(run, admitted, pull, opened, fork_point).await) };
        let is_known = decided == Some(fork_point) || run.unless_interrupted(looking).await?;
        let foreign = ForeignCommits { base_branch: &pull.base_branch, commits: &below.commits };
        Ok(if is_known && below.is_ours_above {
            TakenBack { left_out: Some(fork_point), note: said::left_out(&foreign) }
        } else {
            let onto = fork_point.to_string();
            let note = said::kept(&foreign, &onto, &pull.head_branch);
            TakenBack { left_out: None, note }
        })
    }
}

/// The forge has on record that the base branch of this pull request had it. What it does not say, or what is not to be
/// had any more, is not known.
async fn was_on_base(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    opened: &RebaseWorkspace,
    commit: Oid,
) -> bool {
    let (workspace, Ok(tip)) = (&opened.base, pull.base_sha.parse::<Oid>()) else { return false };
    if !workspace.has(tip) {
        let Ok(forge) = run.world.forge() else { return false };
        let refs = [tip.to_string()];
        let path = workspace.repo.path();
        if forge.fetch(&admitted.repository, path, &refs, DEPTH).await.is_err() {
            return false;
        }
    }
    let repo = workspace.repo.clone();
    let found = blocking(move || hunks::merge_base(&repo, tip, commit)).await;
    found.is_ok_and(|found| found == Some(commit))
}
