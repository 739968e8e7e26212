//! Fleet state in a database that people have: SQLite in a file by default, PostgreSQL for several
//! machines. Campaigns, targets, changesets, jobs with leases, events, the pace of writes, webhook
//! deliveries and schedules are tables; the SQL is the same for both where it can be.
//!
//! It knows rows and leases. What a job means is in [`crate::batch`] and [`crate::server`].
//!
//! Every write of a running job goes through its [`Lease`]: one that was taken over changes nothing
//! and says so ([`StoreError::LeaseLost`]).

pub mod model;

use std::collections::BTreeMap;

use crate::store::model::{
    CampaignRow, CampaignState, CampaignView, Changeset, Delivery, ErrorClass, Event, Job, JobEnd,
    JobKind, Lease, Millis, NewJob, NewTarget, PaceLimits, Target, TargetEnd, TargetState,
    WriteSlot,
};

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
    /// Damaged, read-only, or of something else.
    #[error("{0}")]
    Unusable(String),
    /// No connection, or it broke.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// Not there.
    #[error("{0} is not in the database")]
    NotFound(String),
    #[error("the database: {0}")]
    Other(String),
}

/// The result of what the store does.
pub type StoreResult<T> = std::result::Result<T, StoreError>;

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {}

fn missing<T>() -> StoreResult<T> {
    Err(StoreError::Other("not there yet".to_owned()))
}

#[expect(clippy::unused_async, unused_variables, reason = "filled in by the store's files")]
impl Store {
    /// Opens `sqlite:PATH` (made when absent) or `postgres://…`, and brings the schema up to date (of an
    /// SQLite file, after a copy of it). Waits at most ten seconds for a lock.
    ///
    /// # Errors
    /// A newer schema, a damaged or read-only file, no connection: each with its own words; an existing
    /// database is never replaced by an empty one.
    pub async fn open(url: &str) -> StoreResult<Store> {
        missing()
    }

    /// The store's time: PostgreSQL's own clock, so that machines need not agree; this machine's for
    /// SQLite.
    pub async fn now(&self) -> StoreResult<Millis> {
        missing()
    }

    // Campaigns and targets.

    /// Adds a campaign, or returns the one of the same id as it is (limits and specification text are
    /// brought up to date; state, wave and spending stay).
    pub async fn put_campaign(&self, campaign: &CampaignRow) -> StoreResult<CampaignRow> {
        missing()
    }

    pub async fn campaign(&self, id: &str) -> StoreResult<CampaignRow> {
        missing()
    }

    /// All of this name (or all), newest first.
    pub async fn campaigns(&self, name: Option<&str>) -> StoreResult<Vec<CampaignRow>> {
        missing()
    }

    /// Changes the state, with an event. True when it was another one.
    pub async fn set_campaign_state(
        &self,
        id: &str,
        state: CampaignState,
        reason: Option<&str>,
    ) -> StoreResult<bool> {
        missing()
    }

    /// Opens a wave: its waiting targets are queued, with the jobs that `job_of` makes of them.
    pub async fn open_wave(
        &self,
        id: &str,
        wave: i64,
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        missing()
    }

    pub async fn set_tracking_issue(&self, id: &str, issue: &str) -> StoreResult<()> {
        missing()
    }

    /// Adds targets that are not there yet (the same campaign, repository, number and base commit) as
    /// waiting or skipped; an older target of the same repository that has not been started is
    /// superseded. Returns how many are new.
    pub async fn add_targets(&self, campaign: &str, targets: &[NewTarget]) -> StoreResult<usize> {
        missing()
    }

    pub async fn target(&self, id: i64) -> StoreResult<Target> {
        missing()
    }

    /// The campaign with the newest target of each repository (and number).
    pub async fn view(&self, campaign: &str) -> StoreResult<CampaignView> {
        missing()
    }

    /// Every target of this repository in campaigns of this name, newest first.
    pub async fn history(&self, name: &str, repository: &str) -> StoreResult<Vec<Target>> {
        missing()
    }

    /// What was found on the forge: the pull request was merged, closed, made a draft, …
    pub async fn observe_target(
        &self,
        id: i64,
        state: TargetState,
        reason: Option<&str>,
    ) -> StoreResult<bool> {
        missing()
    }

    /// Queues failed targets (of these classes, or all) again with their attempts reset; with a stored
    /// changeset only the publishing is repeated. Returns how many.
    pub async fn retry_targets(
        &self,
        campaign: &str,
        classes: &[ErrorClass],
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        missing()
    }

    // Changesets.

    pub async fn changeset(&self, target: i64) -> StoreResult<Option<Changeset>> {
        missing()
    }

    /// Targets of the same repository, of any campaign, whose stored change has this id, newest first.
    pub async fn same_change(&self, repository: &str, change_id: &str) -> StoreResult<Vec<Target>> {
        missing()
    }

    // Jobs and leases.

