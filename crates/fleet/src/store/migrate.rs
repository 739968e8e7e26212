//! The schema: its version, and the way from an older one.
//!
//! All steps are one transaction: a process that dies in the middle, or a disk that is full, leaves the version that
//! there was. Processes of the version before may still be at work when the first of the next one opens the database,
//! so a step only adds what their statements can do without; they take no new job from then on ([`Store::claim`]).

use std::path::{Path, PathBuf};

use sqlx::{AnyConnection, AssertSqlSafe, Connection};

use super::db::{Dialect, ExclusiveLock, PATIENCE, Write, get};
use super::open::{DatabaseAddress, check_pages, file_url, named, size_of};
use super::{Store, StoreError, StoreResult, fault};
use patchwright_types::campaign::Millis;

/// Each brings the schema from its index to the next version. Never changed once released.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
    include_str!("migrations/0008.sql"),
    include_str!("migrations/0009.sql"),
];

/// The version that this program reads and writes.
#[expect(clippy::cast_possible_wrap, reason = "a handful")]
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// What opening a database has changed about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The version that it had.
    pub from: i64,
    /// The file as it was; `None` of a server, which copies nothing by itself.
    pub copy: Option<PathBuf>,
}

/// The version of a database without a change to it; `None` where there is none yet.
///
/// # Errors
/// When it cannot be read, or belongs to something else.
pub async fn look(url: &str) -> StoreResult<Option<i64>> {
    sqlx::any::install_default_drivers();
    let place = DatabaseAddress::parse(url)?;
    let (address, dialect, size) = match &place {
        DatabaseAddress::File(path) if !path.exists() => return Ok(None),
        DatabaseAddress::File(path) => {
            let size = size_of(path).map_err(|err| named(err, &place.name()))?;
            let path = fs_err::canonicalize(path)
                .map_err(|err| named(fault::cannot_open(path, &err), &place.name()))?;
            fault::check_access(&path).map_err(|err| named(err, &place.name()))?;
            (format!("{}?mode=ro", file_url(&path)), Dialect::Sqlite, Some(size))
        }
        DatabaseAddress::Server(url) => (url.to_string(), Dialect::Postgres, None),
    };
    let read = async {
        let mut connection = AnyConnection::connect(&address).await?;
        let version = version(&mut connection, dialect).await?;
        if let Some(size) = size {
            check_pages(&mut connection, size).await?;
        }
        connection.close().await?;
        Ok((version > 0).then_some(version))
    };
    let read = tokio::time::timeout(PATIENCE, read).await;
    let read =
        read.unwrap_or_else(|_| Err(StoreError::Unavailable("it does not answer".to_owned())));
    read.map_err(|err| named(err, &place.name()))
}

impl Store {
    /// Brings the schema up to date, or refuses. An SQLite file that has one is copied beside itself
    /// first. `found` is the version that it has.
    pub(super) async fn migrate(
        &self,
        found: i64,
        file: Option<&Path>,
    ) -> StoreResult<Option<Migration>> {
        if found == VERSION {
            return Ok(None);
        }
        if found > VERSION {
            return Err(newer(found));
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
        if found == VERSION {
            return Ok(None);
        }
        if found > VERSION {
            return Err(newer(found));
        }
        // Nobody else changes the file meanwhile, or makes a copy of it.
        let copy = match file.filter(|_| found > 0) {
            Some(file) => Some(self.back_up(file, found, write.now).await?),
            None => None,
        };
        if let Err(err) = bring_up(write, found).await {
            // The database is as it was, and the next try makes another: they would fill the disk that may be what failed
            // this one.
            if let Some(copy) = &copy {
                let _ = fs_err::remove_file(copy);
            }
            return Err(err);
        }
        Ok((found > 0).then_some(Migration { from: found, copy }))
    }

    /// The database is still of a version that this program knows: a newer program may have brought it up to date
    /// while this one runs, which takes no more work then.
    ///
    /// # Errors
    /// [`StoreError::Newer`] when it is not.
    pub async fn check_version(&self) -> StoreResult<()> {
        check_version(&mut *self.connection().await?).await
    }

    /// A copy of what is committed, made by a connection that reads: one within a transaction cannot.
    async fn back_up(&self, file: &Path, version: i64, now: Millis) -> StoreResult<PathBuf> {
        let copy = format!("{}.v{version}-{now}.backup", file.display());
        let mut options = fs_err::OpenOptions::new();
        // SQLite copies into an empty file. By making it here it is nobody else's, and for nobody else to read.
        options.write(true).create_new(true);
        fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(&copy)
            .map_err(|err| StoreError::Unusable(format!("cannot copy it: {err}")))?;
        let copied = sqlx::query("VACUUM INTO $1").bind(copy.as_str());
        if let Err(err) = copied.execute(&mut *self.connection().await?).await {
            // Half a copy is none, and takes room where there is none.
            let _ = fs_err::remove_file(&copy);
            return Err(err.into());
        }
        Ok(PathBuf::from(copy))
    }
}

/// The steps from one version to ours.
async fn bring_up(mut write: Write<'_>, found: i64) -> StoreResult<()> {
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

/// The version of the schema; 0 when there is nothing yet.
pub(super) async fn version(db: &mut AnyConnection, dialect: Dialect) -> StoreResult<i64> {
    let tables = match dialect {
        Dialect::Sqlite | Dialect::Simulated => {
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        }
        Dialect::Postgres => {
            "SELECT CAST(tablename AS TEXT) AS name FROM pg_tables
                 WHERE schemaname = current_schema()"
        }
    };
    let rows = sqlx::query(tables).fetch_all(&mut *db).await?;
    let names: Vec<String> = rows.iter().map(|row| get(row, "name")).collect::<StoreResult<_>>()?;
    if names.iter().any(|name| name == "patchwright_schema") {
        let row =
            sqlx::query("SELECT COALESCE(MAX(version), 0) AS version FROM patchwright_schema");
        return get(&row.fetch_one(db).await?, "version");
    }
    let taken = names
        .iter()
        .find(|name| matches!(name.as_str(), "campaigns" | "targets" | "jobs" | "events"));
    let other = match dialect {
        Dialect::Sqlite | Dialect::Simulated => names.first(),
        Dialect::Postgres => taken,
    };
    other.map_or(Ok(0), |name| {
            Err(StoreError::Unusable(format!(
                "this database belongs to something else: it has a table `{name}` and no version of ours"
            )))
        })
}

pub(super) async fn check_version(db: &mut AnyConnection) -> StoreResult<()> {
    let row = sqlx::query("SELECT MAX(version) AS version FROM patchwright_schema");
    known(get(&row.fetch_one(db).await?, "version")?)
}

/// The newest version that a database names is one that this program knows.
pub(super) fn known(found: Option<i64>) -> StoreResult<()> {
    match found {
        Some(found) if found > VERSION => Err(newer(found)),
        _ => Ok(()),
    }
}

fn newer(found: i64) -> StoreError {
    StoreError::Newer(format!(
        "the database has schema version {found}, made by a newer Patchwright; this one knows {VERSION}"
    ))
}
