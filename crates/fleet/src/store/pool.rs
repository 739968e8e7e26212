//! The connections to PostgreSQL. A server takes a hundred by default, for all processes together, and
//! each costs it a process. A hundred workers fit because none of them needs a connection all the time:
//!
//! - A process makes one connection at a time, gives up what it does not use, and holds none while its runs run.
//! - Whoever makes a connection looks how full the server is. While it is roomy, a connection stays as long as it is
//!   used; otherwise it is given up after a [`TURN`], and the next one is made after a random while, longer when the
//!   server is fuller, and several times as long as the last one was there: on a slow machine that is what counts. So those that came first keep theirs, and the others take turns on what is left: nobody learns
//!   that the server is full by being refused.
//! - Workers that are started together do not connect together ([`crate::batch::fleet::spread`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use sqlx::any::AnyPoolOptions;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Transaction};
use tokio::sync::{MutexGuard, Notify};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::db::{PATIENCE, get};
use super::{Store, StoreError, StoreResult};

/// One that claims, one that renews, one for what jobs write.
const MOST: u32 = 3;

/// A connection that nothing was asked on for so long is closed.
const IDLE: Duration = Duration::from_secs(5);

/// How long a connection to a server that is not roomy is kept.
const TURN: Duration = Duration::from_millis(250);

/// The next wait is so many times as long as the last connection took to be made and was there, within limits: a lease
/// has to be renewed in time.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(2_500);

/// Between two looks whether a connection of our own has become free.
const LOOK: Duration = Duration::from_millis(10);

/// How many connections the server has, of how many that anybody may use. Counted by `datid`, which everybody may see.
pub(super) const CROWD: &str = "SELECT CAST(COUNT(*) AS BIGINT) AS used,
        CAST(current_setting('max_connections') AS BIGINT)
            - CAST(current_setting('superuser_reserved_connections') AS BIGINT) AS most
     FROM pg_stat_activity WHERE datid IS NOT NULL";

/// What is known of a server that is shared.
#[derive(Debug, Default)]
struct Crowd {
    /// How full it was when it was looked at last, in percent.
    percent: AtomicU8,
    /// Milliseconds that the last connection took to be made, and those that one was there that was given up.
    made_in: AtomicU64,
    held_for: AtomicU64,
}

/// What follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fullness {
    Roomy,
    Crowded,
    Full,
}

impl Crowd {
    /// # Errors
    /// When the server does not say it.
    async fn look(&self, connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
        let row = sqlx::query(CROWD).fetch_one(connection).await?;
        let number = |name| get::<i64>(&row, name).unwrap_or_default();
        self.percent.store(percent(number("used"), number("most")), Ordering::Relaxed);
        Ok(())
    }

    fn fullness(&self) -> Fullness {
        match self.percent.load(Ordering::Relaxed) {
            ..40 => Fullness::Roomy,
            40..75 => Fullness::Crowded,
            75.. => Fullness::Full,
        }
    }

    /// The wait before the next connection is made.
    fn wait(&self) -> Duration {
        let least = match self.fullness() {
            Fullness::Roomy => return Duration::ZERO,
            Fullness::Crowded => 2 * TURN,
            Fullness::Full => 4 * TURN,
        };
        let number = |of: &AtomicU64| Duration::from_millis(of.load(Ordering::Relaxed));
        let cost = number(&self.made_in).saturating_add(number(&self.held_for));
        let rest = cost.saturating_mul(REST).clamp(least, LONGEST_REST);
        rest.mul_f64(rand::rng().random_range(0.5..=1.5))
    }
}

/// `used` of `most`, at most a hundred; a server that does not say how many it takes is full.
pub(super) fn percent(used: i64, most: i64) -> u8 {
    let percent = used.saturating_mul(100).checked_div(most).unwrap_or(100).clamp(0, 100);
    u8::try_from(percent).unwrap_or(100)
}

impl Fullness {
    /// How long a connection may have existed that is kept for the next statement.
    fn keeps(self) -> Duration {
        match self {
            Fullness::Roomy => Duration::MAX,
            Fullness::Crowded => TURN,
            Fullness::Full => Duration::ZERO,
        }
    }
}

/// The right to take a connection out of the pool, and since when one is made when none was there.
struct Door<'a> {
    makes: Option<Instant>,
    _held: MutexGuard<'a, ()>,
}

/// How a process takes turns with others on a server.
pub(super) struct Turns {
    crowd: Arc<Crowd>,
    /// Held while a connection is made.
    door: tokio::sync::Mutex<()>,
    tidier: JoinHandle<()>,
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.tidier.abort();
    }
}

