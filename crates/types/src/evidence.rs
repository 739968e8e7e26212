//! What the repository's checks said, before and after: exit codes that the harness recorded, and what
//! became of each test.

use patchwright_ecosystems::results;
pub use patchwright_ecosystems::results::{Comparison, Names, TestResults};
use serde::{Deserialize, Serialize};

/// Failing tests of one side that a report keeps by name.
const MAX_BAD: usize = 100;
/// Tests of one list of a comparison that it keeps by name.
const MAX_LISTED: usize = 50;

/// One check run once, or twice where it failed and may be flaky.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CheckRun {
    pub command: String,
    /// `None` when it could not be run; then `note` says why.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// The first error and the end of the output, for the model and the report.
    pub tail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// A program that it needs is missing: it says nothing about the code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrunnable: bool,
    /// Its sandbox ended before it did, in a second one as well: nobody knows what it would have said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sandbox_lost: bool,
    /// Test by test, where the runner's output or report could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestResults>,
    /// The second run of a check that failed, in a fresh sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Box<CheckRun>>,
}

impl CheckRun {
    /// It ended in time with exit code 0. What its tests say is another matter: [`CheckRun::is_clean`].
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// It failed, and passed when it was run once more on the same tree.
    pub fn is_flaky(&self) -> bool {
        !self.passed() && self.again.as_ref().is_some_and(|again| again.passed())
    }

    /// It ran and did not pass, not even when it was run once more.
    pub fn failed(&self) -> bool {
        self.exit_code.is_some() && !self.passed() && !self.unrunnable && !self.is_flaky()
    }

    /// It could not be run at all, so it says nothing about the code.
    pub fn not_run(command: impl Into<String>, note: impl Into<String>) -> CheckRun {
        CheckRun { command: command.into(), note: Some(note.into()), ..CheckRun::default() }
    }

    /// The first error and the end of the output, in at most this many bytes.
    pub fn digest(&self, most: usize) -> String {
        results::digest(&self.tail, most)
    }

    /// Its runner says that tests fail, whatever the command made of that: a pipe or `|| true` hides an exit code.
    pub fn has_bad_tests(&self) -> bool {
        self.tests.as_ref().is_some_and(|tests| tests.counts.bad() > 0)
    }

    /// It passed, and no test of it failed.
    pub fn is_clean(&self) -> bool {
        self.passed() && !self.has_bad_tests()
    }

    /// Its test runner did not come to its end: what it does not name may have gone either way.
    pub fn runner_broke_off(&self) -> bool {
        !self.timed_out && self.tests.as_ref().is_some_and(|tests| !tests.finished)
    }

    /// It was run once more, and then no test of it failed.
    fn again_is_clean(&self) -> bool {
        self.again.as_ref().is_some_and(|again| again.is_clean())
    }

    /// It failed, or a test of it did, the first time that it ran.
    pub fn has_failed_once(&self) -> bool {
        let has_ended = self.exit_code.is_some() && !self.unrunnable;
        has_ended && (!self.passed() || self.has_bad_tests())
    }

    /// How many tests ran to an end, as far as its runner says.
    fn tests_run(&self) -> u64 {
        self.tests.as_ref().map_or(0, |tests| tests.counts.passed + tests.counts.bad())
    }

    /// What its runs say test by test.
    fn results(&self) -> Vec<TestResults> {
        let again = self.again.as_ref().and_then(|again| again.tests.clone());
        let results = self.tests.iter().cloned().chain(again);
        results.filter(|results| !results.is_empty()).collect()
    }

    /// It came to an end of its own.
    fn was_run(&self) -> bool {
        self.exit_code.is_some() && !self.unrunnable
    }

    /// With no more than a report shows.
    fn short(mut self) -> CheckRun {
        self.tests = self.tests.map(|tests| tests.only_bad(MAX_BAD));
        self.again = self.again.map(|again| {
            let tests = again.tests.map(|tests| tests.only_bad(MAX_BAD));
            Box::new(CheckRun { tests, again: None, tail: String::new(), ..*again })
        });
        self
    }
}

