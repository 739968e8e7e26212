//! A job that this process holds: its lease is renewed in the background, and once it is lost
//! everything that belongs to the job is cancelled, the forge's writes refused first.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use super::outage::LastSandbox;
use super::pace;
use crate::store::{Store, StoreError};
use patchwright_base::error::Result;
use patchwright_forge::github::{GitHubForge, LimitedAccount};
use patchwright_types::campaign::{Job, Lease, Millis, millis_of};

/// A claimed job. Dropping it stops the renewal.
pub struct HeldJob {
    pub job: Job,
    pub lease: Lease,
    /// What failed its sandbox last.
    pub sandbox: LastSandbox,
    store: Store,
    /// Cancelled when the lease is lost or the job is to be given up.
    lost: CancellationToken,
    /// The disk of the database was full when the lease was to be renewed.
    full: Arc<AtomicBool>,
    /// When the renewal that succeeded last was begun, by this machine's monotonic clock.
    renewed: Arc<Mutex<Instant>>,
    /// Where GitHub limited it last.
    limited: Mutex<LimitedAccount>,
    /// What has been written on GitHub for the job.
    writes: AtomicI64,
    // The task knows nothing of this struct, so that dropping it ends the task.
    renewal: JoinHandle<()>,
}

impl HeldJob {
    /// Begins to renew, a quarter of the lease's length apart. The word that somebody else has it
    /// cancels [`HeldJob::lost`], and so do renewals that fail for three quarters of its length: what
    /// belongs to the job has ended before another worker may begin.
    pub fn new(fleet: &Fleet, job: Job, lease: Lease) -> HeldJob {
        HeldJob::start(fleet.store.clone(), job, lease)
    }

    /// [`HeldJob::new`] without the rest of a fleet.
    pub fn start(store: Store, job: Job, lease: Lease) -> HeldJob {
        let lost = CancellationToken::new();
        let (full, renewed) = (Arc::default(), Arc::new(Mutex::new(Instant::now())));
        let renewal = Renewal {
            store: store.clone(),
            lease: lease.clone(),
            lost: lost.clone(),
            full: Arc::clone(&full),
            renewed: Arc::clone(&renewed),
        };
        let renewal = tokio::spawn(renewal.go_on());
        let (sandbox, writes) = (LastSandbox::default(), AtomicI64::new(0));
        let limited = Mutex::default();
        HeldJob { job, lease, sandbox, store, lost, full, renewed, limited, writes, renewal }
    }

