//! What every part of the store is written with: the two dialects, a write transaction, rows.

use std::time::Duration;

use either::Either;
use sha2::{Digest, Sha256};
use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};

use super::connections::{self, Pool, Tx};
use super::notifications::CHANNEL;
use super::{Inner, Store, StoreError, StoreResult};
use patchwright_base::clock::Clock;
use patchwright_types::campaign::Millis;

/// How long we wait for a lock or a connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Where the two databases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    /// SQLite, with the time that a simulation says ([`Store::set_clock`]).
    Simulated,
    Postgres,
}

impl Dialect {
    /// A file of SQLite, which has a single writer.
    pub(super) fn is_file(self) -> bool {
        match self {
            Dialect::Sqlite | Dialect::Simulated => true,
            Dialect::Postgres => false,
        }
    }

    /// The time in milliseconds by the database's clock, because workers on several machines compare leases by it; not
    /// the transaction's beginning. A file is of this machine, whose clock need not be asked for in SQL.
    pub(super) async fn read_clock(self, db: &mut AnyConnection) -> StoreResult<Millis> {
        if self == Dialect::Sqlite {
            return Ok(Clock::default().now().timestamp_millis());
        }
        let now = sqlx::query(AssertSqlSafe(format!("SELECT {} AS now", self.time())));
        get(&now.fetch_one(db).await?, "now")
    }

    /// The database's clock as an expression within a statement.
    pub(super) fn time(self) -> &'static str {
        match self {
            Dialect::Sqlite => "CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)",
            Dialect::Simulated => "(SELECT now FROM simulated_clock)",
            Dialect::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        }
    }

    /// Put after a SELECT of one table: other writers of these rows wait. SQLite has one writer anyway.
    pub(super) fn for_update(self) -> &'static str {
        match self {
            Dialect::Sqlite | Dialect::Simulated => "",
            Dialect::Postgres => " FOR UPDATE",
        }
    }

    /// The types whose names differ, in the text of a migration.
    pub(super) fn types(self, text: &str) -> String {
        let (id, bytes) = match self {
            Dialect::Sqlite | Dialect::Simulated => ("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB"),
            Dialect::Postgres => ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BYTEA"),
        };
        text.replace("{id}", id).replace("{bytes}", bytes)
    }
}

/// Locks of the whole database, for what locked rows cannot protect. PostgreSQL has advisory locks; SQLite
/// has a single writer anyway.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExclusiveLock {
    Migrate = 0x5057_0001,
    /// Event numbers become visible in order.
    Events = 0x5057_0003,
}

/// Locks of one thing among many, which has no row, or one that others write all the time. Held until the
/// transaction ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum SharedLock {
    /// What runs in a campaign, while it is counted.
    Campaign,
    /// Who holds a lane.
    Lane,
}

impl SharedLock {
    /// PostgreSQL names advisory locks by numbers. Two names with the same one only wait for each other.
    fn number(self, name: &str) -> i64 {
        let hash = Sha256::digest(format!("{self:?}:{name}"));
        let first = hash.first_chunk::<8>().copied().unwrap_or_default();
        i64::from_be_bytes(first)
    }
}

/// A write transaction. Events are written last, at [`Write::commit`]; dropped without it, nothing
/// was written.
pub(super) struct Write<'a> {
    tx: Tx,
    /// The store's time when the transaction began.
    pub(super) now: Millis,
    pub(super) dialect: Dialect,
    events: Vec<PendingEvent>,
    /// See [`Write::notify`].
    pub(super) notifies: bool,
    store: &'a Inner,
}

struct PendingEvent {
    campaign: String,
    target: Option<i64>,
    kind: String,
    text: Option<String>,
}

impl Store {
    /// Begins to write.
    pub(super) async fn write(&self) -> StoreResult<Write<'_>> {
        Ok(self.write_after("BEGIN", "").await?.0)
    }

    /// Begins to write: on a server with these statements, and in the same message with a question for the time and
    /// these further columns, whose row is returned.
    pub(super) async fn write_after(
        &self,
        begin: &'static str,
        columns: &'static str,
    ) -> StoreResult<(Write<'_>, Option<AnyRow>)> {
        let dialect = self.inner.dialect;
        let (tx, now, row) = match &self.inner.pool {
            Pool::File(file) => {
                // A plain BEGIN takes the write lock at the first write and can fail there, after reads that the write
                // depends on.
                file.opened.is_there()?;
                let tx = file.writer.begin_with("BEGIN IMMEDIATE").await;
                let mut tx = tx.map_err(|err| self.no_writer(err))?;
                let now = dialect.read_clock(&mut tx).await?;
                (Either::Left(tx), now, None)
            }
            Pool::Server(server) => {
                let mut connection = server.acquire().await?;
                let now = dialect.time();
                let row =
                    connection.begin(format!("{begin}; SELECT {now} AS now{columns}")).await?;
                (Either::Right(connection), get(&row, "now")?, Some(row))
            }
        };
        let (events, store) = (Vec::new(), &*self.inner);
        let write = Write { tx, now, dialect, events, notifies: false, store };
        Ok((write, row))
    }
}

