//! Calls that another process had begun and not ended when it was interrupted. Those that reach outside of
//! the sandbox are not made twice. Pure.

use std::collections::BTreeSet;

use super::journal::{Entry, Line};

/// The ids of the calls.
pub(super) fn calls(recorded: &[Line]) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for line in recorded {
        match &line.entry {
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
