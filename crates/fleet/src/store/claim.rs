//! Taking a job, in three steps of which none depends on how many jobs are queued.
//!
//! 1. Without any lock: which groups of jobs (campaign, kind, priority) have room, and the first job of
//!    each. When there is none, nothing was written and nobody was disturbed.
//! 2. The first job of the best group that nobody else is taking just now.
//! 3. Its lane, and the new lease.
//!
//! On PostgreSQL they are one transaction, of which each statement sees what was written before it: beginning
//! and ending another would cost as much as a step. SQLite's single writer is kept waiting by the last two only.
//!
//! No lock is of the whole database. What must hold exactly is counted under a lock that only those wait
//! for who would count the same: the limits of a campaign (concurrency, organisation, budget) under one
//! of the campaign, "one at a time" of a lane under one of the lane. Both are PostgreSQL's advisory locks
//! of a transaction: they end with it, whoever dies, and they work through a pooler that lends its
//! connections by transaction. Rows would do as well, but every end of a job writes the campaign's row,
//! and would then wait for claims. Counters in a row would need no count, but would drift: a lease that runs
//! out writes nothing.
//!
//! Locks are taken in one order: campaign, job, lane, the lane's other jobs.

mod some;
mod statements;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe};

use super::db::{SharedLock, Write, get, meaningless, word};
use super::migrate::{check_version, known};
use super::outages::is_paused;
use super::targets::set_state;
use super::{Store, StoreResult};
use patchwright_base::error::Service;
use patchwright_types::campaign::{ErrorClass, Job, JobKind, Lease, Millis, TargetState};

use statements::{
    CLAIM_BEGINS, Group, LANE, LANE_LOCKED, OUTAGES, find, hot, next_due, pick, take,
};
pub(super) use statements::{FENCE, LIVE, renew};
pub use statements::{HotStatement, Parameter};

/// How often a claim looks again when others were faster at all that it saw.
const LOOKS: usize = 4;
/// Milliseconds after which another probe of a service is let through, when the last one has said nothing.
pub(crate) const PROBE: Millis = 120_000;

/// Asked together with the time when a claim begins.
const SCHEMA_VERSION: &str = ", (SELECT MAX(version) FROM patchwright_schema) AS version";

/// A group that may give a job.
struct ClaimableGroup {
    /// Empty for jobs of no campaign.
    campaign: String,
    kind: JobKind,
    group: Group,
    part: String,
    priority: i64,
    /// Its first job.
    job: i64,
    /// Its campaign has limits.
    limited: bool,
    /// Some service is out, perhaps one that it needs.
    outage: bool,
}

/// What may be taken, and the transaction that it is taken in where that has begun.
struct ClaimCandidates<'a> {
    found: Vec<ClaimableGroup>,
    write: Option<Write<'a>>,
}

/// What became of a try at one group.
enum ClaimAttempt {
    Taken(Job, Lease),
    /// It was tried too often already, and is dead now.
    Buried,
    /// Others were faster.
    Gone,
    /// Somebody else counts for the same campaign just now. Nothing was locked.
    Busy,
}

impl Store {
    /// Takes the next job of these kinds that may run now: its time has come, its lane is free, its
    /// campaign is running and has room (concurrency, organisation, budget), or its last lease has run
    /// out. A job whose attempts are used up becomes dead (and its target failed, class `lost`).
    pub async fn claim(
        &self,
        owner: &str,
        kinds: &[JobKind],
        length: Millis,
    ) -> StoreResult<Option<(Job, Lease)>> {
        self.claim_of(owner, kinds, None, length).await
    }

    /// [`Store::claim`] for the jobs of one campaign, when one is named.
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub async fn claim_of(
        &self,
        owner: &str,
        kinds: &[JobKind],
        campaign: Option<&str>,
        length: Millis,
    ) -> StoreResult<Option<(Job, Lease)>> {
        let mut looks = 0;
        while looks < LOOKS {
            let ClaimCandidates { found, mut write } = self.find(kinds, campaign).await?;
            let mut buried = false;
            for (place, group) in found.iter().enumerate() {
                let mut trying = match write.take() {
                    Some(write) => write,
                    None => self.write_claim().await?,
                };
                // Whoever counts for the same campaign has its lock; another group that is as good is better than a wait.
                let is_last =
                    found.get(place + 1).is_none_or(|next| next.priority < group.priority);
                match try_group(&mut trying, owner, group, is_last, length).await? {
                    ClaimAttempt::Taken(job, lease) => {
                        trying.commit().await?;
                        return Ok(Some((job, lease)));
                    }
                    ClaimAttempt::Buried => {
                        trying.commit().await?;
                        buried = true;
                        break;
                    }
                    ClaimAttempt::Busy => write = Some(trying),
                    ClaimAttempt::Gone => trying.roll_back().await?,
                }
            }
            if let Some(write) = write {
                write.roll_back().await?;
            }
            if found.is_empty() {
                return Ok(None);
            }
            // A dead job is progress: there are never more looks than dead jobs and `LOOKS`.
            looks += usize::from(!buried);
        }
        Ok(None)
    }

