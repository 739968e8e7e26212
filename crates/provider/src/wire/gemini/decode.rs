//! The stream of `:streamGenerateContent?alt=sse`, and the same answer as one document.
//!
//! Every event is a whole `GenerateContentResponse` with the next parts; text that continues the
//! last part is appended to it, calls come whole. There is no final event: a reply exists when a
//! `finishReason` has arrived and the stream has ended, because usage may follow.

use serde_json::Value;

use super::errors;
use super::partial::Partial;
use super::parts::{self, is_plain};
use super::plain::{self, PlainChunk};
use super::{FUNCTION_CALL, Name, field, taken, text_field};
use crate::item::{StopReason, Usage};
use crate::sse::Event;
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::lenient;
use crate::{OnProgress, Progress, Reply, shape};

/// Parts of one reply at most, before they are put together to items.
const MAX_PARTS: usize = 16 * 1024;

const FINISH_REASON: Name = ("finishReason", "finish_reason");
const FINISH_MESSAGE: Name = ("finishMessage", "finish_message");
const USAGE: Name = ("usageMetadata", "usage_metadata");
const MODEL_VERSION: Name = ("modelVersion", "model_version");
const RESPONSE_ID: Name = ("responseId", "response_id");
const FEEDBACK: Name = ("promptFeedback", "prompt_feedback");
const BLOCK_REASON: Name = ("blockReason", "block_reason");
const BLOCK_MESSAGE: Name = ("blockReasonMessage", "block_reason_message");
const GROUNDING: Name = ("groundingMetadata", "grounding_metadata");

/// Collects one streamed answer.
#[derive(Debug, Default)]
pub struct Decoder {
    id: Option<String>,
    model: String,
    parts: Vec<Value>,
    /// A call whose arguments are still coming in pieces.
    open: Option<Partial>,
    finish: Option<String>,
    finish_message: Option<String>,
    grounding: Option<Value>,
    usage: Option<Value>,
    /// The newest usage when it came with a plain chunk; read at the end.
    late_usage: Option<String>,
    is_done: bool,
}

impl Decoder {
    /// Takes one event.
    pub fn event(&mut self, event: &Event, progress: OnProgress<'_>) -> Result<(), Fault> {
        if self.is_done {
            return Ok(());
        }
        // Some proxies end every stream like OpenAI's.
        if event.data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        // Most chunks are one piece of text; reading them without a tree of values is much cheaper.
        if let Some(chunk) = plain::read(&event.data) {
            return self.plain(&chunk, progress);
        }
        let chunk: Value = serde_json::from_str(&event.data).map_err(|err| {
            Fault::new(FaultKind::Cut, format!("a chunk is not the JSON it should be: {err}"))
        })?;
        self.document(chunk, progress)
    }

    /// [`Decoder::chunk`] for a chunk that holds one piece of text and nothing else, which most chunks are.
    fn plain(&mut self, chunk: &PlainChunk<'_>, tell: OnProgress<'_>) -> Result<(), Fault> {
        if let Some(id) = chunk.id().filter(|_| self.id.is_none()) {
            self.id = Some(id.to_owned());
        }
        if let Some(model) = chunk.model().filter(|_| self.model.is_empty()) {
            model.clone_into(&mut self.model);
        }
        if let Some(usage) = chunk.usage() {
            // Kept as text, because only the last one is needed.
            self.late_usage = Some(usage.to_owned());
        }
        let (text, is_thought) = chunk.text();
        if text.is_empty() {
            return Ok(());
        }
        tell(if is_thought { Progress::Reasoning(text) } else { Progress::Text(text) });
        if self.append(is_thought, text) {
            return Ok(());
        }
        self.push(chunk.part())
    }

    /// One response, or the list of them that the API sends without `alt=sse`.
    fn document(&mut self, document: Value, progress: OnProgress<'_>) -> Result<(), Fault> {
        match document {
            Value::Array(chunks) => {
                chunks.into_iter().try_for_each(|chunk| self.chunk(chunk, progress))
            }
            chunk => self.chunk(chunk, progress),
        }
    }

