//! Runs of tests that end before their time, and runs that do not name what they count.

use super::*;

const FAILS: &str = "F..F.\n=========================== short test summary info ============================\nFAILED t/a.py::test_one - assert 1 == 2\nFAILED t/b.py::test_four - assert 4 == 5\n2 failed, 3 passed in 0.04s\n";
/// pytest with exit code 3: what it had run is summed up, and nothing is named.
const DIES: &str = "F..\nINTERNALERROR> Traceback (most recent call last):\nINTERNALERROR>   File \"/v/_pytest/main.py\", line 333, in wrap_session\nINTERNALERROR> SystemError: AST constructor recursion depth mismatch\n\n1 failed, 2 passed in 0.04s\n";
const MENDED: &str = "...F.\n=========================== short test summary info ============================\nFAILED t/b.py::test_four - assert 4 == 5\n1 failed, 4 passed in 0.04s\n";

fn pytest(output: &str) -> TestResults {
    parse(Some(Runner::Pytest), output, &[])
}

fn compared(base: &[&str], head: &[&str]) -> Comparison {
    let read = |runs: &[&str]| -> Vec<TestResults> { runs.iter().map(|it| pytest(it)).collect() };
    compare(&read(base), &read(head))
}

#[test]
fn a_runner_that_dies_or_is_interrupted_does_not_come_to_its_end() {
    let interrupted =
        |words: &str| FAILS.replace("2 failed, 3", &format!("!!!!!! {words} !!!!!!\n2 failed, 3"));
    let rows = [
        (FAILS.to_owned(), true),
        (DIES.to_owned(), false),
        (interrupted("KeyboardInterrupt"), false),
        (interrupted("_pytest.outcomes.Exit: no more"), false),
        // All that could be read was read, and what failed is named.
        (interrupted("Interrupted: 1 error during collection"), true),
        (interrupted("stopping after 2 failures"), true),
        // What a test of a plugin of pytest printed.
        (
            format!("----- Captured stdout call -----\n{}\n{FAILS}", DIES.lines().nth(1).unwrap()),
            true,
        ),
        (format!("{FAILS}{DIES}"), false),
    ];
    for (output, expected) in rows {
        assert_eq!(pytest(&output).finished, expected, "{output}");
    }
    // Its report has what it had run, and what it died of.
    let report = "<testsuite name=\"pytest\"><testcase classname=\"a\" name=\"test_one\"><failure/></testcase><testcase time=\"0\"/><testcase classname=\"pytest\" name=\"internal\"><error message=\"internal error\"/></testcase></testsuite>";
    let read = parse(Some(Runner::Pytest), "", &[report]);
    assert_eq!((read.finished, read.bad().collect::<Vec<_>>()), (false, vec!["a::test_one"]));
    let whole = "<testsuite name=\"pytest\"><testcase classname=\"a\" name=\"test_one\"><failure/></testcase></testsuite>";
    let read = parse(Some(Runner::Pytest), &interrupted("KeyboardInterrupt"), &[whole]);
    assert_eq!((read.runners, read.finished), (vec![Runner::Junit], false));
}

#[test]
fn a_run_that_breaks_off_says_nothing_of_what_it_does_not_name() {
    let rows: [(&str, &[&str], &[&str], &str); 8] = [
        (
            "the second on the base",
            &[FAILS, DIES],
            &[FAILS],
            "fixed 0 · broke 0 · 2 fail as before",
        ),
        ("and one is repaired", &[FAILS, DIES], &[MENDED], "fixed 1 · broke 0 · 1 fails as before"),
        (
            "the first on the base",
            &[DIES, FAILS],
            &[MENDED],
            "fixed 1 · broke 0 · 1 fails as before",
        ),
        (
            "on the change",
            &[FAILS, FAILS],
            &[DIES],
            "fixed 0 · broke 0 · 2 that failed not reached",
        ),
        (
            "on the change, and before",
            &[FAILS, DIES],
            &[DIES, DIES],
            "fixed 0 · broke 0 · 2 that failed not reached",
        ),
        (
            "once on the change",
            &[FAILS, FAILS],
            &[DIES, MENDED],
            "fixed 1 · broke 0 · 1 fails as before",
        ),
        ("on the base", &[DIES, DIES], &[MENDED], "fixed 0 · broke 0 · 1 not reached before fails"),
        (
            "not at all",
            &[FAILS, MENDED],
            &[MENDED],
            "fixed 0 · broke 0 · 1 fails as before · 1 flaky",
        ),
    ];
    for (about, base, head, expected) in rows {
        assert_eq!(compared(base, head).line(), expected, "{about}");
    }
}

#[test]
fn a_second_run_that_hides_names_or_ran_less_makes_nothing_flaky() {
    let hidden = "2 failed, 3 passed in 0.04s\n";
    let stopped = "F\nFAILED t/b.py::test_four - no\n!!!!!! stopping after 1 failures !!!!!!\n1 failed, 1 passed in 0.04s\n";
    for again in [hidden, stopped] {
        let found = compared(&[FAILS, again], &[FAILS]);
        assert_eq!(found.line(), "fixed 0 · broke 0 · 2 fail as before", "{again}");
    }
    let found = compared(&[FAILS], &[hidden]);
    assert_eq!(found.line(), "fixed 0 · broke 0 · 2 fail without a name · 2 no longer run");
    assert_eq!(found.nameless, 2);
}

#[test]
fn how_many_tests_there_are_is_said_where_the_runner_says_it() {
    let rows = [
        (pytest(FAILS), Some("2 of 5 tests fail")),
        (pytest(DIES), Some("1 test fails")),
        (
            parse(
                None,
                "--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\tx/calc\t0.1s\nok  \tx/app\t0.1s\nFAIL\n",
                &[],
            ),
            Some("2 tests fail"),
        ),
        (parse(None, "ok  \tx/app\t0.1s\n", &[]), None),
    ];
    for (results, expected) in rows {
        assert_eq!(results.failures().as_deref(), expected, "{results:?}");
        assert_eq!(results.clone().only_bad(1).failures().as_deref(), expected, "{results:?}");
    }
    assert_eq!(parse(None, "ok  \tx/app\t0.1s\n", &[]).total(), None);
}

#[test]
fn a_test_that_was_altered_itself_is_set_apart() {
    let mut found = compared(&[FAILS], &["5 passed in 0.04s\n"]);
    found.set_altered_apart(|name| name.ends_with("test_one"));
    assert_eq!(found.line(), "fixed 1 · broke 0 · 1 passes after a change to the test itself");
    // The names of very many are cut.
    let mut many = Comparison { fixed: Names { count: 300, names: vec!["a".to_owned()] }, ..found };
    many.altered = Names::default();
    many.set_altered_apart(|_| true);
    assert_eq!((many.fixed.count, many.altered.count), (0, 300));
}
