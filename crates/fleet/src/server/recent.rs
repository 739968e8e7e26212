//! The last deliveries, for the dashboard: those of the store, whichever process took or did them, and those
//! that this process has seen and that are nowhere else, because they set nothing off.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use crate::store::DeliveryRow;
use patchwright_base::text;
use patchwright_types::campaign::JobState;

/// Deliveries that are listed, and of this process's own, remembered.
pub(super) const MOST: i64 = 100;
const MOST_SEEN: usize = 100;

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
    list.truncate(MOST_SEEN - 1);
    list.push_front(seen);
    true
}

/// Says what became of a delivery, when it is still listed.
pub(super) fn end(guid: &str, outcome: &str) {
    if let Some(seen) = lock().iter_mut().find(|seen| seen.guid == guid) {
        outcome.clone_into(&mut seen.outcome);
    }
}

/// Those of the store, and of this process's those that are not there; the newest first.
pub(super) fn list(stored: Vec<DeliveryRow>) -> Vec<RecentDelivery> {
    let is_stored = |seen: &&RecentDelivery| stored.iter().all(|row| row.guid != seen.guid);
    let mut all: Vec<RecentDelivery> = lock().iter().filter(is_stored).cloned().collect();
    all.extend(stored.into_iter().map(of_row));
    all.sort_by_key(|seen| std::cmp::Reverse(seen.at));
    all.truncate(MOST_SEEN);
    all
}

fn of_row(row: DeliveryRow) -> RecentDelivery {
    let text = row.text.filter(|text| !text.is_empty());
    let outcome = match (row.state, text) {
        (JobState::Queued, None) => "waiting".to_owned(),
        (JobState::Queued, Some(why)) => {
            format!("waiting for another attempt after {}: {why}", row.attempt)
        }
        (JobState::Running, _) => "running".to_owned(),
        (JobState::Dead, Some(why)) => format!("given up after {} attempts: {why}", row.attempt),
        (_, Some(text)) => text,
        (state, None) => state.word().to_owned(),
    };
    RecentDelivery {
        guid: row.guid,
        event: row.event,
        action: row.action,
        repository: row.repository,
        number: row.number.and_then(|number| u64::try_from(number).ok()),
        at: DateTime::from_timestamp_millis(row.received_at).unwrap_or_default(),
        outcome,
    }
}

fn lock() -> MutexGuard<'static, VecDeque<RecentDelivery>> {
    SEEN.lock()
}
