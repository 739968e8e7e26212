//! `plan`: an agent that only reads; its plan is posted with a hash that people can approve.

use super::Ending;
use super::admit::Admitted;
use super::plan_hash::{self, Made};
use super::work::{self, Checkouts, Job};
use crate::run::Run;
use patchwright_base::error::Result;
use patchwright_report::answer as words;
use patchwright_report::markdown;
use patchwright_types::outcome::Conclusion;

/// Bytes of a plan.
const MAX_PLAN: usize = 30_000;

/// Makes a plan and posts it.
pub(super) async fn plan(run: &mut Run<'_>, admitted: &Admitted, asked: &str) -> Result<Ending> {
    let grounds = Checkouts::of(run, admitted).await?;
    run.tighten(&grounds.rules).await?;
    let job = Job {
        template: "task/plan.md",
        words: asked,
        failures: "",
        mode: None,
        trailers: Vec::new(),
    };
    let outcome = work::work(run, admitted, &grounds, &job).await?.outcome;
    if outcome.conclusion != Conclusion::Done || outcome.final_message.trim().is_empty() {
        let body = words::answered(&outcome);
        return Ok(Ending {
            conclusion: outcome.conclusion,
            message: outcome.final_message.clone(),
            body: Some(body),
            outcome: Some(outcome),
        });
    }
    // What is hashed is what people see.
    let text = markdown::passage(&run.world.redactor.redact(&outcome.final_message), MAX_PLAN);
    let repository = admitted.repository.id.to_string();
    let commit = grounds.workspace.base.to_string();
    let made = made_from(admitted, &repository, &commit);
    let body = words::plan(&words::ProposedPlan {
        outcome: &outcome,
        framed: &plan_hash::framed(text.trim()),
        hash: &plan_hash::hash(&made, text.trim()),
        marker: &plan_hash::marker_line(&made, text.trim()),
        mention: &run.config.respond.mention,
    });
    let message =
        format!("{}\n\nplan {}", outcome.final_message.trim(), plan_hash::hash(&made, text.trim()));
    Ok(Ending { conclusion: outcome.conclusion, message, body: Some(body), outcome: Some(outcome) })
}

/// What a plan made now would be made from.
pub(super) fn made_from<'a>(
    admitted: &'a Admitted,
    repository: &'a str,
    commit: &'a str,
) -> Made<'a> {
    Made {
        repository,
        number: admitted.request.number,
        commit,
        title: &admitted.snapshot.title,
        body: &admitted.snapshot.body,
    }
}
