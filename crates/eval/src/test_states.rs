//! How each test went in a run of the checks: by the names that its runner has for them, or, where a command says nothing
//! test by test, by the command itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::test_names::{beginning_of_cases, form};
use patchwright_types::evidence::{CheckRun, TestResults};

/// Marks a name that is a command.
const COMMAND: &str = "$ ";

/// How a test went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestState {
    Passed,
    /// It failed, could not run or was skipped.
    NotPassed,
    /// It went one way and then the other on the same tree.
    Flaky,
}

/// How the tests of some commands went.
#[derive(Clone, Debug, Default)]
pub struct TestStates {
    named: BTreeMap<String, TestState>,
    /// The same by the forms of the names.
    by_form: BTreeMap<String, TestState>,
    /// Packages of Go whose passing tests are not named.
    quiet_packages: BTreeSet<String>,
    /// A runner names only what fails, and came to its end.
    has_silent: bool,
    /// A runner names all of its tests, so that nobody knows of which of the two one is that is not named.
    has_telling: bool,
    /// What could not be run at all: a program is missing, a sandbox was lost.
    pub unrunnable: Vec<String>,
}

impl TestStates {
    pub fn of(runs: &[CheckRun]) -> TestStates {
        let mut states = TestStates::default();
        for run in runs {
            states.add(run);
        }
        for (name, state) in &states.named {
            note(&mut states.by_form, form(name), *state);
        }
        states
    }

    fn add(&mut self, run: &CheckRun) {
        if run.exit_code.is_none() && !run.timed_out || run.unrunnable {
            let why = run.note.clone().unwrap_or_else(|| "it could not be run".to_owned());
            self.unrunnable.push(format!("`{}`: {why}", run.command));
            return;
        }
        let again = run.again.as_deref();
        let results: Vec<&TestResults> = [Some(run), again]
            .into_iter()
            .flatten()
            .filter_map(|run| run.tests.as_ref())
            .filter(|results| !results.is_empty())
            .collect();
        if results.is_empty() {
            self.note_command(run);
            return;
        }
        let names: BTreeSet<&String> = results.iter().flat_map(|it| it.tests.keys()).collect();
        for name in names {
            let states: Vec<bool> = results.iter().map(|it| has_passed(it, name)).collect();
            let state = match (states.contains(&true), states.contains(&false)) {
                (true, false) => TestState::Passed,
                (true, true) => TestState::Flaky,
                (false, _) => TestState::NotPassed,
            };
            note(&mut self.named, name.clone(), state);
        }
        self.quiet_packages.extend(results.iter().flat_map(|it| it.quiet_packages.clone()));
        if results.iter().all(|it| names_only_failures(it)) {
            self.has_silent = true;
            // A test that breaks has no name as long as it passes: then all of the command has to pass.
            self.note_command(run);
        } else {
            self.has_telling = true;
        }
    }

    fn note_command(&mut self, run: &CheckRun) {
        let state = match (run.passed(), run.again.as_deref().map(CheckRun::passed)) {
            (true, _) => TestState::Passed,
            (false, Some(true)) => TestState::Flaky,
            (false, _) => TestState::NotPassed,
        };
        note(&mut self.named, format!("{COMMAND}{}", run.command), state);
    }

    /// `None` of a test that did not run.
    pub fn of_test(&self, name: &str) -> Option<TestState> {
        let known = self.named.get(name).or_else(|| self.by_form.get(&form(name))).copied();
        known.or_else(|| self.of_cases(name)).or_else(|| {
            let is_silent = self.has_silent && !self.has_telling && !name.starts_with(COMMAND);
            (is_silent || is_in(&self.quiet_packages, name)).then_some(TestState::Passed)
        })
    }

