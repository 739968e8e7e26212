//! The keys of an endpoint. One is used as long as it may be: when its limit is reached, its quota is used up
//! or it is refused, the next one is.
//!
//! What a key may do is the same for every run of the process, so it is remembered here and not by a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::socket::Sockets;
use crate::endpoint::Endpoint;
use crate::shared_limits::{self, SharedLimits};
use crate::wire::fault::{Fault, FaultKind};

/// How long a key with a rate limit is left alone when the provider does not say.
const REST: Duration = Duration::from_secs(5);

/// The endpoint with one of its keys.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) endpoint: Endpoint,
    /// What other processes know it by.
    name: String,
    /// Connections that stay open, where the endpoint has such.
    pub(super) sockets: Sockets,
    /// No request before this moment: one run's rate limit is every run's.
    not_before: Mutex<Option<Instant>>,
    /// Out of quota, or refused.
    is_spent: AtomicBool,
}

impl Account {
    fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }

    /// Drops the credentials of this moment, which were refused. True when others can be fetched.
    pub(super) async fn renew(&self, asked: Option<DateTime<Utc>>) -> bool {
        match self.endpoint.identity() {
            Some(identity) => identity.forget(asked).await,
            None => false,
        }
    }

    /// How long its rate limit still holds.
    fn closed_for(&self) -> Duration {
        let gate = *self.not_before.lock();
        gate.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    /// Waits until its rate limit has passed.
    pub(super) async fn open(&self) {
        loop {
            match self.closed_for() {
                Duration::ZERO => return,
                left => sleep(left).await,
            }
        }
    }

    /// Waits as long as other processes were told to.
    pub(super) async fn open_to_all(&self, limits: Option<&SharedLimits>) {
        let Some(limits) = limits else { return };
        loop {
            match limits.closed_for(&self.name).await {
                Duration::ZERO => return,
                left => sleep(left).await,
            }
        }
    }

    /// Tells other processes.
    pub(super) async fn close_to_all(&self, limits: Option<&SharedLimits>, wait: Duration) {
        if let Some(limits) = limits {
            limits.close(&self.name, wait).await;
        }
    }

    pub(super) fn close(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut gate = self.not_before.lock();
        *gate = Some(gate.map_or(until, |earlier| earlier.max(until)));
    }
}

/// All keys of an endpoint, in the order in which they are tried.
#[derive(Debug)]
pub(super) struct Accounts {
    all: Vec<Account>,
}

impl Accounts {
    pub(super) fn of(endpoint: &Endpoint) -> Accounts {
        let account = |endpoint: Endpoint| Account {
            name: shared_limits::account(&endpoint),
            endpoint,
            sockets: Sockets::default(),
            not_before: Mutex::new(None),
            is_spent: AtomicBool::new(false),
        };
        Accounts { all: endpoint.by_key().into_iter().map(account).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// The account to ask with: the first that may ask now, else the one that may soonest. When none has
    /// anything left, all are tried again: somebody may have paid meanwhile.
    pub(super) fn next(&self) -> Option<&Account> {
        if self.all.iter().all(Account::is_spent) {
            self.all.iter().for_each(|account| account.is_spent.store(false, Ordering::Relaxed));
        }
        self.all.iter().filter(|account| !account.is_spent()).min_by_key(|it| it.closed_for())
    }

    /// Whether the request can be sent again at once with another key, after this fault of an account.
    pub(super) fn can_move_on(&self, from: &Account, fault: &Fault, scale: f64) -> bool {
        let others = || self.all.iter().filter(|it| !std::ptr::eq(*it, from) && !it.is_spent());
        match fault.kind {
            FaultKind::RateLimited if self.all.len() > 1 => {
                from.close(fault.wait.unwrap_or(REST).mul_f64(scale));
                others().any(|account| account.closed_for().is_zero())
            }
            FaultKind::Quota | FaultKind::Authentication if self.all.len() > 1 => {
                from.is_spent.store(true, Ordering::Relaxed);
                others().next().is_some()
            }
            _ => false,
        }
    }
}
