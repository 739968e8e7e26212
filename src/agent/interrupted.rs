//! Calls that another process had begun and not ended when it was interrupted. Those that reach outside of
//! the sandbox are not made twice. Pure.

use std::collections::BTreeSet;

use super::journal::Entry;

/// The ids of the calls.
pub(super) fn calls<'e>(recorded: impl Iterator<Item = &'e Entry>) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for entry in recorded {
        match entry {
            Entry::CallStarted { id, .. } => {
                open.insert(id.clone());
            }
            Entry::CallEnded { output, .. } => {
                open.remove(&output.id);
            }
            _ => {}
        }
    }
    open
}
