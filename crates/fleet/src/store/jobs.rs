//! The queue of jobs, apart from taking and ending them.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;

use super::claim::{LIVE, within_budget};
use super::db::{Write, clean, get, meaningless, quoted, word};
use super::targets::set_state;
use super::{Store, StoreResult};
use patchwright_types::campaign::{JobKind, Millis, NewJob, TargetState};

const INSERT: &str = "INSERT INTO jobs (kind, key, campaign, subject, lane, organization, priority,
        max_attempts, reserve_usd, run_at, state, attempt, epoch, lease_until, lease_ms, created_at,
        updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'queued', 0, 0, 0, 0, $11, $12)";

/// What is left to do, of some kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOutlook {
    /// Held by somebody, or held last by somebody who is gone.
    pub running: i64,
    /// Queued in campaigns that run and have money left, now or later.
    pub waiting: i64,
    /// Milliseconds until the first of them may run; 0 when it may now.
    pub next_in: Option<Millis>,
}

pub(super) async fn insert(write: &mut Write<'_>, job: &NewJob) -> StoreResult<bool> {
    put(write, job, "ON CONFLICT (key) DO NOTHING").await
}

/// Adds a job, or queues the one of the same key from its beginning when it has ended.
pub(super) async fn requeue(write: &mut Write<'_>, job: &NewJob) -> StoreResult<bool> {
    let again = "ON CONFLICT (key) DO UPDATE SET state = 'queued', attempt = 0,
        run_at = excluded.run_at, lane = excluded.lane, campaign = excluded.campaign,
        priority = excluded.priority, max_attempts = excluded.max_attempts,
        reserve_usd = excluded.reserve_usd, why = NULL, updated_at = excluded.updated_at
        WHERE jobs.state NOT IN ('queued', 'running')";
    put(write, job, again).await
}

async fn put(write: &mut Write<'_>, job: &NewJob, conflict: &str) -> StoreResult<bool> {
    let now = write.now;
    let done = sqlx::query(AssertSqlSafe(format!("{INSERT} {conflict}")))
        .bind(job.kind.word())
        .bind(job.key.as_str())
        .bind(job.campaign.clone())
        .bind(job.subject.as_str())
        .bind(job.lane.clone())
        .bind(job.organization.as_ref().map(|owner| owner.to_lowercase()))
        .bind(job.priority)
        .bind(job.max_attempts.max(1))
        .bind(job.reserve_usd)
        .bind(job.run_at)
        .bind(now)
        .bind(now)
        .execute(write.db())
        .await?;
    Ok(done.rows_affected() > 0)
}

impl Store {
    /// Adds a job; false when one of its key is there already.
    pub async fn enqueue(&self, job: &NewJob) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let added = insert(&mut write, job).await?;
        write.commit().await?;
        Ok(added)
    }

    /// Ends queued jobs of a campaign as cancelled; their targets, and those whose wave has not been
    /// opened, become superseded. Returns how many targets.
    pub async fn cancel_jobs(&self, campaign: &str, why: &str) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let now = write.now;
        let rows = sqlx::query(
            "UPDATE jobs SET state = 'cancelled', why = $1, updated_at = $2
             WHERE campaign = $3 AND state = 'queued' RETURNING id, kind, subject",
        )
        .bind(clean(why))
        .bind(now)
        .bind(campaign)
        .fetch_all(write.db())
        .await?;
        let mut targets: Vec<i64> = Vec::new();
        for row in &rows {
            let subject: String = get(row, "subject")?;
            if word(row, "kind", JobKind::parse)? != JobKind::Delivery {
                targets.push(subject.parse().map_err(|_| meaningless("subject", &subject))?);
            }
        }
        let waiting =
            sqlx::query("SELECT id FROM targets WHERE campaign = $1 AND state = 'waiting'");
        for row in waiting.bind(campaign).fetch_all(write.db()).await? {
            targets.push(get(&row, "id")?);
        }
        targets.sort_unstable();
        targets.dedup();
        for target in &targets {
            set_state(&mut write, *target, TargetState::Superseded, None, Some(why)).await?;
        }
        write.commit().await?;
        Ok(targets.len())
    }

    /// Jobs by kind and state, for health and metrics.
    pub async fn job_counts(&self) -> StoreResult<BTreeMap<(JobKind, String), i64>> {
        let rows =
            sqlx::query("SELECT kind, state, COUNT(*) AS count FROM jobs GROUP BY kind, state");
        let rows = rows.fetch_all(&self.inner.pool).await?;
        let count = |row| {
            Ok(((word(row, "kind", JobKind::parse)?, get(row, "state")?), get(row, "count")?))
        };
        rows.iter().map(count).collect()
    }

    /// What is left to do of these kinds. What a pause or a spent budget keeps back is not counted.
    pub async fn outlook(&self, kinds: &[JobKind]) -> StoreResult<QueueOutlook> {
        let now = self.now().await?;
        let kinds = quoted(kinds.iter().map(|kind| kind.word()));
        let budget = within_budget();
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT j.state AS state, COUNT(*) AS count, MIN(j.run_at) AS run_at
             FROM jobs j LEFT JOIN campaigns c ON c.id = j.campaign
             WHERE j.kind IN ({kinds}) AND j.state IN ('queued', 'running')
                AND ((j.state = 'running' AND {live}) OR j.campaign IS NULL
                    OR (c.state = 'running' AND (j.kind <> 'target' OR {budget}
                        OR EXISTS (SELECT 1 FROM jobs o WHERE o.campaign = j.campaign
                            AND o.kind = 'target' AND o.id <> j.id AND {LIVE}))))
             GROUP BY j.state",
            live = LIVE.replace("o.", "j."),
        )))
        .bind(now)
        .fetch_all(&self.inner.pool)
        .await?;
        let mut outlook = QueueOutlook::default();
        for row in &rows {
            let state: String = get(row, "state")?;
            if state == "running" {
                outlook.running = get(row, "count")?;
            } else {
                outlook.waiting = get(row, "count")?;
                let run_at: Option<Millis> = get(row, "run_at")?;
                outlook.next_in = run_at.map(|at| at.saturating_sub(now).max(0));
            }
        }
        Ok(outlook)
    }
}
