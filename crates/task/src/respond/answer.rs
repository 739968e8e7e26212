//! What we say in the thread that asked: 👀 first, one answer last.

use serde_json::json;

use super::CommandReply;
use super::admit::{AdmittedCommand, MAX_COMMENTS};
use crate::admit::must_be_same;
use crate::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{CommentPlace, ForgeError, marker};
use patchwright_journal::Entry;
use patchwright_report::answer as words;
use patchwright_types::events::{Event, Object};
use patchwright_types::outcome::Conclusion;

/// 👀: it was seen. Not worth ending a run for.
pub(super) async fn greet(run: &Run<'_>, admitted: &AdmittedCommand) {
    if !run.config.dry_run {
        react(run, admitted, "eyes").await;
    }
}

/// A reaction to the comment that asked.
pub(super) async fn react(run: &Run<'_>, admitted: &AdmittedCommand, content: &str) {
    let (Some(place), Ok(forge)) = (admitted.request.place, run.world.forge()) else { return };
    if let Err(err) = forge.react_to(&admitted.repository.id, place, content).await {
        run.environment.ui.warn(&format!("no reaction: {err}"));
    }
}

/// The commands.
pub(super) fn help(run: &Run<'_>) -> CommandReply {
    CommandReply::with_body(Conclusion::Done, words::help(&run.config.respond.mention))
}

/// A killed attempt of this run was about to answer, or had.
pub(super) fn was_begun(run: &Run<'_>, marker: &str) -> bool {
    let begun = run.folder.find(|entry| match entry {
        Entry::EffectIntended { effect, key, .. } if effect == EFFECT && key == marker => Some(()),
        _ => None,
    });
    begun.is_some()
}

/// How it is called in the journal.
const EFFECT: &str = "answer";

/// Another run has answered the same comment while this one worked, on a machine that did not see it. Where that cannot be
/// told, it has not.
async fn is_there(run: &Run<'_>, admitted: &AdmittedCommand, marker: &str) -> bool {
    let (Some(place), Ok(forge)) = (admitted.request.place, run.world.forge()) else {
        return false;
    };
    if was_begun(run, marker) {
        return false;
    }
    let (repository, number) = (&admitted.repository.id, admitted.request.number);
    let is_answer = |ours: bool, body: &str| {
        ours && marker::ending(body).iter().any(|line| line.trim() == marker)
    };
    match place {
        CommentPlace::Thread { .. } => {
            let threads = forge.threads(repository, number).await.unwrap_or_default();
            let mut said = threads.iter().flat_map(|thread| &thread.comments);
            said.any(|said| is_answer(said.ours, &said.body))
        }
        CommentPlace::Conversation { .. } | CommentPlace::Review { .. } => {
            let said = forge.comments(repository, number, MAX_COMMENTS).await.unwrap_or_default();
            said.iter().any(|said| is_answer(said.ours, &said.body))
        }
    }
}

/// Posts once, where it was asked, and returns the page of it. A conversation that is locked or gone takes no answer;
/// the terminal has it.
pub(super) async fn post(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    marker: &str,
    body: &str,
) -> Result<Option<String>> {
    if run.config.dry_run {
        return Ok(None);
    }
    must_be_same(run.world.forge()?.as_ref(), &admitted.repository).await?;
    if marker == admitted.marker(run) && is_there(run, admitted, marker).await {
        run.environment
            .ui
            .say("another run has answered this meanwhile; no second answer is posted");
        return Ok(None);
    }
    run.folder.intends(EFFECT, marker, json!({ "place": admitted.request.place }))?;
    let body = run.world.redactor.redact(&format!("{}\n\n{marker}\n", body.trim_end()));
    let forge = run.world.forge()?;
    let (repository, number) = (&admitted.repository.id, admitted.request.number);
    let posted = match admitted.request.place {
        Some(place) => forge.reply(repository, number, place, marker, &body).await,
        None => forge.upsert_comment(repository, number, marker, None, &body).await,
    };
    match posted {
        Ok(comment) => {
            run.environment.ui.say(&format!("answer: {}", comment.html_url));
            run.tell(&Event::Published {
                object: Object::Comment,
                url: Some(&comment.html_url),
                number: Some(number),
                operation: None,
            });
            let detail = json!({ "comment": comment.id, "url": comment.html_url });
            run.folder.did(EFFECT, marker, detail)?;
            Ok(Some(comment.html_url))
        }
        Err(ForgeError::State { message, .. }) => {
            run.environment.ui.warn(&format!("no answer was posted: {message}"));
            Ok(None)
        }
        Err(err) => Err(Failure::from(err).hint(run.files_hint())),
    }
}
