//! The pace of writes.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use patchwright_types::campaign::{PaceLimits, WriteSlot};

use super::Db;

/// Small enough for a test: the longest window counts, the shorter ones are kept by the gap.
const LIMITS: PaceLimits = PaceLimits { gap: 20, per_minute: 30, per_hour: 1_000 };

pub(super) async fn three_reservers_stay_below_every_limit(db: &Db) {
    let reserved = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (store, reserved) = (db.open().await, Arc::clone(&reserved));
        tasks.push(tokio::spawn(async move {
            loop {
                let before = store.now().await.unwrap();
                match store.reserve_write("token", LIMITS).await.unwrap() {
                    WriteSlot::In(wait) => {
                        let after = store.now().await.unwrap();
                        reserved.lock().push((before + wait, after + wait));
                        let wait = u64::try_from(wait).unwrap();
                        tokio::time::sleep(Duration::from_millis(wait)).await;
                    }
                    WriteSlot::AskIn(wait) => {
                        assert!(wait > 40_000, "the minute is full: {wait}");
                        break;
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut times = reserved.lock().clone();
    assert_eq!(times.len(), 30, "as many as a minute takes, over three processes");
    times.sort_unstable();
    let (first, last) = (times[0].0, times[29].1);
    assert!(last - first >= 29 * LIMITS.gap, "a gap between any two: {times:?}");
    // Another token has a pace of its own, and so does an hour.
    let store = db.open().await;
    assert_eq!(store.reserve_write("other", LIMITS).await.unwrap(), WriteSlot::In(0));
    db.sql("UPDATE pace SET recent = '[]' WHERE token = 'other'").await;
    let now = store.now().await.unwrap();
    let minutes: Vec<i64> = (1..=40).map(|minute| now - minute * 75_000).rev().collect();
    let text = serde_json::to_string(&minutes).unwrap();
    db.sql(&format!("UPDATE pace SET recent = '{text}' WHERE token = 'other'")).await;
    let hourly = PaceLimits { per_hour: 40, ..LIMITS };
    let full = store.reserve_write("other", hourly).await.unwrap();
    assert_eq!(full, WriteSlot::AskIn(60_000), "forty in the last fifty minutes");
    let wider = PaceLimits { per_hour: 41, ..LIMITS };
    assert_eq!(store.reserve_write("other", wider).await.unwrap(), WriteSlot::In(0));
}

pub(super) async fn a_closed_gate_holds_everybody(db: &Db) {
    let (store, other) = (db.open().await, db.open().await);
    assert_eq!(store.pace_closed_for("token").await.unwrap(), 0);
    store.close_pace("token", 120_000).await.unwrap();
    store.close_pace("token", 1_000).await.unwrap();
    let closed = other.pace_closed_for("token").await.unwrap();
    assert!((110_000..=120_000).contains(&closed), "the longer word counts: {closed}");
    let slot = other.reserve_write("token", LIMITS).await.unwrap();
    assert!(matches!(slot, WriteSlot::AskIn(wait) if wait <= 60_000), "{slot:?}");
    assert_eq!(other.reserve_write("else", LIMITS).await.unwrap(), WriteSlot::In(0));
    store.close_pace("short", 4_500).await.unwrap();
    let slot = other.reserve_write("short", LIMITS).await.unwrap();
    assert!(matches!(slot, WriteSlot::In(wait) if wait > 500), "{slot:?}");
}

pub(super) async fn nobody_hoards_and_jumping_clocks_are_forgotten(db: &Db) {
    let store = db.open().await;
    let slow = PaceLimits { gap: 2_000, per_minute: 60, per_hour: 500 };
    let mut slots = 0;
    while let WriteSlot::In(wait) = store.reserve_write("token", slow).await.unwrap() {
        assert!(wait <= 5_000);
        slots += 1;
        assert!(slots < 20);
    }
    assert!((3..20).contains(&slots), "a few seconds ahead and no more: {slots}");
    // A clock that was a year ahead reserved and closed; it is right again.
    let now = store.now().await.unwrap() + 31_536_000_000;
    db.sql(&format!("UPDATE pace SET recent = '[{now}]', closed_until = {now}")).await;
    assert_eq!(store.pace_closed_for("token").await.unwrap(), 0);
    assert_eq!(store.reserve_write("token", slow).await.unwrap(), WriteSlot::In(0));
    // What is no list of times counts as none.
    db.sql("UPDATE pace SET recent = 'oops'").await;
    assert_eq!(store.reserve_write("token", slow).await.unwrap(), WriteSlot::In(0));
}
