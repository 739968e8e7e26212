//! What a switch to another model does to the state of a run, and what the models were used for.

use super::State;
use crate::history::History;
use crate::reply::AcceptedReply;
use crate::stop::StopKind;
use patchwright_journal::Entry;
use patchwright_provider::item::{Item, StopReason, carried_over};
use patchwright_types::outcome::ModelUse;

/// A model was given up for another.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The model that goes on, as the operator named it.
    pub name: String,
    /// What was sent as the models' names.
    pub from: String,
    pub to: String,
    pub why: String,
    /// Turns before it.
    pub turns: u32,
}

impl State {
    /// The last reply is a refusal.
    pub fn is_declined(&self) -> bool {
        self.last.as_ref().is_some_and(|last| declined(&last.reply).is_some())
    }

    /// What the model that is asked now was used for.
    pub(super) fn model_in_use(&mut self) -> &mut ModelUse {
        if self.uses.is_empty() {
            self.uses.push(ModelUse::default());
        }
        let last = self.uses.len() - 1;
        &mut self.uses[last]
    }

    /// Another model has the conversation from here on.
    pub(super) fn switched(&mut self, entry: &Entry) {
        let Entry::Switched { name, from, to, why, takes_back } = entry else { return };
        let (name, from, to, why) = (name.clone(), from.clone(), to.clone(), why.clone());
        let switch = Switch { name, from, to, why, turns: self.spending.turns };
        if *takes_back && let Some(refusal) = self.last.take() {
            self.history.take_back(refusal.reply.items.len());
        }
        self.history.carry_over();
        // The former model's counts say nothing about this one's.
        self.context = self.size_with(self.history.items());
        (self.refused_at, self.overflows, self.compacted) = (None, 0, None);
        if let Some(used) = self.uses.last_mut().filter(|used| used.model.is_empty()) {
            used.model.clone_from(&switch.from);
        }
        self.uses.push(ModelUse { model: switch.to.clone(), ..ModelUse::default() });
        self.switches.push(switch);
    }

    /// What each model of the run was used for, when there was more than one; by their first use.
    pub fn models(&self) -> Vec<ModelUse> {
        let mut models: Vec<ModelUse> = Vec::new();
        if self.switches.is_empty() {
            return models;
        }
        for used in self.uses.iter().filter(|used| used.turns > 0 || used.usage.total() > 0) {
            match models.iter_mut().find(|known| known.model == used.model) {
                Some(known) => known.add(used),
                None => models.push(used.clone()),
            }
        }
        models
    }

    /// The switches, for the report.
    pub fn switch_notes(&self) -> Vec<String> {
        let note = |switch: &Switch| {
            let Switch { from, to, why, turns, .. } = switch;
            format!("switched from `{from}` to `{to}` after turn {turns}: {why}")
        };
        self.switches.iter().map(note).collect()
    }
}

impl History {
    /// Leaves out what only the former model's provider understands.
    fn carry_over(&mut self) {
        let items = carried_over(self.items());
        self.replace(items);
    }

    /// Takes the last items out again.
    pub(super) fn take_back(&mut self, count: usize) {
        let mut items: Vec<Item> = self.items().to_vec();
        items.truncate(items.len().saturating_sub(count));
        self.replace(items);
    }
}

/// The model, or a filter in front of it, does not want to.
pub(super) fn declined(reply: &AcceptedReply) -> Option<StopKind> {
    match reply.stop {
        StopReason::Refusal => Some(StopKind::Refused),
        StopReason::ContentFilter => Some(StopKind::Filtered),
        StopReason::EndTurn if reply.is_refusal => Some(StopKind::Refused),
        StopReason::EndTurn
        | StopReason::MaxOutput
        | StopReason::Pause
        | StopReason::MalformedCall => None,
    }
}
