//! The Node process and one cell in it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::task::AbortOnDropHandle;

use crate::host::HostCall;
use crate::host::code_mode::{Queue, ScriptCall, picture, value};
use crate::host::line_writer::LineWriter;
use crate::truncate;
use patchwright_guest::protocol::Exec;
use patchwright_guest::script::lines::MAX_LINE;
use patchwright_guest::tool::{CommandOutput, Image, ToolError, ToolOutput};
use patchwright_sandbox::client::GuestError;

const KERNEL: &str = include_str!("kernel.js");

/// Bytes of output of one cell, and calls and pictures of one.
const MAX_OUTPUT: usize = 2 << 20;
const MAX_CALLS: usize = 1000;
const MAX_PICTURES: usize = 16;

/// Calls that one cell may ask for; those beyond [`MAX_CALLS`] are refused, and more end the process.
const MAX_ASKED: usize = 10_000;

/// Poll interval for starting queued calls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a process that closed its output may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a cell is told whose process had to be ended.
const GONE: &str = "The process was ended, and the bindings of all cells are gone.";

/// A running kernel.
pub(super) struct Process {
    lines: FramedRead<DuplexStream, LinesCodec>,
    input: LineWriter,
    ended: AbortOnDropHandle<Result<CommandOutput, GuestError>>,
    cells: u64,
    alive: bool,
}

/// A line of the kernel.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    js: CellMessage<'a>,
}

/// What the kernel says, with the arguments of a call as they stand there: they are measured before they
/// are read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CellMessage<'a> {
    Out {
        text: String,
    },
    Image {
        url: String,
    },
    Call {
        id: u64,
        name: String,
        #[serde(borrow)]
        args: Option<&'a RawValue>,
    },
    Done {
        value: Option<String>,
        error: Option<String>,
    },
}

/// What the process wants.
enum ReplMessage {
    More,
    Call(ScriptCall),
    End { success: bool },
}

/// A call that has ended.
struct FinishedCall {
    id: u64,
    size: usize,
    result: Result<ToolOutput, ToolError>,
}

/// What a cell has shown so far.
#[derive(Default)]
struct CellOutput {
    text: String,
    images: Vec<Image>,
    changed: Vec<String>,
}

impl CellOutput {
    fn print(&mut self, text: &str) {
        if self.text.len() < MAX_OUTPUT {
            self.text.push_str(&text[..text.floor_char_boundary(MAX_OUTPUT)]);
        }
    }

    fn line(&mut self, text: &str) {
        if self.text.len() < MAX_OUTPUT {
            self.last(text);
        }
    }

    /// How the cell ended, which is shown however much was printed.
    fn last(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(&text[..text.floor_char_boundary(MAX_OUTPUT)]);
    }

    fn picture(&mut self, url: &str) {
        match picture(url) {
            Ok(image) if self.images.len() < MAX_PICTURES => self.images.push(image),
            Ok(_) => self.line(&format!("(only {MAX_PICTURES} pictures are shown)\n")),
            Err(why) => self.line(&format!("(a picture that cannot be shown: {why})\n")),
        }
    }

    fn output(self, success: bool) -> ToolOutput {
        let CellOutput { text, images, changed } = self;
        let text =
            if text.is_empty() && images.is_empty() { "(no output)".to_owned() } else { text };
        ToolOutput { text, success, images, changed, ..ToolOutput::default() }
    }
}

impl Process {
    /// Starts Node in the workspace.
    pub(super) async fn start(ctx: &HostCall<'_>) -> Result<Process, ToolError> {
        let argv = ["node", "--expose-internals", "--no-warnings", "-e", KERNEL];
        let exec = Exec {
            argv: argv.map(str::to_owned).to_vec(),
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: 0,
            output_cap: 16 << 10,
        };
        let pipe = ctx.client.pipe(exec).await.map_err(failed)?;
        Ok(Process {
            lines: FramedRead::new(pipe.stdout, LinesCodec::new_with_max_length(MAX_LINE)),
            input: LineWriter::new(pipe.stdin),
            ended: pipe.ended,
            cells: 0,
            alive: true,
        })
    }

