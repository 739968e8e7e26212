//! Runs calls. One call is seven steps: find the tool, parse its arguments, wait at the gate (and hear
//! the hooks before it), journal the start, run (and hear the hooks after it), format, truncate (and
//! journal the end).
//!
//! A call always has an output: what is wrong with it is told to the model. Only a lost sandbox or an
//! unwritable journal ([`Broken`]) ends the run.

use parking_lot::Mutex;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::Value;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::arguments::{self, Refusal};
use super::format::{self, Style};
use super::hooks::{Subject, Verdict};
use super::host::{Agents, HostCall, tool_search};
use super::nested::Within;
use super::progress::{AgentEvent, AgentProgress};
use super::registry::{ResolvedTool, ToolKind, ToolSet};
use super::review::ReviewContext;
use super::services::Services;
use super::{alias, command_timeout, fault, long_output, patches, truncate};
use patchwright_base::clock::Clock;
use patchwright_base::error::Failure;
use patchwright_guest::protocol::MAX_OUTPUT_CAP;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_journal::{Entry, Journal};
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::{CallOutput, Content, ToolCall};
use patchwright_review::finding::Finding;
use patchwright_sandbox::client::{Client, GRACE};
pub use patchwright_types::calls::Fault;
use patchwright_types::plan::Plan;
use patchwright_types::task::Limits;

/// Largest arguments of one call, in bytes.
pub const MAX_ARGUMENTS: usize = 1 << 20;
/// Most calls of one reply that are run.
pub const MAX_CALLS: usize = 64;
/// Longest name of a tool.
const MAX_NAME: usize = 64;
/// Tokens of an output that is not shortened: more than the sandbox lets out.
const UNTRUNCATED: u64 = MAX_OUTPUT_CAP as u64;

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

/// What calls are run with.
#[derive(Clone, Copy)]
pub struct DispatchContext<'a> {
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
    pub(super) context: DispatchContext<'a>,
    plan: &'a Mutex<Plan>,
    findings: &'a Mutex<Vec<Finding>>,
    review: Option<&'a ReviewContext<'a>>,
    agents: Option<&'a dyn Agents>,
}

/// A call that can be run.
pub(super) struct ReadyCall<'a> {
    pub tool: &'a ResolvedTool,
    /// As the tool shows its arguments.
    pub shown: Value,
}

/// What is written down when a call is about to run.
pub(super) struct Start<'a> {
    pub tool: &'a ResolvedTool,
    /// It may change the workspace.
    pub writes: bool,
    /// The arguments as the tool shows them.
    pub arguments: &'a Value,
    /// A hook changed them.
    pub is_changed: bool,
}

/// Held while a call runs.
pub(super) enum GateGuard<'a> {
    /// It makes calls of its own, which pass one by one.
    Free,
    Reading(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>),
    Writing(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'a, ()>),
}

/// What came of a call, before it is formatted.
pub(super) struct Ran {
    pub output: Result<ToolOutput, String>,
    pub fault: Option<Fault>,
    pub took: Duration,
    /// A hook did not let it run.
    pub denied: bool,
    /// What hooks said after it.
    pub notes: Vec<String>,
}

