//! What follows from an event. Pure: whether those behind it may ask for that is asked of
//! [`super::access`], and what the repository's own configuration says of the task, later.

use super::mention;
use super::{
    Checked, Commented, Dispatch, Event, IssueAssigned, IssueLabeled, IssueOpened,
    PullRequestChanged, Rerequested,
};
use patchwright_config::Config;
use patchwright_forge::{Account, PullRequest, RepositoryId, marker};
use patchwright_report::review::check;
use patchwright_types::command::Command;
use patchwright_types::task::{
    CommandRequest, IssueRequest, PromptRequest, ReviewRequest, TriageRequest, Trigger,
};

/// Branches of ours begin with this, unless the operator names one.
pub const OWN_BRANCHES: &str = "patchwright/";

/// The beginning of their names where a branch `patchwright` leaves no room for others below it.
const BESIDE: &str = "patchwright-";
/// What follows our prefix in the names of branches that we work on.
const WORK: [&str; 2] = ["issue-", "prompt-"];

/// The branch where none can be called `patchwright/NAME`.
pub fn own_branch_beside(name: &str) -> String {
    format!("{BESIDE}{name}")
}

/// The branch has a name that we give.
pub fn is_own_branch(branch: &str) -> bool {
    let is_beside = |name: &str| WORK.iter().any(|work| name.starts_with(work));
    branch.starts_with(OWN_BRANCHES) || branch.strip_prefix(BESIDE).is_some_and(is_beside)
}

/// What sets tasks off, as far as the operator says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerConfig {
    /// The label that asks for work on an issue. GitHub's labels do not tell upper from lower case.
    pub label: String,
    /// The account to which an issue is assigned to ask for work on it.
    pub assignee: Option<String>,
    /// The name after `@`.
    pub mention: String,
    /// Bots whose comments count, by their exact login.
    pub allow_bots: Vec<String>,
    /// The branch of our pull requests, when it is not `patchwright/…`.
    pub branch: Option<String>,
    /// Whether drafts are reviewed; the repository says it when absent.
    pub drafts: Option<bool>,
    /// Labels of which a pull request needs one; the repository says it when absent.
    pub review_labels: Option<Vec<String>>,
    pub skip_labels: Vec<String>,
    pub skip_authors: Vec<String>,
    /// Issues that are opened or edited are triaged.
    pub triages: bool,
}

impl TriggerConfig {
    /// What an operator's configuration says.
    pub fn of(config: &Config) -> TriggerConfig {
        let said = |key: &str| config.sources.contains_key(key);
        TriggerConfig {
            label: config.access.label.clone(),
            assignee: config.access.assignee.clone(),
            mention: config.respond.mention.clone(),
            allow_bots: config.access.allow_bots.clone(),
            branch: config.publish.branch.clone(),
            drafts: said("review.drafts").then_some(config.review.drafts),
            review_labels: said("review.labels").then(|| config.review.labels.clone()),
            skip_labels: config.review.skip_labels.clone(),
            skip_authors: config.review.skip_authors.clone(),
            triages: config.triage.enabled,
        }
    }
}

/// The branch that a pull request is from. Anybody can have a branch with the same commit, so the commit
/// alone does not say which pull request an event is about.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadBranch {
    pub repository: RepositoryId,
    pub branch: String,
}

impl HeadBranch {
    /// The pull request is from this branch, and at this commit now.
    pub fn has(&self, pull: &PullRequest, head_sha: &str) -> bool {
        let repository = pull.head_repository.as_ref();
        pull.head_branch == self.branch
            && pull.head_sha.eq_ignore_ascii_case(head_sha)
            && repository.is_some_and(|repository| repository.is_same(&self.repository))
    }
}

/// Which of the pull requests with one head an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadOf {
    /// The one from this branch of a fork.
    Branch(HeadBranch),
    /// Any: a check of this App on the commit is asked for again.
    CheckOf { app: String },
}

