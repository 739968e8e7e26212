//! The pull request of an earlier run, told to a run that works on the same again.

use minijinja::context;

use super::{render, tag_of};
use patchwright_base::error::Result;

/// What the model is told of it.
#[derive(Clone, Copy, Debug)]
pub struct EarlierPullTask<'a> {
    pub number: u64,
    /// The branch that the work begins at.
    pub base_branch: &'a str,
    /// What the run makes takes its place; otherwise it stays.
    pub is_replaced: bool,
    /// The run ends with a plan.
    pub plans: bool,
    /// Its branch in the sandbox; empty when it has no branch there.
    pub branch: &'a str,
    /// The files that it changes, and since which commit; empty where that is not known.
    pub changed: &'a str,
    pub base: &'a str,
    /// As much of their difference as fits.
    pub difference: &'a str,
    /// What reviewers said in the reviews themselves, from `context::reviews`.
    pub reviews: &'a str,
    /// The threads that are not resolved, from `context::thread`.
    pub threads: &'a str,
    /// Title, body and comments, from `context::thread`.
    pub conversation: &'a str,
}

/// The text below the task.
pub fn earlier_pull(task: &EarlierPullTask<'_>) -> Result<String> {
    let EarlierPullTask { number, base_branch, is_replaced, plans, branch, .. } = *task;
    let EarlierPullTask { changed, base, difference, reviews, threads, conversation, .. } = *task;
    let tag = tag_of(&[changed, difference]);
    render(
        "task/earlier_pull.md",
        context! {
            number, base_branch, is_replaced, plans, branch, changed, base, difference, reviews, threads,
            conversation, tag
        },
    )
}
