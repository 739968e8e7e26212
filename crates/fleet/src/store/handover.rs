//! A job that goes from the process that claimed it to the one that does the work, for example in a pod.
//!
//! Whoever takes it over gets a new epoch, so that of two that try only one succeeds, and whatever the first
//! holder still writes is refused. In between, the job is always somebody's.

use sqlx::AssertSqlSafe;

use super::db::get;
use super::leases::fence;
use super::{Store, StoreResult};
use patchwright_types::campaign::{Job, Lease, Millis};

/// Who has a job, by its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobHolder {
    pub epoch: i64,
    /// Whoever had it last, when it does not run.
    pub owner: String,
    pub runs: bool,
    /// Its lease has run out, by the database's clock: others may claim it.
    pub expired: bool,
}

impl Store {
    /// Takes over a job from the holder of a lease that is still good, as `owner`.
    ///
    /// # Errors
    /// [`super::StoreError::LeaseLost`] when others have the job, it has ended, or it is not there.
    pub async fn hand_over(&self, from: &Lease, owner: &str) -> StoreResult<(Job, Lease)> {
        // One that has run out is good unless others were given the job or its lane: this finds out.
        self.renew(from).await?;
        let mut write = self.write().await?;
        let job = fence(&mut write, from).await?;
        let lease = Lease { epoch: from.epoch + 1, owner: owner.to_owned(), ..from.clone() };
        let time = self.inner.dialect.time();
        let take = format!(
            "UPDATE jobs SET epoch = $1, owner = $2, lease_until = {time} + $3, lease_ms = $4,
                updated_at = {time} WHERE id = $5"
        );
        sqlx::query(AssertSqlSafe(take))
            .bind(lease.epoch)
            .bind(owner)
            .bind(lease.length)
            .bind(lease.length)
            .bind(lease.job)
            .execute(write.db())
            .await?;
        write.commit().await?;
        Ok((job, lease))
    }

    /// Who has the job; `None` when there is none of this number.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn holder(&self, job: i64) -> StoreResult<Option<JobHolder>> {
        let time = self.inner.dialect.time();
        let select = format!(
            "SELECT epoch, owner, state, COALESCE(lease_until, 0) - {time} AS remaining FROM jobs WHERE id = $1"
        );
        let row = sqlx::query(AssertSqlSafe(select)).bind(job);
        let Some(row) = row.fetch_optional(&mut *self.connection().await?).await? else {
            return Ok(None);
        };
        let owner: Option<String> = get(&row, "owner")?;
        let state: String = get(&row, "state")?;
        let remaining: Millis = get(&row, "remaining")?;
        Ok(Some(JobHolder {
            epoch: get(&row, "epoch")?,
            owner: owner.unwrap_or_default(),
            runs: state == "running",
            expired: remaining <= 0,
        }))
    }

    /// A name that this database has for itself, the same for all who use it and for no other database.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn identity(&self) -> StoreResult<String> {
        const NAME: &str = "identity";
        let mut write = self.write().await?;
        let new = format!("{:016x}", rand::random::<u64>());
        let put = "INSERT INTO kept (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        sqlx::query(put).bind(NAME).bind(new).execute(write.db()).await?;
        let select = sqlx::query("SELECT value FROM kept WHERE name = $1").bind(NAME);
        let identity = get(&select.fetch_one(write.db()).await?, "value")?;
        write.commit().await?;
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::{Store, StoreError, file_url};
    use patchwright_types::campaign::{JobEnd, JobKind, NewJob};

    #[tokio::test]
    async fn one_takes_over_and_the_one_before_writes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&file_url(&folder.path().join("fleet.db"))).await.unwrap();
        let job = NewJob {
            kind: JobKind::Delivery,
            key: "one".to_owned(),
            campaign: None,
            subject: "one".to_owned(),
            lane: None,
            organization: None,
            priority: 0,
            max_attempts: 9,
            reserve_usd: 0.0,
            run_at: 0,
        };
        store.enqueue(&job).await.unwrap();
        let (job, first) = store.claim("us", JobKind::ALL, 60_000).await.unwrap().unwrap();
        let (same, second) = store.hand_over(&first, "pod").await.unwrap();
        assert_eq!(same, job, "the attempt is the same one");
        let holder = store.holder(job.id).await.unwrap().unwrap();
        assert_eq!((holder.epoch, holder.owner.as_str(), holder.runs), (2, "pod", true));
        assert!(!holder.expired);
        // A second pod of the same name, and the first holder.
        for refused in [
            store.hand_over(&first, "pod").await.map(drop),
            store.renew(&first).await,
            store.end_job(&first, &JobEnd::Released).await,
        ] {
            assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");
        }
        store.end_job(&second, &JobEnd::Done).await.unwrap();
        assert!(!store.holder(job.id).await.unwrap().unwrap().runs);
        assert_eq!(store.holder(99).await.unwrap(), None);
        let identity = store.identity().await.unwrap();
        assert_eq!(identity, store.identity().await.unwrap());
        assert_eq!(identity.len(), 16);
    }
}