    /// Cancelled once the lease is lost.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// The lease could not be renewed for want of room on the disk of the database. Nobody can have taken the job
    /// meanwhile, which is a write as well: who had it may say what becomes of it.
    pub(super) fn is_without_room(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// The lease was given up for want of room, and the job's end is still to be stored.
    pub(super) fn waits_for_room(&self) -> bool {
        self.is_without_room() && self.lost.is_cancelled()
    }

    /// GitHub takes nothing about this account for a while.
    pub(super) fn limited_at(&self, account: &LimitedAccount) {
        *self.limited.lock() = account.clone();
    }

    /// Where GitHub limited it last; all of the token when it was not limited.
    pub(super) fn limited_account(&self) -> LimitedAccount {
        self.limited.lock().clone()
    }

    /// Something is written on GitHub for the job.
    pub(super) fn writes_now(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// How much has been written on GitHub for the job.
    pub fn written(&self) -> i64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Ends the renewal: the job has ended, or is to be left to others.
    pub(super) fn end(&self) {
        self.renewal.abort();
    }

    /// Asks the store whether the lease is still ours, and extends one that ends soon. Called right
    /// before a write to the forge; the answer is also checked against this machine's monotonic clock:
    /// of both, the shorter time counts. Returns how long it still lasts.
    ///
    /// # Errors
    /// When it is not ours any more, or that cannot be found out.
    pub async fn check(&self) -> Result<Millis> {
        let length = span(self.lease.length);
        let answer = self.store.remaining(&self.lease).await;
        let by_store = answer.inspect_err(|err| self.note(err))?;
        let by_us = length.saturating_sub(age(&self.renewed));
        let left = by_store.min(millis_of(by_us));
        if left > self.lease.length / 2 {
            return Ok(left);
        }
        let begun = Instant::now();
        match self.store.renew(&self.lease).await {
            Ok(()) => {
                set(&self.renewed, begun);
                Ok(millis_of(length.saturating_sub(begun.elapsed())))
            }
            // It lasts a while yet; the next renewal may succeed.
            Err(err) if err.is_transient() && left > self.lease.length / 4 => Ok(left),
            Err(err) => {
                self.note(&err);
                Err(err.into())
            }
        }
    }

    fn note(&self, err: &StoreError) {
        match err {
            StoreError::LeaseLost { .. } => self.lost.cancel(),
            StoreError::Full(_) => self.full.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    /// GitHub for this job: each write waits for its slot of the shared pace and is refused once the
    /// lease is lost.
    pub fn forge(self: &Arc<Self>, fleet: &Fleet) -> Arc<GitHubForge> {
        let limits = pace::limits(fleet, None);
        let gate = pace::gate(&fleet.store, &fleet.token, limits, Some(Arc::clone(self)));
        let outages = Arc::clone(&fleet.outages);
        let gate = gate.with_works(move |service| outages.works(service, None));
        Arc::new(fleet.forge.gated(gate))
    }
}

impl Drop for HeldJob {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// What the background task has of a lease.
struct Renewal {
    store: Store,
    lease: Lease,
    lost: CancellationToken,
    full: Arc<AtomicBool>,
    renewed: Arc<Mutex<Instant>>,
}

impl Renewal {
    async fn go_on(self) {
        let length = span(self.lease.length);
        let every = length / 4;
        let mut pause = every;
        loop {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            let answer = tokio::time::timeout(every, self.store.renew(&self.lease)).await;
            match answer {
                Ok(Ok(())) => {
                    set(&self.renewed, begun);
                    pause = every;
                    continue;
                }
                Ok(Err(StoreError::LeaseLost { .. })) => {
                    tracing::warn!(job = self.lease.job, "the lease was lost");
                    break;
                }
                Ok(Err(err)) => {
                    self.full.store(matches!(err, StoreError::Full(_)), Ordering::Relaxed);
                    tracing::warn!(job = self.lease.job, %err, "the lease could not be renewed");
                }
                Err(_) => tracing::warn!(job = self.lease.job, "the store took too long to renew"),
            }
            if age(&self.renewed) >= length.mul_f64(0.75) {
                tracing::warn!(job = self.lease.job, "the lease is given up");
                break;
            }
            pause = every / 8;
        }
        self.lost.cancel();
    }
}

fn set(renewed: &Mutex<Instant>, at: Instant) {
    *renewed.lock() = at;
}

fn age(renewed: &Mutex<Instant>) -> Duration {
    renewed.lock().elapsed()
}

/// A lease's length; at least a moment, so that nothing spins.
fn span(length: Millis) -> Duration {
    Duration::from_millis(u64::try_from(length).unwrap_or_default().max(40))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::batch::lease::HeldJob;
    use crate::store::{Store, file_url};
    use patchwright_types::campaign::{JobEnd, JobKind, NewJob};

    const KINDS: &[JobKind] = &[JobKind::Delivery];
    const LEASE: i64 = 4_000;

    async fn held(folder: &tempfile::TempDir) -> (Store, HeldJob) {
        let store = Store::open(&file_url(&folder.path().join("fleet.db"))).await.unwrap();
        let job = NewJob {
            kind: JobKind::Delivery,
            key: "one".to_owned(),
            campaign: None,
            subject: "one".to_owned(),
            lane: None,
            organization: None,
            priority: 0,
            max_attempts: 9,
            reserve_usd: 0.0,
            run_at: 0,
        };
        assert!(store.enqueue(&job).await.unwrap());
        let (job, lease) = store.claim("us", KINDS, LEASE).await.unwrap().unwrap();
        (store.clone(), HeldJob::start(store, job, lease))
    }

    #[tokio::test]
    async fn a_lease_is_renewed_while_it_is_held_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let (store, held) = held(&folder).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(!held.lost().is_cancelled());
        assert!(held.check().await.unwrap() > 0);
        assert_eq!(store.claim("others", KINDS, LEASE).await.unwrap(), None);
        let lost = held.lost();
        drop(held);
        while store.claim("others", KINDS, LEASE).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!lost.is_cancelled(), "nobody was left to notice");
    }

    #[tokio::test]
    async fn a_job_that_is_not_ours_any_more_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, held) = held(&folder).await;
        store.end_job(&held.lease, &JobEnd::Done).await.unwrap();
        held.lost().cancelled().await;
        assert!(held.check().await.is_err());
        let another = tempfile::tempdir().unwrap();
        let (_, again) = self::held(&another).await;
        again.store.end_job(&again.lease, &JobEnd::Released).await.unwrap();
        again.store.claim("others", KINDS, LEASE).await.unwrap().unwrap();
        assert!(again.check().await.is_err(), "right before a write");
        assert!(again.lost().is_cancelled());
    }
}
