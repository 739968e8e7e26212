//! `write_stdin`: types into a session of `exec_command`, or looks what has become of it.

use serde::Deserialize;

use super::exec_command::{LEAST_WAIT_MS, MOST_WAIT_MS, bounded, output};
use super::{Call, Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};

/// How long a call waits for an answer to what it types, when the model does not say.
const DEFAULT_WAIT_MS: u64 = 250;
/// How long a call waits that only looks: asking again and again costs more than waiting.
const DEFAULT_LOOK_MS: u64 = 5_000;
/// The longest that a call may only look.
const MOST_LOOK_MS: u64 = 300_000;

pub const WRITE_STDIN: GuestTool = GuestTool {
    name: "write_stdin",
    // What is typed changes things, and so does the time that passes in a session.
    effect: Effect::Writes,
    powers: &[Power::Run],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| write_stdin(call, &parse_args("write_stdin", args)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Args {
    session_id: u32,
    /// What to type; \u0003 is Ctrl-C. Leave it out to only wait.
    chars: Option<String>,
    /// How long to wait, at least 5000 without `chars`.
    yield_time_ms: Option<u64>,
    #[serde(rename = "max_output_tokens")]
    _max_output_tokens: Option<u64>,
    /// The longest that the harness waits for one call.
    #[schemars(skip)]
    timeout_ms: Option<u64>,
}

fn write_stdin(call: &Call<'_>, args: &Args) -> Result<ToolOutput, ToolError> {
    let chars = args.chars.as_deref().unwrap_or_default();
    let wait = if chars.is_empty() {
        args.yield_time_ms.unwrap_or(DEFAULT_LOOK_MS).clamp(DEFAULT_LOOK_MS, MOST_LOOK_MS)
    } else {
        args.yield_time_ms.unwrap_or(DEFAULT_WAIT_MS).clamp(LEAST_WAIT_MS, MOST_WAIT_MS)
    };
    let wait = bounded(wait, args.timeout_ms);
    call.processes.write(args.session_id, chars.as_bytes(), wait, call.cancelled).map(output)
}
