//! What the tools of a run did, counted from its journal, so that a run that was resumed counts what came
//! before.

use std::collections::{BTreeMap, HashMap};

use patchwright_journal::Entry;
use patchwright_provider::item::{CallOutput, Content};
use patchwright_types::calls::ToolUse;

/// Tools that are told apart; more are counted together.
const MAX_TOOLS: usize = 200;
/// The name under which the rest is counted.
const OTHERS: &str = "(others)";

/// Counts calls as they are journalled.
#[derive(Clone, Debug, Default)]
struct Meter {
    tools: BTreeMap<String, Tally>,
    /// Names of calls that have started, by agent and id; nested ones with their number.
    running: HashMap<(String, u32), String>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    counts: ToolUse,
    durations: Vec<u64>,
}

/// The tools that were called in a run, by its journal.
pub fn table<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<ToolUse> {
    let mut meter = Meter::default();
    entries.into_iter().for_each(|entry| meter.apply(entry));
    meter.table()
}

impl Meter {
    /// Takes in one entry, of the run's own agent or of another.
    fn apply(&mut self, entry: &Entry) {
        let (agent, entry) = entry.of_agent();
        // Ids are those of one conversation.
        let key = |id: &str, number: u32| (format!("{}/{id}", agent.unwrap_or_default()), number);
        match entry {
            Entry::CallStarted { id, name, .. } => {
                self.running.insert(key(id, 0), name.clone());
            }
            Entry::NestedStarted { outer, number, name, .. } => {
                self.running.insert(key(outer, *number), name.clone());
            }
            Entry::CallEnded { output, duration_ms, .. } => {
                self.ended(&key(&output.id, 0), output, Some(*duration_ms));
            }
            Entry::CallDropped { output, .. } => self.ended(&key(&output.id, 0), output, None),
            Entry::NestedEnded { outer, number, success, duration_ms, bytes, .. } => {
                if let Some(name) = self.running.remove(&key(outer, *number)) {
                    self.count(&name, true, *success, Some(*duration_ms), *bytes);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, key: &(String, u32), output: &CallOutput, duration_ms: Option<u64>) {
        // What does not fit, or is denied, is never started.
        let started = self.running.remove(key);
        let has_run = started.is_some();
        let name = started.unwrap_or_else(|| output.name.clone());
        let bytes = output.content.iter().map(size).sum();
        self.count(&name, has_run, output.success, duration_ms, bytes);
    }

    /// How long a call took that was given up is not known.
    fn count(
        &mut self,
        name: &str,
        has_run: bool,
        success: bool,
        duration_ms: Option<u64>,
        bytes: u64,
    ) {
        let is_new = !self.tools.contains_key(name);
        let name = if is_new && self.tools.len() >= MAX_TOOLS { OTHERS } else { name };
        let tally = self.tools.entry(name.to_owned()).or_default();
        tally.counts.calls += 1;
        tally.counts.bytes += bytes;
        if !has_run {
            tally.counts.refusals += 1;
            return;
        }
        tally.counts.failures += u64::from(!success);
        if let Some(duration_ms) = duration_ms {
            tally.counts.total_ms += duration_ms;
            tally.counts.max_ms = tally.counts.max_ms.max(duration_ms);
            tally.durations.push(duration_ms);
        }
    }

    /// The tools that were called, in the order of their names.
    fn table(&self) -> Vec<ToolUse> {
        let row = |(name, tally): (&String, &Tally)| {
            let mut durations = tally.durations.clone();
            let middle = durations.len() / 2;
            let median_ms = match durations.as_mut_slice() {
                [] => 0,
                all => *all.select_nth_unstable(middle).1,
            };
            ToolUse { name: name.clone(), median_ms, ..tally.counts.clone() }
        };
        self.tools.iter().map(row).collect()
    }
}

fn size(content: &Content) -> u64 {
    match content {
        Content::Text { text } | Content::Refusal { text } => text.len() as u64,
        Content::Image { data, .. } => data.len() as u64,
    }
}
