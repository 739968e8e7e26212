//! A turn as Anthropic's Messages streams it: one content block after the other, thinking with its
//! signature, pings in between, usage at both ends.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::Asked;
use super::fault::{anthropic_type, status_of};
use super::turn::{Answer, Finale, Part, Tokens, Turn, first_half, pieces};

pub(super) fn events(turn: &Turn, asked: &Asked) -> Answer {
    let mut writer = Writer { number: asked.number, chunks: Vec::new(), blocks: Vec::new() };
    writer.start(turn, asked);
    let shown = if asked.body["thinking"]["display"] == "omitted" { "" } else { "all" };
    if let Some(thought) = turn.thought.as_deref().filter(|_| thinks(asked)) {
        writer.thinking(if shown.is_empty() { "" } else { thought });
    }
    for (position, part) in turn.parts.iter().enumerate() {
        writer.part(part, turn.cuts(position));
    }
    let is_call = |part: &Part| matches!(part, Part::Function(..) | Part::Custom(..));
    let refusal = turn.parts.iter().find_map(|part| match part {
        Part::Refusal(text) => Some(text),
        _ => None,
    });
    match &turn.finale {
        Finale::Completed => {
            let calls = turn.parts.iter().any(is_call);
            let reason = if calls { "tool_use" } else { "end_turn" };
            let reason = if refusal.is_some() { "refusal" } else { reason };
            writer.finish(reason, refusal, turn);
        }
        Finale::Incomplete(reason) => {
            let reason = match reason.as_str() {
                "max_output_tokens" => "max_tokens",
                "content_filter" => "refusal",
                other => other,
            };
            let why = "Stopped by a safety system.".to_owned();
            writer.finish(reason, (reason == "refusal").then_some(&why), turn);
        }
        Finale::Failed { code, message } => {
            let kind = anthropic_type(status_of(code));
            let error = json!({"type": kind, "message": message});
            let request = format!("req_{:024}", asked.number);
            writer.event("error", json!({"error": error, "request_id": request}));
        }
        Finale::Error(data) => writer.event("error", data.clone()),
        // Said as a failure by now.
        Finale::Overflow | Finale::None => {}
    }
    Answer { chunks: writer.chunks, items: writer.blocks }
}

/// Whether the request lets the model think. Adaptive thinking is on when nothing is said; models
/// of the generation before think only on a budget.
fn thinks(asked: &Asked) -> bool {
    match asked.body["thinking"]["type"].as_str() {
        Some("disabled") => false,
        Some(_) => true,
        None => !["-4-5", "-4-6", "-4-7", "-4-8"].iter().any(|age| asked.model.ends_with(age)),
    }
}

struct Writer {
    number: usize,
    chunks: Vec<Bytes>,
    /// What the client has to send back.
    blocks: Vec<Value>,
}

impl Writer {
    #[expect(clippy::needless_pass_by_value, reason = "callers build it on the spot")]
    fn event(&mut self, kind: &str, data: Value) {
        let mut whole = json!({"type": kind});
        for (key, value) in data.as_object().unwrap() {
            whole[key] = value.clone();
        }
        self.chunks.push(Bytes::from(format!("event: {kind}\ndata: {whole}\n\n")));
    }

    fn start(&mut self, turn: &Turn, asked: &Asked) {
        let mut usage = turn.tokens().map_or_else(|| json!({}), |tokens| usage(&tokens));
        usage["output_tokens"] = json!(1);
        let message = json!({
            "id": format!("msg_{:020}", self.number), "type": "message", "role": "assistant",
            "model": asked.model, "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": usage,
        });
        self.event("message_start", json!({"message": message}));
    }

    fn begin(&mut self, block: &Value) -> usize {
        let index = self.blocks.len();
        self.event("content_block_start", json!({"index": index, "content_block": block}));
        if index == 0 {
            self.event("ping", json!({}));
        }
        index
    }

    fn deltas(&mut self, index: usize, kind: &str, field: &str, text: &str) {
        for (count, piece) in pieces(text).into_iter().enumerate() {
            let delta = json!({"type": kind, field: piece});
            self.event("content_block_delta", json!({"index": index, "delta": delta}));
            if count == 4 {
                self.event("ping", json!({}));
            }
        }
    }

    fn end(&mut self, index: usize, block: Value) {
        self.event("content_block_stop", json!({"index": index}));
        self.blocks.push(block);
    }

    fn thinking(&mut self, thought: &str) {
        let signature = format!("EqQBCkYIBhgCKkD{:04}c2VhbGVk", self.number);
        let index = self.begin(&json!({"type": "thinking", "thinking": "", "signature": ""}));
        self.deltas(index, "thinking_delta", "thinking", thought);
        let delta = json!({"type": "signature_delta", "signature": signature});
        self.event("content_block_delta", json!({"index": index, "delta": delta}));
        self.end(index, json!({"type": "thinking", "thinking": thought, "signature": signature}));
    }

    fn part(&mut self, part: &Part, is_cut: bool) {
        match part {
            Part::Text(text) => {
                let index = self.begin(&json!({"type": "text", "text": ""}));
                self.deltas(index, "text_delta", "text", text);
                self.end(index, json!({"type": "text", "text": text}));
            }
            Part::Function(name, args) => self.call(name, args, is_cut),
            Part::Custom(name, input) => {
                self.call(name, &json!({"input": input}).to_string(), is_cut);
            }
            // The reason to stop says it.
            Part::Refusal(_) => {}
            Part::Item(block) => {
                let index = self.begin(block);
                self.end(index, block.clone());
            }
        }
    }

    /// The input is whole only when the block has stopped; cut by the limit it stops all the same.
    fn call(&mut self, name: &str, args: &str, is_cut: bool) {
        let id = format!("toolu_{:02}_{:02}", self.number, self.blocks.len());
        let begun = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let index = self.begin(&begun);
        let first = json!({"type": "input_json_delta", "partial_json": ""});
        self.event("content_block_delta", json!({"index": index, "delta": first}));
        let sent = if is_cut { first_half(args) } else { args.to_owned() };
        self.deltas(index, "input_json_delta", "partial_json", &sent);
        let mut block = begun;
        block["input"] = serde_json::from_str(&sent).unwrap_or(Value::Null);
        self.end(index, block);
    }

    fn finish(&mut self, reason: &str, refusal: Option<&String>, turn: &Turn) {
        let mut delta = json!({"stop_reason": reason, "stop_sequence": null});
        if let Some(why) = refusal {
            delta["stop_details"] =
                json!({"type": "refusal", "category": "cyber", "explanation": why});
        }
        let usage = turn.tokens().map_or_else(|| json!({}), |tokens| usage(&tokens));
        self.event("message_delta", json!({"delta": delta, "usage": usage}));
        self.event("message_stop", json!({}));
    }
}

/// `input_tokens` leaves out what was read from the cache.
fn usage(tokens: &Tokens) -> Value {
    json!({
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        "service_tier": "standard",
    })
}