/// One check on base and on head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EvidenceRow {
    pub command: String,
    pub base: Option<CheckRun>,
    pub head: Option<CheckRun>,
    /// Where the command stands, when it was found: `.github/workflows/ci.yml, line 12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What became of the tests, where both sides could be read test by test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Comparison>,
}

/// What a check says about the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Passed,
    /// It failed, and passed when it was run once more, or only tests that come and go fail in it.
    Flaky,
    /// It fails, or a test of it does whatever its exit code, that did not fail before, or not each time; or its sandbox does not survive it any more.
    Broken,
    /// It failed before and still does, and nothing in it got better.
    StillFailing,
    /// It failed before and still does, and all tests that fail in it find no network, as before.
    NoNetwork,
    /// It failed before and still does; the change repaired tests of it and broke none.
    Improved,
    /// It failed before and ends well now, and nothing was repaired: tests that failed are taken out or skipped.
    Silenced,
    /// It failed before and ends well now, and nothing was repaired: the tests that failed were altered, and nothing else.
    Altered,
    /// It ran on the change and says nothing: a program is missing, or it never ended, before neither; or it ended well on
    /// both sides, on the change without one of its tests.
    Unknown,
    /// It did not run on the change.
    NotRun,
}

impl EvidenceRow {
    /// Puts both sides together, test by test where that is possible.
    pub fn new(base: Option<CheckRun>, head: Option<CheckRun>) -> EvidenceRow {
        let results =
            |run: &Option<CheckRun>| run.as_ref().map_or_else(Vec::new, CheckRun::results);
        let (before, after) = (results(&base), results(&head));
        let is_known = !before.is_empty() && !after.is_empty();
        let tests = is_known.then(|| results::compare(&before, &after));
        let command = head.as_ref().or(base.as_ref()).map(|run| run.command.clone());
        let command = command.unwrap_or_default();
        EvidenceRow { command, base, head, found: None, tests }
    }

    /// With no more than a report shows.
    #[must_use]
    pub fn short(self) -> EvidenceRow {
        EvidenceRow {
            base: self.base.map(CheckRun::short),
            head: self.head.map(CheckRun::short),
            tests: self.tests.map(named),
            ..self
        }
    }

    /// How many tests it ran before, when it ends well on both sides and no test was seen to run on the change: a command
    /// that was made to do nothing looks like this.
    pub fn lost_tests(&self) -> Option<u64> {
        let base = self.base.as_ref()?;
        self.unseen_tests().filter(|_| base.passed())
    }

    /// How many tests it ran before, when it ends well on the change and no test was seen to run there. After a failure that
    /// may be a runner, or a script around it, that prints only what fails.
    pub fn unseen_tests(&self) -> Option<u64> {
        let (base, head) = (self.base.as_ref()?, self.head.as_ref()?);
        let before = base.tests_run();
        (before > 0 && head.passed() && head.tests_run() == 0).then_some(before)
    }

    /// How many tests it ran before, where its runner says so: Go without `-v` does not.
    pub fn tests_before(&self) -> Option<u64> {
        let base = self.base.as_ref()?;
        base.tests.as_ref().filter(|tests| tests.quiet_packages.is_empty())?;
        Some(base.tests_run())
    }

    /// Its tests ran before the change, and none was seen to run on it: most often because something does not compile.
    pub fn runs_no_more_tests(&self) -> bool {
        let after = self.head.as_ref().map_or(0, CheckRun::tests_run);
        self.tests_before().is_some_and(|before| before > 0) && after == 0
    }