    /// Adds a job; false when one of its key is there already.
    pub async fn enqueue(&self, job: &NewJob) -> StoreResult<bool> {
        missing()
    }

    /// Takes the next job of these kinds that may run now: its time has come, its lane is free, its
    /// campaign is running and has room (concurrency, organisation, budget), or its last lease has run
    /// out. A job whose attempts are used up becomes dead (and its target failed, class `lost`).
    pub async fn claim(
        &self,
        owner: &str,
        kinds: &[JobKind],
        length: Millis,
    ) -> StoreResult<Option<(Job, Lease)>> {
        missing()
    }

    /// Extends the lease from now.
    pub async fn renew(&self, lease: &Lease) -> StoreResult<()> {
        missing()
    }

    /// The lease is ours, and lasts for so many more milliseconds.
    pub async fn remaining(&self, lease: &Lease) -> StoreResult<Millis> {
        missing()
    }

    /// Ends a job that has nothing else to write.
    pub async fn end_job(&self, lease: &Lease, end: &JobEnd) -> StoreResult<()> {
        missing()
    }

    /// A target's run begins: state `running`, an event.
    pub async fn begin_target(&self, lease: &Lease, target: i64, run: &str) -> StoreResult<()> {
        missing()
    }

    /// A target's job ends, all in one transaction: state, cost (also of the campaign), changeset, the
    /// job that publishes it, an event, the job's end.
    pub async fn end_target(
        &self,
        lease: &Lease,
        target: i64,
        end: &TargetEnd,
        changeset: Option<&Changeset>,
        publish: Option<&NewJob>,
        job_end: &JobEnd,
    ) -> StoreResult<()> {
        missing()
    }

    /// State of a target during its job (`publishing`, and back to `ready`), with an event.
    pub async fn mark_target(
        &self,
        lease: &Lease,
        target: i64,
        state: TargetState,
        reason: Option<&str>,
    ) -> StoreResult<()> {
        missing()
    }

    /// Ends queued jobs of a campaign as cancelled; their targets become superseded.
    pub async fn cancel_jobs(&self, campaign: &str, why: &str) -> StoreResult<usize> {
        missing()
    }

    /// Jobs by kind and state, for health and metrics.
    pub async fn job_counts(&self) -> StoreResult<BTreeMap<(JobKind, String), i64>> {
        missing()
    }

    // Events.

    pub async fn record(
        &self,
        campaign: &str,
        target: Option<i64>,
        kind: &str,
        text: Option<&str>,
    ) -> StoreResult<()> {
        missing()
    }

    /// Events after `after` (0 for all), oldest first, at most `most`.
    pub async fn events(&self, campaign: &str, after: i64, most: i64) -> StoreResult<Vec<Event>> {
        missing()
    }

    // The pace of writes, by token fingerprint.

    /// Reserves the next time at which this token may write; shared by all processes.
    pub async fn reserve_write(&self, token: &str, limits: PaceLimits) -> StoreResult<WriteSlot> {
        missing()
    }

    /// GitHub told this token to wait: nobody writes for so long.
    pub async fn close_pace(&self, token: &str, wait: Millis) -> StoreResult<()> {
        missing()
    }

    /// How long this token is still told to wait; 0 when it is not.
    pub async fn pace_closed_for(&self, token: &str) -> StoreResult<Millis> {
        missing()
    }

    // Webhook deliveries and schedules.

    /// Stores deliveries and their jobs in one transaction; false for those that were there already.
    pub async fn put_deliveries(
        &self,
        deliveries: &[Delivery],
        job_of: &(dyn Fn(&Delivery) -> NewJob + Sync),
    ) -> StoreResult<Vec<bool>> {
        missing()
    }

    pub async fn delivery(&self, guid: &str) -> StoreResult<Delivery> {
        missing()
    }

    /// Which of these are known.
    pub async fn known_deliveries(&self, guids: &[String]) -> StoreResult<Vec<String>> {
        missing()
    }

    /// Remembers that a schedule fired for a moment (its local date and time as text); false when it
    /// had already, here or on another machine.
    pub async fn fire_once(&self, schedule: &str, moment: &str) -> StoreResult<bool> {
        missing()
    }

    /// The moment that a schedule fired for last.
    pub async fn last_fired(&self, schedule: &str) -> StoreResult<Option<String>> {
        missing()
    }

    /// A value kept by name (cursors and the like).
    pub async fn value(&self, name: &str) -> StoreResult<Option<String>> {
        missing()
    }

    pub async fn set_value(&self, name: &str, value: &str) -> StoreResult<()> {
        missing()
    }

    /// Takes over campaign, targets, changesets and events of another database: how the shards of a
    /// workflow matrix come together. Returns how many targets came.
    pub async fn import(&self, other: &Store) -> StoreResult<usize> {
        missing()
    }
}

impl From<StoreError> for crate::error::Failure {
    fn from(err: StoreError) -> crate::error::Failure {
        crate::error::Failure::machine(err.to_string())
    }
}
