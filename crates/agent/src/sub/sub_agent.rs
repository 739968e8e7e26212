//! One sub-agent: how it stands, what it was sent, and its life from the first message to the end of the
//! run.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::super::budget::LimitKind;
use super::super::fallback::{Fallbacks, ModelSetup};
use super::super::history;
use super::super::stop::StopKind;
use super::super::sub_agent_log::{self, Status, SubAgentLog};
use super::super::turn::Agent;
use super::super::{AgentEvent, AgentSpec, ExpectedChange};
use super::{Kind, KindFallback, SubAgentContext};
use patchwright_journal::Entry;
use patchwright_prompt as prompt;
use patchwright_provider::item::Role;
use patchwright_types::task::Limits;

/// A sub-agent as the others see it.
pub(crate) struct SubAgent {
    pub(super) id: String,
    pub(super) kind: String,
    /// The call that started it.
    pub(super) call: String,
    pub(super) since: Instant,
    control: Mutex<Control>,
    wake: Notify,
    changes: watch::Sender<()>,
}

struct Control {
    status: Status,
    inbox: VecDeque<String>,
    /// What it does is to be given up.
    interrupt: bool,
    /// Calls that have sent it something.
    sent: Vec<String>,
    at_rest: bool,
}

impl Agent<'_> {
    /// It is a sub-agent.
    pub(crate) fn is_sub_agent(&self) -> bool {
        self.handle.is_some()
    }

    /// Takes what a sub-agent was sent into its conversation; between two turns it fits everywhere.
    pub(crate) fn hear(&mut self) -> Result<(), StopKind> {
        let Some(sub_agent) = self.handle.clone() else { return Ok(()) };
        // Not between a call and its answer.
        if !self.state.pending().is_empty() {
            return Ok(());
        }
        let messages = sub_agent.take_mail();
        if messages.is_empty() {
            return Ok(());
        }
        let items = messages.iter().map(|text| history::message(Role::User, [text.as_str()]));
        self.record(&Entry::Told { messages: messages.len(), items: items.collect() })
    }
}

impl SubAgent {
    pub(super) fn new(lane: &SubAgentLog, common: &SubAgentContext<'_>) -> SubAgent {
        SubAgent {
            id: lane.id.clone(),
            kind: lane.kind.clone(),
            call: lane.call.clone(),
            since: common.clock.instant(),
            control: Mutex::new(Control {
                status: lane.status.clone(),
                inbox: lane.inbox.clone(),
                interrupt: false,
                sent: lane.sent.clone(),
                at_rest: lane.status.is_final(),
            }),
            wake: Notify::new(),
            changes: common.changes.clone(),
        }
    }

    pub(super) fn status(&self) -> Status {
        self.control().status.clone()
    }

    /// It does nothing and has nothing to do.
    pub(super) fn is_at_rest(&self) -> bool {
        self.control().at_rest
    }

    /// Messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.control().inbox.len()
    }

    /// Which message of its own this call has sent, from one.
    pub(super) fn sent_by(&self, call: &str) -> Option<usize> {
        let position = self.control().sent.iter().position(|sent| sent == call && !call.is_empty());
        position.map(|position| position + 1)
    }

    /// Puts a message into its box; returns which one it is, from one.
    pub(super) fn send(&self, call: &str, text: &str, interrupt: bool) -> usize {
        let mut control = self.control();
        control.inbox.push_back(text.to_owned());
        control.interrupt |= interrupt && control.status == Status::Running;
        control.sent.push(call.to_owned());
        let number = control.sent.len();
        self.start(control);
        number
    }

    pub(super) fn close(&self) {
        let mut control = self.control();
        let before = std::mem::replace(&mut control.status, Status::Interrupted);
        control.interrupt = before == Status::Running;
        control.status = Status::Closed(Box::new(before));
        control.inbox.clear();
        drop(control);
        self.tell();
    }

    pub(super) fn reopen(&self) {
        let mut control = self.control();
        control.status = sub_agent_log::reopened(&control.status);
        drop(control);
        self.tell();
    }

    /// What it was sent and has not taken yet.
    pub(crate) fn take_mail(&self) -> Vec<String> {
        let mut control = self.control();
        control.interrupt = false;
        control.inbox.drain(..).collect()
    }

    fn start(&self, mut control: MutexGuard<'_, Control>) {
        control.status = Status::Running;
        control.at_rest = false;
        drop(control);
        self.tell();
    }

    fn tell(&self) {
        self.wake.notify_one();
        self.changes.send_replace(());
    }

    fn stands(&self, status: Status) {
        self.control().status = status;
        self.changes.send_replace(());
    }

    /// Until there is something to do.
    async fn rest(&self) {
        loop {
            {
                let mut control = self.control();
                if control.status == Status::Running {
                    return;
                }
                control.at_rest = true;
            }
            self.changes.send_replace(());
            self.wake.notified().await;
        }
    }

    /// Until somebody wants it to give up what it does.
    async fn interrupted(&self) {
        while !self.control().interrupt {
            self.wake.notified().await;
        }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock()
    }
}

