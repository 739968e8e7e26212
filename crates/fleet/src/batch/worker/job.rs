//! One job in its task: the work of its kind, and an end for it whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::batch::fleet::Fleet;
use crate::batch::launch::Launcher;
use crate::batch::lease::HeldJob;
use crate::batch::{publish, target};
use crate::server::deliver;
use crate::store::{StoreError, StoreResult};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_types::campaign::{JobEnd, JobKind, Millis, millis_of};

/// Before the second attempt at a job that ended without a word; doubled up to the longest.
const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_mins(15);

/// Works on the job. When the work ends with a failure or a panic, the job is tried again later, as
/// often as it may be; when it was given up, it goes back as if it had not been taken.
pub(super) async fn one(
    fleet: Fleet,
    held: Arc<HeldJob>,
    given_up: CancellationToken,
    launcher: Option<Launcher>,
) {
    let is_run = held.job.kind != JobKind::Publish;
    if held.job.attempt > 1 || is_run && fleet.outages.has_lost_a_sandbox() {
        sweep(&fleet).await;
    }
    let began = Instant::now();
    let worked = AssertUnwindSafe(work(&fleet, &held, launcher.as_ref())).catch_unwind().await;
    tracing::info!(
        job = held.job.id,
        kind = held.job.kind.word(),
        subject = held.job.subject,
        campaign = held.job.campaign.as_deref().unwrap_or_default(),
        attempt = held.job.attempt,
        ended = matches!(worked, Ok(Ok(()))),
        milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "job"
    );
    let failure = match worked {
        // No end of it could be stored.
        Ok(Ok(())) if held.is_without_room() => Failure::machine("the database's disk was full"),
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::internal("it panicked; the log says where"),
    };
    let what = format!("job {} ({} {})", held.job.id, held.job.kind.word(), held.job.subject);
    let why = fleet.redactor.redact(&failure.message);
    let end = if given_up.is_cancelled() {
        JobEnd::Released
    } else {
        fleet.ui.failure(&format!("{what}: {}", fleet.redactor.redact(&failure.to_string())));
        match for_want_of_room(&fleet, &held, &failure).await {
            Ok(Some(after)) => JobEnd::Later { after, why },
            Ok(None) | Err(_) => {
                JobEnd::Retry { after: backoff(held.job.attempt, fleet.env.time_scale()), why }
            }
        }
    };
    match fleet.store.end_job(&held.lease, &end).await {
        // It had ended before, or others have it.
        Ok(()) | Err(StoreError::LeaseLost { .. }) => {}
        Err(err) => tracing::warn!(job = held.job.id, %err, "{what} could not be ended"),
    }
}

/// For how many milliseconds a job is put back without an attempt counted, when a full disk is what failed it.
async fn for_want_of_room(
    fleet: &Fleet,
    held: &HeldJob,
    failure: &Failure,
) -> StoreResult<Option<Millis>> {
    let is_machine = failure.kind == FailureKind::Machine;
    if !is_machine || !(held.is_without_room() || fleet.outages.is_full(&fleet.state)) {
        return Ok(None);
    }
    fleet.outages.machine_failed(held, &fleet.state).await
}

async fn work(fleet: &Fleet, held: &Arc<HeldJob>, launcher: Option<&Launcher>) -> Result<()> {
    if let Some(after) = limited(fleet, held).await? {
        let why = publish::publish_error::waits_for_limit(fleet, after);
        return Ok(fleet.store.end_job(&held.lease, &JobEnd::Later { after, why }).await?);
    }
    let held = Arc::clone(held);
    match (held.job.kind, launcher) {
        // Publishing needs no sandbox, and waits for the token's pace most of the time.
        (JobKind::Target | JobKind::Delivery, Some(launcher)) => {
            Box::pin(launcher.carry_out(fleet, &held)).await
        }
        (JobKind::Target, None) => Box::pin(target::work(fleet, held)).await,
        (JobKind::Publish, _) => Box::pin(publish::work(fleet, held)).await,
        (JobKind::Delivery, None) => Box::pin(deliver::work(fleet, held)).await,
    }
}

/// For how many milliseconds GitHub takes nothing about the account of the job's repository, when that is long.
async fn limited(fleet: &Fleet, held: &HeldJob) -> StoreResult<Option<Millis>> {
    if !fleet.forge.is_app() {
        return Ok(None);
    }
    let subject = &held.job.subject;
    let repository = match (held.job.kind, subject.parse()) {
        (JobKind::Target | JobKind::Publish, Ok(id)) => {
            fleet.store.target(id).await.map(|target| Some(target.repository))
        }
        // It ends with words for that.
        (JobKind::Target | JobKind::Publish, Err(_)) => Ok(None),
        (JobKind::Delivery, _) => {
            fleet.store.delivery(subject).await.map(|delivery| delivery.repository)
        }
    };
    let repository = match repository {
        Ok(repository) => repository,
        Err(StoreError::NotFound(_)) => None,
        Err(err) => return Err(err),
    };
    let Some(Ok(id)) = repository.map(|name| name.parse()) else { return Ok(None) };
    fleet.outages.limited_at(&fleet.forge.limited_account(&id)).await
}

/// An earlier attempt may have died on this machine: what it left running ends first.
async fn sweep(fleet: &Fleet) {
    let Some(sandbox) = fleet.sandbox.get() else { return };
    match sandbox.sweep(None).await {
        Ok(left) => {
            for name in left {
                fleet.ui.detail(&format!("removed {name}, left by a worker that was killed"));
            }
        }
        Err(err) => tracing::debug!(%err, "the sweep failed"),
    }
}

pub(in crate::batch) fn backoff(attempt: i64, scale: f64) -> Millis {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or_default().min(16);
    let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST).mul_f64(scale);
    millis_of(wait)
}

#[cfg(test)]
mod tests {
    use crate::batch::worker::job::backoff;

    #[test]
    fn waits_double_up_to_a_quarter_of_an_hour() {
        let waits: Vec<i64> = [1, 2, 3, 6, 100].map(|attempt| backoff(attempt, 1.0)).to_vec();
        assert_eq!(waits, [30_000, 60_000, 120_000, 900_000, 900_000]);
        assert_eq!(backoff(1, 0.0), 0);
    }
}
