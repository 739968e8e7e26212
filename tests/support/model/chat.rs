//! A turn as Chat Completions streams it. Asked for one of OpenAI's models it keeps its thoughts to
//! itself, as OpenAI does; any other name stands for a compatible server, which sends them as
//! `reasoning_content`.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::Asked;
use super::turn::{Answer, Finale, Part, Turn, first_half, pieces};

/// Whether a model of this name runs at OpenAI.
pub(super) fn is_openai(model: &str) -> bool {
    ["gpt-", "chatgpt-", "o1", "o3", "o4"].iter().any(|prefix| model.starts_with(prefix))
}

pub(super) fn events(turn: &Turn, asked: &Asked) -> Answer {
    let wants_usage = asked.body["stream_options"]["include_usage"] == true;
    let mut writer = Writer { asked, wants_usage, chunks: Vec::new() };
    let is_call = |part: &Part| matches!(part, Part::Function(..) | Part::Custom(..));
    let calls = turn.parts.iter().any(is_call);
    let mut message = json!({"role": "assistant", "content": null});
    let begins = if calls { Value::Null } else { json!("") };
    writer.delta(json!({"role": "assistant", "content": begins, "refusal": null}));
    if let Some(thought) = turn.thought.as_deref().filter(|_| !is_openai(&asked.model)) {
        for piece in pieces(thought) {
            writer.delta(json!({"reasoning_content": piece}));
        }
        message["reasoning_content"] = json!(thought);
    }
    for (position, part) in turn.parts.iter().enumerate() {
        writer.part(&mut message, part, turn.cuts(position), position);
    }
    match &turn.finale {
        Finale::Completed => {
            writer.finish(if calls { "tool_calls" } else { "stop" }, turn);
        }
        Finale::Incomplete(reason) => {
            let reason = if reason == "max_output_tokens" { "length" } else { reason };
            writer.finish(reason, turn);
        }
        Finale::Failed { code, message } => {
            let error = json!({"message": message, "type": code, "param": null, "code": code});
            writer.data(&json!({"error": error}));
        }
        Finale::Error(data) => writer.data(data),
        // Said as a failure by now.
        Finale::Overflow | Finale::None => {}
    }
    Answer { chunks: writer.chunks, items: vec![message] }
}

struct Writer<'a> {
    asked: &'a Asked,
    wants_usage: bool,
    chunks: Vec<Bytes>,
}

impl Writer<'_> {
    fn data(&mut self, data: &Value) {
        self.chunks.push(Bytes::from(format!("data: {data}\n\n")));
    }

    fn chunk(&mut self, choices: &Value, usage: Option<Value>) {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.asked.number), "object": "chat.completion.chunk",
            "created": 1_790_000_000, "model": self.asked.model, "service_tier": "default",
            "system_fingerprint": "fp_1f0c", "choices": choices,
        });
        if self.wants_usage {
            chunk["usage"] = usage.unwrap_or(Value::Null);
        }
        chunk["obfuscation"] = json!("x".repeat(self.chunks.len() % 7));
        self.data(&chunk);
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers build it on the spot")]
    fn delta(&mut self, delta: Value) {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        self.chunk(&json!([choice]), None);
    }

    fn part(&mut self, message: &mut Value, part: &Part, is_cut: bool, position: usize) {
        match part {
            Part::Text(text) => {
                self.words("content", text);
                let before = message["content"].as_str().unwrap_or_default();
                message["content"] = json!(format!("{before}{text}"));
            }
            Part::Refusal(text) => {
                self.words("refusal", text);
                message["refusal"] = json!(text);
            }
            Part::Function(name, args) => self.call(message, position, name, args, is_cut),
            Part::Custom(name, input) if self.takes_free_text(name) => {
                self.free_text(message, position, name, input);
            }
            Part::Custom(name, input) => {
                let args = json!({self.only_argument(name): input}).to_string();
                self.call(message, position, name, &args, is_cut);
            }
            Part::Item(_) => panic!("Chat Completions has no items"),
        }
    }

    fn takes_free_text(&self, name: &str) -> bool {
        let tools = self.asked.body["tools"].as_array();
        tools.into_iter().flatten().any(|tool| tool["custom"]["name"] == name)
    }

    /// What the function calls its text: the first argument that it must have.
    fn only_argument(&self, name: &str) -> String {
        let tools = self.asked.body["tools"].as_array().into_iter().flatten();
        let declared = tools.map(|tool| &tool["function"]).find(|tool| tool["name"] == name);
        let argument = declared.and_then(|tool| tool["parameters"]["required"][0].as_str());
        argument.unwrap_or("input").to_owned()
    }

    fn words(&mut self, field: &str, text: &str) {
        for piece in pieces(text) {
            self.delta(json!({field: piece}));
        }
    }

    /// Id, type and name come once; the arguments follow by index.
    fn call(&mut self, message: &mut Value, position: usize, name: &str, args: &str, cut: bool) {
        let id = format!("call_{}_{position}", self.asked.number);
        let index = list_of_calls(message).len();
        let begun = json!({"name": name, "arguments": ""});
        self.delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": begun}]}));
        let sent = if cut { first_half(args) } else { args.to_owned() };
        for piece in pieces(&sent) {
            self.delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
        let function = json!({"name": name, "arguments": sent});
        list_of_calls(message).push(json!({"id": id, "type": "function", "function": function}));
    }

    fn free_text(&mut self, message: &mut Value, position: usize, name: &str, input: &str) {
        let id = format!("call_{}_{position}", self.asked.number);
        let index = list_of_calls(message).len();
        let begun = json!({"name": name, "input": ""});
        self.delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "custom", "custom": begun}]}),
        );
        for piece in pieces(input) {
            self.delta(json!({"tool_calls": [{"index": index, "custom": {"input": piece}}]}));
        }
        let custom = json!({"name": name, "input": input});
        list_of_calls(message).push(json!({"id": id, "type": "custom", "custom": custom}));
    }

    /// The reason, then usage on a chunk without choices, then the end mark.
    fn finish(&mut self, reason: &str, turn: &Turn) {
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason});
        self.chunk(&json!([choice]), None);
        if let Some(tokens) = turn.tokens().filter(|_| self.wants_usage) {
            let usage = json!({
                "prompt_tokens": tokens.input, "completion_tokens": tokens.output,
                "total_tokens": tokens.input + tokens.output,
                "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": tokens.reasoning, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
                },
            });
            self.chunk(&json!([]), Some(usage));
        }
        self.chunks.push(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

fn list_of_calls(message: &mut Value) -> &mut Vec<Value> {
    let fields = message.as_object_mut().unwrap();
    let calls = fields.entry("tool_calls").or_insert_with(|| json!([]));
    calls.as_array_mut().unwrap()
}
