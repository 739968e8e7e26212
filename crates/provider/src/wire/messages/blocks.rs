//! Received content blocks, and the items that they become.
//!
//! Called by [`super::decode`]. Text, thinking and calls of our tools are understood; every other
//! block is carried as it is, because the API wants its own blocks back.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::item::{
    Content, Item, Message, Native, Payload, Reasoning, Role, StopReason, ToolCall, Wire,
};
use crate::shape;
use crate::wire::fault::{Fault, FaultKind};

/// What a block is for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Redacted,
    /// `tool_use`: a call that we have to answer.
    Call,
    /// Calls and results of the API's own tools, summaries, and what is still to be invented.
    Other,
}

/// One content block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) index: Option<u64>,
    pub(super) kind: Kind,
    /// As it began, less the text.
    pub(super) fields: Map<String, Value>,
    /// The words of a text or of thinking.
    pub(super) text: String,
    /// The input of a call, as JSON text.
    pub(super) input: String,
    pub(super) is_closed: bool,
    /// A delta of it was not understood.
    pub(super) is_partial: bool,
}

/// Why the model refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails {
    category: Option<String>,
    explanation: Option<String>,
}

impl Block {
    pub(super) fn empty(index: Option<u64>, kind: Kind) -> Block {
        Block {
            index,
            kind,
            fields: Map::new(),
            text: String::new(),
            input: String::new(),
            is_closed: false,
            is_partial: false,
        }
    }

    pub(super) fn begin(index: Option<u64>, mut fields: Map<String, Value>) -> Block {
        let kind = match fields.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Redacted,
            "tool_use" => Kind::Call,
            _ => Kind::Other,
        };
        let text = match kind {
            Kind::Text => fields.shift_remove("text"),
            Kind::Thinking => fields.shift_remove("thinking"),
            Kind::Redacted | Kind::Call | Kind::Other => None,
        };
        let text = match text {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        Block { fields, text, ..Block::empty(index, kind) }
    }

    pub(super) fn takes_input(&self) -> bool {
        matches!(self.kind, Kind::Call | Kind::Other)
    }

    pub(super) fn cite(&mut self, citation: Value) {
        match self.fields.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation),
            _ => {
                self.fields.insert("citations".to_owned(), json!([citation]));
            }
        }
    }

    /// Fields that came after the block had begun.
    pub(super) fn complete(&mut self, mut more: Map<String, Value>) {
        more.shift_remove("type");
        self.fields.extend(more);
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The words as the block they came in: what is not set is not sent back.
    fn text_block(self) -> Map<String, Value> {
        let mut said = Map::new();
        said.insert("type".to_owned(), json!("text"));
        said.insert("text".to_owned(), Value::String(self.text));
        if let Some(citations) = self.fields.get("citations").and_then(Value::as_array)
            && !citations.is_empty()
        {
            said.insert("citations".to_owned(), json!(citations));
        }
        said
    }

    fn thought(self, stop: StopReason) -> Option<Item> {
        let is_signed = !self.field("signature").is_empty();
        if self.text.is_empty() && !is_signed {
            return None;
        }
        let summary = if self.text.trim().is_empty() { vec![] } else { vec![self.text.clone()] };
        let mut value = Map::new();
        value.insert("type".to_owned(), json!("thinking"));
        value.insert("thinking".to_owned(), Value::String(self.text));
        value.extend(self.fields.into_iter().filter(|(key, _)| key != "type"));
        // Thinking that was cut off has no signature, and the API takes none back without. What
        // another server never signed goes back as it came.
        let is_whole = is_signed || (self.is_closed && stop != StopReason::MaxOutput);
        let native = is_whole.then(|| native(Value::Object(value)));
        Some(Item::Reasoning(Reasoning { summary, native }))
    }

    fn call(self) -> Result<ToolCall, Fault> {
        if !self.is_closed {
            return Err(Fault::new(FaultKind::Cut, "the stream lacks the end of a call"));
        }
        let id = self.field("id").to_owned();
        let payload = Payload::Json(match self.fields.get("input") {
            _ if !self.input.trim().is_empty() => self.input.clone(),
            None | Some(Value::Null) => "{}".to_owned(),
            Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(input) => input.to_string(),
        });
        let kept: Map<String, Value> = ["caller", "toolset_name"]
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), self.fields.get(*key)?.clone())))
            .filter(|(_, value)| !value.is_null())
            .collect();
        let native = (!kept.is_empty()).then(|| native(Value::Object(kept)));
        Ok(ToolCall { id, name: self.field("name").to_owned(), payload, native })
    }

    /// A block that is only carried; `None` when it is not whole.
    fn carried(mut self, stop: StopReason) -> Result<Option<Item>, Fault> {
        if self.is_partial || self.field("type").is_empty() {
            return Ok(None);
        }
        let mut is_whole = self.is_closed;
        if !self.input.trim().is_empty() {
            match serde_json::from_str(&self.input) {
                Ok(input) => {
                    self.fields.insert("input".to_owned(), input);
                }
                Err(_) => is_whole = false,
            }
        }
        match (is_whole, stop) {
            (true, _) => Ok(Some(Item::Opaque(native(Value::Object(self.fields))))),
            // The message claims to be complete, so a broken block is the transport's fault and
            // worth a retry.
            (false, StopReason::EndTurn | StopReason::Pause) => {
                Err(Fault::new(FaultKind::Cut, "the stream lacks the end of a block"))
            }
            (false, _) => Ok(None),
        }
    }
}

