//! Tools of servers that have changed: declared to the model before it is asked again, and told to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::history;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_tools::registry::ToolSet;

/// Names that the model is told of one kind.
const MAX_NAMED: usize = 40;

impl Agent<'_> {
    /// Looks at what servers offer, where one says that it is not what it was. A sub-agent has no more of it than its
    /// kind has.
    pub(super) async fn declare_again(&mut self) -> Result<(), StopKind> {
        let Some(updates) = self.spec.services.updates.clone() else { return Ok(()) };
        let looked = {
            let looking = Arc::clone(&updates);
            self.bounded(async move { looking.look().await }).await?
        };
        let changes = looked.map_err(StopKind::Machine)?;
        // A sub-agent has no report; what it leaves here the run's own agent takes.
        if !self.is_sub_agent() {
            updates.notes().into_iter().for_each(|note| self.note(note));
        }
        if changes == self.declared {
            return Ok(());
        }
        let (model, config) = (self.spec.model, &self.spec.services.config);
        let again = self.spec.tools.offered_again(config, updates.extras());
        let mut tools = again.map_err(StopKind::Machine)?;
        if let Some(kinds) = &self.kinds {
            let with = tools.with_agents(model, kinds).map_err(StopKind::Machine)?;
            tools = with.without(&config.disabled);
        }
        let told = added_and_removed(&self.spec.tools, &tools);
        self.declared = changes;
        self.spec.tools = tools;
        self.reopen()?;
        let Some((new, gone)) = told else { return Ok(()) };
        let text = prompt::tools_changed(&new, &gone).map_err(StopKind::Machine)?;
        self.record(&Entry::Added { items: vec![history::note(text)] })
    }
}

/// The names that are new, and those that are gone; nothing where only descriptions differ.
fn added_and_removed(before: &ToolSet, after: &ToolSet) -> Option<(Vec<String>, Vec<String>)> {
    let names = |tools: &ToolSet| -> BTreeSet<String> {
        tools.declared().map(|tool| tool.name.to_string()).collect()
    };
    let (before, after) = (names(before), names(after));
    let some = |names: Vec<&String>| names.into_iter().take(MAX_NAMED).cloned().collect();
    let new: Vec<String> = some(after.difference(&before).collect());
    let gone: Vec<String> = some(before.difference(&after).collect());
    (!new.is_empty() || !gone.is_empty()).then_some((new, gone))
}
