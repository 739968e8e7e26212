//! The spans of one run, from the lines of its journal:
//!
//! ```text
//! run issue
//! ├─ check base
//! ├─ invoke_agent patchwright
//! │  ├─ turn 1
//! │  │  ├─ chat MODEL
//! │  │  └─ execute_tool TOOL
//! │  │     └─ invoke_agent KIND      (a sub-agent: its own turns)
//! │  └─ check loop
//! └─ publish pull_request
//! ```
//!
//! A request begins where what came before it in its conversation ended; its span has the retries in it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanBuilder, SpanId, SpanKind, Status, TraceContextExt, TraceId, Tracer,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::lane::{Lane, RequestModel};
use crate::{Telemetry, names};
use patchwright_base::clock::Clock;
use patchwright_base::text;
use patchwright_journal::{Entry, Observer, WrittenLine};
use patchwright_provider::catalogue::Model;
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::task::{CampaignRequest, Task, TaskKind};

/// The name of the run's own agent.
const AGENT: &str = "patchwright";

/// Why something has no end of its own.
const INTERRUPTED: &str = "interrupted";

/// The most of one attribute, in characters.
const MAX_ATTRIBUTE: usize = 300;

thread_local! {
    /// The trace of the span that this thread is about to begin.
    static NEXT_TRACE: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// Random ids, but for the trace of a run, which follows from the run's: what a killed run had sent and what the
/// resumed one sends are one trace.
#[derive(Debug, Default)]
pub(crate) struct RunIds(RandomIdGenerator);

impl IdGenerator for RunIds {
    fn new_trace_id(&self) -> TraceId {
        NEXT_TRACE.take().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}

/// Watches the journal of one run.
pub(crate) struct RunSpans {
    telemetry: &'static Telemetry,
    clock: Clock,
    /// This is about one of several attempts of a run.
    attempt: Option<u32>,
    state: Mutex<State>,
}

struct State {
    root: Option<Root>,
    /// The lanes of the run's own agent, and of its sub-agents by their ids.
    lanes: HashMap<Option<String>, Lane>,
    effects: HashMap<(String, String), Context>,
    model: RequestModel,
    last: SystemTime,
}

/// The span of the whole run.
struct Root {
    run: String,
    span: Context,
    began: SystemTime,
    kind: &'static str,
}

impl RunSpans {
    pub(crate) fn new(
        telemetry: &'static Telemetry,
        model: &Model,
        clock: Clock,
        attempt: Option<u32>,
    ) -> RunSpans {
        let state = State {
            root: None,
            lanes: HashMap::new(),
            effects: HashMap::new(),
            model: RequestModel::of(model),
            last: clock.now().into(),
        };
        RunSpans { telemetry, clock, attempt, state: Mutex::new(state) }
    }
}

impl Observer for RunSpans {
    fn wrote(&self, written: &WrittenLine<'_>) {
        let mut state = self.state.lock();
        let at = SystemTime::from(written.at);
        state.last = at;
        match (written.agent, written.entry) {
            (None, Entry::RunStarted { run, task, .. }) => {
                self.begin(&mut state, at, run, task, Start::Fresh);
            }
            (None, entry) => self.of_run(&mut state, at, entry),
            (Some(agent), entry) => self.of_lane(&mut state, at, Some(agent), entry),
        }
    }

    fn resumes(&self, run: &str, task: &Task) {
        let now = self.clock.now().into();
        self.begin(&mut self.state.lock(), now, run, task, Start::Resumed);
    }
}

/// How a process comes to a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Fresh,
    Resumed,
}

impl RunSpans {
    fn begin(&self, state: &mut State, at: SystemTime, run: &str, task: &Task, start: Start) {
        let kind = kind(&task.kind);
        let mut of =
            vec![KeyValue::new(names::RUN, run.to_owned()), KeyValue::new(names::KIND, kind)];
        of.extend(self.about(&task.kind));
        if start == Start::Resumed {
            of.push(KeyValue::new(names::RESUMED, true));
        }
        let name = match self.attempt {
            None => format!("run {kind}"),
            Some(number) => format!("attempt {number}"),
        };
        of.extend(self.attempt.and_then(|number| int(names::ATTEMPT, number.into())));
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            .with_start_time(at)
            .with_attributes(of);
        let of_run = self.attempt.and_then(|_| self.telemetry.runs.lock().get(run).cloned());
        let parent = of_run.or_else(|| self.telemetry.parent.clone()).unwrap_or_else(|| {
            let digest = Sha256::digest(run.as_bytes());
            let mut id = [0; 16];
            id.copy_from_slice(&digest[..16]);
            NEXT_TRACE.set(Some(TraceId::from_bytes(id)));
            Context::new()
        });
        let span = self.span(builder, &parent);
        NEXT_TRACE.set(None);
        if self.attempt.is_none() {
            self.telemetry.runs.lock().insert(run.to_owned(), span.clone());
            self.telemetry.begun.fetch_add(1, Ordering::Relaxed);
        }
        state.root = Some(Root { run: run.to_owned(), span, began: at, kind });
    }

    /// The span of the run has ended, and nothing new belongs below it.
    fn forget(&self, root: &Root) {
        if self.attempt.is_none() {
            self.telemetry.runs.lock().remove(&root.run);
        }
    }

    /// What the run is about, without words of people.
    fn about(&self, task: &TaskKind) -> Vec<KeyValue> {
        let (repository, number) = match task {
            TaskKind::Issue(it) => (&it.repository, Some(it.number)),
            TaskKind::Review(it) => (&it.repository, Some(it.number)),
            TaskKind::Respond(it) => (&it.repository, Some(it.number)),
            TaskKind::Triage(it) => (&it.repository, Some(it.number)),
            TaskKind::Campaign(it) => (&it.repository, None),
            TaskKind::Prompt(it) => (&it.repository, None),
            TaskKind::Learn(it) => (&it.repository, None),
            TaskKind::Exec(_) | TaskKind::Measure(_) => return Vec::new(),
        };
        let mut about = vec![self.text(names::REPOSITORY, &repository.to_string())];
        about.extend(number.and_then(|it| int(names::NUMBER, it)));
        if let TaskKind::Campaign(CampaignRequest { campaign, .. }) = task {
            about.push(self.text(names::CAMPAIGN, campaign));
        }
        about
    }

    fn of_run(&self, state: &mut State, at: SystemTime, entry: &Entry) {
        match entry {
            Entry::Checked { when, run, reused: false } => self.checked(state, at, when, run),
            Entry::EffectIntended { effect, key, .. } => {
                let builder = SpanBuilder::from_name(format!("publish {}", text::cut(effect, 60)))
                    .with_kind(SpanKind::Client)
                    .with_start_time(at)
                    .with_attributes([self.text(names::EFFECT, effect)]);
                let span = self.span(builder, &state.parent());
                state.effects.insert((effect.clone(), key.clone()), span);
            }
            Entry::EffectDone { effect, key, .. } => {
                if let Some(span) = state.effects.remove(&(effect.clone(), key.clone())) {
                    span.span().end_with_timestamp(at);
                }
            }
            Entry::RunEnded { outcome } => self.ended(state, at, outcome),
            entry => self.of_lane(state, at, None, entry),
        }
    }

    /// A line about one agent.
    fn of_lane(&self, state: &mut State, at: SystemTime, agent: Option<&str>, entry: &Entry) {
        let id = agent.map(str::to_owned);
        if !state.lanes.contains_key(&id) {
            let Some(lane) = self.lane(state, at, agent, entry) else { return };
            state.lanes.insert(id.clone(), lane);
        }
        if let Some(lane) = state.lanes.get_mut(&id) {
            lane.saw(self, at, entry);
        }
    }

    /// The lane that begins with this line; `None` for a line that begins none.
    fn lane(
        &self,
        state: &State,
        at: SystemTime,
        agent: Option<&str>,
        entry: &Entry,
    ) -> Option<Lane> {
        let Some(agent) = agent else {
            let begins = matches!(
                entry,
                Entry::Prompted { .. } | Entry::Replied { .. } | Entry::CallStarted { .. }
            );
            let named = (AGENT, "0", state.model.clone());
            return begins.then(|| Lane::new(self, at, &state.parent(), named));
        };
        let (name, model, call) = match entry {
            Entry::Spawned { call, kind, model, .. } => {
                (kind.as_str(), state.model.named(model), Some(call.as_str()))
            }
            _ => ("sub-agent", state.model.clone(), None),
        };
        let by = call.and_then(|call| state.lanes.values().find_map(|lane| lane.call(call)));
        let parent = by.unwrap_or_else(|| state.parent());
        Some(Lane::new(self, at, &parent, (name, agent, model)))
    }

    fn checked(&self, state: &State, at: SystemTime, when: &str, run: &CheckRun) {
        let began = at.checked_sub(Duration::from_millis(run.duration_ms)).unwrap_or(at);
        let mut of = vec![self.text(names::CHECK, &run.command), self.text(names::CHECKED, when)];
        of.extend(run.exit_code.map(|code| KeyValue::new(names::EXIT_CODE, i64::from(code))));
        let builder = SpanBuilder::from_name(format!("check {}", text::cut(when, 60)))
            .with_kind(SpanKind::Internal)
            .with_start_time(began)
            .with_attributes(of);
        let by = state.lanes.get(&None).filter(|_| when == "loop").map(|lane| lane.agent.clone());
        let span = self.span(builder, &by.unwrap_or_else(|| state.parent()));
        let span = span.span();
        // A failing check is a finding and not an error of the run; one that cannot be run is one.
        if run.exit_code.is_none() || run.timed_out {
            let why = if run.timed_out { "timeout" } else { "not_run" };
            span.set_attribute(KeyValue::new(names::ERROR, why));
            span.set_status(Status::error(why));
        }
        span.end_with_timestamp(at);
    }

    fn ended(&self, state: &mut State, at: SystemTime, outcome: &Outcome) {
        state.close(at, None);
        let Some(root) = state.root.take() else { return };
        self.forget(&root);
        let span = root.span.span();
        let conclusion = outcome.conclusion.word();
        span.set_attribute(KeyValue::new(names::CONCLUSION, conclusion));
        let spending = &outcome.spending;
        span.set_attribute(KeyValue::new(names::COST, spending.cost_usd));
        span.set_attribute(KeyValue::new(names::TURNS, i64::from(spending.turns)));
        for (name, tokens) in [
            (names::INPUT_TOKENS, spending.usage.input),
            (names::OUTPUT_TOKENS, spending.usage.output),
            (names::CACHE_READ, spending.usage.cached_input),
        ] {
            if let Some(attribute) = int(name, tokens) {
                span.set_attribute(attribute);
            }
        }
        if matches!(
            outcome.conclusion,
            Conclusion::Refused
                | Conclusion::Interrupted
                | Conclusion::Budget
                | Conclusion::Provider
                | Conclusion::Sandbox
        ) {
            span.set_attribute(KeyValue::new(names::ERROR, conclusion));
            span.set_status(Status::error(conclusion));
        }
        span.end_with_timestamp(at);
        if let (Some((_, instruments)), None) = (&self.telemetry.metrics, self.attempt) {
            let took = at.duration_since(root.began).unwrap_or_default();
            instruments.ran(took, root.kind, conclusion);
        }
    }

    /// Begins a span. Without traces it is one that nobody sees.
    pub(crate) fn span(&self, builder: SpanBuilder, parent: &Context) -> Context {
        match &self.telemetry.traces {
            Some((_, tracer)) => {
                Context::new().with_span(tracer.build_with_context(builder, parent))
            }
            None => Context::new(),
        }
    }

    pub(crate) fn telemetry(&self) -> &'static Telemetry {
        self.telemetry
    }

    /// An attribute of one line, without secrets.
    pub(crate) fn text(&self, name: &'static str, value: &str) -> KeyValue {
        let value = self.telemetry.redactor.redact(value);
        KeyValue::new(name, text::cut(&text::line(&value), MAX_ATTRIBUTE))
    }
}

