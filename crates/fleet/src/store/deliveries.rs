//! Webhook deliveries, each stored once.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{Write, clean, get, word};
use super::jobs::{insert, requeue};
use super::runs::{self, Counted, EndedRun};
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{Delivery, JobState, Millis, NewJob};

/// So many are asked about in one statement.
const CHUNK: usize = 200;

/// A delivery without its body, with how far its job is.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    pub guid: String,
    pub event: String,
    pub action: Option<String>,
    pub repository: Option<String>,
    pub number: Option<i64>,
    pub received_at: Millis,
    pub state: JobState,
    /// Attempts that were begun.
    pub attempt: i64,
    /// What became of it, or why it is tried again; in a line.
    pub text: Option<String>,
}

/// A delivery that was given up, and nobody has said so: the workers that had it ended without a word.
#[derive(Clone, Debug, PartialEq)]
pub struct LostDelivery {
    pub job: i64,
    /// Why it was given up; in a line.
    pub why: String,
    pub delivery: Delivery,
}

fn delivery_of(row: &AnyRow) -> StoreResult<Delivery> {
    Ok(Delivery {
        guid: get(row, "guid")?,
        event: get(row, "event")?,
        action: get(row, "action")?,
        repository: get(row, "repository")?,
        number: get(row, "number")?,
        installation: get(row, "installation")?,
        body: get(row, "body")?,
        received_at: get(row, "received_at")?,
    })
}

impl Store {
    /// Stores deliveries and their jobs in one transaction; false for those that were there already. One that was given
    /// up is begun anew: somebody had it delivered again.
    pub async fn put_deliveries(
        &self,
        deliveries: &[Delivery],
        job_of: &(dyn Fn(&Delivery) -> NewJob + Sync),
    ) -> StoreResult<Vec<bool>> {
        let mut write = self.write().await?;
        let mut new = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let added = sqlx::query(
                "INSERT INTO deliveries (guid, event, action, repository, number, installation, body,
                    received_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (guid) DO NOTHING",
            )
            .bind(clean(&delivery.guid))
            .bind(clean(&delivery.event))
            .bind(delivery.action.as_deref().map(clean))
            .bind(delivery.repository.as_deref().map(clean))
            .bind(delivery.number)
            .bind(delivery.installation)
            .bind(clean(&delivery.body))
            .bind(delivery.received_at)
            .execute(write.db())
            .await?
            .rows_affected()
                > 0;
            let again = !added && is_given_up(&mut write, delivery, job_of).await?;
            if added {
                insert(&mut write, &job_of(delivery)).await?;
            } else if again {
                requeue(&mut write, &job_of(delivery)).await?;
            }
            new.push(added || again);
        }
        write.commit().await?;
        Ok(new)
    }

    pub async fn delivery(&self, guid: &str) -> StoreResult<Delivery> {
        let row = sqlx::query("SELECT * FROM deliveries WHERE guid = $1").bind(guid);
        let row = row.fetch_optional(&mut *self.connection().await?).await?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("delivery `{guid}`")))?;
        delivery_of(&row)
    }

    /// Which of these are known.
    pub async fn known_deliveries(&self, guids: &[String]) -> StoreResult<Vec<String>> {
        let mut known = Vec::new();
        for chunk in guids.chunks(CHUNK) {
            let places: Vec<String> = (1..=chunk.len()).map(|place| format!("${place}")).collect();
            let select =
                format!("SELECT guid FROM deliveries WHERE guid IN ({})", places.join(", "));
            let mut query = sqlx::query(AssertSqlSafe(select));
            for guid in chunk {
                query = query.bind(clean(guid));
            }
            let rows = query.fetch_all(&mut *self.connection().await?).await?;
            for row in &rows {
                known.push(get(row, "guid")?);
            }
        }
        Ok(known)
    }

    /// Deliveries that were given up without anybody's saying so, the oldest first.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn lost_deliveries(&self, most: i64) -> StoreResult<Vec<LostDelivery>> {
        let select = "SELECT d.*, j.id AS job, COALESCE(j.why, '') AS why
             FROM jobs j JOIN deliveries d ON d.guid = j.subject
             WHERE j.state = 'dead' AND j.kind = 'delivery' AND d.body <> '' ORDER BY j.id LIMIT $1";
        let rows = sqlx::query(select).bind(most);
        let rows = rows.fetch_all(&mut *self.connection().await?).await?;
        let lost = |row: &AnyRow| {
            let (job, why) = (get(row, "job")?, get(row, "why")?);
            Ok(LostDelivery { job, why, delivery: delivery_of(row)? })
        };
        rows.iter().map(lost).collect()
    }

    /// Writes what the run of a delivery came to that was given up. False when another process has, or when it was
    /// delivered again meanwhile.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn end_lost(&self, lost: &LostDelivery, ended: &EndedRun) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let job = sqlx::query(write.lock_rows("SELECT state FROM jobs WHERE id = $1"));
        let job = job.bind(lost.job).fetch_optional(write.db()).await?;
        let Some(job) = job else { return Ok(false) };
        let is_dead = word(&job, "state", JobState::parse)? == JobState::Dead;
        if !is_dead || !drop_body(&mut write, &lost.delivery.guid).await? {
            return Ok(false);
        }
        runs::put(&mut write, ended, Counted::AsItEnded).await?;
        write.commit().await?;
        Ok(true)
    }

    /// The last deliveries, whichever process took them or worked on them, the newest first. Reads at most
    /// `most` jobs of each state.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn recent_deliveries(&self, most: i64) -> StoreResult<Vec<DeliveryRow>> {
        // Each part walks the index by state, kind and time from its end.
        let parts: Vec<String> = JobState::ALL
            .iter()
            .map(|state| {
                let word = state.word();
                format!(
                    "SELECT * FROM (SELECT subject, state, attempt, why FROM jobs
                        WHERE state = '{word}' AND kind = 'delivery'
                        ORDER BY run_at DESC LIMIT $1) {word}_jobs"
                )
            })
            .collect();
        let select = format!(
            "SELECT d.guid AS guid, d.event AS event, d.action AS action, d.repository AS repository,
                d.number AS number, d.received_at AS received_at, j.state AS state,
                j.attempt AS attempt, j.why AS why
             FROM ({}) j JOIN deliveries d ON d.guid = j.subject
             ORDER BY d.received_at DESC, d.guid LIMIT $1",
            parts.join(" UNION ALL ")
        );
        let rows = sqlx::query(AssertSqlSafe(select)).bind(most);
        let rows = rows.fetch_all(&mut *self.connection().await?).await?;
        let delivery = |row: &AnyRow| {
            Ok(DeliveryRow {
                guid: get(row, "guid")?,
                event: get(row, "event")?,
                action: get(row, "action")?,
                repository: get(row, "repository")?,
                number: get(row, "number")?,
                received_at: get(row, "received_at")?,
                state: word(row, "state", JobState::parse)?,
                attempt: get(row, "attempt")?,
                text: get(row, "why")?,
            })
        };
        rows.iter().map(delivery).collect()
    }
}

