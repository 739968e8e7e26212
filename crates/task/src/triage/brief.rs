//! What the model is told.

use super::admit::AdmittedTriage;
use super::answer::MAX_QUESTIONS;
use super::choices::TriageChoices;
use super::templates;
use crate::context::thread::{self, Thread};
use crate::job::RenderedTask;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::Result;
use patchwright_prompt::{self as prompt, TriageCandidate, TriageTask};

/// The task in words, and what was left out of it.
pub(super) async fn tell(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    offer: &TriageChoices,
    rules: &Workspace,
) -> Result<RenderedTask> {
    let AdmittedTriage { issue, comments, linked, .. } = admitted;
    let stop = run.stop();
    let thread = Thread { issue, comments, trigger: None, linked };
    let thread = thread::thread_within(&thread, &|| stop.is_over(), &mut rand::random);
    let candidates: Vec<TriageCandidate> = offer
        .candidates
        .iter()
        .map(|it| TriageCandidate {
            number: it.number,
            open: it.open,
            title: it.title.clone(),
            body: it.body.clone(),
        })
        .collect();
    let text = prompt::triage_task(&TriageTask {
        repository: &admitted.repository.id.to_string(),
        number: issue.number,
        most_questions: MAX_QUESTIONS,
        labels: &offer.labels,
        candidates: &candidates,
        templates: &templates::read(rules).await?,
        thread: &thread.text,
    })?;
    let notes = offer.notes.iter().cloned().chain(thread.notes).collect();
    Ok(RenderedTask { text, notes })
}
