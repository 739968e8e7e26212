//! `update_plan`: the model's plan, step by step. It drives the progress comment and ends up in the
//! pull request; it has no influence on what is run.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{HostCall, Tool};
use crate::progress::AgentEvent;
use crate::schema;
use patchwright_guest::tool::{Effect, Power, ToolError, ToolOutput};
use patchwright_journal::Entry;
use patchwright_types::plan::{Plan, Step, StepStatus};

/// Most steps of a plan.
const MAX_STEPS: usize = 50;
/// Longest step or explanation that is kept, in bytes.
const MAX_TEXT: usize = 2_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Why the plan changes.
    explanation: Option<String>,
    /// All steps, in order.
    plan: Vec<PlanStep>,
}

#[derive(Deserialize, JsonSchema)]
struct PlanStep {
    /// What is done, in a few words.
    step: String,
    /// At most one step is `in_progress`.
    status: StepStatus,
}

pub struct UpdatePlan;

#[async_trait]
impl Tool for UpdatePlan {
    fn name(&self) -> &'static str {
        "update_plan"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn powers(&self) -> &'static [Power] {
        &[Power::Plan]
    }

    fn schema(&self) -> Value {
        schema::of::<Args>()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = patchwright_guest::tools::parse_args(self.name(), args)?;
        let plan = checked(args)?;
        ctx.journal
            .append(&Entry::PlanUpdated { plan: plan.clone() })
            .map_err(|failure| ToolError::Broken(failure.to_string()))?;
        ctx.progress.happened(AgentEvent::PlanUpdated { plan: &plan });
        *ctx.plan.lock() = plan;
        Ok(ToolOutput::text("Plan updated"))
    }
}

fn checked(args: Args) -> Result<Plan, ToolError> {
    let active = args.plan.iter().filter(|step| step.status == StepStatus::InProgress).count();
    if active > 1 {
        return Err(ToolError::tell(format!(
            "{active} steps are `in_progress`; at most one may be. The plan was not changed"
        )));
    }
    if args.plan.len() > MAX_STEPS {
        return Err(ToolError::tell(format!(
            "the plan has {} steps; at most {MAX_STEPS} are kept. The plan was not changed",
            args.plan.len()
        )));
    }
    let steps =
        args.plan.into_iter().map(|step| Step { step: shortened(step.step), status: step.status });
    Ok(Plan { explanation: args.explanation.map(shortened), steps: steps.collect() })
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT - '…'.len_utf8()));
        text.push('…');
    }
    text
}
