//! Work that was done and could not be published: what the job and whoever asked are told of it.

use super::run::Run;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_report::{job_summary, outputs};
use patchwright_types::outcome::Outcome;
use patchwright_types::task::TaskKind;

/// With all that there is to be seen of the work, and how it comes to be published.
pub(super) fn named(run: &Run<'_>, failure: Failure, outcome: &Outcome) -> Failure {
    let values = outputs::values_of_run(outcome, None, &run.folder.path).into_iter();
    let values = values.filter(|(name, _)| *name != "conclusion");
    let failure = values.fold(failure, |failure, (name, value)| failure.output(name, value));
    let failure = failure.work(job_summary::unpublished(outcome));
    // What is not wanted any more, and what a signal ends, has words of its own.
    if matches!(failure.kind, FailureKind::NothingToDo | FailureKind::Signal(_)) {
        return failure;
    }
    failure.hint(format!(
        "the work is done and kept: once that is put right, {}, and it is published without asking the model again",
        again(run)
    ))
}

/// With the files that the run has left, as far as they are not named.
pub(super) fn with_files(run: &Run<'_>, failure: Failure) -> Failure {
    let files = outputs::files(&run.folder.path).into_iter();
    files.fold(failure, |failure, (name, path)| failure.output(name, path))
}

/// How whoever asked for it has the same done again: nobody ran a command in a job.
fn again(run: &Run<'_>) -> &'static str {
    let label = match &run.task.kind {
        TaskKind::Issue(request) => request.trigger.as_ref().and_then(|it| it.label.as_ref()),
        _ => None,
    };
    match (label, run.environment.ui.actions) {
        (Some(_), true) => "set the label again, or run the job again",
        (None, true) => "run the job again",
        (Some(_), false) => "set the label again",
        (None, false) => "run the same command again",
    }
}