    /// It can take another cell.
    pub(super) fn is_alive(&self) -> bool {
        self.alive
    }

    /// Runs a cell to its end or its time limit.
    pub(super) async fn run(
        &mut self,
        ctx: &HostCall<'_>,
        code: &str,
        timeout: Duration,
    ) -> Result<ToolOutput, ToolError> {
        // The cell itself may write; the calls that it makes pass the gate by themselves.
        let mut pass = Some(ctx.services.gate.write().await);
        self.cells += 1;
        self.alive = false;
        self.input.send(&json!({"run": {"id": self.cells, "code": code}}));
        let deadline = Instant::now() + timeout;
        let mut shown = CellOutput::default();
        let mut queue = Queue::default();
        let mut calls = FuturesUnordered::new();
        let mut asked_for = 0;
        let success = loop {
            // The timer alone is not enough: of the lines there may be no end.
            if Instant::now() >= deadline {
                shown.last(&took_too_long(timeout));
                break false;
            }
            while let Some(wanted) = queue.begin(calls.len(), self.input.pending()) {
                pass = None;
                calls.push(call(ctx, wanted));
            }
            tokio::select! {
                biased;
                Some(FinishedCall { id, size, result }) = calls.next(), if !calls.is_empty() => {
                    queue.ended(size);
                    self.answer(id, result, &mut shown.changed)?;
                }
                () = tokio::time::sleep_until(deadline) => {}
                line = self.lines.next() => match self.hear(line, &mut shown).await? {
                    ReplMessage::More => {}
                    ReplMessage::Call(_) if asked_for == MAX_ASKED => {
                        shown.last(&format!("The cell asked for over {MAX_ASKED} calls. {GONE}"));
                        break false;
                    }
                    ReplMessage::Call(wanted) => {
                        asked_for += 1;
                        self.take(wanted, asked_for, &mut queue);
                    }
                    ReplMessage::End { success } => break success,
                },
                // A process that has not taken its results yet will.
                () = tokio::time::sleep(POLL_INTERVAL), if queue.is_held_up(calls.len()) => {}
            }
        };
        if !self.alive {
            // It does nothing more while its calls come to their end.
            self.ended.abort();
        }
        drop(pass);
        // Calls that run and that nobody waited for come to their end all the same; others do not begin.
        let limit = Instant::now() + ctx.limits.command_timeout;
        while let Ok(Some(ended)) = tokio::time::timeout_at(limit, calls.next()).await {
            match ended.result {
                Ok(output) => shown.changed.extend(output.changed),
                Err(ToolError::Tell(_)) => {}
                Err(broken @ ToolError::Broken(_)) => return Err(broken),
            }
        }
        drop(calls);
        Ok(shown.output(success))
    }

    /// Lets a call wait for its turn, or says why it cannot be made.
    fn take(&self, wanted: ScriptCall, asked_for: usize, queue: &mut Queue) {
        let id = wanted.id;
        let taken = if asked_for > MAX_CALLS {
            Err(format!("a cell makes at most {MAX_CALLS} calls"))
        } else {
            queue.push(wanted)
        };
        if let Err(why) = taken {
            self.input.send(&json!({"result": {"id": id, "message": why}}));
        }
    }

