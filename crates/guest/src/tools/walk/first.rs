//! What several threads find, in the order of one that walks alone.

use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

/// A path among others in the order in which a walk sees them: folder by folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WalkOrder(String);

impl Ord for WalkOrder {
    fn cmp(&self, other: &WalkOrder) -> Ordering {
        self.0.split('/').cmp(other.0.split('/'))
    }
}

impl PartialOrd for WalkOrder {
    fn partial_cmp(&self, other: &WalkOrder) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first lines of what several threads find, in order of paths. What comes behind them is
/// forgotten at once, and need not be looked for.
pub(crate) struct First {
    limit: usize,
    found: Mutex<FirstLines>,
    /// There is more than enough: only what comes before the last place counts.
    is_full: AtomicBool,
}

#[derive(Default)]
struct FirstLines {
    lines: BTreeMap<WalkOrder, Vec<String>>,
    count: usize,
}

impl First {
    pub(crate) fn new(limit: usize) -> First {
        First { limit, found: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    /// Adds what was found at one path. Several files may be shown with the same one.
    pub(crate) fn add(&self, path: &str, lines: Vec<String>) {
        let mut found = self.found.lock();
        let FirstLines { lines: all, count } = &mut *found;
        *count += lines.len();
        all.entry(WalkOrder(path.to_owned())).or_default().extend(lines);
        while let Some(last) = all.last_entry()
            && *count - last.get().len() > self.limit
        {
            *count -= last.remove().len();
        }
        self.is_full.store(*count > self.limit, Memory::Relaxed);
    }

    /// Whether nothing at this path or below it can be among the first.
    pub(crate) fn is_behind(&self, path: &str) -> bool {
        if !self.is_full.load(Memory::Relaxed) {
            return false;
        }
        let found = self.found.lock();
        found
            .lines
            .last_key_value()
            .is_some_and(|(last, _)| last.0.split('/').cmp(path.split('/')) == Ordering::Less)
    }

    /// The lines in order, and whether there were more.
    pub(crate) fn finish(self) -> (Vec<String>, bool) {
        let found = self.found.into_inner();
        let has_more = found.count > self.limit;
        (found.lines.into_values().flatten().take(self.limit).collect(), has_more)
    }
}

#[cfg(test)]
mod tests {
    use crate::tools::walk::first::*;

    #[test]
    fn equal_paths_keep_all_their_lines() {
        let first = First::new(3);
        for line in ["one", "two"] {
            first.add("a\u{fffd}", vec![line.to_owned()]);
        }
        assert!(!first.is_behind("b"));
        first.add("b", vec!["three".to_owned()]);
        assert_eq!(first.finish(), (["one", "two", "three"].map(str::to_owned).to_vec(), false));
    }
}
