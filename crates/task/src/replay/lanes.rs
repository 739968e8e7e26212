//! The replay of a run with sub-agents: everybody's recorded replies, given out in the order in which they
//! came, and not before the calls have ended that had ended by then. So what was done one after the other is
//! done one after the other again.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::fallbacks::FallbackModel;
use crate::world::World;
use patchwright_agent::budget::BudgetShare;
use patchwright_agent::sub::{Kind, KindFallback, SubAgentConfig};
use patchwright_agent::sub_agent_log::{self, SubAgentLog};
use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_journal::{Entry, Line};
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::scripted::RecordedOutcome;
use patchwright_provider::{OnProgress, Provider, ProviderError, Reply, Request};
use patchwright_tools::profile::Profile;
use patchwright_tools::registry::{ResolvedTool, ToolSet};

/// How much longer than a command may take nothing may happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// Calls, by who made them; the run's own model has no name.
type Counts = BTreeMap<Option<String>, usize>;

/// How far a replay is.
#[derive(Debug, Default)]
struct ReplayProgress {
    /// Replies that were given out.
    given: usize,
    started: Counts,
    ended: Counts,
}

/// One recorded reply.
struct RecordedReply {
    agent: Option<String>,
    request: RecordedOutcome,
    /// Calls that had ended, or been given up, by then.
    after: Counts,
    /// Calls of earlier replies that started before those of this one: writes run in that order.
    behind: Counts,
}

/// Gives out recorded replies.
pub(super) struct ReplyScheduler {
    steps: Vec<RecordedReply>,
    now: Mutex<ReplayProgress>,
    changes: watch::Sender<()>,
    patience: Duration,
}

impl ReplyScheduler {
    pub(super) fn new(lines: &[Line], longest_call: Duration) -> ReplyScheduler {
        let mut steps = Vec::new();
        let mut ended = Counts::new();
        for (at, line) in lines.iter().enumerate() {
            let (agent, entry) = line.entry.of_agent();
            let agent = agent.map(str::to_owned);
            if matches!(entry, Entry::CallEnded { .. } | Entry::CallDropped { .. }) {
                *ended.entry(agent.clone()).or_default() += 1;
            }
            steps.extend(entry.requests().into_iter().map(|request| RecordedReply {
                agent: agent.clone(),
                request,
                after: ended.clone(),
                behind: behind(lines, at, agent.as_deref()),
            }));
        }
        ReplyScheduler {
            steps,
            now: Mutex::default(),
            changes: watch::Sender::new(()),
            patience: longest_call + PATIENCE,
        }
    }

    /// A call has started.
    pub(super) fn call_started(&self, agent: Option<&str>) {
        *self.now().started.entry(agent.map(str::to_owned)).or_default() += 1;
        self.changes.send_replace(());
    }

    /// A call has ended. One that is refused ends without a start: the replay differs, and goes on.
    pub(super) fn call_ended(&self, agent: Option<&str>) {
        let agent = agent.map(str::to_owned);
        let mut now = self.now();
        let ended = now.ended.entry(agent.clone()).or_default();
        *ended += 1;
        let least = *ended;
        let started = now.started.entry(agent).or_default();
        *started = least.max(*started);
        drop(now);
        self.changes.send_replace(());
    }

    /// The next reply when it is for this agent and its time has come. `Err` at the end of the recording.
    fn next(&self, agent: Option<&str>) -> Result<Option<&RecordedReply>, usize> {
        let mut now = self.now();
        let at = now.given;
        if !self.steps.iter().skip(at).any(|step| step.agent.as_deref() == agent) {
            return Err(at);
        }
        let Some(step) = self.steps.get(at) else { return Err(at) };
        let has_come = has_all(&now.ended, &step.after) && has_all(&now.started, &step.behind);
        if step.agent.as_deref() != agent || !has_come {
            return Ok(None);
        }
        now.given += 1;
        drop(now);
        self.changes.send_replace(());
        Ok(Some(step))
    }

    fn now(&self) -> MutexGuard<'_, ReplayProgress> {
        self.now.lock()
    }
}

fn has_all(counts: &Counts, wanted: &Counts) -> bool {
    wanted.iter().all(|(who, least)| counts.get(who).copied().unwrap_or_default() >= *least)
}