impl<'a> Dispatch<'a> {
    pub fn new(
        context: DispatchContext<'a>,
        plan: &'a Mutex<Plan>,
        findings: &'a Mutex<Vec<Finding>>,
    ) -> Dispatch<'a> {
        Dispatch { context, plan, findings, review: None, agents: None }
    }

    /// With what is reviewed.
    #[must_use]
    pub fn reviewing(mut self, review: Option<&'a ReviewContext<'a>>) -> Dispatch<'a> {
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
        let (tool, ran) = match self.asked(position, call) {
            Err((tool, refusal)) => (tool, Ran::refused(refusal)),
            Ok(asked) => {
                let tool = asked.tool;
                let nested = Within::new(self, &call.id);
                let start = |start: Start<'_>| self.journal_start(turn, call, &start);
                (Some(tool), self.pass_and_run(asked, call, &nested, &start).await?)
            }
        };
        let content = self.format(tool, call, &ran);
        self.journal_end(turn, call, ran, content)
    }

    /// From the gate to the hooks after the call. `start` writes down that it begins.
    pub(super) async fn pass_and_run(
        &self,
        asked: ReadyCall<'_>,
        call: &ToolCall,
        nested: &Within<'_>,
        start: &(dyn Fn(Start<'_>) -> Result<(), Broken> + Sync),
    ) -> Result<Ran, Broken> {
        let ReadyCall { tool, mut shown } = asked;
        let subject = self.subject(tool, call, &shown);
        if !subject.is_hooked() {
            let args = arguments::own(tool, shown.clone());
            let writes = !tool.is_repeatable(&args);
            let mut _pass = self.pass(tool, tool.effect_of(&args)).await;
            if tool.only_waits(&args) {
                // What it waits for may take minutes; its turn has come, and others need not wait.
                _pass = GateGuard::Free;
            }
            start(Start { tool, writes, arguments: &shown, is_changed: false })?;
            let ran = self.execute(tool, &call.id, nested, args).await?;
            self.checkpoint(call, writes, &ran).await?;
            return Ok(ran);
        }
        // What it does in the end is known when the hooks have spoken, and they may write too.
        let _pass = self.pass(tool, tool.effect).await;
        let mut is_changed = false;
        match subject.before(&shown).await? {
            Verdict::Deny(why) => return Ok(Ran::denied(&why)),
            Verdict::Go(None) => {}
            Verdict::Go(Some(changed)) => match arguments::checked(tool, changed) {
                Ok(changed) => (shown, is_changed) = (changed, true),
                Err(refusal) => {
                    let why = format!("a rule of this run changed it so that {}", refusal.message);
                    return Ok(Ran::denied(&why));
                }
            },
        }
        let args = arguments::own(tool, shown.clone());
        start(Start { tool, writes: true, arguments: &shown, is_changed })?;
        let _running = self.context.services.checkpoints.begin();
        let mut ran = self.execute(tool, &call.id, nested, args).await?;
        ran.notes = subject.after(&shown, &ran.output).await?;
        self.checkpoint(call, true, &ran).await?;
        Ok(ran)
    }

    pub(super) fn subject<'s>(
        &'s self,
        tool: &'s ResolvedTool,
        call: &'s ToolCall,
        shown: &Value,
    ) -> Subject<'s> {
        let DispatchContext { client, progress, journal, services, .. } = self.context;
        let (hooks, failed) = (&services.rules().hooks, &services.failed_hooks);
        let mut in_place_of = Vec::new();
        if !hooks.is_empty() {
            in_place_of = self.context.tools.in_place_of(tool);
            let is_patch = patches::is_one(tool, &arguments::own(tool, shown.clone()));
            in_place_of.extend(is_patch.then_some(patches::APPLY_PATCH));
        }
        let (tool, id) = (&*tool.name, &*call.id);
        Subject { client, progress, failed, journal, hooks, tool, in_place_of, id }
    }

    /// The tool that a call means and its checked arguments; with a refusal, the tool where there is
    /// one. A `call_tool` means the tool that it names.
    pub(super) fn asked(
        &self,
        position: usize,
        call: &ToolCall,
    ) -> Result<ReadyCall<'a>, (Option<&'a ResolvedTool>, Refusal)> {
        if position >= MAX_CALLS {
            let message = format!("not run: at most {MAX_CALLS} calls of one reply are run");
            return Err((None, Refusal { fault: Fault::TooMany, message }));
        }
        let meant = self.context.tools.meant(call).map_err(unknown);
        let tool = meant.map_err(|refusal| (None, refusal))?;
        let shown =
            arguments::shown(tool, &call.payload).map_err(|refusal| (Some(tool), refusal))?;
        if !tool.is_wrapper() {
            return Ok(ReadyCall { tool, shown });
        }
        let refused = |err: ToolError| {
            (Some(tool), Refusal { fault: Fault::Arguments, message: err.to_string() })
        };
        let (name, inner) = tool_search::unwrapped(shown).map_err(refused)?;
        let tool = self.find(&name).map_err(|refusal| (None, refusal))?;
        if tool.is_wrapper() {
            return Err(refused(ToolError::tell("`call_tool` cannot call itself")));
        }
        let shown = arguments::checked(tool, inner).map_err(|refusal| (Some(tool), refusal))?;
        Ok(ReadyCall { tool, shown })
    }

    fn find(&self, name: &str) -> Result<&'a ResolvedTool, Refusal> {
        self.context.tools.find(name).map_err(unknown)
    }

    pub(super) async fn pass(&self, tool: &ResolvedTool, effect: Effect) -> GateGuard<'_> {
        let gate = &self.context.services.gate;
        match (&tool.place, effect) {
            (ToolKind::Host(host), _) if !host.takes_gate() => GateGuard::Free,
            (ToolKind::DynamicTool(extra), _) if !extra.takes_gate() => GateGuard::Free,
            (_, Effect::Reads) => GateGuard::Reading(gate.read().await),
            (_, Effect::Writes) => GateGuard::Writing(gate.write().await),
        }
    }

    fn journal_start(&self, turn: u32, call: &ToolCall, start: &Start<'_>) -> Result<(), Broken> {
        self.context.progress.happened(AgentEvent::CallStarted { call, is_nested: false });
        // Under the name that runs, where the call names it inside.
        let is_wrapped = self.find(&call.name).is_ok_and(ResolvedTool::is_wrapper);
        let name = if is_wrapped { &*start.tool.name } else { &*call.name }.to_owned();
        let arguments = start.is_changed.then(|| start.arguments.clone());
        let (id, writes) = (call.id.clone(), start.writes);
        let entry = Entry::CallStarted { turn, id, name, writes, arguments };
        // What a call does in the sandbox ends with this machine. What it does elsewhere stays, and is not done twice.
        let is_elsewhere = writes && matches!(start.tool.place, ToolKind::DynamicTool(_));
        let append = if is_elsewhere { Journal::append_durably } else { Journal::append };
        append(self.context.journal, &entry).map_err(Broken::Journal).map(drop)
    }

    pub(super) async fn execute(
        &self,
        tool: &ResolvedTool,
        id: &str,
        nested: &Within<'_>,
        args: Value,
    ) -> Result<Ran, Broken> {
        let clock = self.context.clock;
        let started = clock.instant();
        let is_patch = patches::is_one(tool, &args);
        let _running =
            (!tool.is_repeatable(&args)).then(|| self.context.services.checkpoints.begin());
        let output = match &tool.place {
            ToolKind::Guest => self.in_guest(tool, args).await,
            ToolKind::Host(host) => host.call(&self.context(id, nested), args).await,
            ToolKind::DynamicTool(extra) => {
                match extra.call(&self.context(id, nested), args).await {
                    Ok(output) => {
                        Ok(long_output::saved(&self.context, self.tokens(tool), output).await)
                    }
                    told @ Err(_) => told,
                }
            }
        };
        let elapsed = clock.instant().saturating_duration_since(started);
        match output {
            Ok(output) => {
                if let Some(review) = self.review.filter(|_| output.command.is_some()) {
                    review.mark_run();
                }
                let fault = is_patch.then(|| patches::fault(&output)).flatten();
                Ok(Ran::of(Ok(output), fault, elapsed))
            }
            Err(ToolError::Tell(message)) => {
                let fault = fault::told(tool, &message);
                Ok(Ran::of(Err(message), fault, elapsed))
            }
            Err(err @ ToolError::Broken(_)) => Err(err.into()),
        }
    }

    fn context<'c>(&'c self, id: &'c str, nested: &'c Within<'c>) -> HostCall<'c> {
        let DispatchContext { journal, progress, client, limits, services, .. } = self.context;
        HostCall {
            plan: self.plan,
            findings: self.findings,
            journal,
            progress,
            client,
            limits,
            review: self.review,
            services,
            nested,
            agents: self.agents,
            id,
            is_nested: nested.is_inside(),
        }
    }

    async fn in_guest(
        &self,
        tool: &ResolvedTool,
        mut args: Value,
    ) -> Result<ToolOutput, ToolError> {
        let limit = self.context.limits.command_timeout;
        patches::rule(self.context.services.rules(), tool, &mut args);
        command_timeout::bound(tool, &mut args, limit);
        let cap = truncate::output_cap(self.tokens(tool)).min(MAX_OUTPUT_CAP);
        self.context.client.tool(&tool.tool, args, cap, limit + GRACE).await
    }

    /// The output as the model reads it.
    fn format(&self, tool: Option<&ResolvedTool>, call: &ToolCall, ran: &Ran) -> Vec<Content> {
        let DispatchContext { tools, model, limits, journal, .. } = self.context;
        let redact = |text: &str| journal.redact(text);
        let tokens = model.output_tokens;
        let (tool, output) = match (&ran.output, tool) {
            (Ok(output), Some(tool)) => (tool, output),
            (Ok(ToolOutput { text, .. }) | Err(text), _) => {
                let text = redact(&truncate::text(text, tokens).text);
                return vec![Content::text(format::with_notes(call, text, &ran.notes, &redact))];
            }
        };
        let tokens = self.tokens(tool);
        let longest = limits.command_timeout;
        let style = Style { profile: tools.profile(), tokens, longest, redact: &redact };
        let text = style.text(tool, call, output, ran.took);
        let mut text = format::with_notes(call, text, &ran.notes, &redact);
        if !output.images.is_empty() && !model.images {
            text.push_str("\n(only described: this model takes no pictures)");
        }
        let images = output.images.iter().filter(|_| model.images);
        let images = images.map(|image| Content::Image {
            media_type: image.media_type.clone(),
            data: image.data.clone(),
        });
        let parts = style.parts(&output.parts, model.images);
        std::iter::once(Content::text(text)).chain(parts).chain(images).collect()
    }

    /// Most tokens of an output of a tool.
    fn tokens(&self, tool: &ResolvedTool) -> u64 {
        let DispatchContext { model, services, .. } = self.context;
        // A list of tools is bounded where it is made, and useless when it is cut.
        let is_whole =
            tool.is_ours(&alias::TOOL_SEARCH) || services.rules().untruncated.hold_for(&tool.name);
        if is_whole { UNTRUNCATED } else { model.output_tokens }
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
            ran: !success && ran.output.as_ref().is_ok_and(ToolOutput::is_of_command),
            goes_on: ran.output.as_ref().is_ok_and(ToolOutput::goes_on),
            form: call.output_form(),
        };
        let duration_ms = u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX);
        let command = ran.output.as_ref().ok().and_then(|output| output.command.as_ref());
        // One that still runs has none.
        let command = command.filter(|command| command.session.is_none());
        let exit_code = command.map(|command| command.exit_code);
        let Ran { fault, denied, .. } = ran;
        let entry = Entry::CallEnded { turn, output, duration_ms, fault, exit_code, denied };
        self.context.journal.append(&entry).map_err(Broken::Journal)?;
        if let Entry::CallEnded { output, .. } = &entry {
            let (output, is_nested, took) = (output.content.as_slice(), false, ran.took);
            let ended = AgentEvent::CallEnded { call, is_nested, success, took, output };
            self.context.progress.happened(ended);
        }
        let changed = ran.output.map(|output| output.changed).unwrap_or_default();
        Ok(Done { entry, changed })
    }
}

impl Ran {
    fn of(output: Result<ToolOutput, String>, fault: Option<Fault>, took: Duration) -> Ran {
        Ran { output, fault, took, denied: false, notes: Vec::new() }
    }

    fn refused(refusal: Refusal) -> Ran {
        Ran::of(Err(refusal.message), Some(refusal.fault), Duration::ZERO)
    }

    fn denied(why: &str) -> Ran {
        let message = format!("not run, by a rule of this run: {why}");
        Ran { denied: true, ..Ran::of(Err(message), None, Duration::ZERO) }
    }
}

impl From<ToolError> for Broken {
    fn from(err: ToolError) -> Broken {
        Broken::Sandbox(err.to_string())
    }
}

fn unknown(err: ToolError) -> Refusal {
    let (ToolError::Tell(message) | ToolError::Broken(message)) = err;
    Refusal { fault: Fault::UnknownTool, message }
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
