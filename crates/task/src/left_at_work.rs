//! An issue that is not worked on any more, such as a closed one, or one whose workers were killed again and again: its
//! comment must not say for good that a run which was killed is at work, and whoever asks for it again is told of that run.

use super::folder;
use super::progress::{DEAD_AFTER, PURPOSE};
use super::respond::stop;
use super::resumption;
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::Config;
use patchwright_forge::{Comment, Repository};
use patchwright_report::{self as report, progress};
use patchwright_types::task::{IssueRequest, Task};

/// Why nothing is done, with the run of the issue that has not ended. Comments that say that it is at work are brought to
/// an end; where that fails, they stay.
pub(super) async fn ended(
    world: &World,
    config: &Config,
    request: &IssueRequest,
    repository: &Repository,
    failure: Failure,
) -> Failure {
    let task = Task { kind: request.clone().into(), limits: config.limits.clone() };
    let kept = resumption::unfinished_run(world, &task);
    if !config.dry_run && failure.kind == FailureKind::NothingToDo {
        end_comments(world, request, repository, &last_words(&failure, kept.is_some())).await;
    }
    match kept {
        Some(run) => {
            failure.hint(format!("its run {run} has not ended: it is kept, and resumed then"))
        }
        None => failure,
    }
}

/// The run of an issue was given up without a process that could say so: comments that say that it is at work say `words`
/// from now on.
///
/// # Errors
/// When the repository cannot be read.
pub async fn given_up(world: &World, request: &IssueRequest, words: &Failure) -> Result<()> {
    let repository = world.forge()?.repository(&request.repository).await.map_err(Failure::from)?;
    end_comments(world, request, &repository, words).await;
    Ok(())
}

/// What the comment of the killed run says from now on.
fn last_words(failure: &Failure, is_kept: bool) -> Failure {
    let why = format!("interrupted; by now, {}", failure.message);
    let mut words = Failure::new(FailureKind::Signal(15), why);
    words.hints.clone_from(&failure.hints);
    if is_kept {
        words.hint("what was done so far is kept, and the run is resumed then")
    } else {
        words
    }
}

async fn end_comments(
    world: &World,
    request: &IssueRequest,
    repository: &Repository,
    words: &Failure,
) {
    let Ok(forge) = world.forge() else { return };
    let (id, number) = (&repository.id, request.number);
    let comments = match forge.comments(id, number, stop::MAX_COMMENTS).await {
        Ok(comments) => comments,
        Err(err) => {
            tracing::debug!(%err, "the progress comment of a killed run was not looked for");
            return;
        }
    };
    for comment in comments.iter().filter(|comment| comment.ours) {
        let Some(run) = report::at_work(&comment.body, PURPOSE) else { continue };
        if !is_dead(world, comment, &run) {
            continue;
        }
        let (earlier, marker) =
            (progress::pull_request_in(&comment.body), report::marker(PURPOSE, &run));
        let body = world.redactor.redact(&progress::failed(words, None, earlier, &marker));
        let written = forge.upsert_comment(id, number, &marker, Some(comment.id), &body).await;
        if let Err(err) = written {
            tracing::debug!(%err, "the progress comment of a killed run was not edited");
        }
    }
}

/// No process of this machine works on it, or one of another machine gives no sign of life any more.
fn is_dead(world: &World, comment: &Comment, run: &str) -> bool {
    let silent = world.clock.now() - comment.updated_at;
    folder::is_dead_in(&world.state.join("runs"), run) || silent >= DEAD_AFTER
}
