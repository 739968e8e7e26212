//! The loop: ask, run the calls, ask again.
//!
//! [`Agent::turns`] is the main path. It never returns an error: whatever ends it is a [`StopKind`], which carries
//! the work done so far.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use super::budget::SharedBudget;
use super::history;
use super::output::ResultRequest;
use super::request::unpriced;
use super::resume::former;
use super::state::{Next, Remarks, State};
use super::stop::{StopKind, Stopped, needs_input};
use super::sub::{SubAgent, SubAgentConfig, SubAgents};
use super::unfinished;
use super::{AgentEvent, AgentSpec};
use patchwright_base::error::Failure;
use patchwright_journal::{self as journal, Entry};
use patchwright_prompt as prompt;
use patchwright_provider::item::{Content, Item, ToolCall, Usage};
use patchwright_provider::{ProviderError, ToolChoice};
use patchwright_review::finding::Finding;
use patchwright_tools::dispatch::{Broken, Dispatch, DispatchContext, Done};
use patchwright_tools::host::Agents;
use patchwright_tools::metrics;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::review::ReviewContext;
use patchwright_types::calls::CompactionTrigger;
use patchwright_types::plan::Plan;

/// Most time that is kept for the last words.
const LAST_WORDS: Duration = Duration::from_mins(1);

/// A model at work on one task.
pub struct Agent<'a> {
    pub(super) spec: AgentSpec<'a>,
    pub(super) state: State,
    /// The plan as the model keeps it, shared with the tool that does.
    pub(super) plan: Mutex<Plan>,
    /// What a review has found, shared with the tool that reports it.
    pub(super) findings: Mutex<Vec<Finding>>,
    review: Option<&'a ReviewContext<'a>>,
    /// What requests without a reply have cost and is not counted yet.
    pub(super) lost: Mutex<Vec<Usage>>,
    /// Calls that have ended and are not in the state yet.
    ended: Mutex<Vec<Done>>,
    pub(super) touched: BTreeSet<String>,
    pub(super) notes: Vec<String>,
    started: Instant,
    /// When the work must be over; a little of the run's time is left then for the last words.
    pub(super) deadline: Instant,
    /// Was resumed from records of another process, and has not asked yet.
    pub(super) is_resumed: bool,
    /// What the model is told then, before it is asked.
    pub(super) notice: Option<String>,
    /// What else it is told then.
    pub(super) news: Option<Item>,
    /// What was used by all agents of the run.
    pub(super) budget: Arc<SharedBudget>,
    /// The agents that this one can start.
    pub(super) sub_agents: Option<Arc<SubAgents<'a>>>,
    /// The work is over, and the model is asked for its result.
    pub(super) result: Option<ResultRequest>,
    /// The last turn of which was told that it has ended.
    told_turn: u32,
    /// Changes of servers' tools that are in those that are declared.
    pub(super) declared: u32,
    /// Which sub-agents there are, as their call says it.
    pub(super) kinds: Option<String>,
    /// For a sub-agent: where it is told what to do.
    pub(super) handle: Option<Arc<SubAgent>>,
}

impl<'a> Agent<'a> {
    pub fn new(spec: AgentSpec<'a>) -> Agent<'a> {
        let started = spec.clock.instant();
        let notes = spec.model.price.is_none().then(|| unpriced(spec.model)).into_iter().collect();
        let time = spec.deadline.saturating_duration_since(started);
        let kept = (time / 20).min(LAST_WORDS);
        let deadline = spec.deadline.checked_sub(kept).unwrap_or(spec.deadline);
        Agent {
            budget: Arc::new(SharedBudget::new(spec.limits)),
            spec,
            state: State::default(),
            plan: Mutex::default(),
            findings: Mutex::default(),
            review: None,
            lost: Mutex::default(),
            ended: Mutex::default(),
            touched: BTreeSet::new(),
            notes,
            started,
            deadline,
            is_resumed: false,
            notice: None,
            news: None,
            sub_agents: None,
            result: None,
            told_turn: 0,
            declared: 0,
            kinds: None,
            handle: None,
        }
    }

    /// As one of several attempts, which share a budget. Comes before [`Agent::with_agents`].
    #[must_use]
    pub fn within(mut self, all: Option<&Arc<SharedBudget>>) -> Agent<'a> {
        if let Some(all) = all {
            self.budget = Arc::new(SharedBudget::within(self.spec.limits, all));
        }
        self
    }

