//! Calls that another process had begun and not ended when it was interrupted. Pure.

use std::collections::BTreeSet;

use patchwright_journal::{Entry, Line};

/// Calls by who made them and their ids: ids are those of one conversation.
pub(super) type OpenCalls<'a> = BTreeSet<(Option<&'a str>, &'a str)>;

/// The calls that were begun and have not ended.
pub(super) fn calls(recorded: &[Line]) -> OpenCalls<'_> {
    let mut open = OpenCalls::new();
    for line in recorded {
        let (agent, entry) = line.entry.of_agent();
        match entry {
            // A hook may write before it is known what the call does, so a script's calls count as well.
            Entry::CallStarted { id, .. } => {
                open.insert((agent, id));
            }
            Entry::NestedStarted { outer, .. } => {
                open.insert((agent, outer));
            }
            Entry::CallEnded { output, .. } | Entry::CallDropped { output, .. } => {
                open.remove(&(agent, output.id.as_str()));
            }
            _ => {}
        }
    }
    open
}
