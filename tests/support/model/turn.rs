//! One scripted answer, and the events that the real API would send for it.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};

/// One answer of the script. [`Turn::and`] joins what belongs to one reply.
#[derive(Clone)]
pub struct Turn {
    pub(super) shape: Shape,
    pub(super) ending: Ending,
    parts: Vec<Part>,
    finale: Finale,
    reasons: bool,
    usage: Option<Value>,
    /// The share of the events' bytes that is sent.
    share: f64,
}

#[derive(Clone)]
pub(super) enum Shape {
    Stream,
    Error { status: u16, headers: Vec<(String, String)>, body: String },
    Raw { chunks: Vec<Bytes>, headers: Vec<(String, String)> },
}

#[derive(Clone)]
pub(super) enum Ending {
    Proper,
    /// The connection is torn down.
    Cut,
    /// Nothing more comes.
    Stall,
    /// Byte by byte, with this pause.
    Drip(Duration),
}

#[derive(Clone)]
enum Part {
    Text(String),
    Function(String, String),
    Custom(String, String),
    Item(Value),
}

#[derive(Clone)]
enum Finale {
    Completed,
    Incomplete(String),
    Failed { code: String, message: String },
    Error(Value),
    None,
}

/// What is sent for a turn.
pub(super) struct Answer {
    pub(super) chunks: Vec<Bytes>,
    /// The finished items, as the client must send them back.
    pub(super) items: Vec<Value>,
}

fn turn(parts: Vec<Part>) -> Turn {
    Turn {
        shape: Shape::Stream,
        ending: Ending::Proper,
        parts,
        finale: Finale::Completed,
        reasons: true,
        usage: Some(json!({
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 600},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 1050,
        })),
        share: 1.0,
    }
}

/// The model says something.
pub fn say(text: impl Into<String>) -> Turn {
    turn(vec![Part::Text(text.into())])
}

/// The model calls a function tool.
pub fn call(name: &str, args: Value) -> Turn {
    let args = match args {
        Value::String(text) => text,
        other => other.to_string(),
    };
    turn(vec![Part::Function(name.to_owned(), args)])
}

/// The model calls a custom (free text) tool.
pub fn custom(name: &str, input: &str) -> Turn {
    turn(vec![Part::Custom(name.to_owned(), input.to_owned())])
}

/// The model makes this item, given as the API would.
pub fn item(value: Value) -> Turn {
    turn(vec![Part::Item(value)])
}

/// An error answer with the API's body.
pub fn fail(status: u16, code: &str, message: &str) -> Turn {
    let body = json!({"error": {"message": message, "type": code, "param": null, "code": code}});
    fail_raw(status, body.to_string())
}

/// An error answer with any body.
pub fn fail_raw(status: u16, body: impl Into<String>) -> Turn {
    let shape = Shape::Error { status, headers: Vec::new(), body: body.into() };
    Turn { shape, ..turn(Vec::new()) }
}

/// A login page with status 200.
pub fn html() -> Turn {
    let page = "<!DOCTYPE html><html><body>Please log in</body></html>";
    fail_raw(200, page).header("content-type", "text/html")
}

/// Half a reply, in the middle of a call's arguments, then a torn connection.
pub fn cut() -> Turn {
    Turn { ending: Ending::Cut, share: 0.6, ..half() }
}

/// Everything but the final event; the body ends properly.
pub fn no_final() -> Turn {
    Turn { finale: Finale::None, ..half() }
}

/// The first half of a reply, then silence.
pub fn stall() -> Turn {
    Turn { ending: Ending::Stall, share: 0.5, ..half() }
}

/// A whole reply, one byte each `pause`.
pub fn drip(pause: Duration) -> Turn {
    Turn { ending: Ending::Drip(pause), ..half() }
}

fn half() -> Turn {
    say("I will start with").and(call("shell_command", json!({"command": "touch half-received"})))
}

/// A reply that ends in `response.incomplete`.
pub fn incomplete(reason: &str) -> Turn {
    Turn { finale: Finale::Incomplete(reason.to_owned()), ..half() }
}

/// A reply that ends in `response.failed`.
pub fn failed(code: &str, message: &str) -> Turn {
    let finale = Finale::Failed { code: code.to_owned(), message: message.to_owned() };
    Turn { finale, ..say("half") }
}

/// A reply that ends in an `error` event with this data (`type` and `sequence_number` are added).
pub fn error_event(data: Value) -> Turn {
    Turn { finale: Finale::Error(data), ..say("half") }
}

