//! The event stream of `POST /v1/responses`, and the same answer as one document.
//!
//! Items are taken from `response.output_item.done` only: the copy in `output_item.added` may lack
//! the end of a call's arguments or of the encrypted reasoning. Deltas are for progress. A reply
//! exists when `response.completed` or `response.incomplete` has arrived, never before.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::provider::item::{
    Content, Item, Message, Native, Payload, Reasoning, Role, StopReason, ToolCall, Usage, Wire,
};
use crate::provider::sse::Event;
use crate::provider::wire::MAX_ITEMS;
use crate::provider::wire::fault::{Fault, FaultKind, Reported};
use crate::provider::{OnProgress, Progress, Reply};

/// Collects the items of one streamed answer.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Finished items by `output_index`.
    done: BTreeMap<u64, Value>,
    /// Calls that began; one that is not in `done` at the end was lost on the way.
    begun_calls: BTreeSet<u64>,
    outcome: Option<Terminal>,
}

/// What every event may carry. The rest is for other clients.
#[derive(Deserialize)]
struct Envelope<'a> {
    r#type: Option<String>,
    output_index: Option<u64>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The response object of a final event.
#[derive(Debug, Deserialize)]
struct Terminal {
    id: Option<String>,
    #[serde(default)]
    status: String,
    model: Option<String>,
    #[serde(default)]
    output: Option<Vec<Value>>,
    usage: Option<RawUsage>,
    error: Option<ErrorObject>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Debug, Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

/// An error object, in any of the places where one is found.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorObject {
    code: Option<Value>,
    r#type: Option<String>,
    message: Option<String>,
}

