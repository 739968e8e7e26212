//! What happened on the forge, and whether that is a task.
//!
//! [`payload::parse`] turns a webhook payload into an [`Event`]; [`decide`] says what follows from it;
//! [`access::check`] says whether the people behind it may ask for that. Nothing else in the program
//! sees webhook JSON.

pub mod access;
mod check_payload;
mod decide;
pub mod mention;
pub mod payload;
mod plain_words;
mod pull_payload;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use patchwright_forge::{Account, CommentPlace, RepositoryId};
use patchwright_types::task::IssueSnapshot;

pub use self::decide::{
    Decision, EventTask, HeadBranch, HeadOf, OWN_BRANCHES, TriggerConfig, decide, is_own_branch,
    own_branch_beside,
};

/// Something that happened. Closed: what is not listed arrives as [`Event::Other`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A label was put on an issue. Several labels at once are several events.
    IssueLabeled(IssueLabeled),
    /// An issue was opened, edited or opened again.
    IssueOpened(IssueOpened),
    /// An issue was assigned to somebody. Several people at once are several events.
    IssueAssigned(IssueAssigned),
    /// A pull request came, changed or got a label.
    PullRequest(PullRequestChanged),
    /// Somebody said something on an issue or a pull request.
    Commented(Commented),
    /// Checks on a commit have ended.
    Checked(Checked),
    /// Somebody asked for a check again, on its page.
    Rerequested(Rerequested),
    /// A merge queue asks for the checks of a commit that it has made.
    Queued(Queued),
    /// Somebody, or some program, asked for an issue or a pull request by number.
    Dispatch(Dispatch),
    /// An event that sets nothing off.
    Other { name: String, action: Option<String> },
}

impl Event {
    /// The same event of a repository that has another name now.
    #[must_use]
    pub fn renamed(mut self, to: &RepositoryId) -> Event {
        let repository = match &mut self {
            Event::IssueLabeled(event) => &mut event.repository,
            Event::IssueOpened(event) => &mut event.repository,
            Event::IssueAssigned(event) => &mut event.repository,
            Event::PullRequest(event) => &mut event.repository,
            Event::Commented(event) => &mut event.repository,
            Event::Checked(event) => {
                if let Some(head) = &mut event.head_repository
                    && head.is_same(&event.repository)
                {
                    head.clone_from(to);
                }
                &mut event.repository
            }
            Event::Rerequested(event) => &mut event.repository,
            Event::Queued(event) => &mut event.repository,
            Event::Dispatch(event) => &mut event.repository,
            Event::Other { .. } => return self,
        };
        repository.clone_from(to);
        self
    }
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

/// An issue that is new, or says something else than before.
#[derive(Clone, Debug, PartialEq)]
pub struct IssueOpened {
    pub repository: RepositoryId,
    pub number: u64,
    /// `opened`, `edited` or `reopened`.
    pub action: String,
    pub author: Account,
    /// Who opened or edited it.
    pub sender: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    pub open: bool,
    pub locked: bool,
    pub at: Option<DateTime<Utc>>,
}

/// One issue, assigned to one account.
#[derive(Clone, Debug, PartialEq)]
pub struct IssueAssigned {
    pub repository: RepositoryId,
    pub number: u64,
    /// To whom, in this event; others may be assigned as well.
    pub assignee: Account,
    /// Who has assigned it.
    pub sender: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    pub open: bool,
    /// Title and body as they stood then.
    pub snapshot: IssueSnapshot,
    pub at: Option<DateTime<Utc>>,
}

/// A pull request that came, changed or got a label.
#[derive(Clone, Debug, PartialEq)]
pub struct PullRequestChanged {
    pub repository: RepositoryId,
    pub number: u64,
    /// `opened`, `reopened`, `ready_for_review`, `synchronize`, `labeled`, or `edited` with another base.
    pub action: String,
    /// The label of this event, when it is about one.
    pub label: Option<String>,
    pub sender: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    pub author: Account,
    pub open: bool,
    pub draft: bool,
    pub labels: Vec<String>,
    /// The newest commit, as the event has it.
    pub head_sha: String,
    /// Title and body as they stood then.
    pub snapshot: IssueSnapshot,
    pub at: Option<DateTime<Utc>>,
}

/// A comment, in a conversation, in a thread on the diff, or as the body of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct Commented {
    pub repository: RepositoryId,
    /// Number of the issue or pull request.
    pub number: u64,
    pub place: CommentPlace,
    pub author: Account,
    /// Who made the event: the author, as a rule.
    pub sender: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    pub body: String,
    /// Title and body of the issue or pull request as they stood then.
    pub snapshot: IssueSnapshot,
    /// When the comment was written or changed last.
    pub at: Option<DateTime<Utc>>,
}

/// Checks that have ended: a workflow run, or the check suite of another app.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// `workflow_run` or `check_suite`.
    pub source: String,
    pub repository: RepositoryId,
    /// `success`, `failure`, …
    pub conclusion: String,
    pub head_sha: String,
    pub head_branch: Option<String>,
    /// The repository that the branch is in, where that is said.
    pub head_repository: Option<RepositoryId>,
    /// The commit is in another repository.
    pub is_fork: bool,
    /// A pull request set the workflow off.
    pub of_pull_request: bool,
    /// Pull requests into this repository with this head; always empty for forks.
    pub pull_requests: Vec<u64>,
    /// Who set the workflow off.
    pub actor: Account,
    /// Who started a workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    pub at: Option<DateTime<Utc>>,
}

impl Checked {
    /// The branch that a workflow ran for, where a pull request set it off and it ended well.
    pub fn of_pull_from(&self) -> Option<HeadBranch> {
        let is_one = self.of_pull_request && self.source == "workflow_run";
        let from = self.head_repository.clone().zip(self.head_branch.clone());
        let from = from.filter(|_| is_one && self.conclusion == "success");
        from.map(|(repository, branch)| HeadBranch { repository, branch })
    }
}

/// A check, or all checks of an App at a commit, that somebody wants again.
#[derive(Clone, Debug, PartialEq)]
pub struct Rerequested {
    pub repository: RepositoryId,
    /// Name of the check; `None` for all of the App's.
    pub check: Option<String>,
    /// The App whose check it is, by the name in its address.
    pub app: String,
    pub head_sha: String,
    pub sender: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
}

/// A commit of a merge queue, made of the base branch and pull requests that passed their checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    pub repository: RepositoryId,
    pub head_sha: String,
}

/// A request for one issue or pull request, by `workflow_dispatch` or `repository_dispatch`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    pub repository: RepositoryId,
    pub number: u64,
    /// The number was given as a pull request's.
    pub is_pull_request: bool,
    /// What is to be done there, in words as after a mention.
    pub command: Option<String>,
    pub actor: Account,
    /// Who started the workflow again, when that was somebody else.
    pub rerun_by: Option<Account>,
    /// The inputs that are plain values, as text.
    pub inputs: BTreeMap<String, String>,
}
