//! What test runners print, read test by test. [`parse`] takes an output and `JUnit` files, [`compare`]
//! puts two sides together, [`digest`] keeps the first error and the tail of an output, and
//! [`command_with_report`] makes a command write a `JUnit` file as well.
//!
//! An output is a stranger's text: every parser works line by line, in time that grows with the text
//! alone, and what it keeps is bounded. What a parser does not understand it leaves out.

mod automake;
mod bound;
mod compare;
mod digest;
mod go;
mod java;
mod javascript;
mod junit;
mod network;
mod other;
mod passing;
mod php;
mod prove;
mod python;
mod report;
mod rust;
mod sink;
mod stopping;
mod tap;
mod titles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use patchwright_base::text;
use regex::Regex;
use serde::{Deserialize, Serialize};

pub use compare::{Comparison, Names, compare};
pub use digest::digest;
pub use report::{Report, command_with_report, runner_of};
use sink::Sink;
pub use stopping::{command_that_goes_on, is_told_to_stop};

/// Most tests that are kept by name. Passing ones beyond it are counted only.
pub const MAX_TESTS: usize = 20_000;
/// Failing tests that are kept beyond that.
const MAX_FAILING: usize = 2_000;
/// Most bytes of what is kept of a failure.
const MAX_DETAIL: usize = 1_000;
/// Most lines of a failure.
const MAX_DETAIL_LINES: usize = 15;
/// Most bytes of an output that are read; of a longer one, its beginning and its end.
const MAX_OUTPUT: usize = 32 << 20;

/// What ran the tests.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Runner {
    /// A `JUnit` file, whoever wrote it.
    Junit,
    Pytest,
    Unittest,
    CargoTest,
    Nextest,
    Go,
    Jest,
    Vitest,
    Mocha,
    NodeTest,
    Tap,
    Rspec,
    Minitest,
    Phpunit,
    Surefire,
    Gradle,
    Dotnet,
    Ctest,
    Exunit,
    Automake,
}

impl Runner {
    /// It prints nothing of tests that pass, or can be told so: silence after a failure says nothing.
    pub fn may_be_silent(self) -> bool {
        matches!(self, Runner::Gradle | Runner::Surefire | Runner::Dotnet)
    }
}

/// How a test ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Skipped,
    Passed,
    /// It ran and found something wrong.
    Failed,
    /// It could not run: its module does not load, its fixture fails.
    Error,
}

impl Status {
    pub fn is_bad(self) -> bool {
        matches!(self, Status::Failed | Status::Error)
    }
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Test {
    pub status: Status,
    /// The first lines of the failure; empty when nothing is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// How many tests ended how.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub errors: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn all(&self) -> u64 {
        self.passed + self.failed + self.errors + self.skipped
    }

    /// Failed, or could not run.
    pub fn bad(&self) -> u64 {
        self.failed + self.errors
    }

    fn larger(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed.max(other.passed),
            failed: self.failed.max(other.failed),
            errors: self.errors.max(other.errors),
            skipped: self.skipped.max(other.skipped),
        }
    }

    fn plus(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed.saturating_add(other.passed),
            failed: self.failed.saturating_add(other.failed),
            errors: self.errors.saturating_add(other.errors),
            skipped: self.skipped.saturating_add(other.skipped),
        }
    }

    fn count(&mut self, status: Status) {
        match status {
            Status::Passed => self.passed += 1,
            Status::Failed => self.failed += 1,
            Status::Error => self.errors += 1,
            Status::Skipped => self.skipped += 1,
        }
    }
}

/// What is known of a run of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TestResults {
    /// Who ran them, as far as it was recognised.
    pub runners: Vec<Runner>,
    /// By name. Runners that print dots name only what failed.
    pub tests: BTreeMap<String, Test>,
    /// By the runner's own summary, or else by what was listed.
    pub counts: Counts,
    /// There were more tests than are kept here, or more output than was read.
    pub truncated: bool,
    /// The runner printed its final summary, so a test that is not listed as failed did not fail.
    pub finished: bool,
    /// The runner ended at a failure, as it was told to or does by itself (`cargo test`, `--maxfail`), or would not begin
    /// (pytest after an error of collection): what it does not name did not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_early: bool,
    /// Packages of Go that came to their end and whose passing tests are not named: a test of them that is not
    /// listed passed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub quiet_packages: BTreeSet<String>,
}

impl TestResults {
    /// Nothing was recognised.
    pub fn is_empty(&self) -> bool {
        self.runners.is_empty()
    }

    /// All tests ran, so one that is not listed is not there, or passed where the runner names failures only.
    pub fn is_whole(&self) -> bool {
        self.finished && !self.stopped_early
    }

