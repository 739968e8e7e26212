//! Events: what happened in a campaign, in order.

use sqlx::any::AnyRow;

use super::db::get;
use super::{Store, StoreResult};
use patchwright_types::campaign::Event;

pub(super) fn event_of(row: &AnyRow) -> StoreResult<Event> {
    Ok(Event {
        id: get(row, "id")?,
        at: get(row, "at")?,
        campaign: get(row, "campaign")?,
        target: get(row, "target")?,
        repository: get(row, "repository")?,
        kind: get(row, "kind")?,
        text: get(row, "text")?,
    })
}

impl Store {
    pub async fn record(
        &self,
        campaign: &str,
        target: Option<i64>,
        kind: &str,
        text: Option<&str>,
    ) -> StoreResult<()> {
        let mut write = self.write().await?;
        write.say(campaign, target, kind, text);
        write.commit().await
    }

    /// Events after `after` (0 for all), oldest first, at most `most`.
    pub async fn events(&self, campaign: &str, after: i64, most: i64) -> StoreResult<Vec<Event>> {
        let rows = sqlx::query(
            "SELECT * FROM events WHERE campaign = $1 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(campaign)
        .bind(after)
        .bind(most)
        .fetch_all(&self.inner.pool)
        .await?;
        rows.iter().map(event_of).collect()
    }
}
