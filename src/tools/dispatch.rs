//! Runs calls. One call is seven steps: find the tool, parse its arguments, wait at the gate, journal
//! the start, run, format, truncate (and journal the end).
//!
//! A call always has an output: what is wrong with it is told to the model. Only a lost sandbox or an
//! unwritable journal ([`Broken`]) ends the run.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::arguments::{self, Refusal};
use super::format::Style;
use super::host::{Agents, HostCall, Nested};
use super::progress::{AgentProgress, Happening};
use super::registry::{Known, Place, ToolSet};
use super::review::Desk;
use super::services::Services;
use super::{Effect, ToolError, ToolOutput, truncate};
use crate::agent::journal::{Entry, Journal};
use crate::clock::Clock;
use crate::error::Failure;
use crate::guest::client::Client;
use crate::provider::ToolDeclaration;
use crate::provider::catalogue::Model;
use crate::provider::item::{CallOutput, Content, Payload, ToolCall};
use crate::review::finding::Finding;
use crate::task::Limits;
use crate::task::plan::Plan;

/// Largest arguments of one call, in bytes.
pub const MAX_ARGUMENTS: usize = 1 << 20;
/// Most calls of one reply that are run.
pub const MAX_CALLS: usize = 64;
/// Longest name of a tool.
const MAX_NAME: usize = 64;
/// How long a command may take when the model does not say: long enough for most test suites, short
/// enough to notice a command that waits for something.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// How much later than the guest the host gives up on a command: the guest needs time to end it.
const GRACE: Duration = Duration::from_secs(15);

/// Why a call could not be run as it was written. Several in a row end the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// No id, an id used before, a name that is no name, or too large.
    Malformed,
    UnknownTool,
    NotJson,
    /// JSON, but not what the tool takes.
    Arguments,
    /// More calls in one reply than are run.
    TooMany,
}

/// Why the run cannot go on.
#[derive(Debug)]
pub enum Broken {
    Sandbox(String),
    Journal(Failure),
}

/// A call that has run.
#[derive(Debug)]
pub struct Done {
    /// The journal entry with the output.
    pub entry: Entry,
    /// Paths that the tool says it changed.
    pub changed: Vec<String>,
}

/// What a call that was run again did.
#[derive(Debug)]
pub struct Redone {
    pub success: bool,
    pub changed: Vec<String>,
}

/// What calls are run with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub client: &'a Client,
    pub tools: &'a ToolSet,
    pub model: &'a Model,
    pub limits: &'a Limits,
    pub journal: &'a Journal,
    pub clock: Clock,
    pub progress: &'a dyn AgentProgress,
    pub services: &'a Services,
}

/// Runs the calls of one turn.
pub struct Dispatch<'a> {
    means: Means<'a>,
    plan: &'a Mutex<Plan>,
    findings: &'a Mutex<Vec<Finding>>,
    review: Option<&'a Desk<'a>>,
    agents: Option<&'a dyn Agents>,
}

/// Held while a call runs.
enum Pass<'a> {
    /// It makes calls of its own, which pass one by one.
    Free,
    Reading(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>),
    Writing(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'a, ()>),
}

/// What came of a call, before it is formatted.
struct Ran {
    output: Result<ToolOutput, String>,
    fault: Option<Fault>,
    took: Duration,
}

