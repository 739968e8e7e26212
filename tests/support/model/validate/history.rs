//! Requests of one run extend each other, so that prompt caches hit: everything but the conversation
//! stays, and the conversation only grows.
//!
//! Runs that share a server are told apart by the cache key where the wire has one. Where it has
//! none, a conversation in which the model has not spoken yet may be a new run; any other has to
//! extend one that is known.

use patchwright_provider::item::Wire;
use serde_json::{Map, Value, json};

use super::super::Asked;
use super::{list, text};

/// The last request of each run.
#[derive(Default)]
pub(super) struct Heads(Vec<Head>);

struct Head {
    wire: Wire,
    model: String,
    key: String,
    /// Everything but the conversation.
    frame: Value,
    /// The conversation in its smallest pieces.
    entries: Vec<Value>,
}

impl Head {
    fn new(asked: &Asked) -> Head {
        let (wire, body) = (asked.wire, &asked.body);
        let mut frame = body.clone();
        if let Some(fields) = frame.as_object_mut() {
            fields.shift_remove(conversation(wire));
        }
        if wire == Wire::Messages {
            unmark(&mut frame["system"]);
            unmark(&mut frame["tools"]);
            frame.as_object_mut().into_iter().for_each(|fields| {
                fields.retain(|_, value| !value.is_null());
            });
        }
        let key = text(body, "prompt_cache_key").to_owned();
        Head { wire, model: asked.model.clone(), key, frame, entries: entries(wire, body) }
    }

    fn shared(&self, other: &Head) -> usize {
        let pairs = self.entries.iter().zip(&other.entries);
        let same = pairs.take_while(|(one, other)| one == other).count();
        // The last message may have grown: neighbours of one role are one message on the Chat wire.
        let has_grown = same + 1 == self.entries.len()
            && other.entries.get(same).is_some_and(|now| extends(&self.entries[same], now));
        same + usize::from(has_grown)
    }

    fn is_first(&self) -> bool {
        let of_model = |entry: &Value| {
            let role = text(entry, "role");
            let kind = text(entry, "type");
            role == "assistant" || role == "model" || kind.ends_with("_call") || kind == "reasoning"
        };
        !self.entries.iter().any(of_model)
    }
}

impl Heads {
    /// Takes the next request; what is wrong with it as the next one of its run.
    pub(super) fn advance(&mut self, asked: &Asked) -> Vec<String> {
        let head = Head::new(asked);
        let same_run = |known: &Head| {
            (known.wire, &known.model, &known.key) == (head.wire, &head.model, &head.key)
        };
        let best = (0..self.0.len())
            .filter(|at| same_run(&self.0[*at]))
            .max_by_key(|at| (self.0[*at].shared(&head), *at));
        let Some(at) = best else {
            self.0.push(head);
            return Vec::new();
        };
        let problems = differences(&self.0[at], &head);
        if !problems.is_empty() && head.key.is_empty() && head.is_first() {
            self.0.push(head);
            return Vec::new();
        }
        self.0[at] = head;
        problems
    }
}

fn differences(before: &Head, now: &Head) -> Vec<String> {
    let mut problems = Vec::new();
    let empty = Map::new();
    let (old, new) =
        (before.frame.as_object().unwrap_or(&empty), now.frame.as_object().unwrap_or(&empty));
    for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
        // Notes and last words are asked for without tools.
        let asks_for_words = ["tool_choice", "toolConfig"].contains(&name.as_str())
            && new.get(name).is_some_and(|it| it.to_string().to_lowercase().contains("\"none\""));
        let is_about_result = asks_for_result(new) || asks_for_result(old);
        if old.get(name) != new.get(name) && !asks_for_words && !is_about_result {
            problems.push(format!("`{name}` differs from the request before"));
        }
    }
    let shared = before.shared(now);
    if shared < before.entries.len() {
        let name = conversation(now.wire);
        problems
            .push(format!("`{name}` does not extend the request before, from item {shared} on"));
    }
    problems
}

/// The work is over: the reply is bound to a form, in whichever way the protocol has.
fn asks_for_result(fields: &Map<String, Value>) -> bool {
    let has = |name: &str, pointer: &str| {
        fields.get(name).is_some_and(|field| field.pointer(pointer).is_some())
    };
    let tools = fields.get("tools").is_some_and(|tools| tools.to_string().contains("give_result"));
    tools
        || has("text", "/format")
        || has("response_format", "/json_schema")
        || has("output_config", "/format")
        || has("generationConfig", "/responseJsonSchema")
}

/// A user message with more at its end.
fn extends(before: &Value, now: &Value) -> bool {
    if before["role"] != "user" || now["role"] != "user" {
        return false;
    }
    match (&before["content"], &now["content"]) {
        (Value::String(before), Value::String(now)) => now.starts_with(before.as_str()),
        (Value::Array(before), Value::Array(now)) => now.starts_with(before),
        _ => false,
    }
}

/// The field that holds the conversation.
fn conversation(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses => "input",
        Wire::Chat | Wire::Messages => "messages",
        Wire::Gemini => "contents",
    }
}

/// Neighbours of one role are one message to Anthropic and Google, so what counts there is the
/// order of blocks and parts.
fn entries(wire: Wire, body: &Value) -> Vec<Value> {
    let messages = list(body, conversation(wire));
    match wire {
        Wire::Responses | Wire::Chat => messages.to_vec(),
        Wire::Messages => messages
            .iter()
            .flat_map(|message| {
                let mut blocks = match &message["content"] {
                    Value::String(text) => json!([{"type": "text", "text": text}]),
                    other => other.clone(),
                };
                unmark(&mut blocks);
                with_role(&message["role"], &blocks)
            })
            .collect(),
        Wire::Gemini => messages
            .iter()
            .flat_map(|content| with_role(&content["role"], &content["parts"]))
            .collect(),
    }
}

fn with_role(role: &Value, pieces: &Value) -> Vec<Value> {
    let pieces = pieces.as_array().cloned().unwrap_or_default();
    pieces.into_iter().map(|piece| json!({"role": role, "piece": piece})).collect()
}

/// Takes the cache marks off a list of blocks or tools: they move from request to request.
pub(super) fn unmark(blocks: &mut Value) {
    for block in blocks.as_array_mut().into_iter().flatten() {
        if let Some(fields) = block.as_object_mut() {
            fields.shift_remove("cache_control");
            if let Some(content) = fields.get_mut("content") {
                unmark(content);
            }
        }
    }
}