    pub fn standing(&self) -> Standing {
        let Some(head) = &self.head else { return Standing::NotRun };
        let base = self.base.as_ref();
        if head.passed() {
            return self.of_success(head);
        }
        let has_run = base.is_some_and(CheckRun::was_run);
        let is_endless = head.timed_out && base.is_some_and(|base| base.timed_out);
        match head.exit_code {
            // Whoever makes a failing check take its sandbox along must not be better off.
            None if head.sandbox_lost && base.is_some_and(CheckRun::was_run) => {
                return Standing::Broken;
            }
            None if !head.timed_out => return Standing::NotRun,
            _ if head.is_flaky() => return Standing::Flaky,
            // What could be run before and cannot any more is the change's doing.
            _ if is_endless || (head.unrunnable && !has_run) => return Standing::Unknown,
            _ => {}
        }
        let has_failed = base.is_some_and(CheckRun::failed);
        match &self.tests {
            Some(tests) if tests.is_worse() || self.broke_off() => Standing::Broken,
            // Tests that only came and went before do not explain a check that fails without any.
            Some(tests) if is_flaky_only(tests) && head.has_bad_tests() => Standing::Flaky,
            Some(tests)
                if has_failed
                    && base.is_some_and(|base| base.exit_code == head.exit_code)
                    && !head.timed_out
                    && lacks_only_network(head, tests) =>
            {
                Standing::NoNetwork
            }
            // Among failures without a name may be any test.
            Some(tests)
                if has_failed
                    && !tests.fixed.is_empty()
                    && tests.nameless == 0
                    && !head.timed_out =>
            {
                Standing::Improved
            }
            _ if has_failed => Standing::StillFailing,
            _ => Standing::Broken,
        }
    }

    /// A check that ended well on the change is believed as far as its own tests do not speak against it.
    fn of_success(&self, head: &CheckRun) -> Standing {
        let has_failed = self.base.as_ref().is_some_and(CheckRun::failed);
        match &self.tests {
            Some(tests) if tests.is_worse() || self.broke_off() => Standing::Broken,
            _ if self.lost_tests().is_some() => Standing::Unknown,
            // The tests that made it fail before still do, and no longer make it fail.
            Some(tests)
                if has_failed && head.has_bad_tests() && !tests.still_failing.is_empty() =>
            {
                if tests.fixed.is_empty() { Standing::StillFailing } else { Standing::Improved }
            }
            Some(tests) if has_failed && tests.fixed.is_empty() && !tests.altered.is_empty() => {
                Standing::Altered
            }
            // Where as many new ones pass, it may have another name.
            Some(tests)
                if has_failed
                    && tests.fixed.is_empty()
                    && tests.gone.count > tests.new_passing.count
                    && !tests.is_partial =>
            {
                Standing::Silenced
            }
            // Nobody knows a time when they did not fail by the change.
            None if head.has_bad_tests() && head.again_is_clean() => Standing::Flaky,
            None if head.has_bad_tests() => Standing::Broken,
            Some(_) | None => Standing::Passed,
        }
    }

    /// The runner came to its end before, and no longer does, not even when it is run once more.
    pub fn broke_off(&self) -> bool {
        let finished = |run: &Option<CheckRun>| {
            let again = run.as_ref().and_then(|run| run.again.as_deref());
            let runs = run.iter().chain(again);
            runs.filter_map(|run| run.tests.as_ref()).any(|tests| tests.finished)
        };
        finished(&self.base) && !finished(&self.head)
    }
}

/// Cuts each list to the number of names that a report keeps.
fn named(mut tests: Comparison) -> Comparison {
    for list in tests.lists_mut() {
        list.names.truncate(MAX_LISTED);
    }
    tests
}

fn is_flaky_only(tests: &Comparison) -> bool {
    !tests.flaky.is_empty()
        && tests.still_failing.is_empty()
        && tests.nameless == 0
        && !tests.is_partial
}

/// Each failure that the runner counts is of a test that found no network, or of one that comes and goes.
fn lacks_only_network(head: &CheckRun, tests: &Comparison) -> bool {
    let bad = head.tests.as_ref().map_or(0, |tests| tests.counts.bad());
    let explained = tests.without_network.count + tests.flaky.count;
    let is_whole = !tests.is_partial && !tests.is_base_partial && tests.nameless == 0;
    let hides = !tests.gone.is_empty() || !tests.altered.is_empty();
    is_whole && !hides && !tests.without_network.is_empty() && bad <= explained as u64
}

