//! Calls that another process had begun and not ended when it was interrupted. Those that reach outside of
//! the sandbox are not made twice. Pure.

use std::collections::BTreeMap;

use super::journal::Entry;

/// The ids of the calls, with the names of the tools that each had called itself.
pub(super) fn calls<'e>(
    recorded: impl Iterator<Item = &'e Entry>,
) -> BTreeMap<String, Vec<String>> {
    let mut open: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in recorded {
        match entry {
            Entry::CallStarted { id, .. } => {
                open.entry(id.clone()).or_default();
            }
            Entry::NestedStarted { outer, name, .. } => {
                open.entry(outer.clone()).or_default().push(name.clone());
            }
            Entry::CallEnded { output, .. } => {
                open.remove(&output.id);
            }
            _ => {}
        }
    }
    open
}
