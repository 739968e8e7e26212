//! Webhook payloads: the only place that sees their JSON.
//!
//! Called by `patchwright action` with the file at `GITHUB_EVENT_PATH`, and by the webhook server.
//! Payloads are hostile in their texts (titles, bodies, inputs), so those are bounded here; the
//! fields that decide anything are checked for what they must be.
//!
//! Not octocrab's `WebhookEvent`: one field that is null, missing or new in any of its nested models (an
//! account alone has eighteen that must be there) would lose the event, for facts that decide nothing.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::check_payload::{self, MergeGroup, OneCheck};
use super::pull_payload::{self, CommentPayload, CompletedChecks, Pull};
use super::{Dispatch, Event, IssueAssigned, IssueLabeled, IssueOpened};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{Account, RepositoryId};
use patchwright_types::task::IssueSnapshot;

/// GitHub's own limits are 256 and 65,536 characters; these bound what other servers send.
pub(super) const LONGEST_TITLE: usize = 1024;
pub(super) const LONGEST_BODY: usize = 256 * 1024;
const MOST_INPUTS: usize = 50;
const LONGEST_INPUT: usize = 64 * 1024;

/// What the environment of the workflow says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionEnv {
    /// `GITHUB_REPOSITORY`: `owner/name`.
    pub repository: Option<String>,
    /// `GITHUB_ACTOR`: who caused the event.
    pub actor: Option<String>,
    /// `GITHUB_TRIGGERING_ACTOR`: who started this attempt; another person on a re-run.
    pub triggering_actor: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Payload {
    #[serde(default)]
    pub(super) action: Option<String>,
    #[serde(default)]
    pub(super) issue: Option<Issue>,
    #[serde(default)]
    pub(super) pull_request: Option<Pull>,
    #[serde(default)]
    pub(super) comment: Option<CommentPayload>,
    #[serde(default)]
    pub(super) review: Option<CommentPayload>,
    #[serde(default)]
    pub(super) workflow_run: Option<CompletedChecks>,
    #[serde(default)]
    pub(super) check_suite: Option<CompletedChecks>,
    #[serde(default)]
    pub(super) check_run: Option<OneCheck>,
    #[serde(default)]
    pub(super) merge_group: Option<MergeGroup>,
    #[serde(default)]
    pub(super) label: Option<Label>,
    #[serde(default)]
    pub(super) changes: Option<Changes>,
    #[serde(default)]
    assignee: Option<User>,
    #[serde(default)]
    pub(super) repository: Option<Repository>,
    #[serde(default)]
    pub(super) sender: Option<User>,
    #[serde(default)]
    inputs: Option<Map<String, Value>>,
    #[serde(default, rename = "client_payload")]
    client: Option<Map<String, Value>>,
}

