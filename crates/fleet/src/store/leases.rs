//! What the holder of a job may write. Each begins by locking the job's row and looking whether it is
//! still ours.

use std::time::Duration;

use super::changesets::put_changeset;
use super::claim::FENCE;
use super::db::{Dialect, Write, clean, get, word};
use super::deliveries::drop_body;
use super::jobs::requeue;
use super::runs::{self, Counted, EndedRun};
use super::targets::set_state;
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{
    Changeset, ErrorClass, Job, JobEnd, JobKind, Lease, NewJob, TargetEnd, TargetState,
};
use patchwright_types::run_facts::ChecksVerdict;

/// How often the end of a job is written again, and the wait before the first time. Room on a full disk is waited for
/// without an end, as the process that has the job is the only one that knows what came of it; who drives a campaign in
/// front of people ends it.
const TRIES: u32 = 3;
const AGAIN: Duration = Duration::from_secs(2);

#[derive(Default)]
struct EndAttempts {
    failed: u32,
    /// The disk was full.
    full: bool,
}

/// Locks the job, or says that it is not ours.
pub(super) async fn fence(write: &mut Write<'_>, lease: &Lease) -> StoreResult<Job> {
    let row = sqlx::query(write.lock_rows(FENCE))
        .bind(lease.job)
        .bind(lease.epoch)
        .bind(lease.owner.as_str())
        .fetch_optional(write.db())
        .await?;
    let row = row.ok_or(StoreError::LeaseLost { job: lease.job })?;
    Ok(Job {
        id: lease.job,
        kind: word(&row, "kind", JobKind::parse)?,
        campaign: get(&row, "campaign")?,
        subject: get(&row, "subject")?,
        attempt: get(&row, "attempt")?,
        max_attempts: get(&row, "max_attempts")?,
    })
}

/// Writes the job's end. True when it wanted to be tried again and may not.
async fn finish(write: &mut Write<'_>, job: &Job, end: &JobEnd) -> StoreResult<bool> {
    let now = write.now;
    let (state, attempt, run_at, why) = match end {
        JobEnd::Done => ("done", job.attempt, None, None),
        JobEnd::Failed { why } => ("failed", job.attempt, None, Some(clean(why))),
        // A job that was put back was not tried, so the attempt does not count.
        JobEnd::Released => ("queued", job.attempt.saturating_sub(1).max(0), Some(now), None),
        JobEnd::Later { after, why } => {
            let then = now.saturating_add((*after).max(0));
            ("queued", job.attempt.saturating_sub(1).max(0), Some(then), Some(clean(why)))
        }
        JobEnd::Retry { why, .. } if job.attempt >= job.max_attempts => {
            ("dead", job.attempt, None, Some(clean(why)))
        }
        JobEnd::Retry { after, why } => {
            let then = now.saturating_add((*after).max(0));
            ("queued", job.attempt, Some(then), Some(clean(why)))
        }
    };
    sqlx::query(
        "UPDATE jobs SET state = $1, attempt = $2, run_at = COALESCE($3, run_at), why = $4,
            lease_until = 0, updated_at = $5 WHERE id = $6",
    )
    .bind(state)
    .bind(attempt)
    .bind(run_at)
    .bind(why)
    .bind(now)
    .bind(job.id)
    .execute(write.db())
    .await?;
    write.frees(job.id).await?;
    Ok(state == "dead")
}

impl Store {
    /// Ends a job that has nothing else to write. Its target follows where it has to: back into the
    /// queue with the job, failed when the job failed for good.
    /// A database that does not answer is asked a few times, and one whose disk is full until there is room: what was done
    /// is not to be lost. Whoever cannot wait has to limit it.
    pub async fn end_job(&self, lease: &Lease, end: &JobEnd) -> StoreResult<()> {
        let mut tries = EndAttempts::default();
        loop {
            let ended = self.end_job_once(lease, end).await;
            if let Some(ended) = self.settle(lease, ended, &mut tries).await {
                self.inner.pool.keep_whole().await;
                return ended;
            }
        }
    }

