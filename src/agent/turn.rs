//! The loop: ask, run the calls, ask again.
//!
//! [`Agent::turns`] is the main path. It never returns an error: whatever ends it is a [`StopKind`],
//! and what there is by then comes with it.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::budget::{self, Decision, Which};
use super::compact::{self, Handover, Trigger};
use super::history;
use super::interrupted;
use super::journal::{self, Entry, Line};
use super::redo;
use super::state::{Next, Remarks, State};
use super::stop::{StopKind, Stopped};
use super::{AgentSpec, Happening};
use crate::error::Failure;
use crate::guest::client::CollectLimits;
use crate::prompt;
use crate::provider::item::{Item, Role, ToolCall, Usage, Wire};
use crate::provider::{Previous, Progress, ProviderError, Reply, Request, ToolChoice, catalogue};
use crate::review::finding::Finding;
use crate::task::plan::Plan;
use crate::tools::dispatch::{Broken, Dispatch, Means, printable};
use crate::tools::metrics;
use crate::tools::profile::Profile;
use crate::tools::registry::ToolSet;
use crate::tools::review::Desk;

/// A model at work on one task.
pub struct Agent<'a> {
    spec: AgentSpec<'a>,
    state: State,
    /// The plan as the model keeps it, shared with the tool that does.
    plan: Mutex<Plan>,
    /// What a review has found, shared with the tool that reports it.
    findings: Mutex<Vec<Finding>>,
    review: Option<&'a Desk<'a>>,
    /// What requests without a reply have cost and is not counted yet.
    lost: Mutex<Usage>,
    touched: BTreeSet<String>,
    notes: Vec<String>,
    started: Instant,
    /// Goes on with records of another process, and has not asked yet.
    is_resumed: bool,
    /// Calls that the other process had begun and not ended.
    interrupted: BTreeSet<String>,
}

impl<'a> Agent<'a> {
    pub fn new(spec: AgentSpec<'a>) -> Agent<'a> {
        let started = spec.clock.instant();
        let mut notes = Vec::new();
        if spec.model.price.is_none() {
            notes.push(format!(
                "the price of `{}` is unknown: its cost, and the limit on it, are counted as for \
                 the dearest known model",
                spec.model.slug
            ));
        }
        Agent {
            spec,
            state: State::default(),
            plan: Mutex::default(),
            findings: Mutex::default(),
            review: None,
            lost: Mutex::default(),
            touched: BTreeSet::new(),
            notes,
            started,
            is_resumed: false,
            interrupted: BTreeSet::new(),
        }
    }

    /// With what is reviewed, for the tools that need it.
    #[must_use]
    pub fn reviewing(mut self, review: Option<&'a Desk<'a>>) -> Agent<'a> {
        self.review = review;
        self
    }

    /// Works on what `opening` asks for until the model is done or something ends the run.
    pub async fn run(&mut self, opening: Vec<Item>) -> Stopped {
        let reason = match self.open(opening) {
            Ok(()) => self.turns().await,
            Err(stop) => stop,
        };
        self.stopped(reason)
    }

    /// Says something more (failing checks) to a model that had finished, and works on.
    pub async fn continue_with(&mut self, items: Vec<Item>) -> Stopped {
        let reason = match self.record(&Entry::Added { items }) {
            Ok(()) => self.turns().await,
            Err(stop) => stop,
        };
        self.stopped(reason)
    }

