//! Campaigns: one row each, and what people see of one.

use std::collections::BTreeSet;

use sqlx::any::AnyRow;

use super::db::{Write, clean, get, quoted, word};
use super::jobs::requeue;
use super::repositories::NewestTargets;
use super::targets::{COLUMNS as TARGET, target_of};
use super::{Store, StoreError, StoreResult};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, CampaignView, Millis, NewJob, Target, TargetState,
};

fn campaign_of(row: &AnyRow) -> StoreResult<CampaignRow> {
    Ok(CampaignRow {
        id: get(row, "id")?,
        name: get(row, "name")?,
        spec_hash: get(row, "spec_hash")?,
        spec: get(row, "spec")?,
        state: word(row, "state", CampaignState::parse)?,
        reason: get(row, "reason")?,
        wave: get(row, "wave")?,
        concurrency: get(row, "concurrency")?,
        per_organization: get(row, "per_organization")?,
        budget_usd: get(row, "budget_usd")?,
        spent_usd: get(row, "spent_usd")?,
        tracking_issue: get(row, "tracking_issue")?,
        created_at: get(row, "created_at")?,
        updated_at: get(row, "updated_at")?,
    })
}

/// How a campaign stands, in a row of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignSummary {
    pub id: String,
    pub state: CampaignState,
    /// Why it is paused, for people.
    pub reason: Option<String>,
    /// The wave that is open; the first is 0.
    pub wave: i64,
    pub spent_usd: f64,
    pub budget_usd: Option<f64>,
    pub created_at: Millis,
    /// Its repositories (in mode `review`, pull requests), those that came to an end, and those that failed.
    pub targets: i64,
    pub settled: i64,
    pub failed: i64,
}

/// `$1` is how many campaigns. Of each repository the newest target counts, as in [`Store::view`].
fn summaries() -> String {
    let going = quoted(
        TargetState::ALL.iter().filter(|state| !state.is_settled()).map(|state| state.word()),
    );
    let order =
        "CASE WHEN s.state IN ('running', 'paused') THEN 0 ELSE 1 END, s.created_at DESC, s.id";
    format!(
        "WITH shown AS (SELECT s.id, s.state, s.reason, s.wave, s.spent_usd, s.budget_usd, s.created_at
            FROM campaigns s ORDER BY {order} LIMIT $1),
         newest AS (SELECT MAX(t.id) AS id FROM targets t
            WHERE t.campaign IN (SELECT s.id FROM shown s)
            GROUP BY t.campaign, COALESCE(t.repository_id, lower(t.repository)),
                COALESCE(t.number, 0)),
         counts AS (SELECT t.campaign AS campaign, COUNT(*) AS targets,
                SUM(CASE WHEN t.state IN ({going}) THEN 0 ELSE 1 END) AS settled,
                SUM(CASE WHEN t.state = 'failed' THEN 1 ELSE 0 END) AS failed
            FROM newest n JOIN targets t ON t.id = n.id GROUP BY t.campaign)
         SELECT s.id AS id, s.state AS state, s.reason AS reason, s.wave AS wave,
            s.spent_usd AS spent_usd, s.budget_usd AS budget_usd, s.created_at AS created_at,
            CAST(COALESCE(c.targets, 0) AS BIGINT) AS targets,
            CAST(COALESCE(c.settled, 0) AS BIGINT) AS settled,
            CAST(COALESCE(c.failed, 0) AS BIGINT) AS failed
         FROM shown s LEFT JOIN counts c ON c.campaign = s.id ORDER BY {order}"
    )
}

