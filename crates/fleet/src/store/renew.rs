//! Keeping a lease. Renewals wait for no claim: while a lease lasts, its holder needs nothing but the
//! job's own row.

use sqlx::AssertSqlSafe;

use super::claim::{LIVE, renew};
use super::db::{SharedLock, get};
use super::leases::fence;
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{Lease, Millis};

impl Store {
    /// Extends the lease from now. One that has run out is extended, too, unless the job or its lane
    /// was given to somebody else.
    ///
    /// # Errors
    /// When it is not ours any more, or that cannot be found out.
    pub async fn renew(&self, lease: &Lease) -> StoreResult<()> {
        if self.renew_in_time(lease).await? { Ok(()) } else { self.renew_late(lease).await }
    }

    /// False when the lease has run out, or is not ours.
    async fn renew_in_time(&self, lease: &Lease) -> StoreResult<bool> {
        let mut writer = self.writer().await?;
        let update = sqlx::query(AssertSqlSafe(renew(self.inner.dialect)));
        let done = update
            .bind(lease.length)
            .bind(lease.length)
            .bind(lease.job)
            .bind(lease.epoch)
            .bind(lease.owner.as_str())
            .execute(&mut *writer)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Others may have been given the job or its lane meanwhile.
    async fn renew_late(&self, lease: &Lease) -> StoreResult<()> {
        let mut write = self.write().await?;
        let lane = sqlx::query("SELECT lane FROM jobs WHERE id = $1").bind(lease.job);
        let lane = lane.fetch_optional(write.db()).await?;
        let lane: Option<String> = lane.map(|row| get(&row, "lane")).transpose()?.flatten();
        // Before the row, as claims do: whoever gives the lane away has it locked until that is written.
        if let Some(lane) = &lane {
            write.lock(SharedLock::Lane, lane).await?;
        }
        fence(&mut write, lease).await?;
        write.look_again().await?;
        let now = write.now;
        let taken = format!(
            "SELECT 1 AS one FROM jobs o WHERE o.lane = $2 AND o.id <> $3 AND {LIVE} LIMIT 1"
        );
        let taken = sqlx::query(AssertSqlSafe(taken)).bind(now).bind(lane).bind(lease.job);
        if taken.fetch_optional(write.db()).await?.is_some() {
            return Err(StoreError::LeaseLost { job: lease.job });
        }
        sqlx::query(
            "UPDATE jobs SET lease_until = $1, lease_ms = $2, updated_at = $3 WHERE id = $4",
        )
        .bind(now.saturating_add(lease.length))
        .bind(lease.length)
        .bind(now)
        .bind(lease.job)
        .execute(write.db())
        .await?;
        write.commit().await
    }

    /// The lease is ours, and lasts for so many more milliseconds; 0 or less when it has run out and
    /// nobody has taken the job yet.
    ///
    /// # Errors
    /// When it is not ours any more, or that cannot be found out.
    pub async fn remaining(&self, lease: &Lease) -> StoreResult<Millis> {
        let select = format!(
            "SELECT lease_until - {} AS remaining FROM jobs
             WHERE id = $1 AND epoch = $2 AND owner = $3 AND state = 'running'",
            self.inner.dialect.time()
        );
        let row = sqlx::query(AssertSqlSafe(select))
            .bind(lease.job)
            .bind(lease.epoch)
            .bind(lease.owner.as_str())
            .fetch_optional(&mut *self.connection().await?)
            .await?;
        let row = row.ok_or(StoreError::LeaseLost { job: lease.job })?;
        get(&row, "remaining")
    }
}