impl<'a> Dispatch<'a> {
    pub fn new(
        means: Means<'a>,
        plan: &'a Mutex<Plan>,
        findings: &'a Mutex<Vec<Finding>>,
    ) -> Dispatch<'a> {
        Dispatch { means, plan, findings, review: None, agents: None }
    }

    /// With what is reviewed.
    #[must_use]
    pub fn reviewing(mut self, review: Option<&'a Desk<'a>>) -> Dispatch<'a> {
        self.review = review;
        self
    }

    /// With sub-agents.
    #[must_use]
    pub fn with_agents(mut self, agents: Option<&'a dyn Agents>) -> Dispatch<'a> {
        self.agents = agents;
        self
    }

    /// Runs calls of one reply, given with their positions in it: reads together, writes alone and
    /// in order. The results are in the order of the calls.
    pub async fn run_all(
        &self,
        turn: u32,
        calls: &[(usize, ToolCall)],
    ) -> Result<Vec<Done>, Broken> {
        try_join_all(calls.iter().map(|(position, call)| self.run(turn, *position, call))).await
    }

    /// The seven steps of one call.
    async fn run(&self, turn: u32, position: usize, call: &ToolCall) -> Result<Done, Broken> {
        let found = self.find(position, call);
        let tool = found.as_ref().ok().copied();
        let ran = match found.and_then(|tool| parse(tool, call)) {
            Err(refusal) => Ran::refused(refusal),
            Ok((tool, args)) => {
                let effect = tool.effect_of(&args);
                let pass = self.pass(tool, effect).await;
                self.journal_start(turn, call, effect)?;
                let ran = self.execute(tool, &call.id, args).await?;
                drop(pass);
                ran
            }
        };
        let content = self.format(tool, call, &ran);
        self.journal_end(turn, call, ran, content)
    }

    /// Runs a recorded call again for its effect; nothing is journalled and nobody is told.
    pub async fn redo(&self, call: &ToolCall) -> Result<Redone, Broken> {
        let Ok((tool, args)) = self.find(0, call).and_then(|tool| parse(tool, call)) else {
            return Ok(Redone { success: false, changed: Vec::new() });
        };
        let _pass = self.pass(tool, tool.effect_of(&args)).await;
        let ran = self.execute(tool, &call.id, args).await?;
        let success = ran.output.as_ref().is_ok_and(|output| output.success);
        Ok(Redone { success, changed: ran.output.map(|output| output.changed).unwrap_or_default() })
    }

    fn find(&self, position: usize, call: &ToolCall) -> Result<&'a Known, Refusal> {
        if position >= MAX_CALLS {
            let message = format!("not run: at most {MAX_CALLS} calls of one reply are run");
            return Err(Refusal { fault: Fault::TooMany, message });
        }
        self.means
            .tools
            .find(&call.name)
            .map_err(|err| Refusal { fault: Fault::UnknownTool, message: err.to_string() })
    }

    async fn pass(&self, tool: &Known, effect: Effect) -> Pass<'_> {
        let gate = &self.means.services.gate;
        match (&tool.place, effect) {
            (Place::Host(host), _) if !host.passes_gate() => Pass::Free,
            (_, Effect::Reads) => Pass::Reading(gate.read().await),
            (_, Effect::Writes) => Pass::Writing(gate.write().await),
        }
    }

    fn journal_start(&self, turn: u32, call: &ToolCall, effect: Effect) -> Result<(), Broken> {
        self.means.progress.happened(Happening::CallStarted { call });
        let entry = Entry::CallStarted {
            turn,
            id: call.id.clone(),
            name: call.name.clone(),
            writes: effect == Effect::Writes,
        };
        self.means.journal.append(&entry).map_err(Broken::Journal)?;
        Ok(())
    }

    async fn execute(&self, tool: &Known, id: &str, args: Value) -> Result<Ran, Broken> {
        let clock = self.means.clock;
        let started = clock.instant();
        let output = match &tool.place {
            Place::Guest => self.in_guest(tool, args).await,
            Place::Host(host) => host.call(&self.context(id), args).await,
            Place::Extra(extra) => extra.call(&self.context(id), args).await,
        };
        let elapsed = clock.instant().saturating_duration_since(started);
        match output {
            Ok(output) => Ok(Ran { output: Ok(output), fault: None, took: elapsed }),
            Err(ToolError::Tell(message)) => {
                Ok(Ran { output: Err(message), fault: None, took: elapsed })
            }
            Err(ToolError::Broken(message)) => Err(Broken::Sandbox(message)),
        }
    }

    fn context<'c>(&'c self, id: &'c str) -> HostCall<'c> {
        let Means { journal, progress, client, limits, services, .. } = self.means;
        HostCall {
            plan: self.plan,
            findings: self.findings,
            journal,
            progress,
            client,
            limits,
            review: self.review,
            services,
            nested: self,
            agents: self.agents,
            id,
        }
    }

    async fn in_guest(&self, tool: &Known, mut args: Value) -> Result<ToolOutput, ToolError> {
        let limit = self.means.limits.command_timeout;
        if tool.is_shell() {
            bound_timeout(&mut args, limit);
        }
        let cap = truncate::output_cap(self.means.model.output_tokens);
        self.means.client.tool(&tool.tool, args, cap, limit + GRACE).await
    }

    /// The output as the model reads it.
    fn format(&self, tool: Option<&Known>, call: &ToolCall, ran: &Ran) -> Vec<Content> {
        let Means { tools, model, journal, .. } = self.means;
        let tokens = model.output_tokens;
        let (tool, output) = match (&ran.output, tool) {
            (Ok(output), Some(tool)) => (tool, output),
            (Ok(ToolOutput { text, .. }) | Err(text), _) => {
                let text = truncate::text(text, tokens).text;
                return vec![Content::text(journal.redact(&text))];
            }
        };
        let redact = |text: &str| journal.redact(text);
        let style = Style { profile: tools.profile(), tokens, redact: &redact };
        let mut text = style.text(tool, call, output, ran.took);
        if !output.images.is_empty() && !model.images {
            text.push_str("\n(only described: this model takes no pictures)");
        }
        let images = output.images.iter().filter(|_| model.images);
        let images = images.map(|image| Content::Image {
            media_type: image.media_type.clone(),
            data: image.data.clone(),
        });
        std::iter::once(Content::text(text)).chain(images).collect()
    }

    fn journal_end(
        &self,
        turn: u32,
        call: &ToolCall,
        ran: Ran,
        content: Vec<Content>,
    ) -> Result<Done, Broken> {
        let success = ran.output.as_ref().is_ok_and(|output| output.success);
        let output = CallOutput {
            id: call.id.clone(),
            name: call.name.clone(),
            content,
            success,
            form: call.output_form(),
        };
        let duration_ms = u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX);
        let command = ran.output.as_ref().ok().and_then(|output| output.command.as_ref());
        // One that still runs has none.
        let command = command.filter(|command| command.session.is_none());
        let exit_code = command.map(|command| command.exit_code);
        let entry = Entry::CallEnded { turn, output, duration_ms, fault: ran.fault, exit_code };
        self.means.journal.append(&entry).map_err(Broken::Journal)?;
        self.means.progress.happened(Happening::CallEnded { call, success, took: ran.took });
        let changed = ran.output.map(|output| output.changed).unwrap_or_default();
        Ok(Done { entry, changed })
    }
}

