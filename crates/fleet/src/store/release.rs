//! Stored changes that are to be published now.

use super::db::get;
use super::jobs::requeue;
use super::targets::{COLUMNS, set_state, target_of};
use super::{Store, StoreResult};
use patchwright_types::campaign::{NewJob, Target, TargetState};

impl Store {
    /// Makes held changes ready to be published, with the jobs that do it: those of a dry run or of
    /// another machine. `targets` empty: all of the campaign. Returns how many.
    pub async fn publish_held(
        &self,
        campaign: &str,
        targets: &[i64],
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        self.make_ready(campaign, TargetState::Held, targets, publish_of).await
    }

    /// Makes changes ready to be published again whose pull request another specification of the campaign took over.
    /// Returns how many.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn publish_taken_back(
        &self,
        campaign: &str,
        targets: &[i64],
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        self.make_ready(campaign, TargetState::Superseded, targets, publish_of).await
    }

    async fn make_ready(
        &self,
        campaign: &str,
        from: TargetState,
        targets: &[i64],
        publish_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let select = format!(
            "SELECT {COLUMNS} FROM targets WHERE campaign = $1 AND state = $2
             AND id IN (SELECT target FROM changesets) ORDER BY id"
        );
        let rows = sqlx::query(write.lock_rows(&select)).bind(campaign).bind(from.word());
        let rows = rows.fetch_all(write.db()).await?;
        let mut count = 0;
        for row in &rows {
            let mut target = target_of(row)?;
            if !targets.is_empty() && !targets.contains(&target.id) {
                continue;
            }
            target.state = TargetState::Ready;
            requeue(&mut write, &publish_of(&target)).await?;
            set_state(&mut write, target.id, TargetState::Ready, None, None).await?;
            sqlx::query("UPDATE targets SET closed_at = NULL WHERE id = $1")
                .bind(target.id)
                .execute(write.db())
                .await?;
            count += 1;
        }
        write.commit().await?;
        Ok(count)
    }

    /// What was put back until a window opens, or until there are fewer pull requests, is tried now. A retry after a
    /// failure keeps its wait.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn publish_now(
        &self,
        campaign: &str,
        wanted: &(dyn Fn(&str) -> bool + Sync),
    ) -> StoreResult<usize> {
        let mut write = self.write().await?;
        let now = write.now;
        let select = "SELECT j.id AS id, t.id AS target, t.repository AS repository
             FROM jobs j JOIN targets t
                ON t.id = CAST(CASE WHEN j.kind <> 'delivery' THEN j.subject END AS BIGINT)
             WHERE COALESCE(j.campaign, '') = $1 AND j.kind = 'publish' AND j.state = 'queued'
                AND j.attempt = 0 AND j.run_at > $2 AND t.state = 'ready' ORDER BY j.id";
        let rows = sqlx::query(select).bind(campaign).bind(now).fetch_all(write.db()).await?;
        let mut count = 0;
        for row in &rows {
            if !wanted(&get::<String>(row, "repository")?) {
                continue;
            }
            // Nobody may have taken it in between.
            let job = "UPDATE jobs SET run_at = $1, why = NULL WHERE id = $2 AND state = 'queued'";
            let job = sqlx::query(job).bind(now).bind(get::<i64>(row, "id")?);
            if job.execute(write.db()).await?.rows_affected() == 0 {
                continue;
            }
            sqlx::query("UPDATE targets SET reason = NULL WHERE id = $1 AND state = 'ready'")
                .bind(get::<i64>(row, "target")?)
                .execute(write.db())
                .await?;
            count += 1;
        }
        if count > 0 {
            write.notify();
        }
        write.commit().await?;
        Ok(count)
    }
}
