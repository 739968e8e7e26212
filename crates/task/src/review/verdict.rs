//! The check run on the reviewed commit.

use super::admit::AdmittedReview;
use super::outbox::Outbox;
use super::publish::{Origin, Work};
use crate::run::Run;
use patchwright_base::error::Result;
use patchwright_forge::CheckConclusion;
use patchwright_report::review::check::{self, Check};

/// What the check says.
pub(super) fn of(work: &Work<'_>) -> CheckConclusion {
    data(work).conclusion()
}

/// Writes it; returns its page. A check that cannot be written is said, and costs nothing else.
pub(super) async fn put(work: &Work<'_>) -> Result<Option<String>> {
    let outbox = &work.outbox;
    if let Some(url) = outbox.recorded::<Option<String>>("check")? {
        return Ok(url);
    }
    let mut draft = check::check(&data(work));
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
            outbox.did("check", &url)?;
            Ok(url)
        }
        Err(err) => {
            outbox.ui.say(&format!("the check could not be written: {err}"));
            Ok(None)
        }
    }
}

/// Says on the commit that its review came to no result, so that nobody takes an older check, or none,
/// for a good sign.
pub(super) async fn not_run(run: &Run<'_>, admitted: &AdmittedReview, why: &str) {
    let Ok(outbox) = Outbox::of(run, admitted) else { return };
    let why = outbox.redactor.redact(why);
    let draft = check::not_run(&admitted.head, &why, run.environment.run_url.as_deref());
    if let Err(err) = outbox.forge.put_check(outbox.repository, &draft).await {
        outbox.ui.detail(&format!("the check could not be written: {err}"));
    }
}

fn data<'a>(work: &'a Work<'a>) -> Check<'a> {
    let review = &work.outbox.config.review;
    Check {
        reviewed: work.reviewed,
        known: &work.settled.findings,
        fail_on: review.fail_on,
        neutral_on: review.neutral_on,
        fail_on_checks: review.fail_on_checks,
        handed_over: work.origin == Origin::HandedOver,
        withheld: &work.withheld,
    }
}
