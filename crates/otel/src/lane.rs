//! The spans of one agent of a run: its turns, the requests to its model, its tool calls.

use std::collections::HashMap;
use std::time::SystemTime;

use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};

use crate::spans::{RunSpans, int};
use crate::{content, names};
use patchwright_base::text;
use patchwright_journal::Entry;
use patchwright_provider::Reply;
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::{CallOutput, Item, StopReason, Usage};

/// What requests are sent to.
#[derive(Clone, Debug)]
pub(crate) struct RequestModel {
    /// In the words of the conventions.
    provider: String,
    slug: String,
}

impl RequestModel {
    pub(crate) fn of(model: &Model) -> RequestModel {
        let provider = names::provider(&model.provider).to_owned();
        RequestModel { provider, slug: model.slug.clone() }
    }

    /// Another model of the same provider.
    pub(crate) fn named(&self, slug: &str) -> RequestModel {
        RequestModel { slug: slug.to_owned(), ..self.clone() }
    }

    /// Another model, as an operator writes it (`PROVIDER/NAME`) and as it is sent.
    fn switched(&self, name: &str, slug: &str) -> RequestModel {
        let given = name.split_once('/').map(|(provider, _)| names::provider(provider).to_owned());
        let provider = given.unwrap_or_else(|| self.provider.clone());
        RequestModel { provider, slug: slug.to_owned() }
    }
}

pub(crate) struct Lane {
    pub agent: Context,
    model: RequestModel,
    turn: Option<Context>,
    /// The end of what the next request waits for.
    since: SystemTime,
    calls: HashMap<String, OpenCall>,
    /// What the calls of the last reply were written with, by their ids, where content is wanted.
    written: HashMap<String, String>,
}

struct OpenCall {
    span: Context,
    name: String,
    began: SystemTime,
    nested: HashMap<u32, Context>,
}

impl Lane {
    /// `named` is the agent's name and id, and the model that it asks.
    pub(crate) fn new(
        run: &RunSpans,
        at: SystemTime,
        parent: &Context,
        named: (&str, &str, RequestModel),
    ) -> Lane {
        let (name, id, model) = named;
        let builder = SpanBuilder::from_name(format!("invoke_agent {}", text::cut(name, 60)))
            .with_kind(SpanKind::Internal)
            .with_start_time(at)
            .with_attributes([
                KeyValue::new(names::OPERATION, "invoke_agent"),
                run.text(names::AGENT_NAME, name),
                run.text(names::AGENT_ID, id),
                KeyValue::new(names::PROVIDER, model.provider.clone()),
                run.text(names::REQUEST_MODEL, &model.slug),
            ]);
        let agent = run.span(builder, parent);
        Lane { agent, model, turn: None, since: at, calls: HashMap::new(), written: HashMap::new() }
    }

    /// The span of an open call.
    pub(crate) fn call(&self, id: &str) -> Option<Context> {
        self.calls.get(id).map(|call| call.span.clone())
    }

    pub(crate) fn saw(&mut self, run: &RunSpans, at: SystemTime, entry: &Entry) {
        match entry {
            Entry::Replied { turn, reply, cost_usd } => {
                self.begin_turn(run, *turn);
                self.replied(run, at, reply, *cost_usd);
            }
            Entry::Lost { usage, cost_usd } => self.lost(run, at, *usage, *cost_usd),
            Entry::Compacted { replies, cost_usd, .. } => {
                self.compacted(run, at, replies, *cost_usd);
            }
            Entry::Switched { name, to, .. } => self.model = self.model.switched(name, to),
            Entry::CallStarted { id, name, arguments, .. } => {
                self.call_started(run, at, (id, name), arguments.as_ref());
                return;
            }
            Entry::CallEnded { output, exit_code, .. } => {
                self.call_ended(run, at, output, *exit_code);
            }
            Entry::CallDropped { output, .. } => self.call_ended(run, at, output, None),
            Entry::NestedStarted { outer, number, name, by, .. } => {
                self.nested_started(run, at, outer, (*number, *by), name);
                return;
            }
            Entry::NestedEnded { outer, number, success, .. } => {
                self.nested_ended(at, outer, *number, *success);
                return;
            }
            Entry::Stopped { reason, .. } => {
                self.agent.span().set_attribute(run.text(names::STOPPED, reason));
                self.close(at, None);
            }
            Entry::Closed => self.close(at, None),
            Entry::Prompted { .. }
            | Entry::Added { .. }
            | Entry::Warned { .. }
            | Entry::Told { .. }
            | Entry::Restored { .. } => {}
            _ => return,
        }
        self.since = at;
    }