    fn chunk(&mut self, mut chunk: Value, progress: OnProgress<'_>) -> Result<(), Fault> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(errors::fault(None, error));
        }
        if let Some(id) = text_field(&chunk, RESPONSE_ID).filter(|_| self.id.is_none()) {
            self.id = Some(id.to_owned());
        }
        if let Some(model) = text_field(&chunk, MODEL_VERSION).filter(|_| self.model.is_empty()) {
            model.clone_into(&mut self.model);
        }
        if let Some(usage) = taken(&mut chunk, USAGE) {
            self.usage = Some(usage);
            self.late_usage = None;
        }
        if let Some(feedback) = field(&chunk, FEEDBACK)
            && let Some(reason) = text_field(feedback, BLOCK_REASON)
            // Protobuf's zero value, which some gateways write out: it means that nothing was
            // blocked.
            && !reason.ends_with("_UNSPECIFIED")
        {
            let said = text_field(feedback, BLOCK_MESSAGE).map(|text| format!(": {text}"));
            let message = format!("the prompt was blocked ({reason}){}", said.unwrap_or_default());
            let usage = usage(self.usage.as_ref());
            return Err(Fault::new(FaultKind::Filtered, message).using(usage));
        }
        // The request asks for one candidate.
        let candidates = chunk.get_mut("candidates").and_then(Value::as_array_mut);
        for candidate in candidates.into_iter().flatten() {
            if candidate.get("index").and_then(Value::as_u64).unwrap_or(0) == 0 {
                self.candidate(candidate, progress)?;
            }
        }
        Ok(())
    }

    fn candidate(&mut self, candidate: &mut Value, progress: OnProgress<'_>) -> Result<(), Fault> {
        let parts = candidate.pointer_mut("/content/parts").and_then(Value::as_array_mut);
        let parts = parts.map(std::mem::take).unwrap_or_default();
        for (position, part) in parts.into_iter().enumerate() {
            self.part(part, position == 0, progress)?;
        }
        if let Some(grounding) = taken(candidate, GROUNDING) {
            self.grounding = Some(grounding);
        }
        // Some servers send the unset value with every chunk.
        let reason = text_field(candidate, FINISH_REASON);
        if let Some(reason) = reason.filter(|reason| !reason.ends_with("_UNSPECIFIED")) {
            self.finish = Some(reason.to_ascii_uppercase());
        }
        if let Some(message) = text_field(candidate, FINISH_MESSAGE) {
            self.finish_message = Some(message.to_owned());
        }
        Ok(())
    }

    fn part(&mut self, part: Value, opens_chunk: bool, tell: OnProgress<'_>) -> Result<(), Fault> {
        if !part.is_object() {
            return Ok(());
        }
        if field(&part, FUNCTION_CALL).is_some() {
            return self.call(part);
        }
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            if !text.is_empty() {
                let is_thought = parts::is_thought(&part);
                tell(if is_thought { Progress::Reasoning(text) } else { Progress::Text(text) });
            }
            // Text is joined across chunks only: two parts in one chunk are two parts to the API,
            // which wants them back like that.
            if is_plain(&part)
                && (text.is_empty() || (opens_chunk && self.append(parts::is_thought(&part), text)))
            {
                return Ok(());
            }
        }
        self.push(part)
    }

    /// Appends text to the last part when it goes on there: the first part of a chunk, of the same
    /// kind as the last one of the chunk before, and neither with a signature or anything else.
    fn append(&mut self, is_thought: bool, text: &str) -> bool {
        let Some(last) = self.parts.last_mut() else { return false };
        if !is_plain(last) || parts::is_thought(last) != is_thought {
            return false;
        }
        match last.get_mut("text") {
            Some(Value::String(whole)) => {
                whole.push_str(text);
                true
            }
            _ => false,
        }
    }

    fn call(&mut self, part: Value) -> Result<(), Fault> {
        let open = match self.open.take() {
            Some(open) if !open.continues(&part) => return Err(half_call()),
            Some(open) => Some(open),
            None => Partial::begins(&part).then(|| Partial::new(&part)),
        };
        if let Some(mut open) = open {
            if open.take(&part)? {
                self.open = Some(open);
                return Ok(());
            }
            return self.push(open.finished());
        }
        let is_blank = field(&part, FUNCTION_CALL)
            .and_then(Value::as_object)
            .is_none_or(serde_json::Map::is_empty);
        if is_blank { Ok(()) } else { self.push(part) }
    }

    fn push(&mut self, part: Value) -> Result<(), Fault> {
        // An empty part carries nothing, and the API refuses it when it is sent back.
        if part.as_object().is_none_or(|fields| fields.values().all(Value::is_null)) {
            return Ok(());
        }
        if self.parts.len() >= MAX_PARTS {
            return Err(Fault::malformed(format!("the reply has more than {MAX_PARTS} parts")));
        }
        self.parts.push(part);
        Ok(())
    }

    /// True when nothing more is to come.
    pub fn is_complete(&self) -> bool {
        self.is_done
    }

    /// Bytes of calls so far.
    pub fn written(&self) -> usize {
        let calls = self.parts.iter().filter_map(|part| field(part, FUNCTION_CALL));
        calls.map(|call| call.to_string().len()).sum()
    }

    /// The reply, or why there is none.
    pub fn finish(self) -> Result<Reply, Fault> {
        let Some(reason) = self.finish else {
            let message = "the stream ended before its `finishReason`";
            return Err(Fault::new(FaultKind::Cut, message));
        };
        // The last figures are those of the whole reply: without them the ones before are too low.
        let late = self.late_usage.map(|text| serde_json::from_str::<Value>(&text));
        let is_lost = matches!(late, Some(Err(_)));
        let last = late.and_then(Result::ok).or(self.usage);
        let mut usage = usage(last.as_ref());
        usage.estimated |= is_lost;
        let stop = stop_reason(&reason, self.finish_message.as_deref());
        let stop = stop.map_err(|fault| fault.using(usage))?;
        if self.open.is_some() && stop == StopReason::EndTurn {
            return Err(half_call());
        }
        let id = self.id.clone().unwrap_or_default();
        let mut received = self.parts;
        let attempt = parts::last_call_name(&received);
        // A call in a reply that was cut off or filtered may be incomplete, and must not run.
        if stop != StopReason::EndTurn {
            received.retain(|part| field(part, FUNCTION_CALL).is_none());
        }
        let mut items = parts::items(received, &id)?;
        if let Some(grounding) = self.grounding {
            items.push(parts::carried("groundingMetadata", grounding));
        }
        if stop == StopReason::MalformedCall {
            items.push(parts::unreadable_call(&reason, self.finish_message, attempt));
        }
        let items = shape::bounded(items)?;
        Ok(Reply { items, usage, stop, model: self.model, id: self.id })
    }
}

