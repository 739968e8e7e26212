//! How a run ended, as plain data: what reports, outputs and the journal are made of. Decided in
//! `patchwright_task::decide`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attempts::Attempts;
use super::plan::Plan;
use super::publish_notes::PublishNotes;
use crate::calls::ToolUse;
use crate::evidence::Evidence;
use crate::setup::SetupReport;
use patchwright_base::error::FailureKind;
use patchwright_git::tree::Change;
use patchwright_policy::Judgement;
use patchwright_provider::item::Usage;
use patchwright_sandbox::egress::ledger::HostUse;

/// Everything that the reports are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub run: String,
    pub conclusion: Conclusion,
    /// Why, in a sentence, when the conclusion is not `Done`.
    pub reason: Option<String>,
    /// What the model said last. Reported as the model's words, never as fact.
    pub final_message: String,
    /// The result as JSON, where one was asked for and fits its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    pub plan: Plan,
    /// What was changed; absent when nothing was.
    pub change: Option<Change>,
    pub evidence: Evidence,
    pub judgement: Judgement,
    pub spending: Spending,
    pub provenance: Provenance,
    /// The attempts of which this is the best, where there were several.
    #[serde(default, skip_serializing_if = "Attempts::is_empty")]
    pub attempts: Attempts,
    /// What people should know of its pull request, beside what is in it.
    #[serde(default, skip_serializing_if = "PublishNotes::is_empty")]
    pub publish_notes: PublishNotes,
}

/// Why a run has ended that a signal or a cancelled job has stopped.
pub const INTERRUPTED: &str = "the run was interrupted";

/// The closed list of ways in which a run can end. `result.json`, the journal, reports and outputs all
/// say [`Conclusion::word`]; files of earlier versions, which had shorter words for three of them, are
/// read as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// A signal or a cancelled job ended the run; work kept, and the same command resumes it.
    Interrupted,
    /// A budget, the deadline or the loop detector ended the run; work kept.
    #[serde(rename = "budget_exhausted", alias = "budget")]
    Budget,
    /// The provider failed; work kept.
    #[serde(rename = "provider_error", alias = "provider")]
    Provider,
    /// The sandbox failed; work kept where possible.
    #[serde(rename = "sandbox_error", alias = "sandbox")]
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
            // Which signal it was, the failure that the run ends with says.
            Conclusion::Interrupted => Some(FailureKind::Signal(15)),
            Conclusion::Budget => Some(FailureKind::Budget),
            Conclusion::Provider => Some(FailureKind::Provider),
            Conclusion::Sandbox => Some(FailureKind::Sandbox),
        }
    }

    /// Whether the same command resumes the run: a signal, the provider or the sandbox stopped it, and its work is not
    /// at its end.
    pub fn is_resumable(self) -> bool {
        matches!(self, Conclusion::Interrupted | Conclusion::Provider | Conclusion::Sandbox)
    }

    /// The word for files, outputs and reports: that of the failure with the same exit code, but for
    /// what is no failure, or asks for something.
    pub fn word(self) -> &'static str {
        match (self, self.failure_kind()) {
            (Conclusion::NeedsInput, _) => "needs_input",
            (_, Some(kind)) => kind.conclusion(),
            (_, None) => "done",
        }
    }
}

/// What the run used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spending {
    pub turns: u32,
    pub usage: Usage,
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
    /// The cost is an upper bound, because a usage figure was missing.
    pub cost_is_estimate: bool,
    /// A model without a known price was asked; `cost_usd` is that of the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub price_is_unknown: bool,
    pub wall_seconds: f64,
    /// What each model of the run's own agent was used for, when there was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelUse>,
    /// What the tools did, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolUse>,
}

/// What one model was used for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelUse {
    pub model: String,
    pub turns: u32,
    pub usage: Usage,
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
}

impl ModelUse {
    /// With what it was used for elsewhere.
    pub fn add(&mut self, other: &ModelUse) {
        self.turns += other.turns;
        self.usage += other.usage;
        self.cost_usd += other.cost_usd;
    }
}

/// Where the change comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// What was reached over the network, and what was refused, by host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<HostUse>,
    /// How the dependencies were installed.
    #[serde(default, skip_serializing_if = "SetupReport::is_empty")]
    pub setup: SetupReport,
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use crate::outcome::Conclusion::{
        Budget, Done, Interrupted, NeedsInput, NothingToDo, Partial, Provider, Refused, Sandbox,
    };
    use crate::outcome::*;

    #[test]
    fn a_conclusion_has_one_spelling_and_the_former_ones_are_read() {
        let ended = [Done, NothingToDo, NeedsInput, Partial, Refused];
        let stopped = [Interrupted, Budget, Provider, Sandbox];
        for conclusion in ended.into_iter().chain(stopped) {
            assert_eq!(to_value(conclusion).unwrap(), json!(conclusion.word()));
            assert_eq!(from_value::<Conclusion>(json!(conclusion.word())).unwrap(), conclusion);
        }
        for (former, now) in [("budget", Budget), ("provider", Provider), ("sandbox", Sandbox)] {
            assert_eq!(from_value::<Conclusion>(json!(former)).unwrap(), now);
        }
    }
}