    fn begin_turn(&mut self, run: &RunSpans, turn: u32) {
        self.end_turn(self.since);
        let builder = SpanBuilder::from_name(format!("turn {turn}"))
            .with_kind(SpanKind::Internal)
            .with_start_time(self.since)
            .with_attributes([KeyValue::new(names::TURN, i64::from(turn))]);
        self.turn = Some(run.span(builder, &self.agent));
    }

    fn end_turn(&mut self, at: SystemTime) {
        if let Some(turn) = self.turn.take() {
            turn.span().end_with_timestamp(at);
        }
    }

    fn parent(&self) -> &Context {
        self.turn.as_ref().unwrap_or(&self.agent)
    }

    fn replied(&mut self, run: &RunSpans, at: SystemTime, reply: &Reply, cost_usd: f64) {
        let mut of = self.request(run);
        of.push(run.text(names::RESPONSE_MODEL, &reply.model));
        of.extend(reply.id.as_ref().map(|id| run.text(names::RESPONSE_ID, id)));
        let reason = Array::String(vec![StringValue::from(finish_reason(reply))]);
        of.push(KeyValue::new(names::FINISH_REASONS, Value::Array(reason)));
        of.extend(usage(reply.usage));
        of.push(KeyValue::new(names::COST, cost_usd));
        if run.telemetry().captures_content {
            of.push(content::reply(run, reply, finish_reason(reply)));
            let calls = reply.items.iter().filter_map(|item| match item {
                Item::Call(call) => Some((call.id.clone(), call.payload.as_str().to_owned())),
                _ => None,
            });
            self.written = calls.collect();
        }
        self.chat(run, at, of).span().end_with_timestamp(at);
        self.measure(run, at, reply.usage, cost_usd);
    }

    fn lost(&mut self, run: &RunSpans, at: SystemTime, lost: Usage, cost_usd: f64) {
        let mut of = self.request(run);
        of.extend(usage(lost));
        of.push(KeyValue::new(names::COST, cost_usd));
        of.push(KeyValue::new(names::ERROR, "no_reply"));
        let chat = self.chat(run, at, of);
        chat.span().set_status(Status::error("no reply"));
        chat.span().end_with_timestamp(at);
        self.measure(run, at, lost, cost_usd);
    }

    fn compacted(
        &mut self,
        run: &RunSpans,
        at: SystemTime,
        replies: &[Option<Reply>],
        cost_usd: f64,
    ) {
        let mut all = Usage::default();
        for reply in replies.iter().flatten() {
            all += reply.usage;
        }
        let mut of = self.request(run);
        of.extend(usage(all));
        of.push(KeyValue::new(names::COST, cost_usd));
        of.push(KeyValue::new(names::COMPACTION, true));
        self.chat(run, at, of).span().end_with_timestamp(at);
        self.measure(run, at, all, cost_usd);
    }

    /// What every request says of itself.
    fn request(&self, run: &RunSpans) -> Vec<KeyValue> {
        vec![
            KeyValue::new(names::OPERATION, "chat"),
            KeyValue::new(names::PROVIDER, self.model.provider.clone()),
            run.text(names::REQUEST_MODEL, &self.model.slug),
        ]
    }

    fn chat(&self, run: &RunSpans, at: SystemTime, of: Vec<KeyValue>) -> Context {
        let builder = SpanBuilder::from_name(format!("chat {}", text::cut(&self.model.slug, 100)))
            .with_kind(SpanKind::Client)
            .with_start_time(self.since.min(at))
            .with_attributes(of);
        run.span(builder, self.parent())
    }

    fn measure(&self, run: &RunSpans, at: SystemTime, usage: Usage, cost_usd: f64) {
        if let Some((_, instruments)) = &run.telemetry().metrics {
            let took = at.duration_since(self.since).unwrap_or_default();
            instruments.replied(usage, took, cost_usd, &self.request(run));
        }
    }

    fn call_started(
        &mut self,
        run: &RunSpans,
        at: SystemTime,
        (id, name): (&str, &str),
        arguments: Option<&serde_json::Value>,
    ) {
        let mut of = tool(run, name);
        of.push(run.text(names::TOOL_CALL, id));
        // The journal repeats them only where a hook changed what the model wrote.
        let changed = arguments.map(ToString::to_string);
        let arguments = changed.or_else(|| self.written.remove(id));
        if let Some(arguments) = arguments.filter(|_| run.telemetry().captures_content) {
            of.push(content::text(run, names::TOOL_ARGUMENTS, &arguments));
        }
        let builder = SpanBuilder::from_name(format!("execute_tool {}", text::cut(name, 100)))
            .with_kind(SpanKind::Internal)
            .with_start_time(at)
            .with_attributes(of);
        let span = run.span(builder, self.parent());
        let call = OpenCall { span, name: name.to_owned(), began: at, nested: HashMap::new() };
        self.calls.insert(id.to_owned(), call);
    }

