//! A review says one thing: the verdict that a reviewer ends with and what it has reported have to fit together. Models
//! put what they think is minor into the last message, where it is on no line and decides nothing. Such a reviewer is asked
//! once, before the second look.
//!
//! What does not fit even then is no reason to fail: `report::review` says so, and nothing is approved.

use super::final_message;
use crate::agent_phase::Phase;
use crate::asked_again;
use crate::brief::message;
use patchwright_agent::{Agent, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_forge::ReviewEvent;
use patchwright_journal::{Entry, Line};
use patchwright_prompt::{self as prompt, VerdictRequest};
use patchwright_provider::item::Role;
use patchwright_review::finding::Verdict;
use patchwright_review::overall::{self, OverallVerdict};
use patchwright_tools::review::ReviewContext;

/// Begins the note that the model was asked; its final message of then follows.
const ASKED: &str = "verdict asked for again: ";

/// Asks once, where verdict and findings do not fit together.
///
/// # Errors
/// When the journal cannot be written.
pub(crate) async fn take(
    phase: &Phase<'_>,
    agent: &mut Agent<'_>,
    recorded: &[Line],
    review_context: &ReviewContext<'_>,
    stopped: &mut Stopped,
) -> Result<()> {
    if is_past(recorded) {
        return Ok(());
    }
    if let Some(before) = asked_again::said_before(recorded, ASKED) {
        answered(before, stopped);
        return Ok(());
    }
    let run = phase.run;
    let approves = run.config.review.event == ReviewEvent::Approve;
    let Some(request) = request(review_context, stopped, approves) else { return Ok(()) };
    run.environment.ui.say("asking the model for a verdict that fits its findings");
    let before = stopped.final_message.clone();
    run.journal(&Entry::Note { text: format!("{ASKED}{before}") })?;
    let question = prompt::verdict(request)?;
    *stopped = agent.continue_with(vec![message(Role::User, question)]).await;
    answered(&before, stopped);
    Ok(())
}

/// What a finished review that is on record had said.
pub(crate) fn recorded(recorded: &[Line], stopped: &mut Stopped) {
    if let Some(before) = asked_again::said_before(recorded, ASKED).filter(|_| !is_past(recorded)) {
        answered(before, stopped);
    }
}

/// What to ask for. A missing verdict matters only where reviews approve.
fn request(
    review_context: &ReviewContext<'_>,
    stopped: &Stopped,
    approves: bool,
) -> Option<VerdictRequest> {
    let message = final_message::read(&stopped.final_message, &str::to_owned, &|_| None);
    let is_reported = message.trouble.is_some()
        || !message.findings.is_empty()
        || !review_context.sent_back().is_empty()
        || stopped.findings.iter().any(|finding| finding.verdict != Verdict::Withdrawn);
    if !matches!(stopped.reason, StopKind::Finished)
        || is_reported
        || review_context.open_before > 0
    {
        return None;
    }
    match overall::said(&message.summary) {
        Some(OverallVerdict::Correct) => None,
        Some(OverallVerdict::NeedsWork) => Some(VerdictRequest::WithoutFinding),
        None => approves.then_some(VerdictRequest::Missing),
    }
}

/// The second look has begun: what was said before is in its record.
fn is_past(recorded: &[Line]) -> bool {
    recorded.iter().any(|line| matches!(line.entry, Entry::SecondLook { .. }))
}

/// How the review stands after the question, however that ended: it was finished before. Words without a verdict replace
/// none that have one.
fn answered(before: &str, stopped: &mut Stopped) {
    asked_again::stays_finished(stopped);
    if !overall::is_said(&stopped.final_message) {
        before.clone_into(&mut stopped.final_message);
    }
}
