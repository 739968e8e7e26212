//! Open pull requests whose work is done anew, because somebody asked for it.

use super::db::quoted;
use super::jobs::requeue;
use super::targets::{COLUMNS, set_state, target_of};
use super::{Store, StoreResult};
use patchwright_types::campaign::{NewJob, Target, TargetState};

impl Store {
    /// Queues these targets, as far as their pull requests are open, to be worked on anew. What was stored for them is
    /// given up: should the new run fail, trying again is another run. Returns how many.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn rerun_these(
        &self,
        campaign: &str,
        targets: &[i64],
        job_of: &(dyn Fn(&Target) -> NewJob + Sync),
    ) -> StoreResult<usize> {
        if targets.is_empty() {
            return Ok(0);
        }
        let mut write = self.write().await?;
        let ids: Vec<String> = targets.iter().map(i64::to_string).collect();
        let open = quoted([TargetState::Open, TargetState::Draft].map(TargetState::word));
        let select = format!(
            "SELECT {COLUMNS} FROM targets WHERE campaign = $1 AND state IN ({open})
             AND id IN ({}) ORDER BY id",
            ids.join(", ")
        );
        let rows = sqlx::query(write.lock_rows(&select)).bind(campaign);
        let rows = rows.fetch_all(write.db()).await?;
        for row in &rows {
            let target = Target { state: TargetState::Queued, attempts: 0, ..target_of(row)? };
            requeue(&mut write, &job_of(&target)).await?;
            set_state(&mut write, target.id, target.state, None, None).await?;
            for text in [
                "DELETE FROM changesets WHERE target = $1",
                "UPDATE targets SET attempts = 0, ended_at = NULL, published_at = NULL WHERE id = $1",
            ] {
                sqlx::query(text).bind(target.id).execute(write.db()).await?;
            }
            write.say(campaign, Some(target.id), "retry", None);
        }
        write.commit().await?;
        Ok(rows.len())
    }
}
