//! What a workspace that was put back as it was earlier does to the state of a run.

use super::State;
use crate::budget;
use patchwright_journal::Entry;
use patchwright_provider::item::Content;

impl State {
    /// Results that do not hold any more. In the text of a model without tool calls they stay as they are.
    pub(super) fn lose(&mut self, calls: &[String], text: &str) {
        self.history.overwrite(calls, text);
        let outputs = self.last.iter_mut().flat_map(|last| last.outputs.values_mut());
        for (output, _) in outputs.filter(|(output, _)| calls.contains(&output.id)) {
            output.content = vec![Content::text(text)];
            output.success = false;
        }
        self.outdate(calls);
    }

    /// These calls were taken back, of this agent or of a sub-agent.
    fn outdate(&mut self, calls: &[String]) {
        if let Some(last) = self.last.as_mut().filter(|_| !calls.is_empty()) {
            last.is_outdated = true;
        }
    }

    /// Takes in an entry of a sub-agent.
    pub(super) fn of_sub_agent(&mut self, entry: &Entry) {
        budget::used(&mut self.lanes, entry);
        if let Entry::Restored { lost, .. } = entry {
            self.outdate(lost);
        }
    }
}
