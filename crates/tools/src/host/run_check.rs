//! `run_check`: one of the repository's own checks, run in the sandbox of a review by its name, however long its
//! command is. Other commands are the shell's.

use std::collections::BTreeMap;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{HostCall, Tool};
use crate::schema;
use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_sandbox::client::GuestError;

/// Bytes of output that are kept; what the model is shown is cut further.
const OUTPUT_CAP: usize = 256 << 10;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The command as it is listed, or its number.
    check: String,
}

pub struct RunCheck;

#[async_trait]
impl Tool for RunCheck {
    fn name(&self) -> &'static str {
        "run_check"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    /// It runs a command, whatever that does.
    fn is_repeatable(&self) -> bool {
        false
    }

    fn schema(&self) -> Value {
        schema::of::<Args>()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = patchwright_guest::tools::parse_args(self.name(), args)?;
        let review_context = super::review_context(ctx)?;
        let asked = args.check.trim().trim_matches('`').trim();
        let by_number = || review_context.checks.get(asked.parse::<usize>().ok()?.checked_sub(1)?);
        let found =
            review_context.checks.iter().find(|check| check.trim() == asked).or_else(by_number);
        let Some(command) = found else {
            return Err(ToolError::tell(none_such(review_context.checks)));
        };
        let _alone = review_context.checking.lock().await;
        let exec = Exec {
            argv: vec!["sh".to_owned(), "-lc".to_owned(), command.clone()],
            cwd: None,
            env: BTreeMap::from([("CI".to_owned(), "true".to_owned())]),
            timeout_ms: u64::try_from(ctx.limits.command_timeout.as_millis()).unwrap_or(u64::MAX),
            output_cap: OUTPUT_CAP,
        };
        match ctx.client.exec(exec).await {
            Ok(output) => Ok(ToolOutput {
                success: output.exit_code == 0,
                command: Some(output),
                ..ToolOutput::default()
            }),
            Err(err @ (GuestError::Gone(_) | GuestError::Protocol(_) | GuestError::Words(_))) => {
                Err(ToolError::Broken(err.to_string()))
            }
            Err(err) => Err(ToolError::tell(format!("the check could not be run: {err}"))),
        }
    }
}

fn none_such(checks: &[String]) -> String {
    if checks.is_empty() {
        return "this repository has no checks that could be run".to_owned();
    }
    let checks = checks.iter().enumerate().map(|(at, check)| format!("\n{}. {check}", at + 1));
    format!(
        "not run: only the repository's checks are run here. They are:{}",
        checks.collect::<String>()
    )
}
