//! What a delivery asks for and where, and why it may be that nothing is done: it is too old, or was done before, or its
//! repository is another one's by now.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::deliver::MAX_AGE;
use crate::batch::fleet::Fleet;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::github::GitHubForge;
use patchwright_forge::{Forge, RepositoryId};
use patchwright_task::event::payload::{self, ActionEnv};
use patchwright_task::event::{Decision, Event, EventTask, TriggerConfig, decide};
use patchwright_types::campaign::{Delivery, Millis};
use patchwright_types::task::{IssueRequest, Task};

/// Two triggers so close together mean one piece of work: GitHub sends several events for one act.
const TOGETHER: Millis = 10_000;
/// Before the digest of a body, under which the GUID of its delivery is kept.
const SENT: &str = "body:";

/// The event and what follows from it, or why nothing does.
pub(super) fn read(
    fleet: &Fleet,
    delivery: &Delivery,
) -> Result<Result<(Event, Decision), String>> {
    // An older version may have stored it.
    if !payload::is_for_hooks(&delivery.event) {
        return Ok(Err(format!("event `{}` sets nothing off", delivery.event)));
    }
    let event = payload::parse(&delivery.event, delivery.body.as_bytes(), &ActionEnv::default());
    let event = match event {
        Ok(event) => event,
        Err(failure) => return Ok(Err(failure.message)),
    };
    // Decided anew: the process that stored the delivery may have had another configuration.
    let decision = match decide(&event, &TriggerConfig::of(&fleet.config)) {
        Decision::Ignored(why) => return Ok(Err(why)),
        decision => decision,
    };
    let too_old = too_old(fleet, &event)?;
    Ok(too_old.map_or(Ok((event, decision)), Err))
}

/// What is to be done, and where.
pub(super) type ResolvedDelivery = (Event, Decision, RepositoryId, Arc<dyn Forge>);

/// The repository that the event is of, whatever it is called by now, and never another one that has taken over its
/// name; or why nothing is done.
pub(super) async fn find(
    fleet: &Fleet,
    forge: &GitHubForge,
    delivery: &Delivery,
    (event, decision): (Event, Decision),
) -> Result<Result<ResolvedDelivery, String>> {
    let named = delivery.repository.as_deref().map(str::parse::<RepositoryId>);
    let Some(Ok(named)) = named else {
        return Ok(Err("the payload names no repository".to_owned()));
    };
    let (id, installation) = ids(delivery);
    let scoped = Arc::new(forge.scoped(&named, id, installation));
    let now = match id {
        Some(id) => scoped.present_name(&named, id).await.map_err(Failure::from)?,
        None => named.clone(),
    };
    if now.is_same(&named) {
        let forge: Arc<dyn Forge> = scoped;
        return Ok(Ok((event, decision, named, forge)));
    }
    // Whom `--repository` serves was decided by the name; what another owner has is told by its own deliveries.
    if !now.owner.eq_ignore_ascii_case(&named.owner) {
        let why = format!("`{named}` was transferred, and is `{now}` now; ask for it there again");
        return Ok(Err(why));
    }
    tracing::info!(delivery = delivery.guid, %named, %now, "the repository was renamed");
    let event = event.renamed(&now);
    let decision = decide(&event, &TriggerConfig::of(&fleet.config));
    let forge: Arc<dyn Forge> = Arc::new(forge.scoped(&now, id, installation));
    Ok(Ok((event, decision, now, forge)))
}

/// The ids of the repository and of the installation that a delivery is of.
pub(super) fn ids(delivery: &Delivery) -> (Option<u64>, Option<u64>) {
    let id = payload::envelope(delivery.body.as_bytes()).ok().and_then(|it| it.repository_id);
    (id, delivery.installation.and_then(|id| u64::try_from(id).ok()))
}

/// Why an event is too old to act on: GitHub delivers late what it delivers again, and a queue may have
/// stood still.
fn too_old(fleet: &Fleet, event: &Event) -> Result<Option<String>> {
    let most = fleet.env.max_age()?.unwrap_or(MAX_AGE);
    let Some(at) = at(event) else { return Ok(None) };
    // An event from the future is not old; one of the clocks is wrong.
    let Ok(age) = (fleet.clock.now() - at).to_std() else { return Ok(None) };
    Ok((age > most).then(|| {
        format!("it happened {} hours ago, at {}", age.as_secs() / 3600, at.format("%F %R UTC"))
    }))
}

