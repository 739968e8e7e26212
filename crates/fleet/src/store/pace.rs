//! When a token may write next, for all processes together.
//!
//! A row remembers the moments that were reserved in the last hour. The next one is the earliest that
//! keeps every limit; it is given only when it is near, so that nobody holds a place in a queue and
//! dies with it.

use sqlx::AssertSqlSafe;

use super::db::{Write, get};
use super::{Store, StoreResult};
use patchwright_types::campaign::{Millis, PaceLimits, WriteSlot};

const MINUTE: Millis = 60_000;
const HOUR: Millis = 3_600_000;
/// Nothing is reserved further ahead.
const NEAR: Millis = 5_000;
/// The longest wait that is returned: limits change and gates open meanwhile.
const ASK: Millis = MINUTE;
/// The longest that a token is closed at a time; afterwards the forge says it again.
const CLOSED: Millis = 6 * HOUR;

/// What is known of one token's writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    closed_until: Millis,
    /// Oldest first.
    recent: Vec<Millis>,
}

impl Pace {
    /// Forgets what is over, and what no clock that was right can have written.
    pub(crate) fn forget(&mut self, now: Millis) {
        self.recent.retain(|at| *at > now - HOUR && *at <= now + MINUTE);
        self.recent.sort_unstable();
        if self.closed_until > now + CLOSED + MINUTE {
            self.closed_until = 0;
        }
    }

    /// The earliest moment from `now` on that keeps the limits.
    fn next(&self, now: Millis, limits: PaceLimits) -> Millis {
        let back = |count: i64| {
            let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
            self.recent.len().checked_sub(count).and_then(|index| self.recent.get(index).copied())
        };
        [
            Some(now),
            Some(self.closed_until),
            back(1).map(|at| at.saturating_add(limits.gap)),
            back(limits.per_minute).map(|at| at.saturating_add(MINUTE)),
            back(limits.per_hour).map(|at| at.saturating_add(HOUR)),
        ]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(now)
    }
}

impl Pace {
    /// Takes the next moment when it is near, else says when to ask again.
    pub(crate) fn reserve(&mut self, now: Millis, limits: PaceLimits) -> WriteSlot {
        let wait = self.next(now, limits) - now;
        if wait > NEAR {
            return WriteSlot::AskIn((wait - NEAR / 2).clamp(1, ASK));
        }
        self.recent.push(now + wait);
        WriteSlot::In(wait)
    }

    /// Nobody writes for so long.
    pub(crate) fn close(&mut self, now: Millis, wait: Millis) {
        self.closed_until = self.closed_until.max(now + wait.clamp(0, CLOSED));
    }

    pub(crate) fn closed_for(&self, now: Millis) -> Millis {
        let wait = self.closed_until - now;
        if wait > CLOSED + MINUTE { 0 } else { wait.max(0) }
    }
}

async fn read(write: &mut Write<'_>, token: &str) -> StoreResult<Pace> {
    sqlx::query(
        "INSERT INTO pace (token, closed_until, recent) VALUES ($1, 0, '[]')
         ON CONFLICT (token) DO NOTHING",
    )
    .bind(token)
    .execute(write.db())
    .await?;
    let select = "SELECT closed_until, recent FROM pace WHERE token = $1";
    let row = sqlx::query(write.lock_rows(select)).bind(token).fetch_one(write.db()).await?;
    // The row's lock may have been waited for.
    write.look_again().await?;
    let recent: String = get(&row, "recent")?;
    let mut pace = Pace {
        closed_until: get(&row, "closed_until")?,
        // Times that cannot be read are forgotten: the gap begins anew, GitHub itself says when it is asked
        // too fast, and publishing must not stop for good because of them.
        recent: serde_json::from_str(&recent).unwrap_or_else(|error| {
            tracing::warn!(%error, "the times of the last writes cannot be read");
            Vec::new()
        }),
    };
    pace.forget(write.now);
    Ok(pace)
}

async fn keep(write: &mut Write<'_>, token: &str, pace: &Pace) -> StoreResult<()> {
    sqlx::query("UPDATE pace SET closed_until = $1, recent = $2 WHERE token = $3")
        .bind(pace.closed_until)
        .bind(serde_json::Value::from(pace.recent.clone()).to_string())
        .bind(token)
        .execute(write.db())
        .await?;
    Ok(())
}

impl Store {
    /// Reserves the next time at which this token may write; shared by all processes.
    pub async fn reserve_write(&self, token: &str, limits: PaceLimits) -> StoreResult<WriteSlot> {
        let mut write = self.write().await?;
        let mut pace = read(&mut write, token).await?;
        let slot = pace.reserve(write.now, limits);
        if matches!(slot, WriteSlot::In(_)) {
            keep(&mut write, token, &pace).await?;
            write.commit().await?;
        }
        Ok(slot)
    }

    /// GitHub told this token to wait: nobody writes for so long.
    pub async fn close_pace(&self, token: &str, wait: Millis) -> StoreResult<()> {
        let mut write = self.write().await?;
        let mut pace = read(&mut write, token).await?;
        pace.close(write.now, wait);
        keep(&mut write, token, &pace).await?;
        write.commit().await
    }

    /// How long this token is still told to wait; 0 when it is not.
    pub async fn pace_closed_for(&self, token: &str) -> StoreResult<Millis> {
        let select = format!(
            "SELECT closed_until, {} AS now FROM pace WHERE token = $1",
            self.inner.dialect.time()
        );
        let row = sqlx::query(AssertSqlSafe(select)).bind(token);
        let Some(row) = row.fetch_optional(&mut *self.connection().await?).await? else {
            return Ok(0);
        };
        let pace = Pace { closed_until: get(&row, "closed_until")?, recent: Vec::new() };
        Ok(pace.closed_for(get(&row, "now")?))
    }
}
