//! Events: what happened in a campaign, in order.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use super::db::{get, quoted, word};
use super::{Store, StoreResult};
use patchwright_types::campaign::{Event, Millis, TargetState};

/// A target got a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The id of the event that says so.
    pub event: i64,
    pub at: Millis,
    pub target: i64,
    pub state: TargetState,
}

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
        .fetch_all(&mut *self.connection().await?)
        .await?;
        rows.iter().map(event_of).collect()
    }

    /// The newest events, the oldest of them first.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn newest_events(&self, campaign: &str, most: i64) -> StoreResult<Vec<Event>> {
        let rows =
            sqlx::query("SELECT * FROM events WHERE campaign = $1 ORDER BY id DESC LIMIT $2")
                .bind(campaign)
                .bind(most)
                .fetch_all(&mut *self.connection().await?)
                .await?;
        rows.iter().rev().map(event_of).collect()
    }

    /// The id of the newest event; 0 without one.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn newest_event(&self, campaign: &str) -> StoreResult<i64> {
        let newest = sqlx::query(
            "SELECT CAST(COALESCE(MAX(id), 0) AS BIGINT) AS id FROM events WHERE campaign = $1",
        );
        get(&newest.bind(campaign).fetch_one(&mut *self.connection().await?).await?, "id")
    }

    /// The states that targets got, in events after `after` (0 for all), oldest first, at most `most`.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn state_changes(
        &self,
        campaign: &str,
        after: i64,
        most: i64,
    ) -> StoreResult<Vec<StateChange>> {
        let states = quoted(TargetState::ALL.iter().map(|state| state.word()));
        let select = format!(
            "SELECT id, at, target, kind FROM events WHERE campaign = $1 AND id > $2
                AND target IS NOT NULL AND kind IN ({states}) ORDER BY id LIMIT $3"
        );
        let rows = sqlx::query(AssertSqlSafe(select)).bind(campaign).bind(after).bind(most);
        let change = |row: &AnyRow| {
            Ok(StateChange {
                event: get(row, "id")?,
                at: get(row, "at")?,
                target: get(row, "target")?,
                state: word(row, "kind", TargetState::parse)?,
            })
        };
        rows.fetch_all(&mut *self.connection().await?).await?.iter().map(change).collect()
    }

    /// The last answer of each target in mode `report`: those of targets after `after` (0 for all), by
    /// target, at most `most`.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn answers(
        &self,
        campaign: &str,
        after: i64,
        most: i64,
    ) -> StoreResult<Vec<(i64, String)>> {
        let rows = sqlx::query(
            "SELECT target, text FROM events WHERE id IN (
                SELECT MAX(id) FROM events WHERE campaign = $1 AND kind = 'answer' AND target > $2
                GROUP BY target ORDER BY target LIMIT $3) ORDER BY target",
        );
        let rows = rows
            .bind(campaign)
            .bind(after)
            .bind(most)
            .fetch_all(&mut *self.connection().await?)
            .await?;
        let answer = |row: &AnyRow| {
            let text: Option<String> = get(row, "text")?;
            Ok((get(row, "target")?, text.unwrap_or_default()))
        };
        rows.iter().map(answer).collect()
    }
}
