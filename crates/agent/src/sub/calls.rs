//! The calls with which an agent starts others, tells them something, waits for them and closes them. Names,
//! arguments and answers are those that the codex models know.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::sub_agent_log::{Status, SubAgentLog};
use super::answers;
use super::{Kind, SubAgent, SubAgents};
use patchwright_base::error::Failure;
use patchwright_guest::tool::{ToolError, ToolOutput};
use patchwright_journal::Entry;
use patchwright_tools::dispatch::printable;
use patchwright_tools::host::{Agents, HostCall};

/// Most agents of one run.
const MOST_IN_ALL: usize = 64;
/// Bytes of one message.
const MAX_TEXT: usize = 64 << 10;
/// Messages that may wait for one agent.
const MAX_WAITING: usize = 16;
/// Default wait, and the allowed range.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
const SHORTEST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_hours(1);

#[derive(Deserialize)]
struct Spawn {
    message: String,
    agent_type: Option<String>,
}

#[derive(Deserialize)]
struct Send {
    id: String,
    message: String,
    #[serde(default)]
    interrupt: bool,
}

#[derive(Deserialize)]
struct AgentId {
    id: String,
}

#[derive(Deserialize)]
struct Wait {
    #[serde(default)]
    ids: Vec<String>,
    timeout_ms: Option<f64>,
}

#[async_trait]
impl Agents for SubAgents<'_> {
    async fn call(
        &self,
        tool: &str,
        ctx: &HostCall<'_>,
        args: Value,
    ) -> Result<ToolOutput, ToolError> {
        let id = ctx.id;
        match tool {
            "spawn_agent" => self.spawn(id, parse(args)?).map(|it| answers::spawned(&it)),
            "send_input" => self.send(id, &parse(args)?),
            "resume_agent" => self.reopen(&parse::<AgentId>(args)?.id),
            "wait" => self.wait(ctx, &parse(args)?).await,
            "close_agent" => self.closed(&parse::<AgentId>(args)?.id),
            "task" => self.task(id, parse(args)?).await,
            other => Err(ToolError::Broken(format!("there is no call `{other}` of agents"))),
        }
    }
}

