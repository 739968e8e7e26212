//! The payloads of checks that are asked for again, and of merge queues; see [`super::payload`].

use serde::Deserialize;

use super::payload::{ActionEnv, LONGEST_TITLE, Payload, account, bounded, rerun_by, short};
use super::pull_payload::{commit, missing};
use super::{Event, Queued, Rerequested};
use patchwright_base::error::Result;
use patchwright_forge::RepositoryId;

/// What somebody does who wants a check again.
pub(super) const AGAIN: &str = "rerequested";
/// The branches that GitHub makes for merge queues. Only GitHub can push to them.
const QUEUES: &str = "refs/heads/gh-readonly-queue/";

#[derive(Deserialize)]
pub(super) struct OneCheck {
    #[serde(default)]
    name: Option<String>,
    head_sha: String,
    #[serde(default)]
    app: Option<App>,
}

#[derive(Deserialize)]
pub(super) struct App {
    #[serde(default)]
    slug: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct MergeGroup {
    head_sha: String,
    #[serde(default)]
    head_ref: Option<String>,
}

/// `check_run` and `check_suite`, when they are asked for again.
pub(super) fn rerequested(
    name: &str,
    payload: Payload,
    repository: RepositoryId,
    env: &ActionEnv,
) -> Result<Event> {
    if payload.action.as_deref() != Some(AGAIN) {
        return Ok(other(name, &payload));
    }
    let (check, head_sha, app) = if name == "check_run" {
        let run = payload.check_run.ok_or_else(|| missing(name, name))?;
        (Some(run.name.unwrap_or_default()), run.head_sha, run.app)
    } else {
        let suite = payload.check_suite.ok_or_else(|| missing(name, name))?;
        (None, suite.head_sha, suite.app)
    };
    Ok(Event::Rerequested(Rerequested {
        repository,
        check: check.map(|check| bounded(check, LONGEST_TITLE)),
        app: bounded(app.and_then(|app| app.slug).unwrap_or_default(), 100),
        head_sha: commit(name, &head_sha)?,
        sender: account(payload.sender),
        rerun_by: rerun_by(env),
    }))
}

/// `merge_group`, when its checks are asked for.
pub(super) fn queued(name: &str, payload: Payload, repository: RepositoryId) -> Result<Event> {
    if payload.action.as_deref() != Some("checks_requested") {
        return Ok(other(name, &payload));
    }
    let group = payload.merge_group.ok_or_else(|| missing(name, name))?;
    if !group.head_ref.is_some_and(|it| it.starts_with(QUEUES)) {
        return Err(missing(name, "merge_group.head_ref"));
    }
    Ok(Event::Queued(Queued { repository, head_sha: commit(name, &group.head_sha)? }))
}

fn other(name: &str, payload: &Payload) -> Event {
    Event::Other { name: name.to_owned(), action: payload.action.as_deref().map(short) }
}
