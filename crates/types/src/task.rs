//! A decided piece of work with its limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use patchwright_forge::{CommentPlace, RepositoryId};

use crate::command::Command;

/// A decided piece of work with its limits. Written to the journal when the run starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub kind: TaskKind,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskKind {
    /// Solve an issue and open a pull request.
    Issue {
        repository: RepositoryId,
        number: u64,
        /// Who asked for it, with what, and when; absent when a person ran the command.
        trigger: Option<Trigger>,
    },
    /// Review a pull request.
    Review {
        repository: RepositoryId,
        number: u64,
        trigger: Option<Trigger>,
        /// The commit that the event or the command named; the head of the moment when absent.
        #[serde(default)]
        head: Option<String>,
        /// Everything again, whatever was reviewed before.
        #[serde(default)]
        full: bool,
    },
    /// Do what a comment asks for, or answer it.
    Respond {
        repository: RepositoryId,
        /// Of the issue or pull request.
        number: u64,
        /// Where it was asked; absent when it was asked on the command line or by a failing check.
        place: Option<CommentPlace>,
        command: Command,
        trigger: Option<Trigger>,
    },
    /// Follow a campaign's prompt in one repository. The change is not published here.
    Campaign {
        /// Id of the campaign: its name and the hash of what decides about the work.
        campaign: String,
        repository: RepositoryId,
        base_branch: String,
        /// The commit that is worked on, whatever happens to the branch meanwhile.
        base_sha: String,
        prompt: String,
        /// Title of the commit; the model's own words when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// A question: the run ends with an answer and changes nothing.
        #[serde(default)]
        answer: bool,
    },
    /// Follow a prompt on a local repository or URL; no forge.
    Exec { repository: String, base: Option<String>, prompt: String },
}

/// What set the task off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Login of the person or bot.
    pub actor: String,
    /// Who started the same workflow run again, when that was somebody else; needs access too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun_by: Option<String>,
    /// The label to take off when work starts.
    pub label: Option<String>,
    /// When it happened; what was edited later is not read.
    pub at: Option<chrono::DateTime<chrono::Utc>>,
    /// Title and body as the event carried them.
    pub snapshot: Option<IssueSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueSnapshot {
    pub title: String,
    pub body: String,
}

/// Hard bounds of one run. Reaching one ends the run with its work salvaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub max_turns: u32,
    /// Tokens in all, input and output, without input from the provider's cache.
    pub max_tokens: u64,
    pub max_cost_usd: f64,
    /// Wall clock of the whole run.
    pub timeout: Duration,
    /// Longest single command of the model.
    pub command_timeout: Duration,
    /// How often failing checks are given back to the model.
    pub verify_rounds: u32,
}
