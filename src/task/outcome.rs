//! How a run ended, decided from recorded facts: what the agent's stop, the change, the checks and
//! the policy say, never what the model claims.

use serde::{Deserialize, Serialize};

use super::TaskKind;
use super::agent_phase::Worked;
use super::plan::Plan;
use super::run::Run;
use super::settle::Settled;
use super::workspace::Workspace;
use crate::agent::StopKind;
use crate::error::FailureKind;
use crate::git::tree::Change;
use crate::policy::Judgement;
use crate::provider::item::Usage;
use crate::sandbox::PreparedImage;
use crate::verify::Evidence;

/// Everything that the reports are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub run: String,
    pub conclusion: Conclusion,
    /// Why, in a sentence, when the conclusion is not `Done`.
    pub reason: Option<String>,
    /// What the model said last. Reported as the model's words, never as fact.
    pub final_message: String,
    pub plan: Plan,
    /// What was changed; absent when nothing was.
    pub change: Option<Change>,
    pub evidence: Evidence,
    pub judgement: Judgement,
    pub spending: Spending,
    pub provenance: Provenance,
}

/// The closed list of ways in which a run can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// A complete change (or, for `exec`, answer).
    Done,
    /// No change was needed or made.
    NothingToDo,
    /// The model says that it cannot go on without an answer.
    NeedsInput,
    /// A change exists, but parts of it could not be published.
    Partial,
    /// Policy refused all of it, or access was refused.
    Refused,
    /// A budget, the deadline or the loop detector ended the run; work kept.
    Budget,
    /// The provider failed; work kept.
    Provider,
    /// The sandbox failed; work kept where possible.
    Sandbox,
}

impl Conclusion {
    /// The failure kind that gives the exit code; `None` is exit code 0.
    pub fn failure_kind(self) -> Option<FailureKind> {
        match self {
            Conclusion::Done => None,
            Conclusion::NothingToDo | Conclusion::NeedsInput => Some(FailureKind::NothingToDo),
            Conclusion::Partial => Some(FailureKind::Partial),
            Conclusion::Refused => Some(FailureKind::Refused),
            Conclusion::Budget => Some(FailureKind::Budget),
            Conclusion::Provider => Some(FailureKind::Provider),
            Conclusion::Sandbox => Some(FailureKind::Sandbox),
        }
    }

    /// The word for outputs and reports.
    pub fn word(self) -> &'static str {
        match self {
            Conclusion::Done => "done",
            Conclusion::NothingToDo => "nothing_to_do",
            Conclusion::NeedsInput => "needs_input",
            Conclusion::Partial => "partial",
            Conclusion::Refused => "refused",
            Conclusion::Budget => "budget_exhausted",
            Conclusion::Provider => "provider_error",
            Conclusion::Sandbox => "sandbox_error",
        }
    }
}

/// What the run used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    pub turns: u32,
    pub usage: Usage,
    pub cost_usd: f64,
    /// The cost is an upper bound, because a price or a usage figure was missing.
    pub cost_is_estimate: bool,
    pub wall_seconds: f64,
}

/// Where the change comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// `patchwright 0.1.0`.
    pub tool: String,
    pub model: String,
    pub sandbox: String,
    pub image: String,
    /// What the sandbox enforced.
    pub enforced: Vec<String>,
    pub base_branch: String,
    pub base_sha: String,
    /// The workflow run, when there is one.
    pub run_url: Option<String>,
    /// Number of hidden parts removed from the issue, and comments left out because they came or
    /// changed after the trigger.
    pub input_notes: Vec<String>,
    /// Files of the AGENTS.md family that the model was given.
    pub instruction_files: Vec<String>,
}

impl Outcome {
    /// Decides how the run ended.
    pub fn decide(
        run: &Run<'_>,
        workspace: &Workspace,
        image: &PreparedImage,
        worked: &Worked,
        settled: &Settled,
        evidence: Evidence,
    ) -> Outcome {
        let (conclusion, reason) = conclude(&run.task.kind, worked, settled);
        let mut spending = worked.stopped.spending.clone();
        spending.wall_seconds = run.started.elapsed().as_secs_f64();
        let mut input_notes = worked.notes.clone();
        input_notes.extend(run.config.notes.iter().cloned());
        input_notes.extend(worked.stopped.notes.iter().cloned());
        Outcome {
            run: run.folder.id.clone(),
            conclusion,
            reason,
            final_message: worked.stopped.final_message.clone(),
            plan: worked.stopped.plan.clone(),
            change: settled.change.clone(),
            evidence,
            judgement: settled.judgement.clone(),
            spending,
            provenance: Provenance {
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
            },
        }
    }
}

/// The agent's stop decides first, then the policy, then whether anything was changed.
fn conclude(task: &TaskKind, worked: &Worked, settled: &Settled) -> (Conclusion, Option<String>) {
    let why = Some(worked.stopped.reason.sentence());
    let stopped = match &worked.stopped.reason {
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
    };
    if let Some(conclusion) = stopped {
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
        // An answer is all that a prompt may have asked for.
        (None, None) if matches!(task, TaskKind::Exec { .. }) => (Conclusion::Done, None),
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
