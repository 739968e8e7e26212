//! Received parts as items: messages, reasoning, calls, and parts that are only carried along.
//!
//! An item keeps the parts that it was made of in its [`Native`] as `{"parts": […]}`, and
//! [`super::contents`] sends them back one by one. Summaries of thoughts stay behind: they are for
//! people, the model does not need them again and they would be paid for as input with every
//! request. A thought part with a signature does go back.

use serde_json::{Map, Value};

use super::{FUNCTION_CALL, SIGNATURE, field, object_of, text_field};
use crate::item::{Content, Item, Message, Native, Payload, Reasoning, Role, ToolCall, Wire};
use crate::shape::FreshIds;
use crate::wire::MAX_ITEMS;
use crate::wire::fault::Fault;

/// Characters of a response's id that become part of the ids of its calls.
const MAX_ID: usize = 64;

/// A part with nothing but text, so that more text may be appended to it.
pub(super) fn is_plain(part: &Value) -> bool {
    let known = |key: &String| key == "text" || key == "thought";
    part.as_object().is_some_and(|fields| fields.keys().all(known))
}

pub(super) fn is_thought(part: &Value) -> bool {
    part.get("thought").and_then(Value::as_bool).unwrap_or(false)
}

fn is_signed(part: &Value) -> bool {
    text_field(part, SIGNATURE).is_some()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thought,
    Text,
    Call,
    Other,
}

fn kind(part: &Value) -> Kind {
    if field(part, FUNCTION_CALL).is_some() {
        return Kind::Call;
    }
    match (part.get("text").is_some_and(Value::is_string), is_thought(part)) {
        (true, true) => Kind::Thought,
        (true, false) => Kind::Text,
        (false, _) => Kind::Other,
    }
}

/// The items of a reply. Neighbouring parts of text are one message, as people read it.
pub(super) fn items(parts: Vec<Value>, reply: &str) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    let mut ids = FreshIds::default();
    let mut rest = parts.into_iter().peekable();
    while let Some(part) = rest.next() {
        let kind = kind(&part);
        let mut group = vec![part];
        if matches!(kind, Kind::Thought | Kind::Text) {
            while let Some(next) = rest.next_if(|next| self::kind(next) == kind) {
                group.push(next);
            }
        }
        match kind {
            Kind::Thought => items.push(thought(group)),
            Kind::Text => items.extend(text_item(group)),
            Kind::Call => items.extend(group.into_iter().map(|part| call(part, reply, &mut ids))),
            // Parts of hosted tools: code that the server ran, its results, pictures.
            Kind::Other => items.push(Item::Opaque(native(group))),
        }
        if items.len() > MAX_ITEMS {
            return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
        }
    }
    Ok(items)
}

fn native(parts: Vec<Value>) -> Native {
    let fields = Map::from_iter([("parts".to_owned(), Value::Array(parts))]);
    Native { wire: Wire::Gemini, value: Value::Object(fields) }
}

/// Something about the reply that is kept in the record and not sent back.
pub(super) fn carried(key: &str, value: Value) -> Item {
    let fields = Map::from_iter([(key.to_owned(), value)]);
    Item::Opaque(Native { wire: Wire::Gemini, value: Value::Object(fields) })
}

fn joined(parts: &[Value]) -> String {
    parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
}

fn thought(mut parts: Vec<Value>) -> Item {
    let summary = joined(&parts);
    parts.retain(is_signed);
    Item::Reasoning(Reasoning {
        summary: if summary.is_empty() { vec![] } else { vec![summary] },
        native: (!parts.is_empty()).then(|| native(parts)),
    })
}

/// Words; without any, only what the parts carry besides.
fn text_item(mut parts: Vec<Value>) -> Option<Item> {
    let text = joined(&parts);
    let is_empty = |part: &Value| part.get("text").and_then(Value::as_str) == Some("");
    parts.retain(|part| !is_empty(part) || !is_plain(part));
    if text.is_empty() {
        return (!parts.is_empty()).then(|| Item::Opaque(native(parts)));
    }
    let is_simple = matches!(parts.as_slice(), [only] if is_plain(only));
    Some(Item::Message(Message {
        role: Role::Assistant,
        content: vec![Content::Text { text }],
        native: (!is_simple).then(|| native(parts)),
    }))
}

/// A call. The API may leave out the id; then ours is made of the response's id and the position.
fn call(mut part: Value, reply: &str, ids: &mut FreshIds) -> Item {
    let made = field(&part, FUNCTION_CALL).unwrap_or(&Value::Null);
    let name = text_field(made, ("name", "name")).unwrap_or_default();
    // Models sometimes call by the name of the module that they see their tools in.
    let bare = name.strip_prefix("default_api.").or_else(|| name.strip_prefix("default_api:"));
    let name = bare.unwrap_or(name).to_owned();
    let arguments = match made.get("args") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let reply: String = reply.chars().take(MAX_ID).collect();
    let given = text_field(made, ("id", "id")).map(str::to_owned);
    let id = given.unwrap_or_else(|| match reply.as_str() {
        "" => format!("call_{}", ids.count()),
        reply => format!("call_{reply}_{}", ids.count()),
    });
    let id = ids.take(&id);
    mend_arguments(&mut part, &arguments);
    let payload = Payload::Json(arguments);
    Item::Call(ToolCall { id, name, payload, native: Some(native(vec![part])) })
}

/// The API takes back an object only.
fn mend_arguments(part: &mut Value, arguments: &str) {
    let key = if part.get(FUNCTION_CALL.0).is_some() { FUNCTION_CALL.0 } else { FUNCTION_CALL.1 };
    let fields = part.get_mut(key).and_then(Value::as_object_mut);
    if let Some(args) = fields.and_then(|fields| fields.get_mut("args"))
        && !args.is_object()
    {
        *args = object_of(arguments);
    }
}

/// The name in the last call of a reply.
pub(super) fn last_call_name(parts: &[Value]) -> Option<String> {
    let last = parts.iter().rev().find_map(|part| field(part, FUNCTION_CALL))?;
    text_field(last, ("name", "name")).map(str::to_owned)
}

/// A call that the API could not read: what it says about it stands for the arguments, and there is
/// no id, because nothing can answer it.
pub(super) fn unreadable_call(reason: &str, message: Option<String>, name: Option<String>) -> Item {
    let name = name.unwrap_or_default();
    let what = message.unwrap_or_else(|| match name.as_str() {
        "" => reason.to_owned(),
        name => format!("{reason}: {name}"),
    });
    Item::Call(ToolCall { id: String::new(), name, payload: Payload::Json(what), native: None })
}
