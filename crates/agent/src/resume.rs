//! Resumes a run that another process had begun. Its workspace has been put back in a fresh sandbox by
//! now, as it was at a checkpoint: no call is made again that may have changed anything. The records are
//! taken in, calls that had not ended are answered, results that are newer than the workspace are taken
//! back, and the models are told what is gone.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::checkpoints::{self, RestoredWorkspace};
use super::interrupted::{self, OpenCalls};
use super::state::State;
use super::stop::{StopKind, Stopped};
use super::sub_agent_log::Status;
use super::sub_agent_log::{self, SubAgentLog};
use super::turn::Agent;
use patchwright_base::clock::Clock;
use patchwright_base::error::Failure;
use patchwright_journal::{Entry, Journal, Line};
use patchwright_prompt as prompt;
use patchwright_provider::item::Item;
use patchwright_tools::registry::ToolSet;

impl Agent<'_> {
    /// Resumes a recorded run where it ended, in a fresh sandbox with the workspace of a checkpoint. The
    /// records must be of a run that had been opened (see [`Agent::can_resume`]).
    /// `news` is what the model is told then, if anything; a model that had finished works on for it.
    pub async fn resume(
        &mut self,
        recorded: &[Line],
        restored: &RestoredWorkspace,
        news: Option<Item>,
    ) -> Stopped {
        self.adopt(recorded.iter().map(|line| &line.entry));
        self.budget.start_at(self.state.total());
        let begun = self.take_up(recorded, restored).and_then(|()| self.hear_news(news));
        self.work(begun).await
    }

    /// Nothing can be said between calls and their outputs: then it waits until the model is asked.
    fn hear_news(&mut self, news: Option<Item>) -> Result<(), StopKind> {
        match news {
            Some(item) if self.state.pending().is_empty() => {
                self.record(&Entry::Added { items: vec![item] })
            }
            news => {
                self.news = news;
                Ok(())
            }
        }
    }

    /// Asks once more after a stop that was the model's; see [`StopKind::is_of_model`]. For a replay, whose recorded
    /// run was resumed there.
    pub async fn again(&mut self, stopped: &Stopped) -> Stopped {
        let (reason, final_message) =
            (stopped.reason.word().to_owned(), stopped.final_message.clone());
        self.state.apply(&Entry::Stopped { reason, final_message });
        self.work(Ok(())).await
    }

    /// The records reach far enough to resume from: the first request had been put together.
    pub fn can_resume(recorded: &[Line]) -> bool {
        recorded.iter().any(|line| matches!(line.entry, Entry::Prompted { .. }))
    }

    /// Its sandbox is to be replaced, and the run to be resumed in another one. Sub-agents are stopped by the
    /// run's own agent, which notices it first.
    pub(super) fn must_move(&self) -> bool {
        !self.is_sub_agent() && self.spec.services.has_new_setup.load(Ordering::Relaxed)
    }

    /// Takes in what was recorded.
    pub(super) fn adopt<'e>(&mut self, recorded: impl Iterator<Item = &'e Entry>) {
        recorded.for_each(|entry| self.state.apply(entry));
        self.take_up_model();
        self.is_resumed = true;
        *self.plan.lock() = self.state.plan.clone();
        self.findings.lock().clone_from(&self.state.findings);
    }

    fn take_up(&mut self, recorded: &[Line], restored: &RestoredWorkspace) -> Result<(), StopKind> {
        if let Some(why) = &self.state.unreadable {
            return Err(StopKind::Machine(
                Failure::machine(format!(
                    "the tools that this run began with cannot be read: {why}"
                ))
                .hint("move the run's folder away to begin anew"),
            ));
        }
        self.touched.extend(restored.changed.iter().cloned());
        let mut written = self.take_back(recorded, restored)?;
        written.extend(self.answer_interrupted(recorded, restored)?);
        let has_notice =
            checkpoints::has_begun_to_write(recorded) || restored.other_sandbox.is_some();
        self.notice = has_notice.then(|| notice(recorded, restored));
        if let Some(sub_agents) = &self.sub_agents {
            sub_agents.restore(&[recorded, &written].concat(), self.notice.as_deref());
        }
        Ok(())
    }

    /// Takes back the results of calls whose effect is not in the workspace. Returns what was written down.
    fn take_back(
        &mut self,
        recorded: &[Line],
        restored: &RestoredWorkspace,
    ) -> Result<Vec<Line>, StopKind> {
        let mut lost = checkpoints::lost(recorded, restored.checkpoint);
        // The run's own entry says what was put back.
        lost.entry(None).or_default();
        let (journal, clock) = (self.spec.journal, self.spec.clock);
        let mut written = Vec::new();
        for (agent, calls) in lost {
            let text = if calls.is_empty() { String::new() } else { interrupted(restored) };
            let entry = Entry::Restored {
                checkpoint: restored.checkpoint,
                tree: restored.tree.clone(),
                lost: calls.into_iter().map(|(id, _)| id.to_owned()).collect(),
                text,
            };
            let line = append(journal, agent, clock, entry)?;
            self.state.apply(&line.entry);
            written.push(line);
        }
        Ok(written)
    }

    /// Answers the calls that had not ended. Returns what was written down.
    fn answer_interrupted(
        &mut self,
        recorded: &[Line],
        restored: &RestoredWorkspace,
    ) -> Result<Vec<Line>, StopKind> {
        let open = interrupted::calls(recorded);
        let (journal, clock) = (self.spec.journal, self.spec.clock);
        let text = interrupted(restored);
        let mut written = Vec::new();
        for entry in self.answers(&self.state, &self.spec.tools, None, &open, &text)? {
            self.state.apply(&entry);
            written.push(append(journal, None, clock, entry)?);
        }
        for lane in sub_agent_log::lanes(recorded) {
            for entry in self.answers_to(&lane, &open, &text)? {
                written.push(append(journal, Some(&lane.id), clock, entry)?);
            }
        }
        Ok(written)
    }

    /// The answers to those of an agent's calls that are not simply made again.
    fn answers(
        &self,
        state: &State,
        tools: &ToolSet,
        agent: Option<&str>,
        open: &OpenCalls<'_>,
        text: &str,
    ) -> Result<Vec<Entry>, StopKind> {
        let profile = state.prompt.as_ref().and_then(|prompt| prompt.profile.as_deref());
        let former = former(tools, profile)?;
        let dispatch = self.dispatch_with(former.as_ref().unwrap_or(tools));
        let calls = state.pending().into_iter();
        let calls = calls.filter(|call| {
            open.contains(&(agent, call.id.as_str())) && !dispatch.is_repeatable(call)
        });
        Ok(calls.map(|call| Entry::dropped(state.spending.turns, &call, text)).collect())
    }

    /// The answers to a sub-agent's calls; one that was interrupted, closed or removed resumes without pending calls.
    fn answers_to(
        &self,
        lane: &SubAgentLog,
        open: &OpenCalls<'_>,
        text: &str,
    ) -> Result<Vec<Entry>, StopKind> {
        let mut state = State::default();
        lane.entries.iter().for_each(|entry| state.apply(entry));
        let kind = self.sub_agents.as_ref().and_then(|sub_agents| sub_agents.kind_of(lane));
        if let (Some(kind), Status::Running, false) = (kind, &lane.status, lane.interrupt) {
            return self.answers(&state, &kind.tools, Some(&lane.id), open, text);
        }
        let text = prompt::text("task/dropped.md").map_err(StopKind::Machine)?;
        let dropped = |call| Entry::dropped(state.spending.turns, &call, text);
        Ok(state.pending().into_iter().map(dropped).collect())
    }
}

