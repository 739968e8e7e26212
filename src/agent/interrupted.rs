//! Calls that another process had begun and not ended when it was interrupted. Those that reach outside of
//! the sandbox are not made twice. Pure.

use std::collections::BTreeMap;

use super::journal::{Entry, Line};

/// Calls by who made them and their ids: ids are those of one conversation.
pub(super) type Open<'a> = BTreeMap<(Option<&'a str>, &'a str), Vec<&'a str>>;

/// The calls that were begun and have not ended, each with the names of the tools that it had called itself.
pub(super) fn calls(recorded: &[Line]) -> Open<'_> {
    let mut open = Open::new();
    for line in recorded {
        let (agent, entry) = line.entry.of_agent();
        match entry {
            // What it had called before it was begun once more is not done twice either.
            Entry::CallStarted { id, .. } => {
                open.entry((agent, id)).or_default();
            }
            Entry::NestedStarted { outer, name, .. } => {
                open.entry((agent, outer)).or_default().push(name);
            }
            Entry::CallEnded { output, .. } | Entry::CallDropped { output, .. } => {
                open.remove(&(agent, output.id.as_str()));
            }
            _ => {}
        }
    }
    open
}
