//! `confirm_finding`: a finding stands, after a second look at it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{HostCall, Tool, withdraw_finding};
use crate::schema;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_review::finding::Verdict;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Its number, as `report_finding` gave it.
    #[schemars(range(min = 1))]
    finding: usize,
    /// What you looked at or ran just now, in a sentence.
    reason: String,
    /// Only when you ran something that showed the problem: the command, and what came out, in a few lines.
    reproduction: Option<String>,
}

pub struct ConfirmFinding;

#[async_trait]
impl Tool for ConfirmFinding {
    fn name(&self) -> &'static str {
        "confirm_finding"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schema::of::<Args>()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = patchwright_guest::tools::parse_args(self.name(), args)?;
        let reproduction = super::review_context(ctx)?.reproduction(args.reproduction.as_deref());
        let (number, shown) = (args.finding, reproduction.as_deref());
        withdraw_finding::judge(ctx, number, Verdict::Confirmed, &args.reason, shown)?;
        Ok(ToolOutput::text(format!("Finding {} is confirmed", args.finding)))
    }
}
