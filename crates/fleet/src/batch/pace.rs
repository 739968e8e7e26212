//! How often this token may write, shared by every process that uses the store.
//!
//! A write waits for its place in the store's row of writes, asks whether its job is still ours, and
//! goes out. A limit that GitHub tells one process about closes the token for all of them, reads too; a limit on
//! an App at one account closes only that account ([`LimitedAccount`]).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::campaign::Campaign;
use super::fleet::Fleet;
use super::lease::HeldJob;
use crate::store::{Store, StoreError, StoreResult};
use patchwright_forge::ForgeError;
use patchwright_forge::github::{Gate, LimitedAccount};
use patchwright_types::campaign::{JobKind, Millis, PaceLimits, WriteSlot, millis_of};

/// Writes of the publisher that would have to wait longer than so many others take are put back.
pub(super) const PUBLISHER_PATIENCE: i64 = 120;
/// Everything else waits up to a full hour: its work was paid for, or a person is waiting for it.
pub(super) const PATIENCE: i64 = 4_000;
/// Less than this is no delay.
const LATE: Duration = Duration::from_millis(250);
/// Nobody waits longer without asking again.
const ASK: Duration = Duration::from_mins(1);
/// How often a place is given back because it was missed.
const MISSES: u32 = 5;

/// The limits of this process: GitHub's, the campaign's own when they are lower. With waits scaled down
/// for tests the hour is shorter, so that as much more fits into a real one.
pub fn limits(fleet: &Fleet, campaign: Option<&Campaign>) -> PaceLimits {
    let asked = campaign.and_then(|campaign| campaign.limits.creations_per_hour);
    scaled(PaceLimits::GITHUB.lowered(asked.map(i64::from)), fleet.env.time_scale())
}

/// A pause as long as it really is: tests have no minutes to lose.
pub fn scaled_wait(fleet: &Fleet, wait: Millis) -> Millis {
    let scaled = millis(wait).mul_f64(fleet.env.time_scale());
    millis_of(scaled).max(1)
}

fn scaled(limits: PaceLimits, scale: f64) -> PaceLimits {
    if scale >= 1.0 {
        return limits;
    }
    // Far inside of what both types hold exactly.
    let times = |value: i64, factor: f64| {
        let factor = factor.clamp(0.0, 1_000_000.0);
        Duration::from_millis(value.unsigned_abs()).mul_f64(factor).as_millis()
    };
    let millis = |value: u128| i64::try_from(value).unwrap_or(i64::MAX);
    let faster = 1.0 / scale.max(0.000_001);
    PaceLimits {
        gap: millis(times(limits.gap, scale)),
        per_minute: millis(times(limits.per_minute, faster)),
        per_hour: millis(times(limits.per_hour, faster)),
    }
}

/// The rows of the store that say for how long nothing is asked of an account: the token's own, and the account's
/// where GitHub counts it by itself.
fn closing_keys(token: &str, account: &LimitedAccount) -> Vec<String> {
    let of_account = account.owner().map(|owner| format!("{token}/{owner}"));
    std::iter::once(token.to_owned()).chain(of_account).collect()
}

/// How many milliseconds GitHub still wants everybody to wait who asks about the account; 0 when nobody has to.
///
/// # Errors
/// When the store cannot be used.
pub async fn closed_for(
    store: &Store,
    token: &str,
    account: &LimitedAccount,
) -> StoreResult<Millis> {
    let mut most = 0;
    for key in closing_keys(token, account) {
        most = most.max(store.pace_closed_for(&key).await?);
    }
    Ok(most)
}

/// The gate of a forge: a write waits for its slot and, for a job, is refused once the lease is lost.
pub fn gate(store: &Store, token: &str, limits: PaceLimits, held: Option<Arc<HeldJob>>) -> Gate {
    let places = match &held {
        Some(held) if held.job.kind == JobKind::Publish => PUBLISHER_PATIENCE,
        _ => PATIENCE,
    };
    let shared = Arc::new(PaceState {
        store: store.clone(),
        token: token.to_owned(),
        limits,
        held,
        patience: millis(limits.gap.max(1).saturating_mul(places)),
        looked: Mutex::default(),
    });
    let (ask, check, read, tell) =
        (Arc::clone(&shared), Arc::clone(&shared), Arc::clone(&shared), shared);
    let ask = move |account| -> futures_util::future::BoxFuture<'static, _> {
        let shared = Arc::clone(&ask);
        Box::pin(async move { shared.ask(&account).await })
    };
    let tell = move |account, wait| -> futures_util::future::BoxFuture<'static, ()> {
        let shared = Arc::clone(&tell);
        Box::pin(async move { shared.tell(&account, wait).await })
    };
    Gate::new(ask, tell)
        .with_check(move || {
            let shared = Arc::clone(&check);
            Box::pin(async move { shared.check().await })
        })
        .with_reads(move |account| {
            let shared = Arc::clone(&read);
            Box::pin(async move { shared.read(&account).await })
        })
}

struct PaceState {
    store: Store,
    token: String,
    limits: PaceLimits,
    held: Option<Arc<HeldJob>>,
    patience: Duration,
    /// When the store was last seen to let reads of an account through.
    looked: Mutex<HashMap<LimitedAccount, Instant>>,
}

