//! The check run on the reviewed commit.

use super::admit::AdmittedReview;
use super::approval;
use super::claim::{AnnouncedCheck, ClaimSlot};
use super::earlier::EarlierReviews;
use super::outbox::Outbox;
use super::post::{self, PostedReview};
use super::publish::{Doubt, Origin, Work};
use super::run::ReviewReport;
use super::sticky;
use crate::run::Run;
use patchwright_base::error::{FailureKind, Result};
use patchwright_forge::{BegunCheck, CheckConclusion, CheckDraft};
use patchwright_report::review::check::{self, Check};
use patchwright_report::review::claim::{self, Claim};
use patchwright_review::anchor::Anchored;
use patchwright_types::reviewed::Skipped;

/// The file of a run before which the last verdict on the commit was a failure.
const FAILED_BEFORE: &str = "failed-before";

/// What the check says.
pub(super) fn of(work: &Work<'_>) -> CheckConclusion {
    draft(work, None, &[]).conclusion
}

fn draft(work: &Work<'_>, page: Option<&str>, annotated: &[&Anchored]) -> CheckDraft {
    let kept = sticky::kept_words(work);
    let draft = check::check(&Check { kept: kept.as_ref(), ..data(work, page, annotated) });
    match work.doubt {
        Some(Doubt::Retargeted { from }) => check::retargeted(draft, from, &work.pull.base_branch),
        Some(Doubt::FailedBefore) => check::failed_before(draft),
        None => draft,
    }
}

/// The last verdict on the commit was a failure, and nothing tells what it was for. A person who asks for a full review
/// knows of it.
pub(super) fn failed_before(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    earlier: &EarlierReviews,
) -> Option<Doubt<'static>> {
    let writer = earlier.sticky.as_ref().and_then(|sticky| match Claim::read(&sticky.body) {
        Some(claim) => claim.before,
        None => claim::written_by(&sticky.body),
    });
    let is_known =
        earlier.memory.looked_at == admitted.head && writer.as_ref() != Some(&run.folder.id);
    let has_failed = run.folder.path.join(FAILED_BEFORE).exists();
    (has_failed && !is_known && !admitted.request.full).then_some(Doubt::FailedBefore)
}

/// Why the check is not written.
pub(super) enum Unwritten {
    /// We may not.
    Refused,
    /// It did not work this time.
    Failed(String),
}

/// Writes it; returns its page. `comment` is the address of the sticky comment, when that is up to date. A
/// check that cannot be written is said, and costs nothing else.
pub(super) async fn put(
    work: &Work<'_>,
    posted: &PostedReview,
    comment: Option<&str>,
) -> Result<Result<Option<String>, Unwritten>> {
    let outbox = &work.outbox;
    if let Some(url) = outbox.recorded::<Option<String>>("check")? {
        return Ok(Ok(url));
    }
    // A comment on the lines says it already, and what is not to be a comment is no annotation either.
    let has_comment = |fingerprint: &str| {
        posted.on_lines.iter().any(|other| other == fingerprint)
            || work.earlier.link(fingerprint).is_some()
    };
    let found = work.reviewed.findings.iter();
    let annotated: Vec<&Anchored> = found
        .filter(|it| !has_comment(&it.fingerprint) && post::off_lines(work, it).is_none())
        .collect();
    let page = comment.or(posted.url.as_deref());
    let mut draft = draft(work, page, &annotated);
    let redact = |text: &mut String| *text = outbox.redactor.redact(text);
    redact(&mut draft.title);
    redact(&mut draft.summary);
    for annotation in &mut draft.annotations {
        redact(&mut annotation.title);
        redact(&mut annotation.message);
    }
    outbox.intends("check", &draft.conclusion)?;
    match outbox.forge.put_check(outbox.repository, &draft).await {
        Ok(url) => {
            // Its annotations are superfluous once the findings are on their lines.
            if posted.unsubmitted.is_none() {
                outbox.did("check", &url)?;
            }
            Ok(Ok(url))
        }
        Err(err) => {
            outbox.ui.warn(&format!("the check could not be written: {err}"));
            Ok(Err(match err.outage() {
                Some(_) => Unwritten::Failed(err.to_string()),
                None => Unwritten::Refused,
            }))
        }
    }
}

