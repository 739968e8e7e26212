//! `describe`: title and description of a pull request, written by what it changes. What its author had
//! written stays below, folded.

use serde_json::{Value, json};

use super::CommandReply;
use super::admit::AdmittedCommand;
use super::fix::must_be_open;
use super::stop;
use super::work::{self, Instruction};
use crate::admit::{self, is_us};
use crate::run::Run;
use crate::workspace::Checkout;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact::keys::without_keys;
use patchwright_forge::PullRequest;
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_report as report;
use patchwright_report::answer as words;
use patchwright_report::description;
use patchwright_types::outcome::Conclusion;

/// Reads the change, writes both, and replaces what is there.
pub(super) async fn describe(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    asked: &str,
) -> Result<CommandReply> {
    let Some(pull) = &admitted.pull else {
        let body = words::only_for_pull_requests("described");
        return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
    };
    // What was replaced before the pull request was ended is still to be said.
    if intended(run).is_none() {
        must_be_open(pull)?;
    }
    let by_us = is_us(admitted.viewer.as_ref(), &pull.author);
    if by_us && report::is_described(&pull.body, "pull-request") {
        return Ok(CommandReply::with_body(Conclusion::NothingToDo, words::describes_itself()));
    }
    let checkout = Checkout::of_command(run, admitted).await?;
    let instruction = Instruction {
        template: "task/describe.md",
        words: asked,
        failures: "",
        mode: Some(prompt::text("mode/describe.md")?),
        trailers: Vec::new(),
        conflict: None,
    };
    let outcome = work::work(run, admitted, &checkout, &instruction).await?.outcome;
    // Here and not where it is posted: below it stands what its author had written, which stays as it is.
    let said = without_keys(&run.world.redactor.redact(&outcome.final_message));
    let written = description::read(&said);
    let Some(written) = written.filter(|_| outcome.conclusion == Conclusion::Done) else {
        let body = words::answered(&outcome);
        return Ok(CommandReply::of_work(outcome, body));
    };
    let body = if run.config.dry_run {
        format!("{}\n\n{}\n", written.title, written.body)
    } else {
        let replacing = replace(run, admitted, pull.number, &written);
        let Some(before) = run.unless_interrupted(replacing).await? else {
            let stopped = CommandReply::silent("stopped by a comment; nothing was replaced");
            return Ok(stopped.after(outcome));
        };
        words::described(&outcome, &before.title, &written.title)
    };
    Ok(CommandReply::of_work(outcome, body))
}

/// Replaces title and description, if who asked still may and nobody said stop. Returns the pull request as
/// it was before.
async fn replace(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    number: u64,
    written: &description::Description,
) -> Result<Option<PullRequest>> {
    let (forge, repository) = (run.world.forge()?.as_ref(), &admitted.repository.id);
    admit::must_be_same(forge, &admitted.repository).await?;
    // People may have edited it while the model was reading.
    let now = forge.pull_request(repository, number).await.map_err(Failure::from)?;
    if let Some(before) = replaced_before(run, written, &now) {
        return Ok(Some(before));
    }
    must_be_open(&now)?;
    admit::check_actor(forge, &run.config, repository, admitted.request.trigger.as_ref()).await?;
    if stop::is_stopped(forge, repository, number).await? {
        return Ok(None);
    }
    let body = description::body(written, &now.body);
    let key = number.to_string();
    let detail =
        json!({ "title": written.title, "title_before": now.title, "body_before": now.body });
    run.folder.intends(EFFECT, &key, detail)?;
    forge
        .describe_pull_request(repository, number, &written.title, &body)
        .await
        .map_err(|err| Failure::from(err).hint(run.files_hint()))?;
    run.folder.did(EFFECT, &key, json!({}))?;
    Ok(Some(now))
}

/// How it is called in the journal.
const EFFECT: &str = "describe";

/// What a killed attempt was about to replace, or had replaced.
fn intended(run: &Run<'_>) -> Option<Value> {
    run.folder.find(|entry| match entry {
        Entry::EffectIntended { effect, detail, .. } if effect == EFFECT => Some(detail.clone()),
        _ => None,
    })
}

/// The pull request as it was before a killed attempt had replaced its title and description, where it did.
fn replaced_before(
    run: &Run<'_>,
    written: &description::Description,
    now: &PullRequest,
) -> Option<PullRequest> {
    let detail = intended(run)?;
    let before = PullRequest {
        title: detail["title_before"].as_str()?.to_owned(),
        body: detail["body_before"].as_str()?.to_owned(),
        ..now.clone()
    };
    let plain = |text: &str| text.replace("\r\n", "\n").trim().to_owned();
    let body = description::body(written, &before.body);
    let is_there = now.title == written.title && plain(&now.body) == plain(&body);
    is_there.then_some(before)
}