    /// Every test that ran is here by name, passed ones too.
    pub fn names_all(&self) -> bool {
        let ran = self.tests.values().filter(|test| test.status != Status::Skipped).count();
        !self.truncated && ran as u64 >= self.counts.passed + self.counts.bad()
    }

    /// How many failures the runner counts beyond those that are here by name.
    fn unnamed_failures(&self) -> u64 {
        let named = self.tests.values().filter(|test| test.status.is_bad()).count() as u64;
        if self.finished { self.counts.bad().saturating_sub(named) } else { 0 }
    }

    /// How many tests there are; `None` where the runner does not say it: it broke off or stopped early, or it is Go's
    /// without `-v`, which counts nothing.
    pub fn total(&self) -> Option<u64> {
        (self.is_whole() && self.quiet_packages.is_empty()).then(|| self.counts.all())
    }

    /// `3 of 20 tests fail`, or how many do where nobody knows of how many; `None` when none does.
    pub fn failures(&self) -> Option<String> {
        match (self.counts.bad(), self.total()) {
            (0, _) => None,
            (bad, Some(all)) => Some(format!("{bad} of {all} tests fail")),
            (1, None) => Some("1 test fails".to_owned()),
            (bad, None) => Some(format!("{bad} tests fail")),
        }
    }

    /// It says how this test went.
    fn names(&self, name: &str) -> bool {
        self.tests.contains_key(name) || self.is_of_quiet_package(name)
    }

    /// The test is of a package, or is a package, whose passing tests are not named.
    fn is_of_quiet_package(&self, name: &str) -> bool {
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        !self.quiet_packages.is_empty()
            && ends.into_iter().any(|end| self.quiet_packages.contains(&name[..end]))
    }

    /// The runner came to its end, whether or not there were tests.
    fn says_something(&self) -> bool {
        // Go says of each package without tests that it has none. A summary of others may be of something else.
        self.counts.all() > 0 || (self.finished && self.runners == [Runner::Go])
    }

    /// Names of the tests that failed or could not run.
    pub fn bad(&self) -> impl Iterator<Item = &str> {
        let bad = self.tests.iter().filter(|(_, test)| test.status.is_bad());
        bad.map(|(name, _)| name.as_str())
    }

    /// Names of the failed tests whose failure says that there was no network.
    pub fn without_network(&self) -> impl Iterator<Item = &str> {
        let bad = self.tests.iter().filter(|(_, test)| test.status.is_bad());
        bad.filter(|(_, test)| network::is_missing(&test.detail)).map(|(name, _)| name.as_str())
    }

    fn join(&mut self, other: TestResults) {
        self.finished =
            if self.is_empty() { other.finished } else { self.finished && other.finished };
        self.counts = self.counts.plus(other.counts);
        self.truncated |= other.truncated;
        self.stopped_early |= other.stopped_early;
        self.runners.extend(other.runners);
        self.quiet_packages.extend(other.quiet_packages);
        for (name, test) in other.tests {
            if self.tests.len() >= MAX_TESTS + MAX_FAILING {
                self.truncated = true;
                break;
            }
            self.tests.entry(name).or_insert(test);
        }
    }
}

type Parser = fn(&[&str]) -> TestResults;

/// How a runner is recognised in an output, and who reads it then.
struct Row {
    runner: Runner,
    mark: LazyLock<Regex>,
    parse: Parser,
}

macro_rules! row {
    ($runner:ident, $parse:path, $mark:literal) => {
        Row { runner: Runner::$runner, mark: LazyLock::new(|| pattern($mark)), parse: $parse }
    };
}

/// A pattern of this crate's own. Its digits are ASCII, as runners print them: the digits of all scripts make an
/// automaton several times as large, and every output is looked at by nineteen patterns.
#[expect(clippy::expect_used, reason = "constants, and a test compiles every one")]
fn pattern(text: &str) -> Regex {
    Regex::new(&text.replace(r"\d", "[0-9]")).expect("a valid pattern")
}

/// Shorthand for a pattern that is compiled once.
macro_rules! regex {
    ($text:literal) => {{
        static PATTERN: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| super::pattern($text));
        &*PATTERN
    }};
}
use regex;

