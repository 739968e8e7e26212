//! Webhook deliveries, each stored once.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{clean, get};
use super::jobs::insert;
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{Delivery, NewJob};

/// So many are asked about in one statement.
const CHUNK: usize = 200;

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
    /// Stores deliveries and their jobs in one transaction; false for those that were there already.
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
            if added {
                insert(&mut write, &job_of(delivery)).await?;
            }
            new.push(added);
        }
        write.commit().await?;
        Ok(new)
    }

    pub async fn delivery(&self, guid: &str) -> StoreResult<Delivery> {
        let row = sqlx::query("SELECT * FROM deliveries WHERE guid = $1").bind(guid);
        let row = row.fetch_optional(&self.inner.pool).await?;
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
            for row in query.fetch_all(&self.inner.pool).await? {
                known.push(get(&row, "guid")?);
            }
        }
        Ok(known)
    }
}
