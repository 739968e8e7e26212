//! The chunks of `POST /v1/chat/completions`, and the same answer as one document.
//!
//! A reply exists when a `finish_reason` has arrived, or the usage of the whole reply and `[DONE]`; that alone
//! proves nothing, and some servers leave it out. What nobody needs may have any type.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{CallDelta, Calls};
use super::finish;
use super::reasoning::{self, PLAIN_THOUGHTS};
use super::thoughts::{Segment, Splitter, unopened};
use super::usage::{self, RawUsage};
use crate::item::{Content, Item, Message, Native, Reasoning, Role, StopReason, Wire};
use crate::shape;
use crate::sse::Event;
use crate::wire::fault::{ErrorObject, Fault, FaultKind, unlisted};
use crate::wire::{MAX_ITEMS, lenient};
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
    /// Thoughts that were marked in the text.
    marked: String,
    splitter: Splitter,
    calls: Calls,
    /// Chunks so far.
    chunks: u64,
    /// It came as a whole, not as a stream.
    is_document: bool,
    finish: Option<String>,
    usage: Option<RawUsage>,
    /// The usage came in a chunk of its own.
    is_counted: bool,
    is_done: bool,
}

/// A chunk, or a whole completion.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    #[serde(default, deserialize_with = "lenient::some")]
    usage: Option<RawUsage>,
    /// An object as a rule; some servers send the message alone.
    #[serde(default)]
    error: Value,
    /// `error` where the error is the chunk itself (vLLM before 0.10), with the next three fields.
    #[serde(default, deserialize_with = "lenient::text")]
    object: Option<String>,
    code: Option<Value>,
    r#type: Option<Value>,
    message: Option<Value>,
    /// How `MiniMax` reports an error: in a response with status 200.
    #[serde(default, deserialize_with = "lenient::some")]
    base_resp: Option<BaseResp>,
}

/// `MiniMax`'s word on a request; 0 is success.
#[derive(Deserialize)]
struct BaseResp {
    #[serde(default, deserialize_with = "lenient::count")]
    status_code: Option<u64>,
    #[serde(default, deserialize_with = "lenient::text")]
    status_msg: Option<String>,
}

impl BaseResp {
    fn error(self) -> Option<ErrorObject> {
        let code = match self.status_code? {
            0 => return None,
            1002 | 1039 => "rate_limit_exceeded",
            1004 => "invalid_api_key",
            1008 => "insufficient_quota",
            1026 | 1027 => "content_filter",
            2013 => "invalid_request_error",
            _ => "",
        };
        Some(ErrorObject(json!({"code": code, "message": self.status_msg.unwrap_or_default()})))
    }
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "lenient::count")]
    index: Option<u64>,
    #[serde(alias = "message")]
    delta: Option<Delta>,
    #[serde(default, deserialize_with = "lenient::text")]
    finish_reason: Option<String>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    #[serde(default, deserialize_with = "lenient::text")]
    refusal: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    reasoning_content: Option<String>,
    reasoning: Option<Value>,
    #[serde(default, deserialize_with = "lenient::some")]
    reasoning_details: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "lenient::some")]
    thinking_blocks: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallDelta>>,
}

impl Chunk {
    fn read(text: &str) -> serde_json::Result<Chunk> {
        match serde_json::from_str(text) {
            Err(_) if text.trim_start().starts_with('[') => {
                serde_json::from_value(unlisted(serde_json::from_str(text)?))
            }
            read => read,
        }
    }

