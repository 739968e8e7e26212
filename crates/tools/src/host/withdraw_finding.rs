//! `withdraw_finding`: a finding was wrong, and nobody is to see it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{HostCall, Tool};
use crate::schema;
use patchwright_base::text;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_journal::Entry;
use patchwright_review::finding::Verdict;

/// Bytes of a reason that are kept.
const MAX_REASON: usize = 1 << 10;

/// What the model can do about findings of earlier reviews. What was posted is never taken back by a model: what convinces it
/// comes from outside, and people would not see that it is gone.
const OF_EARLIER: &str = "A finding of an earlier review stands without you, and only people dismiss it; what you think \
     of it now belongs in your final message";

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Its number, as `report_finding` gave it.
    #[schemars(range(min = 1))]
    finding: usize,
    /// What shows that it is wrong, in a sentence.
    reason: String,
}

pub struct WithdrawFinding;

#[async_trait]
impl Tool for WithdrawFinding {
    fn name(&self) -> &'static str {
        "withdraw_finding"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schema::of::<Args>()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = patchwright_guest::tools::parse_args(self.name(), args)?;
        super::review_context(ctx)?;
        let judgement = FindingJudgement {
            verdict: Verdict::Withdrawn,
            reason: &args.reason,
            reproduction: None,
            without_replacement: false,
        };
        judge(ctx, args.finding, &judgement)?;
        Ok(ToolOutput::text(format!("Finding {} is withdrawn", args.finding)))
    }
}

/// What the model says of a finding that it reported.
pub(super) struct FindingJudgement<'a> {
    pub(super) verdict: Verdict,
    pub(super) reason: &'a str,
    pub(super) reproduction: Option<&'a str>,
    /// Its replacement is not to be offered.
    pub(super) without_replacement: bool,
}

/// Writes it down.
///
/// # Errors
/// For the model: which findings there are.
pub(super) fn judge(
    ctx: &HostCall<'_>,
    number: usize,
    judgement: &FindingJudgement<'_>,
) -> Result<(), ToolError> {
    let FindingJudgement { verdict, reason, reproduction, without_replacement } = *judgement;
    // Held until it is written: calls of one reply run side by side.
    let mut findings = ctx.findings.lock();
    let count = findings.len();
    let Some(finding) = number.checked_sub(1).and_then(|at| findings.get_mut(at)) else {
        let reported = match count {
            0 => "this review has reported no finding yet".to_owned(),
            1 => format!("this review has reported no finding {number}; the only one is 1"),
            _ => format!("this review has reported no finding {number}; they are 1 to {count}"),
        };
        return Err(ToolError::tell(format!("{reported}. {OF_EARLIER}")));
    };
    let entry = Entry::Judged {
        finding: number,
        verdict,
        reason: text::head(reason.trim(), MAX_REASON),
        reproduction: reproduction.map(str::to_owned),
        without_replacement,
    };
    ctx.journal.append(&entry).map_err(|failure| ToolError::Broken(failure.to_string()))?;
    finding.judge(verdict, reproduction);
    finding.replacement.take_if(|_| without_replacement);
    Ok(())
}