impl ErrorObject {
    fn fault(&self) -> Fault {
        let code = match &self.code {
            Some(Value::String(code)) => code.clone(),
            Some(Value::Number(code)) => code.to_string(),
            _ => String::new(),
        };
        let kind = self.r#type.as_deref().unwrap_or_default();
        // The flat form has the event's own type here.
        let kind = if kind == "error" { "" } else { kind };
        let message = self.message.as_deref().unwrap_or_default();
        Reported { status: None, code: &code, kind, message }.fault()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage {
    input_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl Decoder {
    /// Takes one event. Unknown ones are ignored, as the API asks for.
    pub fn event(&mut self, event: &Event, progress: OnProgress<'_>) -> Result<(), Fault> {
        if self.outcome.is_some() || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let envelope: Envelope<'_> = parse(&event.data, "an event")?;
        let kind = envelope.r#type.as_deref().unwrap_or(&event.name);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                tell(envelope.delta, |text| progress(Progress::Text(text)));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                tell(envelope.delta, |text| progress(Progress::Reasoning(text)));
            }
            "response.output_item.added" => {
                if let (Some(index), Some(item)) = (envelope.output_index, envelope.item)
                    && is_call(&parse::<Value>(item.get(), "an item")?)
                {
                    self.begun_calls.insert(index);
                    self.check_count()?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = envelope.item {
                    let next = self.done.last_key_value().map_or(0, |(index, _)| index + 1);
                    let index = envelope.output_index.unwrap_or(next);
                    self.done.insert(index, parse(item.get(), "an item")?);
                    self.check_count()?;
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let response = envelope.response.map_or("{}", RawValue::get);
                let mut terminal: Terminal = parse(response, "the final event")?;
                if terminal.status.is_empty() {
                    kind.trim_start_matches("response.").clone_into(&mut terminal.status);
                }
                self.outcome = Some(terminal);
            }
            "error" => return Err(error_event(&event.data, envelope.error)),
            // An error object without a type: how some gateways end a stream.
            "" => {
                if let Some(error) = envelope.error {
                    return Err(error_event(&event.data, Some(error)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// True when the final event has arrived.
    pub fn is_complete(&self) -> bool {
        self.outcome.is_some()
    }

    /// The reply, or why there is none.
    pub fn finish(self) -> Result<Reply, Fault> {
        let Some(terminal) = self.outcome else {
            return Err(Fault::new(
                FaultKind::Cut,
                "the stream ended before its final event (`response.completed`)",
            ));
        };
        reply(terminal, self.done, &self.begun_calls)
    }

    fn check_count(&self) -> Result<(), Fault> {
        if self.done.len().max(self.begun_calls.len()) > MAX_ITEMS {
            return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
        }
        Ok(())
    }
}

/// Decodes a whole response object, or an error object, that came without a stream.
pub fn decode_whole(body: &str) -> Result<Reply, Fault> {
    #[derive(Deserialize)]
    struct Whole {
        object: Option<String>,
        error: Option<ErrorObject>,
    }
    let whole: Whole = serde_json::from_str(body)
        .map_err(|_| Fault::malformed("a JSON document that is no response"))?;
    match (whole.object.as_deref(), whole.error) {
        (_, Some(error)) => Err(error.fault()),
        (Some("response"), None) => {
            reply(parse(body, "the response")?, BTreeMap::new(), &BTreeSet::new())
        }
        _ => Err(Fault::malformed("a JSON document that is no response")),
    }
}

/// JSON that does not parse inside a stream means that the transport garbled it: worth another try.
fn parse<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|err| {
        Fault::new(FaultKind::Cut, format!("{what} is not the JSON it should be: {err}"))
    })
}

fn tell(delta: Option<&RawValue>, tell: impl FnOnce(&str)) {
    if let Some(text) = delta.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()) {
        tell(&text);
    }
}

/// An `error` event: nested under `error`, or flat.
fn error_event(data: &str, nested: Option<&RawValue>) -> Fault {
    let text = nested.map_or(data, RawValue::get);
    serde_json::from_str::<ErrorObject>(text).unwrap_or_default().fault()
}

fn reply(
    mut terminal: Terminal,
    mut done: BTreeMap<u64, Value>,
    begun_calls: &BTreeSet<u64>,
) -> Result<Reply, Fault> {
    let stop = match terminal.status.as_str() {
        "completed" => StopReason::EndTurn,
        "incomplete" => match terminal.incomplete_details.as_ref().map(|it| it.reason.as_deref()) {
            Some(Some("content_filter")) => StopReason::ContentFilter,
            _ => StopReason::MaxOutput,
        },
        _ => return Err(failure(&terminal)),
    };
    // Servers that do not stream items, and items whose own event was left out.
    for (index, item) in (0..).zip(terminal.output.take().unwrap_or_default()) {
        done.entry(index).or_insert(item);
    }
    if done.len() > MAX_ITEMS {
        return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
    }
    if stop == StopReason::EndTurn && begun_calls.iter().any(|index| !done.contains_key(index)) {
        return Err(Fault::new(FaultKind::Cut, "the stream lacks the end of a call"));
    }
    let items = items(done.into_values().collect(), stop)?;
    let refused = stop == StopReason::EndTurn && is_refusal(&items);
    Ok(Reply {
        items,
        usage: usage(terminal.usage),
        stop: if refused { StopReason::Refusal } else { stop },
        model: terminal.model.unwrap_or_default(),
        id: terminal.id,
    })
}

fn failure(terminal: &Terminal) -> Fault {
    match &terminal.error {
        Some(error) => error.fault(),
        None => Fault::new(
            FaultKind::Unavailable,
            format!("the response ended with status `{}`", terminal.status),
        ),
    }
}

/// Only refusals and thoughts, and at least one refusal.
fn is_refusal(items: &[Item]) -> bool {
    let mut refused = false;
    for item in items {
        match item {
            Item::Message(message) => {
                let all =
                    message.content.iter().all(|part| matches!(part, Content::Refusal { .. }));
                if !all {
                    return false;
                }
                refused |= !message.content.is_empty();
            }
            Item::Reasoning(_) => {}
            Item::Call(_) | Item::Output(_) | Item::Opaque(_) => return false,
        }
    }
    refused
}

fn usage(raw: Option<RawUsage>) -> Usage {
    let Some(raw) = raw else { return Usage { estimated: true, ..Usage::default() } };
    let input_details = raw.input_tokens_details.unwrap_or_default();
    let output_details = raw.output_tokens_details.unwrap_or_default();
    let input = raw.input_tokens.unwrap_or_default();
    let output = raw.output_tokens.unwrap_or_default();
    let cached_input = input_details.cached_tokens.unwrap_or_default();
    let cache_write = input_details.cache_write_tokens.unwrap_or_default();
    let reasoning = output_details.reasoning_tokens.unwrap_or_default();
    Usage {
        input,
        cached_input: cached_input.min(input),
        cache_write: cache_write.min(input.saturating_sub(cached_input)),
        output,
        reasoning: reasoning.min(output),
        estimated: raw.input_tokens.is_none()
            || raw.output_tokens.is_none()
            || cached_input > input
            || reasoning > output,
    }
}

const CALLS: &[&str] =
    &["function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"];

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_call_kind(fields: &serde_json::Map<String, Value>) -> bool {
    fields.get("type").and_then(Value::as_str).is_some_and(|kind| CALLS.contains(&kind))
}

fn is_call(value: &Value) -> bool {
    CALLS.contains(&kind(value))
}

/// Raw items as our own.
fn items(raw: Vec<Value>, stop: StopReason) -> Result<Vec<Item>, Fault> {
    // Without the encrypted thought the server cannot find what these ids belong to.
    let forgets = raw.iter().any(|value| kind(value) == "reasoning" && !is_readable(value));
    let answered: BTreeSet<String> = raw
        .iter()
        .filter(|value| kind(value).ends_with("_call_output"))
        .map(|value| text(value, "call_id"))
        .collect();
    let mut items: Vec<Item> = Vec::with_capacity(raw.len());
    for mut value in raw {
        if let Some(fields) = value.as_object_mut() {
            if forgets && fields.contains_key("call_id") == is_call_kind(fields) {
                fields.shift_remove("id");
            }
            // Sent by the server, unknown to requests.
            fields.shift_remove("created_by");
        }
        let is_ours = is_call(&value) && !answered.contains(&text(&value, "call_id"));
        if !is_ours {
            items.extend(said(value));
        } else if stop == StopReason::EndTurn
            && let Some(call) = call(value)?
        {
            push_call(&mut items, call)?;
        }
    }
    // The API refuses reasoning that nothing follows.
    for item in items.iter_mut().rev() {
        match item {
            Item::Reasoning(thought) => thought.native = None,
            Item::Message(_) | Item::Call(_) | Item::Output(_) | Item::Opaque(_) => break,
        }
    }
    Ok(items)
}

/// Reasoning that the server can read again: encrypted, or in the open.
fn is_readable(value: &Value) -> bool {
    let encrypted = value.get("encrypted_content").and_then(Value::as_str);
    let open = value.get("content").and_then(Value::as_array);
    encrypted.is_some_and(|text| !text.is_empty()) || open.is_some_and(|parts| !parts.is_empty())
}

/// A call that is sent twice counts once; two calls with one id cannot be answered.
fn push_call(items: &mut Vec<Item>, call: ToolCall) -> Result<(), Fault> {
    let earlier = items.iter().find_map(|item| match item {
        Item::Call(earlier) if earlier.id == call.id => Some(earlier),
        _ => None,
    });
    match earlier {
        None => items.push(Item::Call(call)),
        Some(earlier) if earlier.payload == call.payload && earlier.name == call.name => {}
        Some(_) => {
            return Err(Fault::new(FaultKind::Cut, "two different calls have the same id"));
        }
    }
    Ok(())
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn native(value: Value) -> Option<Native> {
    Some(Native { wire: Wire::Responses, value })
}

/// The named fields of an item, where they are set.
fn kept(value: &Value, keys: &[&str]) -> Option<Native> {
    let fields: serde_json::Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    if fields.is_empty() { None } else { native(Value::Object(fields)) }
}

/// Everything that is not a call for us. Items without a type are dropped.
fn said(value: Value) -> Option<Item> {
    match kind(&value) {
        "" => None,
        "message" => Some(Item::Message(Message {
            role: Role::Assistant,
            content: parts(&value, "content").filter_map(spoken).collect(),
            native: kept(&value, &["id", "status", "phase"]),
        })),
        "reasoning" => Some(Item::Reasoning(Reasoning {
            summary: parts(&value, "summary").map(|part| text(part, "text")).collect(),
            native: is_readable(&value)
                .then(|| kept(&value, &["id", "encrypted_content", "content"]))
                .flatten(),
        })),
        _ => native(value).map(Item::Opaque),
    }
}

fn parts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn spoken(part: &Value) -> Option<Content> {
    match kind(part) {
        "output_text" | "text" => Some(Content::text(text(part, "text"))),
        "refusal" => Some(Content::Refusal { text: text(part, "refusal") }),
        _ => None,
    }
}

/// A complete call; `None` for one that the server itself calls unfinished.
fn call(value: Value) -> Result<Option<ToolCall>, Fault> {
    if matches!(text(&value, "status").as_str(), "incomplete" | "in_progress") {
        return Ok(None);
    }
    let id = match text(&value, "call_id") {
        id if id.is_empty() => text(&value, "id"),
        id => id,
    };
    if id.is_empty() {
        return Err(Fault::new(FaultKind::Cut, "a call has no id"));
    }
    let (name, payload) = match kind(&value) {
        "custom_tool_call" => (text(&value, "name"), Payload::Freeform(text(&value, "input"))),
        "local_shell_call" => ("local_shell".to_owned(), local_shell(&value)),
        "shell_call" => ("shell".to_owned(), fields(&value, "action")),
        "apply_patch_call" => ("apply_patch".to_owned(), fields(&value, "operation")),
        _ => (text(&value, "name"), Payload::Json(arguments(&value))),
    };
    let native = match payload {
        Payload::Native(_) => native(value),
        Payload::Json(_) | Payload::Freeform(_) => kept(&value, &["id", "status", "namespace"]),
    };
    Ok(Some(ToolCall { id, name, payload, native }))
}

/// Text, though some servers send the object itself.
fn arguments(value: &Value) -> String {
    match value.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

fn local_shell(value: &Value) -> Payload {
    let action = value.get("action").cloned().unwrap_or_default();
    let mut args = json!({"command": action.get("command").cloned().unwrap_or_default()});
    for (theirs, ours) in [("working_directory", "workdir"), ("timeout_ms", "timeout_ms")] {
        if let Some(value) = action.get(theirs).filter(|value| !value.is_null()) {
            args[ours] = value.clone();
        }
    }
    Payload::Native(args.to_string())
}

fn fields(value: &Value, key: &str) -> Payload {
    let mut fields = value.get(key).cloned().unwrap_or_else(|| json!({}));
    if let Some(map) = fields.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    Payload::Native(fields.to_string())
}
