//! A change that may not be published as it is, or only without some of its files, goes back to the model once: often a file
//! was left by accident, or another form of it will do, and nobody but the model can see to that.

use super::agent_phase::Phase;
use super::asked_again;
use super::brief::message;
use super::check_loop::CheckedWork;
use super::collected;
use super::ending;
use super::settle::BlobsOf;
use patchwright_agent::{Agent, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_git::tree::Change;
use patchwright_journal::{Entry, Line};
use patchwright_policy::{paths, size};
use patchwright_prompt::{self as prompt, UnpublishableChange};
use patchwright_provider::item::Role;
use patchwright_sandbox::Running;

/// Begins the note in the journal; what the model had said before follows.
const ASKED: &str = "asked for a change that can be published; said before: ";
/// Most files that the model is told of.
const MAX_FILES: usize = 20;

/// Looks at what the model left, and has it mend what cannot be published.
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
    let Some(wrong) = problems(phase, &change) else {
        work.change = Some(change);
        return Ok(());
    };
    run.environment.ui.say(&said(&wrong, &change));
    let before = stopped.final_message.clone();
    run.journal(&Entry::Note { text: format!("{ASKED}{before}") })?;
    let question = prompt::unpublishable(&wrong)?;
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

/// What of the change cannot be published and the model may mend; `None` for one that can. What policy says of contents is
/// not among it: whoever asked for a secret to be taken out would have told where it was found.
fn problems(phase: &Phase<'_>, change: &Change) -> Option<UnpublishableChange> {
    let policy = &phase.run.config.policy;
    let mut wrong = UnpublishableChange {
        forbidden: size::problems(policy, change),
        lost: collected::has_lost(phase.run),
        ..UnpublishableChange::default()
    };
    let row = |path: &str, why: &str| format!("{}: {}", text::code(path), text::line(why));
    // What both sides of a conflict have is no work of the model.
    let (forbidden, refused) = match phase.start_tree {
        None => {
            let found = paths::problems(change, &BlobsOf(&phase.workspace.repo));
            (found, change.refused.as_slice())
        }
        Some(_) => (Vec::new(), &[][..]),
    };
    wrong.is_about_form = !forbidden.is_empty() || !refused.is_empty();
    for found in forbidden.iter().take(MAX_FILES) {
        let path = found.path.as_deref().unwrap_or_default();
        wrong.forbidden.push(row(path, &found.message));
    }
    for (path, why) in refused.iter().take(MAX_FILES) {
        wrong.left_out.push(row(path, why));
    }
    for (all, shown) in
        [(forbidden.len(), &mut wrong.forbidden), (refused.len(), &mut wrong.left_out)]
    {
        if all > MAX_FILES {
            shown.push(format!("and {} more", all - MAX_FILES));
        }
    }
    let is_fit = wrong.forbidden.is_empty() && wrong.left_out.is_empty();
    (!is_fit).then_some(wrong)
}

/// For whoever watches the run.
fn said(wrong: &UnpublishableChange, change: &Change) -> String {
    match change.refused.first() {
        Some((path, _)) if wrong.forbidden.is_empty() => {
            format!("asking the model about {}, which cannot be published", text::code(path))
        }
        _ => "asking the model for a change that may be published".to_owned(),
    }
}
