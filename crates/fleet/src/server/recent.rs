//! The last deliveries that this process has seen, for its dashboard. Those that set nothing off are
//! nowhere else.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;

use chrono::{DateTime, Utc};

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
