//! The check run on the reviewed commit.

use super::publish::{Origin, Work};
use crate::error::Result;
use crate::forge::CheckConclusion;
use crate::report::review::check::{self, Check};

/// What the check says.
pub(super) fn of(work: &Work<'_>) -> CheckConclusion {
    data(work).conclusion()
}

/// Writes it; returns its page. A check that cannot be written is said, and costs nothing else.
pub(super) async fn put(work: &Work<'_>) -> Result<Option<String>> {
    let desk = &work.desk;
    if let Some(url) = desk.recorded::<Option<String>>("check") {
        return Ok(url);
    }
    let mut draft = check::check(&data(work));
    let redact = |text: &mut String| *text = desk.redactor.redact(text);
    redact(&mut draft.title);
    redact(&mut draft.summary);
    for annotation in &mut draft.annotations {
        redact(&mut annotation.title);
        redact(&mut annotation.message);
    }
    desk.intends("check", &draft.conclusion)?;
    match desk.forge.put_check(desk.repository, &draft).await {
        Ok(url) => {
            desk.did("check", &url)?;
            Ok(url)
        }
        Err(err) => {
            desk.ui.say(&format!("the check could not be written: {err}"));
            Ok(None)
        }
    }
}

fn data<'a>(work: &Work<'a>) -> Check<'a> {
    Check {
        reviewed: work.reviewed,
        known: &work.settled.findings,
        fail_on: work.desk.config.review.fail_on,
        handed_over: work.origin == Origin::HandedOver,
    }
}
