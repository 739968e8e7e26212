//! A change that is more than may be published goes back to the model once: often it is a file that was left by accident,
//! and without it a whole right change can go out.

use super::agent_phase::Phase;
use super::asked_again;
use super::brief::message;
use super::check_loop::CheckedWork;
use super::ending;
use patchwright_agent::{Agent, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_journal::{Entry, Line};
use patchwright_policy::size;
use patchwright_prompt as prompt;
use patchwright_provider::item::Role;
use patchwright_sandbox::Running;

/// Begins the note in the journal; what the model had said before follows.
const ASKED: &str = "asked for a smaller change; said before: ";
/// Most paths that the model is told of what was not taken out of the sandbox.
const MAX_PATHS: usize = 10;

/// Looks at what the model left, and has it make the change smaller where it is too large.
pub(super) async fn give_back(
    phase: &Phase<'_>,
    sandbox: &Running,
    agent: &mut Agent<'_>,
    recorded: &[Line],
    stopped: &mut Stopped,
    work: &mut CheckedWork,
) -> Result<()> {
    let run = phase.run;
    if let Some(before) = asked_again::said_before(recorded, ASKED) {
        answered(before, stopped);
        return Ok(());
    }
    if !matches!(stopped.reason, StopKind::Finished) || stopped.needs_input().is_some() {
        return Ok(());
    }
    let change = match ending::collect(phase, sandbox).await {
        Ok(change) => change,
        Err(failure) => {
            stopped.reason = ending::uncollected(failure);
            return Ok(());
        }
    };
    let mut problems = size::problems(&run.config.policy, &change);
    if problems.is_empty() {
        work.change = Some(change);
        return Ok(());
    }
    let left_there = change.refused.iter().take(MAX_PATHS);
    problems
        .extend(left_there.map(|(path, why)| format!("{}: {}", text::code(path), text::line(why))));
    run.environment.ui.say("asking the model for a smaller change");
    let before = stopped.final_message.clone();
    run.journal(&Entry::Note { text: format!("{ASKED}{before}") })?;
    let question = prompt::too_large(&problems)?;
    *stopped = agent.continue_with(vec![message(Role::User, question)]).await;
    answered(&before, stopped);
    Ok(())
}

/// How the run stands after the question, however that ended: without an answer, the change is judged as it is.
fn answered(before: &str, stopped: &mut Stopped) {
    asked_again::stays_finished(stopped);
    if stopped.final_message.trim().is_empty() {
        before.clone_into(&mut stopped.final_message);
    }
}
