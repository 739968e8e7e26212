//! A database whose time a simulation says: an SQLite file that is thrown away, with the schema and the
//! statements of every other one.
//!
//! Only [`crate::batch::simulate`] opens one. Nothing in it survives the machine's end, so nothing waits for
//! the disk.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sqlx::AssertSqlSafe;
use sqlx::any::AnyPoolOptions;

use super::connections::{File, OpenedFile, Pool};
use super::db::{Dialect, get};
use super::notifications::Notifications;
use super::open::encode;
use super::{Inner, Store, StoreError, StoreResult, fault};
use patchwright_types::campaign::Millis;

/// Every connection to it.
const SET_UP: [&str; 4] = [
    "PRAGMA busy_timeout = 10000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = MEMORY",
];

/// How much is in a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreSize {
    /// By table, without those of the schema itself.
    pub rows: BTreeMap<String, i64>,
    pub bytes: i64,
}

impl Store {
    /// Makes a database in this file, which must not be there yet. It is `now` until
    /// [`Store::set_clock`] says something else.
    ///
    /// # Errors
    /// When the file is there, or cannot be made.
    pub async fn simulated(path: &Path, now: Millis) -> StoreResult<Store> {
        sqlx::any::install_default_drivers();
        let name = path.display().to_string();
        if path.exists() {
            return Err(StoreError::Unusable(format!("`{name}` is there already")));
        }
        let text = path.to_str().ok_or_else(|| {
            StoreError::Unusable("the path of an SQLite file has to be UTF-8".to_owned())
        })?;
        let options = AnyPoolOptions::new().max_connections(1).after_connect(|connection, _| {
            Box::pin(async move {
                for pragma in SET_UP {
                    sqlx::query(pragma).execute(&mut *connection).await?;
                }
                Ok(())
            })
        });
        let address = format!("sqlite://{}?mode=rwc", encode(text));
        let writer = options.clone().connect(&address).await?;
        let opened = OpenedFile::at(path).map_err(|err| fault::cannot_open(path, &err))?;
        let file = File { readers: options.connect(&address).await?, writer, opened };
        let store = |dialect| {
            let (pool, name, notifications) =
                (Pool::File(file.clone()), name.clone(), Notifications::new(None));
            let without_room = Mutex::default();
            Store { inner: Arc::new(Inner { pool, dialect, name, notifications, without_room }) }
        };
        // The schema asks for the time, so it comes before the clock.
        store(Dialect::Sqlite).migrate(0, None).await?;
        sqlx::query("CREATE TABLE simulated_clock (now BIGINT NOT NULL)")
            .execute(&file.writer)
            .await?;
        let clock = sqlx::query("INSERT INTO simulated_clock (now) VALUES ($1)").bind(now);
        clock.execute(&file.writer).await?;
        Ok(store(Dialect::Simulated))
    }

    /// It is `now`. Of a database that is not simulated nothing is changed, and that is an error.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn set_clock(&self, now: Millis) -> StoreResult<()> {
        let update = sqlx::query("UPDATE simulated_clock SET now = $1").bind(now);
        update.execute(&mut *self.writer().await?).await?;
        Ok(())
    }

    /// How much a simulated database holds.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn size(&self) -> StoreResult<StoreSize> {
        let mut connection = self.connection().await?;
        let tables = sqlx::query(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
                AND name NOT IN ('simulated_clock', 'patchwright_schema') ORDER BY name",
        );
        let mut size = StoreSize::default();
        for table in &tables.fetch_all(&mut *connection).await? {
            let name: String = get(table, "name")?;
            let count = AssertSqlSafe(format!("SELECT COUNT(*) AS count FROM {name}"));
            let count = get(&sqlx::query(count).fetch_one(&mut *connection).await?, "count")?;
            size.rows.insert(name, count);
        }
        for (pragma, column) in
            [("PRAGMA page_count", "page_count"), ("PRAGMA page_size", "page_size")]
        {
            let value: i64 = get(&sqlx::query(pragma).fetch_one(&mut *connection).await?, column)?;
            size.bytes = if size.bytes == 0 { value } else { size.bytes * value };
        }
        Ok(size)
    }
}
