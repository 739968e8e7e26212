//! How often we answer in one thread. Two programs that answer each other would never end.

use super::admit::AdmittedCommand;
use super::{CommandReply, answer};
use crate::run::Run;
use patchwright_base::error::Result;
use patchwright_forge::CommentPlace;
use patchwright_report as report;
use patchwright_report::answer as words;
use patchwright_types::command::Command;

/// How our answers are marked, whatever they answer.
const ANSWER: &str = "answer-";

/// When the thread has had its answers: says so once, and then nothing.
pub(super) async fn used_up(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
) -> Result<Option<CommandReply>> {
    let Some(place) = admitted.request.place else { return Ok(None) };
    let most = run.config.respond.max_rounds as usize;
    // Who says stop is heard, and so is who says no to a finding; neither asks for words.
    let is_heard = matches!(admitted.request.command, Command::Stop | Command::Ignore);
    if is_heard || !run.folder.recorded.is_empty() {
        return Ok(None);
    }
    let said = said_in(admitted, place);
    let answers = said.iter().filter(|body| report::is_marked(body, ANSWER));
    if answers.count() < most {
        return Ok(None);
    }
    let purpose = match place {
        CommentPlace::Thread { root, .. } => format!("rounds-{root}"),
        CommentPlace::Conversation { .. } | CommentPlace::Review { .. } => "rounds".to_owned(),
    };
    let told = said.iter().any(|body| report::marked(body, &purpose).is_some());
    if !told {
        let marker = report::marker_once(&purpose);
        answer::post(run, admitted, &marker, &words::rounds_used_up(most)).await?;
    }
    Ok(Some(CommandReply::silent(format!(
        "this thread has had its {most} answers (`respond.max-rounds`)"
    ))))
}

/// Everything that we said where it was asked.
fn said_in(admitted: &AdmittedCommand, place: CommentPlace) -> Vec<&str> {
    match place {
        CommentPlace::Thread { .. } => {
            let said = admitted.threads.iter().flat_map(|thread| &thread.comments);
            said.filter(|said| said.ours).map(|said| said.body.as_str()).collect()
        }
        CommentPlace::Conversation { .. } | CommentPlace::Review { .. } => {
            let said = admitted.comments.iter().filter(|said| said.ours);
            said.map(|said| said.body.as_str()).collect()
        }
    }
}