    fn call_ended(
        &mut self,
        run: &RunSpans,
        at: SystemTime,
        output: &CallOutput,
        exit_code: Option<i32>,
    ) {
        // One that could not even be run has no beginning.
        let Some(call) = self.calls.remove(&output.id) else { return };
        for (_, nested) in call.nested {
            nested.span().end_with_timestamp(at);
        }
        let span = call.span.span();
        if let Some(code) = exit_code {
            span.set_attribute(KeyValue::new(names::EXIT_CODE, i64::from(code)));
        }
        if run.telemetry().captures_content {
            let said = patchwright_provider::item::Content::texts(&output.content);
            span.set_attribute(content::text(run, names::TOOL_RESULT, &said));
        }
        if !output.success {
            span.set_attribute(KeyValue::new(names::ERROR, "tool_error"));
            span.set_status(Status::error("the call failed"));
        }
        span.end_with_timestamp(at);
        if let Some((_, instruments)) = &run.telemetry().metrics {
            let took = at.duration_since(call.began).unwrap_or_default();
            instruments.called(took, run.text(names::TOOL_NAME, &call.name), output.success);
        }
    }

    fn nested_started(
        &mut self,
        run: &RunSpans,
        at: SystemTime,
        outer: &str,
        (number, by): (u32, Option<u32>),
        name: &str,
    ) {
        let Some(call) = self.calls.get_mut(outer) else { return };
        let parent = by.and_then(|by| call.nested.get(&by)).unwrap_or(&call.span);
        let builder = SpanBuilder::from_name(format!("execute_tool {}", text::cut(name, 100)))
            .with_kind(SpanKind::Internal)
            .with_start_time(at)
            .with_attributes(tool(run, name));
        let span = run.span(builder, parent);
        call.nested.insert(number, span);
    }

    fn nested_ended(&mut self, at: SystemTime, outer: &str, number: u32, success: bool) {
        let call = self.calls.get_mut(outer);
        let Some(nested) = call.and_then(|call| call.nested.remove(&number)) else { return };
        if !success {
            nested.span().set_attribute(KeyValue::new(names::ERROR, "tool_error"));
            nested.span().set_status(Status::error("the call failed"));
        }
        nested.span().end_with_timestamp(at);
    }

    /// Ends what is open, `failed` as something that failed for this.
    pub(crate) fn close(&mut self, at: SystemTime, failed: Option<&'static str>) {
        for (_, call) in self.calls.drain() {
            for (_, nested) in call.nested {
                nested.span().end_with_timestamp(at);
            }
            call.span.span().set_status(Status::error(failed.unwrap_or("no result")));
            call.span.span().end_with_timestamp(at);
        }
        self.end_turn(at);
        let agent = self.agent.span();
        if let Some(why) = failed {
            agent.set_attribute(KeyValue::new(names::ERROR, why));
            agent.set_status(Status::error(why));
        }
        agent.end_with_timestamp(at);
    }
}

fn tool(run: &RunSpans, name: &str) -> Vec<KeyValue> {
    vec![KeyValue::new(names::OPERATION, "execute_tool"), run.text(names::TOOL_NAME, name)]
}

fn usage(usage: Usage) -> impl Iterator<Item = KeyValue> {
    [
        (names::INPUT_TOKENS, usage.input),
        (names::OUTPUT_TOKENS, usage.output),
        (names::CACHE_READ, usage.cached_input),
        (names::CACHE_WRITE, usage.cache_write),
        (names::REASONING, usage.reasoning),
    ]
    .into_iter()
    .filter_map(|(name, tokens)| int(name, tokens))
}

/// Why the model came to its end, in the conventions' words.
fn finish_reason(reply: &Reply) -> &'static str {
    use patchwright_provider::item::Item;
    let calls = reply.items.iter().any(|item| matches!(item, Item::Call(_)));
    match reply.stop {
        StopReason::EndTurn if calls => "tool_calls",
        StopReason::EndTurn => "stop",
        StopReason::MaxOutput => "length",
        StopReason::ContentFilter | StopReason::Refusal => "content_filter",
        StopReason::Pause => "pause",
        StopReason::MalformedCall => "error",
    }
}
