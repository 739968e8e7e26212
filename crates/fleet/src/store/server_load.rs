//! How full a PostgreSQL is that many processes share, and what follows from that for one of them: how long it keeps a
//! connection, and how long it waits before it makes the next one. [`super::pool`] says why.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt;
use sqlx::AnyConnection;

use super::db::get;

/// How long a connection to a server that is not roomy is kept.
pub(super) const TURN: Duration = Duration::from_millis(250);

/// The next wait is so many times as long as the last connection took to be made and was there, within limits: a lease
/// has to be renewed in time.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(2_500);

/// Within this time the processes come back that have lost a server together.
const RETURN: Duration = Duration::from_secs(8);

/// Before a server is asked again that could not be reached; doubled each time, up to [`RETURN`].
const STARTING: Duration = Duration::from_millis(500);

/// From here on a server is not roomy, in percent.
const CROWDED: u8 = 40;
const FULL: u8 = 75;

/// How many connections the server has, of how many that anybody may use. Counted by `datid`, which everybody may see.
pub(super) const CONNECTIONS: &str = "SELECT CAST(COUNT(*) AS BIGINT) AS used,
        CAST(current_setting('max_connections') AS BIGINT)
            - CAST(current_setting('superuser_reserved_connections') AS BIGINT) AS most
     FROM pg_stat_activity WHERE datid IS NOT NULL";

/// What is known of a server that is shared.
#[derive(Debug, Default)]
pub(super) struct ServerLoad {
    /// How full it was when it was looked at last, in percent.
    percent: AtomicU8,
    /// Milliseconds that the last connection took to be made, and those that one was there that was given up.
    made_in: AtomicU64,
    held_for: AtomicU64,
    /// How often in a row it could not be reached.
    failed: AtomicU32,
    /// It went away: nothing is made before this.
    returns: Mutex<Option<Instant>>,
}

/// What follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fullness {
    Roomy,
    Crowded,
    Full,
}

impl ServerLoad {
    /// # Errors
    /// When the server does not say it.
    pub(super) async fn look(&self, connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
        let row = sqlx::query(CONNECTIONS).fetch_one(connection).await?;
        let number = |name| get::<i64>(&row, name).unwrap_or_default();
        self.percent.store(percent(number("used"), number("most")), Ordering::Relaxed);
        Ok(())
    }

    /// How full it was when it was looked at last.
    pub(super) fn percent(&self) -> u8 {
        self.percent.load(Ordering::Relaxed)
    }

    pub(super) fn fullness(&self) -> Fullness {
        match self.percent() {
            ..CROWDED => Fullness::Roomy,
            CROWDED..FULL => Fullness::Crowded,
            FULL.. => Fullness::Full,
        }
    }

    /// The wait before the next connection is made.
    pub(super) fn wait(&self) -> Duration {
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

    /// A connection took so long to be made: the server is there.
    pub(super) fn made(&self, took: Duration) {
        self.made_in.store(millis(took), Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        *self.returns.lock() = None;
    }

    /// A connection was there for so long, and was given up.
    pub(super) fn record_released(&self, held: Duration) {
        self.held_for.store(millis(held), Ordering::Relaxed);
    }

    /// A connection broke. Whoever else has one to this server has lost it at the same moment, and it has room for all
    /// that come back, but not for all at once.
    pub(super) fn lost(&self) {
        let mut returns = self.returns.lock();
        // One that was restarted takes all connections of a process with it.
        if returns.is_none() {
            let part = rand::rng().random_range(0.0..=1.0);
            *returns = Some(Instant::now() + self.returning().mul_f64(part));
        }
    }

    /// It has no more connections.
    pub(super) fn full(&self) {
        self.percent.store(100, Ordering::Relaxed);
    }

    /// It could not be reached, or has no more connections: when it can be again, those that wait for that come one
    /// after the other.
    pub(super) fn away(&self) {
        let failed = self.failed.fetch_add(1, Ordering::Relaxed).min(8);
        let reach = STARTING.saturating_mul(2 << failed).max(self.returning()).min(RETURN);
        let part = rand::rng().random_range(0.25..=1.0);
        *self.returns.lock() = Some(Instant::now() + reach.mul_f64(part));
    }

    /// Nothing is made before this.
    pub(super) fn returns(&self) -> Option<Instant> {
        *self.returns.lock()
    }

    /// Within what time those come back that were there: the fewer there were, the sooner.
    fn returning(&self) -> Duration {
        RETURN.mul_f64((f64::from(self.percent()) / f64::from(CROWDED)).min(1.0))
    }
}

/// `used` of `most`, at most a hundred; a server that does not say how many it takes is full.
pub(super) fn percent(used: i64, most: i64) -> u8 {
    let percent = used.saturating_mul(100).checked_div(most).unwrap_or(100).clamp(0, 100);
    u8::try_from(percent).unwrap_or(100)
}

impl Fullness {
    /// How long a connection may have existed that is kept for the next statement.
    pub(super) fn keeps(self) -> Duration {
        match self {
            Fullness::Roomy => Duration::MAX,
            Fullness::Crowded => TURN,
            Fullness::Full => Duration::ZERO,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use crate::store::server_load::{Fullness, ServerLoad, percent};

    fn at(used: i64, most: i64) -> ServerLoad {
        let load = ServerLoad::default();
        load.percent.store(percent(used, most), Ordering::Relaxed);
        load
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
        let load = at(50, 97);
        load.made_in.store(400, Ordering::Relaxed);
        load.held_for.store(300, Ordering::Relaxed);
        assert!((0..100).all(|_| load.wait() >= Duration::from_millis(1_050)));
        load.held_for.store(u64::MAX, Ordering::Relaxed);
        assert!((0..100).all(|_| load.wait() < Duration::from_secs(4)));
    }

    #[test]
    fn those_that_lost_a_server_come_back_within_a_time_that_suits_their_number() {
        let after = |load: &ServerLoad, now| load.returns().unwrap().saturating_duration_since(now);
        for (used, most) in [(0, 1), (5, 1_100), (40, 8_000), (97, 8_000)] {
            for _ in 0..100 {
                let (load, now) = (at(used, 97), Instant::now());
                load.lost();
                let first = load.returns();
                load.lost();
                assert_eq!(load.returns(), first, "three connections are one loss");
                assert!(after(&load, now) < Duration::from_millis(most + 100), "{used}");
            }
        }
        // One alone asks soon, and then less often.
        let (load, now) = (at(1, 97), Instant::now());
        load.away();
        assert!(after(&load, now) < Duration::from_millis(1_100));
        for _ in 0..40 {
            load.away();
        }
        assert!(after(&load, Instant::now()) > Duration::from_secs(1));
        assert!(after(&load, Instant::now()) <= Duration::from_secs(8));
        load.made(Duration::ZERO);
        assert_eq!(load.returns(), None);
        load.full();
        load.away();
        assert_eq!(load.fullness(), Fullness::Full, "it said so");
    }
}
