//! `ignore`, an answer to a finding: what people have dismissed is counted at once, and the check on the commit says what
//! follows from it. No model is asked; a finding is dismissed by the thread itself, which every later review reads too.

use serde_json::{Value, json};

use super::admit::AdmittedCommand;
use super::{CommandReply, answer};
use crate::review;
use crate::run::Run;
use patchwright_base::error::{FailureKind, Result};
use patchwright_journal::Entry;
use patchwright_report::review::{check, unreviewed};
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::ReviewRequest;

/// How the journal calls that it was counted.
const COUNTED: &str = "dismissals-counted";

/// Counts them, by a review that reads nothing.
pub(super) async fn ignore(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<CommandReply> {
    let request = &admitted.request;
    if admitted.pull.is_none() {
        let body =
            unreviewed::nothing_dismissed("only findings of pull requests can be dismissed", None);
        return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
    }
    if let Some(message) = counted_before(run) {
        return Ok(counted(message));
    }
    let review = ReviewRequest {
        repository: request.repository.clone(),
        number: request.number,
        trigger: request.trigger.clone(),
        head: None,
        full: false,
        only_judges: true,
    };
    let (config, environment) = (run.config.clone(), run.environment.clone());
    let ended = match review::run::review(run.world, config, review, environment).await {
        Err(failure) if failure.kind == FailureKind::NothingToDo && !failure.is_busy => {
            let body =
                unreviewed::nothing_dismissed(&failure.message, failure.public_hints().next());
            return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
        }
        ended => ended?,
    };
    let verdict = ended.published.and_then(|published| published.verdict);
    let verdict = verdict.map_or("not written", check::word);
    let message = format!(
        "the dismissed findings are counted; the check is `{verdict}` at {}",
        ended.reviewed.head
    );
    run.folder.did(COUNTED, &ended.reviewed.head, json!({ "message": message }))?;
    answer::react(run, admitted, "+1").await;
    Ok(counted(message))
}

/// The check is the answer. A comment would notify everybody of what the thread says already.
fn counted(message: String) -> CommandReply {
    CommandReply { conclusion: Conclusion::Done, ..CommandReply::silent(message) }
}

/// What a killed attempt said, that had written the check.
fn counted_before(run: &Run<'_>) -> Option<String> {
    run.folder.find(|entry| match entry {
        Entry::EffectDone { effect, detail, .. } if effect == COUNTED => {
            detail.get("message").and_then(Value::as_str).map(str::to_owned)
        }
        _ => None,
    })
}