/// These bytes as the stream.
pub fn raw_stream(chunks: impl IntoIterator<Item = impl Into<Bytes>>) -> Turn {
    let chunks = chunks.into_iter().map(Into::into).collect();
    Turn { shape: Shape::Raw { chunks, headers: Vec::new() }, ..turn(Vec::new()) }
}

impl Turn {
    /// The same reply goes on with what `other` has.
    #[must_use]
    pub fn and(mut self, other: Turn) -> Turn {
        self.parts.extend(other.parts);
        self
    }

    /// Adds a header to an error answer or a raw stream.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Turn {
        match &mut self.shape {
            Shape::Error { headers, .. } | Shape::Raw { headers, .. } => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            Shape::Stream => panic!("only error answers and raw streams take headers"),
        }
        self
    }

    /// Other usage than the usual; `None` sends `null`.
    #[must_use]
    pub fn usage(mut self, usage: Option<Value>) -> Turn {
        self.usage = usage;
        self
    }

    /// Without the reasoning item that replies begin with.
    #[must_use]
    pub fn without_reasoning(mut self) -> Turn {
        self.reasons = false;
        self
    }

    /// The whole stream of this turn as bytes, for fixtures and decoder tests.
    pub fn bytes(&self) -> Vec<u8> {
        self.events(1, "gpt-5.3-codex").chunks.concat()
    }

    /// The events of the turn that answers request `number`.
    pub(super) fn events(&self, number: usize, model: &str) -> Answer {
        let mut writer = Writer { sequence: 0, chunks: Vec::new() };
        let response = |status: &str, output: &[Value], more: Value| {
            let mut response = json!({
                "id": format!("resp_{number}"), "object": "response", "created_at": 1_790_000_000,
                "status": status, "error": null, "incomplete_details": null, "model": model,
                "output": output, "parallel_tool_calls": true, "store": false, "usage": null,
            });
            for (key, value) in more.as_object().unwrap() {
                response[key] = value.clone();
            }
            response
        };
        let begun = response("in_progress", &[], json!({}));
        writer.event("response.created", json!({"response": begun}));
        writer.event("response.in_progress", json!({"response": begun}));
        let mut items = Vec::new();
        if self.reasons {
            items.push(writer.reasoning(number));
        }
        let calls = self.parts.iter().any(|part| !matches!(part, Part::Text(_)));
        for part in &self.parts {
            let index = items.len();
            let id = format!("{number}_{index}");
            items.push(match part {
                Part::Text(text) => writer.message(index, &id, text, calls),
                Part::Function(name, args) => writer.function(index, &id, name, args),
                Part::Custom(name, input) => writer.custom(index, &id, name, input),
                Part::Item(value) => writer.whole(index, value),
            });
        }
        let usage = json!({"usage": self.usage});
        match &self.finale {
            Finale::Completed => {
                let whole = response("completed", &items, usage);
                writer.event("response.completed", json!({"response": whole}));
            }
            Finale::Incomplete(reason) => {
                let more = json!({"usage": self.usage, "incomplete_details": {"reason": reason}});
                let whole = response("incomplete", &items, more);
                writer.event("response.incomplete", json!({"response": whole}));
            }
            Finale::Failed { code, message } => {
                let error = json!({"error": {"code": code, "message": message}});
                let whole = response("failed", &[], error);
                writer.event("response.failed", json!({"response": whole}));
            }
            Finale::Error(data) => writer.event("error", data.clone()),
            Finale::None => {}
        }
        Answer { chunks: share(writer.chunks, self.share), items }
    }
}

/// The first part of the chunks, by bytes.
fn share(chunks: Vec<Bytes>, share: f64) -> Vec<Bytes> {
    if share >= 1.0 {
        return chunks;
    }
    let total: usize = chunks.iter().map(Bytes::len).sum();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few kilobytes"
    )]
    let mut left = (total as f64 * share) as usize;
    let mut kept = Vec::new();
    for chunk in chunks {
        let length = chunk.len().min(left);
        left -= length;
        kept.push(chunk.slice(..length));
    }
    kept.retain(|chunk| !chunk.is_empty());
    kept
}

struct Writer {
    sequence: u64,
    chunks: Vec<Bytes>,
}

