//! Leases whose holder will not use them any more, ended before their time.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{get, word};
use super::{Store, StoreResult};
use patchwright_types::campaign::JobKind;

/// A lease that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    pub job: i64,
    pub epoch: i64,
    pub owner: String,
    pub(crate) kind: JobKind,
    pub(crate) campaign: Option<String>,
    /// Of a target's job its number.
    pub(crate) subject: String,
}

impl Store {
    /// The leases that have not run out.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn held_leases(&self) -> StoreResult<Vec<HeldLease>> {
        let now = self.inner.dialect.time();
        let select = format!(
            "SELECT id, epoch, owner, kind, campaign, subject FROM jobs
             WHERE state = 'running' AND lease_until > {now}"
        );
        let rows =
            sqlx::query(AssertSqlSafe(select)).fetch_all(&mut *self.connection().await?).await?;
        let held = |row: &AnyRow| {
            let owner: Option<String> = get(row, "owner")?;
            Ok(HeldLease {
                job: get(row, "id")?,
                epoch: get(row, "epoch")?,
                owner: owner.unwrap_or_default(),
                kind: word(row, "kind", JobKind::parse)?,
                campaign: get(row, "campaign")?,
                subject: get(row, "subject")?,
            })
        };
        rows.iter().map(held).collect()
    }

    /// Ends these leases, each unless somebody else has the job by now. The jobs can be claimed at once; what
    /// their holder still writes is refused. `why` is said of each target. Returns how many were ended.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn end_leases(&self, leases: &[HeldLease], why: &str) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let mut ended = 0;
        for lease in leases {
            let done = sqlx::query(
                "UPDATE jobs SET lease_until = 0 WHERE id = $1 AND epoch = $2 AND owner = $3
                    AND state = 'running' AND lease_until > 0",
            );
            let done = done.bind(lease.job).bind(lease.epoch).bind(lease.owner.as_str());
            if done.execute(write.db()).await?.rows_affected() == 0 {
                continue;
            }
            ended += 1;
            if let (Some(campaign), true) = (&lease.campaign, lease.kind != JobKind::Delivery) {
                write.say(campaign, lease.subject.parse().ok(), "taken-over", Some(why));
            }
        }
        if ended > 0 {
            write.notify();
        }
        write.commit().await?;
        Ok(ended)
    }
}
