//! Where a parser puts what it reads: tests by name, what failed with its reason, and the counts of summaries. Two tests
//! of the same name are kept apart where the format tells that they are two.

use std::collections::BTreeMap;

use patchwright_base::text;

use super::{
    Counts, MAX_DETAIL, MAX_DETAIL_LINES, MAX_FAILING, MAX_TESTS, Runner, Status, Test, TestResults,
};

/// Most bytes of a name.
const MAX_NAME: usize = 300;
/// Most failures of which more than the name is kept.
const MAX_DETAILS: usize = 500;

/// Where a parser puts what it reads.
pub(super) struct Sink {
    pub(super) results: TestResults,
    tally: Counts,
    pub(super) stated: Counts,
    has_broken_off: bool,
    details: usize,
    /// How many tests of the same name there are, where there are several.
    namesakes: BTreeMap<String, usize>,
    /// From the second run of the runner on: the tests that this run named, and the names under which they are kept.
    of_run: Option<BTreeMap<String, String>>,
}

impl Sink {
    pub(super) fn new(runner: Runner) -> Sink {
        Sink {
            results: TestResults { runners: vec![runner], ..TestResults::default() },
            tally: Counts::default(),
            stated: Counts::default(),
            has_broken_off: false,
            details: 0,
            namesakes: BTreeMap::new(),
            of_run: None,
        }
    }

    /// A test and how it ended. Named twice in one run of the runner, the worse counts.
    pub(super) fn test(&mut self, name: &str, status: Status) {
        let mut name = name_of(name);
        if let Some(known) = &self.of_run {
            name = match known.get(&name) {
                Some(kept) => kept.clone(),
                None => self.first_of_run(name),
            };
        }
        self.put(name, status);
    }

    /// A test of a format that has each test once: the same name again is another test, and gets a number. Returns the
    /// name under which it is kept.
    pub(super) fn another(&mut self, name: &str, status: Status) -> String {
        let name = self.free(name_of(name));
        self.put(name.clone(), status);
        name
    }

    /// The runner begins anew, in another package as a rule, whose tests may have the same names.
    pub(super) fn next_run(&mut self) {
        self.of_run = Some(BTreeMap::new());
    }

    /// A package of Go that came to its end without naming the tests of it that passed.
    pub(super) fn quiet_package(&mut self, path: &str) {
        if self.results.quiet_packages.len() < MAX_TESTS {
            self.results.quiet_packages.insert(name_of(path));
        } else {
            self.results.truncated = true;
        }
    }

    fn first_of_run(&mut self, name: String) -> String {
        let kept = self.free(name.clone());
        match &mut self.of_run {
            Some(known) if known.len() < MAX_TESTS + MAX_FAILING => {
                known.insert(name, kept.clone());
            }
            Some(_) | None => {}
        }
        kept
    }

    /// The name, with a number where there is a test of this name already.
    fn free(&mut self, name: String) -> String {
        if !self.results.tests.contains_key(&name) {
            return name;
        }
        let count = self.namesakes.entry(name.clone()).or_insert(1);
        let short = text::cut(&name, MAX_NAME - 20);
        loop {
            *count += 1;
            let numbered = format!("{short} ({count})");
            if !self.results.tests.contains_key(&numbered) {
                return numbered;
            }
        }
    }

    fn put(&mut self, name: String, status: Status) {
        if name.is_empty() {
            return;
        }
        let room = if status.is_bad() { MAX_TESTS + MAX_FAILING } else { MAX_TESTS };
        let is_full = self.results.tests.len() >= room;
        if let Some(known) = self.results.tests.get_mut(&name) {
            known.status = known.status.max(status);
            return;
        }
        self.tally.count(status);
        if is_full {
            self.results.truncated = true;
            return;
        }
        self.results.tests.insert(name, Test { status, detail: String::new() });
    }

    /// Why a test failed: the first lines. Only for tests that are known to be bad.
    pub(super) fn detail<'t>(&mut self, name: &str, lines: impl IntoIterator<Item = &'t str>) {
        let name = name_of(name);
        let kept = self.of_run.as_ref().and_then(|known| known.get(&name)).unwrap_or(&name);
        let Some(test) = self.results.tests.get_mut(kept) else { return };
        if !test.detail.is_empty() || !test.status.is_bad() || self.details >= MAX_DETAILS {
            return;
        }
        let mut detail = String::new();
        let lines = lines.into_iter().skip_while(|line| line.trim().is_empty());
        for line in lines.take(MAX_DETAIL_LINES) {
            let line = text::cut(line.trim_end(), MAX_NAME);
            if detail.len() + line.len() > MAX_DETAIL {
                break;
            }
            detail.push_str(&line);
            detail.push('\n');
        }
        test.detail = detail.trim_end().to_owned();
        self.details += 1;
    }

    /// A bad test with its reason.
    pub(super) fn bad<'t>(
        &mut self,
        name: &str,
        status: Status,
        why: impl IntoIterator<Item = &'t str>,
    ) {
        self.test(name, status);
        self.detail(name, why);
    }

    /// A summary of the runner: its end, or the end of one of its parts.
    pub(super) fn summary(&mut self, counts: Counts) {
        self.stated = self.stated.plus(counts);
        self.results.finished = true;
    }

    /// The runner says that it ended before its tests did, whatever it sums up.
    pub(super) fn break_off(&mut self) {
        self.has_broken_off = true;
    }

    pub(super) fn done(mut self) -> TestResults {
        self.results.counts = self.stated.larger(self.tally);
        self.results.finished &= !self.has_broken_off;
        self.results
    }
}

/// A name as it is kept: one line, no control characters, bounded.
fn name_of(name: &str) -> String {
    let name = name.trim();
    let is_plain = name.len() <= MAX_NAME && !name.chars().any(text::is_deceptive);
    if is_plain { name.to_owned() } else { text::cut(&text::line(name), MAX_NAME) }
}
