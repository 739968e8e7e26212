//! What strangers may make the operator pay for. A review that nobody asked for costs money, and anybody
//! can push: heads that are not the newest any more are dropped, and the rest is counted.

use crate::batch::fleet::Fleet;
use crate::store::{PaidReview, ReviewCaps, ReviewSlot};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::{Forge, PullRequest, RepositoryId, Role};
use patchwright_report as report;
use patchwright_task::event::{Decision, EventTask};
use patchwright_types::task::{ReviewRequest, TriageRequest};

/// Why a review or a triage is not begun; `None` for one that is, and for everything that somebody asked for. `delivery`
/// is the id of what set it off.
///
/// # Errors
/// When GitHub or the store does not answer: the job is tried again.
pub(super) async fn refusal(
    fleet: &Fleet,
    forge: &dyn Forge,
    config: &Config,
    (decision, delivery): (&Decision, &str),
) -> Result<Option<String>> {
    if let Decision::Run(EventTask::Triage(triage)) = decision {
        return triage_refusal(fleet, forge, config, (triage, delivery)).await;
    }
    let Decision::Run(EventTask::Review(review)) = decision else { return Ok(None) };
    let ReviewRequest { repository, number, trigger: None, head, .. } = review else {
        return Ok(None);
    };
    let pull = forge.pull_request(repository, *number).await.map_err(Failure::from)?;
    if let Some(head) = head.as_ref().filter(|head| **head != pull.head_sha) {
        let (old, new) = (short(head), short(&pull.head_sha));
        return Ok(Some(format!("{old} is no longer the newest commit, {new} is")));
    }
    // Fails closed: without an answer the author counts as an outsider.
    let role = forge.role(repository, &pull.author.login).await;
    if role.is_ok_and(|role| role >= Role::Write) {
        return Ok(None);
    }
    let name = repository.to_string();
    let wish = PaidReview {
        repository: &name,
        number: *number,
        author: &pull.author.login,
        head: &pull.head_sha,
    };
    match fleet.store.begin_review(&wish, &caps(config)).await? {
        ReviewSlot::Free => Ok(None),
        ReviewSlot::Full { limit, is_first } => {
            if is_first && !pull.draft {
                say(fleet, forge, config, repository, &pull).await;
            }
            Ok(Some(format!("`review.{limit}` is reached for 24 hours")))
        }
    }
}

fn caps(config: &Config) -> ReviewCaps {
    ReviewCaps {
        per_pull_request: config.review.per_pull_request,
        per_author: config.review.per_author,
        per_day: config.review.per_day,
    }
}

/// Anybody can open issues, and edit their own: triages of strangers' issues are counted as reviews are.
///
/// Each delivery counts once, however often it is worked on. The time of the issue's last change would not do: labels that
/// a triage has set before it was cut off are such a change.
async fn triage_refusal(
    fleet: &Fleet,
    forge: &dyn Forge,
    config: &Config,
    (triage, delivery): (&TriageRequest, &str),
) -> Result<Option<String>> {
    let TriageRequest { repository, number, trigger: None, .. } = triage else { return Ok(None) };
    let issue = forge.issue(repository, *number).await.map_err(Failure::from)?;
    let role = forge.role(repository, &issue.author.login).await;
    if role.is_ok_and(|role| role >= Role::Write) {
        return Ok(None);
    }
    let (name, head) = (repository.to_string(), format!("triage by {delivery}"));
    let author = &issue.author.login;
    let wish = PaidReview { repository: &name, number: *number, author, head: &head };
    Ok(match fleet.store.begin_review(&wish, &caps(config)).await? {
        ReviewSlot::Free => None,
        ReviewSlot::Full { limit, .. } => {
            Some(format!("`review.{limit}` is reached for 24 hours, in which triages count too"))
        }
    })
}

/// A word on the pull request, once. Nothing depends on it.
async fn say(
    fleet: &Fleet,
    forge: &dyn Forge,
    config: &Config,
    repository: &RepositoryId,
    pull: &PullRequest,
) {
    let marker = report::marker_once("review-limit");
    let body = report::review::limit::reached(&config.respond.mention, &marker);
    let body = fleet.redactor.redact(&body);
    if let Err(err) = forge.upsert_comment(repository, pull.number, &marker, None, &body).await {
        tracing::warn!(%err, "nobody could be told that a limit is reached");
    }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
