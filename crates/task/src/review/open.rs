//! The commits of a pull request in our repository: its head, pinned, the merge base with the base
//! branch, and the difference between the two.

use super::admit::AdmittedReview;
use super::submodules::{self, MovedSubmodule};
use crate::failures;
use crate::workspace::{self, Workspace};
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_forge::{PullRequest, Repository};
use patchwright_git::helper;
use patchwright_git::hunks::{self, Diff};
use patchwright_git::stop::Stop;
use patchwright_git::{GitError, Oid, blocking, clone, diff, own_messages};

/// Commits of history that are fetched at first, and then more and more of them until both sides meet;
/// 0 is all.
const DEPTHS: [u32; 4] = [clone::DEFAULT_DEPTH, 500, 5_000, 0];

/// Commits whose messages are read.
const MAX_MESSAGES: usize = 50;

/// What is reviewed.
#[derive(Debug)]
pub struct ReviewRange {
    pub head: Oid,
    /// The merge base.
    pub base: Oid,
    pub diff: Diff,
    /// What the commits between them say, the newest first; as far as they are there.
    pub messages: Vec<String>,
    /// Those whose commit is another one at the head, or that are only on one side.
    pub submodules: Vec<MovedSubmodule>,
}

/// The commit of a pull request that is looked at, whatever happens to its branch meanwhile.
#[derive(Clone, Copy)]
pub struct PullHead<'a> {
    pub repository: &'a Repository,
    pub pull: &'a PullRequest,
    pub head: &'a str,
}

impl AdmittedReview {
    fn pull_head(&self) -> PullHead<'_> {
        PullHead { repository: &self.repository, pull: &self.pull, head: &self.head }
    }
}

/// Fetches the head and enough history to compare it. `base` is the repository at the base branch.
pub async fn open(
    world: &World,
    admitted: &AdmittedReview,
    base: &Workspace,
    stop: &Stop,
) -> Result<ReviewRange> {
    let Meeting { head, at: met, depth } = meet(world, admitted.pull_head(), base).await?;
    let merge_base = met.ok_or_else(|| {
        Failure::forge(format!(
            "pull request #{} and `{}` have no commit in common",
            admitted.pull.number, admitted.pull.base_branch
        ))
        .hint("there is no difference to review; rebase the pull request onto its base branch")
    })?;
    let diff = difference(base, merge_base, head, stop).await?;
    let messages = messages(world, admitted, base, (merge_base, head), depth).await?;
    let (repo, opaque) = (base.repo.clone(), opaque(&diff));
    let moved = blocking(move || submodules::moved(&repo, (merge_base, head), &opaque)).await;
    let moved = moved.map_err(|err| workspace::failure(err, "cannot read the submodules"))?;
    Ok(ReviewRange { head, base: merge_base, diff, messages, submodules: moved })
}

/// The files of which no text is shown.
fn opaque(diff: &Diff) -> Vec<String> {
    let opaque = diff.files.iter().filter(|file| file.opaque && !file.too_large);
    opaque.map(|file| file.path.clone()).collect()
}

/// What the commits of the pull request say. Where its branch left the base branch longer ago than was fetched, and was
/// brought up to date since, more is fetched once.
async fn messages(
    world: &World,
    admitted: &AdmittedReview,
    base: &Workspace,
    (merge_base, head): (Oid, Oid),
    depth: u32,
) -> Result<Vec<String>> {
    let read = || {
        let repo = base.repo.clone();
        blocking(move || own_messages(&repo, merge_base, head, MAX_MESSAGES))
    };
    let failed = |err| workspace::failure(err, "cannot read the commits");
    let mut own = read().await.map_err(failed)?;
    let more = deeper(depth);
    // All of a long history is too much for a few words.
    if !own.is_whole && more != 0 {
        let refs = [head.to_string(), base.base.to_string()];
        // Without it less is told.
        if fetch(world, &admitted.repository, base, &refs, more).await.is_ok() {
            own = read().await.map_err(failed)?;
        }
    }
    Ok(own.messages)
}

/// Fetches the head, and as much history of both sides as is needed to find where it left the base branch.
/// Returns the head and that commit; without the latter they have nothing in common.
///
/// # Errors
/// For the user: the head or the history cannot be fetched.
pub async fn common_ancestor(
    world: &World,
    of: PullHead<'_>,
    base: &Workspace,
) -> Result<(Oid, Option<Oid>)> {
    let Meeting { head, at, .. } = meet(world, of, base).await?;
    Ok((head, at))
}