fn native(value: Value) -> Native {
    Native { wire: Wire::Messages, value }
}

/// The items of a reply that ended like this.
pub(super) fn items(
    blocks: Vec<Block>,
    stop: StopReason,
    details: Option<&StopDetails>,
) -> Result<Vec<Item>, Fault> {
    let runs_calls = matches!(stop, StopReason::EndTurn | StopReason::Pause);
    let mut items = Vec::with_capacity(blocks.len());
    let mut said = Vec::new();
    for block in blocks {
        match block.kind {
            Kind::Text if block.text.is_empty() => continue,
            Kind::Text => {
                said.push(block.text_block());
                continue;
            }
            Kind::Thinking | Kind::Redacted | Kind::Call | Kind::Other => {}
        }
        items.extend(message(&std::mem::take(&mut said)));
        match block.kind {
            Kind::Thinking => items.extend(block.thought(stop)),
            Kind::Redacted => items.push(Item::Reasoning(Reasoning {
                summary: vec![],
                native: Some(native(Value::Object(block.fields))),
            })),
            Kind::Call if runs_calls => shape::push_call(&mut items, block.call()?),
            Kind::Other => items.extend(block.carried(stop)?),
            Kind::Text | Kind::Call => {}
        }
    }
    items.extend(message(&said));
    // Such a reply may have ended between a server-side call and its result.
    if !runs_calls {
        drop_unanswered(&mut items);
    }
    match stop {
        StopReason::Refusal => items.extend(details.and_then(refusal)),
        StopReason::Pause => mark_pause(&mut items),
        StopReason::EndTurn
        | StopReason::MaxOutput
        | StopReason::ContentFilter
        | StopReason::MalformedCall => {}
    }
    shape::bounded(items)
}

/// Texts that follow each other are one message: with citations, a sentence comes in many blocks.
fn message(blocks: &[Map<String, Value>]) -> Option<Item> {
    let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    let text: String = texts.collect();
    if blocks.is_empty() {
        return None;
    }
    // A single text without citations can be rebuilt from the text, so the journal need not keep it
    // twice.
    let is_plain = blocks.len() == 1 && blocks.iter().all(|block| block.len() == 2);
    let native = (!is_plain).then(|| native(json!({"content": blocks})));
    Some(Item::Message(Message {
        role: Role::Assistant,
        content: vec![Content::text(text)],
        native,
    }))
}

/// The API's own calls whose results did not come are not taken back.
fn drop_unanswered(items: &mut Vec<Item>) {
    let results: BTreeSet<String> =
        items.iter().filter_map(|item| opaque(item, "tool_use_id")).map(str::to_owned).collect();
    items.retain(|item| {
        let is_call = opaque(item, "type").is_some_and(|kind| kind.ends_with("tool_use"));
        !is_call || opaque(item, "id").is_some_and(|id| results.contains(id))
    });
}

fn opaque<'a>(item: &'a Item, field: &str) -> Option<&'a str> {
    match item {
        Item::Opaque(native) => native.value.get(field).and_then(Value::as_str),
        _ => None,
    }
}

/// What the provider says about a refusal, for people; it is never sent back.
fn refusal(details: &StopDetails) -> Option<Item> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let text = given(&details.explanation).or_else(|| {
        given(&details.category).map(|category| format!("The model declined: {category}"))
    })?;
    let kept = json!({"stop_details": {"category": details.category}});
    Some(Item::Message(Message {
        role: Role::Assistant,
        content: vec![Content::Refusal { text }],
        native: Some(native(kept)),
    }))
}

/// Marks the last message as paused: only then may a request end with it.
fn mark_pause(items: &mut [Item]) {
    let Some(Item::Message(last)) = items.last_mut() else { return };
    let native = last.native.get_or_insert_with(|| native(json!({})));
    if let Some(fields) = native.value.as_object_mut() {
        fields.insert("paused".to_owned(), json!(true));
    }
}
