//! One running script: its process in the sandbox, the calls that it makes, and what it shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::task::AbortOnDropHandle;

use super::calls::{Queue, ScriptCall};
use super::shown;
use crate::host::HostCall;
use crate::host::line_writer::LineWriter;
use patchwright_guest::protocol::Exec;
use patchwright_guest::script::SCRIPT;
use patchwright_guest::script::lines::{Callable, Limits, MAX_LINE, Start, ToScript};
use patchwright_guest::tool::{CommandOutput, Part, ToolError, ToolOutput};
use patchwright_sandbox::client::GuestError;

/// Poll interval for starting queued calls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a script that closed its output may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Things and bytes that one turn of a script shows.
const MAX_PARTS: usize = 2000;
const MAX_SHOWN: usize = 4 << 20;
const MAX_PICTURES: usize = 16;

/// A script.
pub(super) struct Cell {
    lines: FramedRead<DuplexStream, LinesCodec>,
    results: LineWriter,
    ended: AbortOnDropHandle<Result<CommandOutput, GuestError>>,
    callables: Arc<Vec<Callable>>,
    queued: Queue,
    made: usize,
    source: String,
}

/// What a turn of a script works with.
pub(super) struct Turn<'a, 'c> {
    pub ctx: &'a HostCall<'c>,
    /// When the model wants to hear.
    pub deadline: Instant,
    pub store: &'a (dyn Fn(String, String) + Sync),
}

/// What has become of a script.
pub(super) enum Outcome {
    /// It has more to do.
    Paused(Cell),
    /// It has ended, with an error if there is one.
    Done(Option<String>),
}

/// A line of the script, as the guest writes it, with the arguments of a call as they stand there: they
/// are measured before they are read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Call {
        id: u64,
        name: String,
        #[serde(borrow)]
        args: &'a RawValue,
    },
    Text(String),
    Image(String),
    Store {
        key: String,
        value: String,
    },
    Yield,
    Done {
        error: Option<String>,
    },
}

/// What a script has shown in one turn.
#[derive(Default)]
struct CellOutput {
    parts: Vec<Part>,
    bytes: usize,
    pictures: usize,
}

impl CellOutput {
    fn text(&mut self, text: String) {
        if self.parts.len() < MAX_PARTS && self.bytes + text.len() <= MAX_SHOWN {
            self.bytes += text.len();
            self.parts.push(Part::Text(text));
        }
    }

    fn picture(&mut self, url: &str) {
        match shown::picture(url) {
            Ok(image) if self.pictures < MAX_PICTURES => {
                self.pictures += 1;
                self.parts.push(Part::Image(image));
            }
            Ok(_) => {}
            Err(why) => self.text(format!("(a picture that cannot be shown: {why})")),
        }
    }
}

impl Cell {
    /// Starts a script.
    pub(super) async fn start(
        ctx: &HostCall<'_>,
        source: String,
        stored: BTreeMap<String, String>,
    ) -> Result<Cell, ToolError> {
        let exec = Exec {
            // The launcher that starts it is the guest itself.
            argv: vec!["/proc/self/exe".to_owned(), SCRIPT.to_owned()],
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: 0,
            output_cap: 4096,
        };
        let pipe = ctx.client.pipe(exec).await.map_err(failed)?;
        let callables = super::callables(ctx);
        let results = LineWriter::new(pipe.stdin);
        results.send(&ToScript::Start(Start {
            source: source.clone(),
            tools: callables.as_ref().clone(),
            stored,
            limits: Limits::default(),
        }));
        let lines = FramedRead::new(pipe.stdout, LinesCodec::new_with_max_length(MAX_LINE));
        let queued = Queue::default();
        Ok(Cell { lines, results, ended: pipe.ended, callables, queued, made: 0, source })
    }