impl Drop for RunSpans {
    /// Without a last line the run was interrupted, and is resumed some day.
    fn drop(&mut self) {
        let (at, root) = {
            let state = self.state.get_mut();
            let at = SystemTime::from(self.clock.now()).max(state.last);
            state.close(at, Some(INTERRUPTED));
            (at, state.root.take())
        };
        if let Some(root) = root {
            self.forget(&root);
            let why = INTERRUPTED;
            let span = root.span.span();
            span.set_attribute(KeyValue::new(names::ERROR, why));
            span.set_status(Status::error(why));
            span.end_with_timestamp(at);
        }
    }
}

impl State {
    /// The parent of what belongs to no agent.
    fn parent(&self) -> Context {
        self.root.as_ref().map(|root| root.span.clone()).unwrap_or_default()
    }

    /// Ends what is open, `failed` as one that failed for this.
    fn close(&mut self, at: SystemTime, failed: Option<&'static str>) {
        for (_, mut lane) in self.lanes.drain() {
            lane.close(at, failed);
        }
        for (_, span) in self.effects.drain() {
            let span = span.span();
            span.set_status(Status::error("no answer"));
            span.end_with_timestamp(at);
        }
    }
}

fn kind(task: &TaskKind) -> &'static str {
    match task {
        TaskKind::Issue(_) => "issue",
        TaskKind::Review(_) => "review",
        TaskKind::Respond(_) => "respond",
        TaskKind::Campaign(_) => "campaign",
        TaskKind::Triage(_) => "triage",
        TaskKind::Exec(_) => "exec",
        TaskKind::Prompt(_) => "prompt",
        TaskKind::Learn(_) => "learn",
        TaskKind::Measure(_) => "measure",
    }
}

/// A number as OTLP has it; none where it is too large.
pub(crate) fn int(name: &'static str, value: u64) -> Option<KeyValue> {
    i64::try_from(value).ok().map(|value| KeyValue::new(name, value))
}
