//! Sub-agents: agents that an agent starts, to work beside it on a part of its task.
//!
//! A sub-agent is the same loop ([`super::turn::Agent`]) with a conversation, a plan and limits of its own,
//! in the same sandbox and at the same gate. It is a future of the run, polled beside the agent that
//! started it ([`SubAgents::beside`]), so nothing of it is left when the run is over. Its entries are a lane of the
//! run's journal. It can start no agents itself.

mod answers;
mod calls;
mod sub_agent;

use parking_lot::Mutex;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub(super) use self::sub_agent::SubAgent;
use self::sub_agent::live;
use super::AgentSpec;
use super::budget::{BudgetShare, SharedBudget};
use super::stop::StopKind;
use super::sub_agent_log::{self, Status, SubAgentLog};
use patchwright_base::clock::Clock;
use patchwright_base::error::Failure;
use patchwright_journal::{Entry, Journal, Line};
use patchwright_provider::Provider;
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::Item;
use patchwright_sandbox::client::Client;
use patchwright_tools::progress::AgentProgress;
use patchwright_tools::registry::{ResolvedTool, ToolSet};
use patchwright_tools::services::Services;

/// How many agents may work at the same time when nothing else is configured.
pub const DEFAULT_MOST: usize = 4;

/// The agents that can be started, and their settings.
pub struct SubAgentConfig {
    /// The first one is what is started when no kind is asked for.
    pub kinds: Vec<Kind>,
    /// How many may work at the same time.
    pub most: usize,
    /// What every agent is told before its own task: the surroundings, the repository's instructions.
    pub opening: Vec<Item>,
    /// Which agents there are, for the description of the call that starts one.
    pub list: String,
    /// For the report.
    pub notes: Vec<String>,
    /// The agents of the recorded run, when it is replayed. Equal calls start them again, and waiting takes no time,
    /// for what they come to is recorded.
    pub recorded: Option<Vec<SubAgentLog>>,
}

/// A kind of agent that can be started.
#[derive(Clone)]
pub struct Kind {
    /// What it is asked for as.
    pub name: String,
    pub model: Model,
    /// One of the model's reasoning levels.
    pub effort: Option<String>,
    /// The system prompt.
    pub instructions: String,
    /// What this kind of agent is told about its work, behind the opening.
    pub role: Option<Item>,
    pub tools: ToolSet,
    pub share: BudgetShare,
    /// What goes on when its model cannot.
    pub fallbacks: Vec<KindFallback>,
}

/// A kind on a model that takes over when its own cannot be asked.
#[derive(Clone)]
pub struct KindFallback {
    /// Which one of the run's fallbacks it is.
    pub at: usize,
    /// As the operator named it.
    pub name: String,
    pub kind: Box<Kind>,
}

/// What the agents of a run have in common.
#[derive(Clone)]
struct SubAgentContext<'a> {
    provider: &'a dyn Provider,
    /// The providers of the run's fallbacks.
    others: Vec<&'a dyn Provider>,
    clock: Clock,
    run: &'a str,
    client: Client,
    deadline: Instant,
    journal: &'a Journal,
    cancel: CancellationToken,
    progress: &'a dyn AgentProgress,
    services: &'a Services,
    budget: Arc<SharedBudget>,
    opening: Arc<Vec<Item>>,
    /// What resumed agents are told.
    notice: Arc<OnceLock<String>>,
    /// Told of every change of a status.
    changes: watch::Sender<()>,
}

type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The agents that an agent has started.
pub struct SubAgents<'a> {
    common: SubAgentContext<'a>,
    kinds: Vec<Arc<Kind>>,
    most: usize,
    recorded: Option<Vec<SubAgentLog>>,
    all: Mutex<Vec<Arc<SubAgent>>>,
    at_work: tokio::sync::Mutex<FuturesUnordered<Work<'a>>>,
    /// Started, and not at work yet.
    arrivals: Mutex<Vec<Work<'a>>>,
    arrived: Notify,
}