/// The pool for a server, whose first connection looks how full it is and may be used for anything.
///
/// Connections are made when they are needed; should a server have no more of them in spite of everything, it is asked
/// again, at growing distances, until [`PATIENCE`] is over.
pub(super) async fn server(url: &Url, first: &mut AnyConnection) -> StoreResult<(AnyPool, Turns)> {
    let crowd = Arc::new(Crowd::default());
    crowd.look(first).await?;
    let (of_connect, of_release) = (Arc::clone(&crowd), Arc::clone(&crowd));
    let released = Arc::new(Notify::new());
    let tells = Arc::clone(&released);
    let options = AnyPoolOptions::new()
        .max_connections(MOST)
        .min_connections(0)
        .idle_timeout(IDLE)
        .acquire_timeout(PATIENCE)
        .after_connect(move |connection, _| {
            let crowd = Arc::clone(&of_connect);
            Box::pin(async move { crowd.look(connection).await })
        })
        .after_release(move |_, released| {
            let fullness = of_release.fullness();
            if fullness != Fullness::Roomy {
                tells.notify_one();
            }
            let keeps = released.age < fullness.keeps();
            if !keeps {
                of_release.held_for.store(millis(released.age), Ordering::Relaxed);
            }
            Box::pin(std::future::ready(Ok(keeps)))
        });
    let pool = options.connect_lazy(url.as_str())?;
    let tidier = tokio::spawn(tidy(pool.clone(), Arc::clone(&crowd), released));
    Ok((pool, Turns { crowd, door: tokio::sync::Mutex::default(), tidier }))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Closes connections that lie idle at the end of their turn.
async fn tidy(pool: AnyPool, crowd: Arc<Crowd>, released: Arc<Notify>) {
    loop {
        released.notified().await;
        tokio::time::sleep(TURN).await;
        while crowd.fullness() != Fullness::Roomy
            && let Some(idle) = pool.try_acquire()
        {
            // It is gone either way.
            let _ = idle.close().await;
        }
    }
}

impl Store {
    /// How full a server is now, in percent; a file always has room.
    pub(super) async fn fullness(&self) -> StoreResult<u8> {
        let Some(turns) = &self.inner.turns else { return Ok(0) };
        turns.crowd.look(&mut *self.connection().await?).await?;
        Ok(turns.crowd.percent.load(Ordering::Relaxed))
    }

    /// A connection for some statements, with whatever wait its server needs.
    pub(super) async fn connection(&self) -> StoreResult<PoolConnection<Any>> {
        let door = self.door().await?;
        let acquired = self.inner.pool.acquire().await?;
        self.through(door.as_ref());
        Ok(acquired)
    }

    /// Begins a transaction, with this statement where it is not a plain `BEGIN`.
    pub(super) async fn begin(
        &self,
        statement: Option<&'static str>,
    ) -> StoreResult<Transaction<'static, Any>> {
        let door = self.door().await?;
        let pool = &self.inner.pool;
        let begun = match statement {
            Some(statement) => pool.begin_with(statement).await?,
            None => pool.begin().await?,
        };
        self.through(door.as_ref());
        Ok(begun)
    }

    fn through(&self, door: Option<&Door<'_>>) {
        if let (Some(turns), Some(Door { makes: Some(begun), .. })) = (&self.inner.turns, door) {
            turns.crowd.made_in.store(millis(begun.elapsed()), Ordering::Relaxed);
        }
    }

    /// Waits until a connection may be taken out of the pool, which is to be done before what is returned is dropped.
    async fn door(&self) -> StoreResult<Option<Door<'_>>> {
        let Some(turns) = &self.inner.turns else { return Ok(None) };
        let nothing_free = |_| StoreError::Unavailable("no connection was free in time".to_owned());
        let door = timeout(PATIENCE, turns.door.lock()).await.map_err(nothing_free)?;
        let until = Instant::now() + turns.crowd.wait();
        while self.inner.pool.num_idle() == 0 && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
        let makes = (self.inner.pool.num_idle() == 0).then(Instant::now);
        Ok(Some(Door { makes, _held: door }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use crate::store::pool::{Crowd, Fullness, percent};

    fn at(used: i64, most: i64) -> Crowd {
        let crowd = Crowd::default();
        crowd.percent.store(percent(used, most), Ordering::Relaxed);
        crowd
    }

    #[test]
    fn the_fuller_a_server_is_the_shorter_are_turns_and_the_longer_are_waits() {
        let of = |used| at(used, 97).fullness();
        assert_eq!([of(0), of(38)], [Fullness::Roomy; 2]);
        assert_eq!([of(39), of(72)], [Fullness::Crowded; 2]);
        assert_eq!([of(73), of(120), at(5, 0).fullness()], [Fullness::Full; 3]);
        let all = [Fullness::Roomy, Fullness::Crowded, Fullness::Full];
        assert!(all.is_sorted_by_key(|fullness| std::cmp::Reverse(fullness.keeps())));
        assert_eq!(at(10, 97).wait(), Duration::ZERO);
        for _ in 0..100 {
            let (crowded, full) = (at(50, 97).wait(), at(90, 97).wait());
            assert!(crowded >= Duration::from_millis(250) && full >= Duration::from_millis(500));
            assert!(crowded < Duration::from_secs(1) && full < Duration::from_secs(2));
        }
    }

    #[test]
    fn who_was_slow_rests_longer_and_never_too_long() {
        let crowd = at(50, 97);
        crowd.made_in.store(400, Ordering::Relaxed);
        crowd.held_for.store(300, Ordering::Relaxed);
        assert!((0..100).all(|_| crowd.wait() >= Duration::from_millis(1_050)));
        crowd.held_for.store(u64::MAX, Ordering::Relaxed);
        assert!((0..100).all(|_| crowd.wait() < Duration::from_secs(4)));
    }
}
