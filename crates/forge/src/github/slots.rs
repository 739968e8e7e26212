//! Things that are asked for once, by whoever needs them first, and kept. Each has a lock of its own, which is held
//! while it is asked for: one that GitHub does not answer about keeps nobody waiting who needs another.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex as Lock;
use tokio::sync::Mutex;

/// Things that are kept; beyond that those are forgotten that nobody uses just now.
const MOST: usize = 2000;

/// One of them; nothing until it is known.
pub(super) type Slot<V> = Arc<Mutex<Option<V>>>;

pub(super) struct Slots<K, V>(Lock<HashMap<K, Slot<V>>>);

impl<K, V> Default for Slots<K, V> {
    fn default() -> Slots<K, V> {
        Slots(Lock::default())
    }
}

impl<K: Eq + Hash, V> Slots<K, V> {
    pub(super) fn slot(&self, key: K) -> Slot<V> {
        let mut slots = self.0.lock();
        if slots.len() >= MOST && !slots.contains_key(&key) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(key).or_default())
    }

    pub(super) fn all(&self) -> Vec<Slot<V>> {
        self.0.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::github::slots::{MOST, Slots};

    #[test]
    fn what_is_asked_for_keeps_nobody_waiting_for_another() {
        let slots: Slots<usize, &str> = Slots::default();
        let asking = slots.slot(0);
        let _asking = asking.try_lock().unwrap();
        assert!(slots.slot(0).try_lock().is_err() && slots.slot(1).try_lock().is_ok());
        for key in 2..2 * MOST {
            slots.slot(key);
        }
        assert!(slots.slot(0).try_lock().is_err(), "it is in use");
        assert!(slots.all().len() <= MOST);
    }
}
