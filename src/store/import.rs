//! Taking over another database: how the shards of a workflow matrix come together.

use sqlx::AssertSqlSafe;

use super::changesets::put_changeset;
use super::db::{Write, clean, get, word};
use super::targets::{COLUMNS as TARGET, target_of};
use super::{Store, StoreResult};
use crate::store::model::{CampaignRow, Event, Target, TargetState};

/// Events are read so many at a time.
const EVENTS: i64 = 1_000;

impl Store {
    /// Takes over campaign, targets, changesets and events of another database: how the shards of a
    /// workflow matrix come together. A target that has come further here stays as it is. Returns how
    /// many targets came.
    pub async fn import(&self, other: &Store) -> StoreResult<usize> {
        let mut came = 0;
        for campaign in other.campaigns(None).await? {
            self.put_campaign(&CampaignRow { spent_usd: 0.0, ..campaign.clone() }).await?;
            let select = format!("SELECT {TARGET} FROM targets WHERE campaign = $1 ORDER BY id");
            let rows = sqlx::query(AssertSqlSafe(select)).bind(campaign.id.as_str());
            for row in rows.fetch_all(&other.inner.pool).await? {
                let target = target_of(&row)?;
                came += usize::from(self.take_over(other, &target).await?);
            }
        }
        Ok(came)
    }

    /// One target with its changeset and events, in one transaction.
    async fn take_over(&self, other: &Store, theirs: &Target) -> StoreResult<bool> {
        let change = other.changeset(theirs.id).await?;
        let events = other.events_of(theirs).await?;
        let mut write = self.write().await?;
        let Some((ours, cost)) = place(&mut write, theirs).await? else { return Ok(false) };
        fill(&mut write, ours, theirs).await?;
        if let Some(change) = &change {
            put_changeset(&mut write, ours, change).await?;
        }
        for event in &events {
            copy(&mut write, ours, event).await?;
        }
        sqlx::query("UPDATE campaigns SET spent_usd = spent_usd + $1 WHERE id = $2")
            .bind(theirs.cost_usd - cost)
            .bind(theirs.campaign.as_str())
            .execute(write.db())
            .await?;
        write.commit().await?;
        Ok(true)
    }

    async fn events_of(&self, target: &Target) -> StoreResult<Vec<Event>> {
        let rows = sqlx::query("SELECT * FROM events WHERE target = $1 ORDER BY id LIMIT $2");
        let rows = rows.bind(target.id).bind(EVENTS).fetch_all(&self.inner.pool).await?;
        rows.iter().map(super::events::event_of).collect()
    }
}

/// The row that a target goes into, with what it has cost here; `None` when it has come as far here,
/// or has not been worked on there.
async fn place(write: &mut Write<'_>, theirs: &Target) -> StoreResult<Option<(i64, f64)>> {
    let select = "SELECT id, state, cost_usd FROM targets WHERE campaign = $1
        AND lower(repository) = $2 AND COALESCE(number, 0) = $3 AND base_sha = $4";
    let row = sqlx::query(write.lock_rows(select))
        .bind(theirs.campaign.as_str())
        .bind(theirs.repository.to_ascii_lowercase())
        .bind(theirs.number.unwrap_or_default())
        .bind(theirs.base_sha.as_str())
        .fetch_optional(write.db())
        .await?;
    let begun = |state| !matches!(state, TargetState::Waiting | TargetState::Queued);
    if let Some(row) = row {
        let ours = word(&row, "state", TargetState::of)?;
        let further = begun(theirs.state) && !begun(ours);
        return Ok(further.then_some((get(&row, "id")?, get(&row, "cost_usd")?)));
    }
    let now = write.now;
    let row = sqlx::query(
        "INSERT INTO targets (campaign, repository, number, base_branch, base_sha, wave, state,
            attempts, cost_usd, tokens, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, 'waiting', 0, 0.0, 0, $7, $8) RETURNING id",
    )
    .bind(theirs.campaign.as_str())
    .bind(theirs.repository.as_str())
    .bind(theirs.number)
    .bind(theirs.base_branch.as_str())
    .bind(theirs.base_sha.as_str())
    .bind(theirs.wave)
    .bind(theirs.created_at)
    .bind(now)
    .fetch_one(write.db())
    .await?;
    Ok(Some((get(&row, "id")?, 0.0)))
}

/// What a target came to there. One that was running when its database was left waits again; one that
/// was to be published is held.
async fn fill(write: &mut Write<'_>, ours: i64, theirs: &Target) -> StoreResult<()> {
    let state = match theirs.state {
        TargetState::Queued | TargetState::Running => TargetState::Waiting,
        TargetState::Ready | TargetState::Publishing => TargetState::Held,
        other => other,
    };
    sqlx::query(
        "UPDATE jobs SET state = 'cancelled', why = 'imported' WHERE key = $1 AND state = 'queued'",
    )
    .bind(format!("target:{ours}"))
    .execute(write.db())
    .await?;
    let now = write.now;
    sqlx::query(
        "UPDATE targets SET state = $1, class = $2, reason = $3, run = $4, attempts = $5,
            cost_usd = $6, tokens = $7, pull_request = $8, url = $9, updated_at = $10,
            started_at = $11, ended_at = $12 WHERE id = $13",
    )
    .bind(state.word())
    .bind(theirs.class.map(crate::store::model::ErrorClass::word))
    .bind(theirs.reason.as_deref().map(clean))
    .bind(theirs.run.clone())
    .bind(theirs.attempts)
    .bind(theirs.cost_usd)
    .bind(theirs.tokens)
    .bind(theirs.pull_request)
    .bind(theirs.url.clone())
    .bind(now)
    .bind(theirs.started_at)
    .bind(theirs.ended_at)
    .bind(ours)
    .execute(write.db())
    .await?;
    Ok(())
}

async fn copy(write: &mut Write<'_>, ours: i64, event: &Event) -> StoreResult<()> {
    sqlx::query(
        "INSERT INTO events (at, campaign, target, repository, kind, text)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(event.at)
    .bind(event.campaign.as_str())
    .bind(ours)
    .bind(event.repository.clone())
    .bind(event.kind.as_str())
    .bind(event.text.as_deref().map(clean))
    .execute(write.db())
    .await?;
    Ok(())
}
