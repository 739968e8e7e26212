//! What a journal says about sub-agents. Pure: lines in, a lane for each agent out; resuming, replaying
//! and the report read it.

use std::collections::VecDeque;
use std::fmt::Write;

use super::budget;
use patchwright_journal::{Entry, Line};
use patchwright_types::outcome::Spending;
use patchwright_types::task::Limits;

/// Bytes of a final message that are handed to the agent that asked for it.
const MAX_MESSAGE: usize = 16 << 10;

/// How an agent stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It has something to do.
    #[default]
    Running,
    /// What it did was given up, and nothing else was asked of it.
    Interrupted,
    /// It said this and is done.
    Completed(String),
    /// It could not go on; why, and what it said last.
    Errored(String),
    /// It was closed; how it stood then.
    Closed(Box<Status>),
}

impl Status {
    /// It is waiting for nobody any more.
    pub fn is_final(&self) -> bool {
        !matches!(self, Status::Running)
    }

    /// The state before it was closed.
    pub fn before_closing(&self) -> &Status {
        match self {
            Status::Closed(before) => before.before_closing(),
            other => other,
        }
    }

    /// In a word, for people.
    pub fn word(&self) -> &'static str {
        match self {
            Status::Running => "working",
            Status::Interrupted => "interrupted",
            Status::Completed(_) => "finished",
            Status::Errored(_) => "failed",
            Status::Closed(_) => "closed",
        }
    }
}

/// The status of an agent that stopped like this.
pub fn stopped(reason: &str, sentence: &str, message: &str) -> Status {
    let kept = &message[..message.floor_char_boundary(MAX_MESSAGE)];
    let mut text = kept.to_owned();
    if kept.len() < message.len() {
        let _ = write!(text, "\n[{} more bytes were left out]", message.len() - kept.len());
    }
    match (reason, text.trim().is_empty()) {
        ("finished", _) => Status::Completed(text),
        (_, true) => Status::Errored(sentence.to_owned()),
        (_, false) => Status::Errored(format!("{sentence}; its last words were: {text}")),
    }
}

/// What the journal has of one agent.
#[derive(Clone, Debug, Default)]
pub struct SubAgentLog {
    pub id: String,
    /// The call that started it.
    pub call: String,
    pub kind: String,
    pub model: String,
    pub limits: Limits,
    pub message: String,
    /// What it can call, by the names in the registry.
    pub tools: Vec<String>,
    pub status: Status,
    /// Messages that it has not taken yet.
    pub inbox: VecDeque<String>,
    /// One of them is worth giving up for what it does.
    pub interrupt: bool,
    /// Calls that have sent it something.
    pub sent: Vec<String>,
    pub spending: Spending,
    /// Its own entries, in order.
    pub entries: Vec<Entry>,
}

/// The agents of a journal, in the order in which they were started.
pub fn lanes(lines: &[Line]) -> Vec<SubAgentLog> {
    let mut agents: Vec<SubAgentLog> = Vec::new();
    for line in lines {
        let (Some(id), entry) = line.entry.of_agent() else { continue };
        if let Some(lane) = agents.iter_mut().find(|lane| lane.id == id) {
            lane.apply(entry);
        } else if let Entry::Spawned { call, kind, model, limits, message, tools } = entry {
            agents.push(SubAgentLog {
                id: id.to_owned(),
                call: call.clone(),
                kind: kind.clone(),
                model: model.clone(),
                limits: limits.clone(),
                message: message.clone(),
                tools: tools.clone(),
                ..SubAgentLog::default()
            });
        }
    }
    agents
}

impl SubAgentLog {
    fn apply(&mut self, entry: &Entry) {
        budget::used(&mut self.spending, entry);
        match entry {
            Entry::Replied { .. } if self.status.is_final() => {}
            Entry::Sent { call, text, interrupt } => {
                self.inbox.push_back(text.clone());
                self.interrupt |= *interrupt && self.status == Status::Running;
                self.sent.push(call.clone());
                self.status = Status::Running;
            }
            Entry::Told { messages, .. } => {
                self.inbox.drain(..(*messages).min(self.inbox.len()));
                self.interrupt = false;
            }
            Entry::Stopped { reason, final_message } => {
                let sentence = format!("it was stopped ({reason})");
                let status = stopped(reason, &sentence, final_message);
                match &mut self.status {
                    Status::Closed(before) => **before = status,
                    own => *own = status,
                }
            }
            Entry::Closed => {
                let before = std::mem::replace(&mut self.status, Status::Interrupted);
                self.status = Status::Closed(Box::new(before));
                self.inbox.clear();
            }
            Entry::Reopened => {
                self.status = reopened(&self.status);
            }
            _ => {}
        }
        self.entries.push(entry.clone());
    }
}

/// How an agent stands that was closed in this status and is opened again.
pub fn reopened(status: &Status) -> Status {
    match status.before_closing() {
        Status::Running => Status::Interrupted,
        before => before.clone(),
    }
}