/// The calls of others that started before those of the reply at this line, of replies that had come
/// earlier: a later one is given out later. A reply without calls need not wait: others may wait for it.
fn behind(lines: &[Line], at: usize, agent: Option<&str>) -> Counts {
    let mut counts = Counts::new();
    let mut has_replied_again = BTreeSet::new();
    // A run that went on may have started a call once more.
    let mut started = BTreeSet::new();
    for (place, line) in lines.iter().enumerate() {
        let (who, entry) = line.entry.of_agent();
        let is_later = place > at;
        match entry {
            Entry::CallStarted { .. } if who == agent && is_later => return counts,
            Entry::CallStarted { id, .. }
                if who != agent
                    && !has_replied_again.contains(&who)
                    && started.insert((who, id)) =>
            {
                *counts.entry(who.map(str::to_owned)).or_default() += 1;
            }
            entry if is_later && !entry.replies().is_empty() => {
                if who == agent {
                    break;
                }
                has_replied_again.insert(who);
            }
            _ => {}
        }
    }
    Counts::new()
}

#[async_trait]
impl Provider for ReplyScheduler {
    async fn reply(
        &self,
        request: &Request<'_>,
        _: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        let exhausted =
            |used| ProviderError::ScriptExhausted { script: "journal".to_owned(), used };
        let mut changes = self.changes.subscribe();
        loop {
            match self.next(request.agent()) {
                Err(used) => return Err(exhausted(used)),
                Ok(Some(step)) => return step.request.again(),
                Ok(None) => {}
            }
            // The recording and what happens now have gone apart.
            if tokio::time::timeout(self.patience, changes.changed()).await.is_err() {
                return Err(exhausted(self.now().given));
            }
        }
    }
}

/// The agents of a recorded run, to be started again by the same calls.
pub(super) fn sub_agent_config(
    lines: &[Line],
    tools: &ToolSet,
    world: &World,
) -> Result<SubAgentConfig> {
    let agents = sub_agent_log::lanes(lines);
    let mut kinds: Vec<Kind> = Vec::new();
    for lane in &agents {
        if !kinds.iter().any(|kind| kind.name == lane.kind) {
            kinds.push(kind(lane, tools, world)?);
        }
    }
    Ok(SubAgentConfig {
        kinds,
        most: usize::MAX,
        opening: Vec::new(),
        notes: Vec::new(),
        list: String::new(),
        recorded: Some(agents),
    })
}

fn kind(lane: &SubAgentLog, tools: &ToolSet, world: &World) -> Result<Kind> {
    let model = if lane.model == world.model.slug {
        world.model.clone()
    } else {
        resolved(&lane.model).unwrap_or_else(|| world.model.clone())
    };
    let profile = lane.entries.iter().find_map(|entry| match entry {
        Entry::Prompted { profile, .. } => Some(profile.as_deref()),
        _ => None,
    });
    let mut own = tools.clone();
    if let Some(profile) = profile.flatten().filter(|it| *it != own.profile().name()) {
        own = ToolSet::new(Profile::named(profile)?, model.wire)?.with_extras_of(tools);
    }
    let had = |known: &ResolvedTool| lane.tools.iter().any(|name| *name == known.tool);
    let own = own.keeping(had);
    let fallback = |(at, fallback): (usize, &FallbackModel)| -> Result<KindFallback> {
        let own = ToolSet::for_run(&fallback.model, Mode::Execute, &[])?;
        let kind = Kind {
            tools: own.with_extras_of(tools).keeping(had),
            model: fallback.model.clone(),
            name: lane.kind.clone(),
            effort: None,
            instructions: String::new(),
            role: None,
            share: BudgetShare::default(),
            fallbacks: Vec::new(),
        };
        Ok(KindFallback { at, name: fallback.name.clone(), kind: Box::new(kind) })
    };
    let fallbacks =
        world.others.fallbacks.iter().enumerate().map(fallback).collect::<Result<Vec<_>>>()?;
    Ok(Kind {
        name: lane.kind.clone(),
        effort: None,
        instructions: String::new(),
        role: None,
        tools: own,
        share: BudgetShare::default(),
        model,
        fallbacks,
    })
}

fn resolved(slug: &str) -> Option<Model> {
    Catalogue::load(&BTreeMap::new()).ok()?.resolve(slug, None).ok()
}