/// All checks, before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Evidence {
    pub rows: Vec<EvidenceRow>,
    /// How the commands were found: `--verify`, the configuration, a CI file or the repository's kind.
    pub source: String,
    /// Remarks about the checks as a whole, for example which were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How many more checks were found; the remarks say why they were not run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Evidence {
    /// No check that was started on head did anything but pass.
    pub fn is_clean(&self) -> bool {
        let passed = |row: &EvidenceRow| {
            row.head.as_ref().is_none_or(CheckRun::passed)
                && matches!(row.standing(), Standing::Passed | Standing::NotRun)
        };
        self.rows.iter().all(passed)
    }

    /// What the checks say about the change, in one word.
    pub fn verdict(&self) -> Verdict {
        let failed = self.failed().len();
        let passes = |row: &&EvidenceRow| {
            matches!(row.standing(), Standing::Passed | Standing::Flaky | Standing::NoNetwork)
        };
        match self.rows.iter().filter(passes).count() {
            _ if failed > 0 => Verdict::Failed(failed),
            0 => Verdict::None,
            count => Verdict::Passed(count),
        }
    }

    /// The checks that ran on head and failed, or would have without what was taken out of them.
    pub fn failed(&self) -> Vec<&EvidenceRow> {
        self.standing(&[
            Standing::Broken,
            Standing::StillFailing,
            Standing::Improved,
            Standing::Silenced,
            Standing::Altered,
        ])
    }

    /// The checks that say that the change is not what was asked for: broken by it, or not repaired.
    pub fn red(&self) -> Vec<&EvidenceRow> {
        self.standing(&[
            Standing::Broken,
            Standing::StillFailing,
            Standing::Silenced,
            Standing::Altered,
        ])
    }

    /// A check that ran tests before ends well on head without any: [`EvidenceRow::lost_tests`].
    pub fn has_lost_tests(&self) -> bool {
        self.rows.iter().any(|row| row.lost_tests().is_some())
    }

    /// A check that ran on head failed.
    pub fn any_failed(&self) -> bool {
        !self.failed().is_empty()
    }

    /// The change broke a check, or left one as red as it was.
    pub fn is_red(&self) -> bool {
        !self.red().is_empty()
    }

    /// The checks that stand like this.
    pub fn standing(&self, wanted: &[Standing]) -> Vec<&EvidenceRow> {
        self.rows.iter().filter(|row| wanted.contains(&row.standing())).collect()
    }

    /// What became of the tests of all checks. In one folder tests of one name are one test, whichever checks run them.
    pub fn tests(&self) -> Option<Comparison> {
        let mut folders: Vec<(&str, Comparison)> = Vec::new();
        for row in &self.rows {
            let Some(tests) = &row.tests else { continue };
            let folder = folder_of(&row.command);
            match folders.iter_mut().find(|(known, _)| *known == folder) {
                Some((_, known)) => known.unite(tests),
                None => folders.push((folder, tests.clone())),
            }
        }
        let mut folders = folders.into_iter().map(|(_, tests)| tests);
        let mut all = folders.next()?;
        folders.for_each(|more| all.join(&more));
        Some(all)
    }
}

/// Where a check runs its tests: `cd FOLDER && …`.
fn folder_of(command: &str) -> &str {
    let rest = command.strip_prefix("cd ").and_then(|rest| rest.split_once(" && "));
    rest.map_or("", |(folder, _)| folder)
}

/// What the checks say about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No check failed that could be run whole; how many there are.
    Passed(usize),
    /// This many checks failed.
    Failed(usize),
    /// None ran on the change.
    None,
}

impl Verdict {
    /// The word for outputs.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Passed(_) => "passed",
            Verdict::Failed(_) => "failed",
            Verdict::None => "none",
        }
    }
}

