//! The pull request was changed while the model read. Where its branch was rewritten, what was found is placed once
//! more, on the commit that is there now.

use super::admit::AdmittedReview;
use super::open;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::Failure;
use patchwright_forge::{Comparison, PullRequest};
use patchwright_git::clone;
use patchwright_review::anchor::Index;
use patchwright_types::reviewed::Reviewed;

/// Where comments are placed when the commit that was read is gone.
pub(super) struct MovedReview {
    pub(super) reviewed: Reviewed,
    /// The commit that they are placed on.
    pub(super) head: String,
}

/// The commit that was read is still part of the pull request.
pub(super) async fn is_part(run: &Run<'_>, admitted: &AdmittedReview, pull: &PullRequest) -> bool {
    if pull.head_sha == admitted.head {
        return true;
    }
    let Ok(forge) = run.world.forge() else { return true };
    let compared = forge.compare(&admitted.repository.id, &admitted.head, &pull.head_sha).await;
    matches!(compared, Ok(Comparison::Ahead | Comparison::Identical))
}

/// The pull request goes to another branch by now, and has another difference to that one, for all that is known.
pub(super) async fn has_other_base(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    pull: &PullRequest,
    reviewed: &Reviewed,
) -> bool {
    if pull.base_branch == admitted.pull.base_branch {
        return false;
    }
    let newest = AdmittedReview { pull: pull.clone(), ..admitted.clone() };
    let (branch, depth) = (&pull.base_branch, clone::DEFAULT_DEPTH);
    let Ok(base) = Workspace::open(run.world, &admitted.repository, branch, depth).await else {
        return true;
    };
    let opened = open::open(run.world, &newest, &base, &run.stop()).await;
    !opened.is_ok_and(|opened| opened.base.to_string() == reviewed.base)
}

/// Places the findings on the pull request's newest commit.
pub(super) async fn again(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    pull: &PullRequest,
    reviewed: &Reviewed,
) -> Result<MovedReview, Failure> {
    let newest =
        AdmittedReview { pull: pull.clone(), head: pull.head_sha.clone(), ..admitted.clone() };
    let (branch, depth) = (&pull.base_branch, clone::DEFAULT_DEPTH);
    let base = Workspace::open(run.world, &admitted.repository, branch, depth).await?;
    let opened = open::open(run.world, &newest, &base, &run.stop()).await?;
    let index = Index::new(&opened.diff);
    let mut reviewed = reviewed.clone();
    for anchored in &mut reviewed.findings {
        let (fingerprint, keeps) = (anchored.fingerprint.clone(), anchored.suggestion.is_some());
        *anchored = index.anchor(anchored.finding.clone());
        anchored.fingerprint = fingerprint;
        if !keeps {
            anchored.suggestion = None;
        }
    }
    Ok(MovedReview { reviewed, head: pull.head_sha.clone() })
}
