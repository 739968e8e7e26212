//! `exec` and `wait`: scripts that call the other tools.
//!
//! A script runs in the sandbox ([`patchwright_guest::script`]); this side makes its calls and shows what it
//! shows. A script that has not ended in time is paused between its calls and kept in a *cell*, with which
//! `wait` goes on: nothing runs while no call of the model does, so every call of a script belongs to one
//! of the model's.

mod calls;
mod cell;
mod shown;
mod source;

pub(super) use self::calls::{Queue, ScriptCall};
pub(super) use self::shown::{picture, value};

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use self::cell::{Cell, Outcome, Turn};
use super::{Effect, HostCall, Power, Tool};
use crate::truncate;
use patchwright_guest::tool::{Part, ToolError, ToolOutput};
use patchwright_guest::tools::parse_args;

/// How long a call waits when the model does not say, and at most.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
const MOST_WAIT: Duration = Duration::from_hours(1);

/// Paused scripts of a run.
const MAX_CELLS: usize = 8;

/// Values that scripts stored, the bytes of a key, and those of all keys and values. All of them go to a
/// script in one line, in which quotes take twice the room and other characters of keys up to six times.
const MAX_STORED: usize = 256;
const MAX_KEY: usize = 1 << 10;
const MAX_STORED_BYTES: usize = 4 << 20;

/// The scripts of a run.
#[derive(Default)]
pub struct Scripts {
    cells: Mutex<Cells>,
    stored: Mutex<BTreeMap<String, String>>,
}

#[derive(Default)]
struct Cells {
    last: u32,
    paused: BTreeMap<u32, Cell>,
}

impl Scripts {
    fn stored(&self) -> BTreeMap<String, String> {
        self.stored.lock().clone()
    }

    /// Keeps a value; one that does not fit is left out, which its own script does not notice.
    fn store(&self, key: String, value: String) {
        let mut stored = self.stored.lock();
        let others = stored.iter().filter(|(name, _)| **name != key);
        let (count, bytes) = others
            .fold((0, 0), |(count, bytes), (name, it)| (count + 1, bytes + name.len() + it.len()));
        let has_room = count < MAX_STORED && bytes + key.len() + value.len() <= MAX_STORED_BYTES;
        if has_room && key.len() <= MAX_KEY {
            stored.insert(key, value);
        }
    }

    fn pause(&self, number: Option<u32>, cell: Cell) -> Result<u32, ToolError> {
        let mut cells = self.cells.lock();
        if cells.paused.len() >= MAX_CELLS {
            return Err(ToolError::tell(format!(
                "{MAX_CELLS} scripts are paused already, so this one was ended: go on with them with \
                 `wait`, or end them with its `terminate`"
            )));
        }
        let number = number.unwrap_or_else(|| {
            cells.last += 1;
            cells.last
        });
        cells.paused.insert(number, cell);
        Ok(number)
    }