fn half_call() -> Fault {
    Fault::new(FaultKind::Cut, "the stream lacks the end of a call")
}

/// What a `finishReason` means for the run. Reasons that name no reply of use and may be different
/// next time, and reasons that are not known, are faults that a retry may cure; the retries are
/// bounded.
fn stop_reason(reason: &str, message: Option<&str>) -> Result<StopReason, Fault> {
    let said = || message.map(|text| format!(": {text}")).unwrap_or_default();
    let fault = |kind, what: &str| Err(Fault::new(kind, format!("{what} (`{reason}`){}", said())));
    match reason {
        "STOP" => Ok(StopReason::EndTurn),
        // A continuation token is for clients that keep no history; ours sends all of it.
        "MAX_TOKENS" | "CONTINUATION" => Ok(StopReason::MaxOutput),
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "ESCALATION"
        | "MODEL_ARMOR"
        | "JAILBREAK" => Ok(StopReason::ContentFilter),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
            Ok(StopReason::MalformedCall)
        }
        "MISSING_THOUGHT_SIGNATURE" => {
            fault(FaultKind::Rejected(400), "the request lacks a thought signature")
        }
        "PUP_LIMITED_DISABLED" => {
            fault(FaultKind::Authentication, "the account is limited or disabled")
        }
        _ => fault(FaultKind::Unavailable, "the model ended without a usable reply"),
    }
}

/// Thoughts are not among the candidates' tokens, and what server-side tools read is not in the
/// prompt's.
fn usage(raw: Option<&Value>) -> Usage {
    let Some(raw) = raw else { return Usage { estimated: true, ..Usage::default() } };
    let count = |camel, snake| field(raw, (camel, snake)).and_then(lenient::count_of);
    let prompt = count("promptTokenCount", "prompt_token_count");
    let tools = count("toolUsePromptTokenCount", "tool_use_prompt_token_count").unwrap_or(0);
    let cached = count("cachedContentTokenCount", "cached_content_token_count").unwrap_or(0);
    let candidates = count("candidatesTokenCount", "candidates_token_count");
    let thoughts = count("thoughtsTokenCount", "thoughts_token_count");
    let total = count("totalTokenCount", "total_token_count");
    let input = prompt.unwrap_or(0).saturating_add(tools);
    let reasoning = thoughts.unwrap_or(0);
    let output = match (candidates, thoughts) {
        (None, None) => total.map(|total| total.saturating_sub(input)),
        (candidates, _) => Some(candidates.unwrap_or(0).saturating_add(reasoning)),
    };
    Usage {
        input,
        cached_input: cached.min(input),
        cache_write: 0,
        output: output.unwrap_or(0),
        reasoning,
        estimated: prompt.is_none() || output.is_none() || cached > input,
    }
}

/// Decodes an answer that came without event framing: one response, the list of chunks that
/// `:streamGenerateContent` sends without `alt=sse`, or an error in either form.
pub fn decode_whole(body: &str) -> Result<Reply, Fault> {
    let document: Value = serde_json::from_str(body).map_err(|err| {
        // The connection closed in mid-document.
        if err.is_eof() {
            Fault::new(FaultKind::Cut, "the JSON document is not complete")
        } else {
            Fault::malformed("a JSON document that is no response")
        }
    })?;
    let is_response = |value: &Value| {
        let keys = ["candidates", "error", FEEDBACK.0, FEEDBACK.1, USAGE.0, USAGE.1];
        keys.iter().any(|key| value.get(key).is_some())
    };
    let fits = match &document {
        Value::Array(chunks) => chunks.iter().any(is_response),
        chunk => is_response(chunk),
    };
    if !fits {
        return Err(Fault::malformed("a JSON document that is no response"));
    }
    let mut decoder = Decoder::default();
    decoder.document(document, &|_| {})?;
    decoder.finish()
}
