//! How a run ended, decided from recorded facts: what the agent's stop, the change, the checks and the
//! policy say, never what the model claims.

use super::TaskKind;
use super::agent_phase::Worked;
use super::outcome::{Conclusion, Outcome, Provenance, Spending};
use super::run::Run;
use super::settle::Settled;
use super::workspace::Workspace;
use crate::agent::StopKind;
use crate::config::Mode;
use crate::sandbox::PreparedImage;
use crate::verify::Evidence;

/// Decides how the run ended.
pub fn decide(
    run: &Run<'_>,
    workspace: &Workspace,
    image: &PreparedImage,
    worked: &Worked,
    settled: &Settled,
    evidence: Evidence,
) -> Outcome {
    // An answer is all that a prompt may have asked for, and a plan is one.
    let words_are_enough =
        matches!(run.task.kind, TaskKind::Exec { .. }) || run.config.mode == Mode::Plan;
    let (conclusion, reason) = conclude(words_are_enough, worked, settled);
    Outcome {
        run: run.folder.id.clone(),
        conclusion,
        reason,
        final_message: worked.stopped.final_message.clone(),
        plan: worked.stopped.plan.clone(),
        change: settled.change.clone(),
        evidence,
        judgement: settled.judgement.clone(),
        spending: spending(run, worked),
        provenance: provenance(run, workspace, image, worked),
    }
}

/// What the run used, with the time of all of it.
pub(super) fn spending(run: &Run<'_>, worked: &Worked) -> Spending {
    let wall_seconds = run.started.elapsed().as_secs_f64();
    Spending { wall_seconds, ..worked.stopped.spending.clone() }
}

/// Where the result comes from.
pub(super) fn provenance(
    run: &Run<'_>,
    workspace: &Workspace,
    image: &PreparedImage,
    worked: &Worked,
) -> Provenance {
    let mut input_notes = worked.notes.clone();
    input_notes.extend(run.config.notes.iter().cloned());
    input_notes.extend(worked.stopped.notes.iter().cloned());
    Provenance {
        tool: format!("patchwright {}", crate::VERSION),
        model: run.world.model.slug.clone(),
        sandbox: run.world.sandbox.name().to_owned(),
        image: image.description.clone(),
        enforced: worked.enforced.clone(),
        base_branch: workspace.base_branch.clone(),
        base_sha: workspace.base.to_string(),
        run_url: run.around.run_url.clone(),
        input_notes,
        instruction_files: worked.instruction_files.clone(),
        reached: run.reached(),
    }
}

/// How the run ended because of the agent's stop alone; `None` when the model finished.
pub(super) fn of_stop(stop: &StopKind) -> Option<Conclusion> {
    match stop {
        StopKind::Finished => None,
        StopKind::Provider(_) => Some(Conclusion::Provider),
        StopKind::Sandbox(_) | StopKind::Machine(_) => Some(Conclusion::Sandbox),
        StopKind::Refused | StopKind::Filtered | StopKind::EmptyReply | StopKind::CutOff => {
            Some(Conclusion::Provider)
        }
        StopKind::Budget(_)
        | StopKind::DoomLoop
        | StopKind::FormatErrors
        | StopKind::ContextExhausted
        | StopKind::Cancelled => Some(Conclusion::Budget),
    }
}

/// The agent's stop decides first, then the policy, then whether anything was changed.
fn conclude(
    words_are_enough: bool,
    worked: &Worked,
    settled: &Settled,
) -> (Conclusion, Option<String>) {
    let why = Some(worked.stopped.reason.sentence());
    if let Some(conclusion) = of_stop(&worked.stopped.reason) {
        return (conclusion, why);
    }
    if let Some(question) = worked.stopped.needs_input() {
        return (Conclusion::NeedsInput, Some(format!("the model needs an answer: {question}")));
    }
    if let Some(first) = settled.judgement.violations.first() {
        let place = first.path.as_deref().map(|path| format!("`{path}`: ")).unwrap_or_default();
        return (Conclusion::Refused, Some(format!("{place}{} ({})", first.message, first.rule)));
    }
    match (&settled.change, settled.judgement.held_back.first()) {
        (None, None) if words_are_enough => (Conclusion::Done, None),
        (None, None) => (Conclusion::NothingToDo, Some("the model made no change".to_owned())),
        (None, Some(held)) => (
            Conclusion::Refused,
            Some(format!("`{}` may not be published ({})", held.file.path, held.rule)),
        ),
        (Some(_), Some(held)) => (
            Conclusion::Partial,
            Some(format!(
                "`{}` was kept back and is handed over as a patch ({})",
                held.file.path, held.rule
            )),
        ),
        (Some(change), None) if !change.refused.is_empty() => (
            Conclusion::Partial,
            Some(format!("`{}` cannot be published: {}", change.refused[0].0, change.refused[0].1)),
        ),
        (Some(_), None) => (Conclusion::Done, None),
    }
}
