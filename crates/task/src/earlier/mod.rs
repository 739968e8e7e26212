//! The pull requests that earlier runs have opened for the same work: looked for before the work begins, so that the model
//! is told what they change and what people said there.
//!
//! The work begins at the base branch all the same, not at their head: a pull request of ours is one commit on the newest
//! base, so nothing has to be taken back of a version that reviewers did not want, and policy and checks judge the whole.
//! Whoever wants a commit on top asks for it there ([`crate::respond`]). So that nothing is lost in between, the earlier
//! version is a branch in the sandbox, too.
//!
//! [`heard`] is about what the model was told and what came too late, [`notes`] about what people are told,
//! [`since`] about what a run that is resumed has to be told, [`campaign`] about runs of campaigns, for which nobody has asked.

mod campaign;
pub(super) mod heard;
pub(super) mod notes;
pub(super) mod since;
mod told;

pub(super) use self::campaign::of_campaign;
pub(super) use self::heard::Heard;
pub(super) use self::told::text;

use super::branch::BranchState;
use super::branch_target::{self, MOST_NAMES};
use super::failures;
use super::publish::Origin;
use super::run::Run;
use super::workspace::Workspace;
use crate::context::reviews::{self, SaidInReview};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{
    Comment, Issue, PullRequest, Repository, RepositoryId, ReviewEdits, Thread,
};
use patchwright_git::Oid;
use patchwright_git::clone::collide;

/// Most comments of a conversation that are read; the newest are kept.
pub(super) const MAX_COMMENTS: usize = 300;

/// The open pull requests of earlier runs for the same work, and what the model is told of them.
#[derive(Clone, Copy)]
pub(super) struct Earlier<'a> {
    pub pulls: &'a [EarlierPull],
    pub heard: &'a Heard,
}

/// Pull requests that the model is told of, the newest.
const MOST_TOLD: usize = 3;

/// An open pull request of an earlier run.
pub(super) struct EarlierPull {
    pub pull: PullRequest,
    /// What its branch points to.
    pub tip: Oid,
    pub becomes: Becomes,
    pub said: Said,
}

/// What becomes of an earlier pull request when this run publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Becomes {
    /// The new change takes the place of what it has.
    Replaced,
    /// People have made or asked for commits on it, so it stays, and the new change goes beside it.
    LeftAlone,
}

/// What people said on a pull request.
#[derive(Clone)]
pub(super) struct Said {
    /// It, as the forge has it for a conversation.
    pub issue: Issue,
    pub comments: Vec<Comment>,
    /// Those that are not resolved.
    pub threads: Vec<Thread>,
    pub reviews: Vec<SaidInReview>,
    /// What is kept from the model, for the report.
    pub notes: Vec<String>,
}

/// The open pull requests for this work, in the order in which their branches are looked at.
///
/// # Errors
/// When the forge does not say: without that, what reviewers asked for would be lost.
pub(super) async fn find(
    run: &Run<'_>,
    origin: Origin<'_>,
    head: &Repository,
    wanted: &str,
    workspace: &Workspace,
) -> Result<Vec<EarlierPull>> {
    let id = &origin.repository().id;
    let mut chain: Vec<(String, Oid, Becomes)> = Vec::new();
    let mut branch = wanted.to_owned();
    for _ in 0..MOST_NAMES {
        let state = branch_target::state_of(run, id, head, workspace, &branch).await?;
        let (tip, becomes) = match state {
            BranchState::Absent => break,
            BranchState::Ours { tip, .. } => (tip, Becomes::Replaced),
            BranchState::Theirs { tip, .. } => (tip, Becomes::LeftAlone),
        };
        let next = branch_target::beside(wanted, tip);
        chain.push((branch, tip, becomes));
        branch = next;
    }
    let mut found = Vec::new();
    for (at, (branch, tip, becomes)) in chain.iter().enumerate() {
        // There is one beside it, so it could not be rewritten before.
        let becomes = if at + 1 == chain.len() { *becomes } else { Becomes::LeftAlone };
        for pull in open_from(run, id, head, branch).await? {
            found.push((pull, *tip, becomes));
        }
    }
    let mut pulls = Vec::new();
    for (pull, tip, becomes) in found.into_iter().rev().take(MOST_TOLD).rev() {
        let said = Said::read(run, id, pull.number).await?;
        pulls.push(EarlierPull { pull, tip, becomes, said });
    }
    Ok(pulls)
}

/// The open pull requests from a branch.
///
/// # Errors
/// When the forge does not say.
pub(super) async fn open_from(
    run: &Run<'_>,
    id: &RepositoryId,
    head: &Repository,
    branch: &str,
) -> Result<Vec<PullRequest>> {
    let forge = run.world.forge()?;
    let pulls = forge.pull_requests_from(id, &head.id, branch).await;
    let pulls = pulls.map_err(|err| {
        failures::of_forge(format!("cannot look at the pull requests of `{branch}`"), err)
    })?;
    Ok(pulls.into_iter().filter(|pull| pull.open).collect())
}

impl Said {
    /// # Errors
    /// When the forge does not say.
    pub(super) async fn read(run: &Run<'_>, id: &RepositoryId, number: u64) -> Result<Said> {
        let forge = run.world.forge()?;
        let failed = |err| -> Failure {
            failures::of_forge(format!("cannot read what was said on pull request #{number}"), err)
        };
        let issue = forge.issue(id, number).await.map_err(failed)?;
        let comments = forge.comments(id, number, MAX_COMMENTS).await.map_err(failed)?;
        let mut threads = forge.threads(id, number).await.map_err(failed)?;
        threads.retain(|thread| !thread.resolved);
        let all = forge.reviews(id, number).await.map_err(failed)?;
        let count = reviews::that_count(all);
        // Asked after the texts were read: what is edited in between counts as edited.
        let edits = if count.is_empty() {
            ReviewEdits::default()
        } else {
            forge.review_edits(id, number).await.map_err(failed)?
        };
        let said = count
            .into_iter()
            .map(|review| SaidInReview { edited: edits.get(&review.id).copied(), review });
        Ok(Said { issue, comments, threads, reviews: said.collect(), notes: Vec::new() })
    }
}

/// The earlier version as a branch of the sandbox, and its name: the one that is replaced, where there is one. No branch
/// can be called like that beside one of the base branch's name.
pub(super) fn branch_in_sandbox(
    earlier: &[EarlierPull],
    base_branch: &str,
) -> Option<(String, Oid)> {
    let chosen = earlier.iter().find(|it| it.becomes == Becomes::Replaced);
    let chosen = chosen.or_else(|| earlier.first())?;
    let name = format!("pull-request-{}", chosen.pull.number);
    (name != base_branch && !collide(&name, base_branch)).then_some((name, chosen.tip))
}
