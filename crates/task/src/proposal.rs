//! From a finished job to its pull request, where what came of it may be published.

use super::earlier::{Earlier, Heard};
use super::pipeline::FinishedJob;
use super::place::Target;
use super::progress::Progress;
use super::publish::{self, Origin};
use super::run::Run;
use super::salvage;
use super::workspace::Checkout;
use patchwright_base::error::Result;
use patchwright_git::Oid;
use patchwright_types::published::Published;

/// Where a commit goes to, and what its model was told.
pub(super) struct Goal<'a> {
    pub target: &'a Target,
    pub heard: &'a Heard,
    pub commit: Oid,
}

/// Publishes what may be published.
///
/// # Errors
/// When it could not be.
pub(super) async fn publish(
    run: &Run<'_>,
    origin: Origin<'_>,
    checkout: &Checkout,
    goal: &Goal<'_>,
    finished: &mut FinishedJob,
    progress: &Progress,
) -> Result<Option<Published>> {
    let FinishedJob { judged, outcome, .. } = finished;
    if !(publish::is_publishable(outcome) || publish::is_worth_a_draft(outcome)) {
        return Ok(None);
    }
    progress.phase("Publishing");
    let Goal { target: Target { head, branch, earlier }, heard, commit } = *goal;
    let stopped = run.is_interrupted().then(|| publish::unpublished(outcome));
    let mut seen = stopped.unwrap_or_else(|| outcome.clone());
    let published = {
        let workspace = &checkout.workspace;
        let proposal =
            publish::Proposal { workspace, commit, outcome: &seen, judged, head, branch };
        let earlier = Earlier { pulls: earlier, heard };
        let publishing = publish::publish(run, origin, &proposal, earlier);
        if !run.is_interrupted() {
            Some(run.unless_interrupted(publishing).await?)
        } else if run.has_lost_its_job() {
            None
        } else {
            publish::before_the_end(publishing).await?
        }
    };
    let Some((published, notes)) = published else {
        salvage::write_report(run, &seen, None);
        return Ok(None);
    };
    seen.publish_notes.clone_from(&notes);
    outcome.publish_notes = notes;
    salvage::write_report(run, &seen, Some(&published));
    Ok(Some(published))
}