/// Says on the commit that it is being reviewed. Where that cannot be said, nothing else changes: a required check that is
/// not there keeps a change from being merged as well.
pub(super) async fn begin(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    claim: &ClaimSlot,
) -> Result<()> {
    let outbox = Outbox::of(run, admitted)?;
    // A run that is resumed may have written its verdict already.
    if run.config.dry_run || outbox.recorded::<Option<String>>("check")?.is_some() {
        return Ok(());
    }
    let running = check::running(&admitted.head, run.environment.run_url.as_deref());
    // An interruption may come between the request and its answer.
    claim.announce(AnnouncedCheck::Maybe);
    match outbox.forge.begin_check(outbox.repository, &running).await {
        Ok(BegunCheck { runs, failed_before }) => {
            if !runs {
                claim.announce(AnnouncedCheck::No);
            }
            if failed_before {
                run.folder.write(FAILED_BEFORE, b"")?;
            }
        }
        Err(err) => outbox.ui.detail(&format!("the check could not be begun: {err}")),
    }
    Ok(())
}

/// Ends the check of a run that leaves none of its own behind, however the run ended.
pub(super) async fn end(run: &Run<'_>, admitted: &AdmittedReview, result: &Result<ReviewReport>) {
    let why = match result {
        Ok(report) => {
            let published = report.published.as_ref();
            if published.is_some_and(|published| published.check_url.is_some()) {
                return;
            }
            report.reviewed.reason.as_deref().unwrap_or("the review ended without a verdict")
        }
        Err(failure) if matches!(failure.kind, FailureKind::Signal(_)) => {
            "the review was interrupted; the next run on this pull request resumes it"
        }
        Err(failure) => failure.message_in_public(),
    };
    let Ok(outbox) = Outbox::of(run, admitted) else { return };
    let why = outbox.redactor.redact(why);
    let draft = check::not_run(&admitted.head, &why, run.environment.run_url.as_deref());
    if let Err(err) = outbox.forge.end_running_check(outbox.repository, &draft).await {
        outbox.ui.detail(&format!("the check could not be ended: {err}"));
    }
}

/// Ends the check of a run that was killed after it had said what it found and before its verdict. A review that is at work
/// keeps its check.
pub(super) async fn end_left_behind(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    earlier: &EarlierReviews,
) {
    let Ok(outbox) = Outbox::of(run, admitted) else { return };
    let claim = earlier.sticky.as_ref().and_then(|sticky| Claim::read(&sticky.body));
    let now = run.world.clock.now().timestamp();
    if claim.is_some_and(|claim| claim.until > now && !run.folder.has_dead_beside(&claim.run)) {
        return;
    }
    let page = earlier.sticky.as_ref().map(|sticky| sticky.html_url.as_str());
    let draft = check::left_behind(&admitted.head, page, run.environment.run_url.as_deref());
    if let Err(err) = outbox.forge.end_running_check(outbox.repository, &draft).await {
        outbox.ui.detail(&format!("the check could not be ended: {err}"));
    }
}

/// Says on the commit that there is nothing in the pull request that could be read, and that nothing was read before.
pub(super) async fn nothing_to_read(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    skipped: &[Skipped],
    why: &str,
) {
    let Ok(outbox) = Outbox::of(run, admitted) else { return };
    let run_url = run.environment.run_url.as_deref();
    let mut draft = check::nothing_to_read(&admitted.head, why, skipped, run_url);
    draft.summary = outbox.redactor.redact(&draft.summary);
    if let Err(err) = outbox.forge.put_check(outbox.repository, &draft).await {
        outbox.ui.detail(&format!("the check could not be written: {err}"));
    }
}

/// Says on the commit that its review came to no result, so that nobody takes an older check, an older approval, or
/// none, for a good sign.
pub(super) async fn not_run(run: &Run<'_>, admitted: &AdmittedReview, why: &str) {
    approval::take_back_unread(run, admitted, "its review came to no result").await;
    let Ok(outbox) = Outbox::of(run, admitted) else { return };
    let why = outbox.redactor.redact(why);
    let draft = check::not_run(&admitted.head, &why, run.environment.run_url.as_deref());
    if let Err(err) = outbox.forge.put_check(outbox.repository, &draft).await {
        outbox.ui.detail(&format!("the check could not be written: {err}"));
    }
}

fn data<'a>(work: &'a Work<'a>, page: Option<&'a str>, annotated: &'a [&'a Anchored]) -> Check<'a> {
    let review = &work.outbox.config.review;
    Check {
        reviewed: work.reviewed,
        known: &work.settled.findings,
        fail_on: review.fail_on,
        neutral_on: review.neutral_on,
        fail_on_checks: review.fail_on_checks,
        handed_over: work.origin == Origin::HandedOver,
        withheld: &work.withheld,
        forgotten: sticky::forgotten(work),
        kept: None,
        page,
        annotated,
    }
}
