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
use patchwright_types::task::{CommandRequest, Trigger};

/// The purpose of the comment's marker.
const PURPOSE: &str = "stop";

/// What the comment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub comment: u64,
    pub stopped: bool,
    pub at: DateTime<Utc>,
    /// When a person said so last, whether or not that was lifted. Where the comment does not tell: when it was
    /// written, or before everything else for one that was lifted.
    pub asked: Moment,
}

/// When somebody asked for something. The forge's times are of whole seconds; within one, the numbers of comments tell
/// what came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub at: DateTime<Utc>,
    /// The comment, or the review.
    pub comment: u64,
}

impl Moment {
    /// `None` for what is asked for now, at a shell or by starting a workflow.
    fn of(request: &CommandRequest) -> Option<Moment> {
        let at = request.trigger.as_ref()?.at?;
        let comment = match request.place? {
            CommentPlace::Conversation { comment } | CommentPlace::Thread { comment, .. } => {
                comment
            }
            CommentPlace::Review { review } => review,
        };
        Some(Moment { at, comment })
    }
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
    Comment::newest(states).map(|comment| {
        let said = report::marked(&comment.body, words::STOPPED);
        let lifted = report::marked(&comment.body, words::LIFTED);
        let asked = said.as_deref().or(lifted.as_deref()).and_then(words::stop_asked);
        let (stopped, at) = (said.is_some(), comment.updated_at);
        let unknown = if stopped { (at, comment.id) } else { (DateTime::UNIX_EPOCH, 0) };
        let (asked_at, asked_in) = asked.unwrap_or(unknown);
        let asked = Moment { at: asked_at, comment: asked_in };
        State { comment: comment.id, stopped, at, asked }
    })
}

/// Told to stop since `before`: work that began after a stop was asked for by somebody who knew.
pub fn since(before: Option<State>, now: Option<State>) -> bool {
    let Some(now) = now.filter(|now| now.stopped) else { return false };
    !before.is_some_and(|before| before.stopped && before.at == now.at)
}

/// Somebody has said stop after what the trigger stands for. A trigger without a time is of now.
pub fn holds_against(trigger: Option<&Trigger>, now: Option<State>) -> bool {
    let asked = trigger.and_then(|trigger| trigger.at);
    now.filter(|now| now.stopped).zip(asked).is_some_and(|(now, asked)| asked < now.asked.at)
}

/// Before a command: a person who asks for something lifts an earlier stop; a failing check does not, and neither does
/// what was asked before the stop and comes once more. Returns how the command ends, if a stop holds.
pub(super) async fn before(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
) -> Result<Option<CommandReply>> {
    let Some(state) = admitted.stopped.filter(|state| state.stopped) else { return Ok(None) };
    let request = &admitted.request;
    if request.is_automatic() {
        return Err(Failure::nothing_to_do("somebody said stop here")
            .hint("ask for anything in a comment to lift that"));
    }
    match request.command {
        // A word against a finding is no wish that work goes on.
        Command::Stop | Command::Help | Command::Ignore => return Ok(None),
        Command::Fix { .. }
        | Command::Ask { .. }
        | Command::Plan { .. }
        | Command::Describe { .. }
        | Command::Approve { .. }
        | Command::Rebase { .. }
        | Command::Review { .. }
        | Command::FixCi => {}
    }
    if Moment::of(request).is_some_and(|asked| asked <= state.asked) {
        let why = "somebody said stop here after this was asked; a new comment starts again";
        return Ok(Some(CommandReply::silent(why)));
    }
    if run.config.dry_run {
        return Ok(None);
    }
    let body = words::going_on((state.asked.at, state.asked.comment));
    write(run, admitted, Some(state.comment), body).await?;
    Ok(None)
}

/// Remembers it and says so.
pub(super) async fn stop(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<CommandReply> {
    let known = admitted.stopped.map(|state| state.comment);
    let asked = Moment::of(&admitted.request);
    if asked.zip(admitted.stopped).is_some_and(|(asked, state)| asked <= state.asked) {
        return Ok(CommandReply::silent("this was said before, and heard"));
    }
    let mention = run.config.respond.mention.as_str();
    let mut body = words::stopped(mention, asked.map(|asked| (asked.at, asked.comment)));
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
