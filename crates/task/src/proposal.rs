//! From a finished job to its pull request, where what came of it may be published.

use super::earlier::{Earlier, Heard};
use super::pipeline::FinishedJob;
use super::place::Target;
use super::progress::Progress;
use super::publish::{self, Origin};
use super::pull_request;
use super::run::Run;
use super::salvage;
use super::workspace::Checkout;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_git::Oid;
use patchwright_journal::{self as journal, Entry};
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
    let Goal { target, heard, commit } = *goal;
    let Target { head, branch, earlier } = target;
    let stopped = run.is_interrupted().then(|| publish::unpublished(outcome));
    let mut seen = stopped.unwrap_or_else(|| outcome.clone());
    let published = {
        let workspace = &checkout.workspace;
        let proposal =
            publish::Proposal { workspace, commit, outcome: &seen, judged, head, branch };
        let earlier = Earlier { pulls: earlier, heard };
        let publishing = publish::publish(run, origin, &proposal, earlier);
        if !run.is_interrupted() {
            let published = run.unless_interrupted(publishing).await;
            Some(published.map_err(|failure| with_branch(run, origin, checkout, target, failure))?)
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

/// Where the change is already when a signal ends its publishing.
fn with_branch(
    run: &Run<'_>,
    origin: Origin<'_>,
    checkout: &Checkout,
    target: &Target,
    failure: Failure,
) -> Failure {
    let (FailureKind::Signal(_), Ok(forge)) = (failure.kind, run.world.forge()) else {
        return failure;
    };
    let (lines, _) = journal::read_until_damage(run.folder.journal.path());
    let done = |wanted: &str| {
        lines.iter().rev().find_map(|line| match &line.entry {
            Entry::EffectDone { effect, key, detail }
                if effect == wanted && *key == target.branch =>
            {
                Some(detail)
            }
            _ => None,
        })
    };
    if let Some(number) = done(pull_request::EFFECT).and_then(|detail| detail["number"].as_u64()) {
        return failure
            .hint(format!(
                "it is in pull request #{number}, where labels or reviewers may be missing"
            ))
            .output("pull-request-number", number.to_string())
            .output("branch", target.branch.as_str());
    }
    if done("push").is_none() {
        return failure;
    }
    let (repository, base) = (origin.repository(), &checkout.workspace.base_branch);
    let named = target.head.id.branch_seen_from(&target.branch, &repository.id);
    let link = forge.compare_url(repository, base, &named);
    failure
        .hint(format!("the branch is pushed; its pull request is opened then, or by hand: {link}"))
        .output("branch", target.branch.as_str())
}
