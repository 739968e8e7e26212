//! Word that a claim may find something: a job was queued, a campaign goes on, room became free. Between
//! workers of one process always; between processes by PostgreSQL's `NOTIFY`.
//!
//! Nothing depends on it: who hears nothing asks again after a while ([`crate::batch::worker`]). So a
//! connection that listens is only kept where the server has connections to spare, and given up where
//! notifications do not arrive, as behind a pooler that lends connections by transaction.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sqlx::Row;
use sqlx::postgres::PgListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connections::Pool;
use super::db::Write;
use super::server_load::{CONNECTIONS, percent};
use super::{Store, StoreError, StoreResult};

/// The channel; without a payload it is news, with one it is somebody's test of the way.
pub(super) const CHANNEL: &str = "patchwright_jobs";

/// How long a notification of our own may take.
const ARRIVES: Duration = Duration::from_secs(3);

/// How often a listener looks whether the server still has connections to spare.
const LOOK: Duration = Duration::from_secs(20);

/// How full a server may be, in percent, when somebody begins to listen, and how full before they stop. Most of the
/// connections are for work, whatever happens; that some hear of new work at once is enough.
const BEGIN: u8 = 33;
const STOP: u8 = 50;

/// Who is told, and where others are heard.
pub(super) struct Notifications {
    told: watch::Sender<u64>,
    /// PostgreSQL's address with its password.
    server: Option<SecretString>,
}

impl Notifications {
    pub(super) fn new(server: Option<SecretString>) -> Notifications {
        Notifications { told: watch::Sender::new(0), server }
    }

    pub(super) fn tell(&self) {
        self.told.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Why listening ended, or did not begin: a process then does not hear of others' work at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenEnd {
    /// SQLite has no notifications.
    File,
    /// The server's connections are needed for work.
    Crowded,
    /// They do not arrive.
    Pooler,
}

impl Store {
    /// Changes whenever a claim may find something new, as far as that is known.
    pub fn notifications(&self) -> watch::Receiver<u64> {
        self.inner.notifications.told.subscribe()
    }

    /// Passes on what other processes tell, until that cannot be had any more; then says why. `begun` is
    /// called once it is known that notifications arrive.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub async fn listen(&self, begun: impl FnOnce()) -> StoreResult<ListenEnd> {
        let Some(server) = &self.inner.notifications.server else { return Ok(ListenEnd::File) };
        if self.fullness().await? >= BEGIN {
            return Ok(ListenEnd::Crowded);
        }
        let mut listener = self.listener(server).await?;
        // A pooler takes LISTEN like any statement, and then lends the connection to somebody else.
        let test = format!("test {:016x}", rand::random::<u64>());
        let query = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(test.as_str());
        query.execute(&mut *self.connection().await?).await?;
        let arrives = async {
            while listener.try_recv().await?.ok_or_else(lost)?.payload() != test {}
            StoreResult::Ok(())
        };
        match timeout(ARRIVES, arrives).await {
            Ok(heard) => heard?,
            Err(_) => return Ok(ListenEnd::Pooler),
        }
        begun();
        // What was told before is not known.
        self.inner.notifications.tell();
        loop {
            let Ok(told) = timeout(LOOK, listener.try_recv()).await else {
                // Its own connection is there anyway.
                let row = sqlx::query(CONNECTIONS).fetch_one(&mut listener).await?;
                if percent(row.try_get("used")?, row.try_get("most")?) >= STOP {
                    return Ok(ListenEnd::Crowded);
                }
                continue;
            };
            match told? {
                Some(told) if !told.payload().is_empty() => {}
                Some(_) => self.inner.notifications.tell(),
                None => return Err(lost()),
            }
        }
    }

    /// A connection of its own that listens, made while this process makes no other one. Once it is lost it is not
    /// made again by itself: everybody who listens has lost it at the same moment.
    async fn listener(&self, server: &SecretString) -> StoreResult<PgListener> {
        let _connect_lock = match &self.inner.pool {
            Pool::Server(server) => Some(server.connect_lock().await?),
            Pool::File(_) => None,
        };
        let mut listener = PgListener::connect(server.expose_secret()).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("the connection was lost".to_owned())
}

impl Write<'_> {
    /// A claim may find something new once this is written.
    pub(super) fn notify(&mut self) {
        self.notifies = true;
    }

    /// Somebody waits for what this job held: its lane, or its campaign's room. Asked because a
    /// notification reaches everybody, and most ends of jobs are nobody's business.
    pub(super) async fn frees(&mut self, job: i64) -> StoreResult<()> {
        if self.dialect.is_file() {
            // There, the workers of other processes hear nothing anyway.
            self.notify();
            return Ok(());
        }
        let waiting = sqlx::query(
            "SELECT 1 AS one FROM jobs j WHERE j.id = $1 AND (
                EXISTS (SELECT 1 FROM jobs q WHERE q.lane = j.lane AND q.state = 'queued')
                OR (j.kind = 'target' AND EXISTS (SELECT 1 FROM campaigns c WHERE c.id = j.campaign
                        AND COALESCE(c.concurrency, c.per_organization, c.budget_usd) IS NOT NULL)
                    AND EXISTS (SELECT 1 FROM jobs q WHERE q.state = 'queued'
                        AND COALESCE(q.campaign, '') = j.campaign AND q.kind = 'target')))",
        );
        if waiting.bind(job).fetch_optional(self.db()).await?.is_some() {
            self.notify();
        }
        Ok(())
    }
}