/// The pull request that a decision is about, when the payload did not name it: GitHub names none of a fork in what it
/// tells of checks.
pub(super) fn learned_number(delivery: &Delivery, decision: &Decision) -> Option<i64> {
    let Decision::Run(EventTask::Review(review)) = decision else { return None };
    i64::try_from(review.number).ok().filter(|_| delivery.number.is_none())
}

/// What a decision makes the run of, by which an unfinished one is found again.
pub(super) fn task_of(decision: &Decision, config: &Config) -> Option<Task> {
    let kind = match decision.clone() {
        Decision::Run(EventTask::Issue(request)) => request.into(),
        Decision::Run(EventTask::Prompt(request)) => request.into(),
        Decision::Run(EventTask::Review(request)) => request.into(),
        Decision::Run(EventTask::Respond(request)) => request.into(),
        Decision::Run(EventTask::Triage(request)) => request.into(),
        Decision::ReviewAt { .. } | Decision::AnswerQueue { .. } | Decision::Ignored(_) => {
            return None;
        }
    };
    Some(Task { kind, limits: config.limits.clone() })
}

/// When it happened, as GitHub says.
pub(super) fn at(event: &Event) -> Option<DateTime<Utc>> {
    match event {
        Event::IssueLabeled(event) => event.at,
        Event::IssueAssigned(event) => event.at,
        Event::IssueOpened(event) => event.at,
        Event::PullRequest(event) => event.at,
        Event::Commented(event) => event.at,
        Event::Checked(event) => event.at,
        // When somebody asks for a check again, or a queue for one, the payload does not say.
        Event::Rerequested(_) | Event::Queued(_) | Event::Dispatch(_) | Event::Other { .. } => None,
    }
}

/// The name under which work on an issue is remembered.
pub(super) fn same_work(repository: &RepositoryId, decision: &Decision) -> Option<String> {
    match decision {
        Decision::Run(EventTask::Issue(IssueRequest { number, .. })) => {
            Some(format!("issue:{}#{number}", repository.to_string().to_lowercase()))
        }
        Decision::Run(_)
        | Decision::ReviewAt { .. }
        | Decision::AnswerQueue { .. }
        | Decision::Ignored(_) => None,
    }
}

/// What is remembered of a delivery whose run has done its work: when it came, its GUID, and when it happened.
pub(super) fn done_by(delivery: &Delivery, happened: Option<DateTime<Utc>>) -> String {
    let happened = happened.map(|at| format!(" {}", at.timestamp_millis())).unwrap_or_default();
    format!("{} {}{happened}", delivery.received_at, delivery.guid)
}

/// Why this delivery's work is done already: it happened together with another one's, whose run has ended. One that
/// happened later may be about a text that was changed in between, however long the first one waited for its turn, and
/// even where both came at the same time, because nobody was there to take the first one.
pub(super) async fn was_done(
    fleet: &Fleet,
    key: &str,
    delivery: &Delivery,
    happened: Option<DateTime<Utc>>,
) -> Result<Option<String>> {
    let Some(value) = fleet.store.value(key).await? else { return Ok(None) };
    let mut parts = value.split(' ');
    let (Some(first), Some(guid)) = (parts.next(), parts.next()) else { return Ok(None) };
    let first_happened = parts.next().and_then(|at| at.parse::<Millis>().ok());
    // An unreadable time counts as "not done": a second run updates the same pull request.
    let Ok(first) = first.parse::<Millis>() else { return Ok(None) };
    let apart = first_happened.zip(happened);
    let apart = apart.map(|(first, at)| at.timestamp_millis().saturating_sub(first));
    let together = delivery.received_at <= first.saturating_add(TOGETHER)
        && apart.is_none_or(|apart| apart <= TOGETHER);
    Ok((together && guid != delivery.guid)
        .then(|| format!("the run for delivery {guid} has done it")))
}

/// Why this delivery was here before under another GUID: the signature is of the body alone, so whoever has seen a
/// delivery can send it again. GitHub's own redeliveries have the GUID of the first one, and no two events have the same
/// body, not even when the same label is set twice.
pub(super) async fn was_sent(fleet: &Fleet, delivery: &Delivery) -> Result<Option<String>> {
    let key = format!("{SENT}{}", hex::encode(Sha256::digest(delivery.body.as_bytes())));
    match fleet.store.value(&key).await? {
        Some(guid) if guid != delivery.guid => {
            Ok(Some(format!("delivery {guid} had the same body")))
        }
        Some(_) => Ok(None),
        None => {
            fleet.store.set_value(&key, &delivery.guid).await?;
            Ok(None)
        }
    }
}
