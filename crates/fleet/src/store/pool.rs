//! The connections to PostgreSQL. A server takes a hundred by default, for all processes together, and
//! each costs it a process. A hundred workers fit because none of them needs a connection all the time:
//!
//! - A process makes one connection at a time, gives up what it does not use, and holds none while its runs run.
//! - Whoever makes a connection looks how full the server is. While it is roomy, a connection stays as long as it is
//!   used; otherwise it is given up after a [`TURN`], and the next one is made after a random while, longer when the
//!   server is fuller, and several times as long as the last one was there: on a slow machine that is what counts. So
//!   those that came first keep theirs, and the others take turns on what is left: nobody learns that the server is
//!   full by being refused.
//! - Workers that are started together do not connect together ([`crate::batch::fleet::spread`]), and neither do those
//!   that have lost a server together, or wait together for one that starts: each comes back after a random while.
//!
//! A pool that asks a server again every few milliseconds while it cannot be reached, as sqlx's does, would bring all of
//! them back in the moment in which it can: so these connections are made here, one attempt to a turn.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use tokio::sync::{MutexGuard, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::db::PATIENCE;
use super::server_load::{Fullness, ServerLoad, TURN};
use super::{StoreError, StoreResult};

/// One that claims, one that renews, one for what jobs write.
const MOST: usize = 3;

/// A connection that nothing was asked on for so long is closed.
const IDLE: Duration = Duration::from_secs(5);

/// A connection that was of use so short a while ago is not asked whether it still answers.
const FRESH: Duration = Duration::from_secs(1);

/// Between two looks whether a connection of our own has become free.
const LOOK: Duration = Duration::from_millis(10);

/// What a process has of a server.
pub(super) struct Server {
    shared: Arc<Shared>,
    tidier: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tidier.abort();
    }
}

struct Shared {
    url: SecretString,
    load: ServerLoad,
    /// Made and not in use, the one that was used last at the end.
    spare: Mutex<Vec<IdleConnection>>,
    room: Arc<Semaphore>,
    /// Held while a connection is made.
    connect_lock: tokio::sync::Mutex<()>,
    /// Something was put into `spare`.
    released: Notify,
    is_closed: AtomicBool,
}

struct TimedConnection {
    connection: AnyConnection,
    at: Instant,
}

struct IdleConnection {
    made: TimedConnection,
    since: Instant,
}

/// A connection, and the right to have it. Dropping it gives both back.
pub(super) struct PooledConnection {
    made: Option<TimedConnection>,
    /// A transaction was begun and has not ended.
    in_transaction: bool,
    permit: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

impl Server {
    /// Connects to nothing yet.
    pub(super) fn new(url: &Url) -> Server {
        let shared = Arc::new(Shared {
            url: SecretString::from(url.to_string()),
            load: ServerLoad::default(),
            spare: Mutex::default(),
            room: Arc::new(Semaphore::new(MOST)),
            connect_lock: tokio::sync::Mutex::default(),
            released: Notify::new(),
            is_closed: AtomicBool::new(false),
        });
        let tidier = tokio::spawn(tidy(Arc::clone(&shared)));
        Server { shared, tidier }
    }

    pub(super) fn load(&self) -> &ServerLoad {
        &self.shared.load
    }

    /// A connection that answers, with whatever wait the server needs, at most [`PATIENCE`].
    ///
    /// # Errors
    /// What the server said, or why it cannot be reached.
    pub(super) async fn acquire(&self) -> StoreResult<PooledConnection> {
        let shared = &self.shared;
        let until = Instant::now() + PATIENCE;
        let permit = timeout(PATIENCE, Arc::clone(&shared.room).acquire_owned()).await;
        let permit = permit.map_err(|_| nothing_free())?.map_err(|_| closed())?;
        let made = match shared.spare().await {
            Some(made) => made,
            None => shared.make(until).await?,
        };
        let shared = Arc::clone(shared);
        Ok(PooledConnection {
            made: Some(made),
            in_transaction: false,
            permit: Some(permit),
            shared,
        })
    }

    /// While this is held, this process makes no other connection.
    pub(super) async fn connect_lock(&self) -> StoreResult<MutexGuard<'_, ()>> {
        timeout(PATIENCE, self.shared.connect_lock.lock()).await.map_err(|_| nothing_free())
    }

    /// Waits for what is in use, and closes every connection.
    pub(super) async fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        if let Ok(Ok(all)) = timeout(PATIENCE, self.shared.room.acquire_many(all)).await {
            all.forget();
        }
        self.shared.room.close();
        let spare = std::mem::take(&mut *self.shared.spare.lock());
        for IdleConnection { made, .. } in spare {
            made.close().await;
        }
    }
}

fn nothing_free() -> StoreError {
    StoreError::Unavailable("no connection was free in time".to_owned())
}

fn closed() -> StoreError {
    StoreError::Unavailable("it was closed".to_owned())
}

impl TimedConnection {
    /// Says goodbye, as far as the server listens.
    async fn close(self) {
        // It is gone either way.
        let _ = timeout(IDLE, self.connection.close()).await;
    }
}

impl Shared {
    /// One that was made earlier, and still answers.
    async fn spare(&self) -> Option<TimedConnection> {
        loop {
            // By itself: a guard in the condition below would be held over the wait.
            let spare = self.spare.lock().pop();
            let IdleConnection { mut made, since } = spare?;
            if since.elapsed() < FRESH {
                return Some(made);
            }
            if let Ok(Ok(())) = timeout(PATIENCE, made.connection.ping()).await {
                return Some(made);
            }
            self.load.lost();
        }
    }