    async fn end_job_once(&self, lease: &Lease, end: &JobEnd) -> StoreResult<()> {
        let mut write = self.write().await?;
        let job = fence(&mut write, lease).await?;
        let dead = finish(&mut write, &job, end).await?;
        if let (true, Ok(target)) = (job.kind != JobKind::Delivery, job.subject.parse()) {
            follow(&mut write, &job, target, end, dead).await?;
        }
        write.commit().await
    }

    /// [`Store::end_job`] for a delivery, with what its run came to and how that is counted, in one transaction.
    pub async fn end_delivery(
        &self,
        lease: &Lease,
        end: &JobEnd,
        ended: (&EndedRun, Counted),
    ) -> StoreResult<()> {
        let mut tries = EndAttempts::default();
        loop {
            let written = self.end_delivery_once(lease, end, ended).await;
            if let Some(written) = self.settle(lease, written, &mut tries).await {
                return written;
            }
        }
    }

    async fn end_delivery_once(
        &self,
        lease: &Lease,
        end: &JobEnd,
        ended: (&EndedRun, Counted),
    ) -> StoreResult<()> {
        let mut write = self.write().await?;
        let job = fence(&mut write, lease).await?;
        let dead = finish(&mut write, &job, end).await?;
        if *end == JobEnd::Done {
            // For the list of deliveries, in whichever process it is shown.
            sqlx::query("UPDATE jobs SET why = $1 WHERE id = $2")
                .bind(clean(&ended.0.text))
                .bind(job.id)
                .execute(write.db())
                .await?;
        }
        // What was put back, or is tried again, goes on later, and is counted when it has ended.
        if dead || matches!(end, JobEnd::Done | JobEnd::Failed { .. }) {
            runs::put(&mut write, ended.0, ended.1).await?;
            drop_body(&mut write, &job.subject).await?;
        }
        write.commit().await
    }

    /// The job of a delivery turns out to be one of the issue or pull request `number`, and waits in that one's `lane`. The
    /// attempt does not count.
    pub async fn move_delivery(
        &self,
        lease: &Lease,
        guid: &str,
        number: i64,
        lane: &str,
    ) -> StoreResult<()> {
        let mut write = self.write().await?;
        let job = fence(&mut write, lease).await?;
        finish(&mut write, &job, &JobEnd::Released).await?;
        let moved = sqlx::query("UPDATE jobs SET lane = $1 WHERE id = $2");
        moved.bind(lane).bind(job.id).execute(write.db()).await?;
        let named = sqlx::query("UPDATE deliveries SET number = $1 WHERE guid = $2");
        named.bind(number).bind(guid).execute(write.db()).await?;
        write.commit().await
    }

    /// A target's run begins: state `running`, an event.
    pub async fn begin_target(&self, lease: &Lease, target: i64, run: &str) -> StoreResult<()> {
        let mut write = self.write().await?;
        fence(&mut write, lease).await?;
        let now = write.now;
        set_state(&mut write, target, TargetState::Running, None, None).await?;
        sqlx::query(
            "UPDATE targets SET run = $1, attempts = attempts + 1, started_at = $2, ended_at = NULL,
                publishing_at = NULL, published_at = NULL, closed_at = NULL, fits_sha = NULL,
                checks = NULL, setup_failed = NULL, run_ms = NULL WHERE id = $3",
        )
        .bind(run)
        .bind(now)
        .bind(target)
        .execute(write.db())
        .await?;
        write.commit().await
    }

    /// A target's job ends, all in one transaction: state, cost (also of the campaign), changeset, the
    /// job that publishes it, an event, the job's end. When the job wants to be tried again and may
    /// not, the target has failed. A database that does not answer is waited for as in [`Store::end_job`].
    pub async fn end_target(
        &self,
        lease: &Lease,
        target: i64,
        end: &TargetEnd,
        changeset: Option<&Changeset>,
        publish: Option<&NewJob>,
        job_end: &JobEnd,
    ) -> StoreResult<()> {
        let mut tries = EndAttempts::default();
        loop {
            let ended = self.end_target_once(lease, target, end, changeset, publish, job_end).await;
            if let Some(ended) = self.settle(lease, ended, &mut tries).await {
                self.inner.pool.keep_whole().await;
                return ended;
            }
        }
    }