impl PaceState {
    /// Waits for a place in the row and takes it.
    async fn ask(&self, account: &LimitedAccount) -> Result<(), ForgeError> {
        let begin = Instant::now();
        let mut misses = 0;
        loop {
            // Before a slot is taken: a job that lost its lease, or whose account is closed, must not use up the
            // token's pace.
            self.check().await?;
            if account.owner().is_some() {
                let closed = self.closed_for(account).await?;
                if closed > 0 {
                    self.wait(begin, closed, account).await?;
                    continue;
                }
            }
            let slot = self.store.reserve_write(&self.token, self.limits).await;
            match slot.map_err(unusable)? {
                WriteSlot::In(wait) => {
                    let due = Instant::now() + millis(wait);
                    self.sleep(millis(wait)).await?;
                    // Another process may have hit a rate limit since this slot was given.
                    let closed = self.closed_for(account).await? > 0;
                    self.check().await?;
                    // A process that was suspended would write together with the owner of the next
                    // slot.
                    let late = due.elapsed() > (millis(self.limits.gap) / 2).max(LATE);
                    misses += u32::from(late);
                    if !closed && (!late || misses > MISSES) {
                        if let Some(held) = &self.held {
                            held.writes_now();
                        }
                        return Ok(());
                    }
                }
                WriteSlot::AskIn(wait) => self.wait(begin, wait, account).await?,
            }
        }
    }

    /// A read goes out at once unless everybody has to wait. The store is asked as often as anybody may
    /// write at most.
    async fn read(&self, account: &LimitedAccount) -> Result<(), ForgeError> {
        let begin = Instant::now();
        // Reads are many, so the answer is reused for as long as one write gap.
        let fresh = millis(self.limits.gap);
        let looked = self.looked.lock().get(account).copied();
        if looked.is_some_and(|looked| looked.elapsed() < fresh) {
            return Ok(());
        }
        loop {
            let wait = self.closed_for(account).await?;
            if wait <= 0 {
                self.looked.lock().insert(account.clone(), Instant::now());
                return Ok(());
            }
            self.wait(begin, wait, account).await?;
        }
    }

    async fn closed_for(&self, account: &LimitedAccount) -> Result<Millis, ForgeError> {
        closed_for(&self.store, &self.token, account).await.map_err(unusable)
    }

    /// The lease is still ours. Fails closed: if it cannot be checked, the answer is no.
    async fn check(&self) -> Result<(), ForgeError> {
        let Some(held) = &self.held else { return Ok(()) };
        if held.lost().is_cancelled() {
            return Err(fenced("the lease was lost"));
        }
        match held.check().await {
            Ok(left) if left > 0 => Ok(()),
            Ok(_) => Err(fenced("the lease has run out")),
            // Without an answer of the store nobody knows who holds the job.
            Err(failure) => Err(fenced(&failure.message)),
        }
    }

    /// Waits for so many milliseconds, a minute at most: limits may end earlier. Not at all when that is beyond all
    /// patience.
    async fn wait(
        &self,
        begin: Instant,
        wait: Millis,
        account: &LimitedAccount,
    ) -> Result<(), ForgeError> {
        let wait = millis(wait.max(1));
        if begin.elapsed() + wait > self.patience {
            if let Some(held) = &self.held {
                held.limited_at(account);
            }
            let minutes = wait.as_secs().div_ceil(60);
            return Err(ForgeError::RateLimited { until: format!("{minutes} minutes from now") });
        }
        self.sleep(wait.min(ASK)).await
    }

    async fn sleep(&self, wait: Duration) -> Result<(), ForgeError> {
        let Some(held) = &self.held else {
            tokio::time::sleep(wait).await;
            return Ok(());
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = held.lost().cancelled_owned() => Err(fenced("the lease was lost")),
        }
    }

    /// `wait` is as long as this process waits itself.
    async fn tell(&self, account: &LimitedAccount, wait: Duration) {
        // The limit may hold for reads too, so the cached permission is dropped.
        self.looked.lock().remove(account);
        if let Some(held) = &self.held {
            held.limited_at(account);
        }
        let wait = millis_of(wait);
        let keys = closing_keys(&self.token, account);
        let Some(key) = keys.last() else { return };
        if let Err(error) = self.store.close_pace(key, wait).await {
            tracing::warn!(%error, "the other processes could not be told about a rate limit");
        }
    }
}

fn millis(count: Millis) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or_default())
}

fn fenced(why: &str) -> ForgeError {
    ForgeError::Fenced { message: format!("not written: {why}") }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn unusable(error: StoreError) -> ForgeError {
    ForgeError::Machine { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use patchwright_types::campaign::PaceLimits;

    use crate::batch::pace::scaled;

    const LIMITS: PaceLimits = PaceLimits::GITHUB;

    #[test]
    fn a_campaign_lowers_the_limits_and_never_raises_them() {
        for (asked, per_hour) in [(None, 480), (Some(100), 100), (Some(5_000), 480), (Some(0), 1)] {
            assert_eq!(LIMITS.lowered(asked).per_hour, per_hour, "{asked:?}");
        }
    }

    #[test]
    fn writes_are_made_in_bursts_that_fill_an_hour() {
        for (writes, seconds) in
            [(0, 0), (1, 1), (10, 11), (480, 528), (481, 3_601), (2_000, 14_488)]
        {
            assert_eq!(LIMITS.time_for(writes) / 1_000, seconds, "{writes}");
        }
    }

    #[test]
    fn a_scaled_hour_is_shorter() {
        assert_eq!(scaled(LIMITS, 1.0), LIMITS);
        let fast = scaled(LIMITS, 0.01);
        assert_eq!((fast.gap, fast.per_minute, fast.per_hour), (11, 7_500, 48_000));
        let fastest = scaled(LIMITS, 0.0);
        assert!(fastest.gap == 0 && fastest.per_hour > 1_000_000);
    }
}
