//! What several wires do alike with a conversation: names and ids that an API takes back, free text as
//! arguments, calls that came twice, ids that are taken, how deep a received value may be, and counted
//! tokens.
//!
//! Called by the wires' encoders and decoders alone. Pure.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::catalogue::ToolChoices;
use super::item::{Item, ToolCall, Usage};
use super::wire::fault::Fault;
use super::{Request, ToolChoice, ToolDeclaration, ToolForm};

/// How deep a value may be nested that goes into the journal and back to the provider. What reads
/// either again gives up at 128, and both put something around it.
const MAX_DEPTH: usize = 100;

/// A tool name of ASCII letters, digits, `_` and `-`, not longer than `limit`. A model can call a
/// name that no tool has; sent back as it is, such a name would make every later request a 400.
pub(super) fn tool_name(name: &str, limit: usize) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= limit && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let name: String = name.chars().take(limit).map(|c| if fits(c) { c } else { '_' }).collect();
    Cow::Owned(if name.is_empty() { "_".to_owned() } else { name })
}

/// The schema of a free-text tool where tools have JSON arguments only: its text is `input`.
pub(super) fn free_text_schema() -> Value {
    let input = json!({"type": "string", "description": "The whole text of the call"});
    json!({
        "type": "object", "properties": {"input": input}, "required": ["input"],
        "additionalProperties": false,
    })
}

/// Tokens as a server counts them, where what was cached and what was thought are parts of the wholes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenCounts {
    pub(super) input: Option<u64>,
    /// The part of `input` that came from the cache.
    pub(super) cached: u64,
    /// The part of `input` that was written to the cache.
    pub(super) written: u64,
    pub(super) output: Option<u64>,
    /// The part of `output` that was reasoning.
    pub(super) reasoning: u64,
}

impl TokenCounts {
    /// No part is more than its whole; where the server says so, or says nothing, it is an estimate.
    pub(super) fn usage(self) -> Usage {
        let TokenCounts { cached, written, reasoning, .. } = self;
        let (input, output) = (self.input.unwrap_or_default(), self.output.unwrap_or_default());
        Usage {
            input,
            cached_input: cached.min(input),
            cache_write: written.min(input.saturating_sub(cached)),
            output,
            reasoning: reasoning.min(output),
            estimated: self.input.is_none()
                || self.output.is_none()
                || cached > input
                || reasoning > output,
        }
    }
}

/// Ids that are taken, and new ones made from ids that may be.
#[derive(Debug, Default)]
pub(super) struct FreshIds {
    used: HashSet<String>,
    /// The number that was tried last for an id, so that many equal ones cost no more than others.
    numbers: HashMap<String, u32>,
}

impl FreshIds {
    /// Ids, of which these are taken.
    pub(super) fn after(used: impl IntoIterator<Item = String>) -> FreshIds {
        FreshIds { used: used.into_iter().collect(), numbers: HashMap::new() }
    }

    /// How many are taken.
    pub(super) fn count(&self) -> usize {
        self.used.len()
    }

    /// The id, or, when it is taken, the id with the first number behind it that is not.
    pub(super) fn take(&mut self, id: &str) -> String {
        if self.used.insert(id.to_owned()) {
            return id.to_owned();
        }
        let number = self.numbers.entry(id.to_owned()).or_insert(1);
        loop {
            *number = number.saturating_add(1);
            let fresh = format!("{id}_{number}");
            if self.used.insert(fresh.clone()) || *number == u32::MAX {
                return fresh;
            }
        }
    }
}

/// A call that is sent twice counts once. Different ones that share an id stay apart; [`renew_ids`]
/// gives them ids of their own.
pub(super) fn push_call(items: &mut Vec<Item>, call: ToolCall) {
    let is_known = !call.id.is_empty()
        && calls(items).any(|earlier| {
            earlier.id == call.id && earlier.payload == call.payload && earlier.name == call.name
        });
    if !is_known {
        items.push(Item::Call(call));
    }
}

/// The id of a call that came without one.
const NO_ID: &str = "call";

/// Gives calls without an id, and calls whose id another call of the reply or of the conversation has,
/// an id of our own. Servers exist that count from the start with every reply, or say the same for each
/// call; under one id two calls cannot be told apart. True when one got another id.
pub(super) fn renew_ids(items: &mut [Item], history: &[Item]) -> bool {
    let mut seen: HashSet<&str> = calls(history).map(|call| call.id.as_str()).collect();
    if calls(items).all(|call| !call.id.is_empty() && seen.insert(&call.id)) {
        return false;
    }
    let mut ids = FreshIds::after(calls(history).map(|call| call.id.clone()));
    for item in items {
        if let Item::Call(call) = item {
            call.id = ids.take(if call.id.is_empty() { NO_ID } else { &call.id });
        }
    }
    true
}

fn calls(items: &[Item]) -> impl Iterator<Item = &ToolCall> {
    items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(call),
        _ => None,
    })
}

/// Several calls may come in one reply. Not where functions are strict: `OpenAI` keeps the schema of a
/// call for sure only when it is the only one, and says so in its guide to structured outputs.
pub(super) fn calls_in_parallel(request: &Request<'_>) -> bool {
    let is_strict =
        |tool: &ToolDeclaration| matches!(tool.form, ToolForm::Function { strict: true, .. });
    request.model.parallel_calls && !request.tools.iter().any(is_strict)
}

/// What a request says about the choice of tools: what the model cannot be told is left to it. `None` when
/// nothing is said.
pub(super) fn tool_choice<'a>(request: &Request<'a>) -> Option<ToolChoice<'a>> {
    let is_declared = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    match (request.model.tool_choice, request.tool_choice) {
        (ToolChoices::Unsent, _) => None,
        (ToolChoices::Optional, ToolChoice::Required | ToolChoice::Named(_)) => {
            Some(ToolChoice::Auto)
        }
        // Every API refuses the name of a tool that the request does not declare.
        (_, ToolChoice::Named(name)) if !is_declared(name) => Some(ToolChoice::Auto),
        (_, choice) => Some(choice),
    }
}

/// The form of a declared tool.
pub(super) fn form_of<'a>(request: &Request<'a>, name: &str) -> Option<&'a ToolForm> {
    request.tools.iter().find(|tool| tool.name == name).map(|tool| &tool.form)
}

/// Refuses items with a value that could not be read again.
pub(super) fn bounded(items: Vec<Item>) -> Result<Vec<Item>, Fault> {
    let native = |item: &Item| match item {
        Item::Message(message) => message.native.as_ref().map(|native| is_shallow(&native.value)),
        Item::Reasoning(thought) => thought.native.as_ref().map(|native| is_shallow(&native.value)),
        Item::Call(call) => call.native.as_ref().map(|native| is_shallow(&native.value)),
        Item::Opaque(native) => Some(is_shallow(&native.value)),
        Item::Output(_) => None,
    };
    if items.iter().filter_map(native).all(|is_shallow| is_shallow) {
        return Ok(items);
    }
    Err(Fault::malformed(format!("a part of the reply is nested more than {MAX_DEPTH} deep")))
}

/// Values come out of a parser that bounds them too, so looking down is safe.
fn is_shallow(value: &Value) -> bool {
    fn fits(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(_) | Value::Object(_) if left == 0 => false,
            Value::Array(values) => values.iter().all(|value| fits(value, left - 1)),
            Value::Object(fields) => fields.values().all(|value| fits(value, left - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }
    fits(value, MAX_DEPTH)
}