impl SubAgents<'_> {
    fn spawn(&self, call: &str, args: Spawn) -> Result<Arc<SubAgent>, ToolError> {
        let sub_agents = self.sub_agents();
        // A resumed run makes a call again that had not ended, and the agent is there already.
        let started =
            sub_agents.iter().find(|sub_agent| sub_agent.call == call && !call.is_empty());
        if let Some(sub_agent) = started {
            return Ok(Arc::clone(sub_agent));
        }
        if let Some(lanes) = &self.recorded {
            return self.spawn_recorded(lanes, &sub_agents, call);
        }
        let message = checked(args.message)?;
        let wanted = args.agent_type.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let kind = match wanted {
            None => self.kinds.first().cloned(),
            Some(name) => self.kind(name),
        };
        let Some(kind) = kind else {
            let names: Vec<String> =
                self.kinds.iter().map(|kind| format!("`{}`", kind.name)).collect();
            return Err(ToolError::tell(format!(
                "not started: there is no agent type `{}`. The types are {}; without one, the first",
                printable(wanted.unwrap_or_default()),
                names.join(", ")
            )));
        };
        self.room()?;
        if sub_agents.len() >= MOST_IN_ALL {
            return Err(ToolError::tell(format!(
                "not started: {MOST_IN_ALL} agents are the most of one run. Go on with those that \
                 there are, or do the work yourself"
            )));
        }
        let lane = SubAgentLog {
            id: format!("agent-{}", sub_agents.len() + 1),
            call: call.to_owned(),
            kind: kind.name.clone(),
            model: kind.model.slug.clone(),
            limits: self.common.budget.share(&kind.share),
            message,
            tools: kind.tools.names(),
            ..SubAgentLog::default()
        };
        self.started(kind, lane)
    }

    fn started(&self, kind: Arc<Kind>, lane: SubAgentLog) -> Result<Arc<SubAgent>, ToolError> {
        self.note(
            &lane.id,
            &Entry::Spawned {
                call: lane.call.clone(),
                kind: lane.kind.clone(),
                model: lane.model.clone(),
                limits: lane.limits.clone(),
                message: lane.message.clone(),
                tools: lane.tools.clone(),
            },
        )?;
        Ok(self.add(kind, lane))
    }

    /// The agent that this call had started, once more.
    fn spawn_recorded(
        &self,
        lanes: &[SubAgentLog],
        sub_agents: &[Arc<SubAgent>],
        call: &str,
    ) -> Result<Arc<SubAgent>, ToolError> {
        let is_free =
            |lane: &&SubAgentLog| !sub_agents.iter().any(|sub_agent| sub_agent.id == lane.id);
        let lane = lanes.iter().filter(is_free).find(|lane| lane.call == call);
        let kind = lane.and_then(|lane| self.kind(&lane.kind));
        let Some((lane, kind)) = lane.zip(kind) else {
            return Err(ToolError::tell("not started, as it was recorded"));
        };
        let lane = SubAgentLog {
            id: lane.id.clone(),
            call: lane.call.clone(),
            kind: lane.kind.clone(),
            model: lane.model.clone(),
            limits: lane.limits.clone(),
            message: lane.message.clone(),
            ..SubAgentLog::default()
        };
        self.started(kind, lane)
    }

    fn send(&self, call: &str, args: &Send) -> Result<ToolOutput, ToolError> {
        let sub_agent = self.sub_agent(&args.id)?;
        if let Some(number) = sub_agent.sent_by(call) {
            return Ok(answers::sent(&sub_agent, number));
        }
        let message = checked(args.message.clone())?;
        match sub_agent.status() {
            Status::Closed(_) => {
                return Err(ToolError::tell(format!(
                    "not sent: `{}` is closed. Open it again with `resume_agent` first",
                    sub_agent.id
                )));
            }
            Status::Running if sub_agent.waiting() >= MAX_WAITING => {
                return Err(ToolError::tell(format!(
                    "not sent: {MAX_WAITING} messages wait for `{}` already. Wait for it first",
                    sub_agent.id
                )));
            }
            Status::Running => {}
            Status::Interrupted | Status::Completed(_) | Status::Errored(_) => self.room()?,
        }
        let (text, interrupt) = (message.clone(), args.interrupt);
        self.note(&sub_agent.id, &Entry::Sent { call: call.to_owned(), text, interrupt })?;
        Ok(answers::sent(&sub_agent, sub_agent.send(call, &message, interrupt)))
    }

    fn reopen(&self, id: &str) -> Result<ToolOutput, ToolError> {
        let sub_agent = self.sub_agent(id)?;
        if matches!(sub_agent.status(), Status::Closed(_)) {
            self.note(&sub_agent.id, &Entry::Reopened)?;
            sub_agent.reopen();
        }
        Ok(answers::status(&sub_agent.status()))
    }

    fn closed(&self, id: &str) -> Result<ToolOutput, ToolError> {
        let sub_agent = self.sub_agent(id)?;
        let before = sub_agent.status();
        if !matches!(before, Status::Closed(_)) {
            self.close(&sub_agent).map_err(|failure| broken(&failure))?;
        }
        Ok(answers::status(before.before_closing()))
    }

    /// Until the first of these is done, or the time is over.
    async fn wait(&self, ctx: &HostCall<'_>, args: &Wait) -> Result<ToolOutput, ToolError> {
        let limit = limit(args.timeout_ms)?;
        let mut sub_agents = Vec::new();
        let mut unknown = Vec::new();
        for id in &args.ids {
            match self.sub_agent(id) {
                Ok(sub_agent) => sub_agents.push(sub_agent),
                Err(_) => unknown.push(printable(id)),
            }
        }
        if args.ids.is_empty() {
            sub_agents = self.sub_agents();
            let is_any_at_work = sub_agents.iter().any(|it| it.status() == Status::Running);
            // One may have ended right before the call, and then nothing else has its report.
            sub_agents.retain(|it| match it.status() {
                Status::Running => true,
                Status::Closed(_) => false,
                _ => !is_any_at_work,
            });
        }
        if sub_agents.is_empty() && unknown.is_empty() {
            return Err(ToolError::tell("there is nothing to wait for: no agent is open"));
        }
        let is_decided = || {
            !unknown.is_empty() || sub_agents.iter().any(|sub_agent| sub_agent.status().is_final())
        };
        // In a replay the model's answer is known; a script really has to wait.
        let is_known = self.recorded.is_some() && !ctx.is_nested;
        let limit = if is_known { Duration::ZERO } else { limit };
        let _ = tokio::time::timeout(limit, self.until(is_decided)).await;
        Ok(answers::waited(&sub_agents, &unknown, self.common.clock.instant()))
    }

    /// Starts an agent, waits until it is done, however long that takes, and closes it.
    async fn task(&self, call: &str, args: Spawn) -> Result<ToolOutput, ToolError> {
        let sub_agent = self.spawn(call, args)?;
        self.until(|| sub_agent.status().is_final()).await;
        let status = sub_agent.status();
        if !matches!(status, Status::Closed(_)) {
            self.close(&sub_agent).map_err(|failure| broken(&failure))?;
        }
        Ok(answers::report(&sub_agent, status.before_closing()))
    }

    async fn until(&self, is_decided: impl Fn() -> bool) {
        let mut changes = self.common.changes.subscribe();
        while !is_decided() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// One more may work now.
    fn room(&self) -> Result<(), ToolError> {
        let working = self.sub_agents().iter().filter(|it| it.status() == Status::Running).count();
        if working < self.most {
            return Ok(());
        }
        let plural = if working == 1 { "agent is" } else { "agents are" };
        Err(ToolError::tell(format!(
            "{working} {plural} working, and that is the most at the same time. `wait` until one is \
             done, or close one with `close_agent`"
        )))
    }

    fn sub_agent(&self, id: &str) -> Result<Arc<SubAgent>, ToolError> {
        let sub_agents = self.sub_agents();
        let found = sub_agents.iter().find(|sub_agent| sub_agent.id == id.trim());
        found.cloned().ok_or_else(|| {
            let known: Vec<String> =
                sub_agents.iter().map(|sub_agent| format!("`{}`", sub_agent.id)).collect();
            let known = match known.as_slice() {
                [] => "none was started yet".to_owned(),
                known => format!("there are {}", known.join(", ")),
            };
            ToolError::tell(format!("agent with id `{}` not found: {known}", printable(id)))
        })
    }

    fn note(&self, agent: &str, entry: &Entry) -> Result<(), ToolError> {
        self.common.journal.lane(agent).append(entry).map_err(|failure| broken(&failure))?;
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(args: Value) -> Result<T, ToolError> {
    serde_json::from_value(args).map_err(|err| ToolError::tell(format!("not done: {err}")))
}

fn broken(failure: &Failure) -> ToolError {
    ToolError::Broken(failure.to_string())
}

fn checked(message: String) -> Result<String, ToolError> {
    if message.trim().is_empty() {
        return Err(ToolError::tell("not sent: `message` is empty; say what the agent is to do"));
    }
    if message.len() > MAX_TEXT {
        return Err(ToolError::tell(format!(
            "not sent: `message` has {} bytes, and {MAX_TEXT} are allowed. Name files instead of \
             quoting them",
            message.len()
        )));
    }
    Ok(message)
}

/// How long it is waited: a shorter time would be a busy loop, a longer one a hanging run.
fn limit(asked_ms: Option<f64>) -> Result<Duration, ToolError> {
    match asked_ms {
        None => Ok(DEFAULT_WAIT),
        Some(ms) if ms > 0.0 => {
            let asked = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(LONGEST_WAIT);
            Ok(asked.clamp(SHORTEST_WAIT, LONGEST_WAIT))
        }
        Some(_) => Err(ToolError::tell("`timeout_ms` must be greater than zero")),
    }
}

#[cfg(test)]
mod tests {
    use crate::sub::calls::*;

    #[test]
    fn waiting_is_neither_a_busy_loop_nor_endless() {
        for (asked, seconds) in [
            (None, Some(30)),
            (Some(1.0), Some(10)),
            (Some(20_000.0), Some(20)),
            (Some(1e12), Some(3600)),
            (Some(f64::INFINITY), Some(3600)),
            (Some(0.0), None),
            (Some(-5.0), None),
            (Some(f64::NAN), None),
        ] {
            let limit = limit(asked).ok().map(|limit| limit.as_secs());
            assert_eq!(limit, seconds, "{asked:?}");
        }
    }
}