    /// How many milliseconds until a job of these kinds is due that is not due yet: its time comes, or
    /// the lease of whoever has it ends (which is later again each time that it is renewed).
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn next_due(&self, kinds: &[JobKind]) -> StoreResult<Option<Millis>> {
        let now = self.now().await?;
        let row = sqlx::query(AssertSqlSafe(next_due(kinds))).bind(now);
        let due: Option<Millis> =
            get(&row.fetch_one(&mut *self.connection().await?).await?, "due")?;
        Ok(due.map(|due| due.saturating_sub(now).max(0)))
    }

    /// The statements that workers send all the time, to be looked at with the database's `EXPLAIN`.
    pub fn hot_statements(&self) -> Vec<HotStatement> {
        hot(self.inner.dialect)
    }

    /// The groups that may give a job, best first.
    async fn find(
        &self,
        kinds: &[JobKind],
        campaign: Option<&str>,
    ) -> StoreResult<ClaimCandidates<'_>> {
        if self.inner.dialect.is_file() {
            // Quicker than one that only reads: it keeps the statement's temporary tables in memory, and what it has
            // read of the file stays valid until another process writes.
            let mut connection = self.writer().await?;
            check_version(&mut connection).await?;
            let now = self.inner.dialect.read_clock(&mut connection).await?;
            let found = self.look(&mut connection, now, kinds, campaign).await?;
            return Ok(ClaimCandidates { found, write: None });
        }
        let mut write = self.write_claim().await?;
        let now = write.now;
        let found = self.look(write.db(), now, kinds, campaign).await?;
        Ok(ClaimCandidates { found, write: Some(write) })
    }

    async fn write_claim(&self) -> StoreResult<Write<'_>> {
        let (write, row) = self.write_after(CLAIM_BEGINS, SCHEMA_VERSION).await?;
        if let Some(row) = row {
            known(get(&row, "version")?)?;
        }
        Ok(write)
    }

    async fn look(
        &self,
        db: &mut AnyConnection,
        now: Millis,
        kinds: &[JobKind],
        campaign: Option<&str>,
    ) -> StoreResult<Vec<ClaimableGroup>> {
        let select = find(kinds, campaign.is_some(), self.inner.dialect);
        let query = sqlx::query(AssertSqlSafe(select)).bind(now);
        let query = match campaign {
            Some(campaign) => query.bind(campaign),
            None => query,
        };
        query.fetch_all(db).await?.iter().map(found_of).collect()
    }
}

/// Takes the first job of a group. What is locked stays so until the transaction ends.
async fn try_group(
    write: &mut Write<'_>,
    owner: &str,
    found: &ClaimableGroup,
    wait: bool,
    length: Millis,
) -> StoreResult<ClaimAttempt> {
    if found.limited && !lock_campaign(write, &found.campaign, wait).await? {
        return Ok(ClaimAttempt::Busy);
    }
    let Some(row) = first_of(write, found).await? else { return Ok(ClaimAttempt::Gone) };
    let job = job_of(&row)?;
    let lane: Option<String> = get(&row, "lane")?;
    if let Some(lane) = lane
        && !lane_is_free(write, found.group, job.id, &lane).await?
    {
        return Ok(ClaimAttempt::Gone);
    }
    // An attempt counts when it begins, so a worker that dies in each attempt cannot claim
    // the job for ever.
    if job.attempt > job.max_attempts {
        bury(write, &job).await?;
        return Ok(ClaimAttempt::Buried);
    }
    if found.outage && !probe(write, &job).await? {
        return Ok(ClaimAttempt::Gone);
    }
    // A new epoch makes every write of the previous holder fail, even if it only was slow.
    let epoch: i64 = get::<i64>(&row, "epoch")? + 1;
    let update = sqlx::query(AssertSqlSafe(take(write.dialect)));
    update
        .bind(job.attempt)
        .bind(epoch)
        .bind(owner)
        .bind(length)
        .bind(length)
        .bind(job.id)
        .execute(write.db())
        .await?;
    let lease = Lease { job: job.id, epoch, owner: owner.to_owned(), length };
    Ok(ClaimAttempt::Taken(job, lease))
}

/// False when somebody else has it and we are not to wait.
async fn lock_campaign(write: &mut Write<'_>, campaign: &str, wait: bool) -> StoreResult<bool> {
    if !wait {
        return write.try_lock(SharedLock::Campaign, campaign).await;
    }
    write.lock(SharedLock::Campaign, campaign).await?;
    Ok(true)
}

/// The first job of a group that nobody else is taking, locked.
async fn first_of(write: &mut Write<'_>, found: &ClaimableGroup) -> StoreResult<Option<AnyRow>> {
    let select = pick(found.group, !found.campaign.is_empty(), found.limited, write.dialect);
    let query = sqlx::query(AssertSqlSafe(select)).bind(write.now).bind(found.campaign.as_str());
    let query = match found.group {
        Group::Stray => query.bind(found.job),
        Group::Whole => query.bind(found.kind.word()).bind(found.priority),
        Group::Apart => {
            query.bind(found.kind.word()).bind(found.priority).bind(found.part.as_str())
        }
    };
    Ok(query.fetch_optional(write.db()).await?)
}