impl Write<'_> {
    pub(super) fn db(&mut self) -> &mut AnyConnection {
        &mut self.tx
    }

    /// Nobody else does this until the transaction ends. Takes the time again, which may have passed.
    pub(super) async fn alone(&mut self, what: ExclusiveLock) -> StoreResult<()> {
        if self.dialect == Dialect::Postgres {
            let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(what as i64);
            lock.execute(self.db()).await?;
            self.look_again().await?;
        }
        Ok(())
    }

    /// Waits for the lock. SQLite has a single writer anyway.
    pub(super) async fn lock(&mut self, lock: SharedLock, name: &str) -> StoreResult<()> {
        if self.dialect == Dialect::Postgres {
            let query = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(lock.number(name));
            query.execute(self.db()).await?;
        }
        Ok(())
    }

    /// Takes the lock when nobody has it.
    pub(super) async fn try_lock(&mut self, lock: SharedLock, name: &str) -> StoreResult<bool> {
        match self.dialect {
            Dialect::Sqlite | Dialect::Simulated => Ok(true),
            Dialect::Postgres => {
                let query = sqlx::query("SELECT pg_try_advisory_xact_lock($1) AS locked");
                get(&query.bind(lock.number(name)).fetch_one(self.db()).await?, "locked")
            }
        }
    }

    /// Takes the time again.
    pub(super) async fn look_again(&mut self) -> StoreResult<()> {
        self.now = self.dialect.read_clock(&mut self.tx).await?;
        Ok(())
    }

    /// A statement made of our own words, never of anybody's text.
    pub(super) fn lock_rows(&self, select: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(format!("{select}{}", self.dialect.for_update()))
    }

    /// Something happened; written when the transaction is.
    pub(super) fn say(
        &mut self,
        campaign: &str,
        target: Option<i64>,
        kind: &str,
        text: Option<&str>,
    ) {
        let said = PendingEvent {
            campaign: campaign.to_owned(),
            target,
            kind: kind.to_owned(),
            text: text.map(clean),
        };
        self.events.push(said);
    }

    /// Writes nothing, and has no lock any more when this returns.
    pub(super) async fn roll_back(self) -> StoreResult<()> {
        connections::roll_back(self.tx).await
    }

    pub(super) async fn commit(mut self) -> StoreResult<()> {
        let events = std::mem::take(&mut self.events);
        if !events.is_empty() {
            // Ids are given before commits, so without the lock a reader could see event 7 before
            // event 6 and skip 6 for good.
            self.alone(ExclusiveLock::Events).await?;
        }
        let now = self.now;
        for said in events {
            sqlx::query(
                "INSERT INTO events (at, campaign, target, repository, kind, text)
                 VALUES ($1, $2, $3, (SELECT repository FROM targets WHERE id = $4), $5, $6)",
            )
            .bind(now)
            .bind(said.campaign)
            .bind(said.target)
            .bind(said.target)
            .bind(said.kind)
            .bind(said.text)
            .execute(self.db())
            .await?;
        }
        if self.notifies && self.dialect == Dialect::Postgres {
            // Sent when the transaction is written, and only then.
            let told = sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL);
            told.execute(self.db()).await?;
        }
        connections::commit(self.tx).await?;
        if self.notifies {
            self.store.notifications.tell();
        }
        Ok(())
    }
}

/// A column of a row.
pub(super) fn get<'r, T>(row: &'r AnyRow, name: &str) -> StoreResult<T>
where
    T: sqlx::Decode<'r, Any> + sqlx::Type<Any>,
{
    Ok(row.try_get(name)?)
}

/// A column with a word of a closed list.
pub(super) fn word<T>(row: &AnyRow, name: &str, of: fn(&str) -> Option<T>) -> StoreResult<T> {
    let text: String = get(row, name)?;
    of(&text).ok_or_else(|| meaningless(name, &text))
}

/// A column holds a word that no version of ours writes.
pub(super) fn meaningless(name: &str, text: &str) -> StoreError {
    StoreError::Unusable(format!("the database says `{text}` in `{name}`, which means nothing"))
}

/// A text without the one character that PostgreSQL does not take.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Words of ours as a list for `IN (…)`.
pub(super) fn quoted(words: impl IntoIterator<Item = &'static str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("'{word}'")).collect();
    if quoted.is_empty() { "''".to_owned() } else { quoted.join(", ") }
}