impl Writer {
    fn event(&mut self, kind: &str, data: Value) {
        let mut whole = json!({"type": kind, "sequence_number": self.sequence});
        let Value::Object(fields) = data else { panic!("event data is an object") };
        for (key, value) in fields {
            whole[key] = value;
        }
        self.sequence += 1;
        self.chunks.push(Bytes::from(format!("event: {kind}\ndata: {whole}\n\n")));
    }

    /// An item around its deltas.
    #[expect(clippy::needless_pass_by_value, reason = "callers build it on the spot")]
    fn item(
        &mut self,
        index: usize,
        begun: Value,
        done: Value,
        between: impl FnOnce(&mut Writer),
    ) -> Value {
        self.event("response.output_item.added", json!({"output_index": index, "item": begun}));
        between(self);
        self.event("response.output_item.done", json!({"output_index": index, "item": done}));
        done
    }

    fn deltas(&mut self, kind: &str, position: &Value, text: &str) {
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(12) {
            let mut data = position.clone();
            data["delta"] = json!(piece.iter().collect::<String>());
            data["obfuscation"] = json!("x".repeat(piece.len() % 7));
            self.event(kind, data);
        }
    }

    fn reasoning(&mut self, number: usize) -> Value {
        let id = format!("rs_{number}");
        let summary = json!({"type": "summary_text", "text": "**Thinking**"});
        let begun =
            json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": "gAAA"});
        let sealed = format!("gAAAAAB{number}-sealed-thought");
        let done = json!({"id": id, "type": "reasoning", "summary": [summary], "encrypted_content": sealed});
        self.item(0, begun, done, |writer| {
            let position = json!({"item_id": id, "output_index": 0, "summary_index": 0});
            let with = |key: &str, value: Value| {
                let mut data = position.clone();
                data[key] = value;
                data
            };
            let empty = json!({"type": "summary_text", "text": ""});
            writer.event("response.reasoning_summary_part.added", with("part", empty));
            writer.deltas("response.reasoning_summary_text.delta", &position, "**Thinking**");
            writer
                .event("response.reasoning_summary_text.done", with("text", json!("**Thinking**")));
            writer.event("response.reasoning_summary_part.done", with("part", summary.clone()));
        })
    }

    fn message(&mut self, index: usize, id: &str, text: &str, calls: bool) -> Value {
        let id = format!("msg_{id}");
        let phase = if calls { "commentary" } else { "final_answer" };
        let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
        let message = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "phase": phase, "content": content});
        let (begun, done) =
            (message("in_progress", json!([])), message("completed", json!([part(text)])));
        self.item(index, begun, done, |writer| {
            let position = json!({"item_id": id, "output_index": index, "content_index": 0});
            let with = |key: &str, value: Value| {
                let mut data = position.clone();
                data[key] = value;
                data
            };
            writer.event("response.content_part.added", with("part", part("")));
            writer.deltas("response.output_text.delta", &position, text);
            writer.event("response.output_text.done", with("text", json!(text)));
            writer.event("response.content_part.done", with("part", part(text)));
        })
    }

    fn function(&mut self, index: usize, id: &str, name: &str, args: &str) -> Value {
        let item_id = format!("fc_{id}");
        let item = |status: &str, args: &str| json!({"id": item_id, "type": "function_call", "status": status, "arguments": args, "call_id": format!("call_{id}"), "name": name});
        self.item(index, item("in_progress", ""), item("completed", args), |writer| {
            let position = json!({"item_id": item_id, "output_index": index});
            writer.deltas("response.function_call_arguments.delta", &position, args);
            let mut done = position.clone();
            done["arguments"] = json!(args);
            writer.event("response.function_call_arguments.done", done);
        })
    }

    fn custom(&mut self, index: usize, id: &str, name: &str, input: &str) -> Value {
        let item_id = format!("ctc_{id}");
        let item = |status: &str, input: &str| json!({"id": item_id, "type": "custom_tool_call", "status": status, "call_id": format!("call_{id}"), "input": input, "name": name});
        self.item(index, item("in_progress", ""), item("completed", input), |writer| {
            let position = json!({"item_id": item_id, "output_index": index});
            writer.deltas("response.custom_tool_call_input.delta", &position, input);
            let mut done = position.clone();
            done["input"] = json!(input);
            writer.event("response.custom_tool_call_input.done", done);
        })
    }

    fn whole(&mut self, index: usize, value: &Value) -> Value {
        self.item(index, value.clone(), value.clone(), |_| {})
    }
}
