//! The payloads about pull requests, comments and checks; see [`super::payload`].

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::check_payload::App;
use super::payload::{
    ActionEnv, Issue, LONGEST_BODY, LONGEST_TITLE, Label, Payload, User, account, bounded,
    rerun_by, short,
};
use super::{Checked, Commented, Event, PullRequestChanged};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{CommentPlace, RepositoryId};
use patchwright_types::task::IssueSnapshot;

const MOST_LABELS: usize = 100;
const MOST_PULLS: usize = 20;

#[derive(Deserialize)]
pub(super) struct Pull {
    number: u64,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    draft: Option<bool>,
    #[serde(default)]
    user: Option<User>,
    #[serde(default)]
    labels: Option<Vec<Label>>,
    #[serde(default)]
    head: Option<Head>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
struct Head {
    sha: String,
}

#[derive(Deserialize)]
pub(super) struct CommentPayload {
    id: u64,
    /// `null` when a review has no text of its own.
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    user: Option<User>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
    #[serde(default)]
    submitted_at: Option<DateTime<Utc>>,
    #[serde(default)]
    in_reply_to_id: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct CompletedChecks {
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    conclusion: Option<String>,
    pub(super) head_sha: String,
    #[serde(default)]
    pub(super) app: Option<App>,
    #[serde(default)]
    head_branch: Option<String>,
    #[serde(default)]
    head_repository: Option<RepositoryName>,
    #[serde(default)]
    pull_requests: Option<Vec<PullReference>>,
    #[serde(default)]
    actor: Option<User>,
    #[serde(default)]
    triggering_actor: Option<User>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
struct RepositoryName {
    full_name: String,
}

#[derive(Deserialize)]
struct PullReference {
    number: u64,
    #[serde(default)]
    base: Option<Base>,
}

#[derive(Deserialize)]
struct Base {
    #[serde(default)]
    repo: Option<ObjectId>,
}

#[derive(Deserialize)]
struct ObjectId {
    #[serde(default)]
    id: Option<u64>,
}

pub(super) fn missing(name: &str, what: &str) -> Failure {
    Failure::usage(format!("the payload of event `{name}` has no `{what}`"))
}

/// `pull_request` and `pull_request_target`.
pub(super) fn pull_request(
    name: &str,
    payload: Payload,
    repository: RepositoryId,
    env: &ActionEnv,
) -> Result<Event> {
    let action = payload.action.as_deref().map(short);
    let sets_off = ["opened", "reopened", "ready_for_review", "synchronize", "labeled"];
    // Against another branch the same commits are another change; other edits change no code.
    let has_another_base = payload.changes.is_some_and(|changes| changes.base.is_some());
    let sets_off =
        |action: &str| sets_off.contains(&action) || (action == "edited" && has_another_base);
    let Some(action) = action.as_deref().filter(|action| sets_off(action)) else {
        return Ok(Event::Other { name: name.to_owned(), action });
    };
    let pull = payload.pull_request.ok_or_else(|| missing(name, "pull_request"))?;
    let head = pull.head.as_ref().ok_or_else(|| missing(name, "pull_request.head"))?;
    let label = match (action, payload.label) {
        ("labeled", None) => return Err(missing(name, "label")),
        ("labeled", Some(label)) => Some(bounded(label.name, LONGEST_TITLE)),
        _ => None,
    };
    Ok(Event::PullRequest(PullRequestChanged {
        repository,
        number: pull.number,
        action: action.to_owned(),
        label,
        sender: account(payload.sender),
        rerun_by: rerun_by(env),
        open: pull.state.as_deref() == Some("open"),
        draft: pull.draft.unwrap_or(false),
        labels: label_names(pull.labels.as_deref().unwrap_or_default()),
        head_sha: commit(name, &head.sha)?,
        at: pull.updated_at,
        snapshot: snapshot(pull.title, pull.body),
        author: account(pull.user),
    }))
}

/// `issue_comment`, `pull_request_review_comment` and `pull_request_review`.
pub(super) fn comment(
    name: &str,
    payload: Payload,
    repository: RepositoryId,
    env: &ActionEnv,
) -> Result<Event> {
    let expected = if name == "pull_request_review" { "submitted" } else { "created" };
    if payload.action.as_deref() != Some(expected) {
        let action = payload.action.as_deref().map(short);
        return Ok(Event::Other { name: name.to_owned(), action });
    }
    let is_review = name == "pull_request_review";
    let (said, what) =
        if is_review { (payload.review, "review") } else { (payload.comment, "comment") };
    let said = said.ok_or_else(|| missing(name, what))?;
    let (number, snapshot) = match (payload.issue, payload.pull_request) {
        (Some(Issue { number, title, body, .. }), _)
        | (None, Some(Pull { number, title, body, .. })) => (number, snapshot(title, body)),
        (None, None) => return Err(missing(name, "pull_request")),
    };
    let comment = said.id;
    let place = match name {
        "issue_comment" => CommentPlace::Conversation { comment },
        "pull_request_review" => CommentPlace::Review { review: comment },
        _ => CommentPlace::Thread { comment, root: said.in_reply_to_id.unwrap_or(comment) },
    };
    let author = account(said.user);
    Ok(Event::Commented(Commented {
        repository,
        number,
        place,
        sender: payload.sender.map_or_else(|| author.clone(), |sender| account(Some(sender))),
        author,
        rerun_by: rerun_by(env),
        body: bounded(said.body.unwrap_or_default(), LONGEST_BODY),
        snapshot,
        at: said.updated_at.or(said.submitted_at),
    }))
}

/// `workflow_run` and `check_suite`.
pub(super) fn checks(
    name: &str,
    payload: Payload,
    repository: RepositoryId,
    env: &ActionEnv,
) -> Result<Event> {
    if payload.action.as_deref() != Some("completed") {
        let action = payload.action.as_deref().map(short);
        return Ok(Event::Other { name: name.to_owned(), action });
    }
    let own_id = payload.repository.as_ref().and_then(|repository| repository.id);
    let (ended, event) = match name {
        "workflow_run" => (payload.workflow_run, None),
        // Suites do not say what set them off.
        _ => (payload.check_suite, Some("push")),
    };
    let ended = ended.ok_or_else(|| missing(name, name))?;
    // Another repository of the same network may have pull requests with the same head.
    let is_here = |pull: &&PullReference| {
        let base = pull.base.as_ref().and_then(|base| base.repo.as_ref()?.id);
        base.is_none() || own_id.is_none() || base == own_id
    };
    let pulls = ended.pull_requests.unwrap_or_default();
    let actor = if ended.actor.is_some() { ended.actor } else { payload.sender };
    let actor = account(actor);
    let again = ended.triggering_actor.map(|user| account(Some(user)));
    let again = again.filter(|again| !again.login.eq_ignore_ascii_case(&actor.login));
    let of_pull_request =
        ended.event.as_deref().or(event).is_some_and(|event| event.starts_with("pull_request"));
    let head_repository: Option<RepositoryId> =
        ended.head_repository.and_then(|head| head.full_name.parse().ok());
    Ok(Event::Checked(Checked {
        source: name.to_owned(),
        is_fork: head_repository.as_ref().is_some_and(|head| !head.is_same(&repository)),
        head_repository,
        repository,
        conclusion: short(ended.conclusion.as_deref().unwrap_or_default()),
        head_sha: commit(name, &ended.head_sha)?,
        head_branch: ended.head_branch.map(|branch| bounded(branch, LONGEST_TITLE)),
        of_pull_request,
        pull_requests: pulls
            .iter()
            .filter(is_here)
            .map(|pull| pull.number)
            .take(MOST_PULLS)
            .collect(),
        actor,
        rerun_by: rerun_by(env).or(again),
        at: ended.updated_at,
    }))
}

fn label_names(labels: &[Label]) -> Vec<String> {
    labels
        .iter()
        .take(MOST_LABELS)
        .map(|label| bounded(label.name.clone(), LONGEST_TITLE))
        .collect()
}

fn snapshot(title: Option<String>, body: Option<String>) -> IssueSnapshot {
    IssueSnapshot {
        title: bounded(title.unwrap_or_default(), LONGEST_TITLE),
        body: bounded(body.unwrap_or_default(), LONGEST_BODY),
    }
}

/// A commit id: it decides what is read, so it is checked here.
pub(super) fn commit(name: &str, sha: &str) -> Result<String> {
    let is_id = matches!(sha.len(), 40 | 64) && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| sha.to_ascii_lowercase()).ok_or_else(|| {
        Failure::usage(format!("the payload of event `{name}` has no commit id: `{}`", short(sha)))
    })
}
