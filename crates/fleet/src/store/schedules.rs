//! What schedules have fired, and values kept by name.

use super::db::{clean, get};
use super::{Store, StoreResult};

impl Store {
    /// Remembers that a schedule fired for a moment (its local date and time as text); false when it
    /// had already, here or on another machine.
    pub async fn fire_once(&self, schedule: &str, moment: &str) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let now = write.now;
        let fired = sqlx::query(
            "INSERT INTO fired (schedule, moment, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        );
        let fired = fired.bind(schedule).bind(moment).bind(now).execute(write.db()).await?;
        write.commit().await?;
        Ok(fired.rows_affected() > 0)
    }

    /// The moment that a schedule fired for last.
    pub async fn last_fired(&self, schedule: &str) -> StoreResult<Option<String>> {
        let row =
            sqlx::query("SELECT moment FROM fired WHERE schedule = $1 ORDER BY id DESC LIMIT 1");
        let row = row.bind(schedule).fetch_optional(&mut *self.connection().await?).await?;
        row.map(|row| get(&row, "moment")).transpose()
    }

    /// A value kept by name (cursors and the like).
    pub async fn value(&self, name: &str) -> StoreResult<Option<String>> {
        let row = sqlx::query("SELECT value FROM kept WHERE name = $1").bind(name);
        let row = row.fetch_optional(&mut *self.connection().await?).await?;
        row.map(|row| get(&row, "value")).transpose()
    }

    pub async fn set_value(&self, name: &str, value: &str) -> StoreResult<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO kept (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(clean(value))
        .execute(write.db())
        .await?;
        write.commit().await
    }
}
