//! Taking a job: which one is next, and what keeps one back.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{Dialect, ExclusiveLock, Write, get, quoted, word};
use super::targets::set_state;
use super::{Store, StoreResult};
use patchwright_types::campaign::{ErrorClass, Job, JobKind, Lease, Millis, TargetState};

/// A job `o` whose lease counts at `$1`: it has not run out, and does not end so late that the clock
/// must have been wrong when it was given.
pub(super) const LIVE: &str = "o.state = 'running' AND o.lease_until > $1
    AND o.lease_until <= $1 + o.lease_ms + 60000";

/// The campaign `c` can pay for `j` besides what is running.
pub(super) fn within_budget() -> String {
    format!(
        "(c.budget_usd IS NULL OR (c.spent_usd < c.budget_usd AND c.spent_usd + j.reserve_usd
            + (SELECT COALESCE(SUM(o.reserve_usd), 0.0) FROM jobs o WHERE o.campaign = j.campaign
                AND o.kind = 'target' AND o.id <> j.id AND {LIVE}) <= c.budget_usd + 0.000001))"
    )
}

/// The next job that may run. Bound to `$1`: now; to `$2`: the campaign, when only its jobs are wanted.
fn next(kinds: &[JobKind], campaign: Option<&str>, dialect: Dialect) -> String {
    let kinds = quoted(kinds.iter().map(|kind| kind.word()));
    let live_j = LIVE.replace("o.", "j.");
    let budget = within_budget();
    let of_it = campaign.map_or("", |_| " AND j.campaign = $2");
    // Workers that look at once take different rows instead of waiting for each other.
    let lock = match dialect {
        Dialect::Sqlite => "",
        Dialect::Postgres => " FOR UPDATE OF j SKIP LOCKED",
    };
    format!(
        "SELECT j.id AS id, j.kind AS kind, j.campaign AS campaign, j.subject AS subject,
            j.attempt AS attempt, j.max_attempts AS max_attempts, j.epoch AS epoch
         FROM jobs j LEFT JOIN campaigns c ON c.id = j.campaign
         WHERE j.kind IN ({kinds}){of_it}
            AND ((j.state = 'queued' AND (j.run_at <= $1 OR j.updated_at > $1 + 60000))
                OR (j.state = 'running' AND NOT ({live_j})))
            AND (j.campaign IS NULL OR c.state = 'running')
            AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.lane = j.lane AND o.id <> j.id AND {LIVE})
            AND (j.kind <> 'target' OR j.campaign IS NULL OR (
                (c.concurrency IS NULL OR c.concurrency > (SELECT COUNT(*) FROM jobs o
                    WHERE o.campaign = j.campaign AND o.kind = 'target' AND o.id <> j.id AND {LIVE}))
                AND (c.per_organization IS NULL OR c.per_organization > (SELECT COUNT(*) FROM jobs o
                    WHERE o.campaign = j.campaign AND o.kind = 'target' AND o.id <> j.id
                    AND o.organization = j.organization AND {LIVE}))
                AND {budget}))
         ORDER BY j.priority DESC, j.run_at, j.id LIMIT 1{lock}"
    )
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
        // An idle worker would otherwise take the write lock every second.
        if !self.may_have_work(kinds).await? {
            return Ok(None);
        }
        let mut write = self.write().await?;
        write.alone(ExclusiveLock::Claim).await?;
        let claimed = loop {
            let select = AssertSqlSafe(next(kinds, campaign, write.dialect));
            let query = sqlx::query(select).bind(write.now);
            let query = match campaign {
                Some(campaign) => query.bind(campaign),
                None => query,
            };
            let row = query.fetch_optional(write.db()).await?;
            let Some(row) = row else { break None };
            let job = job_of(&row)?;
            // An attempt counts when it begins, so a worker that dies in each attempt cannot claim
            // the job for ever.
            if job.attempt > job.max_attempts {
                bury(&mut write, &job).await?;
                continue;
            }
            // A new epoch makes every write of the previous holder fail, even if it only was slow.
            let epoch: i64 = get::<i64>(&row, "epoch")? + 1;
            take(&mut write, &job, owner, epoch, length).await?;
            let lease = Lease { job: job.id, epoch, owner: owner.to_owned(), length };
            break Some((job, lease));
        };
        write.commit().await?;
        Ok(claimed)
    }

    /// A look that needs no lock, so that idle workers do not disturb those that write.
    async fn may_have_work(&self, kinds: &[JobKind]) -> StoreResult<bool> {
        let kinds = quoted(kinds.iter().map(|kind| kind.word()));
        let now = self.now().await?;
        let row = sqlx::query(AssertSqlSafe(format!(
            "SELECT 1 AS one FROM jobs o WHERE kind IN ({kinds}) AND
                ((state = 'queued' AND (run_at <= $1 OR updated_at > $1 + 60000))
                OR (state = 'running' AND NOT ({LIVE}))) LIMIT 1"
        )));
        Ok(row.bind(now).fetch_optional(&self.inner.pool).await?.is_some())
    }
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

async fn take(
    write: &mut Write<'_>,
    job: &Job,
    owner: &str,
    epoch: i64,
    length: Millis,
) -> StoreResult<()> {
    let now = write.now;
    sqlx::query(
        "UPDATE jobs SET state = 'running', attempt = $1, epoch = $2, owner = $3, lease_until = $4,
            lease_ms = $5, updated_at = $6 WHERE id = $7",
    )
    .bind(job.attempt)
    .bind(epoch)
    .bind(owner)
    .bind(now.saturating_add(length))
    .bind(length)
    .bind(now)
    .bind(job.id)
    .execute(write.db())
    .await?;
    Ok(())
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
