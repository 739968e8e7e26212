//! `js_repl` and `js_repl_reset`: JavaScript in a Node process that stays, in the sandbox.
//!
//! The process runs `kernel.js`, which is handed to it as an argument, and speaks lines of JSON. A cell
//! that takes too long, or that ends the process, costs the bindings: the next cell gets a new process, and
//! the model is told. The lines are not trusted: what is none of ours is output of a cell's children.

mod cell;

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::cell::Process;
use super::script_text;
use super::{Effect, HostCall, Tool};
use crate::requirement::Requirement;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_guest::tools::parse_args;

/// How long a cell may take when it does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest cell, in bytes.
const MAX_CODE: usize = 512 << 10;

const PRAGMA: &str = "codex-js-repl:";

const NEEDS: &[Requirement] = &[Requirement::JsRepl, Requirement::Program(&["node"])];

/// The Node process of a run; cells run one after the other.
#[derive(Default)]
pub struct Kernel(Mutex<State>);

#[derive(Default)]
struct State {
    process: Option<Process>,
    /// Why the last process is gone, for the next call.
    lost: Option<&'static str>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The source to run.
    code: String,
    /// Milliseconds that it may take; 30000 when absent.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// Runs a cell.
pub struct JsRepl;

#[async_trait]
impl Tool for JsRepl {
    fn name(&self) -> &'static str {
        "js_repl"
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn schema(&self) -> Value {
        schemars::schema_for!(Args).to_value()
    }

    /// It passes by itself, and makes way for the calls of the cell.
    fn takes_gate(&self) -> bool {
        false
    }

    fn needs(&self) -> &'static [Requirement] {
        NEEDS
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = parse_args("js_repl", args)?;
        let code = script_text::bare(&args.code, "code");
        if code.trim().is_empty() {
            return Err(ToolError::tell("there is no code: send JavaScript source"));
        }
        if code.len() > MAX_CODE {
            let size = code.len();
            return Err(ToolError::tell(format!(
                "the code has {size} bytes; {MAX_CODE} are taken"
            )));
        }
        let asked = timeout_of(&code).map_err(ToolError::Tell)?.or(args.timeout_ms);
        let timeout = asked.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let timeout = timeout.min(ctx.limits.command_timeout);
        let mut state = ctx.services.kernel.0.lock().await;
        let mut process = match state.process.take() {
            Some(process) => process,
            None => Process::start(ctx).await?,
        };
        let lost = state.lost.take();
        let mut output = process.run(ctx, &code, timeout).await?;
        if process.is_alive() {
            state.process = Some(process);
        } else {
            state.lost =
                Some("the bindings of earlier cells are gone: the process was started anew");
        }
        if let Some(lost) = lost {
            output.text = format!("({lost})\n{}", output.text);
        }
        Ok(output)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ResetArgs {}

/// Starts the process anew.
pub struct Reset;

#[async_trait]
impl Tool for Reset {
    fn name(&self) -> &'static str {
        "js_repl_reset"
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {}, "additionalProperties": false})
    }

    fn needs(&self) -> &'static [Requirement] {
        NEEDS
    }

    /// It waits for a cell, which passes the gate itself.
    fn takes_gate(&self) -> bool {
        false
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let ResetArgs {} = parse_args("js_repl_reset", args)?;
        *ctx.services.kernel.0.lock().await = State::default();
        Ok(ToolOutput::text(
            "the Node process starts anew with the next cell; its bindings are gone",
        ))
    }
}

/// The time limit that the first line of a cell sets.
fn timeout_of(code: &str) -> Result<Option<u64>, String> {
    let first = code.lines().next().unwrap_or_default().trim();
    let settings = first.strip_prefix("//").map(str::trim_start);
    let Some(settings) = settings.and_then(|line| line.strip_prefix(PRAGMA)) else {
        return Ok(None);
    };
    let mut timeout = None;
    for setting in settings.split([' ', ',', '\t']).filter(|setting| !setting.is_empty()) {
        let number = setting.strip_prefix("timeout_ms=").and_then(|text| text.parse::<u64>().ok());
        let wrong = || format!("`{PRAGMA}` takes `timeout_ms=MILLISECONDS`, not `{setting}`");
        timeout = Some(number.filter(|number| *number > 0).ok_or_else(wrong)?);
    }
    Ok(timeout)
}