/// The life of an agent: it works, rests until it is sent something, and works again. It never ends by
/// itself; the run drops it.
pub(super) async fn live(
    common: SubAgentContext<'_>,
    kind: Arc<Kind>,
    sub_agent: Arc<SubAgent>,
    lane: SubAgentLog,
) {
    let journal = common.journal.lane(&sub_agent.id);
    let progress = |what: AgentEvent<'_>| {
        common.progress.happened(AgentEvent::Agent { id: &sub_agent.id, what: &what });
    };
    let key = format!("{}/{}", common.run, sub_agent.id);
    let limits: Limits = lane.limits.clone();
    let spec = AgentSpec {
        provider: common.provider,
        clock: common.clock,
        run: &key,
        client: common.client.clone(),
        model: &kind.model,
        effort: kind.effort.as_deref(),
        instructions: kind.instructions.clone(),
        tools: kind.tools.clone(),
        limits: &limits,
        deadline: common.deadline,
        journal: &journal,
        cancel: common.cancel.clone(),
        progress: &progress,
        services: common.services,
        expects_change: ExpectedChange::None,
        fallbacks: fallbacks(&common, &kind),
    };
    let mut agent = Agent::new(spec).into_sub_agent(&sub_agent, &common.budget);
    let begun = begin(&mut agent, &common, &kind, &sub_agent, lane);
    if let Err(stop) = begun {
        sub_agent.stands(Status::Errored(stop.sentence()));
    }
    loop {
        sub_agent.rest().await;
        if let Err(stop) = work(&mut agent, &sub_agent).await {
            sub_agent.stands(Status::Errored(stop.sentence()));
        }
    }
}

/// The models that go on for an agent's own.
fn fallbacks<'a>(common: &SubAgentContext<'a>, kind: &'a Kind) -> Fallbacks<'a> {
    let setup = |fallback: &'a KindFallback| {
        Some(ModelSetup {
            name: fallback.name.clone(),
            provider: *common.others.get(fallback.at)?,
            model: &fallback.kind.model,
            effort: fallback.kind.effort.as_deref(),
            instructions: fallback.kind.instructions.clone(),
            tools: fallback.kind.tools.clone(),
        })
    };
    let others = kind.fallbacks.iter().filter_map(setup).collect();
    Fallbacks { name: String::new(), others, tried: 0 }
}

/// Says to a fresh agent what it is to do, or takes in what was recorded of it.
fn begin(
    agent: &mut Agent<'_>,
    common: &SubAgentContext<'_>,
    kind: &Kind,
    sub_agent: &SubAgent,
    lane: SubAgentLog,
) -> Result<(), StopKind> {
    if lane.entries.iter().any(|entry| matches!(entry, Entry::Prompted { .. })) {
        agent.adopt(lane.entries.iter());
        agent.notice = common.notice.get().cloned();
        // Given up before the end, and not told so.
        if lane.interrupt || sub_agent.status() != Status::Running {
            agent.give_up_calls()?;
        }
        return Ok(());
    }
    let Limits { max_turns, max_cost_usd, .. } = lane.limits;
    let dollars = kind.model.price.is_some().then_some(max_cost_usd);
    let limits = prompt::agent_limits(max_turns, dollars).map_err(StopKind::Machine)?;
    let task = history::message(Role::User, [limits, lane.message]);
    let opening = common.opening.iter().chain(&kind.role).cloned();
    agent.open(opening.chain([task]).collect())
}

/// Takes turns until the agent is done, is interrupted, or cannot go on.
async fn work(agent: &mut Agent<'_>, sub_agent: &SubAgent) -> Result<(), StopKind> {
    agent.hear()?;
    let reason = tokio::select! {
        biased;
        () = sub_agent.interrupted() => None,
        reason = agent.turns() => Some(reason),
    };
    match reason {
        // The run ends, or this process does: the agent stays as it is, for the resumed run.
        Some(
            reason @ (StopKind::Cancelled
            | StopKind::NewSandbox
            | StopKind::Budget(LimitKind::Time)
            | StopKind::Unanswered(_)
            | StopKind::Sandbox(_)
            | StopKind::Machine(_)),
        ) => Err(reason),
        None => {
            agent.give_up_calls()?;
            sub_agent.control().interrupt = false;
            if sub_agent.status() == Status::Running && sub_agent.waiting() == 0 {
                sub_agent.stands(Status::Interrupted);
            }
            Ok(())
        }
        Some(StopKind::Finished) if sub_agent.waiting() > 0 => Ok(()),
        Some(reason) => {
            agent.give_up_calls()?;
            let stopped = agent.stopped(reason);
            let sentence = stopped.reason.sentence();
            let message = &stopped.final_message;
            sub_agent.stands(sub_agent_log::stopped(stopped.reason.word(), &sentence, message));
            Ok(())
        }
    }
}
