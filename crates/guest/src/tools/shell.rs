//! `shell_command` and `shell`: one command, given as text for a shell or as an argument vector.
//!
//! Both fill [`CommandOutput`](crate::tool::CommandOutput); each model family's profile words it.
//! Nobody can approve anything, so a request for more rights is answered, not executed. A command
//! that only applies a patch is given to the patch engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::apply_patch::intercept;
use super::patch_command::{self, in_script};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::environment;
use crate::process::Spec;
use crate::programs::Patches;
use crate::resident::quoted;

/// How long a command may take when the model does not say, in milliseconds: long enough for most test
/// suites, short enough to notice a command that waits for something.
pub const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// The longest that one command may run.
pub(super) const MAX_TIMEOUT_MS: u64 = 3_600_000;

pub const SHELL_COMMAND: GuestTool = GuestTool {
    name: "shell_command",
    effect: Effect::Writes,
    powers: &[Power::Run],
    schema: || schemars::schema_for!(ShellCommandArgs).to_value(),
    run: |call, args| {
        let args: ShellCommandArgs = parse_args("shell_command", args)?;
        shell_command(call, &args)
    },
};

pub const SHELL: GuestTool = GuestTool {
    name: "shell",
    effect: Effect::Writes,
    powers: &[Power::Run],
    schema: || schemars::schema_for!(ShellArgs).to_value(),
    run: |call, args| {
        let args: ShellArgs = parse_args("shell", args)?;
        shell(call, &args)
    },
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct ShellCommandArgs {
    /// The script to run in the default shell.
    command: String,
    /// The folder to run it in, relative to the workspace; the workspace when absent.
    workdir: Option<String>,
    /// Milliseconds after which the command is stopped.
    timeout_ms: Option<u64>,
    /// What the command is for, in a few words.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// True to go on without waiting for it, such as for a server; false when absent.
    #[schemars(extend("x-quiet" = true))]
    is_background: Option<bool>,
    /// True to read the login profile first. It may reset `PATH`; false when absent.
    login: Option<bool>,
    /// Leave this out: commands always run with the sandbox's permissions.
    sandbox_permissions: Option<String>,
    /// Why more permissions are needed. Nobody can grant them.
    justification: Option<String>,
    /// Which patches in it are applied; the host says so.
    #[serde(default)]
    #[schemars(skip)]
    patches: Patches,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct ShellArgs {
    /// The program and its arguments.
    command: Vec<String>,
    /// The folder to run it in, relative to the workspace; the workspace when absent.
    workdir: Option<String>,
    /// Milliseconds after which the command is stopped.
    timeout_ms: Option<u64>,
    /// Leave this out: commands always run with the sandbox's permissions.
    sandbox_permissions: Option<String>,
    /// Why more permissions are needed. Nobody can grant them.
    justification: Option<String>,
    /// Variables to set for the command, by name. Those that the sandbox sets itself stay as they are.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Which patches in it are applied; the host says so.
    #[serde(default)]
    #[schemars(skip)]
    patches: Patches,
}

fn shell_command(call: &Call<'_>, args: &ShellCommandArgs) -> Result<ToolOutput, ToolError> {
    refuse_escalation(args.sandbox_permissions.as_deref(), args.justification.as_deref())?;
    if let Some(found) = in_script(args.patches, &args.command) {
        let workdir = args.workdir.as_deref().unwrap_or(".");
        return patch_command::apply(call, &found, workdir, call.output_cap).map(Into::into);
    }
    let shell = environment::default_shell(&call.processes.env());
    let flag = if args.login == Some(true) { "-lc" } else { "-c" };
    let script = match args.is_background {
        Some(true) => in_background(&args.command),
        Some(false) | None => args.command.clone(),
    };
    let command = [shell, flag.to_owned(), script];
    let env = call.processes.tool_env(args.patches);
    run(call, &command, args.workdir.as_deref(), args.timeout_ms, &env)
}

/// Starts a script, and waits a moment for what it says first, or for its end.
pub(super) fn in_background(script: &str) -> String {
    let script = quoted(script);
    format!("eval {script} </dev/null &\nsleep 1\nkill -0 $! 2>/dev/null || wait $!")
}

fn shell(call: &Call<'_>, args: &ShellArgs) -> Result<ToolOutput, ToolError> {
    refuse_escalation(args.sandbox_permissions.as_deref(), args.justification.as_deref())?;
    if args.command.is_empty() {
        return Err(ToolError::tell("`command` is empty: give a program and its arguments"));
    }
    if args.patches != Patches::Nowhere
        && let Some(found) = intercept(&args.command)
    {
        let workdir = args.workdir.as_deref().unwrap_or(".");
        return patch_command::apply(call, &found, workdir, call.output_cap).map(Into::into);
    }
    let command = match args.command.as_slice() {
        // Models write `bash -lc` out of habit. A login shell would reset the `PATH` that the image
        // sets, and not every image has bash.
        [shell, flag, script]
            if matches!(shell.as_str(), "bash" | "/bin/bash")
                && matches!(flag.as_str(), "-lc" | "-c") =>
        {
            let shell = environment::default_shell(&call.processes.env());
            vec![shell, "-c".to_owned(), script.clone()]
        }
        other => other.to_vec(),
    };
    let mut env = call.processes.tool_env(args.patches);
    env.extend(environment::asked(&args.env).map_err(ToolError::Tell)?);
    run(call, &command, args.workdir.as_deref(), args.timeout_ms, &env)
}

pub(super) fn refuse_escalation(
    permissions: Option<&str>,
    justification: Option<&str>,
) -> Result<(), ToolError> {
    if permissions != Some("require_escalated") {
        return Ok(());
    }
    let reason = justification.map_or(String::new(), |text| {
        let short: String = text.chars().take(200).collect();
        format!(" (“{short}”)")
    });
    Err(ToolError::tell(format!(
        "the command was not run: more permissions were asked for{reason}, but this is an \
         unattended run and nobody can approve that. Reach the goal inside the sandbox, without \
         `sandbox_permissions`; if that is impossible, go on with what can be done and say in the \
         final message what was missing."
    )))
}

fn run(
    call: &Call<'_>,
    argv: &[String],
    workdir: Option<&str>,
    timeout_ms: Option<u64>,
    env: &BTreeMap<String, String>,
) -> Result<ToolOutput, ToolError> {
    let timeout = timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).clamp(1, MAX_TIMEOUT_MS);
    let spec = Spec {
        argv,
        cwd: workdir.map(Path::new),
        env,
        timeout: Duration::from_millis(timeout),
        output_cap: call.output_cap,
    };
    let (command, text) = call.processes.run_leaving(&spec, call.cancelled)?;
    Ok(ToolOutput {
        text,
        success: command.exit_code == 0,
        command: Some(command),
        ..ToolOutput::default()
    })
}
