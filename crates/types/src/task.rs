//! A decided piece of work with its limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use patchwright_base::text;
use patchwright_forge::{CommentPlace, RepositoryId};

use crate::command::Command;

/// A decided piece of work with its limits. Written to the journal when the run starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub kind: TaskKind,
    pub limits: Limits,
}

/// What a task asks for. Its form in a journal is that of the request with a `kind` beside its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskKind {
    Issue(IssueRequest),
    Review(ReviewRequest),
    Respond(CommandRequest),
    Campaign(CampaignRequest),
    Exec(ExecRequest),
    Prompt(PromptRequest),
    Learn(LearnRequest),
    Triage(TriageRequest),
    Measure(MeasureRequest),
}

/// Solve an issue and open a pull request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssueRequest {
    pub repository: RepositoryId,
    pub number: u64,
    /// Who asked for it, with what, and when; absent when a person ran the command.
    pub trigger: Option<Trigger>,
}

/// Review a pull request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewRequest {
    pub repository: RepositoryId,
    pub number: u64,
    pub trigger: Option<Trigger>,
    /// The commit that the event or the command named; the head of the moment when absent.
    #[serde(default)]
    pub head: Option<String>,
    /// Everything again, whatever was reviewed before.
    #[serde(default)]
    pub full: bool,
    /// Nothing is read and no model is asked: what people have decided about the findings is counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_judges: bool,
}

/// Do what a comment asks for, or answer it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandRequest {
    pub repository: RepositoryId,
    /// Number of the issue or pull request.
    pub number: u64,
    /// Where it was asked; absent when it was asked on the command line or by a failing check.
    pub place: Option<CommentPlace>,
    pub command: Command,
    /// Absent when a person ran the command.
    pub trigger: Option<Trigger>,
}

/// Follow a campaign's prompt in one repository. The change is not published by the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignRequest {
    /// Id of the campaign: its name and the hash of what decides about the work.
    pub campaign: String,
    pub repository: RepositoryId,
    /// What the repository is, whatever it is called; absent while nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    pub base_branch: String,
    /// The commit that is worked on, whatever happens to the branch meanwhile.
    pub base_sha: String,
    pub prompt: String,
    /// Title of the commit; the model's own words when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// An answer is asked for; nothing is changed.
    #[serde(default)]
    pub answer: bool,
}

/// Follow a prompt on a local repository or URL; no forge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecRequest {
    pub repository: String,
    pub base: Option<String>,
    pub prompt: String,
    /// What earlier runs of the same session have left, which this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<EarlierWork>,
}

/// The changes of the earlier runs of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierWork {
    /// The commit that the first of them began at. Where it is no longer the repository's, a person has moved
    /// on, and work begins there.
    pub head: String,
    /// The commit of the last of them, in our own clone.
    pub commit: String,
}

/// Follow the operator's prompt in a repository of the forge, and open a pull request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptRequest {
    pub repository: RepositoryId,
    /// The branch to work from; the default branch when absent.
    pub base: Option<String>,
    pub prompt: String,
    /// Who set it off; absent where nobody in particular did, as for a schedule.
    pub trigger: Option<Trigger>,
}

/// Propose what maintainers corrected as lessons, in a file of the repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnRequest {
    pub repository: RepositoryId,
    /// What was said before is not read; the last proposal, or so many days, decide when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<chrono::DateTime<chrono::Utc>>,
    /// Who set it off; absent where nobody in particular did, as for a schedule.
    pub trigger: Option<Trigger>,
}

/// Say what a new issue is about: labels, duplicates, what is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriageRequest {
    pub repository: RepositoryId,
    pub number: u64,
    /// Who has to be allowed, where anybody has to: whoever runs a workflow again.
    pub trigger: Option<Trigger>,
    /// Once more, even if nothing has changed since.
    #[serde(default)]
    pub full: bool,
}

/// Run the checks of a repository on trees that come of patches. No model is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasureRequest {
    pub repository: String,
    /// The commit that the patches are made for, by its id.
    pub base: String,
    /// What is measured, for people.
    pub about: String,
    /// Tells the patches from others.
    pub digest: String,
}

macro_rules! kinds {
    ($($kind:ident($request:ident)),*) => {
        $(impl From<$request> for TaskKind {
            fn from(request: $request) -> TaskKind {
                TaskKind::$kind(request)
            }
        })*
    };
}

kinds!(
    Issue(IssueRequest),
    Review(ReviewRequest),
    Respond(CommandRequest),
    Campaign(CampaignRequest),
    Exec(ExecRequest),
    Prompt(PromptRequest),
    Learn(LearnRequest),
    Triage(TriageRequest),
    Measure(MeasureRequest)
);

impl TaskKind {
    /// What kind of task it is, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            TaskKind::Issue(_) => "issue",
            TaskKind::Review(_) => "review",
            TaskKind::Respond(_) => "respond",
            TaskKind::Campaign(_) => "campaign",
            TaskKind::Exec(_) => "exec",
            TaskKind::Prompt(_) => "prompt",
            TaskKind::Learn(_) => "learn",
            TaskKind::Triage(_) => "triage",
            TaskKind::Measure(_) => "measure",
        }
    }

    /// What the task is about, for titles: `acme/web#7`, or the prompt's beginning.
    pub fn subject(&self) -> String {
        match self {
            TaskKind::Issue(IssueRequest { repository, number, .. })
            | TaskKind::Review(ReviewRequest { repository, number, .. })
            | TaskKind::Respond(CommandRequest { repository, number, .. })
            | TaskKind::Triage(TriageRequest { repository, number, .. }) => {
                format!("{repository}#{number}")
            }
            TaskKind::Campaign(request) => format!("{}: {}", request.campaign, request.repository),
            TaskKind::Learn(LearnRequest { repository, .. }) => repository.to_string(),
            TaskKind::Exec(ExecRequest { prompt, .. }) => beginning(prompt),
            TaskKind::Measure(MeasureRequest { about, .. }) => about.clone(),
            TaskKind::Prompt(PromptRequest { repository, prompt, .. }) => {
                format!("{repository}: {}", beginning(prompt))
            }
        }
    }
}

/// The first line of a prompt, cut between two words where it is long.
fn beginning(prompt: &str) -> String {
    let first = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    text::cut_at_word(first, MAX_BEGINNING)
}

/// Characters of the beginning of a prompt that say what a run is about.
const MAX_BEGINNING: usize = 60;

impl CommandRequest {
    /// A failing check set it off, and nobody asked.
    pub fn is_automatic(&self) -> bool {
        let is_event = self.trigger.as_ref().is_some_and(|trigger| trigger.at.is_some());
        self.place.is_none() && is_event && self.command == Command::FixCi
    }
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