    /// Waits for our turn, and makes one; or takes one that has become free meanwhile.
    async fn make(&self, until: Instant) -> StoreResult<TimedConnection> {
        let left = || until.saturating_duration_since(Instant::now());
        let _connect_lock =
            timeout(left(), self.connect_lock.lock()).await.map_err(|_| nothing_free())?;
        let turn = Instant::now() + self.load.wait();
        let mut failed = None;
        loop {
            if let Some(made) = self.spare().await {
                return Ok(made);
            }
            let turn = self.load.returns().map_or(turn, |returns| returns.max(turn));
            if Instant::now() < turn {
                if left().is_zero() {
                    return Err(failed.unwrap_or_else(nothing_free));
                }
                tokio::time::sleep(LOOK).await;
                continue;
            }
            match timeout(left(), self.connect()).await {
                Ok(Ok(made)) => return Ok(made),
                Ok(Err(err)) => {
                    let again = is_away(&err);
                    if again {
                        if is_full(&err) {
                            self.load.full();
                        }
                        self.load.away();
                    }
                    if !again || left().is_zero() {
                        return Err(err.into());
                    }
                    failed = Some(err.into());
                }
                Err(_) => {
                    self.load.away();
                    let silent = || "it did not answer in ten seconds".to_owned();
                    return Err(failed.unwrap_or_else(|| StoreError::Unavailable(silent())));
                }
            }
        }
    }

    async fn connect(&self) -> Result<TimedConnection, sqlx::Error> {
        let begun = Instant::now();
        let mut connection = AnyConnection::connect(self.url.expose_secret()).await?;
        self.load.look(&mut connection).await?;
        self.load.made(begun.elapsed());
        Ok(TimedConnection { connection, at: Instant::now() })
    }

    /// Keeps a connection for the next statement, or gives it up.
    async fn take_back(&self, mut made: TimedConnection, in_transaction: bool) {
        // A statement whose answer nobody waited for is still under way.
        let settled = async {
            if in_transaction {
                sqlx::raw_sql("ROLLBACK").execute(&mut made.connection).await.map(|_| ())
            } else {
                made.connection.ping().await
            }
        };
        match timeout(PATIENCE, settled).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return self.load.lost(),
            // It waits for a lock of somebody else, and the server ends it when it finds us gone.
            Err(_) => return,
        }
        if self.keeps(&made) {
            self.keep(made);
        } else {
            self.load.record_released(made.at.elapsed());
            made.close().await;
        }
    }

    fn keeps(&self, made: &TimedConnection) -> bool {
        let age = made.at.elapsed();
        !self.is_closed.load(Ordering::Relaxed) && age < self.load.fullness().keeps()
    }

    /// For the next statement.
    fn keep(&self, made: TimedConnection) {
        self.spare.lock().push(IdleConnection { made, since: Instant::now() });
        self.released.notify_one();
    }

    /// Those that have lain idle for too long.
    fn stale(&self) -> Vec<TimedConnection> {
        let most = if self.load.fullness() == Fullness::Roomy { IDLE } else { TURN };
        let mut spare = self.spare.lock();
        let stale = spare.extract_if(.., |spare| spare.since.elapsed() >= most);
        stale.map(|spare| spare.made).collect()
    }
}

/// Closes what lies idle at the end of its turn.
async fn tidy(shared: Arc<Shared>) {
    loop {
        shared.released.notified().await;
        while !shared.spare.lock().is_empty() {
            tokio::time::sleep(TURN).await;
            for made in shared.stale() {
                made.close().await;
            }
        }
    }
}

/// It is not there, starts, stops, or has no more connections: in Compose, workers often start before the database
/// accepts connections.
fn is_away(err: &sqlx::Error) -> bool {
    use std::io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
    };
    match err {
        sqlx::Error::Io(err) => matches!(
            err.kind(),
            BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | UnexpectedEof
        ),
        // The operator stops it: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
        sqlx::Error::Database(err) => {
            err.is_transient_in_connect_phase()
                || err.code().is_some_and(|code| code.starts_with("57P"))
        }
        _ => false,
    }
}

/// `too_many_connections`.
fn is_full(err: &sqlx::Error) -> bool {
    let code = err.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "53300")
}

impl PooledConnection {
    /// Begins a transaction with these statements, of which the last one asks for a row. Dropped before
    /// [`PooledConnection::end`], nothing was written.
    pub(super) async fn begin(&mut self, statements: String) -> Result<AnyRow, sqlx::Error> {
        self.in_transaction = true;
        let statements = sqlx::raw_sql(AssertSqlSafe(statements));
        statements.fetch_all(&mut **self).await?.pop().ok_or(sqlx::Error::RowNotFound)
    }

    /// Ends the transaction by this word. Everything was answered then, so that the connection can be acquired again at
    /// once.
    pub(super) async fn end(mut self, word: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(word).execute(&mut *self).await?;
        self.in_transaction = false;
        if let Some(made) = self.made.take_if(|made| self.shared.keeps(made)) {
            self.shared.keep(made);
        }
        Ok(())
    }
}

impl Deref for PooledConnection {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.made.as_ref().expect(PRESENT).connection
    }
}

impl DerefMut for PooledConnection {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.made.as_mut().expect(PRESENT).connection
    }
}

/// Only dropping takes it out.
const PRESENT: &str = "a connection is there until it is dropped";

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else { return };
        let (shared, permit) = (Arc::clone(&self.shared), self.permit.take());
        let in_transaction = self.in_transaction;
        // Without a runtime the process ends, and the connection with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                shared.take_back(made, in_transaction).await;
                drop(permit);
            });
        }
    }
}
