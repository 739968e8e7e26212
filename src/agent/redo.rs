//! What recorded calls changed, once more: a run that goes on after a crash has a fresh sandbox. Which
//! calls, in which order and in whose tools they were made is read off the journal.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::journal::{Entry, Line};
use super::stop::StopKind;
use super::turn::{Agent, stop_of};
use crate::provider::item::{Item, Payload, ToolCall, Wire};
use crate::tools::profile::Profile;
use crate::tools::registry::ToolSet;

impl Agent<'_> {
    /// Runs recorded calls again for what they changed in the workspace, as the tools of the model
    /// that made them: the run's own, or that of a sub-agent.
    pub(super) async fn redo(&mut self, recorded: &[Line]) -> Result<(), StopKind> {
        for write in writes(recorded, self.state.written()) {
            let theirs =
                write.agent.and_then(|agent| self.crew.as_ref()?.tools_of(agent, recorded));
            let own = theirs.as_ref().unwrap_or(&self.spec.tools);
            let former = former(own, write.profile)?;
            let dispatch = self.dispatch_with(former.as_ref().unwrap_or(own));
            let redone = self.bounded(dispatch.redo(&write.call, &write.nested)).await?;
            let Some(redone) = redone.map_err(stop_of)? else { continue };
            self.touched.extend(redone.changed);
            // Of a call that only made others, those are done again.
            if write.nested.is_empty() && redone.success != write.success {
                let name = &write.call.name;
                self.notes.push(format!("`{name}` ended differently when the run was resumed"));
            }
        }
        self.notes.dedup();
        Ok(())
    }
}

/// The tools of a recorded profile; `None` when they are these.
pub(super) fn former(own: &ToolSet, profile: Option<&str>) -> Result<Option<ToolSet>, StopKind> {
    let Some(profile) = profile.filter(|profile| *profile != own.profile().name()) else {
        return Ok(None);
    };
    let tools = Profile::named(profile).and_then(|it| ToolSet::new(it, Wire::Responses));
    let tools = tools.map(|tools| tools.with_extras_of(own));
    tools.map(Some).map_err(StopKind::Machine)
}

/// A recorded call that wrote.
#[derive(Debug)]
pub(super) struct Write<'a> {
    /// The sub-agent that made it; of the run's own model none.
    pub agent: Option<&'a str>,
    /// With the arguments that it ran with.
    pub call: ToolCall,
    /// The calls that it made and that wrote, in order.
    pub nested: Vec<ToolCall>,
    pub success: bool,
    /// The tool profile of the model that made it, when it was recorded.
    pub profile: Option<&'a str>,
}

/// Ids are those of one conversation.
type Key<'a> = (Option<&'a str>, &'a str);

/// What is recorded of calls, by who made them.
#[derive(Default)]
struct Calls<'a> {
    made: HashMap<Key<'a>, &'a ToolCall>,
    ended: HashMap<Key<'a>, bool>,
    /// What a hook made of a call's arguments.
    changed: HashMap<Key<'a>, &'a Value>,
    /// Calls from inside others that wrote.
    nested: HashMap<Key<'a>, Vec<(u32, ToolCall)>>,
    nested_ended: HashSet<(Key<'a>, u32)>,
    /// The calls that count as writing, in the order in which they ran, with the profile.
    order: Vec<(Key<'a>, Option<&'a str>)>,
}

/// Calls that wrote and have ended, in the order in which they ran: writes run alone, so that is the
/// order in which they were started, whoever made them; those that only made others count from their
/// end. `written` holds the calls of the run's own model that were read out of texts.
pub(super) fn writes<'a>(recorded: &'a [Line], written: &'a [Item]) -> Vec<Write<'a>> {
    let mut calls = Calls::default();
    let mut profiles: HashMap<Option<&str>, Option<&str>> = HashMap::new();
    for line in recorded {
        let (agent, entry) = line.entry.of_agent();
        if let Entry::Prompted { profile, .. } = entry {
            profiles.insert(agent, profile.as_deref());
        }
        calls.apply(agent, entry, profiles.get(&agent).copied().flatten());
    }
    for call in calls_of(written) {
        calls.made.entry((None, &call.id)).or_insert(call);
    }
    calls.writes()
}

impl<'a> Calls<'a> {
    fn apply(&mut self, agent: Option<&'a str>, entry: &'a Entry, profile: Option<&'a str>) {
        match entry {
            // A later call with the same id was never run.
            Entry::Replied { reply, .. } => calls_of(&reply.items).for_each(|call| {
                self.made.entry((agent, &call.id)).or_insert(call);
            }),
            Entry::CallStarted { id, writes, arguments, .. } => {
                let key = (agent, id.as_str());
                if let Some(arguments) = arguments {
                    self.changed.insert(key, arguments);
                }
                if *writes {
                    // What was started again had not ended before.
                    self.order.retain(|(started, _)| *started != key);
                    self.order.push((key, profile));
                }
            }
            Entry::NestedStarted { outer, number, name, arguments, writes: true } => {
                let payload = Payload::Json(arguments.to_string());
                let call =
                    ToolCall { id: outer.clone(), name: name.clone(), payload, native: None };
                self.nested.entry((agent, outer)).or_default().push((*number, call));
            }
            Entry::NestedEnded { outer, number, .. } => {
                self.nested_ended.insert(((agent, outer), *number));
            }
            Entry::CallEnded { output, .. } => {
                let key = (agent, output.id.as_str());
                self.ended.insert(key, output.success);
                let is_known = self.order.iter().any(|(started, _)| *started == key);
                if !is_known && self.nested.contains_key(&key) {
                    self.order.push((key, profile));
                }
            }
            _ => {}
        }
    }

    fn writes(mut self) -> Vec<Write<'a>> {
        let order = std::mem::take(&mut self.order);
        let write = |(key, profile): (Key<'a>, Option<&'a str>)| {
            let (call, success) = (*self.made.get(&key)?, *self.ended.get(&key)?);
            let call = match self.changed.get(&key) {
                Some(arguments) => with(call, arguments),
                None => call.clone(),
            };
            let nested = self.nested.get(&key).into_iter().flatten();
            let nested = nested.filter(|(number, _)| self.nested_ended.contains(&(key, *number)));
            let nested = nested.map(|(_, call)| call.clone()).collect();
            Some(Write { agent: key.0, call, nested, success, profile })
        };
        order.into_iter().filter_map(write).collect()
    }
}

fn calls_of(items: &[Item]) -> impl Iterator<Item = &ToolCall> {
    items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(call),
        _ => None,
    })
}

fn with(call: &ToolCall, arguments: &Value) -> ToolCall {
    ToolCall { payload: Payload::Json(arguments.to_string()), ..call.clone() }
}
