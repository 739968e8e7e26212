//! Fleet state in a database that people have: SQLite in a file by default, PostgreSQL for several
//! machines. Campaigns, targets, changesets, jobs with leases, events, the pace of writes, webhook
//! deliveries and schedules are tables; the SQL is the same for both where it can be.
//!
//! It knows rows and leases. What a job means is in [`crate::batch`] and [`crate::server`].
//!
//! Every write of a running job goes through its [`Lease`]: one that was taken over changes nothing
//! and says so ([`StoreError::LeaseLost`]).

mod abandoned;
mod campaign_progress;
mod campaigns;
mod changesets;
mod claim;
mod connections;
mod db;
mod deliveries;
mod events;
mod fault;
mod handover;
mod import;
mod jobs;
mod leases;
mod migrate;
mod notifications;
mod open;
mod outages;
mod pace;
mod parameters;
mod pool;
mod prune;
mod queue;
mod release;
mod renew;
mod repositories;
mod rerun;
mod reviews;
mod runs;
mod schedules;
mod selections;
mod server_load;
mod simulated;
mod targets;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

pub use abandoned::HeldLease;
pub use campaign_progress::CampaignProgress;
pub use campaigns::CampaignSummary;
pub(crate) use claim::PROBE;
pub use claim::{HotStatement, Parameter};
pub use connections::close_files;
pub use deliveries::{DeliveryRow, LostDelivery};
pub use events::StateChange;
pub use handover::JobHolder;
pub use import::{ImportReport, KnownRepository};
pub use jobs::QueueOutlook;
pub use migrate::{Migration, VERSION, look};
pub use notifications::ListenEnd;
pub use open::{file_of, file_url};
pub(crate) use outages::{Breaker, is_paused};
pub use outages::{OutageEffect, OutageTimes};
pub(crate) use pace::Pace;
pub use queue::{QueuedJob, RunningJob};
pub use repositories::SeenRepository;
pub use reviews::{PaidReview, ReviewCaps, ReviewSlot};
pub use runs::{
    Counted, EndedRun, MOST_EXAMINED, PAGE, RunCursor, RunDay, RunPage, RunRow, RunSearch,
};
pub use selections::{ID, SelectedNames};
pub use simulated::StoreSize;
pub use targets::{AddedTargets, Closing};

use crate::store::connections::Pool;
use crate::store::db::Dialect;
use crate::store::notifications::Notifications;
use patchwright_types::campaign::Millis;

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The job was taken over, or has ended: nothing was written.
    #[error("the lease on job {job} was lost")]
    LeaseLost { job: i64 },
    /// Locked for longer than we wait.
    #[error("the database is locked by another process: {0}")]
    Locked(String),
    /// Made by a newer Patchwright.
    #[error("{0}")]
    Newer(String),
    /// Damaged, or of something else.
    #[error("{0}")]
    Unusable(String),
    /// It is not there, or not for this user: what it says has to be done first. Nothing is wrong with what is stored.
    #[error("{message}")]
    NotReady { message: String, hint: String },
    /// The disk of a file is full, as far as is known of these.
    #[error("the disk is full: nothing more can be stored in {0}")]
    Full(String),
    /// No connection, or it broke.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The address is none of a database.
    #[error("{0}")]
    Address(String),
    /// Not there.
    #[error("{0} is not in the database")]
    NotFound(String),
    #[error("the database: {0}")]
    Other(String),
}

/// The result of what the store does.
pub type StoreResult<T> = std::result::Result<T, StoreError>;

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    dialect: Dialect,
    /// For people; without a password.
    name: String,
    notifications: Notifications,
    /// Since when something waits to be stored for want of room on the disk, and of which files.
    without_room: Mutex<Option<(Instant, String)>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner.name)
    }
}

impl Store {
    /// The store's time: PostgreSQL's own clock, so that machines need not agree; this machine's for
    /// SQLite.
    pub async fn now(&self) -> StoreResult<Millis> {
        self.inner.dialect.read_clock(&mut *self.connection().await?).await
    }
}
