//! `exec_command`: a command that may go on after the call, in a session that `write_stdin` looks at and
//! types into.
//!
//! The session is the guest's ([`crate::session`]). A call waits for the command, but not for long;
//! while a session goes on no call runs, so others may read and change files meanwhile.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::patch_command::{self, in_script};
use super::shell::refuse_escalation;
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::environment;
use crate::process::Spec;
use crate::programs::Patches;
use crate::session::{SessionReport, Stdin};

/// How long a call waits when the model does not say, at least, and at most.
const DEFAULT_WAIT_MS: u64 = 10_000;
pub(super) const LEAST_WAIT_MS: u64 = 250;
pub(super) const MOST_WAIT_MS: u64 = 30_000;

pub const EXEC_COMMAND: GuestTool = GuestTool {
    name: "exec_command",
    effect: Effect::Writes,
    powers: &[Power::Run],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| exec_command(call, &parse_args("exec_command", args)?),
};

// Short, because these two tools come with every first request of their family, which knows them well.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Args {
    cmd: String,
    /// Where to run it, instead of `cd`.
    workdir: Option<String>,
    /// Instead of the default shell.
    shell: Option<String>,
    /// Read the login profile.
    login: Option<bool>,
    /// Run it on a terminal.
    tty: Option<bool>,
    /// Keep its input open, as a pipe.
    stdin: Option<bool>,
    /// How long to wait: 250 to 30000, 10000 when absent.
    yield_time_ms: Option<u64>,
    #[serde(rename = "max_output_tokens")]
    _max_output_tokens: Option<u64>,
    /// Leave it out.
    sandbox_permissions: Option<String>,
    justification: Option<String>,
    /// The longest that the harness waits for one call.
    #[schemars(skip)]
    timeout_ms: Option<u64>,
    /// Which patches in it are applied; the host says so.
    #[serde(default)]
    #[schemars(skip)]
    patches: Patches,
}

fn exec_command(call: &Call<'_>, args: &Args) -> Result<ToolOutput, ToolError> {
    refuse_escalation(args.sandbox_permissions.as_deref(), args.justification.as_deref())?;
    if let Some(found) = in_script(args.patches, &args.cmd) {
        let workdir = args.workdir.as_deref().unwrap_or(".");
        return patch_command::apply(call, &found, workdir, call.output_cap).map(Into::into);
    }
    let env = call.processes.env();
    let shell = match args.shell.as_deref().filter(|shell| !shell.is_empty()) {
        None => environment::default_shell(&env),
        Some(shell) => match environment::find(&env, shell) {
            Some(path) => path.display().to_string(),
            None => {
                return Err(ToolError::tell(format!(
                    "there is no shell `{shell}` here; leave `shell` out for `{}`",
                    environment::default_shell(&env)
                )));
            }
        },
    };
    let flag = if args.login == Some(true) { "-lc" } else { "-c" };
    let words = [shell, flag.to_owned(), args.cmd.clone()];
    let wait = args.yield_time_ms.unwrap_or(DEFAULT_WAIT_MS).clamp(LEAST_WAIT_MS, MOST_WAIT_MS);
    let spec = Spec {
        argv: &words,
        cwd: args.workdir.as_deref().map(Path::new),
        env: &call.processes.tool_env(args.patches),
        timeout: bounded(wait, args.timeout_ms),
        output_cap: call.output_cap,
    };
    let stdin = match (args.tty, args.stdin) {
        (Some(true), _) => Stdin::Terminal,
        (_, Some(true)) => Stdin::Pipe,
        _ => Stdin::Empty,
    };
    call.processes.open(&spec, stdin, call.cancelled).map(output)
}

/// Never longer than the harness waits.
pub(super) fn bounded(wait_ms: u64, most_ms: Option<u64>) -> Duration {
    Duration::from_millis(most_ms.map_or(wait_ms, |most| wait_ms.min(most)))
}

pub(super) fn output(told: SessionReport) -> ToolOutput {
    let SessionReport { output, note } = told;
    ToolOutput {
        text: note,
        success: output.session.is_some() || output.exit_code == 0,
        command: Some(output),
        ..ToolOutput::default()
    }
}
