//! `stop`: nothing more is done on an issue or pull request until a person asks again.
//!
//! It is remembered in one comment of ours, so that it holds for every machine. Whoever is about to
//! publish asks [`is_stopped`].

use chrono::{DateTime, Utc};

use super::admit::AdmittedCommand;
pub use super::admit::MAX_COMMENTS;
use super::{CommandReply, answer};
use crate::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{Comment, CommentPlace, Forge, RepositoryId};
use patchwright_report as report;
use patchwright_report::answer as words;
use patchwright_types::command::Command;

/// The purpose of the comment's marker.
const PURPOSE: &str = "stop";

/// What the comment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub comment: u64,
    pub stopped: bool,
    pub at: DateTime<Utc>,
}

/// Whether people have told us to stop here.
///
/// # Errors
/// When the conversation cannot be read.
pub async fn is_stopped(forge: &dyn Forge, repository: &RepositoryId, number: u64) -> Result<bool> {
    let comments = forge.comments(repository, number, MAX_COMMENTS).await.map_err(Failure::from)?;
    Ok(state(&comments).is_some_and(|state| state.stopped))
}

/// What our comment says, when there is one. Anybody can copy its markers, so it has to be ours.
pub fn state(comments: &[Comment]) -> Option<State> {
    let states = comments.iter().filter(|it| report::marked(&it.body, PURPOSE).is_some());
    Comment::newest(states).map(|comment| State {
        comment: comment.id,
        stopped: report::marked(&comment.body, words::STOPPED).is_some(),
        at: comment.updated_at,
    })
}

/// Told to stop since `before`: work that began after a stop was asked for by somebody who knew.
pub fn since(before: Option<State>, now: Option<State>) -> bool {
    let Some(now) = now.filter(|now| now.stopped) else { return false };
    !before.is_some_and(|before| before.stopped && before.at == now.at)
}

/// Before a command: a person who asks for something lifts an earlier stop; a failing check does not.
pub(super) async fn before(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<()> {
    let Some(state) = admitted.stopped.filter(|state| state.stopped) else { return Ok(()) };
    let request = &admitted.request;
    if request.is_automatic() {
        return Err(Failure::nothing_to_do("somebody said stop here")
            .hint("ask for anything in a comment to lift that"));
    }
    match request.command {
        Command::Stop | Command::Help => return Ok(()),
        Command::Fix { .. }
        | Command::Ask { .. }
        | Command::Plan { .. }
        | Command::Describe { .. }
        | Command::Approve { .. }
        | Command::Rebase { .. }
        | Command::Review { .. }
        | Command::FixCi => {}
    }
    if run.config.dry_run {
        return Ok(());
    }
    write(run, admitted, Some(state.comment), words::going_on()).await
}

/// Remembers it and says so.
pub(super) async fn stop(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<CommandReply> {
    let known = admitted.stopped.map(|state| state.comment);
    let mention = run.config.respond.mention.as_str();
    let mut body = words::stopped(mention);
    let in_thread = matches!(admitted.request.place, Some(CommentPlace::Thread { .. }));
    if !in_thread {
        // This comment is the answer as well.
        body = format!("{body}\n{}\n", admitted.marker(run));
    }
    if !run.config.dry_run {
        write(run, admitted, known, body).await?;
        answer::react(run, admitted, "+1").await;
    }
    let mut ending = CommandReply::with_body(
        patchwright_types::outcome::Conclusion::Done,
        words::stopped_in_thread(mention),
    );
    if !in_thread {
        ending.body = None;
    }
    Ok(ending)
}

async fn write(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    known: Option<u64>,
    body: String,
) -> Result<()> {
    let marker = report::marker_once(PURPOSE);
    let body = run.world.redactor.redact(&format!("{}\n\n{marker}\n", body.trim_end()));
    let forge = run.world.forge()?;
    let (repository, number) = (&admitted.repository.id, admitted.request.number);
    forge
        .upsert_comment(repository, number, &marker, known, &body)
        .await
        .map(drop)
        .map_err(Failure::from)
}
