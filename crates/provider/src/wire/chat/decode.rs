//! The chunks of `POST /v1/chat/completions`, and the same answer as one document.
//!
//! A reply exists when a `finish_reason` has arrived; `[DONE]` alone proves nothing, and some
//! servers leave it out. Calls are distinguished by index and id together, because servers exist that
//! send only one of them, or repeat them.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::reasoning::{self, PLAIN_THOUGHTS};
use crate::item::{
    Content, Item, Message, Native, Payload, Reasoning, Role, StopReason, ToolCall, Usage, Wire,
};
use crate::shape::{self, Counts};
use crate::sse::Event;
use crate::wire::MAX_ITEMS;
use crate::wire::fault::{ErrorObject, Fault, FaultKind};
use crate::{OnProgress, Progress, Reply};

/// Collects one streamed answer.
#[derive(Debug, Default)]
pub struct Decoder {
    id: Option<String>,
    model: String,
    text: String,
    refusal: String,
    thinking: String,
    /// OpenRouter's reasoning, which must go back as it came.
    details: Vec<Value>,
    /// LiteLLM's blocks of Anthropic's thinking with their signatures; they must go back too.
    blocks: Vec<Value>,
    /// The field that thoughts come in as plain text, which they go back in.
    thinking_field: Option<&'static str>,
    calls: Vec<Call>,
    finish: Option<String>,
    usage: Option<RawUsage>,
    is_done: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    is_custom: bool,
    arguments: String,
    /// Fields that go back with it: `extra_content`, `provider_specific_fields`.
    extra: Map<String, Value>,
}

/// A chunk, or a whole completion.
#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<RawUsage>,
    error: Option<ErrorField>,
    /// `error` where the error is the chunk itself (vLLM before 0.10), with the next three fields.
    object: Option<String>,
    code: Option<Value>,
    r#type: Option<String>,
    message: Option<String>,
}

