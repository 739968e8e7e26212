//! `confirm_finding`: a finding stands, after a second look at it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::withdraw_finding::{self, FindingJudgement};
use super::{HostCall, Tool};
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
    /// True when the finding holds and its replacement is wrong or is not all that has to change: it is posted without.
    without_replacement: Option<bool>,
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
        let judgement = FindingJudgement {
            verdict: Verdict::Confirmed,
            reason: &args.reason,
            reproduction: reproduction.as_deref(),
            without_replacement: args.without_replacement.unwrap_or_default(),
        };
        withdraw_finding::judge(ctx, args.finding, &judgement)?;
        let without = if judgement.without_replacement { ", without its replacement" } else { "" };
        Ok(ToolOutput::text(format!("Finding {} is confirmed{without}", args.finding)))
    }
}
