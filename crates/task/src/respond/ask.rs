//! A question, answered in the thread that asked by an agent that only reads; and a review, asked for
//! in a comment.

use super::admit::Admitted;
use super::work::{self, Checkouts, Job};
use super::{Ending, task_of};
use crate::review;
use crate::run::Run;
use patchwright_base::error::{FailureKind, Result};
use patchwright_prompt as prompt;
use patchwright_report::answer as words;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::TaskKind;

/// Reads the code as it is on the head and answers.
pub(super) async fn ask(run: &mut Run<'_>, admitted: &Admitted, asked: &str) -> Result<Ending> {
    let grounds = Checkouts::of(run, admitted).await?;
    run.tighten(&grounds.rules).await?;
    let job = Job {
        template: "task/ask.md",
        words: asked,
        failures: "",
        mode: Some(prompt::text("mode/answer.md")?),
        trailers: Vec::new(),
    };
    let done = work::work(run, admitted, &grounds, &job).await?;
    let outcome = done.outcome;
    let body = words::answered(&outcome);
    Ok(Ending {
        conclusion: outcome.conclusion,
        message: outcome.final_message.clone(),
        body: Some(body),
        outcome: Some(outcome),
    })
}

/// The review is its own report; the thread gets a line about it.
pub(super) async fn review(run: &Run<'_>, admitted: &Admitted, full: bool) -> Result<Ending> {
    let request = &admitted.request;
    if admitted.pull.is_none() {
        let body = words::only_for_pull_requests("reviewed");
        return Ok(Ending::said(Conclusion::NothingToDo, body));
    }
    let kind = TaskKind::Review {
        repository: request.id.clone(),
        number: request.number,
        trigger: request.trigger.clone(),
        head: None,
        full,
    };
    let (config, around) = (run.config.clone(), run.around.clone());
    let ended = review::run::review(run.world, config, task_of(run, kind), around).await;
    let ended = match ended {
        // Its hints are for a command line.
        Err(failure) if failure.kind == FailureKind::NothingToDo => {
            let may_help = !full && admitted.pull.as_ref().is_some_and(|it| it.open && !it.draft);
            let mention = may_help.then_some(run.config.respond.mention.as_str());
            let body = words::not_reviewed(&failure.message, mention);
            return Ok(Ending::said(Conclusion::NothingToDo, body));
        }
        ended => ended?,
    };
    let reviewed = &ended.reviewed;
    let url = ended.published.as_ref().and_then(|published| published.url.as_deref());
    let body = words::reviewed(&words::RequestedReview {
        head: &reviewed.head,
        since: reviewed.since.as_deref(),
        findings: reviewed.findings.len(),
        conclusion: reviewed.conclusion,
        reason: reviewed.reason.as_deref(),
        url,
    });
    Ok(Ending::said(reviewed.conclusion, body))
}