/// One row per runner. An output may be of several: `cargo test && npm test`.
static RUNNERS: [Row; 19] = [
    row!(
        Pytest,
        python::pytest,
        r"^=+ (test session starts|short test summary info|FAILURES|ERRORS) =+$|^\d+ (passed|failed|errors?|skipped|deselected)\b.* in [\d.]+s\b"
    ),
    row!(Unittest, python::unittest, r"^Ran \d+ tests? in [\d.]+s|^[^ ]+ \([^ )]+\) \.\.\. "),
    row!(CargoTest, rust::cargo, r"^running \d+ tests?$|^test result: (ok|FAILED)\. "),
    row!(Nextest, rust::nextest, r"^ *Nextest run ID |^ *Starting \d+ tests? across \d+ binar"),
    row!(
        Go,
        go::parse,
        r#"^--- (FAIL|PASS|SKIP): |^(ok|FAIL)\s+\S+\s+(\(cached\)|[\d.]+s|\[.* failed\])|^\?\s+\S+\s+\[no test files\]|^\{"Time":"[^"]*","Action":"#
    ),
    row!(Jest, javascript::jest, r"^Tests: +.*\d+ total$|^Test Suites: +.*\d+ total$"),
    row!(Vitest, javascript::vitest, r"^ *RUN +v\d+\.|^ *Test Files +\d+ (passed|failed)"),
    row!(Mocha, javascript::mocha, r"^ +\d+ passing \("),
    row!(NodeTest, javascript::node, r"^ℹ tests \d+$"),
    row!(Tap, tap::parse, r"^TAP version \d+$|^1\.\.\d+( *#.*)?$|^Files=\d+, Tests=\d+, "),
    row!(Rspec, other::rspec, r"^\d+ examples?, \d+ failures?"),
    row!(Minitest, other::minitest, r"^\d+ (runs|tests), \d+ assertions, \d+ failures, \d+ errors"),
    row!(Phpunit, php::parse, r"^PHPUnit \d+\.|^OK \(\d+ tests?, |^Tests: \d+, Assertions: "),
    row!(Surefire, java::surefire, r"Tests run: \d+, Failures: \d+, Errors: \d+"),
    row!(
        Gradle,
        java::gradle,
        r"^\d+ tests? completed, \d+ failed|^[^ >]\S* > .+ (PASSED|FAILED|SKIPPED)$"
    ),
    row!(
        Dotnet,
        other::dotnet,
        r"^\s*(Passed|Failed)!\s+-\s+Failed:|^Total tests: \d+|^Test Run (Successful|Failed)\."
    ),
    row!(Ctest, other::ctest, r"^ *\d+/\d+ +Test +#\d+: |^\d+% tests passed"),
    row!(
        Exunit,
        other::exunit,
        r"^(\d+ doctests?, )?(\d+ properties, )?\d+ tests?, \d+ failures?(, |$)"
    ),
    row!(
        Automake,
        automake::parse,
        r"^# TOTAL: +\d+$|^(All )?(\d+ of )?\d+ tests? (passed|failed|behaved|did not behave)\b"
    ),
];

/// Reads an output, and the `JUnit` files that were written beside it. A `hint` names the runner when the
/// caller knows it (see [`runner_of`]); without it every runner whose marks stand in the output reads it.
/// `JUnit` files win: they name all tests.
pub fn parse(hint: Option<Runner>, output: &str, junit: &[&str]) -> TestResults {
    let mut results = TestResults::default();
    for file in junit {
        let read = junit::parse(file);
        if read.counts.all() > 0 {
            results.join(read);
        }
    }
    let (output, is_cut) = bounded(output);
    let clean = text::without_ansi(&output).replace('\r', "");
    let all: Vec<&str> = clean.lines().collect();
    if !results.is_empty() {
        results.runners = vec![Runner::Junit];
        // A report is well formed all the same.
        let is_pytest = hint == Some(Runner::Pytest);
        results.finished &= !(is_pytest && python::breaks_off(&all));
        results.stopped_early |= is_pytest && python::stops_early(&all);
        return results;
    }
    let without_log = automake::without_log(&all);
    for row in &RUNNERS {
        let is_hinted = hint == Some(row.runner);
        let is_automake = row.runner == Runner::Automake;
        let lines = without_log.as_ref().filter(|_| !is_automake).unwrap_or(&all);
        if !is_hinted && !lines.iter().any(|line| row.mark.is_match(line)) {
            continue;
        }
        let read = (row.parse)(lines);
        if read.says_something() {
            results.join(read);
        }
    }
    results.truncated |= is_cut && !results.is_empty();
    results
}

/// An output that is not longer than what is read: its beginning and its end.
fn bounded(output: &str) -> (std::borrow::Cow<'_, str>, bool) {
    if output.len() <= MAX_OUTPUT {
        return (output.into(), false);
    }
    let mut end = MAX_OUTPUT / 2;
    let mut start = output.len() - MAX_OUTPUT / 2;
    while !output.is_char_boundary(end) {
        end -= 1;
    }
    while !output.is_char_boundary(start) {
        start += 1;
    }
    (format!("{}\n{}", &output[..end], &output[start..]).into(), true)
}

/// The number of a group of a match; 0 when it took no part.
fn number(found: &regex::Captures<'_>, group: usize) -> u64 {
    found.get(group).and_then(|text| text.as_str().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod broke_off_tests;
#[cfg(test)]
mod same_names_tests;
#[cfg(test)]
mod tests;