#[async_trait]
impl Nested for Dispatch<'_> {
    async fn call(&self, name: &str, args: Value) -> Result<ToolOutput, ToolError> {
        let tool = self.means.tools.find(name)?;
        let payload = Payload::Json(args.to_string());
        let args = arguments::parse(tool, &payload).map_err(|it| ToolError::Tell(it.message))?;
        let _pass = self.pass(tool, tool.effect_of(&args)).await;
        // Boxed: a nested call may nest calls.
        let ran = Box::pin(self.execute(tool, "", args)).await.map_err(|broken| match broken {
            Broken::Sandbox(why) => ToolError::Broken(why),
            Broken::Journal(failure) => ToolError::Broken(failure.to_string()),
        })?;
        ran.output.map_err(ToolError::Tell)
    }

    fn tools(&self) -> Vec<ToolDeclaration> {
        self.means.tools.declarations().to_vec()
    }
}

impl Ran {
    fn refused(refusal: Refusal) -> Ran {
        Ran { output: Err(refusal.message), fault: Some(refusal.fault), took: Duration::ZERO }
    }
}

fn parse<'a>(tool: &'a Known, call: &ToolCall) -> Result<(&'a Known, Value), Refusal> {
    arguments::parse(tool, &call.payload).map(|args| (tool, args))
}

/// A command may take as long as the model asks for, and never longer than the run's limit says.
fn bound_timeout(args: &mut Value, limit: Duration) {
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let asked = ["timeout_ms", "yield_time_ms"].iter().find_map(|name| args.get(*name)?.as_u64());
    let asked = asked.unwrap_or(DEFAULT_TIMEOUT_MS);
    if let Value::Object(fields) = args {
        fields.insert("timeout_ms".to_owned(), json!(asked.min(limit)));
    }
}

/// The name could be one of a tool.
pub fn is_tool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed) && !name.starts_with('.')
}

/// A name from a model, short and without anything that a terminal or Markdown would act on.
pub fn printable(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_graphic() && c != '`' { c } else { '?' };
    let mut text: String = name.chars().take(MAX_NAME).map(clean).collect();
    if name.chars().nth(MAX_NAME).is_some() {
        text.push('…');
    }
    text
}