/// The tools of a recorded profile; `None` when they are these.
pub(super) fn former(own: &ToolSet, profile: Option<&str>) -> Result<Option<ToolSet>, StopKind> {
    let Some(profile) = profile.filter(|profile| *profile != own.profile().name()) else {
        return Ok(None);
    };
    let tools = ToolSet::recorded(profile);
    let tools = tools.map(|tools| tools.with_extras_of(own));
    tools.map(Some).map_err(StopKind::Machine)
}

/// The text that replaces a result that is missing or no longer true.
fn interrupted(restored: &RestoredWorkspace) -> String {
    format!(
        "interrupted, result unknown: the run was interrupted. The workspace is as it was {}; what the call \
         did after that is gone, and it is not made again by itself. Whether it did anything outside of the \
         sandbox is not known. Find out what is there before you make it again",
        restored.place
    )
}

/// What the model of a resumed run is told.
fn notice(recorded: &[Line], restored: &RestoredWorkspace) -> String {
    let why = if restored.has_new_setup {
        "Setup has run again, and you go on in a fresh sandbox that has what it installed."
    } else {
        "This run was interrupted and goes on in a fresh sandbox."
    };
    let mut text = format!(
        "{why} The files of the workspace are as they were \
         {}. Gone are files that git ignores and that were made since setup (build output, installed \
         packages), empty folders, links that lead out of the workspace, repositories inside of it with \
         what is in them, whatever else no change can have (names with control characters, new contents of \
         Git LFS, files of more than 100 MB), commits and branches made in the sandbox's `.git`, what was \
         written outside of the workspace, and every process that was running, with its variables. Files of \
         the repository that were moved to where they are gone are back in their old places.",
        restored.place
    );
    if restored.shell {
        text.push_str(
            " The shell has ended: the next command starts in a new one, in the workspace.",
        );
    }
    if !restored.sessions.is_empty() {
        let _ = write!(text, " These sessions have ended: {}.", restored.sessions.join("; "));
    }
    let lost = checkpoints::lost(recorded, restored.checkpoint);
    let lost: Vec<String> =
        lost.values().flatten().map(|(id, name)| format!("`{name}` ({id})")).collect();
    if !lost.is_empty() {
        let _ = write!(
            text,
            " What these calls did came later and is gone too, whatever their results said: {}.",
            lost.join(", ")
        );
    }
    if let Some(other) = &restored.other_sandbox {
        let _ = write!(text, " {other}");
    }
    text
}

/// Writes an entry down, in an agent's lane; the line as the journal has it.
fn append(
    journal: &Journal,
    agent: Option<&str>,
    clock: Clock,
    entry: Entry,
) -> Result<Line, StopKind> {
    let Some(agent) = agent else {
        let seq = journal.append(&entry).map_err(StopKind::Machine)?;
        return Ok(Line { seq, at: clock.now(), entry });
    };
    let seq = journal.lane(agent).append(&entry).map_err(StopKind::Machine)?;
    let entry = Entry::Lane { agent: agent.to_owned(), entry: Box::new(entry) };
    Ok(Line { seq, at: clock.now(), entry })
}
