//! The Node process and one cell in it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::task::AbortOnDropHandle;

use crate::guest::client::GuestError;
use crate::guest::protocol::Exec;
use crate::guest::script::lines::MAX_LINE;
use crate::tools::host::HostCall;
use crate::tools::host::code_mode::{picture, value};
use crate::tools::host::line_writer::LineWriter;
use crate::tools::{CommandOutput, Image, ToolError, ToolOutput, truncate};

const KERNEL: &str = include_str!("kernel.js");

/// Bytes of output of one cell, and calls and pictures of one.
const MAX_OUTPUT: usize = 2 << 20;
const MAX_CALLS: usize = 1000;
const MAX_PICTURES: usize = 16;

/// How long a process that closed its output may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

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
#[serde(tag = "js", rename_all = "snake_case")]
enum Line {
    Out { text: String },
    Image { url: String },
    Call { id: u64, name: String, args: Option<Value> },
    Done { value: Option<String>, error: Option<String> },
}

/// What the process wants.
enum Heard {
    More,
    Call { id: u64, name: String, args: Option<Value> },
    End { success: bool },
}

/// What a cell has shown so far.
#[derive(Default)]
struct Shown {
    text: String,
    images: Vec<Image>,
    changed: Vec<String>,
}

impl Shown {
    fn print(&mut self, text: &str) {
        if self.text.len() < MAX_OUTPUT {
            self.text.push_str(&text[..text.floor_char_boundary(MAX_OUTPUT)]);
        }
    }

    fn line(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.print(text);
    }

    fn picture(&mut self, url: &str) {
        match picture(url) {
            Ok(image) if self.images.len() < MAX_PICTURES => self.images.push(image),
            Ok(_) => self.line(&format!("(only {MAX_PICTURES} pictures are shown)\n")),
            Err(why) => self.line(&format!("(a picture that cannot be shown: {why})\n")),
        }
    }

    fn output(self, success: bool) -> ToolOutput {
        let Shown { text, images, changed } = self;
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
        let mut shown = Shown::default();
        let mut calls = FuturesUnordered::new();
        let mut made = 0;
        let success = loop {
            tokio::select! {
                biased;
                Some((id, result)) = calls.next(), if !calls.is_empty() => {
                    self.answer(id, result, &mut shown.changed)?;
                }
                line = self.lines.next() => match self.hear(line, &mut shown).await? {
                    Heard::More => {}
                    Heard::Call { id, name, args } => {
                        made += 1;
                        pass = None;
                        calls.push(call(ctx, id, name, args, made <= MAX_CALLS));
                    }
                    Heard::End { success } => break success,
                },
                () = tokio::time::sleep_until(deadline) => {
                    shown.line(&format!(
                        "The cell took longer than {} ms. The process was ended, and the bindings of \
                         all cells are gone.",
                        timeout.as_millis()
                    ));
                    break false;
                }
            }
        };
        drop(pass);
        // Calls that nobody waited for come to their end all the same.
        while let Some((_, result)) = calls.next().await {
            if let Err(broken @ ToolError::Broken(_)) = result {
                return Err(broken);
            }
        }
        drop(calls);
        Ok(shown.output(success))
    }

    /// Acts on what comes from the process.
    async fn hear(
        &mut self,
        line: Option<Result<String, LinesCodecError>>,
        shown: &mut Shown,
    ) -> Result<Heard, ToolError> {
        let line = match line {
            Some(Ok(line)) => line,
            Some(Err(_)) => {
                shown.line("The process printed a line that is too long, and was ended.");
                return Ok(Heard::End { success: false });
            }
            None => {
                let words = self.epitaph().await?;
                shown.line(&words);
                return Ok(Heard::End { success: false });
            }
        };
        match serde_json::from_str(&line) {
            Ok(Line::Out { text }) => shown.print(&text),
            Ok(Line::Image { url }) => shown.picture(&url),
            Ok(Line::Call { id, name, args }) => return Ok(Heard::Call { id, name, args }),
            Ok(Line::Done { value, error }) => {
                let success = error.is_none();
                shown.line(&error.or(value).unwrap_or_default());
                self.alive = true;
                return Ok(Heard::End { success });
            }
            // A child of the cell that writes to the same output.
            Err(_) => shown.line(&format!("{line}\n")),
        }
        Ok(Heard::More)
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
        let Ok(ended) = tokio::time::timeout(PATIENCE, &mut self.ended).await else {
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

/// Makes a call of a cell.
async fn call(
    ctx: &HostCall<'_>,
    id: u64,
    name: String,
    args: Option<Value>,
    may: bool,
) -> (u64, Result<ToolOutput, ToolError>) {
    let own = ["js_repl", "js_repl_reset", "exec", "wait"];
    let refused = if !may {
        Some(format!("a cell makes at most {MAX_CALLS} calls"))
    } else if own.contains(&name.as_str()) {
        Some(format!("`{name}` cannot be called from a cell"))
    } else {
        None
    };
    if let Some(why) = refused {
        return (id, Err(ToolError::Tell(why)));
    }
    let args = args.filter(|args| !args.is_null()).unwrap_or_else(|| json!({}));
    (id, ctx.nested.call(&name, args).await)
}

fn failed(err: GuestError) -> ToolError {
    match err {
        GuestError::Failed(why) => ToolError::tell(format!("Node cannot be started: {why}")),
        other => ToolError::Broken(other.to_string()),
    }
}
