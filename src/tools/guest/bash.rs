//! `bash`: a command in the shell that stays. The folder, variables and functions that it leaves are
//! there for the next call.
//!
//! Only the shell stays ([`crate::guest::process::Processes::in_shell`]); what else a command started
//! ends with it.

use std::time::Duration;

use serde::Deserialize;

use super::shell::{DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};

pub const BASH: GuestTool = GuestTool {
    name: "bash",
    effect: Effect::Writes,
    powers: &[Power::Run],
    #[cfg(feature = "host")]
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| bash(call, &parse_args("bash", args)?),
};

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "host", derive(schemars::JsonSchema))]
struct Args {
    /// The command to run; required unless `restart` is true.
    command: Option<String>,
    /// True to end the shell and start a new one in the workspace.
    restart: Option<bool>,
    /// Milliseconds after which the command is stopped, and the shell with it.
    timeout_ms: Option<u64>,
}

fn bash(call: &Call<'_>, args: &Args) -> Result<ToolOutput, ToolError> {
    let restart = args.restart == Some(true);
    if restart {
        call.processes.restart_shell();
    }
    let Some(command) = &args.command else {
        return if restart {
            Ok(ToolOutput::text("The shell was restarted; it is in the workspace."))
        } else {
            Err(ToolError::tell("`command` is missing: give one, or `restart`: true"))
        };
    };
    let timeout = args.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).clamp(1, MAX_TIMEOUT_MS);
    let timeout = Duration::from_millis(timeout);
    let ran = call.processes.in_shell(command, timeout, call.output_cap, call.cancelled)?;
    let note = if ran.is_alive {
        ""
    } else {
        "The shell has ended; the next command gets a new one in the workspace, without the \
         variables of this one."
    };
    Ok(ToolOutput {
        text: note.to_owned(),
        success: ran.output.exit_code == 0,
        command: Some(ran.output),
        ..ToolOutput::default()
    })
}