    /// Goes on where a recorded run ended, in a fresh sandbox. Recorded calls that write are run
    /// again for their effect; their recorded outputs stay, so requests stay what they were. The
    /// records must be of a run that had been opened (see [`Agent::can_resume`]).
    pub async fn resume(&mut self, recorded: &[Line]) -> Stopped {
        for line in recorded {
            self.state.apply(&line.entry);
        }
        self.is_resumed = true;
        self.interrupted = interrupted::calls(recorded);
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = self.state.plan.clone();
        self.findings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&self.state.findings);
        let reason = match self.redo(recorded).await {
            Ok(()) => self.turns().await,
            Err(stop) => stop,
        };
        self.stopped(reason)
    }

    /// The records reach far enough to go on from: the first request had been put together.
    pub fn can_resume(recorded: &[Line]) -> bool {
        recorded.iter().any(|line| matches!(line.entry, Entry::Prompted { .. }))
    }

    /// The main path. One turn is: check the budget, ask, append the reply, run its calls, append
    /// their outputs; a turn without calls is the last. What comes next is read off the state, so
    /// that a resumed run enters in the middle of a turn.
    async fn turns(&mut self) -> StopKind {
        let remarks = match remarks() {
            Ok(remarks) => remarks,
            Err(failure) => return StopKind::Machine(failure),
        };
        loop {
            let step = match self.state.next(&remarks) {
                Next::Ask => self.ask().await,
                Next::Run(calls) => self.run_calls(calls).await,
                Next::Add(items) => self.record(&Entry::Added { items }),
                Next::Stop(reason) => Err(reason),
            };
            if let Err(reason) = step.and(self.count_lost()) {
                return reason;
            }
        }
    }

    async fn ask(&mut self) -> Result<(), StopKind> {
        if std::mem::take(&mut self.is_resumed) {
            self.reopen()?;
        }
        self.check_budget()?;
        if self.state.is_too_long(self.spec.model) {
            self.compact(Trigger::Threshold).await?;
            self.check_budget()?;
        }
        let history = &self.state.history;
        match self.request(history.items(), ToolChoice::Auto, history.previous()).await {
            Ok(reply) => self.append_reply(reply),
            Err(StopKind::ContextExhausted) if self.state.is_beyond_help() => {
                Err(StopKind::ContextExhausted)
            }
            Err(StopKind::ContextExhausted) => self.compact(Trigger::Overflow).await,
            Err(stop) => Err(stop),
        }
    }

    /// Counts what requests without a reply have cost.
    fn count_lost(&mut self) -> Result<(), StopKind> {
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        if lost == Usage::default() {
            return Ok(());
        }
        let usage = budget::plausible(lost);
        let (cost_usd, _) = catalogue::cost(self.spec.model, &usage);
        self.record(&Entry::Lost { usage, cost_usd })
    }

    /// Shortens the conversation: the model writes notes for itself, and a message with them and with
    /// what the harness knows takes the place of the earlier turns.
    async fn compact(&mut self, trigger: Trigger) -> Result<(), StopKind> {
        let (opening, before) = (self.state.opening, self.state.context);
        let limit = self.state.limit(self.spec.model).min(before);
        let items = self.state.history.items();
        let asked = match trigger {
            Trigger::Threshold => items.to_vec(),
            Trigger::Overflow => compact::cut(items, opening, before / 2),
        };
        let (replies, notes) = self.notes(asked).await?;
        let files = self.changed_files().await?;
        let handover = Handover {
            plan: &self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            files: &files,
            failures: &self.state.failures,
            notes: notes.as_deref(),
        };
        let handover = handover.message().map_err(StopKind::Machine)?;
        let items = compact::compacted(items, opening, handover, limit);
        let cost = |reply: &Reply| catalogue::cost(self.spec.model, &reply.usage).0;
        let cost_usd = replies.iter().flatten().map(cost).sum();
        let after = compact::estimate(&items);
        self.spec.progress.happened(Happening::Compacted { before, after });
        self.record(&Entry::Compacted { trigger, before, after, replies, cost_usd, items })
    }

    /// Asks the model for notes, and once more when it answers with calls; without any when not even
    /// that request fits.
    async fn notes(
        &self,
        mut asked: Vec<Item>,
    ) -> Result<(Vec<Option<Reply>>, Option<String>), StopKind> {
        let question = prompt::text("task/compact.md").map_err(StopKind::Machine)?;
        asked.push(history::message(Role::User, [question]));
        let mut replies = Vec::new();
        // Tools stay allowed at first: on some wires forbidding them costs the prompt cache.
        for choice in [ToolChoice::Auto, ToolChoice::None] {
            let mut reply = match self.request(&asked, choice, None).await {
                Ok(reply) => reply,
                Err(StopKind::ContextExhausted) => {
                    replies.push(None);
                    break;
                }
                Err(stop) => return Err(stop),
            };
            reply.usage = budget::plausible(reply.usage);
            let notes = compact::notes(&reply);
            replies.push(Some(reply));
            if notes.is_some() {
                return Ok((replies, notes));
            }
        }
        Ok((replies, None))
    }

    /// What differs from the base commit; what the tools reported when the guest cannot say.
    async fn changed_files(&self) -> Result<Vec<String>, StopKind> {
        match self.bounded(self.spec.client.collect(CollectLimits::default())).await? {
            Ok(tree) => {
                let deleted = tree.listing.deleted.into_iter();
                let deleted = deleted.map(|path| format!("{path} (deleted)"));
                Ok(tree.files.into_iter().map(|file| file.path).chain(deleted).collect())
            }
            Err(_) => Ok(self.touched.iter().cloned().collect()),
        }
    }

    fn check_budget(&self) -> Result<(), StopKind> {
        let remaining = self.spec.deadline.saturating_duration_since(self.spec.clock.instant());
        match budget::decide(self.spec.limits, &self.state.spending, remaining) {
            Decision::Go => Ok(()),
            Decision::Stop(which) => Err(StopKind::Budget(which)),
        }
    }

    async fn request(
        &self,
        history: &[Item],
        tool_choice: ToolChoice,
        previous: Option<Previous<'_>>,
    ) -> Result<Reply, StopKind> {
        let prompt = self.state.prompt.as_ref().ok_or_else(|| {
            StopKind::Machine(Failure::internal("the agent was started without a prompt"))
        })?;
        let request = Request {
            model: self.spec.model,
            instructions: &prompt.instructions,
            tools: &prompt.tools,
            history,
            effort: self.spec.effort,
            tool_choice,
            cache_key: self.spec.run,
            previous,
        };
        let progress = |what: Progress<'_>| {
            if let Progress::Lost { usage } = what {
                *self.lost.lock().unwrap_or_else(PoisonError::into_inner) += usage;
            }
            self.spec.progress.happened(Happening::Model(what));
        };
        let reply = self.bounded(self.spec.provider.reply(&request, &progress)).await?;
        reply.map_err(|err| match err {
            ProviderError::ContextOverflow { .. } => StopKind::ContextExhausted,
            ProviderError::Filtered { .. } => StopKind::Filtered,
            err => StopKind::Provider(err),
        })
    }

    fn append_reply(&mut self, mut reply: Reply) -> Result<(), StopKind> {
        let model = self.spec.model;
        reply.usage = budget::plausible(reply.usage);
        if !reply.model.is_empty() && model.is_named() && !reply.model.contains(&model.slug) {
            reply.usage.estimated = true;
            let answered = printable(&reply.model);
            self.note(format!("`{}` was asked, and `{answered}` answered", model.slug));
        }
        let (cost_usd, _) = catalogue::cost(model, &reply.usage);
        let turn = self.state.spending.turns + 1;
        self.record(&Entry::Replied { turn, reply, cost_usd })?;
        self.spec.progress.happened(Happening::Replied { spending: &self.state.spending });
        Ok(())
    }

    async fn run_calls(&mut self, calls: Vec<(usize, ToolCall)>) -> Result<(), StopKind> {
        // Calls of a model that is asked no more are run as it meant them.
        let profile = self.state.prompt.as_ref().and_then(|prompt| prompt.profile.as_deref());
        let former = self.former(profile)?;
        let dispatch = self.dispatch_with(former.as_ref().unwrap_or(&self.spec.tools));
        let turn = self.state.spending.turns;
        let is_left =
            |call: &ToolCall| self.interrupted.contains(&call.id) && dispatch.acts_elsewhere(call);
        let (left, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(_, it)| is_left(it));
        let left: Result<Vec<_>, _> =
            left.iter().map(|(_, call)| dispatch.leave(turn, call)).collect();
        let left = left.map_err(stop_of)?;
        let done = self.bounded(dispatch.run_all(turn, &calls)).await?;
        for done in left.into_iter().chain(done.map_err(stop_of)?) {
            self.touched.extend(done.changed);
            self.state.apply(&done.entry);
        }
        Ok(())
    }

    /// Runs recorded calls again for what they changed in the workspace, as the tools of the model
    /// that made them.
    async fn redo(&mut self, recorded: &[Line]) -> Result<(), StopKind> {
        for write in redo::writes(recorded, self.state.written()) {
            let former = self.former(write.profile)?;
            let dispatch = self.dispatch_with(former.as_ref().unwrap_or(&self.spec.tools));
            let redone = self.bounded(dispatch.redo(&write.call, &write.nested)).await?;
            let Some(redone) = redone.map_err(stop_of)? else { continue };
            self.touched.extend(redone.changed);
            if redone.success != write.success {
                let name = &write.call.name;
                self.notes.push(format!("`{name}` ended differently when the run was resumed"));
            }
        }
        self.notes.dedup();
        Ok(())
    }

    /// The tools of a recorded profile; `None` when they are the run's own.
    fn former(&self, profile: Option<&str>) -> Result<Option<ToolSet>, StopKind> {
        let own = self.spec.tools.profile().name();
        let Some(profile) = profile.filter(|profile| *profile != own) else { return Ok(None) };
        let tools = Profile::named(profile).and_then(|it| ToolSet::new(it, Wire::Responses));
        let tools = tools.map(|tools| tools.with_extras_of(&self.spec.tools));
        tools.map(Some).map_err(StopKind::Machine)
    }

    fn dispatch_with<'t>(&'t self, tools: &'t ToolSet) -> Dispatch<'t> {
        let means = Means {
            client: &self.spec.client,
            tools,
            model: self.spec.model,
            limits: self.spec.limits,
            journal: self.spec.journal,
            clock: self.spec.clock,
            progress: self.spec.progress,
            services: self.spec.services,
        };
        Dispatch::new(means, &self.plan, &self.findings).reviewing(self.review)
    }

    /// Every wait ends with the run's deadline, and when somebody wants to stop.
    async fn bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, StopKind> {
        let deadline = tokio::time::Instant::from_std(self.spec.deadline);
        tokio::select! {
            biased;
            () = self.spec.cancel.cancelled() => Err(StopKind::Cancelled),
            done = tokio::time::timeout_at(deadline, work) => {
                done.map_err(|_| StopKind::Budget(Which::Time))
            }
        }
    }

    fn open(&mut self, items: Vec<Item>) -> Result<(), StopKind> {
        let entry = self.prompt(items)?;
        self.record(&entry)
    }

    /// A run that goes on with other tools, mostly those of another model, goes on with their prompt;
    /// otherwise what was sent before is sent again.
    fn reopen(&mut self) -> Result<(), StopKind> {
        let entry = self.prompt(Vec::new())?;
        let Entry::Prompted { tools, profile, .. } = &entry else { return Ok(()) };
        let is_same = self.state.prompt.as_ref().is_some_and(|prompt| {
            (prompt.profile.is_none() || prompt.profile == *profile)
                && serde_json::to_value(&prompt.tools).is_ok_and(|known| known == *tools)
        });
        if is_same { Ok(()) } else { self.record(&entry) }
    }

    fn prompt(&self, items: Vec<Item>) -> Result<Entry, StopKind> {
        let tools = serde_json::to_value(self.spec.tools.declarations()).map_err(|err| {
            StopKind::Machine(Failure::internal("a tool declaration is not JSON").caused_by(err))
        })?;
        let instructions = self.spec.instructions.clone();
        let profile = Some(self.spec.tools.profile().name().to_owned());
        Ok(Entry::Prompted { instructions, tools, items, profile })
    }

    fn record(&mut self, entry: &Entry) -> Result<(), StopKind> {
        self.spec.journal.append(entry).map_err(StopKind::Machine)?;
        self.state.apply(entry);
        Ok(())
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn stopped(&mut self, reason: StopKind) -> Stopped {
        let mut spending = self.state.spending.clone();
        let written = journal::read(self.spec.journal.path()).unwrap_or_default();
        spending.tools = metrics::table(written.iter().map(|line| &line.entry));
        let now = self.spec.clock.instant();
        spending.wall_seconds = now.saturating_duration_since(self.started).as_secs_f64();
        spending.cost_is_estimate |= self.spec.model.price.is_none();
        let final_message = self.state.final_message.clone();
        let entry = Entry::Stopped {
            reason: reason.word().to_owned(),
            final_message: final_message.clone(),
        };
        // A journal that cannot take this line has already ended the run, or does not matter to it.
        let reason = match (self.spec.journal.append(&entry), reason) {
            (Err(failure), StopKind::Finished) => StopKind::Machine(failure),
            (_, reason) => reason,
        };
        Stopped {
            reason,
            final_message,
            plan: self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            findings: self.findings.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            spending,
            touched: self.touched.clone(),
            notes: self.notes.clone(),
        }
    }
}

fn stop_of(broken: Broken) -> StopKind {
    match broken {
        Broken::Sandbox(message) => StopKind::Sandbox(message),
        Broken::Journal(failure) => StopKind::Machine(failure),
    }
}

fn remarks() -> Result<Remarks, Failure> {
    let text = |name: &str| prompt::text(name).map(str::to_owned);
    Ok(Remarks {
        nudge: text("task/nudge.md")?,
        empty: text("task/empty_reply.md")?,
        cut: text("task/cut_reply.md")?,
    })
}