    /// Whether an end is written; `None` to try once more, after a wait. An answer that was lost is
    /// found in the job's row: the same epoch and owner, and it has ended.
    async fn settle(
        &self,
        lease: &Lease,
        ended: StoreResult<()>,
        tries: &mut EndAttempts,
    ) -> Option<StoreResult<()>> {
        self.note_room(&ended);
        match ended {
            Err(err) if err.is_transient() && tries.failed < TRIES => {
                tries.failed += 1;
                tracing::warn!(job = lease.job, %err, "the end of a job is written again");
                tokio::time::sleep(AGAIN * tries.failed).await;
                None
            }
            Err(StoreError::Full(files)) if self.inner.dialect != Dialect::Simulated => {
                if !std::mem::replace(&mut tries.full, true) {
                    let job = lease.job;
                    tracing::warn!(job, files, "the end of a job is kept until the disk has room");
                }
                tokio::time::sleep(AGAIN).await;
                None
            }
            // The first attempt may have committed although its answer was lost; then the job is no
            // longer running, and the fence fails for a good reason.
            Err(StoreError::LeaseLost { job }) if tries.failed > 0 => {
                let ours = sqlx::query(
                    "SELECT 1 AS one FROM jobs
                     WHERE id = $1 AND epoch = $2 AND owner = $3 AND state <> 'running'",
                );
                let ours = ours.bind(lease.job).bind(lease.epoch).bind(lease.owner.as_str());
                let Ok(mut connection) = self.connection().await else {
                    return Some(Err(StoreError::LeaseLost { job }));
                };
                let ours = ours.fetch_optional(&mut *connection).await;
                Some(match ours {
                    Ok(Some(_)) => Ok(()),
                    _ => Err(StoreError::LeaseLost { job }),
                })
            }
            ended => Some(ended),
        }
    }

    async fn end_target_once(
        &self,
        lease: &Lease,
        target: i64,
        end: &TargetEnd,
        changeset: Option<&Changeset>,
        publish: Option<&NewJob>,
        job_end: &JobEnd,
    ) -> StoreResult<()> {
        let mut write = self.write().await?;
        let job = fence(&mut write, lease).await?;
        let dead = finish(&mut write, &job, job_end).await?;
        let (mut state, mut class) = (end.state, end.class);
        if dead && !state.is_settled() {
            state = TargetState::Failed;
            class = class.or(Some(given_up(job.kind)));
        }
        let why = match job_end {
            JobEnd::Retry { why, .. } | JobEnd::Later { why, .. } | JobEnd::Failed { why } => {
                Some(why.as_str())
            }
            JobEnd::Done | JobEnd::Released => None,
        };
        if let Some(publish) = publish {
            // In the same transaction as the change, so that no stored change lacks the job that
            // publishes it.
            requeue(&mut write, publish).await?;
        }
        let reason = end.reason.as_deref().or(why);
        if job.kind == JobKind::Target && !job_end.goes_on() {
            runs::put_target(&mut write, target, end, state, class, reason).await?;
        }
        set_state(&mut write, target, state, class, reason).await?;
        spend(&mut write, target, end, job_end.goes_on()).await?;
        ended(&mut write, target, job.kind, state).await?;
        if let Some(changeset) = changeset {
            put_changeset(&mut write, target, changeset).await?;
        }
        write.commit().await
    }

    /// The publisher takes a target up: state `publishing`, an event.
    pub async fn begin_publishing(&self, lease: &Lease, target: i64) -> StoreResult<()> {
        let mut write = self.write().await?;
        fence(&mut write, lease).await?;
        let now = write.now;
        set_state(&mut write, target, TargetState::Publishing, None, None).await?;
        sqlx::query("UPDATE targets SET publishing_at = $1, published_at = NULL WHERE id = $2")
            .bind(now)
            .bind(target)
            .execute(write.db())
            .await?;
        write.commit().await
    }
}

/// The class of a failure that nobody named, when a job's attempts are used up.
fn given_up(kind: JobKind) -> ErrorClass {
    match kind {
        JobKind::Publish => ErrorClass::Publish,
        JobKind::Target | JobKind::Delivery => ErrorClass::Lost,
    }
}

