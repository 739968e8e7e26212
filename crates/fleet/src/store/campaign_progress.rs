//! How a campaign stands, in a few look-ups by index: whoever only wants to know whether there is anything to
//! decide does not read thousands of targets, after every job.

use sqlx::AssertSqlSafe;

use super::db::{get, quoted};
use super::{Store, StoreResult};
use patchwright_types::campaign::TargetState;

/// What is left to do in a campaign. Of each repository the newest target counts, as in [`Store::view`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignProgress {
    /// The lowest wave with a target that waits for it.
    pub waiting: Option<i64>,
    /// A run is going on.
    pub running: bool,
    /// Something is queued, runs, or is to be published.
    pub busy: bool,
    /// A target failed by a mistake that all would have.
    pub misconfigured: bool,
}

/// No newer target of the same repository took its place. One that was only skipped takes nobody's.
const NEWEST: &str = "NOT EXISTS (SELECT 1 FROM targets n WHERE n.campaign = t.campaign
    AND COALESCE(n.repository_id, lower(n.repository)) = COALESCE(t.repository_id, lower(t.repository))
    AND COALESCE(n.number, 0) = COALESCE(t.number, 0) AND n.id > t.id
    AND NOT (n.state = 'skipped' AND n.run IS NULL))";

/// What is under way and not waiting for its wave.
const BUSY: [TargetState; 4] =
    [TargetState::Queued, TargetState::Running, TargetState::Ready, TargetState::Publishing];

impl Store {
    /// What is left to do, without reading the targets.
    pub async fn campaign_progress(&self, campaign: &str) -> StoreResult<CampaignProgress> {
        let mut standing = CampaignProgress {
            waiting: self.first_waiting(campaign).await?,
            running: self.has(campaign, TargetState::Running).await?,
            ..CampaignProgress::default()
        };
        for state in BUSY {
            standing.busy = standing.busy || self.has(campaign, state).await?;
        }
        let failed = format!(
            "SELECT 1 AS one FROM targets t WHERE t.campaign = $1 AND t.class = 'configuration'
             AND t.state = 'failed' AND {NEWEST} LIMIT 1"
        );
        let failed = sqlx::query(AssertSqlSafe(failed)).bind(campaign);
        standing.misconfigured =
            failed.fetch_optional(&mut *self.connection().await?).await?.is_some();
        Ok(standing)
    }

    /// How many targets have one of these states, those whose place a newer one took included.
    pub async fn count_targets(
        &self,
        campaign: &str,
        states: &[TargetState],
    ) -> StoreResult<usize> {
        let states = quoted(states.iter().map(|state| state.word()));
        let count = format!(
            "SELECT COUNT(*) AS count FROM targets WHERE campaign = $1 AND state IN ({states})"
        );
        let row = sqlx::query(AssertSqlSafe(count)).bind(campaign);
        let row = row.fetch_one(&mut *self.connection().await?).await?;
        let count: i64 = get(&row, "count")?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    async fn first_waiting(&self, campaign: &str) -> StoreResult<Option<i64>> {
        let first = format!(
            "SELECT t.wave AS wave FROM targets t WHERE t.campaign = $1 AND t.state = 'waiting'
             AND {NEWEST} ORDER BY t.wave LIMIT 1"
        );
        let first = sqlx::query(AssertSqlSafe(first)).bind(campaign);
        first
            .fetch_optional(&mut *self.connection().await?)
            .await?
            .map(|row| get(&row, "wave"))
            .transpose()
    }

    async fn has(&self, campaign: &str, state: TargetState) -> StoreResult<bool> {
        let any = format!(
            "SELECT 1 AS one FROM targets t WHERE t.campaign = $1 AND t.state = $2 AND {NEWEST} LIMIT 1"
        );
        let any = sqlx::query(AssertSqlSafe(any)).bind(campaign).bind(state.word());
        Ok(any.fetch_optional(&mut *self.connection().await?).await?.is_some())
    }
}
