//! `worker --one-job`: one job that another process claimed, from the take-over to its end. What
//! [`crate::batch::launch`] starts in a pod.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{GRACE, job};
use crate::batch::fleet::Fleet;
use crate::batch::launch::job_name;
use crate::batch::lease::HeldJob;
use crate::store::StoreError;
use patchwright_base::error::{Failure, Result};
use patchwright_types::campaign::{Job, JobEnd, Lease};

/// Before a database is asked again that did not answer: networks of new pods take a moment.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes the job over and works on it until it has ended. A signal puts it back into the queue, after the time
/// for draining.
///
/// # Errors
/// When the job is not to be had, or the database cannot be used.
pub async fn one_job(fleet: &Fleet, from: &Lease) -> Result<()> {
    let (job, lease) = take(fleet, from).await?;
    let held = Arc::new(HeldJob::new(fleet, job, lease));
    let give_up = CancellationToken::new();
    let of_job = Fleet { drain: give_up.clone(), ..fleet.clone() };
    let mut work = tokio::spawn(job::one(of_job, Arc::clone(&held), give_up.clone(), None));
    tokio::select! {
        _ = &mut work => {}
        () = fleet.drain.cancelled() => {
            // Whatever these say: what is not over by then is put back below.
            if tokio::time::timeout(fleet.drain_time, &mut work).await.is_err() {
                give_up.cancel();
                let _ = tokio::time::timeout(GRACE, &mut work).await;
            }
            work.abort();
        }
    }
    held.end();
    match fleet.store.end_job(&held.lease, &JobEnd::Released).await {
        // It has ended, as it should.
        Ok(()) | Err(StoreError::LeaseLost { .. }) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

async fn take(fleet: &Fleet, from: &Lease) -> Result<(Job, Lease)> {
    let patience = Duration::from_millis(u64::try_from(from.length).unwrap_or_default());
    let began = Instant::now();
    loop {
        match fleet.store.hand_over(from, &job_name(from)).await {
            Ok(taken) => return Ok(taken),
            Err(StoreError::LeaseLost { job }) => {
                return Err(Failure::nothing_to_do(format!(
                    "job {job} is not there to be taken over: it has ended, others have it, or this is not \
                     the database of whoever claimed it"
                )));
            }
            Err(err) if err.is_transient() && began.elapsed() < patience => {
                tracing::debug!(%err, "a job cannot be taken over yet");
                tokio::time::sleep(AGAIN).await;
            }
            Err(err) => return Err(err.into()),
        }
    }
}
