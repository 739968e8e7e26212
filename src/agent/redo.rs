//! What recorded calls changed, once more: a run that goes on after a crash has a fresh sandbox. Which
//! calls, in which order and in whose tools they were made is read off the journal.

use std::collections::HashMap;

use super::journal::{Entry, Line};
use super::stop::StopKind;
use super::turn::{Agent, stop_of};
use crate::provider::item::{Item, ToolCall, Wire};
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
            let redone = self.bounded(dispatch.redo(write.call)).await?.map_err(stop_of)?;
            self.touched.extend(redone.changed);
            if redone.success != write.success {
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
    tools.map(Some).map_err(StopKind::Machine)
}

/// A recorded call that wrote.
#[derive(Debug)]
pub(super) struct Write<'a> {
    /// The sub-agent that made it; of the run's own model none.
    pub agent: Option<&'a str>,
    pub call: &'a ToolCall,
    pub success: bool,
    /// The tool profile of the model that made it, when it was recorded.
    pub profile: Option<&'a str>,
}

/// Ids are those of one conversation.
type Key<'a> = (Option<&'a str>, &'a str);

/// Calls that wrote and have ended, in the order in which they ran: writes run alone, so that is the
/// order in which they were started, whoever made them. `written` holds the calls of the run's own model
/// that were read out of texts.
pub(super) fn writes<'a>(recorded: &'a [Line], written: &'a [Item]) -> Vec<Write<'a>> {
    let mut calls: HashMap<Key<'_>, &ToolCall> = HashMap::new();
    let mut ended: HashMap<Key<'_>, bool> = HashMap::new();
    let mut started: Vec<(Key<'_>, Option<&str>)> = Vec::new();
    let mut profiles: HashMap<Option<&str>, Option<&str>> = HashMap::new();
    for line in recorded {
        let (agent, entry) = line.entry.of_agent();
        match entry {
            Entry::Prompted { profile, .. } => {
                profiles.insert(agent, profile.as_deref());
            }
            // A later call with the same id was never run.
            Entry::Replied { reply, .. } => calls_of(&reply.items).for_each(|call| {
                calls.entry((agent, &call.id)).or_insert(call);
            }),
            Entry::CallStarted { id, writes: true, .. } => {
                // What was started again had not ended before.
                started.retain(|(key, _)| *key != (agent, id.as_str()));
                started.push(((agent, id), profiles.get(&agent).copied().flatten()));
            }
            Entry::CallEnded { output, .. } => {
                ended.insert((agent, &output.id), output.success);
            }
            _ => {}
        }
    }
    for call in calls_of(written) {
        calls.entry((None, &call.id)).or_insert(call);
    }
    let write = |(key, profile): (Key<'a>, Option<&'a str>)| {
        let (call, success) = (*calls.get(&key)?, *ended.get(&key)?);
        Some(Write { agent: key.0, call, success, profile })
    };
    started.into_iter().filter_map(write).collect()
}

fn calls_of(items: &[Item]) -> impl Iterator<Item = &ToolCall> {
    items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(call),
        _ => None,
    })
}