/// What an event can start: of all tasks, those that it has the words for.
#[derive(Clone, Debug, PartialEq)]
pub enum EventTask {
    Issue(IssueRequest),
    Review(ReviewRequest),
    Respond(CommandRequest),
    /// The workflow of the event says itself what to do.
    Prompt(PromptRequest),
    Triage(TriageRequest),
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Run(EventTask),
    /// Review the pull request that has this head: its event does not say the number.
    ReviewAt {
        repository: RepositoryId,
        head_sha: String,
        source: HeadOf,
        /// Who has to be allowed, when anybody.
        trigger: Option<Trigger>,
    },
    /// Answer a merge queue, which asks for the review's check on this commit.
    AnswerQueue {
        repository: RepositoryId,
        head_sha: String,
    },
    /// Nothing, and why, for the log.
    Ignored(String),
}

/// Decides what follows from an event. Whether its actors may is another question, asked of
/// [`super::access::check`] before anything runs.
pub fn decide(event: &Event, config: &TriggerConfig) -> Decision {
    let decided = match event {
        Event::IssueLabeled(event) => issue(event, config),
        Event::IssueAssigned(event) => assigned(event, config),
        Event::IssueOpened(event) => opened(event, config),
        Event::PullRequest(event) => pull_request(event, config),
        Event::Commented(event) => comment(event, config),
        Event::Checked(event) => return checked(event, config).unwrap_or_else(Decision::Ignored),
        Event::Rerequested(event) => {
            return rerequested(event).unwrap_or_else(Decision::Ignored);
        }
        Event::Queued(event) => {
            let (repository, head_sha) = (event.repository.clone(), event.head_sha.clone());
            return Decision::AnswerQueue { repository, head_sha };
        }
        Event::Dispatch(event) => dispatch(event, config),
        Event::Other { name, action } => {
            let action = action.as_ref().map(|action| format!(".{action}")).unwrap_or_default();
            Err(format!("event `{name}{action}` sets nothing off"))
        }
    };
    decided.map_or_else(Decision::Ignored, Decision::Run)
}

fn issue(event: &IssueLabeled, config: &TriggerConfig) -> Result<EventTask, String> {
    if !is_same(&event.label, &config.label) {
        return Err(format!("label `{}` is not the trigger label `{}`", event.label, config.label));
    }
    if !event.open {
        return Err(format!("issue #{} is closed", event.number));
    }
    Ok(EventTask::Issue(IssueRequest {
        repository: event.repository.clone(),
        number: event.number,
        trigger: Some(Trigger {
            label: Some(event.label.clone()),
            at: event.at,
            snapshot: Some(event.snapshot.clone()),
            ..by(&event.sender, event.rerun_by.as_ref())
        }),
    }))
}

fn assigned(event: &IssueAssigned, config: &TriggerConfig) -> Result<EventTask, String> {
    let wanted = config.assignee.as_deref().filter(|login| !login.is_empty());
    let Some(wanted) = wanted else {
        return Err("assigning an issue sets nothing off: `access.assignee` (in a job the input `assignee`) is not set".to_owned());
    };
    if !event.assignee.has_login(wanted) {
        return Err(format!("it is assigned to `{}`, not to `{wanted}`", event.assignee.login));
    }
    if !event.open {
        return Err(format!("issue #{} is closed", event.number));
    }
    Ok(EventTask::Issue(IssueRequest {
        repository: event.repository.clone(),
        number: event.number,
        trigger: Some(Trigger {
            at: event.at,
            snapshot: Some(event.snapshot.clone()),
            ..by(&event.sender, event.rerun_by.as_ref())
        }),
    }))
}

