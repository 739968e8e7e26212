//! Going on with a run that another process had begun: its records are taken in, calls that must not be made
//! twice are ended, and what the others changed is done again in the fresh sandbox.

use std::borrow::Cow;
use std::sync::PoisonError;

use super::interrupted::{self, Open};
use super::journal::{Entry, Journal, Line};
use super::lanes::Status;
use super::lanes::{self, Lane};
use super::redo::former;
use super::state::State;
use super::stop::{StopKind, Stopped};
use super::turn::Agent;
use crate::clock::Clock;
use crate::error::Failure;
use crate::prompt;
use crate::tools::registry::ToolSet;

impl Agent<'_> {
    /// Goes on where a recorded run ended, in a fresh sandbox. Recorded calls that write are run
    /// again for their effect; their recorded outputs stay, so requests stay what they were. The
    /// records must be of a run that had been opened (see [`Agent::can_resume`]).
    pub async fn resume(&mut self, recorded: &[Line]) -> Stopped {
        self.adopt(recorded.iter().map(|line| &line.entry));
        self.purse.start_at(self.state.total());
        let restored = self.restore(recorded).await;
        self.work(restored).await
    }

    /// The records reach far enough to go on from: the first request had been put together.
    pub fn can_resume(recorded: &[Line]) -> bool {
        recorded.iter().any(|line| matches!(line.entry, Entry::Prompted { .. }))
    }

    /// Takes in what was recorded.
    pub(super) fn adopt<'e>(&mut self, recorded: impl Iterator<Item = &'e Entry>) {
        recorded.for_each(|entry| self.state.apply(entry));
        self.is_resumed = true;
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = self.state.plan.clone();
        self.findings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&self.state.findings);
    }

    async fn restore(&mut self, recorded: &[Line]) -> Result<(), StopKind> {
        if let Some(why) = &self.state.unreadable {
            return Err(StopKind::Machine(
                Failure::machine(format!(
                    "the tools that this run began with cannot be read: {why}"
                ))
                .hint("move the run's folder away to begin anew"),
            ));
        }
        let left = self.leave_interrupted(recorded)?;
        let recorded = match left.as_slice() {
            [] => Cow::Borrowed(recorded),
            left => Cow::Owned([recorded, left].concat()),
        };
        self.redo(&recorded).await?;
        if let Some(crew) = &self.crew {
            crew.restore(&recorded);
        }
        Ok(())
    }

    /// Ends the calls that had not ended and that are not made once more, before it is looked what is done
    /// again: what they had done by then stays. Returns what was written down.
    fn leave_interrupted(&mut self, recorded: &[Line]) -> Result<Vec<Line>, StopKind> {
        let open = interrupted::calls(recorded);
        let (journal, clock) = (self.spec.journal, self.spec.clock);
        let mut left = Vec::new();
        for entry in self.left(&self.state, &self.spec.tools, None, &open)? {
            left.push(append(journal, clock, &entry, entry.clone())?);
            self.state.apply(&entry);
        }
        for lane in lanes::lanes(recorded) {
            for entry in self.left_by(&lane, &open)? {
                let line = Entry::Lane { agent: lane.id.clone(), entry: Box::new(entry.clone()) };
                left.push(append(&journal.lane(&lane.id), clock, &entry, line)?);
            }
        }
        Ok(left)
    }

    /// Those of an agent's calls that act outside of the sandbox, or have made calls that do.
    fn left(
        &self,
        state: &State,
        tools: &ToolSet,
        agent: Option<&str>,
        open: &Open<'_>,
    ) -> Result<Vec<Entry>, StopKind> {
        let profile = state.prompt.as_ref().and_then(|prompt| prompt.profile.as_deref());
        let former = former(tools, profile)?;
        let dispatch = self.dispatch_with(former.as_ref().unwrap_or(tools));
        let mut left = Vec::new();
        for call in state.pending() {
            let Some(nested) = open.get(&(agent, call.id.as_str())) else { continue };
            let is_left = dispatch.acts_elsewhere(&call)
                || nested.iter().any(|name| dispatch.is_elsewhere(name));
            if is_left {
                left.push(dispatch.leave(state.spending.turns, &call, nested));
            }
        }
        Ok(left)
    }

    /// The same of a sub-agent. One that was interrupted or closed, or that is there no more, goes on with
    /// none of them.
    fn left_by(&self, lane: &Lane, open: &Open<'_>) -> Result<Vec<Entry>, StopKind> {
        let mut state = State::default();
        lane.entries.iter().for_each(|entry| state.apply(entry));
        let kind = self.crew.as_ref().and_then(|crew| crew.kind_of(lane));
        if let (Some(kind), Status::Running, false) = (kind, &lane.status, lane.interrupt) {
            return self.left(&state, &kind.tools, Some(&lane.id), open);
        }
        let text = prompt::text("task/dropped.md").map_err(StopKind::Machine)?;
        let dropped = |call| Entry::dropped(state.spending.turns, &call, text);
        Ok(state.pending().into_iter().map(dropped).collect())
    }
}

/// Writes an entry down; the line as the journal has it.
fn append(journal: &Journal, clock: Clock, entry: &Entry, line: Entry) -> Result<Line, StopKind> {
    let seq = journal.append(entry).map_err(StopKind::Machine)?;
    Ok(Line { seq, at: clock.now(), entry: line })
}