impl Store {
    /// How the newest campaigns stand, those first that are not over; at most `most`.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn campaign_summaries(&self, most: i64) -> StoreResult<Vec<CampaignSummary>> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(summaries())).bind(most);
        let summary = |row: &AnyRow| {
            Ok(CampaignSummary {
                id: get(row, "id")?,
                state: word(row, "state", CampaignState::parse)?,
                reason: get(row, "reason")?,
                wave: get(row, "wave")?,
                spent_usd: get(row, "spent_usd")?,
                budget_usd: get(row, "budget_usd")?,
                created_at: get(row, "created_at")?,
                targets: get(row, "targets")?,
                settled: get(row, "settled")?,
                failed: get(row, "failed")?,
            })
        };
        rows.fetch_all(&mut *self.connection().await?).await?.iter().map(summary).collect()
    }

    /// Id, state and dollars spent of the newest campaigns, at most `most`.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn campaign_costs(
        &self,
        most: i64,
    ) -> StoreResult<Vec<(String, CampaignState, f64)>> {
        let rows = sqlx::query(
            "SELECT id, state, spent_usd FROM campaigns ORDER BY created_at DESC, id LIMIT $1",
        );
        let cost = |row: &AnyRow| {
            let state = word(row, "state", CampaignState::parse)?;
            Ok((get(row, "id")?, state, get(row, "spent_usd")?))
        };
        rows.bind(most).fetch_all(&mut *self.connection().await?).await?.iter().map(cost).collect()
    }

    /// Adds a campaign, or returns the one of the same id as it is (limits and specification text are
    /// brought up to date; state, wave and spending stay).
    pub async fn put_campaign(&self, campaign: &CampaignRow) -> StoreResult<CampaignRow> {
        let mut write = self.write().await?;
        let now = write.now;
        sqlx::query(
            "INSERT INTO campaigns (id, name, spec_hash, spec, state, reason, wave, concurrency,
                per_organization, budget_usd, spent_usd, tracking_issue, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULLIF($10, -1.0), $11, $12, $13, $14)
             ON CONFLICT (id) DO UPDATE SET spec = excluded.spec,
                concurrency = excluded.concurrency, per_organization = excluded.per_organization,
                budget_usd = excluded.budget_usd, updated_at = excluded.updated_at",
        )
        .bind(campaign.id.as_str())
        .bind(campaign.name.as_str())
        .bind(campaign.spec_hash.as_str())
        .bind(clean(&campaign.spec))
        .bind(campaign.state.word())
        .bind(campaign.reason.as_deref().map(clean))
        .bind(campaign.wave)
        .bind(campaign.concurrency)
        .bind(campaign.per_organization)
        // sqlx tells PostgreSQL that the absent one is of half the size, and the statement, once prepared
        // so, takes no other.
        .bind(campaign.budget_usd.unwrap_or(-1.0))
        .bind(campaign.spent_usd)
        .bind(campaign.tracking_issue.clone())
        .bind(now)
        .bind(now)
        .execute(write.db())
        .await?;
        // Its limits may be wider.
        write.notify();
        write.commit().await?;
        self.campaign(&campaign.id).await
    }

    pub async fn campaign(&self, id: &str) -> StoreResult<CampaignRow> {
        let row = sqlx::query("SELECT * FROM campaigns WHERE id = $1").bind(id);
        let row = row.fetch_optional(&mut *self.connection().await?).await?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("campaign `{id}`")))?;
        campaign_of(&row)
    }

    /// All of this name (or all), newest first.
    pub async fn campaigns(&self, name: Option<&str>) -> StoreResult<Vec<CampaignRow>> {
        let rows = sqlx::query(
            "SELECT * FROM campaigns WHERE $1 = '' OR name = $2 ORDER BY created_at DESC, id",
        )
        .bind(name.unwrap_or_default())
        .bind(name.unwrap_or_default())
        .fetch_all(&mut *self.connection().await?)
        .await?;
        rows.iter().map(campaign_of).collect()
    }

    /// Changes the state, with an event. True when it was another one.
    pub async fn set_campaign_state(
        &self,
        id: &str,
        state: CampaignState,
        reason: Option<&str>,
    ) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let now = write.now;
        let changed = sqlx::query(
            "UPDATE campaigns SET state = $1, reason = $2, updated_at = $3
             WHERE id = $4 AND state <> $5",
        )
        .bind(state.word())
        .bind(reason.map(clean))
        .bind(now)
        .bind(id)
        .bind(state.word())
        .execute(write.db())
        .await?
        .rows_affected()
            > 0;
        if changed {
            // The event says what happened, the state what is: "running" would not tell a resume
            // from a start.
            let kind = match state {
                CampaignState::Running => "resumed",
                other => other.word(),
            };
            write.say(id, None, kind, reason);
            write.notify();
        }
        write.commit().await?;
        if !changed {
            // No row changed: either the state was the same, or there is no such campaign, which is
            // an error.
            self.campaign(id).await?;
        }
        Ok(changed)
    }

    /// Opens a wave: the waiting targets up to it are queued, with the jobs that `job_of` makes of
    /// them. Returns how many.
    pub async fn open_wave(
        &self,
        id: &str,
        wave: i64,
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        self.open_wave_of(id, wave, &|_| true, job_of).await
    }

    /// [`Store::open_wave`] for the targets that are wanted; the others stay as they are.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn open_wave_of(
        &self,
        id: &str,
        wave: i64,
        wanted: &(dyn Fn(&Target) -> bool + Sync),
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let count = queue_waiting(&mut write, (id, wave), wanted, job_of).await?;
        let now = write.now;
        let opened = sqlx::query(
            "UPDATE campaigns SET wave = $1, updated_at = $2 WHERE id = $3 AND wave < $4",
        );
        let opened = opened.bind(wave).bind(now).bind(id).bind(wave).execute(write.db()).await?;
        if opened.rows_affected() > 0 || count > 0 {
            let text = format!("wave {} with {count} targets", wave + 1);
            write.say(id, None, "wave", Some(&text));
        }
        write.commit().await?;
        Ok(count)
    }

    /// Queues the wanted ones of the waiting targets up to a wave, which is not opened by that: the others wait for it
    /// as before. Returns how many.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn queue_waiting(
        &self,
        id: &str,
        wave: i64,
        wanted: &(dyn Fn(&Target) -> bool + Sync),
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let count = queue_waiting(&mut write, (id, wave), wanted, job_of).await?;
        write.commit().await?;
        Ok(count)
    }

    pub async fn set_tracking_issue(&self, id: &str, issue: &str) -> StoreResult<()> {
        let mut write = self.write().await?;
        sqlx::query("UPDATE campaigns SET tracking_issue = $1 WHERE id = $2")
            .bind(issue)
            .bind(id)
            .execute(write.db())
            .await?;
        write.commit().await
    }

    /// The targets of a campaign that `batch close` has something to do for, those included whose place a newer one
    /// took.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn targets_to_close(&self, campaign: &str) -> StoreResult<Vec<Target>> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {TARGET} FROM targets WHERE campaign = $1 AND (closing_at IS NOT NULL
                OR state IN ('held', 'ready', 'open', 'draft', 'closed')) ORDER BY lower(repository), id DESC"
        )));
        let rows = rows.bind(campaign).fetch_all(&mut *self.connection().await?).await?;
        rows.iter().map(target_of).collect()
    }

    /// The campaign with the target of each repository (and number) that counts: as a rule the newest.
    pub async fn view(&self, campaign: &str) -> StoreResult<CampaignView> {
        let row = self.campaign(campaign).await?;
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {TARGET} FROM targets WHERE campaign = $1 ORDER BY id"
        )))
        .bind(campaign)
        .fetch_all(&mut *self.connection().await?)
        .await?;
        let mut newest = NewestTargets::default();
        for row in &rows {
            newest.add(target_of(row)?);
        }
        let mut targets = newest.into_targets();
        targets.sort_by_cached_key(|target| (target.repository.to_lowercase(), target.number));
        let mut outages = self.outages(Some(campaign)).await?;
        // A suspicion holds nothing up, and what does not run waits for nothing.
        let runs = row.state == CampaignState::Running;
        outages.retain(|outage| runs && outage.pauses > 0);
        let interrupted = BTreeSet::new();
        Ok(CampaignView { campaign: row, targets, outages, interrupted, now: self.now().await? })
    }
}

/// The waiting targets of a campaign up to a wave, as far as they are wanted, are queued.
async fn queue_waiting(
    write: &mut Write<'_>,
    (id, wave): (&str, i64),
    wanted: &(dyn Fn(&Target) -> bool + Sync),
    job_of: &(dyn Fn(&Target) -> NewJob + Sync),
) -> StoreResult<usize> {
    let now = write.now;
    let select = format!(
        "SELECT {TARGET} FROM targets
         WHERE campaign = $1 AND wave <= $2 AND state = 'waiting' ORDER BY id"
    );
    let rows = sqlx::query(write.lock_rows(&select)).bind(id).bind(wave);
    let rows = rows.fetch_all(write.db()).await?;
    let mut count = 0;
    for row in &rows {
        let mut target = target_of(row)?;
        if !wanted(&target) {
            continue;
        }
        target.state = TargetState::Queued;
        requeue(write, &job_of(&target)).await?;
        sqlx::query("UPDATE targets SET state = 'queued', updated_at = $1 WHERE id = $2")
            .bind(now)
            .bind(target.id)
            .execute(write.db())
            .await?;
        write.say(id, Some(target.id), "queued", None);
        count += 1;
    }
    Ok(count)
}
