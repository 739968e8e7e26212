//! What a run has of the processes before: how the model ended the work there, and a workspace that was put back as it
//! was earlier.

use super::State;
use crate::budget;
use crate::stop::StopKind;
use patchwright_journal::Entry;
use patchwright_provider::item::Content;

impl State {
    /// An earlier process stopped so. Where the model ended the work, it is asked again: its last reply is taken back,
    /// for one that refused would refuse again, and nothing can be made of one that is empty or cut.
    pub(super) fn stopped(&mut self, word: &str) {
        if !StopKind::is_of_model(word) {
            return;
        }
        (self.cuts, self.empty_replies) = (0, 0);
        match self.last.take() {
            Some(last) if last.outputs.is_empty() && !last.is_remarked => {
                self.history.take_back(last.reply.items.len());
                self.context = self.size_with(self.history.items());
            }
            // What it was answered with stands behind it.
            Some(mut last) => {
                last.is_outdated = true;
                self.last = Some(last);
            }
            None => {}
        }
    }

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