/// What an edit has changed.
#[derive(Deserialize)]
pub(super) struct Changes {
    /// The branch that a pull request goes to.
    #[serde(default)]
    pub(super) base: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Issue {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    locked: Option<bool>,
    #[serde(default)]
    user: Option<User>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pull_request: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Repository {
    #[serde(default)]
    pub(super) id: Option<u64>,
    full_name: String,
}

#[derive(Deserialize)]
pub(super) struct User {
    login: String,
    #[serde(rename = "type", default)]
    kind: Option<String>,
}

/// Parses the payload of the event `name` (`GITHUB_EVENT_NAME`, or the `X-GitHub-Event` header).
///
/// # Errors
/// When the payload is not what GitHub sends for this event, belongs to another repository than the
/// environment says, or a dispatch names no issue.
pub fn parse(name: &str, json: &[u8], env: &ActionEnv) -> Result<Event> {
    let read = Kind::of(name);
    let Some(read) = read else {
        return Ok(Event::Other { name: short(name), action: action_of(json) });
    };
    let payload: Payload = serde_json::from_slice(json).map_err(|err| {
        Failure::usage(format!("the payload of event `{name}` is not what GitHub sends"))
            .caused_by(err)
            .hint("`GITHUB_EVENT_PATH` names the file that it was read from")
    })?;
    let repository = repository(&payload, env)?;
    match read {
        Kind::Issue => issue_event(payload, repository, env),
        Kind::Dispatch => dispatch(name, payload, repository, env),
        Kind::Pull => pull_payload::pull_request(name, payload, repository, env),
        Kind::Comment => pull_payload::comment(name, payload, repository, env),
        // A suite is asked for again as one of its checks is.
        Kind::Checks if name == "check_suite" && is_again(payload.action.as_deref()) => {
            check_payload::rerequested(name, payload, repository, env)
        }
        Kind::Checks => pull_payload::checks(name, payload, repository, env),
        Kind::OneCheck => check_payload::rerequested(name, payload, repository, env),
        Kind::Queue => check_payload::queued(name, payload, repository),
    }
}

/// Whether a webhook of this name can set anything off. Dispatches are for the workflow that they start, and hooks get
/// those of all workflows: what their inputs mean, only the workflow knows.
pub fn is_for_hooks(name: &str) -> bool {
    Kind::of(name).is_some_and(|kind| !matches!(kind, Kind::Dispatch))
}

/// What every payload says about where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    pub action: Option<String>,
    /// `owner/name`; hooks of organisations and Apps have events without one.
    pub repository: Option<RepositoryId>,
    /// Its id, which stays when it is renamed.
    pub repository_id: Option<u64>,
    /// The GitHub App installation that it was sent for.
    pub installation: Option<u64>,
    /// Number of the issue or pull request that it is about.
    pub number: Option<u64>,
}

/// Reads what every payload has.
///
/// # Errors
/// When it is not a JSON object.
pub fn envelope(json: &[u8]) -> Result<Envelope> {
    #[derive(Deserialize)]
    struct EnvelopeJson {
        #[serde(default)]
        action: Option<String>,
        #[serde(default)]
        repository: Option<Repository>,
        #[serde(default)]
        installation: Option<ObjectIds>,
        #[serde(default)]
        issue: Option<ObjectIds>,
        #[serde(default)]
        pull_request: Option<ObjectIds>,
        #[serde(default)]
        check_run: Option<PullsOf>,
        #[serde(default)]
        check_suite: Option<PullsOf>,
    }
    /// The work that a check asks for waits with the rest of its pull request's. For forks none is named.
    #[derive(Deserialize)]
    struct PullsOf {
        #[serde(default)]
        pull_requests: Option<Vec<ObjectIds>>,
    }
    #[derive(Deserialize)]
    struct ObjectIds {
        #[serde(default)]
        id: Option<u64>,
        #[serde(default)]
        number: Option<u64>,
    }
    let outside: EnvelopeJson = serde_json::from_slice(json)
        .map_err(|err| Failure::usage("the payload is not what GitHub sends").caused_by(err))?;
    let of_check = outside.check_run.or(outside.check_suite);
    let of_check = of_check.filter(|_| is_again(outside.action.as_deref()));
    let first = of_check.and_then(|it| it.pull_requests?.into_iter().next());
    let about = outside.issue.or(outside.pull_request).or(first);
    let repository_id = outside.repository.as_ref().and_then(|repository| repository.id);
    Ok(Envelope {
        action: outside.action.as_deref().map(short),
        repository: outside.repository.and_then(|repository| repository.full_name.parse().ok()),
        repository_id,
        installation: outside.installation.and_then(|installation| installation.id),
        number: about.and_then(|about| about.number),
    })
}

fn is_again(action: Option<&str>) -> bool {
    action == Some(check_payload::AGAIN)
}

/// The events that are read.
#[derive(Clone, Copy)]
enum Kind {
    Issue,
    Dispatch,
    Pull,
    Comment,
    Checks,
    OneCheck,
    Queue,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "issues" => Kind::Issue,
            "workflow_dispatch" | "repository_dispatch" => Kind::Dispatch,
            "pull_request" | "pull_request_target" => Kind::Pull,
            "issue_comment" | "pull_request_review_comment" | "pull_request_review" => {
                Kind::Comment
            }
            "workflow_run" | "check_suite" => Kind::Checks,
            "check_run" => Kind::OneCheck,
            "merge_group" => Kind::Queue,
            _ => return None,
        })
    }
}

fn issue_event(payload: Payload, repository: RepositoryId, env: &ActionEnv) -> Result<Event> {
    let missing =
        |what: &str| Failure::usage(format!("the payload of event `issues` has no `{what}`"));
    let other =
        Event::Other { name: "issues".to_owned(), action: payload.action.as_deref().map(short) };
    let action = payload.action.clone().unwrap_or_default();
    let is_assigned = match action.as_str() {
        "labeled" => false,
        "assigned" => true,
        "opened" | "edited" | "reopened" => return opened(payload, repository, env, other),
        _ => return Ok(other),
    };
    let issue = payload.issue.ok_or_else(|| missing("issue"))?;
    if issue.pull_request.is_some() {
        return Ok(other);
    }
    let (number, at) = (issue.number, issue.updated_at);
    let open = issue.state.as_deref() == Some("open");
    let (sender, rerun_by) = (account(payload.sender), rerun_by(env));
    let snapshot = IssueSnapshot {
        title: bounded(issue.title.unwrap_or_default(), LONGEST_TITLE),
        body: bounded(issue.body.unwrap_or_default(), LONGEST_BODY),
    };
    if is_assigned {
        let assignee = account(Some(payload.assignee.ok_or_else(|| missing("assignee"))?));
        return Ok(Event::IssueAssigned(IssueAssigned {
            repository,
            number,
            assignee,
            sender,
            rerun_by,
            open,
            snapshot,
            at,
        }));
    }
    let label = payload.label.ok_or_else(|| missing("label"))?.name;
    Ok(Event::IssueLabeled(IssueLabeled {
        repository,
        number,
        label: bounded(label, LONGEST_TITLE),
        sender,
        rerun_by,
        open,
        locked: issue.locked.unwrap_or(false),
        snapshot,
        at,
    }))
}