    fn error(&mut self) -> Option<ErrorObject> {
        let error = ErrorObject::in_field(self.error.take());
        let is_itself = self.object.as_deref() == Some("error");
        error.or_else(|| self.base_resp.take()?.error()).or_else(|| {
            let Chunk { code, r#type, message, .. } = self;
            is_itself
                .then(|| ErrorObject(json!({"code": code, "type": r#type, "message": message})))
        })
    }
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
        let chunk = Chunk::read(&event.data).map_err(|err| {
            Fault::new(FaultKind::Cut, format!("a chunk is not the JSON it should be: {err}"))
        })?;
        self.chunk(chunk, progress)
    }

    fn chunk(&mut self, mut chunk: Chunk, progress: OnProgress<'_>) -> Result<(), Fault> {
        if let Some(error) = chunk.error() {
            return Err(error.fault());
        }
        self.chunks += 1;
        self.id = self.id.take().or(chunk.id.filter(|id| !id.is_empty()));
        if let Some(model) = chunk.model.filter(|_| self.model.is_empty()) {
            self.model = model;
        }
        // The last usage counts: some servers send running totals with every chunk.
        if chunk.usage.is_some() {
            self.usage = chunk.usage;
            self.is_counted = chunk.choices.as_ref().is_none_or(Vec::is_empty);
        }
        // The request asks for one choice; a server that sends more is not following it.
        for choice in
            chunk.choices.into_iter().flatten().filter(|it| it.index.is_none_or(|index| index == 0))
        {
            if let Some(error) = ErrorObject::in_field(choice.error) {
                return Err(error.fault());
            }
            if let Some(delta) = choice.delta {
                self.delta(delta, progress)?;
            }
            let finish = choice.finish_reason.filter(|it| !it.is_empty());
            // A document ends where it ends, also when its server (Snowflake) never says why.
            self.finish = finish
                .or_else(|| self.finish.take())
                .or_else(|| self.is_document.then(String::new));
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, progress: OnProgress<'_>) -> Result<(), Fault> {
        if let Some(text) = delta.content.as_ref().map(text_of).filter(|text| !text.is_empty()) {
            for told in self.splitter.push(&text) {
                self.push_segment(told, progress);
            }
        }
        if let Some(piece) = delta.refusal.as_ref().filter(|piece| !piece.is_empty()) {
            self.refusal.push_str(piece);
            progress(Progress::Text(piece));
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
            if self.is_document {
                self.calls.take_whole(call);
            } else {
                self.calls.take(call, self.chunks);
            }
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

    fn push_segment(&mut self, told: Segment, progress: OnProgress<'_>) {
        match told {
            Segment::Thought(piece) if !piece.is_empty() => {
                progress(Progress::Reasoning(&piece));
                self.marked.push_str(&piece);
            }
            // The blank lines between thoughts and words.
            Segment::Said(piece) if self.text.is_empty() && !self.marked.is_empty() => {
                let piece = piece.trim_start();
                if !piece.is_empty() {
                    progress(Progress::Text(piece));
                    self.text.push_str(piece);
                }
            }
            Segment::Said(piece) if !piece.is_empty() => {
                progress(Progress::Text(&piece));
                self.text.push_str(&piece);
            }
            Segment::Thought(_) | Segment::Said(_) => {}
        }
    }

    /// Takes what was held back at the end, and thoughts of which only the end was marked.
    fn settle_thoughts(&mut self, progress: OnProgress<'_>) {
        let rest = std::mem::take(&mut self.splitter).rest();
        self.push_segment(rest, progress);
        let has_thoughts = !(self.marked.is_empty() && self.thinking.is_empty());
        if !has_thoughts && let Some((thought, said)) = unopened(&self.text) {
            (self.marked, self.text) = (thought.to_owned(), said.to_owned());
        }
    }

    /// True when nothing more is to come. Usage follows the finish reason, so that one alone is not
    /// the end.
    pub fn is_complete(&self) -> bool {
        self.is_done
    }

    /// Bytes of calls so far.
    pub fn written(&self) -> usize {
        self.calls.written()
    }

    /// The reply is whole without a `finish_reason`, which Snowflake never sends: the usage of a whole reply comes
    /// behind it.
    fn is_whole(&self) -> bool {
        self.is_done && self.is_counted
    }

    /// The reply, or why there is none.
    pub fn finish(mut self, progress: OnProgress<'_>) -> Result<Reply, Fault> {
        self.settle_thoughts(progress);
        let reason = match self.finish.as_deref() {
            Some(reason) => reason,
            None if self.is_whole() => "",
            None => {
                let message = "the stream ended before its `finish_reason`";
                return Err(Fault::new(FaultKind::Cut, message));
            }
        };
        let usage = usage::usage(self.usage.as_ref());
        let stop = match finish::stop_reason(reason).map_err(|fault| fault.using(usage))? {
            StopReason::EndTurn if self.text.is_empty() && !self.refusal.is_empty() => {
                StopReason::Refusal
            }
            stop => stop,
        };
        let (id, model) = (self.id.clone(), self.model.clone());
        Ok(Reply { items: shape::bounded(self.items(stop))?, usage, stop, model, id })
    }

    fn items(self, stop: StopReason) -> Vec<Item> {
        let mut items = Vec::new();
        let is_plain = self.thinking.is_empty() && self.marked.trim().is_empty();
        if !(is_plain && self.details.is_empty() && self.blocks.is_empty()) {
            let mut fields = Map::new();
            // One form only: a gateway that sends several describes the same thoughts in each.
            if !self.details.is_empty() {
                fields.insert("reasoning_details".to_owned(), Value::Array(self.details));
            } else if !self.blocks.is_empty() {
                fields.insert("thinking_blocks".to_owned(), Value::Array(self.blocks));
            } else if let Some(field) = self.thinking_field {
                fields.insert(field.to_owned(), json!(self.thinking));
            }
            // Marked thoughts do not go back: chat templates leave them out of earlier replies.
            let thoughts = [self.thinking, self.marked.trim().to_owned()];
            let summary = thoughts.into_iter().filter(|thought| !thought.is_empty()).collect();
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
            for call in self.calls.finished(&reply) {
                shape::push_call(&mut items, call);
            }
        }
        if stop == StopReason::MalformedCall {
            items.push(finish::unreadable_call(self.finish.as_deref().unwrap_or_default()));
        }
        items
    }
}

pub(super) fn native(fields: Map<String, Value>) -> Option<Native> {
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

/// Decodes a whole completion, or an error object, that came without a stream.
pub fn decode_whole(body: &str) -> Result<Reply, Fault> {
    let mut chunk =
        Chunk::read(body).map_err(|_| Fault::malformed("a JSON document that is no completion"))?;
    if let Some(error) = chunk.error() {
        return Err(error.fault());
    }
    if chunk.choices.is_none() {
        return Err(Fault::malformed("a JSON document that is no completion"));
    }
    let mut decoder = Decoder { is_document: true, ..Decoder::default() };
    decoder.chunk(chunk, &|_| {})?;
    decoder.finish(&|_| {})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::item::{Item, Wire};
    use crate::wire::fault::FaultKind;
    use crate::wire::{self, Stream};
    use crate::{Progress, Reply};

    /// A stream of deltas, one a chunk.
    fn streamed(deltas: &[Value]) -> (Reply, String) {
        let text = parking_lot::Mutex::new(String::new());
        let progress = |progress: Progress<'_>| {
            if let Progress::Text(piece) = progress {
                text.lock().push_str(piece);
            }
        };
        let mut stream = Stream::new(Wire::Chat);
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let chunks = deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}));
        for chunk in chunks.chain([end]) {
            stream.push(format!("data: {chunk}\n\n").as_bytes(), &progress).unwrap();
        }
        let reply = stream.finish(&progress).unwrap();
        (reply, text.into_inner())
    }

    fn calls(reply: &Reply) -> Vec<(String, String)> {
        let call = |item: &Item| match item {
            Item::Call(call) => Some((call.name.clone(), call.payload.as_str().to_owned())),
            _ => None,
        };
        reply.items.iter().filter_map(call).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    fn call(more: &Value, name: &str, arguments: &Value) -> Value {
        let mut call =
            json!({"type": "function", "function": {"name": name, "arguments": arguments}});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    }

    /// What servers leave out of calls, or say the same in each.
    fn marks() -> Vec<Value> {
        vec![
            json!({}),
            json!({"id": ""}),
            json!({"index": 0}),
            json!({"index": 0, "id": ""}),
            json!({"index": 0, "id": "call_0"}),
            json!({"id": "call_0"}),
            json!({"index": null, "id": null}),
        ]
    }

    #[test]
    fn an_error_of_minimax_is_one_though_it_comes_as_an_answer() {
        let answer = |code: u64| {
            let told = json!({"status_code": code, "status_msg": "words"});
            wire::decode_whole(Wire::Chat, &json!({"choices": null, "base_resp": told}).to_string())
        };
        for (code, kind) in [
            (1000, FaultKind::Unavailable),
            (1002, FaultKind::RateLimited),
            (1004, FaultKind::Authentication),
            (1008, FaultKind::Quota),
            (1026, FaultKind::Filtered),
            (2013, FaultKind::Rejected(400)),
            (0, FaultKind::Malformed),
        ] {
            assert_eq!(answer(code).unwrap_err().kind, kind, "{code}");
        }
    }

    #[test]
    fn calls_that_nothing_but_their_arguments_tells_apart_are_all_there() {
        let wanted =
            pairs(&[("read", "{\"a\":1}"), ("read", "{\"a\":2}"), ("list", "{\"b\":\"}\"}")]);
        for mark in marks() {
            let text = |name: &str, text: &str| call(&mark, name, &json!(text));
            let whole = [("read", "{\"a\":1}"), ("read", "{\"a\":2}"), ("list", "{\"b\":\"}\"}")]
                .map(|(name, arguments)| text(name, arguments));
            let single: Vec<Value> = whole.iter().map(|it| json!({"tool_calls": [it]})).collect();
            let together = [json!({"tool_calls": whole})];
            let objects = [json!({"a": 1}), json!({"a": 2}), json!({"b": "}"})];
            let objects: Vec<Value> = ["read", "read", "list"]
                .iter()
                .zip(&objects)
                .map(|(name, object)| json!({"tool_calls": [call(&mark, name, object)]}))
                .collect();
            let pieces: Vec<Value> = [
                ("read", ""),
                ("", "{\"a\""),
                ("", ":1}"),
                ("read", "{\"a\":"),
                ("", "2}"),
                ("", ""),
                ("list", ""),
                ("", "{\"b\":\""),
                ("", "}\"}"),
            ]
            .iter()
            .map(|(name, arguments)| json!({"tool_calls": [text(name, arguments)]}))
            .collect();
            for deltas in [single.as_slice(), &together, &objects, &pieces] {
                assert_eq!(calls(&streamed(deltas).0), wanted, "{mark}: {deltas:?}");
            }
            let message = json!({"role": "assistant", "content": null, "tool_calls": whole});
            let document = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
            let reply = wire::decode_whole(Wire::Chat, &document.to_string()).unwrap();
            assert_eq!(calls(&reply), wanted, "{document}");
        }
    }

    #[test]
    fn a_name_that_is_said_again_begins_no_call() {
        let one = |name: &str, arguments: Value| json!({"tool_calls": [call(&json!({"index": 0}), name, &arguments)]});
        let rows = [
            vec![one("read", json!("{\"a\"")), one("read", json!(":1}")), one("read", json!(""))],
            vec![one("read", json!("")), one("read", json!("{\"a\":1}")), one("", json!(""))],
            vec![one("read", json!("{}")), one("", json!("{\"a\":1}"))],
            vec![one("read", json!({"a": 1})), one("", json!({"a": 1}))],
            vec![one("", json!("")), one("read", json!("{\"a\":1}"))],
        ];
        for deltas in rows {
            assert_eq!(calls(&streamed(&deltas).0), pairs(&[("read", "{\"a\":1}")]), "{deltas:?}");
        }
        // A call without arguments, and the next one.
        let deltas = [one("first", json!("")), one("read", json!("{\"a\":1}"))];
        assert_eq!(calls(&streamed(&deltas).0), pairs(&[("first", "{}"), ("read", "{\"a\":1}")]));
    }

    #[test]
    fn thoughts_in_the_text_are_no_message() {
        let said = |text: &str| json!({"content": text});
        let rows = [
            (
                vec![said("<think>"), said("Hm. </th"), said("ink>\n\n"), said("Done.")],
                "Hm.",
                "Done.",
                "Done.",
            ),
            (vec![said("Hm.\n</think>\n\nDone.")], "Hm.", "Done.", "Hm.\n</think>\n\nDone."),
            (vec![said("<think>Hm.</think>")], "Hm.", "", ""),
            (vec![said("The `</think>` tag.")], "", "The `</think>` tag.", "The `</think>` tag."),
        ];
        for (deltas, thought, message, shown) in rows {
            let (reply, text) = streamed(&deltas);
            let summary: String = reply
                .items
                .iter()
                .filter_map(|item| match item {
                    Item::Reasoning(thought) => Some(thought.summary.concat()),
                    _ => None,
                })
                .collect();
            assert_eq!((summary.trim(), reply.text().as_str()), (thought, message), "{deltas:?}");
            assert_eq!(text, shown, "{deltas:?}");
        }
        let named = [json!({"reasoning_content": "Hm."}), said("a\n</think>\nb")];
        assert_eq!(streamed(&named).0.text(), "a\n</think>\nb");
    }

    #[test]
    fn a_wrong_type_of_what_nobody_needs_loses_no_reply() {
        let function = json!({"name": "read", "arguments": "{}"});
        let message = json!({
            "content": "Done.", "refusal": false, "reasoning_details": "x", "thinking_blocks": {},
            "reasoning_content": [], "tool_calls": [{"id": 1, "index": "0", "function": function}],
        });
        let body = json!({
            "id": 12, "model": ["m"], "object": 1, "error": false, "message": {}, "type": 1,
            "choices": [{"index": null, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": 10.0, "completion_tokens": "5", "prompt_cache_hit_tokens": -1,
                "prompt_tokens_details": 0, "completion_tokens_details": {"reasoning_tokens": "x"},
            },
        });
        let reply = wire::decode_whole(Wire::Chat, &body.to_string()).unwrap();
        assert_eq!((reply.id.as_deref(), reply.text().as_str()), (Some("12"), "Done."));
        assert_eq!(reply.items.len(), 2, "{:?}", reply.items);
        assert_eq!((reply.usage.input, reply.usage.output, reply.usage.estimated), (10, 5, false));
        for usage in [json!("x"), json!({"prompt_tokens": -1, "completion_tokens": 5})] {
            let mut body = body.clone();
            body["usage"] = usage;
            let reply = wire::decode_whole(Wire::Chat, &body.to_string()).unwrap();
            assert!(reply.usage.estimated && reply.usage.input == 0, "{:?}", reply.usage);
        }
    }
}