/// The author needs no access to be sorted; whoever runs the workflow again does.
fn opened(event: &IssueOpened, config: &TriggerConfig) -> Result<EventTask, String> {
    let IssueOpened { repository, number, action, author, .. } = event;
    if !config.triages {
        return Err(format!(
            "event `issues.{action}` sets nothing off: `triage.enabled` (in a job the input `triage`) is not set"
        ));
    }
    if !event.open || event.locked {
        let state = if event.open { "locked" } else { "closed" };
        return Err(format!("issue #{number} is {state}"));
    }
    if author.is_machine() && !config.allow_bots.iter().any(|bot| author.has_login(bot)) {
        return Err(format!("issue #{number} is by the bot `{}`", author.login));
    }
    Ok(EventTask::Triage(TriageRequest {
        repository: repository.clone(),
        number: *number,
        trigger: needed(None, event.rerun_by.as_ref()).map(|it| Trigger { at: event.at, ..it }),
        full: false,
    }))
}

/// What the operator has left open is decided when the repository's configuration has been read.
fn pull_request(event: &PullRequestChanged, config: &TriggerConfig) -> Result<EventTask, String> {
    let name = format!("pull request #{}", event.number);
    let has = |label: &String| event.labels.iter().any(|it| is_same(it, label));
    if !event.open {
        return Err(format!("{name} is closed"));
    }
    if event.draft && config.drafts == Some(false) {
        return Err(format!("{name} is a draft"));
    }
    if let (Some(label), Some(wanted)) = (&event.label, &config.review_labels)
        && !wanted.iter().any(|it| is_same(it, label))
    {
        return Err(format!("label `{label}` is none of `review.labels`"));
    }
    if let Some(wanted) = &config.review_labels
        && !wanted.is_empty()
        && !wanted.iter().any(has)
    {
        return Err(format!("{name} has none of the labels of `review.labels`"));
    }
    if let Some(label) = config.skip_labels.iter().find(|label| has(label)) {
        return Err(format!("{name} has the label `{label}` of `review.skip-labels`"));
    }
    let author = &event.author.login;
    if config.skip_authors.iter().any(|skipped| skipped.eq_ignore_ascii_case(author)) {
        return Err(format!("{name} is by `{author}`, who is in `review.skip-authors`"));
    }
    let actor = if event.label.is_some() { Some(&event.sender) } else { None };
    Ok(EventTask::Review(ReviewRequest {
        repository: event.repository.clone(),
        number: event.number,
        trigger: needed(actor, event.rerun_by.as_ref()).map(|trigger| Trigger {
            label: event.label.clone(),
            at: event.at,
            snapshot: Some(event.snapshot.clone()),
            ..trigger
        }),
        head: Some(event.head_sha.clone()),
        full: false,
        only_judges: false,
    }))
}

fn comment(event: &Commented, config: &TriggerConfig) -> Result<EventTask, String> {
    let author = &event.author;
    if author.is_bot && !config.allow_bots.contains(&author.login) {
        return Err(format!("the comment is by the bot `{}`", author.login));
    }
    // With a person's token our own comments are that person's. Whoever ends a comment like ours asks
    // nothing with it, and can leave the end out.
    if !marker::ending(&event.body).is_empty() {
        return Err("the comment is one of ours".to_owned());
    }
    let command = mention::parse(&event.body, &config.mention)
        .ok_or_else(|| format!("the comment asks nothing of `@{}`", config.mention))?;
    let rerun_by = event.rerun_by.as_ref();
    let sender = Some(&event.sender).filter(|sender| *sender != author);
    Ok(EventTask::Respond(CommandRequest {
        repository: event.repository.clone(),
        number: event.number,
        place: Some(event.place),
        command,
        trigger: Some(Trigger {
            at: event.at,
            snapshot: Some(event.snapshot.clone()),
            ..by(author, rerun_by.or(sender))
        }),
    }))
}