    fn take(&self, number: u32) -> Result<Cell, ToolError> {
        let mut cells = self.cells.lock();
        if let Some(cell) = cells.paused.remove(&number) {
            return Ok(cell);
        }
        let known: Vec<String> = cells.paused.keys().map(|number| format!("`{number}`")).collect();
        let there = match known.as_slice() {
            [] => "none is paused".to_owned(),
            known => format!("these are: {}", known.join(", ")),
        };
        Err(ToolError::tell(format!("no script is paused in the cell `{number}`; {there}")))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecArgs {
    /// The program, JavaScript.
    code: String,
    /// Milliseconds to wait for its end; 10000 when absent.
    #[serde(default)]
    yield_time_ms: Option<u64>,
    /// Most tokens to return.
    #[serde(default)]
    max_output_tokens: Option<u64>,
}

/// Runs a script.
pub struct Exec;

#[async_trait]
impl Tool for Exec {
    fn name(&self) -> &'static str {
        "code_mode"
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn powers(&self) -> &'static [Power] {
        &[Power::Run]
    }

    fn schema(&self) -> Value {
        schemars::schema_for!(ExecArgs).to_value()
    }

    fn takes_gate(&self) -> bool {
        false
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: ExecArgs = parse_args("exec", args)?;
        let script = source::read(&args.code).map_err(ToolError::Tell)?;
        let wait = script.yield_time_ms.or(args.yield_time_ms);
        let tokens = script.max_output_tokens.or(args.max_output_tokens);
        let scripts = &ctx.services.scripts;
        let cell = Cell::start(ctx, script.source, scripts.stored()).await?;
        go_on(ctx, None, cell, patience(wait), tokens).await
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitArgs {
    /// The cell that `exec` named.
    #[serde(deserialize_with = "number")]
    #[schemars(with = "String")]
    cell_id: u32,
    /// Milliseconds to wait for its end; 10000 when absent.
    yield_time_ms: Option<u64>,
    /// Most tokens to return.
    max_tokens: Option<u64>,
    /// True to end it.
    terminate: Option<bool>,
}

/// Cells are named by numbers, which some models write as such.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let value = Value::deserialize(from)?;
    let number = match &value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64().and_then(|number| u32::try_from(number).ok()),
    };
    number.ok_or_else(|| serde::de::Error::custom("`cell_id` must be the number that `exec` gave"))
}

/// Resumes a script.
pub struct Wait;

#[async_trait]
impl Tool for Wait {
    fn name(&self) -> &'static str {
        "code_mode_wait"
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn powers(&self) -> &'static [Power] {
        &[Power::Run]
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(WaitArgs).to_value();
        if let Some(kind) = schema.pointer_mut("/properties/cell_id/type") {
            *kind = json!(["string", "integer"]);
        }
        schema
    }

    fn takes_gate(&self) -> bool {
        false
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: WaitArgs = parse_args("wait", args)?;
        let cell = ctx.services.scripts.take(args.cell_id)?;
        if args.terminate == Some(true) {
            drop(cell);
            return Ok(ToolOutput::text("Script terminated\n"));
        }
        go_on(ctx, Some(args.cell_id), cell, patience(args.yield_time_ms), args.max_tokens).await
    }
}

fn patience(asked_ms: Option<u64>) -> Duration {
    asked_ms.map_or(DEFAULT_WAIT, Duration::from_millis).min(MOST_WAIT)
}

/// Lets a script work until it ends or its time is up.
async fn go_on(
    ctx: &HostCall<'_>,
    number: Option<u32>,
    cell: Cell,
    patience: Duration,
    tokens: Option<u64>,
) -> Result<ToolOutput, ToolError> {
    let scripts = &ctx.services.scripts;
    let started = Instant::now();
    let store = |key, value| scripts.store(key, value);
    let turn = Turn { ctx, deadline: (started + patience).into(), store: &store };
    let (outcome, mut parts, changed) = cell.advance(&turn).await?;
    let is_unfinished = matches!(outcome, Outcome::Paused(_));
    let (state, error) = match outcome {
        Outcome::Paused(cell) => match scripts.pause(number, cell) {
            Ok(number) => (format!("Script running with cell ID {number}"), None),
            Err(full) => ("Script failed".to_owned(), Some(full.to_string())),
        },
        Outcome::Done(None) => ("Script completed".to_owned(), None),
        Outcome::Done(Some(error)) => ("Script failed".to_owned(), Some(error)),
    };
    let success = error.is_none();
    if let Some(error) = error {
        parts.push(Part::Text(format!("Script error:\n{}", truncate::bytes(&error, 16 << 10))));
    }
    let seconds = started.elapsed().as_secs_f64();
    let text = format!("{state}\nWall time {seconds:.1} seconds\nOutput:\n");
    let parts = shown::within(parts, tokens);
    // A cell that could not be kept is an error.
    let is_unfinished = is_unfinished && success;
    Ok(ToolOutput { text, success, parts, changed, is_unfinished, ..ToolOutput::default() })
}

/// The tools that a script has.
fn callables(ctx: &HostCall<'_>) -> Arc<Vec<patchwright_guest::script::lines::Callable>> {
    let tools = ctx.nested.tools().into_iter();
    let is_way = |name: &str| matches!(name, "exec" | "wait");
    let tools = tools.filter(|tool| !is_way(&tool.name));
    let callable =
        |tool: patchwright_provider::ToolDeclaration| patchwright_guest::script::lines::Callable {
            name: tool.name,
            description: truncate::bytes(&tool.description, 2000),
        };
    Arc::new(tools.map(callable).collect())
}
