//! GitHub's limits on how often: one [`Limiter`] for all requests of a process, so that when one
//! caller is told to wait, everybody waits whose requests GitHub counts together with its own
//! ([`LimitedAccount`]); and their writes go one at a time with a gap between them. Nobody waits longer than the pace's patience: what is told to wait for longer is not asked at all.
//!
//! Called by [`super::layers`] and, for git, by [`super::git`]. It knows when to wait, not what is being asked.

use parking_lot::Mutex as Lock;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::ForgeError;
use patchwright_git::rate_limit::SECONDARY_WAIT;
pub(super) use patchwright_git::rate_limit::{Limit, limit};

/// How often one call waits for a rate limit before it gives up.
pub(super) const LIMIT_WAITS: u32 = 6;
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// Nobody waits longer than this, whatever an answer says.
const LONGEST_CLOSED: Duration = Duration::from_hours(24);

/// How patient and how fast we are.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two writes; GitHub asks for a second.
    pub write_gap: Duration,
    /// The longest single wait for a rate limit; beyond it the call fails with the time in the error.
    pub patience: Duration,
    /// The longest that one request may take.
    pub timeout: Duration,
    /// Multiplies every wait. 1.0 except in tests, which have no minutes to lose.
    pub scale: f64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            write_gap: Duration::from_secs(1),
            patience: Duration::from_mins(15),
            timeout: Duration::from_secs(30),
            scale: 1.0,
        }
    }
}

/// Whose requests GitHub counts together: those of an App at one account where it is installed, else all of a token.
/// Source: "Rate limits for GitHub Apps" in GitHub's documentation of its REST API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitedAccount(Option<String>);

impl LimitedAccount {
    /// An App, where this organisation or person has installed it.
    pub fn installed_at(owner: &str) -> LimitedAccount {
        LimitedAccount(Some(owner.to_lowercase()))
    }

    /// The organisation or person, in small letters; none for all of a token.
    pub fn owner(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// What all requests share.
#[derive(Debug)]
pub(super) struct Limiter {
    pace: Pace,
    accounts: Lock<HashMap<LimitedAccount, State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Nobody asks anything of the account before this.
    closed_until: Option<Instant>,
    /// Unexplained secondary limits since the last good answer.
    streak: u32,
    /// Held during a write; remembers when the last one ended.
    last_write: Arc<Mutex<Option<Instant>>>,
}

/// The turn to write; the next write waits until it is dropped through [`Limiter::written`].
pub(super) struct WriteTurn(OwnedMutexGuard<Option<Instant>>);

impl Limiter {
    pub(super) fn new(pace: Pace) -> Limiter {
        Limiter { pace, accounts: Lock::default() }
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Returns when nobody has been told to wait for the account any more.
    ///
    /// # Errors
    /// With how long it still lasts (unscaled), when that is longer than anybody waits.
    pub(super) async fn open(&self, account: &LimitedAccount) -> Result<(), Duration> {
        while let Some(left) = self.closed_for(account) {
            if left > self.scaled(self.pace.patience) {
                return Err(left.div_f64(self.pace.scale.max(f64::EPSILON)));
            }
            tokio::time::sleep(left).await;
        }
        Ok(())
    }

    /// How long everybody has to wait for the account from now, scaled; `None` when nobody has to.
    pub(super) fn closed_for(&self, account: &LimitedAccount) -> Option<Duration> {
        let until = self.accounts.lock().get(account)?.closed_until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Everybody waits for the account for at least `wait` (unscaled) from now.
    pub(super) fn close_for(&self, account: &LimitedAccount, wait: Duration) {
        let until = Instant::now() + self.scaled(wait);
        let mut accounts = self.accounts.lock();
        let state = accounts.entry(account.clone()).or_default();
        state.closed_until = Some(state.closed_until.map_or(until, |other| other.max(until)));
    }

    /// A request went through: the next unexplained limit starts at a minute again.
    pub(super) fn answered(&self, account: &LimitedAccount) {
        if let Some(state) = self.accounts.lock().get_mut(account) {
            state.streak = 0;
        }
    }

    /// The wait for a secondary limit that does not say how long it lasts.
    pub(super) fn unexplained_wait(&self, account: &LimitedAccount) -> Duration {
        let mut accounts = self.accounts.lock();
        let state = accounts.entry(account.clone()).or_default();
        let wait = SECONDARY_WAIT.saturating_mul(1 << state.streak.min(6));
        state.streak += 1;
        wait
    }

    /// Waits for the turn to write, at least the gap after the last write about the account. Of one account, because
    /// a write may wait for a limit while it has the turn.
    pub(super) async fn write_turn(&self, account: &LimitedAccount) -> WriteTurn {
        let last_write = {
            let mut accounts = self.accounts.lock();
            Arc::clone(&accounts.entry(account.clone()).or_default().last_write)
        };
        let turn = last_write.lock_owned().await;
        if let Some(last) = *turn {
            let gap = self.scaled(self.pace.write_gap);
            tokio::time::sleep(gap.saturating_sub(last.elapsed())).await;
        }
        WriteTurn(turn)
    }

    /// Ends the turn; the gap counts from here.
    pub(super) fn written(mut turn: WriteTurn) {
        *turn.0 = Some(Instant::now());
    }

    /// Sleeps before attempt number `attempt` (1 is the first repetition), with jitter.
    pub(super) async fn back_off(&self, attempt: u32) {
        let wait = FIRST_BACKOFF.saturating_mul(1 << (attempt - 1).min(8)).min(LONGEST_BACKOFF);
        self.sleep(wait.mul_f64(rand::random_range(0.75..1.25))).await;
    }

    /// Sleeps for `wait`, scaled.
    pub(super) async fn sleep(&self, wait: Duration) {
        tokio::time::sleep(self.scaled(wait)).await;
    }

    /// As long as a wait really is.
    pub(super) fn scaled(&self, wait: Duration) -> Duration {
        wait.min(LONGEST_CLOSED).mul_f64(self.pace.scale.clamp(0.0, 1_000.0))
    }
}

/// A wait that is longer than anybody waits.
pub(super) fn limited(wait: Duration) -> ForgeError {
    let minutes = wait.as_secs().div_ceil(60);
    ForgeError::RateLimited { until: format!("{minutes} minutes from now") }
}

/// The rate limit in an answer of the GraphQL API, which says so with status 200 as well.
pub(super) fn limit_in_graphql(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<Limit> {
    #[derive(serde::Deserialize)]
    struct GraphqlErrors {
        errors: Option<Vec<GraphqlError>>,
    }
    #[derive(serde::Deserialize)]
    struct GraphqlError {
        #[serde(rename = "type")]
        kind: Option<String>,
        message: Option<String>,
    }
    if status != StatusCode::OK {
        return limit(status, headers, body);
    }
    let refused: GraphqlErrors = serde_json::from_slice(body).ok()?;
    let is_limit = |refusal: &GraphqlError| {
        let message = refusal.message.as_deref().unwrap_or_default().to_lowercase();
        matches!(refusal.kind.as_deref(), Some("RATE_LIMITED" | "RATE_LIMIT"))
            || message.contains("secondary rate limit")
    };
    refused.errors.iter().flatten().any(is_limit).then(|| {
        // The headers are those of a refusal; only the status is another one.
        limit(StatusCode::TOO_MANY_REQUESTS, headers, body).unwrap_or(Limit::Unexplained)
    })
}
