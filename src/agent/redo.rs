//! What recorded calls changed, once more: a run that goes on after a crash has a fresh sandbox. Pure:
//! which calls, and in whose tools they were made.

use std::collections::{HashMap, HashSet};

use super::journal::{Entry, Line};
use crate::provider::item::{Item, ToolCall};

/// A recorded call that wrote.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub call: &'a ToolCall,
    pub success: bool,
    /// The tool profile of the model that made it, when it was recorded.
    pub profile: Option<&'a str>,
}

/// Calls that wrote and have ended, in the order in which they ran. `written` holds the calls that
/// were read out of texts.
pub(super) fn writes<'a>(recorded: &'a [Line], written: &'a [Item]) -> Vec<Write<'a>> {
    let ids: HashSet<&str> = recorded.iter().filter_map(written_id).collect();
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
                writes.push(Write { call, success: output.success, profile: current });
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
