//! What the model and the tools said, for operators who want it in their traces. It is bounded and without our secrets.

use opentelemetry::KeyValue;
use serde_json::{Value, json};

use crate::names;
use crate::spans::RunSpans;
use patchwright_base::text::head;
use patchwright_provider::Reply;
use patchwright_provider::item::{Content, Item, Message, Role};

/// The most of one attribute, in bytes.
const MAX_CONTENT: usize = 32 << 10;

/// The most of one part of a message, so that the whole stays JSON, in bytes.
const MAX_PART: usize = 8 << 10;

/// The most parts of a message.
const MAX_PARTS: usize = 16;

pub(crate) fn text(run: &RunSpans, name: &'static str, said: &str) -> KeyValue {
    let said = run.telemetry().redactor.redact(said);
    KeyValue::new(name, head(&said, MAX_CONTENT))
}

/// A reply in the form that the conventions have for messages.
pub(crate) fn reply(run: &RunSpans, reply: &Reply, finish_reason: &str) -> KeyValue {
    let clean = |said: &str| head(&run.telemetry().redactor.redact(said), MAX_PART);
    let parts = reply.items.iter().filter_map(|item| part(item, &clean)).take(MAX_PARTS);
    let message = json!([{
        "role": "assistant",
        "parts": parts.collect::<Vec<_>>(),
        "finish_reason": finish_reason,
    }]);
    KeyValue::new(names::OUTPUT_MESSAGES, message.to_string())
}

fn part(item: &Item, clean: &dyn Fn(&str) -> String) -> Option<Value> {
    Some(match item {
        Item::Message(Message { role: Role::Assistant, content, .. }) => {
            json!({ "type": "text", "content": clean(&Content::texts(content)) })
        }
        Item::Reasoning(reasoning) if !reasoning.summary.is_empty() => {
            json!({ "type": "reasoning", "content": clean(&reasoning.summary.join("\n")) })
        }
        Item::Call(call) => json!({
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": clean(call.payload.as_str()),
        }),
        _ => return None,
    })
}