/// The body is deleted once the delivery was handled: it may be of a private repository. It is needed for another attempt
/// only, and who has said what became of a delivery has deleted it. False when it was deleted before.
pub(super) async fn drop_body(write: &mut Write<'_>, guid: &str) -> StoreResult<bool> {
    let query = sqlx::query("UPDATE deliveries SET body = '' WHERE guid = $1 AND body <> ''");
    Ok(query.bind(guid).execute(write.db()).await?.rows_affected() > 0)
}

/// Whether the job of a delivery that is known was given up. Its body was dropped with that, and is stored again.
async fn is_given_up(
    write: &mut Write<'_>,
    delivery: &Delivery,
    job_of: &(dyn Fn(&Delivery) -> NewJob + Sync),
) -> StoreResult<bool> {
    let select = "SELECT state FROM jobs WHERE key = $1";
    let row = sqlx::query(write.lock_rows(select)).bind(job_of(delivery).key);
    let Some(row) = row.fetch_optional(write.db()).await? else { return Ok(false) };
    if !matches!(word(&row, "state", JobState::parse)?, JobState::Dead | JobState::Failed) {
        return Ok(false);
    }
    sqlx::query("UPDATE deliveries SET body = $1, received_at = $2 WHERE guid = $3")
        .bind(clean(&delivery.body))
        .bind(delivery.received_at)
        .bind(clean(&delivery.guid))
        .execute(write.db())
        .await?;
    Ok(true)
}
