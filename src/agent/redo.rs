//! What recorded calls changed, once more: a run that goes on after a crash has a fresh sandbox. Pure:
//! which calls, and in whose tools they were made.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::journal::{Entry, Line};
use crate::provider::item::{Item, Payload, ToolCall};

/// A recorded call that wrote.
#[derive(Debug)]
pub(super) struct Write<'a> {
    /// With the arguments that it ran with.
    pub call: ToolCall,
    /// The calls that it made and that wrote, in order.
    pub nested: Vec<ToolCall>,
    pub success: bool,
    /// The tool profile of the model that made it, when it was recorded.
    pub profile: Option<&'a str>,
}

/// Calls that wrote and have ended, in the order in which they ran. `written` holds the calls that
/// were read out of texts.
pub(super) fn writes<'a>(recorded: &'a [Line], written: &'a [Item]) -> Vec<Write<'a>> {
    let mut nested = nested(recorded);
    let mut ids: HashSet<&str> = recorded.iter().filter_map(written_id).collect();
    ids.extend(nested.keys().copied());
    let changed: HashMap<&str, &Value> = recorded.iter().filter_map(changed).collect();
    let mut calls: HashMap<&str, &ToolCall> = HashMap::new();
    for call in recorded.iter().flat_map(recorded_calls).chain(calls_of(written)) {
        // A later call with the same id was never run.
        calls.entry(&call.id).or_insert(call);
    }
    let mut writes = Vec::new();
    let mut current = None;
    for line in recorded {
        match &line.entry {
            Entry::Prompted { profile, .. } => current = profile.as_deref(),
            Entry::CallEnded { output, .. } if ids.contains(output.id.as_str()) => {
                let Some(call) = calls.get(output.id.as_str()).copied() else { continue };
                let call = match changed.get(output.id.as_str()) {
                    Some(arguments) => with(call, arguments),
                    None => call.clone(),
                };
                let nested = nested.remove(output.id.as_str()).unwrap_or_default();
                let success = output.success;
                writes.push(Write { call, nested, success, profile: current });
            }
            _ => {}
        }
    }
    writes
}

fn recorded_calls(line: &Line) -> impl Iterator<Item = &ToolCall> {
    let items = match &line.entry {
        Entry::Replied { reply, .. } => reply.items.as_slice(),
        _ => &[],
    };
    calls_of(items)
}

fn calls_of(items: &[Item]) -> impl Iterator<Item = &ToolCall> {
    items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(call),
        _ => None,
    })
}

fn written_id(line: &Line) -> Option<&str> {
    match &line.entry {
        Entry::CallStarted { id, writes: true, .. } => Some(id),
        _ => None,
    }
}

/// Calls from inside others that wrote and have ended, by the call that made them.
fn nested(recorded: &[Line]) -> HashMap<&str, Vec<ToolCall>> {
    let ended: HashSet<(&str, u32)> = recorded
        .iter()
        .filter_map(|line| match &line.entry {
            Entry::NestedEnded { outer, number, .. } => Some((outer.as_str(), *number)),
            _ => None,
        })
        .collect();
    let mut all: HashMap<&str, Vec<ToolCall>> = HashMap::new();
    for line in recorded {
        if let Entry::NestedStarted { outer, number, name, arguments, writes: true } = &line.entry
            && ended.contains(&(outer.as_str(), *number))
        {
            let payload = Payload::Json(arguments.to_string());
            let call = ToolCall { id: outer.clone(), name: name.clone(), payload, native: None };
            all.entry(outer).or_default().push(call);
        }
    }
    all
}

/// What a hook made of a call's arguments.
fn changed(line: &Line) -> Option<(&str, &Value)> {
    match &line.entry {
        Entry::CallStarted { id, arguments: Some(arguments), .. } => Some((id, arguments)),
        _ => None,
    }
}

fn with(call: &ToolCall, arguments: &Value) -> ToolCall {
    ToolCall { payload: Payload::Json(arguments.to_string()), ..call.clone() }
}
