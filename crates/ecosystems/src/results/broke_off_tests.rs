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

const LIB_FAILS: &str = "     Running unittests src/lib.rs (target/debug/deps/csv-0123456789abcdef)\n\nrunning 2 tests\ntest keeps ... ok\ntest trims ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\nerror: test failed, to rerun pass `--lib`\n";
const DOC_FAILS: &str = "   Doc-tests csv\n\nrunning 2 tests\ntest src/a.rs - A::len (line 30) ... FAILED\ntest src/a.rs - A::new (line 12) ... ok\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\nerror: doctest failed, to rerun pass `--doc`\n";

fn cargo(output: &str) -> TestResults {
    parse(Some(Runner::CargoTest), output, &[])
}

/// cargo runs no binary behind one that failed, unless it is told to go on.
#[test]
fn what_cargo_did_not_come_to_is_neither_new_nor_dropped() {
    let lib_passes = LIB_FAILS
        .replace("trims ... FAILED", "trims ... ok")
        .replace("FAILED. 1 passed; 1 failed", "ok. 2 passed; 0 failed")
        .replace("error: test failed, to rerun pass `--lib`\n", "");
    let doc_passes = DOC_FAILS
        .replace("FAILED. 1 passed; 1 failed", "ok. 2 passed; 0 failed")
        .replace("FAILED", "ok")
        .replace("error: doctest failed, to rerun pass `--doc`\n", "");
    let whole = format!("{lib_passes}{doc_passes}");
    let behind = format!("{lib_passes}{DOC_FAILS}");
    let gone_on = format!("{LIB_FAILS}{DOC_FAILS}error: 2 targets failed:\n    `--lib`\n");
    let older = format!(
        "{}{doc_passes}error: test failed, to rerun pass '--lib'\n",
        LIB_FAILS.replace("error: test failed, to rerun pass `--lib`\n", "")
    );
    let rows = [
        (LIB_FAILS, &*behind, "fixed 1 · broke 0 · 1 not reached before fails"),
        (&gone_on, &behind, "fixed 1 · broke 0 · 1 fails as before"),
        (&whole, LIB_FAILS, "fixed 0 · broke 1"),
        (&whole, &gone_on, "fixed 0 · broke 2"),
        (&older, &whole, "fixed 1 · broke 0"),
    ];
    for (base, head, expected) in rows {
        assert_eq!(compare(&[cargo(base)], &[cargo(head)]).line(), expected, "{base}\n{head}");
    }
    for (output, is_whole) in
        [(LIB_FAILS, false), (&gone_on, true), (&older, true), (&behind, false), (&whole, true)]
    {
        let read = cargo(output);
        assert_eq!((read.is_whole(), read.finished), (is_whole, true), "{output}");
    }
    // A binary that crashes has no summary.
    let died = LIB_FAILS.replace("test result: FAILED. 1 passed; 1 failed", "abort");
    assert!(!cargo(&format!("{whole}{died}")).finished);
    assert!(!cargo(&format!("{died}{doc_passes}error: 1 target failed:\n    `--lib`\n")).finished);
}

