//! The event stream of `POST /v1/messages`, and the same answer as one document.
//!
//! The order is `message_start`, then for each block `content_block_start`, deltas and
//! `content_block_stop`, then `message_delta` with the stop reason, then `message_stop`; `ping` and
//! `error` may come anywhere, and events and deltas that are not known are passed over, as the API
//! asks for. A reply exists when `message_stop` has arrived, and a call when its block was closed.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::blocks::{self, Block, Kind, StopDetails};
use crate::item::{StopReason, Usage};
use crate::sse::Event;
use crate::wire::fault::{Fault, FaultKind, ReportedError};
use crate::wire::{MAX_ITEMS, lenient};
use crate::{OnProgress, Progress, Reply};

/// Collects the blocks of one streamed answer.
#[derive(Debug, Default)]
pub struct Decoder {
    id: Option<String>,
    model: String,
    /// In the order in which they began.
    blocks: Vec<Block>,
    stop_reason: Option<String>,
    stop_details: Option<StopDetails>,
    usage: RawUsage,
    is_done: bool,
}

/// What events may carry.
#[derive(Deserialize)]
struct Envelope<'a> {
    r#type: Option<String>,
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The message of `message_start`, which has no content yet, or a whole one.
#[derive(Deserialize)]
struct Message {
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    model: Option<String>,
    content: Option<Vec<Map<String, Value>>>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient::some")]
    stop_details: Option<StopDetails>,
    #[serde(default, deserialize_with = "lenient::some")]
    usage: Option<RawUsage>,
}

/// The delta of a block, or of the message.
#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    citation: Option<Value>,
    stop_reason: Option<String>,
    stop_details: Option<StopDetails>,
}

/// Cumulative counts: a later one replaces an earlier one, an absent one leaves it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage {
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::some")]
    cache_creation: Option<CacheCreation>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::some")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    #[serde(deserialize_with = "lenient::count")]
    ephemeral_5m_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "lenient::count")]
    thinking_tokens: Option<u64>,
}

