//! What a finished run has to say about its repository, decided from recorded facts.

use super::trouble::{self, Fate, Trouble};
use crate::agent::StopKind;
use crate::error::Failure;
use crate::git::Oid;
use crate::git::tree::Change;
use crate::report::pr_body;
use crate::store::model::ErrorClass;
use crate::task::TaskKind;
use crate::task::outcome::{Conclusion, Outcome};
use crate::task::publish::template_of;
use crate::task::run::{Made, Run};
use crate::task::workspace::Workspace;
use crate::verify;

/// A good end.
#[derive(Debug)]
pub enum Ended {
    /// There is a change that may be published.
    Change(Box<Stored>),
    /// The model found nothing to change, and said why.
    Unchanged(String),
    /// The answer that was asked for.
    Answer(String),
}

/// A change, and all that its pull request says.
#[derive(Debug)]
pub struct Stored {
    pub workspace: Workspace,
    pub commit: Oid,
    pub change: Change,
    /// The model's title, or the campaign's where that does not read like one. Redacted, as the body is.
    pub title: String,
    /// The description without the campaign's own words.
    pub body: String,
    pub marker: String,
    /// It should be opened as a draft, whatever the campaign says.
    pub draft: bool,
    /// From the repository's own configuration, where the campaign names none.
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
}

/// Decides. The first thing that stands in the way is the one that is said.
pub(super) fn of(run: &Run<'_>, made: Made) -> Result<Ended, Trouble> {
    let Made { workspace, worked, settled, outcome } = made;
    let question = worked.stopped.needs_input().map(str::to_owned);
    let words = worked.stopped.final_message.clone();
    if !matches!(worked.stopped.reason, StopKind::Finished)
        && let Some(trouble) = trouble::of_stop(worked.stopped.reason)
    {
        return Err(trouble);
    }
    let reason = outcome.reason.clone().unwrap_or_default();
    let final_trouble = |class, failure| Err(Trouble::new(class, Fate::Final, failure));
    if question.is_some() {
        let failure = Failure::nothing_to_do(reason).hint("say more in the campaign's prompt");
        return final_trouble(ErrorClass::Agent, failure);
    }
    if matches!(run.task.kind, TaskKind::Campaign { answer: true, .. }) {
        return Ok(Ended::Answer(run.world.redactor.redact(&words)));
    }
    match outcome.conclusion {
        Conclusion::Refused => return final_trouble(ErrorClass::Policy, Failure::refused(reason)),
        Conclusion::NothingToDo => return Ok(Ended::Unchanged(run.world.redactor.redact(&words))),
        Conclusion::Done | Conclusion::Partial => {}
        Conclusion::NeedsInput
        | Conclusion::Budget
        | Conclusion::Provider
        | Conclusion::Sandbox => {
            return final_trouble(ErrorClass::Agent, Failure::nothing_to_do(reason));
        }
    }
    let broke = verify::newly_failing(&outcome.evidence);
    if let Some(first) = broke.first() {
        let failure = Failure::refused(format!(
            "`{}` passes before the change and fails with it{}",
            first.command,
            match broke.len() {
                1 => String::new(),
                count => format!(", and {} more", count - 1),
            }
        ))
        .hint(run.change_kept());
        return final_trouble(ErrorClass::Checks, failure);
    }
    let (Some(change), Some(commit)) = (settled.change, settled.commit) else {
        return Ok(Ended::Unchanged(run.world.redactor.redact(&words)));
    };
    let patch = settled.held_back_patch.as_deref().map(String::from_utf8_lossy);
    let stored = describe(run, workspace, &outcome, patch.as_deref(), commit, change);
    Ok(Ended::Change(Box::new(stored)))
}

fn describe(
    run: &Run<'_>,
    workspace: Workspace,
    outcome: &Outcome,
    held_back_patch: Option<&str>,
    commit: Oid,
    change: Change,
) -> Stored {
    let template = template_of(&workspace);
    let marker = crate::report::marker("pull-request", &run.folder.id);
    let body = pr_body::body(&pr_body::PullRequest {
        outcome,
        issue: None,
        template: template.as_deref(),
        held_back_patch,
        marker: &marker,
    });
    let title = pr_body::title(&outcome.final_message, run.issue_title.as_deref());
    let redact = |text: &str| run.world.redactor.redact(text);
    Stored {
        title: redact(&title),
        body: redact(&body),
        marker,
        draft: run.config.publish.draft
            || outcome.evidence.any_failed()
            || outcome.judgement.wants_draft()
            || outcome.conclusion == Conclusion::Partial,
        labels: run.config.publish.labels.clone(),
        reviewers: run.config.publish.reviewers.clone(),
        workspace,
        commit,
        change,
    }
}
