//! The last deliveries that this process has seen, for its dashboard. Those that set nothing off are
//! nowhere else.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use patchwright_base::text;

const MOST: usize = 100;

static SEEN: Mutex<VecDeque<RecentDelivery>> = Mutex::new(VecDeque::new());

/// One delivery.
#[derive(Clone, Debug)]
pub(super) struct RecentDelivery {
    pub(super) guid: String,
    pub(super) event: String,
    pub(super) action: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) number: Option<u64>,
    pub(super) at: DateTime<Utc>,
    /// What became of it, in a line.
    pub(super) outcome: String,
}

/// A reason for which deliveries set nothing off.
#[derive(Clone, Debug)]
pub(super) struct IdleReason {
    pub(super) why: String,
    pub(super) deliveries: u64,
    /// The last one.
    pub(super) at: DateTime<Utc>,
}

/// Reasons that are remembered; beyond that those that came up longest ago are forgotten.
const MOST_REASONS: usize = 50;

static IDLE: Mutex<Vec<IdleReason>> = Mutex::new(Vec::new());

/// A delivery set nothing off.
pub(super) fn did_nothing(why: &str, at: DateTime<Utc>) {
    let why = text::line(why.strip_prefix("ignored: ").unwrap_or(why));
    let mut reasons = IDLE.lock();
    let known = reasons.iter().position(|reason| reason.why == why);
    let mut reason = match known {
        Some(place) => reasons.remove(place),
        None => IdleReason { why, deliveries: 0, at },
    };
    (reason.deliveries, reason.at) = (reason.deliveries + 1, at);
    reasons.insert(0, reason);
    reasons.truncate(MOST_REASONS);
}

/// The last one first.
pub(super) fn idle_reasons() -> Vec<IdleReason> {
    IDLE.lock().clone()
}

/// False when it is listed already.
pub(super) fn add(seen: RecentDelivery) -> bool {
    let mut list = lock();
    if list.iter().any(|other| other.guid == seen.guid) {
        return false;
    }
    list.truncate(MOST - 1);
    list.push_front(seen);
    true
}

/// Says what became of a delivery, when it is still listed.
pub(super) fn end(guid: &str, outcome: &str) {
    if let Some(seen) = lock().iter_mut().find(|seen| seen.guid == guid) {
        outcome.clone_into(&mut seen.outcome);
    }
}

/// Newest first.
pub(super) fn list() -> Vec<RecentDelivery> {
    lock().iter().cloned().collect()
}

fn lock() -> MutexGuard<'static, VecDeque<RecentDelivery>> {
    SEEN.lock()
}