/// Failing checks of our own pull requests are repaired; those of a fork's pull request, which a
/// workflow without secrets has noted, mean a review.
fn checked(event: &Checked, config: &TriggerConfig) -> Result<Decision, String> {
    let source = &event.source;
    if event.is_fork {
        if source != "workflow_run" || !event.of_pull_request {
            return Err(format!("the `{source}` is not of a pull request"));
        }
        if event.conclusion != "success" {
            return Err(format!("the `{source}` ended with `{}`", event.conclusion));
        }
        let (Some(repository), Some(branch)) = (&event.head_repository, &event.head_branch) else {
            return Err(format!("the `{source}` does not say from which branch it is"));
        };
        return Ok(Decision::ReviewAt {
            repository: event.repository.clone(),
            head_sha: event.head_sha.clone(),
            source: HeadOf::Branch(HeadBranch {
                repository: repository.clone(),
                branch: branch.clone(),
            }),
            trigger: needed(None, event.rerun_by.as_ref()),
        });
    }
    if !matches!(event.conclusion.as_str(), "failure" | "timed_out") {
        return Err(format!("the `{source}` ended with `{}`", event.conclusion));
    }
    let branch = event.head_branch.as_deref().unwrap_or_default();
    if !is_own_branch(branch) && config.branch.as_deref() != Some(branch) {
        return Err(format!("`{branch}` is not a branch of ours"));
    }
    let number = event
        .pull_requests
        .first()
        .ok_or_else(|| format!("`{branch}` has no pull request in `{}`", event.repository))?;
    Ok(Decision::Run(EventTask::Respond(CommandRequest {
        repository: event.repository.clone(),
        number: *number,
        place: None,
        command: Command::FixCi,
        trigger: Some(Trigger { at: event.at, ..by(&event.actor, event.rerun_by.as_ref()) }),
    })))
}

/// Whose check it is, is asked later: only the forge says who we are.
fn rerequested(event: &Rerequested) -> Result<Decision, String> {
    if let Some(check) = event.check.as_ref().filter(|check| *check != check::NAME) {
        return Err(format!("the check `{check}` is not that of the review"));
    }
    Ok(Decision::ReviewAt {
        repository: event.repository.clone(),
        head_sha: event.head_sha.clone(),
        source: HeadOf::CheckOf { app: event.app.clone() },
        trigger: Some(by(&event.sender, event.rerun_by.as_ref())),
    })
}

fn dispatch(event: &Dispatch, config: &TriggerConfig) -> Result<EventTask, String> {
    let (repository, number) = (event.repository.clone(), event.number);
    let trigger = Some(by(&event.actor, event.rerun_by.as_ref()));
    let command = match &event.command {
        None if event.is_pull_request => Command::Review { full: false },
        None => return Ok(EventTask::Issue(IssueRequest { repository, number, trigger })),
        Some(words) => mention::command_of_input(words, &config.mention)
            .ok_or_else(|| format!("the command asks nothing of `@{}`", config.mention))?,
    };
    Ok(match command {
        Command::Review { full } if event.is_pull_request => {
            let (head, only_judges) = (None, false);
            EventTask::Review(ReviewRequest {
                repository,
                number,
                trigger,
                head,
                full,
                only_judges,
            })
        }
        command => {
            EventTask::Respond(CommandRequest { repository, number, place: None, command, trigger })
        }
    })
}

/// Who set it off.
fn by(actor: &Account, rerun_by: Option<&Account>) -> Trigger {
    Trigger {
        actor: login(actor),
        rerun_by: rerun_by.map(login),
        label: None,
        at: None,
        snapshot: None,
    }
}

/// Who set it off, when there is anybody who has to be allowed.
fn needed(actor: Option<&Account>, rerun_by: Option<&Account>) -> Option<Trigger> {
    match (actor, rerun_by) {
        (Some(actor), rerun_by) => Some(by(actor, rerun_by)),
        (None, Some(rerun_by)) => Some(by(rerun_by, None)),
        (None, None) => None,
    }
}

/// The login, from which a bot can be told.
fn login(account: &Account) -> String {
    let named = account.login.ends_with("[bot]");
    if account.is_bot && !named { format!("{}[bot]", account.login) } else { account.login.clone() }
}

fn is_same(label: &str, other: &str) -> bool {
    label.to_lowercase() == other.to_lowercase()
}
