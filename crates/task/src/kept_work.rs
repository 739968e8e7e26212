//! Work that was done and could not be published: what the job and whoever asked are told of it.

use super::run::Run;
use super::salvage;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_report::{job_summary, outputs};
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::task::TaskKind;

/// With all that there is to be seen of the work, and how it comes to be published. The run's files say that it was not.
/// What a signal has ended is not told as anything else.
pub(super) fn named(run: &Run<'_>, failure: Failure, outcome: &Outcome) -> Failure {
    let failure = run.as_interrupted(failure);
    let values = outputs::values_of_run(outcome, None, &run.folder.path).into_iter();
    let values = values.filter(|(name, _)| *name != "conclusion");
    let failure = values.fold(failure, |failure, (name, value)| failure.output(name, value));
    let failure = failure.work(job_summary::unpublished(outcome));
    let failure = match how_it_is_published(run, failure.kind, outcome) {
        Some(hint) => failure.hint(hint),
        None => failure,
    };
    // What a command pushes may have arrived before a signal, and the next run only says so then.
    let may_be_there = matches!(failure.kind, FailureKind::Signal(_))
        && matches!(run.task.kind, TaskKind::Respond(_));
    if !may_be_there {
        salvage::write_failed(run, outcome, None, &failure);
    }
    failure
}

/// `None` for what is not wanted any more, or not by this run.
fn how_it_is_published(run: &Run<'_>, kind: FailureKind, outcome: &Outcome) -> Option<String> {
    let is_done = matches!(outcome.conclusion, Conclusion::Done | Conclusion::Partial);
    match kind {
        FailureKind::NothingToDo => None,
        // Somebody else has it.
        _ if run.has_lost_its_job() => None,
        // What to do, the interruption has said.
        FailureKind::Signal(_) => is_done.then(|| {
            "the work is done and kept: it is published then without asking the model again"
                .to_owned()
        }),
        _ => Some(format!(
            "the work is done and kept: once that is put right, {}, and it is published without asking the model \
             again",
            again(run)
        )),
    }
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