fn found_of(row: &AnyRow) -> StoreResult<ClaimableGroup> {
    let form: i64 = get(row, "form")?;
    Ok(ClaimableGroup {
        campaign: get(row, "campaign")?,
        kind: word(row, "kind", JobKind::parse)?,
        group: Group::parse(form).ok_or_else(|| meaningless("form", &form.to_string()))?,
        part: get(row, "part")?,
        priority: get(row, "priority")?,
        job: get(row, "id")?,
        limited: get::<i64>(row, "limited")? != 0,
        outage: get::<i64>(row, "outage")? != 0,
    })
}

/// Nobody works on the lane, and nobody begins to until this transaction ends.
///
/// The job was picked by a look from before the lane was locked, and a job of the same lane may have been
/// taken since. One whose lease has run out is locked as well: its holder may be renewing it at this
/// moment, and both would hold the lane.
///
/// Rows of the lane are not waited for: somebody may have one and wait for the lane. That need not be a row that
/// they take: one that was taken between their look and their lock stays locked although they pass it over.
async fn lane_is_free(
    write: &mut Write<'_>,
    group: Group,
    job: i64,
    lane: &str,
) -> StoreResult<bool> {
    if write.dialect.is_file() {
        // The only writer; what was read a moment ago is still true.
        return Ok(true);
    }
    let locked = match group {
        // A late renewal waits for the rows of its lane with the lane locked, and we have one of these
        // rows: whoever waited here would wait for ever.
        Group::Stray => write.try_lock(SharedLock::Lane, lane).await?,
        Group::Whole | Group::Apart => {
            write.lock(SharedLock::Lane, lane).await?;
            true
        }
    };
    if !locked {
        return Ok(false);
    }
    let running = sqlx::query(LANE).bind(lane).bind(job).fetch_all(write.db()).await?.len();
    if running == 0 {
        return Ok(true);
    }
    let ours = sqlx::query(LANE_LOCKED).bind(lane).bind(job).fetch_all(write.db()).await?;
    // Somebody renews, ends or takes over one of them at this moment.
    if ours.len() < running {
        return Ok(false);
    }
    write.look_again().await?;
    for row in &ours {
        let (until, length): (Millis, Millis) = (get(row, "lease_until")?, get(row, "lease_ms")?);
        if until > write.now && until <= write.now.saturating_add(length).saturating_add(60_000) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The job as it will be when it is taken.
fn job_of(row: &AnyRow) -> StoreResult<Job> {
    Ok(Job {
        id: get(row, "id")?,
        kind: word(row, "kind", JobKind::parse)?,
        campaign: get(row, "campaign")?,
        subject: get(row, "subject")?,
        attempt: get::<i64>(row, "attempt")? + 1,
        max_attempts: get(row, "max_attempts")?,
    })
}

/// Whether the job may begin although some service was out a moment ago: it needs none of those, or it is
/// the one that is let through to see whether they work again.
async fn probe(write: &mut Write<'_>, job: &Job) -> StoreResult<bool> {
    let campaign = job.campaign.as_deref().unwrap_or_default();
    let rows = sqlx::query(write.lock_rows(OUTAGES)).bind(campaign);
    let rows = rows.fetch_all(write.db()).await?;
    write.look_again().await?;
    let now = write.now;
    for row in &rows {
        let service: String = get(row, "service")?;
        let pause: (Millis, Millis) = (get(row, "paused_at")?, get(row, "until_at")?);
        if job.kind == JobKind::Publish && service == Service::Model.word() {
            continue;
        }
        if is_paused(pause, now) {
            return Ok(false);
        }
        let update = sqlx::query(
            "UPDATE outages SET until_at = $1, probe = $2, paused_at = $3
             WHERE service = $4 AND campaign = $5",
        );
        update
            .bind(now.saturating_add(PROBE))
            .bind(job.id)
            .bind(now)
            .bind(service)
            .bind(get::<String>(row, "campaign")?)
            .execute(write.db())
            .await?;
    }
    Ok(true)
}

/// Its workers died or hung as often as it may be tried.
async fn bury(write: &mut Write<'_>, job: &Job) -> StoreResult<()> {
    let now = write.now;
    let why = format!("its worker was lost {} times", job.max_attempts);
    sqlx::query("UPDATE jobs SET state = 'dead', why = $1, updated_at = $2 WHERE id = $3")
        .bind(why.as_str())
        .bind(now)
        .bind(job.id)
        .execute(write.db())
        .await?;
    if let (true, Ok(target)) = (job.kind != JobKind::Delivery, job.subject.parse()) {
        let lost = Some(ErrorClass::Lost);
        set_state(write, target, TargetState::Failed, lost, Some(&why)).await?;
    }
    Ok(())
}
