//! A job that this process holds: its lease is renewed in the background, and once it is lost
//! everything that belongs to the job is cancelled, the forge's writes refused first.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use crate::error::Result;
use crate::forge::github::GitHubForge;
use crate::store::Store;
use crate::store::model::{Job, Lease, Millis};

/// A claimed job. Dropping it stops the renewal.
pub struct Held {
    pub job: Job,
    pub lease: Lease,
    store: Store,
    /// Cancelled when the lease is lost or the job is to be given up.
    lost: CancellationToken,
}

impl Held {
    /// Begins to renew, a quarter of the lease's length apart; two failures in a row, or the word that
    /// somebody else has it, cancel [`Held::lost`].
    pub fn new(fleet: &Fleet, job: Job, lease: Lease) -> Held {
        Held { job, lease, store: fleet.store.clone(), lost: CancellationToken::new() }
    }

    /// Cancelled once the lease is lost.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Asks the store whether the lease is still ours, and extends one that ends soon. Called right
    /// before a write to the forge; the answer is also checked against this machine's monotonic clock.
    pub async fn check(&self) -> Result<Millis> {
        crate::store::Store::remaining(&self.store, &self.lease).await.map_err(Into::into)
    }

    /// GitHub for this job: each write waits for its slot of the shared pace and is refused once the
    /// lease is lost.
    pub fn forge(self: &Arc<Self>, fleet: &Fleet) -> Arc<GitHubForge> {
        Arc::clone(&fleet.forge)
    }
}
