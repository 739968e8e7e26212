//! What a finished run means for its repository, decided from recorded facts.

use serde::{Deserialize, Serialize};

use super::target_error::{self, RetryDecision, TargetError};
use crate::pipeline::FinishedJob;
use crate::run::Run;
use crate::structured::Output;
use crate::title;
use crate::workspace::Workspace;
use patchwright_base::error::Failure;
use patchwright_base::text;
use patchwright_git::Oid;
use patchwright_git::tree::Change;
use patchwright_journal as journal;
use patchwright_types::campaign::ErrorClass;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::task::CampaignRequest;

/// Bytes of a held-back patch that are stored: as much as a description shows of one.
const PATCH: usize = 20_000;

/// The result of a run that succeeded.
#[derive(Debug)]
pub enum TargetResult {
    /// There is a change that may be published.
    Change(Box<StoredChange>),
    /// The model changed nothing, and said why.
    Unchanged(String),
    /// The answer that was asked for.
    Answer(String),
}

/// What a pull request's description is made of. It is stored as data and rendered where the change is
/// published: the publisher does not trust texts from the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeReport {
    pub outcome: Outcome,
    /// The patch of the files that were held back, or its beginning.
    pub held_back_patch: Option<String>,
}

/// A change, and all that its pull request says.
#[derive(Debug)]
pub struct StoredChange {
    pub workspace: Workspace,
    pub commit: Oid,
    pub change: Change,
    /// The model's title, or the campaign's where that does not read like one. Redacted, as `told` is.
    pub title: String,
    /// What the description is made of.
    pub told: ChangeReport,
    pub marker: String,
    /// It should be opened as a draft, whatever the campaign says.
    pub draft: bool,
    /// From the repository's own configuration, where the campaign names none.
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
}

/// Decides; the first reason against the change is the error.
pub(super) fn of(
    run: &Run<'_>,
    request: &CampaignRequest,
    workspace: Workspace,
    finished: FinishedJob,
) -> Result<TargetResult, TargetError> {
    let FinishedJob { worked, judged, outcome } = finished;
    let is_question = matches!(outcome.conclusion, Conclusion::NeedsInput);
    let words = worked.stopped.final_message.clone();
    let used = (&run.config.limits, &outcome.spending);
    if let Some(trouble) = target_error::of_stop(worked.stopped.reason, used) {
        return Err(trouble);
    }
    let reason = outcome.reason.clone().unwrap_or_default();
    let final_trouble =
        |class, failure| Err(TargetError::new(class, RetryDecision::Final, failure));
    if is_question {
        let failure = Failure::nothing_to_do(reason).hint("say more in the campaign's prompt");
        return final_trouble(ErrorClass::Question, failure);
    }
    if let Output::Unfit(_) = &worked.output {
        return final_trouble(ErrorClass::Output, Failure::nothing_to_do(reason));
    }
    if let Some(output) = worked.output.value() {
        return Ok(TargetResult::Answer(run.world.redactor.redact(&output.to_string())));
    }
    if request.answer {
        return Ok(TargetResult::Answer(run.world.redactor.redact(&words)));
    }
    match outcome.conclusion {
        Conclusion::Refused => return final_trouble(ErrorClass::Policy, Failure::refused(reason)),
        Conclusion::NothingToDo => {
            return Ok(TargetResult::Unchanged(run.world.redactor.redact(&words)));
        }
        Conclusion::Done | Conclusion::Partial => {}
        Conclusion::NeedsInput
        | Conclusion::Interrupted
        | Conclusion::Budget
        | Conclusion::Provider
        | Conclusion::Sandbox => {
            return final_trouble(ErrorClass::Agent, Failure::nothing_to_do(reason));
        }
    }
    let broke = patchwright_types::evidence::newly_failing(&outcome.evidence);
    if let Some(first) = broke.first() {
        let failure = Failure::refused(format!(
            "`{}` fails with the change, and not in this way before{}",
            first.command,
            match broke.len() {
                1 => String::new(),
                count => format!(", and {} more", count - 1),
            }
        ))
        .hint(run.change_kept());
        return final_trouble(ErrorClass::Checks, failure);
    }
    let (Some(change), Some(commit)) = (judged.change, judged.commit) else {
        return Ok(TargetResult::Unchanged(run.world.redactor.redact(&words)));
    };
    let patch = judged.held_back_patch.as_deref().map(String::from_utf8_lossy);
    let stored = describe(run, workspace, &outcome, patch.as_deref(), commit, change)?;
    Ok(TargetResult::Change(Box::new(stored)))
}

/// Without secrets of ours, in whichever of its texts.
fn redacted(run: &Run<'_>, told: &ChangeReport) -> Result<ChangeReport, Failure> {
    let failed = |err| Failure::internal("what the run said cannot be stored").caused_by(err);
    let mut value = serde_json::to_value(told).map_err(failed)?;
    journal::redact_strings(&mut value, &run.world.redaction());
    serde_json::from_value(value).map_err(failed)
}

fn describe(
    run: &Run<'_>,
    workspace: Workspace,
    outcome: &Outcome,
    held_back_patch: Option<&str>,
    commit: Oid,
    change: Change,
) -> Result<StoredChange, Failure> {
    let marker = patchwright_report::marker("pull-request", &run.folder.id);
    let patch = held_back_patch.map(|patch| text::head(patch, PATCH));
    let told = ChangeReport { outcome: outcome.clone(), held_back_patch: patch };
    let title = title::of_run(run, &outcome.final_message);
    let redact = |text: &str| run.world.redactor.redact(text);
    Ok(StoredChange {
        title: redact(&title),
        told: redacted(run, &told)?,
        marker,
        draft: run.config.publish.draft
            || outcome.evidence.is_red()
            || outcome.judgement.wants_draft()
            || outcome.conclusion == Conclusion::Partial,
        labels: run.config.publish.labels.clone(),
        reviewers: run.config.publish.reviewers.clone(),
        workspace,
        commit,
        change,
    })
}