impl Decoder {
    /// Takes one event.
    pub fn event(&mut self, event: &Event, progress: OnProgress<'_>) -> Result<(), Fault> {
        if self.is_done || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let envelope: Envelope<'_> = match serde_json::from_str(&event.data) {
            // A gateway in front of the API may put plain text into an error event.
            Err(_) if event.name == "error" => {
                return Err(Fault::new(FaultKind::Unavailable, event.data.as_str()));
            }
            parsed => parsed.map_err(|err| garbled("an event", &err))?,
        };
        match envelope.r#type.as_deref().unwrap_or(&event.name) {
            "message_start" => {
                if let Some(message) = envelope.message {
                    self.begin(parse(message.get(), "the start of the message")?)?;
                }
            }
            "content_block_start" => {
                if let Some(block) = envelope.content_block {
                    let fields = parse(block.get(), "the start of a block")?;
                    self.start(Block::begin(envelope.index, fields), progress)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = envelope.delta {
                    self.delta(envelope.index, delta, progress)?;
                }
            }
            "content_block_stop" => {
                if let Some(block) = self.latest(envelope.index) {
                    // Only a closed block is complete; an open call never runs.
                    block.is_closed = true;
                }
            }
            "message_delta" => self.message_delta(envelope.delta, envelope.usage)?,
            "message_stop" => self.is_done = true,
            "error" => return Err(error_fault(&event.data, envelope.error)),
            // An error object without a type: how some gateways end a stream.
            "" if envelope.error.is_some() => {
                return Err(error_fault(&event.data, envelope.error));
            }
            _ => {}
        }
        Ok(())
    }

    /// True when the final event has arrived.
    pub fn is_complete(&self) -> bool {
        self.is_done
    }

    /// Bytes of calls so far.
    pub fn written(&self) -> usize {
        self.blocks.iter().map(|block| block.input.len()).sum()
    }

    /// The reply, or why there is none.
    pub fn finish(self) -> Result<Reply, Fault> {
        if !self.is_done {
            let message = "the stream ended before its final event (`message_stop`)";
            return Err(Fault::new(FaultKind::Cut, message));
        }
        let stop = match self.stop_reason.as_deref() {
            None | Some("") => {
                return Err(Fault::new(FaultKind::Cut, "the stream ended without a stop reason"));
            }
            Some("max_tokens") => StopReason::MaxOutput,
            Some("refusal") => StopReason::Refusal,
            // Both ask for the conversation again, with this reply in it.
            Some("pause_turn" | "compaction") => StopReason::Pause,
            Some("model_context_window_exceeded") => {
                let message = "the reply was cut off where the model's context window ends";
                return Err(Fault::new(FaultKind::ContextOverflow, message));
            }
            Some(_) => StopReason::EndTurn,
        };
        let items = blocks::items(self.blocks, stop, self.stop_details.as_ref())?;
        Ok(Reply { items, usage: usage(&self.usage), stop, model: self.model, id: self.id })
    }

    /// A message begins. When another had begun before, that one was given up by the server.
    fn begin(&mut self, message: Message) -> Result<(), Fault> {
        *self = Decoder::default();
        self.id = message.id;
        self.model = message.model.unwrap_or_default();
        self.stop_reason = message.stop_reason;
        self.stop_details = message.stop_details;
        self.usage = message.usage.unwrap_or_default();
        for fields in message.content.into_iter().flatten() {
            let block = Block { is_closed: true, ..Block::begin(None, fields) };
            self.start(block, &|_| {})?;
        }
        Ok(())
    }

    fn start(&mut self, block: Block, progress: OnProgress<'_>) -> Result<(), Fault> {
        if self.blocks.len() >= MAX_ITEMS {
            return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
        }
        tell(&block.text, block.kind, progress);
        self.blocks.push(block);
        Ok(())
    }

    /// The block that an index means: the one begun last with it, because servers exist that give
    /// every block the same.
    fn latest(&mut self, index: Option<u64>) -> Option<&mut Block> {
        self.blocks.iter_mut().rev().find(|block| index.is_none() || block.index == index)
    }

    fn latest_of(&mut self, index: Option<u64>, kind: Kind) -> Option<&mut Block> {
        self.latest(index).filter(|block| block.kind == kind)
    }

    fn delta(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        progress: OnProgress<'_>,
    ) -> Result<(), Fault> {
        let delta: Delta = parse(raw.get(), "a delta")?;
        match delta.r#type.as_str() {
            "text_delta" => self.append(index, Kind::Text, delta.text, progress),
            "thinking_delta" => self.append(index, Kind::Thinking, delta.thinking, progress),
            "signature_delta" => {
                if let Some(block) = self.latest_of(index, Kind::Thinking)
                    && let Some(signature) = delta.signature
                {
                    block.fields.insert("signature".to_owned(), Value::String(signature));
                }
                Ok(())
            }
            "citations_delta" => {
                if let Some(block) = self.latest_of(index, Kind::Text)
                    && let Some(citation) = delta.citation
                {
                    block.cite(citation);
                }
                Ok(())
            }
            "input_json_delta" => self.input(index, &delta.partial_json.unwrap_or_default()),
            "compaction_delta" => {
                if let Some(block) = self.latest_of(index, Kind::Other) {
                    block.complete(parse(raw.get(), "a delta")?);
                }
                Ok(())
            }
            _ => {
                // What such a block lacks is not known, so it cannot be sent back.
                if let Some(block) = self.latest_of(index, Kind::Other) {
                    block.is_partial = true;
                }
                Ok(())
            }
        }
    }

    fn append(
        &mut self,
        index: Option<u64>,
        kind: Kind,
        piece: Option<String>,
        progress: OnProgress<'_>,
    ) -> Result<(), Fault> {
        let Some(piece) = piece.filter(|piece| !piece.is_empty()) else { return Ok(()) };
        if let Some(block) = self.latest_of(index, kind) {
            tell(&piece, kind, progress);
            block.text.push_str(&piece);
            return Ok(());
        }
        // Some servers forget to begin a block.
        self.start(Block { text: piece, ..Block::empty(index, kind) }, progress)
    }

    fn input(&mut self, index: Option<u64>, piece: &str) -> Result<(), Fault> {
        if piece.is_empty() {
            return Ok(());
        }
        let open = self.latest(index).filter(|block| block.takes_input() && !block.is_closed);
        let Some(block) = open else {
            return Err(Fault::new(FaultKind::Cut, "the stream lacks the start of a call"));
        };
        block.input.push_str(piece);
        Ok(())
    }

    fn message_delta(
        &mut self,
        delta: Option<&RawValue>,
        usage: Option<&RawValue>,
    ) -> Result<(), Fault> {
        if let Some(delta) = delta {
            let delta: Delta = parse(delta.get(), "the end of the message")?;
            self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
            self.stop_details = delta.stop_details.or(self.stop_details.take());
        }
        if let Some(usage) = usage {
            let later: RawUsage = serde_json::from_str(usage.get()).unwrap_or_default();
            self.usage = later.over(std::mem::take(&mut self.usage));
        }
        Ok(())
    }
}