/// Where a head left the base branch, and how many commits of both were fetched to find it.
struct Meeting {
    head: Oid,
    at: Option<Oid>,
    depth: u32,
}

async fn meet(world: &World, of: PullHead<'_>, base: &Workspace) -> Result<Meeting> {
    let head: Oid = of
        .head
        .parse()
        .map_err(|_| Failure::internal(format!("`{}` is not a commit id", of.head)))?;
    for depth in DEPTHS {
        fetch_head(world, of, base, head, depth).await?;
        let (repo, tip) = (base.repo.clone(), base.base);
        let common = blocking(move || hunks::merge_base(&repo, tip, head)).await;
        match common {
            Ok(None) => {}
            Ok(at) => return Ok(Meeting { head, at, depth }),
            // Commits may be missing until all of them are here.
            Err(_) if depth != 0 => {}
            Err(err) => {
                return Err(workspace::failure(err, "cannot read the pull request's history"));
            }
        }
        fetch(world, of.repository, base, &[base.base.to_string()], deeper(depth)).await?;
    }
    Ok(Meeting { head, at: None, depth: 0 })
}

/// The next depth, at which the base is fetched before both sides are compared again.
fn deeper(depth: u32) -> u32 {
    DEPTHS.iter().skip_while(|it| **it != depth).nth(1).copied().unwrap_or(0)
}

/// What differs between two commits.
///
/// # Errors
/// For the user: too many files, or the time was over before they were compared.
pub async fn difference(workspace: &Workspace, old: Oid, new: Oid, stop: &Stop) -> Result<Diff> {
    let (repo, until) = (workspace.repo.clone(), stop.clone());
    let compared = blocking(move || {
        let (old, new) = (diff::tree_of(&repo, old)?, diff::tree_of(&repo, new)?);
        helper::compare(&repo, old, new, &until)
    });
    match compared.await {
        Ok(diff) => Ok(diff),
        Err(err @ GitError::Unacceptable(_)) => {
            Err(Failure::refused("there are too many files to review").caused_by(err))
        }
        Err(err) if stop.check().is_err() => {
            let message = "the time limit was reached while the two commits were compared";
            Err(Failure::new(FailureKind::Budget, message).caused_by(err))
        }
        Err(err) => Err(workspace::failure(err, "cannot compare the two commits")),
    }
}

/// Fetches a commit by its id; false when the forge no longer has it.
pub async fn has_commit(
    world: &World,
    admitted: &AdmittedReview,
    workspace: &Workspace,
    commit: Oid,
) -> bool {
    workspace.has(commit)
        || (fetch(
            world,
            &admitted.repository,
            workspace,
            &[commit.to_string()],
            clone::DEFAULT_DEPTH,
        )
        .await
        .is_ok()
            && workspace.has(commit))
}

/// The pinned head: by the pull request's own ref, which outlives a deleted fork, or by its id when the
/// branch has moved on.
async fn fetch_head(
    world: &World,
    of: PullHead<'_>,
    workspace: &Workspace,
    head: Oid,
    depth: u32,
) -> Result<()> {
    let number = of.pull.number;
    let pull = [format!("refs/pull/{number}/head")];
    let by_ref = fetch(world, of.repository, workspace, &pull, depth).await;
    let is_newest = of.head == of.pull.head_sha;
    if by_ref.is_ok() && is_newest && workspace.has(head) {
        return Ok(());
    }
    match fetch(world, of.repository, workspace, &[head.to_string()], depth).await {
        Ok(()) if workspace.has(head) => Ok(()),
        Ok(()) => Err(gone(of)),
        Err(failure) if is_newest => Err(by_ref.err().unwrap_or(failure)),
        Err(failure) => {
            let why = failure.cause.unwrap_or_else(|| anyhow::anyhow!(failure.message));
            Err(gone(of).caused_by(why))
        }
    }
}

async fn fetch(
    world: &World,
    repository: &Repository,
    workspace: &Workspace,
    refs: &[String],
    depth: u32,
) -> Result<()> {
    let forge = world.forge()?;
    let fetched = forge.fetch(repository, workspace.repo.path(), refs, depth).await;
    fetched.map_err(|err| failures::of_forge("cannot fetch the pull request", err))
}

fn gone(of: PullHead<'_>) -> Failure {
    Failure::forge(format!(
        "commit {} can no longer be fetched: pull request #{} is at {} now",
        of.head, of.pull.number, of.pull.head_sha
    ))
    .hint("review the newest commit: leave out `--head`")
}
