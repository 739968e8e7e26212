//! Results in less room: for a journal, for a report.

use std::collections::BTreeMap;

use super::{Status, Test, TestResults};

/// Failures of which more than the name is kept.
const MAX_DETAILS: usize = 50;

impl TestResults {
    /// Keeps at most this many tests by name, and this many bytes of names and details. What failed comes
    /// first, then what passed; the counts stay whole.
    #[must_use]
    pub fn bounded(self, names: usize, bytes: usize) -> TestResults {
        let room = ResultsBudget { names, bytes, details: MAX_DETAILS };
        self.keep(room, &[Status::Error, Status::Failed, Status::Passed, Status::Skipped])
    }

    /// Only the failed tests, at most this many.
    #[must_use]
    pub fn only_bad(mut self, names: usize) -> TestResults {
        // One stands for all of them: whether there are any says how far the counts can be trusted.
        let quiet_packages = std::mem::take(&mut self.quiet_packages).into_iter().take(1).collect();
        let room = ResultsBudget { names, bytes: usize::MAX, details: 0 };
        TestResults { quiet_packages, ..self.keep(room, &[Status::Error, Status::Failed]) }
    }

    fn keep(mut self, mut room: ResultsBudget, order: &[Status]) -> TestResults {
        let mut kept = BTreeMap::new();
        let all = self.tests.len();
        for status in order {
            let (now, later): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut self.tests).into_iter().partition(|(_, t)| t.status == *status);
            self.tests = later;
            kept.extend(now.into_iter().filter_map(|(name, test)| room.take(name, test)));
        }
        self.truncated |= kept.len() < all;
        let packages = self.quiet_packages.len();
        self.quiet_packages.retain(|package| room.fits(package));
        self.truncated |= self.quiet_packages.len() < packages;
        TestResults { tests: kept, ..self }
    }
}

/// What is left of the room.
struct ResultsBudget {
    names: usize,
    bytes: usize,
    details: usize,
}

impl ResultsBudget {
    /// Takes the room of a name, if there is that much.
    fn fits(&mut self, name: &str) -> bool {
        let fits = self.names > 0 && self.bytes >= name.len();
        if fits {
            self.names -= 1;
            self.bytes -= name.len();
        }
        fits
    }

    fn take(&mut self, name: String, test: Test) -> Option<(String, Test)> {
        if !self.fits(&name) {
            return None;
        }
        let fits = self.details > 0 && test.detail.len() <= self.bytes;
        if test.detail.is_empty() || !fits {
            return Some((name, Test { detail: String::new(), ..test }));
        }
        self.details -= 1;
        self.bytes -= test.detail.len();
        Some((name, test))
    }
}
