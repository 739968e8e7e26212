//! `plan`: an agent that only reads; its plan is posted with a hash that people can approve.

use super::CommandReply;
use super::admit::AdmittedCommand;
use super::plan_hash::{self, PlanSource};
use super::work::{self, Instruction};
use crate::run::Run;
use crate::workspace::Checkout;
use patchwright_base::error::Result;
use patchwright_base::redact::keys::without_keys;
use patchwright_report::answer as words;
use patchwright_report::markdown;
use patchwright_types::outcome::Conclusion;

/// Bytes of a plan.
const MAX_PLAN: usize = 30_000;

/// Makes a plan and posts it.
pub(super) async fn plan(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    asked: &str,
) -> Result<CommandReply> {
    admitted.must_take_an_answer(run)?;
    let checkout = Checkout::of_command(run, admitted).await?;
    let instruction = Instruction {
        template: "task/plan.md",
        words: asked,
        failures: "",
        mode: None,
        trailers: Vec::new(),
        conflict: None,
    };
    let outcome = work::work(run, admitted, &checkout, &instruction).await?.outcome;
    if outcome.conclusion != Conclusion::Done || outcome.final_message.trim().is_empty() {
        let body = words::answered(&outcome);
        return Ok(CommandReply::of_work(outcome, body));
    }
    // What is hashed is what people see.
    let said = without_keys(&run.world.redactor.redact(&outcome.final_message));
    // A mark of Markdown may have stood inside of a key.
    let text = without_keys(&markdown::passage(&said, MAX_PLAN));
    let repository = admitted.repository.id.to_string();
    let commit = checkout.workspace.base.to_string();
    let source = made_from(admitted, &repository, &commit);
    let body = words::plan(&words::ProposedPlan {
        outcome: &outcome,
        framed: &plan_hash::framed(text.trim()),
        hash: &plan_hash::hash(&source, text.trim()),
        marker: &plan_hash::marker_line(&source, text.trim()),
        mention: &run.config.respond.mention,
    });
    let message = format!(
        "{}\n\nplan {}",
        outcome.final_message.trim(),
        plan_hash::hash(&source, text.trim())
    );
    Ok(CommandReply { message, ..CommandReply::of_work(outcome, body) })
}

/// What a plan made now would be made from.
pub(super) fn made_from<'a>(
    admitted: &'a AdmittedCommand,
    repository: &'a str,
    commit: &'a str,
) -> PlanSource<'a> {
    PlanSource {
        repository,
        number: admitted.request.number,
        commit,
        title: &admitted.snapshot.title,
        body: &admitted.snapshot.body,
    }
}