    /// Works until the script ends, or the model wants to hear and no call of it is on its way.
    pub(super) async fn advance(
        mut self,
        turn: &Turn<'_, '_>,
    ) -> Result<(Outcome, Vec<Part>, Vec<String>), ToolError> {
        let mut shown = CellOutput::default();
        let mut changed: Vec<String> = Vec::new();
        let mut calls = FuturesUnordered::new();
        let mut yields = false;
        let mut done: Option<ScriptEnd> = None;
        loop {
            let is_over = yields || done.is_some() || Instant::now() >= turn.deadline;
            while !is_over
                && let Some(wanted) = self.queued.begin(calls.len(), self.results.pending())
            {
                calls.push(run(turn, wanted));
            }
            if is_over && calls.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some((size, id, result)) = calls.next(), if !calls.is_empty() => {
                    self.queued.ended(size);
                    self.answer(id, result, &mut changed)?;
                }
                line = self.lines.next(), if done.is_none() => match line {
                    Some(Ok(line)) => match self.take(&line, turn, &mut shown) {
                        LineEffect::Nothing => {}
                        LineEffect::Yield => yields = true,
                        LineEffect::Done(error) => done = Some(ScriptEnd(error)),
                    },
                    Some(Err(_)) => done = Some(ScriptEnd::with("it broke its protocol")),
                    None => done = Some(ScriptEnd(Some(self.epitaph().await?))),
                },
                () = tokio::time::sleep_until(turn.deadline), if !is_over => {}
                // A script that has not taken its results yet will.
                () = tokio::time::sleep(POLL_INTERVAL), if !is_over && self.queued.is_held_up(calls.len()) => {}
            }
        }
        drop(calls);
        let outcome = match done {
            Some(ScriptEnd(error)) => Outcome::Done(error.map(|error| self.explained(error))),
            None => Outcome::Paused(self),
        };
        Ok((outcome, shown.parts, changed))
    }

    /// Gives a result to the script.
    fn answer(
        &self,
        id: u64,
        result: Result<ToolOutput, ToolError>,
        changed: &mut Vec<String>,
    ) -> Result<(), ToolError> {
        let line = match result {
            Ok(output) => {
                changed.extend(output.changed.iter().cloned());
                let text = shown::value(&output).to_string();
                match RawValue::from_string(text) {
                    Ok(value) => ToScript::Result { id, value },
                    Err(err) => ToScript::Failed { id, message: err.to_string() },
                }
            }
            Err(ToolError::Tell(message)) => ToScript::Failed { id, message },
            Err(broken @ ToolError::Broken(_)) => return Err(broken),
        };
        self.results.send(&line);
        Ok(())
    }

    /// Acts on a line of the script.
    fn take(&mut self, line: &str, turn: &Turn<'_, '_>, shown: &mut CellOutput) -> LineEffect {
        match serde_json::from_str::<Line<'_>>(line) {
            Ok(Line::Call { id, name, args }) => {
                return self.queue(ScriptCall { id, name, args: args.get().to_owned() });
            }
            Ok(Line::Text(text)) => shown.text(text),
            Ok(Line::Image(url)) => shown.picture(&url),
            Ok(Line::Store { key, value }) => (turn.store)(key, value),
            Ok(Line::Yield) => return LineEffect::Yield,
            Ok(Line::Done { error }) => return LineEffect::Done(error),
            Err(_) => return LineEffect::Done(Some("it broke its protocol".to_owned())),
        }
        LineEffect::Nothing
    }

    /// Lets a call wait for its turn, or says why it cannot be made.
    fn queue(&mut self, wanted: ScriptCall) -> LineEffect {
        self.made += 1;
        // The guest counts them too, and refuses the rest by itself.
        if self.made > Limits::default().calls {
            return LineEffect::Done(Some("it broke its protocol".to_owned()));
        }
        let id = wanted.id;
        let is_there = self.callables.iter().any(|tool| tool.name == wanted.name);
        let refused =
            if is_there { self.queued.push(wanted).err() } else { Some("no such tool".to_owned()) };
        if let Some(message) = refused {
            self.results.send(&ToScript::Failed { id, message });
        }
        LineEffect::Nothing
    }

    /// Why a script ended without a word.
    async fn epitaph(&mut self) -> Result<String, ToolError> {
        let Ok(ended) = tokio::time::timeout(EXIT_TIMEOUT, &mut self.ended).await else {
            return Ok("it fell silent and was ended".to_owned());
        };
        let ended = ended.map_err(|err| ToolError::Broken(err.to_string()))?.map_err(failed)?;
        let output = ended.output.trim();
        Ok(match ended.exit_code {
            // SIGXCPU, and SIGKILL after it.
            137 | 152 => "it computed for too long and was ended".to_owned(),
            _ if !output.is_empty() => format!("it was ended: {output}"),
            code => format!("it was ended with code {code}"),
        })
    }

    /// An error with what the language's own words leave open.
    fn explained(&self, error: String) -> String {
        if error.contains("not a function") {
            let is_known = |name: &str| self.callables.iter().any(|tool| same(&tool.name, name));
            let missing = called(&self.source).find(|name| !is_known(name));
            if let Some(missing) = missing {
                let names: Vec<&str> = self.callables.iter().map(|it| it.name.as_str()).collect();
                return format!(
                    "{error}\nThere is no tool `{missing}`; the tools are {}",
                    names.join(", ")
                );
            }
        }
        if error.contains("could not load module") || self.source.contains("\nimport ") {
            return format!(
                "{error}\nScripts have no modules: what they need, they do with tools."
            );
        }
        error
    }
}

/// The end of a script, with an error if there is one.
struct ScriptEnd(Option<String>);

impl ScriptEnd {
    fn with(error: &str) -> ScriptEnd {
        ScriptEnd(Some(error.to_owned()))
    }
}

/// What a line asks of the loop.
enum LineEffect {
    Nothing,
    Yield,
    Done(Option<String>),
}

/// Makes a call; its size, its id and its result.
async fn run(
    turn: &Turn<'_, '_>,
    wanted: ScriptCall,
) -> (usize, u64, Result<ToolOutput, ToolError>) {
    let result = match wanted.value() {
        Ok(args) => turn.ctx.nested.call(&wanted.name, args).await,
        Err(err) => Err(err),
    };
    (wanted.size(), wanted.id, result)
}

/// The names that stand behind `tools.` in a script.
fn called(source: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    source.split("tools.").skip(1).filter_map(move |rest| {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|name| !name.is_empty())
    })
}

/// The name, or the identifier that a script has for it.
fn same(tool: &str, name: &str) -> bool {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    tool == name || tool.chars().map(fit).eq(name.chars())
}

fn failed(err: GuestError) -> ToolError {
    match err {
        GuestError::Failed(why) => ToolError::tell(format!("the script cannot be run: {why}")),
        other => ToolError::Broken(other.to_string()),
    }
}