/// The checks that fail on head, in themselves or in a test, and did not fail before, or not in this way or not each
/// time: what the change broke, as far as we know.
pub fn newly_failing(evidence: &Evidence) -> Vec<&EvidenceRow> {
    evidence.standing(&[Standing::Broken])
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchwright_ecosystems::results::parse;

    fn run(exit_code: i32, output: &str) -> CheckRun {
        let tests = Some(parse(None, output, &[])).filter(|tests| !tests.is_empty());
        CheckRun { exit_code: Some(exit_code), tests, ..CheckRun::default() }
    }

    fn cargo(tests: &[(&str, bool)]) -> CheckRun {
        let line = |(name, passes): &(&str, bool)| {
            format!("test {name} ... {}\n", if *passes { "ok" } else { "FAILED" })
        };
        let lines: Vec<String> = tests.iter().map(line).collect();
        let failed = tests.iter().filter(|(_, passes)| !passes).count();
        let (word, passed) = (if failed > 0 { "FAILED" } else { "ok" }, tests.len() - failed);
        let output = format!(
            "running {} tests\n{}test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured\n",
            tests.len(),
            lines.concat()
        );
        run(if failed > 0 { 101 } else { 0 }, &output)
    }

    fn twice(first: CheckRun, again: CheckRun) -> CheckRun {
        CheckRun { again: Some(Box::new(again)), ..first }
    }

    fn unrunnable() -> CheckRun {
        CheckRun { unrunnable: true, ..run(127, "") }
    }

    fn lost() -> CheckRun {
        CheckRun { sandbox_lost: true, ..CheckRun::not_run("x", "gone") }
    }

    fn endless() -> CheckRun {
        CheckRun { timed_out: true, ..run(124, "") }
    }

    #[test]
    fn a_check_stands_for_the_change_as_both_sides_say() {
        let fails = || run(1, "");
        let passes = || run(0, "");
        let rows = [
            ("repaired", Some(fails()), passes(), Standing::Passed),
            ("broken", Some(passes()), fails(), Standing::Broken),
            ("not run before", None, fails(), Standing::Broken),
            ("red before and after", Some(fails()), fails(), Standing::StillFailing),
            ("passed again", Some(passes()), twice(fails(), passes()), Standing::Flaky),
            ("failed twice", Some(passes()), twice(fails(), fails()), Standing::Broken),
            ("came and went before", Some(twice(fails(), passes())), fails(), Standing::Broken),
            ("no program", Some(unrunnable()), unrunnable(), Standing::Unknown),
            ("lost its program", Some(passes()), unrunnable(), Standing::Broken),
            ("lost it where it failed", Some(fails()), unrunnable(), Standing::StillFailing),
            ("got its program", Some(unrunnable()), fails(), Standing::Broken),
            ("never ends", Some(endless()), endless(), Standing::Unknown),
            ("ends no more", Some(passes()), endless(), Standing::Broken),
            ("its sandbox is lost", Some(passes()), lost(), Standing::Broken),
            ("and was when it failed", Some(fails()), lost(), Standing::Broken),
            ("and was before", Some(lost()), lost(), Standing::NotRun),
            ("and it never ran", Some(unrunnable()), lost(), Standing::NotRun),
            ("not started", Some(passes()), CheckRun::not_run("x", "gone"), Standing::NotRun),
            ("hangs where it failed", Some(fails()), endless(), Standing::StillFailing),
        ];
        for (about, base, head, expected) in rows {
            assert_eq!(EvidenceRow::new(base, Some(head)).standing(), expected, "{about}");
        }
        assert_eq!(EvidenceRow::new(Some(passes()), None).standing(), Standing::NotRun);
    }

    #[test]
    fn tests_decide_where_a_check_is_red_on_both_sides() {
        let base = || cargo(&[("a", false), ("b", false), ("c", true)]);
        let some = |a, b, c| cargo(&[("a", a), ("b", b), ("c", c)]);
        let crashed = run(101, "running 3 tests\ntest c ... ok\n");
        let rows = [
            ("some repaired", some(true, false, true), Standing::Improved),
            ("none repaired", some(false, false, true), Standing::StillFailing),
            ("one for another", some(true, false, false), Standing::Broken),
            ("the runner died", crashed, Standing::Broken),
        ];
        for (about, head, expected) in rows {
            assert_eq!(EvidenceRow::new(Some(base()), Some(head)).standing(), expected, "{about}");
        }
        // Another test fails each time, and none of them both times.
        let green = cargo(&[("a", true), ("b", true)]);
        let head = twice(cargo(&[("a", false), ("b", true)]), cargo(&[("a", true), ("b", false)]));
        let row = EvidenceRow::new(Some(green), Some(head));
        assert_eq!(row.standing(), Standing::Flaky);
    }

    #[test]
    fn tests_that_find_no_network_are_not_held_against_the_change() {
        let fails = |tests: &[(&str, &str)]| {
            let why = |(name, why): &(&str, &str)| format!("FAILED t.py::{name} - {why}\n");
            let lines: Vec<String> = tests.iter().map(why).collect();
            run(
                1,
                &format!(
                    "{}{} failed, {} passed in 0.04s\n",
                    lines.concat(),
                    tests.len(),
                    11 - tests.len()
                ),
            )
        };
        let away = ("test_get", "OSError: [Errno 101] Network is unreachable");
        let wrong = ("test_sum", "assert 1 == 2");
        let both = || fails(&[away, wrong]);
        let hides =
            run(1, "FAILED t.py::test_get - Network is unreachable\n2 failed, 9 passed in 0.04s\n");
        let rows = [
            ("as before", fails(&[away]), fails(&[away]), Standing::NoNetwork),
            ("the other is repaired", both(), fails(&[away]), Standing::NoNetwork),
            ("the other is not", both(), both(), Standing::StillFailing),
            (
                "it ends in another way",
                fails(&[away]),
                CheckRun { exit_code: Some(2), ..fails(&[away]) },
                Standing::StillFailing,
            ),
            ("another breaks", fails(&[away]), both(), Standing::Broken),
            ("it reached something before", fails(&[wrong]), fails(&[away]), Standing::Broken),
            ("one has no name", hides.clone(), hides, Standing::StillFailing),
            (
                "the check passed before",
                run(0, "10 passed in 0.04s\n"),
                fails(&[away]),
                Standing::Broken,
            ),
        ];
        for (about, base, head, expected) in rows {
            let row = EvidenceRow::new(Some(base), Some(head));
            assert_eq!(row.standing(), expected, "{about}");
            let evidence = Evidence { rows: vec![row.short()], ..Evidence::default() };
            assert_eq!(evidence.rows[0].standing(), expected, "{about}, in short");
            let is_held_against = expected != Standing::NoNetwork;
            assert_eq!(evidence.is_red(), is_held_against, "{about}");
            assert_eq!(evidence.verdict() != Verdict::Passed(1), is_held_against, "{about}");
        }
    }

    #[test]
    fn an_exit_code_does_not_hide_what_the_tests_say() {
        let hidden = |tests: &[(&str, bool)]| CheckRun { exit_code: Some(0), ..cargo(tests) };
        let (good, bad) = ([("a", true), ("b", true)], [("a", false), ("b", true)]);
        let crashed = run(0, "running 2 tests\ntest a ... ok\n");
        let rows = [
            ("one broken", hidden(&good), hidden(&bad), Standing::Broken),
            (
                "a new one fails",
                hidden(&good[..1]),
                hidden(&[bad[1], ("c", false)]),
                Standing::Broken,
            ),
            ("red as before", hidden(&bad), hidden(&bad), Standing::Passed),
            ("no longer red by its exit code", cargo(&bad), hidden(&bad), Standing::StillFailing),
            ("the runner died", hidden(&good), crashed, Standing::Broken),
            ("no tests before", run(0, "done"), hidden(&bad), Standing::Broken),
            (
                "no tests before, and passed again",
                run(0, "done"),
                twice(hidden(&bad), hidden(&good)),
                Standing::Flaky,
            ),
            (
                "no tests before, and failed again",
                run(0, "done"),
                twice(hidden(&bad), hidden(&bad)),
                Standing::Broken,
            ),
            ("it did not start before", unrunnable(), hidden(&bad), Standing::Broken),
            ("no tests any more", hidden(&good), run(0, "done"), Standing::Unknown),
            ("a runner without tests", hidden(&good), cargo(&[]), Standing::Unknown),
            // Whoever prints only what fails looks like this, too.
            ("red before, and no tests any more", cargo(&bad), run(0, "done"), Standing::Passed),
            ("fewer tests", hidden(&good), hidden(&good[..1]), Standing::Passed),
            ("passed again", hidden(&good), twice(hidden(&bad), hidden(&good)), Standing::Passed),
        ];
        for (about, base, head, expected) in rows {
            let evidence = Evidence {
                rows: vec![EvidenceRow::new(Some(base), Some(head))],
                ..Evidence::default()
            };
            assert_eq!(evidence.rows[0].standing(), expected, "{about}");
            assert_eq!(evidence.rows[0].clone().short().standing(), expected, "{about}, in short");
            let is_passed = matches!(expected, Standing::Passed | Standing::Flaky);
            assert_eq!(evidence.verdict() == Verdict::Passed(1), is_passed, "{about}");
            let is_unknown = expected == Standing::Unknown;
            assert_eq!(evidence.verdict() == Verdict::None, is_unknown, "{about}");
        }
    }

    #[test]
    fn a_failing_test_that_is_taken_out_is_not_repaired() {
        let base = || cargo(&[("a", false), ("b", true)]);
        let rows = [
            ("taken out", base(), cargo(&[("b", true)]), Standing::Silenced),
            ("renamed", base(), cargo(&[("a2", true), ("b", true)]), Standing::Passed),
            ("repaired", base(), cargo(&[("a", true), ("b", true)]), Standing::Passed),
            (
                "it passed",
                cargo(&[("a", true), ("b", true)]),
                cargo(&[("b", true)]),
                Standing::Passed,
            ),
            (
                "another was repaired",
                cargo(&[("a", false), ("b", false)]),
                cargo(&[("b", true)]),
                Standing::Passed,
            ),
        ];
        for (about, base, head, expected) in rows {
            let row = EvidenceRow::new(Some(base), Some(head));
            assert_eq!(row.standing(), expected, "{about}");
            let evidence = Evidence { rows: vec![row.short()], ..Evidence::default() };
            assert_eq!(evidence.is_red(), expected == Standing::Silenced, "{about}");
        }
    }

    #[test]
    fn what_came_and_went_before_is_no_excuse_for_what_fails_each_time() {
        let (good, bad) =
            (|| cargo(&[("a", true), ("b", true)]), || cargo(&[("a", false), ("b", true)]));
        let base = || twice(bad(), good());
        let other = || CheckRun { exit_code: Some(3), ..good() };
        let rows = [
            ("once, so far", bad(), Standing::Broken),
            ("twice", twice(bad(), bad()), Standing::Broken),
            ("once of two", twice(bad(), good()), Standing::Flaky),
            ("its tests pass, and it fails", twice(other(), other()), Standing::Broken),
        ];
        for (about, head, expected) in rows {
            let row = EvidenceRow::new(Some(base()), Some(head));
            assert_eq!(row.standing(), expected, "{about}");
            assert_eq!(row.short().standing(), expected, "{about}, in short");
        }
    }

    /// pytest without names of what passes, and when it dies: exit code 3, and no name at all.
    #[test]
    fn tests_that_broke_off_are_neither_flaky_nor_passed() {
        let named = |names: &[&str]| {
            let lines: Vec<String> =
                names.iter().map(|name| format!("FAILED t.py::{name} - no\n")).collect();
            run(
                1,
                &format!(
                    "{}{} failed, {} passed in 0.04s\n",
                    lines.concat(),
                    names.len(),
                    11 - names.len()
                ),
            )
        };
        let dies = || run(3, "INTERNALERROR> SystemError: no\n\n2 failed, 1 passed in 0.04s\n");
        let hides = || run(1, "2 failed, 9 passed in 0.04s\n");
        let both = || named(&["test_a", "test_b"]);
        let rows = [
            ("on the change", twice(both(), both()), dies(), Standing::Broken),
            ("and before, once", twice(both(), dies()), twice(dies(), dies()), Standing::Broken),
            ("once on the change", both(), twice(dies(), named(&["test_b"])), Standing::Improved),
            ("and as before else", both(), twice(dies(), both()), Standing::StillFailing),
            ("once before", twice(both(), dies()), both(), Standing::StillFailing),
            ("one repaired", twice(both(), dies()), named(&["test_b"]), Standing::Improved),
            (
                "failures without a name",
                twice(both(), named(&["test_c"])),
                hides(),
                Standing::StillFailing,
            ),
        ];
        for (about, base, head, expected) in rows {
            let row = EvidenceRow::new(Some(base), Some(head));
            assert_eq!(row.standing(), expected, "{about}: {:?}", row.tests);
            assert_eq!(row.short().standing(), expected, "{about}, in short");
        }
    }

    #[test]
    fn tests_that_were_altered_repair_nothing() {
        let (good, bad) = ([("a", true), ("b", true)], [("a", false), ("b", true)]);
        let rows = [
            ("green", cargo(&bad), cargo(&good), Standing::Altered),
            (
                "another still fails",
                cargo(&[("a", false), ("b", false)]),
                cargo(&[("a", true), ("b", false)]),
                Standing::StillFailing,
            ),
            ("green before", cargo(&good), cargo(&good), Standing::Passed),
        ];
        for (about, base, head, expected) in rows {
            let mut row = EvidenceRow::new(Some(base), Some(head));
            if let Some(tests) = &mut row.tests {
                tests.set_altered_apart(|_| true);
            }
            assert_eq!(row.standing(), expected, "{about}");
            let evidence = Evidence { rows: vec![row.short()], ..Evidence::default() };
            assert_eq!(evidence.is_red(), expected != Standing::Passed, "{about}");
        }
    }

    #[test]
    fn tests_that_two_checks_of_one_folder_run_count_once() {
        let row = |command: &str, head: &[(&str, bool)]| {
            let of =
                |tests: &[(&str, bool)]| CheckRun { command: command.to_owned(), ..cargo(tests) };
            EvidenceRow::new(Some(of(&[("a", true), ("b", true)])), Some(of(head)))
        };
        let line = |rows: Vec<EvidenceRow>| {
            Evidence { rows, ..Evidence::default() }.tests().unwrap().line()
        };
        let (one, other) = ([("a", false), ("b", true)], [("a", false), ("b", false)]);
        assert_eq!(
            line(vec![row("make test", &one), row("cargo test", &one)]),
            "fixed 0 · broke 1"
        );
        assert_eq!(
            line(vec![row("make test", &one), row("cargo test", &other)]),
            "fixed 0 · broke 2"
        );
        // Another folder has other tests, whatever their names.
        assert_eq!(
            line(vec![row("cd web && make test", &one), row("cd api && make test", &one)]),
            "fixed 0 · broke 2"
        );
    }

    #[test]
    fn a_report_has_the_names_of_what_failed_and_no_others() {
        let row = EvidenceRow::new(
            Some(cargo(&[("a", false), ("b", true)])),
            Some(cargo(&[("a", true), ("b", true)])),
        );
        let row = row.short();
        let kept =
            |run: &Option<CheckRun>| run.as_ref().unwrap().tests.as_ref().unwrap().tests.len();
        assert_eq!((kept(&row.base), kept(&row.head)), (1, 0));
        let evidence = Evidence { rows: vec![row], ..Evidence::default() };
        assert_eq!(evidence.tests().unwrap().line(), "fixed 1 · broke 0");
        assert_eq!((evidence.verdict(), evidence.is_red()), (Verdict::Passed(1), false));
        let json = serde_json::to_value(&evidence).unwrap();
        assert_eq!(json["rows"][0]["tests"]["fixed"]["names"][0], "a");
        assert_eq!(serde_json::from_value::<Evidence>(json).unwrap(), evidence);
    }
}
