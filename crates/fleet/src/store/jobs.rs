//! The queue of jobs, apart from taking and ending them.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::claim::LIVE;
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
    let queued = done.rows_affected() > 0;
    if queued {
        write.notify();
    }
    Ok(queued)
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
        let rows = rows.fetch_all(&mut *self.connection().await?).await?;
        let count = |row| {
            Ok(((word(row, "kind", JobKind::parse)?, get(row, "state")?), get(row, "count")?))
        };
        rows.iter().map(count).collect()
    }

    /// What is left to do of these kinds. What a pause or a spent budget keeps back is not counted.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn outlook(&self, kinds: &[JobKind]) -> StoreResult<QueueOutlook> {
        let now = self.now().await?;
        let kinds = quoted(kinds.iter().map(|kind| kind.word()));
        // Counted in groups, and the campaigns asked once for each: a question for each job makes this
        // as slow as the queue is long times what runs.
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT COALESCE(o.campaign, '') AS campaign, o.kind AS kind, o.reserve_usd AS reserve_usd,
                CASE WHEN {LIVE} THEN 'live' ELSE o.state END AS state, COUNT(*) AS count,
                MIN(o.run_at) AS run_at
             FROM jobs o WHERE o.kind IN ({kinds}) AND o.state IN ('queued', 'running')
             GROUP BY COALESCE(o.campaign, ''), o.kind, o.reserve_usd,
                CASE WHEN {LIVE} THEN 'live' ELSE o.state END"
        )));
        let rows = rows.bind(now).fetch_all(&mut *self.connection().await?).await?;
        let groups: Vec<JobGroup> = rows.iter().map(group_of).collect::<StoreResult<_>>()?;
        let rooms = self.rooms(&groups).await?;
        let mut outlook = QueueOutlook::default();
        for group in &groups {
            let counts = match rooms.get(&group.campaign) {
                _ if group.state == "live" || group.campaign.is_empty() => true,
                None => false,
                Some(room) => {
                    group.kind != JobKind::Target
                        || room.running > 0
                        || room.left.is_none_or(|left| left >= group.reserve_usd)
                }
            };
            if !counts {
                continue;
            }
            if group.state == "queued" {
                outlook.waiting += group.count;
                let wait = group.run_at.saturating_sub(now).max(0);
                outlook.next_in = Some(outlook.next_in.map_or(wait, |next| next.min(wait)));
            } else {
                outlook.running += group.count;
            }
        }
        Ok(outlook)
    }

    /// The running campaigns of these groups.
    async fn rooms(&self, groups: &[JobGroup]) -> StoreResult<BTreeMap<String, RemainingCapacity>> {
        let select = "SELECT id, budget_usd, spent_usd FROM campaigns WHERE state = 'running'";
        let rows = sqlx::query(select).fetch_all(&mut *self.connection().await?).await?;
        let mut rooms = BTreeMap::new();
        for row in &rows {
            let id: String = get(row, "id")?;
            let of_it = |group: &&JobGroup| {
                group.campaign == id && group.kind == JobKind::Target && group.state == "live"
            };
            let running = groups.iter().filter(of_it);
            let (mut count, mut held) = (0, 0.0);
            for group in running {
                count += group.count;
                held +=
                    group.reserve_usd * f64::from(u32::try_from(group.count).unwrap_or(u32::MAX));
            }
            let budget: Option<f64> = get(row, "budget_usd")?;
            let spent: f64 = get(row, "spent_usd")?;
            let left =
                budget.map(
                    |budget| {
                        if spent >= budget { -1.0 } else { budget + 0.000_001 - spent - held }
                    },
                );
            rooms.insert(id, RemainingCapacity { running: count, left });
        }
        Ok(rooms)
    }
}

/// Jobs that only their ids and times tell apart.
struct JobGroup {
    /// Empty for jobs of no campaign.
    campaign: String,
    kind: JobKind,
    reserve_usd: f64,
    /// `live` when its lease counts.
    state: String,
    count: i64,
    /// The earliest of them.
    run_at: Millis,
}

/// What a campaign has running, and what money it has besides; `None` is without a limit.
struct RemainingCapacity {
    running: i64,
    left: Option<f64>,
}

fn group_of(row: &AnyRow) -> StoreResult<JobGroup> {
    Ok(JobGroup {
        campaign: get(row, "campaign")?,
        kind: word(row, "kind", JobKind::parse)?,
        reserve_usd: get(row, "reserve_usd")?,
        state: get(row, "state")?,
        count: get(row, "count")?,
        run_at: get(row, "run_at")?,
    })
}
