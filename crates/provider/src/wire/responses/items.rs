//! Received items as our own: what is a call for us, what is carried along, what is left out.
//!
//! Called by [`super::decode`] when the whole reply has arrived.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::item::{
    Content, Item, Message, Native, Payload, Reasoning, Role, StopReason, ToolCall, Wire,
};
use crate::shape;
use crate::wire::fault::Fault;

/// Only refusals and thoughts, and at least one refusal.
pub(super) fn is_refusal(items: &[Item]) -> bool {
    let mut refused = false;
    for item in items {
        match item {
            Item::Message(message) => {
                let all =
                    message.content.iter().all(|part| matches!(part, Content::Refusal { .. }));
                if !all {
                    return false;
                }
                refused |= !message.content.is_empty();
            }
            Item::Reasoning(_) => {}
            Item::Call(_) | Item::Output(_) | Item::Opaque(_) => return false,
        }
    }
    refused
}

const CALLS: &[&str] = &[
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
    "tool_search_call",
];

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_call_kind(fields: &serde_json::Map<String, Value>) -> bool {
    fields.get("type").and_then(Value::as_str).is_some_and(|kind| CALLS.contains(&kind))
}

/// An item that waits for an answer of ours. A tool search is one only when the server does not
/// run it itself.
pub(super) fn is_call(value: &Value) -> bool {
    match kind(value) {
        "tool_search_call" => value.get("execution").and_then(Value::as_str) == Some("client"),
        kind => CALLS.contains(&kind),
    }
}

/// Raw items as our own.
pub(super) fn items(raw: Vec<Value>, stop: StopReason) -> Result<Vec<Item>, Fault> {
    // Items of one reply refer to each other by id. When the reasoning cannot be sent back, the
    // server would look for it in vain and refuse the request.
    let forgets = raw.iter().any(|value| kind(value) == "reasoning" && !is_readable(value));
    let answered: BTreeSet<String> = raw
        .iter()
        .filter(|value| kind(value).ends_with("_call_output"))
        .map(|value| text(value, "call_id"))
        .filter(|id| !id.is_empty())
        .collect();
    let mut items: Vec<Item> = Vec::with_capacity(raw.len());
    for mut value in raw {
        if let Some(fields) = value.as_object_mut() {
            if forgets && fields.contains_key("call_id") == is_call_kind(fields) {
                fields.shift_remove("id");
            }
            // The server sends this field and refuses it in requests.
            fields.shift_remove("created_by");
        }
        // A server-side tool may have answered a call in the same reply.
        let is_ours = is_call(&value) && !answered.contains(&text(&value, "call_id"));
        if !is_ours {
            items.extend(message_item(value));
        } else if matches!(stop, StopReason::EndTurn | StopReason::Pause)
            && let Some(call) = call(value)
        {
            shape::push_call(&mut items, call);
        }
    }
    // The API refuses reasoning that nothing follows.
    for item in items.iter_mut().rev() {
        match item {
            Item::Reasoning(thought) => thought.native = None,
            Item::Message(_) | Item::Call(_) | Item::Output(_) | Item::Opaque(_) => break,
        }
    }
    shape::bounded(items)
}

/// Reasoning that the server can read again: encrypted, or in the open.
fn is_readable(value: &Value) -> bool {
    let encrypted = value.get("encrypted_content").and_then(Value::as_str);
    let open = value.get("content").and_then(Value::as_array);
    encrypted.is_some_and(|text| !text.is_empty()) || open.is_some_and(|parts| !parts.is_empty())
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn native(value: Value) -> Native {
    Native { wire: Wire::Responses, value }
}

/// The named fields of an item, where they are set.
fn native_fields(value: &Value, keys: &[&str]) -> Option<Native> {
    let fields: serde_json::Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    if fields.is_empty() { None } else { Some(native(Value::Object(fields))) }
}

/// Everything that is not a call for us. Items without a type are dropped.
fn message_item(value: Value) -> Option<Item> {
    match kind(&value) {
        "" => None,
        "message" => Some(Item::Message(Message {
            role: Role::Assistant,
            content: parts(&value, "content").filter_map(spoken).collect(),
            native: native_fields(&value, &["id", "status", "phase"]),
        })),
        "reasoning" => Some(Item::Reasoning(Reasoning {
            summary: parts(&value, "summary").map(|part| text(part, "text")).collect(),
            native: is_readable(&value)
                .then(|| native_fields(&value, &["id", "encrypted_content", "content"]))
                .flatten(),
        })),
        _ => Some(Item::Opaque(native(value))),
    }
}

fn parts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn spoken(part: &Value) -> Option<Content> {
    match kind(part) {
        "output_text" | "text" => Some(Content::text(text(part, "text"))),
        "refusal" => Some(Content::Refusal { text: text(part, "refusal") }),
        _ => None,
    }
}

/// A complete call; `None` for one that the server itself calls unfinished.
fn call(value: Value) -> Option<ToolCall> {
    if matches!(text(&value, "status").as_str(), "incomplete" | "in_progress") {
        return None;
    }
    let id = match text(&value, "call_id") {
        // Approval requests have no `call_id`; their answer names the item.
        id if id.is_empty() => text(&value, "id"),
        id => id,
    };
    let (name, payload) = match kind(&value) {
        "custom_tool_call" => (text(&value, "name"), Payload::Freeform(text(&value, "input"))),
        "local_shell_call" => ("local_shell".to_owned(), local_shell(&value)),
        "shell_call" => ("shell".to_owned(), fields(&value, "action")),
        "apply_patch_call" => ("apply_patch".to_owned(), fields(&value, "operation")),
        "computer_call" => ("computer".to_owned(), picked(&value, &["action", "actions"])),
        "mcp_approval_request" => (
            "mcp_approval_request".to_owned(),
            picked(&value, &["server_label", "name", "arguments"]),
        ),
        "tool_search_call" => ("tool_search".to_owned(), fields(&value, "arguments")),
        _ => (text(&value, "name"), Payload::Json(arguments(&value))),
    };
    let native = match payload {
        Payload::Native(_) => Some(native(value)),
        Payload::Json(_) | Payload::Freeform(_) => {
            native_fields(&value, &["id", "status", "namespace", "caller"])
        }
    };
    Some(ToolCall { id, name, payload, native })
}

/// Text, though some servers send the object itself.
fn arguments(value: &Value) -> String {
    match value.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

fn local_shell(value: &Value) -> Payload {
    let action = value.get("action").cloned().unwrap_or_default();
    let mut args = json!({"command": action.get("command").cloned().unwrap_or_default()});
    for (theirs, ours) in [("working_directory", "workdir"), ("timeout_ms", "timeout_ms")] {
        if let Some(value) = action.get(theirs).filter(|value| !value.is_null()) {
            args[ours] = value.clone();
        }
    }
    // The API requires `env`, and it is usually empty.
    if let Some(env) = action.get("env").and_then(Value::as_object).filter(|env| !env.is_empty()) {
        args["env"] = json!(env);
    }
    Payload::Native(args.to_string())
}

/// The named fields of an item that are set, as the arguments of a call.
fn picked(value: &Value, keys: &[&str]) -> Payload {
    let fields = native_fields(value, keys).map_or_else(|| json!({}), |native| native.value);
    Payload::Native(fields.to_string())
}

fn fields(value: &Value, key: &str) -> Payload {
    let mut fields = value.get(key).cloned().unwrap_or_else(|| json!({}));
    if let Value::String(text) = &fields {
        return Payload::Native(text.clone());
    }
    if let Some(map) = fields.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    Payload::Native(fields.to_string())
}