impl RawUsage {
    fn over(self, earlier: RawUsage) -> RawUsage {
        RawUsage {
            input_tokens: self.input_tokens.or(earlier.input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .or(earlier.cache_creation_input_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .or(earlier.cache_read_input_tokens),
            cache_creation: self.cache_creation.or(earlier.cache_creation),
            output_tokens: self.output_tokens.or(earlier.output_tokens),
            output_tokens_details: self.output_tokens_details.or(earlier.output_tokens_details),
        }
    }
}

/// The API counts what was read from a cache and what was written to one beside `input_tokens`.
fn usage(raw: &RawUsage) -> Usage {
    let split = raw.cache_creation.as_ref().map(|split| {
        let short = split.ephemeral_5m_input_tokens.unwrap_or_default();
        short.saturating_add(split.ephemeral_1h_input_tokens.unwrap_or_default())
    });
    let cache_write = raw.cache_creation_input_tokens.or(split).unwrap_or_default();
    let cached_input = raw.cache_read_input_tokens.unwrap_or_default();
    let fresh = raw.input_tokens.unwrap_or_default();
    let input = fresh.saturating_add(cache_write).saturating_add(cached_input);
    let output = raw.output_tokens.unwrap_or_default();
    let thinking = raw.output_tokens_details.as_ref().and_then(|it| it.thinking_tokens);
    let reasoning = thinking.unwrap_or_default();
    Usage {
        input,
        cached_input,
        cache_write,
        output,
        reasoning: reasoning.min(output),
        // No request is without tokens; imitations send zeros for what they do not count.
        estimated: input == 0 || raw.output_tokens.is_none() || reasoning > output,
    }
}

/// Decodes a whole message, or an error object, that came without a stream.
pub fn decode_whole(body: &str) -> Result<Reply, Fault> {
    #[derive(Deserialize)]
    struct MessageDocument<'a> {
        r#type: Option<String>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let no_message = || Fault::malformed("a JSON document that is no message");
    let whole: MessageDocument<'_> = serde_json::from_str(body).map_err(|_| no_message())?;
    if whole.error.is_some() || whole.r#type.as_deref() == Some("error") {
        return Err(error_fault(body, whole.error));
    }
    if whole.content.is_none() || whole.r#type.is_some_and(|kind| kind != "message") {
        return Err(no_message());
    }
    let mut decoder = Decoder::default();
    decoder.begin(serde_json::from_str(body).map_err(|_| no_message())?)?;
    decoder.is_done = true;
    decoder.finish()
}

fn tell(text: &str, kind: Kind, progress: OnProgress<'_>) {
    match kind {
        _ if text.is_empty() => {}
        Kind::Text => progress(Progress::Text(text)),
        Kind::Thinking => progress(Progress::Reasoning(text)),
        Kind::Redacted | Kind::Call | Kind::Other => {}
    }
}

/// JSON that does not parse inside a stream means that the transport garbled it: worth another try.
fn parse<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|err| garbled(what, &err))
}

fn garbled(what: &str, err: &serde_json::Error) -> Fault {
    Fault::new(FaultKind::Cut, format!("{what} is not the JSON it should be: {err}"))
}

/// An error inside a 200, nested under `error` as documented, or flat, or a text alone.
fn error_fault(data: &str, nested: Option<&RawValue>) -> Fault {
    let error: Value = serde_json::from_str(nested.map_or(data, RawValue::get)).unwrap_or_default();
    let text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/type");
    let message = error.as_str().unwrap_or_else(|| text("/message"));
    let code = text("/details/error_code");
    ReportedError { status: status_of(kind), code, kind, message }.fault()
}

/// The HTTP status that the API gives an error of this type when it has not begun to answer.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "conflict_error" => 409,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::item::Wire;
    use crate::wire;

    #[test]
    fn a_wrong_type_of_what_nobody_needs_loses_no_reply() {
        let content = json!([{"type": "text", "text": "Done."}]);
        let usage = json!({"input_tokens": 10.0, "output_tokens": "5", "cache_read_input_tokens": -1, "cache_creation": 0, "output_tokens_details": "x"});
        let mut body = json!({"type": "message", "id": 12, "model": "m", "content": content, "stop_reason": "end_turn", "stop_details": "x", "usage": usage});
        let reply = wire::decode_whole(Wire::Messages, &body.to_string()).unwrap();
        assert_eq!((reply.usage.input, reply.usage.output, reply.usage.estimated), (10, 5, false));
        body["usage"] = json!("x");
        assert!(wire::decode_whole(Wire::Messages, &body.to_string()).unwrap().usage.estimated);
    }
}