/// An issue that is new or was edited; `other` when the event is about something else.
fn opened(
    payload: Payload,
    repository: RepositoryId,
    env: &ActionEnv,
    other: Event,
) -> Result<Event> {
    let issue = payload
        .issue
        .ok_or_else(|| Failure::usage("the payload of event `issues` has no `issue`"))?;
    if issue.pull_request.is_some() {
        return Ok(other);
    }
    Ok(Event::IssueOpened(IssueOpened {
        repository,
        number: issue.number,
        action: short(payload.action.as_deref().unwrap_or_default()),
        author: account(issue.user),
        sender: account(payload.sender),
        rerun_by: rerun_by(env),
        open: issue.state.as_deref() == Some("open"),
        locked: issue.locked.unwrap_or(false),
        at: issue.updated_at,
    }))
}

fn dispatch(
    name: &str,
    payload: Payload,
    repository: RepositoryId,
    env: &ActionEnv,
) -> Result<Event> {
    let (values, place) = if name == "workflow_dispatch" {
        (payload.inputs, "inputs")
    } else {
        (payload.client, "client_payload")
    };
    let inputs = inputs(values.unwrap_or_default());
    let given = |key: &str| inputs.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
    let pull = ["pull-request", "pull_request"].iter().find_map(|key| given(key));
    let asked = pull.or_else(|| ["number", "issue"].iter().find_map(|key| given(key)));
    let text = asked.ok_or_else(|| {
        Failure::usage(format!("the event `{name}` names no issue")).hint(format!(
            "give its number in `{place}.issue` or `{place}.number`, or a pull request's in `{place}.pull-request`; a \
             step of the Action with `prompt`, `prompt-file` or `learn` needs none"
        ))
    })?;
    let digits = text.strip_prefix('#').unwrap_or(text);
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(|| {
        Failure::usage(format!(
            "`{place}` of event `{name}` has no issue number: `{}`",
            short(text)
        ))
        .hint("an issue number looks like `7` or `#7`")
    })?;
    let (is_pull_request, command) = (pull.is_some(), given("command").map(str::to_owned));
    Ok(Event::Dispatch(Dispatch {
        repository,
        number,
        is_pull_request,
        command,
        actor: account(payload.sender),
        rerun_by: rerun_by(env),
        inputs,
    }))
}

/// The repository, which payload and environment have to agree on.
fn repository(payload: &Payload, env: &ActionEnv) -> Result<RepositoryId> {
    let said = payload.repository.as_ref().map(|repository| repository.full_name.as_str());
    let around = env.repository.as_deref().filter(|name| !name.is_empty());
    if let (Some(said), Some(around)) = (said, around)
        && !said.eq_ignore_ascii_case(around)
    {
        return Err(Failure::usage(format!(
            "the event belongs to `{}`, but `GITHUB_REPOSITORY` is `{}`",
            short(said),
            short(around)
        )));
    }
    let name = said.or(around).ok_or_else(|| {
        Failure::usage("the event names no repository")
            .hint("set `GITHUB_REPOSITORY` to `owner/name`")
    })?;
    let part = |text: &str| {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !text.is_empty()
            && text.len() <= 100
            && text.chars().all(fine)
            && text != "."
            && text != ".."
    };
    match name.split_once('/') {
        Some((owner, name)) if part(owner) && part(name) => {
            Ok(RepositoryId { owner: owner.to_owned(), name: name.to_owned() })
        }
        _ => Err(Failure::usage(format!("`{}` is not `owner/name`", short(name)))),
    }
}

/// Who started the workflow again, when it was not the one who caused the event.
pub(super) fn rerun_by(env: &ActionEnv) -> Option<Account> {
    let again = env.triggering_actor.as_deref().filter(|login| !login.is_empty())?;
    let first = env.actor.as_deref()?;
    (!again.eq_ignore_ascii_case(first)).then(|| Account {
        login: bounded(again.to_owned(), 100),
        is_bot: again.ends_with("[bot]"),
    })
}

/// `ghost`, as GitHub shows it, when there is no account behind it any more.
pub(super) fn account(user: Option<User>) -> Account {
    user.map_or_else(
        || Account { login: "ghost".to_owned(), is_bot: false },
        |user| Account {
            is_bot: user.kind.as_deref() == Some("Bot") || user.login.ends_with("[bot]"),
            login: bounded(user.login, 100),
        },
    )
}

/// The plain values among the inputs, as text.
fn inputs(values: Map<String, Value>) -> BTreeMap<String, String> {
    let texts = values.into_iter().filter_map(|(key, value)| {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(yes) => yes.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((bounded(key, 100), bounded(text, LONGEST_INPUT)))
    });
    texts.take(MOST_INPUTS).collect()
}

/// The action of an event that we do not read further; it may be anything, even no JSON.
fn action_of(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Action {
        action: String,
    }
    serde_json::from_slice::<Action>(json).ok().map(|json| short(&json.action))
}

/// At most `most` bytes, whole characters.
pub(super) fn bounded(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// Foreign text fit for a message: one short line.
pub(super) fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}
