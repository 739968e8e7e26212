//! A question, answered in the thread that asked by an agent that only reads; and a review, asked for
//! in a comment.

use serde_json::json;

use super::admit::AdmittedCommand;
use super::work::{self, Instruction};
use super::{CommandReply, DoneBy};
use crate::review;
use crate::run::Run;
use crate::workspace::Checkout;
use patchwright_base::error::{FailureKind, Result};
use patchwright_config::{Config, Mode};
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_report::answer as words;
use patchwright_report::review::unreviewed;
use patchwright_types::command::Command;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::task::{CommandRequest, ReviewRequest};

/// Reads the code as it is on the head and answers.
pub(super) async fn ask(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    asked: &str,
) -> Result<CommandReply> {
    admitted.must_take_an_answer(run)?;
    let checkout = Checkout::of_command(run, admitted).await?;
    let instruction = Instruction {
        template: "task/ask.md",
        words: asked,
        failures: "",
        mode: Some(prompt::text("mode/answer.md")?),
        trailers: Vec::new(),
        conflict: None,
    };
    let done = work::work(run, admitted, &checkout, &instruction).await?;
    let outcome = done.outcome;
    if outcome.conclusion == Conclusion::Done && needs_change(&outcome.final_message) {
        return change_instead(run, admitted, asked, &outcome).await;
    }
    let body = words::answered(&outcome);
    Ok(CommandReply::of_work(outcome, body))
}

/// The line with which a model says that it was asked for a change, not for an answer.
const NEEDS_CHANGE: &str = "NEEDS CHANGE";

fn needs_change(message: &str) -> bool {
    let line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let bare = line.trim_matches(|c: char| c.is_whitespace() || "*_`#>.:".contains(c));
    bare == NEEDS_CHANGE
}

/// Works on the request as a run of its own that may change something. What was spent on finding out counts.
async fn change_instead(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    asked: &str,
    outcome: &Outcome,
) -> Result<CommandReply> {
    run.environment.ui.say("this asks for a change: starting anew with tools that write");
    let mut config = Config { mode: Mode::Execute, ..run.config.clone() };
    let limits = &mut config.limits;
    limits.max_tokens = limits.max_tokens.saturating_sub(outcome.spending.usage.total()).max(1);
    limits.max_turns = limits.max_turns.saturating_sub(outcome.spending.turns).max(1);
    limits.max_cost_usd = (limits.max_cost_usd - outcome.spending.cost_usd).max(0.01);
    let command = Command::Fix { words: asked.to_owned() };
    let request = CommandRequest { command, ..admitted.request.clone() };
    let ended =
        Box::pin(super::respond(run.world, config, request, run.environment.clone())).await?;
    // That run has answered already.
    Ok(CommandReply {
        conclusion: ended.conclusion,
        message: ended.message.clone(),
        body: None,
        outcome: Some(outcome.clone()),
        published: None,
        done_by: DoneBy::Command(Box::new(ended)),
    })
}

/// The review is its own report; the thread gets a line about it.
pub(super) async fn review(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    full: bool,
) -> Result<CommandReply> {
    let request = &admitted.request;
    if admitted.pull.is_none() {
        let body = words::only_for_pull_requests("reviewed");
        return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
    }
    if let Some(answer) = reviewed_before(run) {
        return Ok(answer);
    }
    let review = ReviewRequest {
        repository: request.repository.clone(),
        number: request.number,
        trigger: request.trigger.clone(),
        head: None,
        full,
        only_judges: false,
    };
    let (config, environment) = (run.config.clone(), run.environment.clone());
    let ended = review::run::review(run.world, config, review, environment).await;
    let ended = match ended {
        // Its hints are for a command line, but for those about a draft, and about what is closed or merged.
        Err(failure) if failure.kind == FailureKind::NothingToDo && !failure.is_busy => {
            let may_help = !full && admitted.pull.as_ref().is_some_and(|it| it.open && !it.draft);
            let mention = may_help.then_some(run.config.respond.mention.as_str());
            let is_plain = admitted.pull.as_ref().is_some_and(|it| !it.open || it.draft);
            let next = failure.public_hints().next().filter(|_| is_plain);
            let body = unreviewed::not_reviewed(&failure.message, next, mention);
            return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
        }
        ended => ended?,
    };
    let reviewed = &ended.reviewed;
    let url = ended.published.as_ref().and_then(|published| published.url.as_deref());
    let body = match (reviewed.conclusion, &reviewed.reason) {
        (Conclusion::NothingToDo, Some(why)) => {
            let mention = (!full).then_some(run.config.respond.mention.as_str());
            unreviewed::not_reviewed(why, None, mention)
        }
        _ => words::reviewed(&words::RequestedReview {
            head: &reviewed.head,
            since: reviewed.since.as_deref(),
            findings: reviewed.findings.len(),
            known: ended.published.as_ref().map(|it| it.known.as_slice()).unwrap_or_default(),
            conclusion: reviewed.conclusion,
            reason: reviewed.reason.as_deref(),
            url,
        }),
    };
    let detail = json!({ "conclusion": reviewed.conclusion, "body": body });
    run.folder.did(REVIEWED, &reviewed.head, detail)?;
    let answer = CommandReply::with_body(reviewed.conclusion, body);
    Ok(CommandReply { done_by: DoneBy::Review(Box::new(ended)), ..answer })
}

/// How the journal calls a review that is posted; what is left is the answer.
const REVIEWED: &str = "reviewed";

/// The answer of a killed attempt, whose review is posted.
fn reviewed_before(run: &Run<'_>) -> Option<CommandReply> {
    run.folder.find(|entry| match entry {
        Entry::EffectDone { effect, detail, .. } if effect == REVIEWED => {
            let conclusion = serde_json::from_value(detail["conclusion"].clone()).ok()?;
            Some(CommandReply::with_body(conclusion, detail["body"].as_str()?.to_owned()))
        }
        _ => None,
    })
}