#[test]
fn other_runners_that_stop_at_a_failure_do_not_say_what_the_rest_does() {
    let rows = [
        (
            Runner::Nextest,
            " Nextest run ID x\n        FAIL [   0.2s] (1/4) ws tests::a\n  Cancelling due to test failure: \n     Summary [   0.2s] 2/4 tests run: 1 passed, 1 failed, 0 skipped\n",
            "2/4 ",
            "4 ",
        ),
        (
            Runner::Jest,
            "FAIL t/a.test.js\n  ● adds\n\n    no\n\nTest Suites: 1 failed, 1 of 3 total\nTests:       1 failed, 1 passed, 2 total\n",
            "1 of 3",
            "3",
        ),
        (
            Runner::Surefire,
            "[ERROR] acme.SumTest.large -- Time elapsed: 0.1 s <<< FAILURE!\n[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n[INFO] Reactor Summary for acme 1.0:\n[INFO] core ........ FAILURE [  1.0 s]\n[INFO] app ......... SKIPPED\n",
            "SKIPPED",
            "SUCCESS [  1.0 s]",
        ),
        (
            Runner::Pytest,
            "F\n==== short test summary info ====\nFAILED t/b.py::test_four - no\n!!!!!! stopping after 1 failures !!!!!!\n1 failed, 1 passed in 0.04s\n",
            "stopping after 1 failures",
            "",
        ),
        (
            Runner::Pytest,
            "==== short test summary info ====\nERROR t/b.py\n!!!!!! Interrupted: 1 error during collection !!!!!!\n1 error in 0.04s\n",
            "Interrupted: 1 error during collection",
            "",
        ),
    ];
    for (runner, output, early, whole) in rows {
        let read = parse(Some(runner), output, &[]);
        assert!(read.finished && !read.is_whole() && read.counts.bad() == 1, "{read:?}");
        let read = parse(Some(runner), &output.replace(early, whole), &[]);
        assert!(read.is_whole(), "{read:?}");
    }
}

/// A line above them moves all doctests of a file, and they are printed as they end.
#[test]
fn doctests_are_the_same_on_other_lines() {
    let output = |tests: &[(&str, &str)]| {
        let failed = tests.iter().filter(|(_, word)| *word == "FAILED").count();
        let lines = tests.iter().map(|(name, word)| format!("test src/a.rs - {name} ... {word}\n"));
        let blocks = tests.iter().filter(|(_, word)| *word == "FAILED");
        let blocks = blocks
            .map(|(name, _)| format!("---- src/a.rs - {name} stdout ----\npanicked at {name}\n"));
        let (lines, blocks): (String, String) = (lines.collect(), blocks.collect());
        let word = if failed > 0 { "FAILED" } else { "ok" };
        format!(
            "   Doc-tests csv\n\nrunning {0} tests\n{lines}\nfailures:\n\n{blocks}\ntest result: {word}. {1} passed; {failed} failed; 0 ignored; 0 measured\n",
            tests.len(),
            tests.len() - failed
        )
    };
    let base =
        output(&[("A::len (line 30)", "FAILED"), ("A (line 104)", "FAILED"), ("A (line 9)", "ok")]);
    let moved = output(&[
        ("A (line 11)", "ok"),
        ("A (line 106)", "FAILED"),
        ("A::len (line 32)", "FAILED"),
    ]);
    let read = cargo(&base);
    let names: Vec<&str> = read.tests.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["csv (doc) src/a.rs - A", "csv (doc) src/a.rs - A (2)", "csv (doc) src/a.rs - A::len"]
    );
    assert_eq!(read.tests["csv (doc) src/a.rs - A (2)"].detail, "panicked at A (line 104)");
    let found = compare(&[read], &[cargo(&moved)]);
    assert_eq!(found.line(), "fixed 0 · broke 0 · 2 fail as before");
    let repaired =
        output(&[("A (line 11)", "ok"), ("A (line 106)", "FAILED"), ("A::len (line 32)", "ok")]);
    let found = compare(&[cargo(&base)], &[cargo(&repaired)]);
    assert_eq!(found.line(), "fixed 1 · broke 0 · 1 fails as before");
    // One that is taken out is not repaired by those of the items in its own.
    let taken_out = output(&[("A (line 11)", "FAILED"), ("A::len (line 32)", "ok")]);
    let without = output(&[("A::len (line 30)", "ok")]);
    let found = compare(&[cargo(&taken_out)], &[cargo(&without)]);
    assert_eq!(found.line(), "fixed 0 · broke 0 · 1 no longer runs");
    let terse = "running 2 tests\nsrc/a.rs - A (line 30) --- FAILED\n.\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n";
    assert_eq!(cargo(terse).bad().collect::<Vec<_>>(), ["src/a.rs - A"]);
}
