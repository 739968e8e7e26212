//! What happened on the forge, and whether that is a task.
//!
//! [`payload::parse`] turns a webhook payload into an [`Event`]; [`decide`] says what follows from it;
//! [`access::check`] says whether the people behind it may ask for that. Nothing else in the program
//! sees webhook JSON.

pub mod access;
pub mod mention;
pub mod payload;
mod shown;
mod spans;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::forge::{Account, RepositoryId};
use crate::task::{IssueSnapshot, TaskKind, Trigger};

/// Something that happened. Closed: what is not listed arrives as [`Event::Other`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A label was put on an issue. Several labels at once are several events.
    IssueLabeled(IssueLabeled),
    /// Somebody, or some program, asked for an issue by number.
    Dispatch(Dispatch),
    /// An event that sets nothing off.
    Other { name: String, action: Option<String> },
}

/// One label, put on one issue.
#[derive(Clone, Debug, PartialEq)]
pub struct IssueLabeled {
    pub repository: RepositoryId,
    pub number: u64,
    /// The label of this event; the issue may have others.
    pub label: String,
    /// Who put it there.
    pub sender: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    pub open: bool,
    pub locked: bool,
    /// Title and body as they stood then.
    pub snapshot: IssueSnapshot,
    pub at: Option<DateTime<Utc>>,
}

/// A request for one issue, by `workflow_dispatch` or `repository_dispatch`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    pub repository: RepositoryId,
    pub number: u64,
    pub actor: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    /// The inputs that are plain values, as text.
    pub inputs: BTreeMap<String, String>,
}

impl Event {
    /// Everybody who has to be allowed for this event to set something off.
    pub fn actors(&self) -> Vec<&Account> {
        let (actor, rerun_by) = match self {
            Event::IssueLabeled(event) => (&event.sender, &event.rerun_by),
            Event::Dispatch(event) => (&event.actor, &event.rerun_by),
            Event::Other { .. } => return Vec::new(),
        };
        std::iter::once(actor).chain(rerun_by).collect()
    }
}

/// What sets a task off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerConfig {
    /// The label that asks for work. GitHub's labels do not tell upper from lower case.
    pub label: String,
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Run(TaskKind),
    /// Nothing, and why, for the log.
    Ignored(String),
}

/// Decides what follows from an event. Whether its actors may is another question, asked of
/// [`access::check`] before anything runs.
pub fn decide(event: &Event, trigger: &TriggerConfig) -> Decision {
    match event {
        Event::IssueLabeled(event) => {
            let number = event.number;
            if event.label.to_lowercase() != trigger.label.to_lowercase() {
                return Decision::Ignored(format!(
                    "label `{}` is not the trigger label `{}`",
                    event.label, trigger.label
                ));
            }
            if !event.open {
                return Decision::Ignored(format!("issue #{number} is closed"));
            }
            Decision::Run(TaskKind::Issue {
                repository: event.repository.clone(),
                number,
                trigger: Some(Trigger {
                    actor: event.sender.login.clone(),
                    rerun_by: event.rerun_by.as_ref().map(|account| account.login.clone()),
                    label: Some(event.label.clone()),
                    at: event.at,
                    snapshot: Some(event.snapshot.clone()),
                }),
            })
        }
        Event::Dispatch(event) => Decision::Run(TaskKind::Issue {
            repository: event.repository.clone(),
            number: event.number,
            trigger: Some(Trigger {
                actor: event.actor.login.clone(),
                rerun_by: event.rerun_by.as_ref().map(|account| account.login.clone()),
                label: None,
                at: None,
                snapshot: None,
            }),
        }),
        Event::Other { name, action } => {
            let action = action.as_ref().map(|action| format!(".{action}")).unwrap_or_default();
            Decision::Ignored(format!("event `{name}{action}` sets nothing off"))
        }
    }
}