    /// How all cases of a name that is cut off went.
    fn of_cases(&self, name: &str) -> Option<TestState> {
        let beginning = beginning_of_cases(name)?;
        let cases = self.by_form.range(beginning.clone()..);
        let cases = cases.take_while(|(name, _)| name.starts_with(&beginning));
        cases.map(|(_, state)| *state).reduce(both)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}

/// A name that two commands have passed where it passed in both.
fn note(states: &mut BTreeMap<String, TestState>, name: String, state: TestState) {
    let known = states.entry(name).or_insert(state);
    *known = both(*known, state);
}

fn both(one: TestState, other: TestState) -> TestState {
    match (one, other) {
        (TestState::NotPassed, _) | (_, TestState::NotPassed) => TestState::NotPassed,
        (TestState::Flaky, _) | (_, TestState::Flaky) => TestState::Flaky,
        (TestState::Passed, TestState::Passed) => TestState::Passed,
    }
}

fn has_passed(results: &TestResults, name: &str) -> bool {
    use patchwright_ecosystems::results::Status;
    match results.tests.get(name) {
        Some(test) => test.status == Status::Passed,
        None => names_only_failures(results) || is_in(&results.quiet_packages, name),
    }
}

/// A test of one of these packages of Go.
fn is_in(packages: &BTreeSet<String>, name: &str) -> bool {
    name.match_indices('.').any(|(at, _)| packages.contains(&name[..at]))
}

fn names_only_failures(results: &TestResults) -> bool {
    results.is_whole() && !results.truncated && !results.names_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchwright_ecosystems::results::{Runner, parse};

    fn ran(command: &str, exit_code: i32, output: &str) -> CheckRun {
        let tests = parse(Some(Runner::Pytest), output, &[]);
        CheckRun {
            command: command.to_owned(),
            exit_code: Some(exit_code),
            tests: Some(tests).filter(|tests| !tests.is_empty()),
            ..CheckRun::default()
        }
    }

    #[test]
    fn tests_are_known_by_name_and_commands_without_tests_by_themselves() {
        let output = "a.py::one PASSED\na.py::two FAILED\n1 failed, 1 passed in 0.1s\n";
        let states = TestStates::of(&[ran("pytest", 1, output), ran("make lint", 0, "fine")]);
        assert_eq!(states.of_test("a.py::one"), Some(TestState::Passed));
        assert_eq!(states.of_test("a.py::two"), Some(TestState::NotPassed));
        assert_eq!(states.of_test("$ make lint"), Some(TestState::Passed));
        assert_eq!(states.of_test("a.py::three"), None);
    }

    #[test]
    fn who_is_not_named_passed_where_only_failures_are_named() {
        let output = "a.py .F\nFAILED a.py::two - no\n1 failed, 1 passed in 0.1s\n";
        let states = TestStates::of(&[ran("pytest", 1, output)]);
        assert_eq!(states.of_test("a.py::one"), Some(TestState::Passed));
        assert_eq!(states.of_test("a.py::two"), Some(TestState::NotPassed));
        assert_eq!(states.of_test("$ make lint"), None);
        // What else breaks has no name yet.
        assert_eq!(states.of_test("$ pytest"), Some(TestState::NotPassed));
    }

    #[test]
    fn nobody_knows_of_whom_is_not_named_where_another_command_names_all() {
        let all = "a.py::one PASSED\n1 passed in 0.1s\n";
        let dots = "b.py .F\nFAILED b.py::two - no\n1 failed, 1 passed in 0.1s\n";
        let states = TestStates::of(&[ran("pytest -v a", 0, all), ran("pytest b", 1, dots)]);
        assert_eq!(states.of_test("a.py::one"), Some(TestState::Passed));
        assert_eq!(states.of_test("a.py::deleted"), None);
        assert_eq!(states.of_test("$ pytest b"), Some(TestState::NotPassed));
    }

    #[test]
    fn of_a_quiet_package_of_go_who_is_not_named_passed() {
        let output = "--- FAIL: TestNet (0.00s)\n    a_test.go:1: no\nFAIL\nFAIL\texample.org/net\t0.01s\n\
            FAIL\texample.org/broken [build failed]\nFAIL\n";
        let tests = parse(Some(Runner::Go), output, &[]);
        let run = CheckRun {
            command: "go test ./...".to_owned(),
            exit_code: Some(1),
            tests: Some(tests),
            ..CheckRun::default()
        };
        let states = TestStates::of(&[run]);
        assert_eq!(states.of_test("example.org/net.TestUp"), Some(TestState::Passed));
        assert_eq!(states.of_test("example.org/net.TestNet"), Some(TestState::NotPassed));
        assert_eq!(states.of_test("example.org/broken.TestUp"), None);
        assert_eq!(states.of_test("example.org/network.TestUp"), None);
    }

    #[test]
    fn a_test_is_found_by_every_form_of_its_name() {
        let output = "tests/a.py::Sum::one PASSED\ntests/a.py::two[x y] FAILED\ntests/a.py::two[x z] PASSED\n1 failed, 2 passed in 0.1s\n";
        let states = TestStates::of(&[ran("pytest -v", 1, output)]);
        assert_eq!(states.of_test("tests.a.Sum::one"), Some(TestState::Passed));
        assert_eq!(states.of_test("tests/a.py::two[x z]"), Some(TestState::Passed));
        assert_eq!(states.of_test("tests/a.py::two[x"), Some(TestState::NotPassed));
        assert_eq!(states.of_test("tests/a.py::two[y"), None);
    }

    #[test]
    fn what_comes_and_goes_is_flaky() {
        let bad = ran("pytest", 1, "a.py::one FAILED\n1 failed in 0.1s\n");
        let again = Box::new(ran("pytest", 0, "a.py::one PASSED\n1 passed in 0.1s\n"));
        let states = TestStates::of(&[CheckRun { again: Some(again), ..bad }]);
        assert_eq!(states.of_test("a.py::one"), Some(TestState::Flaky));
        let bad = ran("sh test.sh", 1, "");
        let again = Box::new(ran("sh test.sh", 0, ""));
        let states = TestStates::of(&[CheckRun { again: Some(again), ..bad }]);
        assert_eq!(states.of_test("$ sh test.sh"), Some(TestState::Flaky));
    }

    #[test]
    fn a_check_that_could_not_be_run_says_nothing() {
        let states = TestStates::of(&[CheckRun::not_run("tox", "`tox` is not installed")]);
        assert_eq!(states.of_test("$ tox"), None);
        assert_eq!(states.unrunnable, ["`tox`: `tox` is not installed"]);
    }
}