/// When the run, or publishing, was over: what comes later changes neither. A publisher that puts its work
/// back is not done.
async fn ended(
    write: &mut Write<'_>,
    target: i64,
    kind: JobKind,
    state: TargetState,
) -> StoreResult<()> {
    let now = write.now;
    let text = match kind {
        JobKind::Target => "UPDATE targets SET ended_at = $1 WHERE id = $2",
        JobKind::Publish if state.is_settled() => {
            "UPDATE targets SET published_at = $1 WHERE id = $2"
        }
        JobKind::Publish | JobKind::Delivery => return Ok(()),
    };
    sqlx::query(text).bind(now).bind(target).execute(write.db()).await?;
    Ok(())
}

/// Adds what a run used to its target and campaign, and where the result is.
async fn spend(
    write: &mut Write<'_>,
    target: i64,
    end: &TargetEnd,
    released: bool,
) -> StoreResult<()> {
    let now = write.now;
    sqlx::query(
        "UPDATE targets SET run = COALESCE($1, run), cost_usd = cost_usd + $2, tokens = tokens + $3,
            pull_request = COALESCE($4, pull_request), url = COALESCE($5, url), writes = writes + $6,
            attempts = attempts - CASE WHEN attempts < $7 THEN attempts ELSE $8 END,
            checks = COALESCE($9, checks), setup_failed = COALESCE($10, setup_failed),
            run_ms = COALESCE($11, run_ms) WHERE id = $12",
    )
    .bind(end.run.clone())
    .bind(end.cost_usd)
    .bind(end.tokens)
    .bind(end.pull_request)
    .bind(end.url.clone())
    .bind(end.writes)
    .bind(i64::from(released))
    .bind(i64::from(released))
    .bind(end.facts.checks.map(ChecksVerdict::word))
    .bind(end.facts.setup_failed.map(i64::from))
    .bind(end.facts.run_ms)
    .bind(target)
    .execute(write.db())
    .await?;
    sqlx::query(
        "UPDATE campaigns SET spent_usd = spent_usd + $1, updated_at = $2
         WHERE id = (SELECT campaign FROM targets WHERE id = $3)",
    )
    .bind(end.cost_usd)
    .bind(now)
    .bind(target)
    .execute(write.db())
    .await?;
    Ok(())
}

/// A job ended without a word about its target.
async fn follow(
    write: &mut Write<'_>,
    job: &Job,
    target: i64,
    end: &JobEnd,
    dead: bool,
) -> StoreResult<()> {
    let row = sqlx::query("SELECT state, reason FROM targets WHERE id = $1").bind(target);
    let Some(row) = row.fetch_optional(write.db()).await? else { return Ok(()) };
    let state = word(&row, "state", TargetState::parse)?;
    if state.is_settled() {
        return Ok(());
    }
    let back = match job.kind {
        JobKind::Publish => TargetState::Ready,
        JobKind::Target | JobKind::Delivery => TargetState::Queued,
    };
    match end {
        JobEnd::Done => Ok(()),
        JobEnd::Retry { why, .. } if dead => {
            let class = Some(given_up(job.kind));
            set_state(write, target, TargetState::Failed, class, Some(why)).await?;
            ended(write, target, job.kind, TargetState::Failed).await
        }
        JobEnd::Failed { why } => {
            let class = Some(ErrorClass::Internal);
            set_state(write, target, TargetState::Failed, class, Some(why)).await?;
            ended(write, target, job.kind, TargetState::Failed).await
        }
        // The same reason as before is no event: a waiting job comes back every few minutes.
        JobEnd::Later { why, .. }
            if state == back && get::<Option<String>>(&row, "reason")?.as_deref() == Some(why) =>
        {
            Ok(())
        }
        JobEnd::Later { why, .. } => {
            uncount(write, target, state).await?;
            set_state(write, target, back, None, Some(why)).await
        }
        JobEnd::Retry { why, .. } => set_state(write, target, back, None, Some(why)).await,
        JobEnd::Released => {
            uncount(write, target, state).await?;
            if state == back { Ok(()) } else { set_state(write, target, back, None, None).await }
        }
    }
}

/// An attempt that was put back was none.
async fn uncount(write: &mut Write<'_>, target: i64, state: TargetState) -> StoreResult<()> {
    if state == TargetState::Running {
        let row = sqlx::query(
            "UPDATE targets SET attempts = attempts - 1 WHERE id = $1 AND attempts > 0",
        );
        row.bind(target).execute(write.db()).await?;
    }
    Ok(())
}
