//! The schema: its version, and the way from an older one.

use std::path::Path;

use sqlx::AssertSqlSafe;

use super::db::{Dialect, ExclusiveLock, get};
use super::{Store, StoreError, StoreResult};

/// Each brings the schema from its index to the next version. Never changed once released.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
];

/// The version that this program reads and writes.
#[expect(clippy::cast_possible_wrap, reason = "a handful")]
pub const VERSION: i64 = MIGRATIONS.len() as i64;

impl Store {
    /// Brings the schema up to date, or refuses. An SQLite file that has one is copied beside itself
    /// first.
    pub(super) async fn migrate(&self, file: Option<&Path>) -> StoreResult<()> {
        let found = self.version().await?;
        if found == VERSION {
            return Ok(());
        }
        if found > VERSION {
            return Err(newer(found));
        }
        if let Some(file) = file.filter(|_| found > 0) {
            self.back_up(file, found).await?;
        }
        let mut write = self.write().await?;
        write.alone(ExclusiveLock::Migrate).await?;
        sqlx::query(
            "CREATE TABLE IF NOT EXISTS patchwright_schema (
                version BIGINT PRIMARY KEY, at BIGINT NOT NULL)",
        )
        .execute(write.db())
        .await?;
        // Another process may have been faster.
        let row =
            sqlx::query("SELECT COALESCE(MAX(version), 0) AS version FROM patchwright_schema");
        let found: i64 = get(&row.fetch_one(write.db()).await?, "version")?;
        if found > VERSION {
            return Err(newer(found));
        }
        let mut version = found;
        for text in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
            let text = write.dialect.types(text);
            sqlx::raw_sql(AssertSqlSafe(text)).execute(write.db()).await?;
            version += 1;
            let row = sqlx::query("INSERT INTO patchwright_schema (version, at) VALUES ($1, $2)");
            let now = write.now;
            row.bind(version).bind(now).execute(write.db()).await?;
        }
        write.commit().await
    }

    /// The database is still of the version that this program knows: a newer program may have brought it up to
    /// date while this one runs.
    ///
    /// # Errors
    /// [`StoreError::Newer`] when it is not.
    pub async fn check_version(&self) -> StoreResult<()> {
        let row = sqlx::query("SELECT MAX(version) AS version FROM patchwright_schema");
        let found: Option<i64> = get(&row.fetch_one(&self.inner.pool).await?, "version")?;
        match found {
            Some(found) if found > VERSION => Err(newer(found)),
            _ => Ok(()),
        }
    }

    /// 0 when there is nothing yet.
    async fn version(&self) -> StoreResult<i64> {
        let tables = match self.inner.dialect {
            Dialect::Sqlite | Dialect::Simulated => {
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            }
            Dialect::Postgres => {
                "SELECT CAST(tablename AS TEXT) AS name FROM pg_tables
                 WHERE schemaname = current_schema()"
            }
        };
        let rows = sqlx::query(tables).fetch_all(&self.inner.pool).await?;
        let names: Vec<String> =
            rows.iter().map(|row| get(row, "name")).collect::<StoreResult<_>>()?;
        if names.iter().any(|name| name == "patchwright_schema") {
            let row =
                sqlx::query("SELECT COALESCE(MAX(version), 0) AS version FROM patchwright_schema");
            return get(&row.fetch_one(&self.inner.pool).await?, "version");
        }
        let taken = names
            .iter()
            .find(|name| matches!(name.as_str(), "campaigns" | "targets" | "jobs" | "events"));
        let other = match self.inner.dialect {
            Dialect::Sqlite | Dialect::Simulated => names.first(),
            Dialect::Postgres => taken,
        };
        other.map_or(Ok(0), |name| {
            Err(StoreError::Unusable(format!(
                "this database belongs to something else: it has a table `{name}` and no version of ours"
            )))
        })
    }

    async fn back_up(&self, file: &Path, version: i64) -> StoreResult<()> {
        let now = self.now().await?;
        let copy = format!("{}.v{version}-{now}.backup", file.display());
        sqlx::query("VACUUM INTO $1").bind(copy.as_str()).execute(&self.inner.pool).await?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        if let Err(err) = fs_err::set_permissions(&copy, mode) {
            tracing::warn!(%err, "the copy's permissions stay as they are");
        }
        tracing::info!(copy, "the database is of an older version; it was copied first");
        Ok(())
    }
}

fn newer(found: i64) -> StoreError {
    StoreError::Newer(format!(
        "the database has schema version {found}, made by a newer Patchwright; this one knows {VERSION}"
    ))
}
