//! `bash`: a command in the shell that stays. The folder, variables and functions that it leaves are
//! there for the next call.
//!
//! What it leaves in the background stays, too ([`crate::process::Processes::in_shell`]).

use std::time::Duration;

use serde::Deserialize;

use super::apply_patch::Intercepted;
use super::patch_command::{self, in_script};
use super::shell::{DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS, in_background};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::programs::Patches;
use crate::resident::{InShell, quoted};

pub const BASH: GuestTool = GuestTool {
    name: "bash",
    effect: Effect::Writes,
    powers: &[Power::Run],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| bash(call, &parse_args("bash", args)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Args {
    /// The command to run; required unless `restart` is true.
    command: Option<String>,
    /// True to end the shell and start a new one in the workspace.
    restart: Option<bool>,
    /// Milliseconds after which the command goes on in the background.
    timeout_ms: Option<u64>,
    /// True to go on without waiting for it, such as for a server; false when absent.
    #[schemars(extend("x-quiet" = true))]
    is_background: Option<bool>,
    /// Which patches in it are applied; the host says so.
    #[serde(default)]
    #[schemars(skip)]
    patches: Patches,
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
    let in_shell = |script: &str| {
        let Call { processes, output_cap, cancelled, .. } = call;
        processes.in_shell(script, args.patches, timeout, *output_cap, cancelled)
    };
    if let Some(found) = in_script(args.patches, command)
        && call.processes.shell_folder().is_ok()
    {
        return patch(call, command, found, &in_shell);
    }
    if args.is_background == Some(true) {
        return in_shell(&in_background(command)).map(output);
    }
    in_shell(command).map(output)
}

/// Applies a patch in the folder of the shell, which a `cd` before it changes for later commands too.
fn patch(
    call: &Call<'_>,
    command: &str,
    mut found: Intercepted,
    in_shell: &dyn Fn(&str) -> Result<InShell, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let is_going = command.trim_start().starts_with("cd ");
    if let Some(folder) = found.cwd.take_if(|_| is_going) {
        let went = in_shell(&format!("cd {}", quoted(&folder)))?;
        if !went.is_alive || went.output.exit_code != 0 {
            return Ok(output(went));
        }
    }
    let folder =
        call.processes.shell_folder().ok().and_then(|it| it.into_os_string().into_string().ok());
    let folder = folder.ok_or_else(|| {
        ToolError::tell("nothing was changed: nobody can tell where the shell is")
    })?;
    patch_command::apply(call, &found, &folder, call.output_cap).map(Into::into)
}

fn output(ran: InShell) -> ToolOutput {
    ToolOutput {
        text: ran.note,
        success: ran.output.exit_code == 0,
        command: Some(ran.output),
        ..ToolOutput::default()
    }
}
