//! A turn as OpenAI Responses streams it: every event in order, numbered, with padding, encrypted
//! reasoning, phases and usage.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::Asked;
use super::turn::{Answer, Finale, Part, Turn, first_half, pieces};

pub(super) fn events(turn: &Turn, asked: &Asked) -> Answer {
    let mut writer = Writer { sequence: 0, chunks: Vec::new() };
    let response = |status: &str, output: &[Value], more: Value| {
        let mut response = json!({
            "id": format!("resp_{}", asked.number), "object": "response",
            "created_at": 1_790_000_000, "status": status, "error": null,
            "incomplete_details": null, "model": asked.model, "output": output,
            "parallel_tool_calls": true, "store": false, "usage": null,
        });
        for (key, value) in more.as_object().unwrap() {
            response[key] = value.clone();
        }
        response
    };
    let begun = response("in_progress", &[], json!({}));
    writer.event("response.created", json!({"response": begun}));
    writer.event("response.in_progress", json!({"response": begun}));
    let items = writer.items(turn, asked.number);
    let usage = json!({"usage": turn.raw_usage()});
    match &turn.finale {
        Finale::Completed => {
            let whole = response("completed", &items, usage);
            writer.event("response.completed", json!({"response": whole}));
        }
        Finale::Incomplete(reason) => {
            let mut more = usage;
            more["incomplete_details"] = json!({"reason": reason});
            let whole = response("incomplete", &items, more);
            writer.event("response.incomplete", json!({"response": whole}));
        }
        Finale::Failed { code, message } => {
            let error = json!({"error": {"code": code, "message": message}});
            let whole = response("failed", &[], error);
            writer.event("response.failed", json!({"response": whole}));
        }
        Finale::Error(data) => writer.event("error", data.clone()),
        // Said as a failure by now.
        Finale::Overflow | Finale::None => {}
    }
    Answer { chunks: writer.chunks, items }
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

    fn items(&mut self, turn: &Turn, number: usize) -> Vec<Value> {
        let mut items = Vec::new();
        if let Some(thought) = &turn.thought {
            items.push(self.reasoning(number, thought));
        }
        let is_words = |part: &Part| matches!(part, Part::Text(_) | Part::Refusal(_));
        let calls = !turn.parts.iter().all(is_words);
        for (position, part) in turn.parts.iter().enumerate() {
            let index = items.len();
            let id = format!("{number}_{index}");
            let whole = !turn.cuts(position);
            items.push(match part {
                Part::Text(text) => self.message(index, &id, text, calls),
                Part::Refusal(text) => self.refusal(index, &id, text),
                Part::Function(name, args) if whole => self.function(index, &id, name, args, whole),
                Part::Function(name, args) => {
                    self.function(index, &id, name, &first_half(args), whole)
                }
                Part::Custom(name, input) => self.custom(index, &id, name, input),
                Part::Item(value) => self.whole(index, value),
            });
        }
        items
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
        for piece in pieces(text) {
            let mut data = position.clone();
            data["delta"] = json!(piece);
            data["obfuscation"] = json!("x".repeat(piece.len() % 7));
            self.event(kind, data);
        }
    }

    fn reasoning(&mut self, number: usize, thought: &str) -> Value {
        let id = format!("rs_{number}");
        let summary = json!({"type": "summary_text", "text": thought});
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
            writer.deltas("response.reasoning_summary_text.delta", &position, thought);
            writer.event("response.reasoning_summary_text.done", with("text", json!(thought)));
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

    fn refusal(&mut self, index: usize, id: &str, text: &str) -> Value {
        let id = format!("msg_{id}");
        let part = |text: &str| json!({"type": "refusal", "refusal": text});
        let message = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "phase": "final_answer", "content": content});
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
            writer.deltas("response.refusal.delta", &position, text);
            writer.event("response.refusal.done", with("refusal", json!(text)));
            writer.event("response.content_part.done", with("part", part(text)));
        })
    }

    fn function(
        &mut self,
        index: usize,
        id: &str,
        name: &str,
        args: &str,
        is_whole: bool,
    ) -> Value {
        let ends = if is_whole { "completed" } else { "incomplete" };
        let item_id = format!("fc_{id}");
        let item = |status: &str, args: &str| json!({"id": item_id, "type": "function_call", "status": status, "arguments": args, "call_id": format!("call_{id}"), "name": name});
        self.item(index, item("in_progress", ""), item(ends, args), |writer| {
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