    /// With sub-agents that it can start.
    #[must_use]
    pub fn with_agents(mut self, config: Option<SubAgentConfig>) -> Agent<'a> {
        self.notes.extend(config.iter().flat_map(|it| it.notes.iter().cloned()));
        self.kinds = config.as_ref().map(|it| it.list.clone());
        self.sub_agents = config.map(|it| Arc::new(SubAgents::new(&self.spec, &self.budget, it)));
        self
    }

    /// As a sub-agent.
    pub(super) fn into_sub_agent(
        mut self,
        sub_agent: &Arc<SubAgent>,
        budget: &Arc<SharedBudget>,
    ) -> Agent<'a> {
        (self.handle, self.budget) = (Some(Arc::clone(sub_agent)), Arc::clone(budget));
        self
    }

    /// With what is reviewed, for the tools that need it.
    #[must_use]
    pub fn reviewing(mut self, review: Option<&'a ReviewContext<'a>>) -> Agent<'a> {
        self.review = review;
        self
    }

    pub(super) fn is_review(&self) -> bool {
        self.review.is_some()
    }

    /// Works on what `opening` asks for until the model is done or something ends the run.
    pub async fn run(&mut self, opening: Vec<Item>) -> Stopped {
        let opened = self.open(opening);
        self.work(opened).await
    }

    /// Says something more (failing checks) to a model that had finished, and works on.
    pub async fn continue_with(&mut self, items: Vec<Item>) -> Stopped {
        let said = self.record(&Entry::Added { items });
        self.work(said).await
    }

    /// Takes turns, beside the agents that are started meanwhile, and sees to it that none works on
    /// when this one has stopped.
    pub(super) async fn work(&mut self, begun: Result<(), StopKind>) -> Stopped {
        let sub_agents = self.sub_agents.clone();
        let services = self.spec.services;
        let checkpoints = &services.checkpoints;
        let turns = async {
            match (begun, &sub_agents) {
                (Err(stop), _) => stop,
                (Ok(()), None) => self.turns().await,
                (Ok(()), Some(sub_agents)) => sub_agents.beside(self.turns()).await,
            }
        };
        let mut reason = tokio::select! {
            biased;
            reason = turns => reason,
            failure = checkpoints.watch() => StopKind::Machine(failure),
        };
        if let Some(sub_agents) = &sub_agents {
            match sub_agents.end(&reason).await {
                Ok(notes) => notes.into_iter().for_each(|note| self.note(note)),
                Err(failure) => reason = StopKind::Machine(failure),
            }
        }
        if reason.can_go_on()
            && let Err(failure) = checkpoints.last().await
        {
            reason = StopKind::Machine(failure);
        }
        // The last words may have been given up as well.
        if let Err(stop) = self.count_lost() {
            reason = stop;
        }
        self.stopped(reason)
    }

    /// The main path. One turn is: check the budget, ask, append the reply, run its calls, append
    /// their outputs; a turn without calls is the last. What comes next is read off the state, so
    /// that a resumed run enters in the middle of a turn.
    pub(super) async fn turns(&mut self) -> StopKind {
        loop {
            // Which tools there are may differ from turn to turn.
            let remarks = match remarks(&self.spec.tools) {
                Ok(remarks) => remarks,
                Err(failure) => return StopKind::Machine(failure),
            };
            let next = self.state.next(&remarks);
            // The calls of the turn have been answered by then, so that none is lost with the sandbox.
            if matches!(next, Next::Ask) && self.must_move() {
                return StopKind::NewSandbox;
            }
            let step = match next {
                Next::Ask => self.ask().await,
                Next::Run(calls) => match self.takes_result(&calls) {
                    Ok(true) => Err(StopKind::Finished),
                    Ok(false) => self.run_calls(calls).await,
                    Err(stop) => Err(stop),
                },
                Next::Add(items) => self.record(&Entry::Added { items }),
                Next::Stop(StopKind::Finished) => self.finish(&remarks).await,
                Next::Stop(reason) => Err(reason),
            };
            self.tell_turn_ended();
            let Err(reason) = step.and(self.count_lost()) else { continue };
            match self.falls_back(&reason) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(ended) => return ended,
            }
            if let StopKind::Budget(which) = reason
                && let Err(stop) = self.wrap_up(which).await
            {
                tracing::debug!(why = stop.word(), "there are no last words");
            }
            return reason;
        }
    }

    /// The model has ended. Where a change is asked for and nothing has changed, it is asked once whether
    /// that is meant.
    async fn finish(&mut self, remarks: &Remarks) -> Result<(), StopKind> {
        self.may_end().await?;
        let is_asked = needs_input(&self.state.final_message).is_some();
        let is_expected = unfinished::misses(self.spec.expects_change, &self.state.final_message);
        let may_be_unchanged = is_expected && self.touched.is_empty() && self.state.may_follow_up();
        if is_asked || self.result.is_some() || !may_be_unchanged || !self.is_unchanged().await? {
            return Err(StopKind::Finished);
        }
        self.record(&Entry::Added { items: vec![history::note(&remarks.unchanged)] })
    }

    async fn ask(&mut self) -> Result<(), StopKind> {
        if std::mem::take(&mut self.is_resumed) {
            self.reopen()?;
            if let Some(text) = self.notice.take() {
                self.record(&Entry::Added { items: vec![history::note(text)] })?;
            }
            if let Some(item) = self.news.take() {
                self.record(&Entry::Added { items: vec![item] })?;
            }
        }
        self.declare_again().await?;
        self.hear()?;
        self.check_budget()?;
        if self.state.is_too_long(self.spec.model) {
            self.compact(CompactionTrigger::Threshold).await?;
            self.check_budget()?;
        }
        self.warn()?;
        self.tell_asked();
        let history = &self.state.history;
        match self.request(history.items(), ToolChoice::Auto, history.previous()).await {
            Ok(reply) => {
                self.append_reply(reply)?;
                if !self.state.is_declined() {
                    self.spec.fallbacks.tried = 0;
                }
                Ok(())
            }
            Err(StopKind::ContextExhausted) if self.state.compaction_exhausted() => {
                Err(StopKind::ContextExhausted)
            }
            Err(StopKind::ContextExhausted) => self.compact(CompactionTrigger::Overflow).await,
            Err(StopKind::Provider(ProviderError::PicturesRefused { message, .. }))
                if history.has_pictures() =>
            {
                self.leave_out_pictures(&message)
            }
            Err(stop) => Err(stop),
        }
    }

    pub(super) fn tell_asked(&self) {
        let (turn, model) = (self.state.spending.turns + 1, self.spec.model.slug.as_str());
        self.spec.progress.happened(AgentEvent::Asked { turn, model });
    }

    /// Once for each turn, when nothing of it is open.
    pub(super) fn tell_turn_ended(&mut self) {
        let turn = self.state.spending.turns;
        if turn == self.told_turn || !self.state.pending().is_empty() {
            return;
        }
        self.told_turn = turn;
        self.spec.progress.happened(AgentEvent::TurnEnded { turn, spending: &self.budget.spent() });
    }

    /// Gives up calls that have not ended: each gets an answer that says so, for a conversation with
    /// unanswered calls cannot go on.
    pub(super) fn give_up_calls(&mut self) -> Result<(), StopKind> {
        self.take_in_ended();
        self.count_lost()?;
        let text = prompt::text("task/dropped.md").map_err(StopKind::Machine)?;
        for call in self.state.pending() {
            self.record(&Entry::dropped(self.state.spending.turns, &call, text))?;
            self.spec.progress.happened(AgentEvent::CallEnded {
                call: &call,
                is_nested: false,
                success: false,
                took: Duration::ZERO,
                output: &[Content::text(text)],
            });
        }
        Ok(())
    }

    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<(usize, ToolCall)>,
    ) -> Result<(), StopKind> {
        // Calls of a model that is asked no more are run as it meant them.
        let profile = self.state.prompt.as_ref().and_then(|prompt| prompt.profile.as_deref());
        let former = former(&self.spec.tools, profile)?;
        let dispatch = self.dispatch_with(former.as_ref().unwrap_or(&self.spec.tools));
        let turn = self.state.spending.turns;
        // Finished calls are kept when the others are given up.
        let each = calls.iter().map(async |call| {
            self.has_ended(dispatch.run_all(turn, std::slice::from_ref(call)).await?);
            Ok(())
        });
        self.bounded(try_join_all(each)).await?.map_err(stop_of)?;
        self.take_in_ended();
        Ok(())
    }

    fn has_ended(&self, done: Vec<Done>) {
        self.ended.lock().extend(done);
    }

    /// Takes in the calls that have ended.
    fn take_in_ended(&mut self) {
        let ended = std::mem::take(&mut *self.ended.lock());
        for done in ended {
            self.touched.extend(done.changed);
            self.state.apply(&done.entry);
        }
    }

    pub(super) fn dispatch_with<'t>(&'t self, tools: &'t ToolSet) -> Dispatch<'t> {
        let means = DispatchContext {
            client: &self.spec.client,
            tools,
            model: self.spec.model,
            limits: self.spec.limits,
            journal: self.spec.journal,
            clock: self.spec.clock,
            progress: self.spec.progress,
            services: self.spec.services,
        };
        let agents = self.sub_agents.as_deref().map(|sub_agents| sub_agents as &dyn Agents);
        Dispatch::new(means, &self.plan, &self.findings).reviewing(self.review).with_agents(agents)
    }

    pub(super) fn open(&mut self, items: Vec<Item>) -> Result<(), StopKind> {
        let entry = self.prompt(items)?;
        self.record(&entry)
    }

    /// A run that is resumed with other tools, usually because of another model, gets the prompt for those;
    /// otherwise the earlier prompt is sent again.
    pub(super) fn reopen(&mut self) -> Result<(), StopKind> {
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

    pub(super) fn record(&mut self, entry: &Entry) -> Result<(), StopKind> {
        self.spec.journal.append(entry).map_err(StopKind::Machine)?;
        self.budget.count(entry);
        self.state.apply(entry);
        Ok(())
    }

    pub(super) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    pub(super) fn stopped(&mut self, reason: StopKind) -> Stopped {
        let mut spending = self.state.spending.clone();
        if self.handle.is_none() {
            spending = self.budget.spent();
            match journal::read(self.spec.journal.path()) {
                Ok(written) => {
                    spending.tools = metrics::table(written.iter().map(|line| &line.entry));
                }
                Err(failure) => {
                    tracing::warn!(%failure, "the journal cannot be read");
                    self.note(
                        "what the tools did is not counted: the journal cannot be read".into(),
                    );
                }
            }
        }
        let now = self.spec.clock.instant();
        spending.wall_seconds = now.saturating_duration_since(self.started).as_secs_f64();
        spending.price_is_unknown |= self.spec.model.price.is_none();
        spending.models = self.state.models();
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
        let failed_hooks = self.spec.services.failed_hooks.notes();
        Stopped {
            reason,
            final_message,
            plan: self.plan.lock().clone(),
            findings: self.findings.lock().clone(),
            spending,
            touched: self.touched.clone(),
            notes: [self.state.switch_notes(), self.notes.clone(), failed_hooks].concat(),
        }
    }
}

pub(super) fn stop_of(broken: Broken) -> StopKind {
    match broken {
        Broken::Sandbox(message) => StopKind::Sandbox(message),
        Broken::Journal(failure) => StopKind::Machine(failure),
    }
}

fn remarks(tools: &ToolSet) -> Result<Remarks, Failure> {
    let text = |name: &str| prompt::text(name).map(str::to_owned);
    Ok(Remarks {
        nudge: text("task/nudge.md")?,
        edits: text("task/failed_edits.md")?,
        empty: text("task/empty_reply.md")?,
        cut: text("task/cut_reply.md")?,
        unfinished: text("task/unfinished_reply.md")?,
        unchanged: text("task/unchanged.md")?,
        tools: tools.listed(),
    })
}