impl<'a> SubAgents<'a> {
    pub(super) fn new(
        spec: &AgentSpec<'a>,
        budget: &Arc<SharedBudget>,
        config: SubAgentConfig,
    ) -> SubAgents<'a> {
        let common = SubAgentContext {
            provider: spec.provider,
            others: spec.fallbacks.others.iter().map(|it| it.provider).collect(),
            clock: spec.clock,
            run: spec.run,
            client: spec.client.clone(),
            deadline: spec.deadline,
            journal: spec.journal,
            cancel: spec.cancel.clone(),
            progress: spec.progress,
            services: spec.services,
            budget: Arc::clone(budget),
            opening: Arc::new(config.opening),
            notice: Arc::default(),
            changes: watch::Sender::new(()),
        };
        SubAgents {
            common,
            kinds: config.kinds.into_iter().map(Arc::new).collect(),
            most: config.most,
            recorded: config.recorded,
            all: Mutex::default(),
            at_work: tokio::sync::Mutex::default(),
            arrivals: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Drives the sub-agents while `work` runs.
    pub(super) async fn beside<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.drive() => match never {},
        }
    }

    /// Lets the agents work, for ever.
    async fn drive(&self) -> Infallible {
        let mut at_work = self.at_work.lock().await;
        loop {
            at_work.extend(self.arrivals.lock().drain(..));
            tokio::select! {
                () = self.arrived.notified() => {}
                Some(()) = at_work.next() => {}
            }
        }
    }

    /// The agent that started these has stopped. When it has finished, those that still work are closed,
    /// and named; otherwise they stay as they are, for the resumed run.
    pub(super) async fn end(&self, reason: &StopKind) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        if matches!(reason, StopKind::Finished) {
            for sub_agent in self.sub_agents() {
                if sub_agent.status() == Status::Running {
                    self.close(&sub_agent)?;
                    let (id, kind) = (&sub_agent.id, &sub_agent.kind);
                    notes.push(format!("`{id}` ({kind}) was still working and was closed"));
                }
            }
            self.beside(self.at_rest()).await;
        } else {
            // What is dropped is cancelled in the sandbox too.
            self.arrivals.lock().clear();
            self.at_work.lock().await.clear();
        }
        Ok(notes)
    }

    /// Until no agent has anything to do.
    async fn at_rest(&self) {
        let mut changes = self.common.changes.subscribe();
        while self.sub_agents().iter().any(|sub_agent| !sub_agent.is_at_rest()) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Makes the agents of a recorded run again, as they were: what had not finished is resumed, and is told the
    /// notice first.
    pub(super) fn restore(&self, recorded: &[Line], notice: Option<&str>) {
        if let Some(notice) = notice {
            self.common.notice.get_or_init(|| notice.to_owned());
        }
        for lane in sub_agent_log::lanes(recorded) {
            let replies = lane.entries.iter().map(|entry| entry.replies().len());
            self.common.provider.resume_at(Some(&lane.id), replies.sum());
            if let Some(kind) = self.kind_of(&lane) {
                self.add(kind, lane);
            }
        }
    }

    /// The kind as which a recorded agent is resumed; none when no kind has any tool that it had.
    pub(super) fn kind_of(&self, lane: &SubAgentLog) -> Option<Arc<Kind>> {
        self.kind(&lane.kind).or_else(|| self.instead_of(lane))
    }

    /// A kind for an agent whose own is not there any more: the first, with no tool that it did not have.
    fn instead_of(&self, lane: &SubAgentLog) -> Option<Arc<Kind>> {
        let first = self.kinds.first()?;
        let had = |known: &ResolvedTool| lane.tools.iter().any(|name| *name == known.tool);
        let tools = first.tools.keeping(had);
        let can_work = !tools.declarations().is_empty();
        can_work.then(|| Arc::new(Kind { tools, fallbacks: Vec::new(), ..(**first).clone() }))
    }

    fn add(&self, kind: Arc<Kind>, lane: SubAgentLog) -> Arc<SubAgent> {
        let sub_agent = Arc::new(SubAgent::new(&lane, &self.common));
        self.all.lock().push(Arc::clone(&sub_agent));
        let work = live(self.common.clone(), kind, Arc::clone(&sub_agent), lane);
        self.arrivals.lock().push(Box::pin(work));
        self.arrived.notify_one();
        sub_agent
    }

    fn close(&self, sub_agent: &SubAgent) -> Result<(), Failure> {
        self.common.journal.lane(&sub_agent.id).append(&Entry::Closed)?;
        sub_agent.close();
        Ok(())
    }

    fn sub_agents(&self) -> Vec<Arc<SubAgent>> {
        self.all.lock().clone()
    }

    /// The agents and how they stand, a line each.
    pub(super) fn overview(&self) -> Vec<String> {
        let line = |sub_agent: &Arc<SubAgent>| {
            format!("`{}` ({}): {}", sub_agent.id, sub_agent.kind, sub_agent.status().word())
        };
        self.sub_agents().iter().map(line).collect()
    }

    /// The kind with a name, or with another agent program's name for it.
    fn kind(&self, name: &str) -> Option<Arc<Kind>> {
        let named = |name: &str| self.kinds.iter().find(|it| it.name.eq_ignore_ascii_case(name));
        let known = match name.to_ascii_lowercase().as_str() {
            "worker" | "general" | "general-purpose" => "default",
            "explore" => "explorer",
            _ => name,
        };
        named(name).or_else(|| named(known)).cloned()
    }
}