    /// Acts on what comes from the process.
    async fn hear(
        &mut self,
        line: Option<Result<String, LinesCodecError>>,
        shown: &mut CellOutput,
    ) -> Result<ReplMessage, ToolError> {
        let line = match line {
            Some(Ok(line)) => line,
            Some(Err(_)) => {
                shown.last(&format!("The process printed a line that is too long. {GONE}"));
                return Ok(ReplMessage::End { success: false });
            }
            None => {
                let words = self.epitaph().await?;
                shown.last(&words);
                return Ok(ReplMessage::End { success: false });
            }
        };
        match serde_json::from_str::<Line<'_>>(&line).map(|line| line.js) {
            Ok(CellMessage::Out { text }) => shown.print(&text),
            Ok(CellMessage::Image { url }) => shown.picture(&url),
            Ok(CellMessage::Call { id, name, args }) => {
                let args = args.map_or("{}", RawValue::get).to_owned();
                return Ok(ReplMessage::Call(ScriptCall { id, name, args }));
            }
            Ok(CellMessage::Done { value, error }) => {
                let success = error.is_none();
                shown.last(&error.or(value).unwrap_or_default());
                self.alive = true;
                return Ok(ReplMessage::End { success });
            }
            // A child of the cell that writes to the same output.
            Err(_) => shown.line(&format!("{line}\n")),
        }
        Ok(ReplMessage::More)
    }

    fn answer(
        &self,
        id: u64,
        result: Result<ToolOutput, ToolError>,
        changed: &mut Vec<String>,
    ) -> Result<(), ToolError> {
        let result = match result {
            Ok(output) => {
                changed.extend(output.changed.iter().cloned());
                json!({"id": id, "value": value(&output)})
            }
            Err(ToolError::Tell(message)) => json!({"id": id, "message": message}),
            Err(broken @ ToolError::Broken(_)) => return Err(broken),
        };
        self.input.send(&json!({"result": result}));
        Ok(())
    }

    /// Why the process is gone.
    async fn epitaph(&mut self) -> Result<String, ToolError> {
        let Ok(ended) = tokio::time::timeout(EXIT_TIMEOUT, &mut self.ended).await else {
            return Ok("The process closed its output and was ended.".to_owned());
        };
        let ended = ended.map_err(|err| ToolError::Broken(err.to_string()))?.map_err(failed)?;
        let words = truncate::bytes(ended.output.trim(), 4096);
        Ok(format!(
            "The process ended with code {}, and the bindings of all cells are gone. {words}",
            ended.exit_code
        ))
    }
}

/// What waits for the process, or for somebody who may; and agents, which a cell that is run again would
/// start again.
const WAITING: &[&str] = &[
    "js_repl",
    "js_repl_reset",
    "exec",
    "wait",
    "wait_agent",
    "task",
    "agent",
    "invoke_agent",
    "spawn_agent",
    "send_input",
    "resume_agent",
    "close_agent",
];

/// A name as a call is looked up by it.
fn plain(name: &str) -> String {
    name.rsplit(['.', ':', '/']).next().unwrap_or(name).trim().to_ascii_lowercase()
}

/// Makes a call of a cell.
async fn call(ctx: &HostCall<'_>, wanted: ScriptCall) -> FinishedCall {
    let result = match permitted(&wanted) {
        Ok(args) => ctx.nested.call(&wanted.name, args).await,
        Err(err) => Err(err),
    };
    FinishedCall { id: wanted.id, size: wanted.size(), result }
}

/// The arguments of a call that a cell may make.
fn permitted(wanted: &ScriptCall) -> Result<Value, ToolError> {
    let args = wanted.value()?;
    let outer = plain(&wanted.name);
    let inner = match args.get("name").and_then(Value::as_str) {
        Some(name) if outer == "call_tool" => plain(name),
        // Arguments in another form may name a tool all the same.
        None if outer == "call_tool" => {
            return Err(ToolError::tell("`call_tool` takes an object with the `name` of a tool"));
        }
        _ => String::new(),
    };
    match [outer, inner].iter().find(|name| WAITING.contains(&name.as_str())) {
        Some(name) => Err(ToolError::Tell(format!("`{name}` cannot be called from a cell"))),
        None => Ok(args),
    }
}

/// What a cell is told when its time is up.
fn took_too_long(timeout: Duration) -> String {
    format!("The cell took longer than {} ms. {GONE}", timeout.as_millis())
}

fn failed(err: GuestError) -> ToolError {
    match err {
        GuestError::Failed(why) => ToolError::tell(format!("Node cannot be started: {why}")),
        other => ToolError::Broken(other.to_string()),
    }
}