/// An object as a rule; some servers send the message alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorField {
    Object(ErrorObject),
    Text(String),
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(alias = "message")]
    delta: Option<Delta>,
    finish_reason: Option<String>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<Value>,
    reasoning_details: Option<Vec<Value>>,
    thinking_blocks: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    custom: Option<FunctionDelta>,
    extra_content: Option<Value>,
    provider_specific_fields: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    #[serde(alias = "input")]
    arguments: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage {
    prompt_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl Decoder {
    /// Takes one event.
    pub fn event(&mut self, event: &Event, progress: OnProgress<'_>) -> Result<(), Fault> {
        if self.is_done {
            return Ok(());
        }
        if event.data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(&event.data).map_err(|err| {
            Fault::new(FaultKind::Cut, format!("a chunk is not the JSON it should be: {err}"))
        })?;
        self.chunk(chunk, progress)
    }

    fn chunk(&mut self, chunk: Chunk, progress: OnProgress<'_>) -> Result<(), Fault> {
        match chunk.error {
            Some(ErrorField::Object(error)) => return Err(error.fault()),
            Some(ErrorField::Text(message)) => {
                return Err(
                    ErrorObject { message: Some(message), ..ErrorObject::default() }.fault()
                );
            }
            None if chunk.object.as_deref() == Some("error") => {
                let Chunk { code, r#type, message, .. } = chunk;
                return Err(ErrorObject { code, r#type, message }.fault());
            }
            None => {}
        }
        self.id = self.id.take().or(chunk.id.filter(|id| !id.is_empty()));
        if let Some(model) = chunk.model.filter(|_| self.model.is_empty()) {
            self.model = model;
        }
        // The last usage counts: some servers send running totals with every chunk.
        if chunk.usage.is_some() {
            self.usage = chunk.usage;
        }
        // The request asks for one choice; a server that sends more is not following it.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(error) = choice.error {
                return Err(error.fault());
            }
            if let Some(delta) = choice.delta {
                self.delta(delta, progress)?;
            }
            if let Some(finish) = choice.finish_reason.filter(|it| !it.is_empty()) {
                self.finish = Some(finish);
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, progress: OnProgress<'_>) -> Result<(), Fault> {
        let text = delta.content.as_ref().map(text_of).unwrap_or_default();
        let refusal = delta.refusal.clone().unwrap_or_default();
        for (piece, whole) in [(&text, &mut self.text), (&refusal, &mut self.refusal)] {
            if !piece.is_empty() {
                whole.push_str(piece);
                progress(Progress::Text(piece));
            }
        }
        // A server that has both names means the same with them; a list of parts has no name.
        let thinking = named(&delta).or_else(|| {
            let parts = delta.content.as_ref().map(thinking_of)?;
            (!parts.is_empty()).then_some((None, parts))
        });
        if let Some((field, piece)) = thinking {
            self.thinking_field = self.thinking_field.or(field);
            self.thinking.push_str(&piece);
            progress(Progress::Reasoning(&piece));
        }
        for (new, list) in [
            (delta.reasoning_details, &mut self.details),
            (delta.thinking_blocks, &mut self.blocks),
        ] {
            new.into_iter().flatten().for_each(|piece| reasoning::join(list, piece));
        }
        self.check_count()?;
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call);
            self.check_count()?;
        }
        Ok(())
    }

    fn check_count(&self) -> Result<(), Fault> {
        if self.calls.len().max(self.details.len()).max(self.blocks.len()) > MAX_ITEMS {
            return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta) {
        let id = delta.id.filter(|id| !id.is_empty());
        let call = self.call_for(delta.index, id.as_deref());
        if let Some(id) = id {
            call.id = id;
        }
        call.is_custom |= delta.custom.is_some();
        if let Some(function) = delta.custom.or(delta.function) {
            // Some servers repeat the name in every delta.
            if let Some(name) = function.name.filter(|_| call.name.is_empty()) {
                call.name = name;
            }
            match function.arguments {
                Some(Value::String(piece)) => call.arguments.push_str(&piece),
                None | Some(Value::Null) => {}
                // Some servers send the arguments as an object instead of a string.
                Some(whole) => call.arguments = whole.to_string(),
            }
        }
        let extra = [
            ("extra_content", delta.extra_content),
            ("provider_specific_fields", delta.provider_specific_fields),
        ];
        for (key, value) in extra {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                call.extra.insert(key.to_owned(), value);
            }
        }
    }

    /// The call that a delta belongs to: one with its id, or the one begun last with its index
    /// (or of all), unless the id says that a new call begins.
    fn call_for(&mut self, index: Option<u64>, id: Option<&str>) -> &mut Call {
        let position = self.calls.iter().rposition(|call| {
            // Searching from the end finds the newest call where a server gives every call index 0.
            let same_place = index.is_none() || call.index == index;
            let same_id = id.is_none_or(|id| call.id.is_empty() || call.id == id);
            same_place && same_id
        });
        let position = position.unwrap_or_else(|| {
            self.calls.push(Call { index, ..Call::default() });
            self.calls.len() - 1
        });
        &mut self.calls[position]
    }

    /// True when nothing more is to come. Usage follows the finish reason, so that one alone is not
    /// the end.
    pub fn is_complete(&self) -> bool {
        self.is_done
    }

    /// The reply, or why there is none.
    pub fn finish(self) -> Result<Reply, Fault> {
        let stop = match self.finish.as_deref() {
            None => {
                let message = "the stream ended before its `finish_reason`";
                return Err(Fault::new(FaultKind::Cut, message));
            }
            Some("length") => StopReason::MaxOutput,
            Some("content_filter") => StopReason::ContentFilter,
            Some("error") => {
                let message = "the server ended the reply with an error";
                return Err(Fault::new(FaultKind::Unavailable, message));
            }
            Some(_) if self.text.is_empty() && !self.refusal.is_empty() => StopReason::Refusal,
            Some(_) => StopReason::EndTurn,
        };
        let usage = usage(self.usage.clone());
        let (id, model) = (self.id.clone(), self.model.clone());
        Ok(Reply { items: shape::bounded(self.items(stop))?, usage, stop, model, id })
    }

    fn items(self, stop: StopReason) -> Vec<Item> {
        let mut items = Vec::new();
        if !(self.thinking.is_empty() && self.details.is_empty() && self.blocks.is_empty()) {
            let mut fields = Map::new();
            // One form only: a gateway that sends several describes the same thoughts in each.
            if !self.details.is_empty() {
                fields.insert("reasoning_details".to_owned(), Value::Array(self.details));
            } else if !self.blocks.is_empty() {
                fields.insert("thinking_blocks".to_owned(), Value::Array(self.blocks));
            } else if let Some(field) = self.thinking_field {
                fields.insert(field.to_owned(), json!(self.thinking));
            }
            let summary = if self.thinking.is_empty() { vec![] } else { vec![self.thinking] };
            items.push(Item::Reasoning(Reasoning { summary, native: native(fields) }));
        }
        let mut content = Vec::new();
        if !self.text.is_empty() {
            content.push(Content::Text { text: self.text });
        }
        if !self.refusal.is_empty() {
            content.push(Content::Refusal { text: self.refusal });
        }
        if !content.is_empty() {
            items.push(Item::Message(Message { role: Role::Assistant, content, native: None }));
        }
        // A reply that was cut off may end in the middle of a call, which must not run.
        if stop == StopReason::EndTurn {
            let reply = self.id.unwrap_or_default();
            for (number, call) in self.calls.into_iter().enumerate() {
                shape::push_call(&mut items, call.finished(&reply, number));
            }
        }
        items
    }
}

impl Call {
    fn finished(self, reply: &str, number: usize) -> ToolCall {
        let payload = match (self.is_custom, self.arguments) {
            (true, input) => Payload::Freeform(input),
            // A call without arguments.
            (false, arguments) if arguments.trim().is_empty() => Payload::Json("{}".to_owned()),
            (false, arguments) => Payload::Json(arguments),
        };
        let id = if self.id.is_empty() { format!("call_{reply}_{number}") } else { self.id };
        ToolCall { id, name: self.name, payload, native: native(self.extra) }
    }
}

fn native(fields: Map<String, Value>) -> Option<Native> {
    (!fields.is_empty()).then(|| Native { wire: Wire::Chat, value: Value::Object(fields) })
}

/// A piece of a thought in a field of its own, and the field's name: `reasoning_content` (DeepSeek,
/// SGLang) or `reasoning` (vLLM, `LocalAI`).
fn named(delta: &Delta) -> Option<(Option<&'static str>, String)> {
    let pieces = [
        (PLAIN_THOUGHTS[0], delta.reasoning_content.clone()),
        (PLAIN_THOUGHTS[1], delta.reasoning.as_ref().map(text_of)),
    ];
    let mut said = pieces.into_iter().filter_map(|(field, piece)| Some((Some(field), piece?)));
    said.find(|(_, piece)| !piece.is_empty())
}

/// Text, or the texts of a list of parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// The thoughts among the parts of a content list, as Mistral sends them.
fn thinking_of(value: &Value) -> String {
    let Value::Array(parts) = value else { return String::new() };
    parts.iter().filter_map(|part| part.get("thinking")).map(text_of).collect()
}

fn usage(raw: Option<RawUsage>) -> Usage {
    let Some(raw) = raw else { return Usage { estimated: true, ..Usage::default() } };
    let prompt = raw.prompt_tokens_details.unwrap_or_default();
    let details = raw.completion_tokens_details.unwrap_or_default();
    let counts = Counts {
        input: raw.prompt_tokens,
        cached: prompt.cached_tokens.or(raw.prompt_cache_hit_tokens).unwrap_or_default(),
        written: prompt.cache_write_tokens.unwrap_or_default(),
        output: raw.completion_tokens,
        reasoning: details.reasoning_tokens.unwrap_or_default(),
    };
    counts.usage()
}

/// Decodes a whole completion, or an error object, that came without a stream.
pub fn decode_whole(body: &str) -> Result<Reply, Fault> {
    let chunk: Chunk = serde_json::from_str(body)
        .map_err(|_| Fault::malformed("a JSON document that is no completion"))?;
    let is_error = chunk.error.is_some() || chunk.object.as_deref() == Some("error");
    if chunk.choices.is_none() && !is_error {
        return Err(Fault::malformed("a JSON document that is no completion"));
    }
    let mut decoder = Decoder::default();
    decoder.chunk(chunk, &|_| {})?;
    decoder.finish()
}
