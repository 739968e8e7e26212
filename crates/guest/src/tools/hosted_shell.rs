//! `hosted_shell`: the commands of one `shell_call`, the shell tool that `OpenAI` defines, one after
//! the other, each with an outcome of its own.
//!
//! The time limit is that of all commands together. Output and error stay apart, as the answer has them.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::patch_command::{self, Patched, in_script};
use super::shell::{DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::environment;
use crate::process::{Spec, TIMED_OUT};
use crate::programs::Patches;
use crate::tool::CommandOutput;

/// Bytes kept beyond what will be shown, so that the final cut is made in one place, by the host.
const SLACK: usize = 4096;
/// Most commands of one call.
const MAX_COMMANDS: usize = 32;

pub const HOSTED_SHELL: GuestTool = GuestTool {
    name: "hosted_shell",
    effect: Effect::Writes,
    powers: &[Power::Run],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| hosted_shell(call, &parse_args("shell", args)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Args {
    /// The command lines to run, in order.
    commands: Vec<String>,
    /// Milliseconds after which the commands are stopped.
    timeout_ms: Option<u64>,
    /// Most characters of output to return.
    max_output_length: Option<usize>,
    /// Which patches in it are applied; the host says so.
    #[serde(default)]
    #[schemars(skip)]
    patches: Patches,
}

fn hosted_shell(call: &Call<'_>, args: &Args) -> Result<ToolOutput, ToolError> {
    match args.commands.len() {
        0 => return Err(ToolError::tell("`commands` is empty: give at least one command")),
        1..=MAX_COMMANDS => {}
        count => {
            return Err(ToolError::tell(format!(
                "nothing was run: {count} commands in one call; at most {MAX_COMMANDS} are taken"
            )));
        }
    }
    let timeout = args.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).clamp(1, MAX_TIMEOUT_MS);
    let end = Instant::now() + Duration::from_millis(timeout);
    let share = call.output_cap / args.commands.len();
    let asked = args.max_output_length.map_or(share, |limit| share.min(limit));
    let cap = asked.saturating_add(SLACK);
    let shell = environment::default_shell(&call.processes.env());
    let env = call.processes.tool_env(args.patches);
    let (mut commands, mut changed) = (Vec::new(), Vec::new());
    for script in &args.commands {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            commands.push(not_run());
            continue;
        }
        if let Some(found) = in_script(args.patches, script) {
            let Patched { command, changed: more } = patch_command::apply(call, &found, ".", cap)?;
            commands.push(command);
            changed.extend(more);
            continue;
        }
        let words = [shell.clone(), "-c".to_owned(), script.clone()];
        let spec = Spec { argv: &words, cwd: None, env: &env, timeout: left, output_cap: cap };
        commands.push(call.processes.run_apart(&spec, call.cancelled)?);
    }
    let success = commands.iter().all(|command| command.exit_code == 0);
    Ok(ToolOutput { success, commands, changed, ..ToolOutput::default() })
}

/// The outcome of a command for which no time was left.
fn not_run() -> CommandOutput {
    CommandOutput {
        exit_code: TIMED_OUT,
        timed_out: true,
        duration_ms: 0,
        output: String::new(),
        total_bytes: 0,
        total_lines: 0,
        omitted_bytes: 0,
        session: None,
        saved: None,
        errors: None,
        out_of_memory: None,
    }
}
