//! Tests of the same name, in several files, folders or packages, and the tests of Go's packages, which only `-v` names.

use super::*;

/// The comparison of two outputs, in one line.
fn compared(hint: Option<Runner>, base: &str, head: &str) -> String {
    let read = |text: &str| {
        if text.starts_with("<?xml") { parse(None, "", &[text]) } else { parse(hint, text, &[]) }
    };
    compare(&[read(base)], &[read(head)]).line()
}

/// What it is about, the output before and after the change, and how they compare.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Runners that name only the test, or number it: one test is repaired, and another one of the same name breaks.
const WITHOUT_PLACES: &[Row] = &[
    (
        "bats",
        "1..3\nnot ok 1 negative\nnot ok 2 abs\nok 3 negative\n",
        "1..3\nnot ok 1 negative\nok 2 abs\nnot ok 3 negative\n",
        "fixed 1 · broke 1 · 1 fails as before",
    ),
    (
        "prove, with a new file in front",
        "t/b.t .. \n1..1\nnot ok 1 - loads\nDubious, test returned 1\nt/c.t .. \n1..1\nok 1 - loads\nok\n",
        "t/a.t .. \n1..1\nok 1 - loads\nok\nt/b.t .. \n1..1\nok 1 - loads\nok\nt/c.t .. \n1..1\nok 1 - loads\nok\n",
        "fixed 1 · broke 0 · 1 new passes",
    ),
    (
        "node, spec",
        "✖ adds (1ms)\n\n✔ adds (1ms)\nℹ tests 2\nℹ pass 1\nℹ fail 1\n",
        "✔ adds (1ms)\n✖ adds (1ms)\n\nℹ tests 2\nℹ pass 1\nℹ fail 1\n",
        "fixed 1 · broke 1",
    ),
    (
        "node, JUnit",
        "<?xml?><testsuites><testcase name=\"a\" classname=\"test\"><failure/></testcase><testcase name=\"a\" classname=\"test\"/></testsuites>",
        "<?xml?><testsuites><testcase name=\"a\" classname=\"test\"/><testcase name=\"a\" classname=\"test\"><failure/></testcase></testsuites>",
        "fixed 1 · broke 1",
    ),
    (
        "mocha",
        "  Sum\n    1) adds\n\n  Sum\n    ✔ adds\n\n  1 passing (5ms)\n  1 failing\n\n  1) Sum\n       adds:\n     Error: no\n",
        "  Sum\n    ✔ adds\n\n  Sum\n    1) adds\n\n  1 passing (5ms)\n  1 failing\n\n  1) Sum\n       adds:\n     Error: no\n",
        "fixed 1 · broke 1",
    ),
];

/// One run after the other, in two folders: a test of the first is repaired, and one of the second breaks.
const TWO_RUNS: &[Row] = &[
    (
        "pytest",
        "tests/a.py::test_x FAILED [100%]\n1 failed in 0.01s\ntests/a.py::test_x PASSED [100%]\n1 passed in 0.01s\n",
        "tests/a.py::test_x PASSED [100%]\n1 passed in 0.01s\ntests/a.py::test_x FAILED [100%]\n1 failed in 0.01s\n",
        "fixed 1 · broke 1",
    ),
    (
        "dotnet",
        "  Failed Acme.Sum [1 ms]\nFailed!  - Failed:     1, Passed:     0, Skipped:     0, Total:     1\n  Passed Acme.Sum [1 ms]\nPassed!  - Failed:     0, Passed:     1, Skipped:     0, Total:     1\n",
        "  Passed Acme.Sum [1 ms]\nPassed!  - Failed:     0, Passed:     1, Skipped:     0, Total:     1\n  Failed Acme.Sum [1 ms]\nFailed!  - Failed:     1, Passed:     0, Skipped:     0, Total:     1\n",
        "fixed 1 · broke 1",
    ),
    (
        "dotnet, in words",
        "  Failed Acme.Sum [1 ms]\nTest Run Failed.\nTotal tests: 1\n     Failed: 1\n  Passed Acme.Sum [1 ms]\nTest Run Successful.\nTotal tests: 1\n     Passed: 1\n",
        "  Passed Acme.Sum [1 ms]\nTest Run Successful.\nTotal tests: 1\n     Passed: 1\n  Failed Acme.Sum [1 ms]\nTest Run Failed.\nTotal tests: 1\n     Failed: 1\n",
        "fixed 1 · broke 1",
    ),
    (
        "automake",
        "FAIL: a.sh\n# TOTAL: 1\nTestsuite summary for x\n# PASS:  0\n# FAIL:  1\n# ERROR: 0\nPASS: a.sh\nTestsuite summary for x\n# PASS:  1\n# FAIL:  0\n# ERROR: 0\n",
        "PASS: a.sh\n# TOTAL: 1\nTestsuite summary for x\n# PASS:  1\n# FAIL:  0\n# ERROR: 0\nFAIL: a.sh\nTestsuite summary for x\n# PASS:  0\n# FAIL:  1\n# ERROR: 0\n",
        "fixed 1 · broke 1",
    ),
    (
        "phpunit, without lists",
        "Sum\n ✘ Adds\n\nTests: 1, Assertions: 1, Failures: 1.\nSum\n ✔ Adds\n\nOK (1 test, 1 assertion)\n",
        "Sum\n ✔ Adds\n\nOK (1 test, 1 assertion)\nSum\n ✘ Adds\n\nTests: 1, Assertions: 1, Failures: 1.\n",
        "fixed 1 · broke 1",
    ),
];

/// The same with runners that say where a test is from.
const WITH_PLACES: &[Row] = &[
    (
        "rspec",
        "Failures:\n\n  1) Sum adds\n     no\n\n2 examples, 1 failure\n\nrspec ./spec/a_spec.rb:3 # Sum adds\n",
        "Failures:\n\n  1) Sum adds\n     no\n\n2 examples, 1 failure\n\nrspec ./spec/b_spec.rb:9 # Sum adds\n",
        "fixed 1 · broke 1",
    ),
    (
        "rspec, shared examples",
        "2 examples, 1 failure\n\nrspec './spec/a_spec.rb[1:1:1]' # Sum adds\n",
        "2 examples, 1 failure\n\nrspec './spec/a_spec.rb[1:2:1]' # Sum adds\n",
        "fixed 0 · broke 0 · 1 fails as before",
    ),
    (
        "ctest",
        "1/2 Test #1: works ......***Failed    0.01 sec\n2/2 Test #2: works ......   Passed    0.01 sec\n50% tests passed, 1 tests failed out of 2\n",
        "1/2 Test #1: works ......   Passed    0.01 sec\n2/2 Test #2: works ......***Failed    0.01 sec\n50% tests passed, 1 tests failed out of 2\n",
        "fixed 1 · broke 1",
    ),
    (
        "gradle",
        "> Task :a:test FAILED\n\nSumTest > adds() FAILED\n    no\n\n2 tests completed, 1 failed\nBUILD FAILED in 1s\n",
        "> Task :a:test\n> Task :b:test FAILED\n\nSumTest > adds() FAILED\n    no\n\n2 tests completed, 1 failed\nBUILD FAILED in 1s\n",
        "fixed 1 · broke 1",
    ),
    (
        "jest, two projects",
        "FAIL node t/a.test.js\n  ● adds\n\n    no\n\nPASS dom t/a.test.js\nTest Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 1 passed, 2 total\n",
        "PASS node t/a.test.js\nFAIL dom t/a.test.js\n  ● adds\n\n    no\n\nTest Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 1 passed, 2 total\n",
        "fixed 1 · broke 1",
    ),
    (
        "cargo, two packages with a test file of the same name",
        "running 1 test\ntest adds ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\nrunning 1 test\ntest adds ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n",
        "running 1 test\ntest adds ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\nrunning 1 test\ntest adds ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n",
        "fixed 1 · broke 1",
    ),
];

#[test]
fn tests_of_the_same_name_are_told_apart_where_the_format_does() {
    for (about, base, head, expected) in WITHOUT_PLACES.iter().chain(TWO_RUNS).chain(WITH_PLACES) {
        assert_eq!(compared(None, base, head), *expected, "{about}");
    }
}

#[test]
fn another_try_of_a_test_is_no_other_test() {
    let rows = [
        (
            "ctest --repeat",
            "1/1 Test #1: works ......***Failed    0.01 sec\n1/1 Test #1: works ......   Passed    0.01 sec\n100% tests passed, 0 tests failed out of 1\n",
        ),
        (
            "pytest, failed and torn down badly",
            "<?xml?><testsuites><testsuite name=\"pytest\"><testcase classname=\"t\" name=\"a\"><failure/></testcase><testcase classname=\"t\" name=\"a\"><error/></testcase></testsuite></testsuites>",
        ),
        (
            "pytest -v -rA",
            "============ test session starts ============\nt/test_a.py::a FAILED [100%]\n======= short test summary info ========\nFAILED t/test_a.py::a - no\n====== 1 failed in 0.01s ======\n",
        ),
        (
            "jest, with its summary",
            "FAIL t/a.test.js\n  ● adds\n\n    no\n\nSummary of all failing tests\nFAIL t/a.test.js\n  ● adds\n\n    no\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 1 total\n",
        ),
    ];
    for (about, text) in rows {
        let junit: &[&str] = if text.starts_with("<?xml") { &[text] } else { &[] };
        let results = parse(None, text, junit);
        assert_eq!(results.tests.len(), 1, "{about}: {results:?}");
        assert_eq!(results.bad().count(), 1, "{about}: {results:?}");
    }
}

#[test]
fn a_long_name_is_kept_apart_too_and_its_reason_with_it() {
    let name = "long ".repeat(80);
    let text = format!("1..3\nok 1 {name}\nnot ok 2 {name}\n# two\nnot ok 3 {name}\n# three\n");
    let results = parse(None, &text, &[]);
    let why: Vec<&str> = results.tests.values().map(|test| test.detail.as_str()).collect();
    assert_eq!(why, ["", "# two", "# three"], "{results:?}");
}

#[test]
fn the_tests_of_a_package_of_go_count_though_only_failures_are_named() {
    let bad = "--- FAIL: TestAbs (0.00s)\n    --- FAIL: TestAbs/neg (0.00s)\n        a_test.go:3: no\nFAIL\nFAIL\texample.com/calc\t0.002s\n";
    let app = "ok  \texample.com/app\t0.004s\n";
    let base = format!("{bad}{app}FAIL\n");
    let rows = [
        ("repaired", "ok  \texample.com/calc\t0.004s\nok  \texample.com/app\t(cached)\n".to_owned(), "fixed 2 · broke 0"),
        (
            "with coverage",
            "ok  \texample.com/calc\t0.004s\tcoverage: 90.0% of statements\nok  \texample.com/app\t0.1s\tcoverage: [no statements]\n".to_owned(),
            "fixed 2 · broke 0",
        ),
        (
            "its test files are gone",
            format!("?   \texample.com/calc\t[no test files]\n{app}"),
            "fixed 0 · broke 0 · 2 no longer run",
        ),
        (
            "none is run",
            format!("ok  \texample.com/calc\t0.004s [no tests to run]\n{app}"),
            "fixed 0 · broke 0 · 2 no longer run",
        ),
        (
            "all test files are gone",
            "?   \texample.com/calc\t[no test files]\n?   \texample.com/app\t[no test files]\n".to_owned(),
            "fixed 0 · broke 0 · 2 no longer run · 1 that passed no longer runs",
        ),
        (
            "a test of the package that passed breaks",
            format!("--- FAIL: TestNull (0.00s)\nFAIL\nFAIL\texample.com/calc\t0.002s\n{app}FAIL\n"),
            "fixed 2 · broke 1",
        ),
        (
            "the other package breaks",
            "ok  \texample.com/calc\t0.004s\n--- FAIL: TestRun (0.00s)\nFAIL\nFAIL\texample.com/app\t0.002s\nFAIL\n".to_owned(),
            "fixed 2 · broke 1",
        ),
        (
            "a panic ends it before its other tests",
            format!("--- FAIL: TestNull (0.00s)\npanic: no\nFAIL\texample.com/calc\t0.002s\n{app}FAIL\n"),
            "fixed 0 · broke 2 · 2 no longer run",
        ),
    ];
    for (about, head, expected) in rows {
        assert_eq!(compared(Some(Runner::Go), &base, &head), expected, "{about}");
    }
    // One module alone, without tests.
    let gone = compared(Some(Runner::Go), bad, "?   \texample.com/calc\t[no test files]\n");
    assert_eq!(gone, "fixed 0 · broke 0 · 2 no longer run");
    // With `-v` all are named, so one that is absent was taken out.
    let verbose = "=== RUN   TestAbs\n--- FAIL: TestAbs (0.00s)\nFAIL\nFAIL\tx/calc\t0.1s\nFAIL\n";
    let other = "=== RUN   TestOther\n--- PASS: TestOther (0.00s)\nPASS\nok  \tx/calc\t0.1s\n";
    let found = compared(Some(Runner::Go), verbose, other);
    assert_eq!(found, "fixed 0 · broke 0 · 1 no longer runs · 1 new passes");
    // It did not build, and does now.
    let broken = "FAIL\tx/calc [build failed]\nFAIL\n";
    let found = compared(Some(Runner::Go), broken, "ok  \tx/calc\t0.1s\n");
    assert_eq!(found, "fixed 1 · broke 0");
}

/// What a test of automake printed is in its log once more, in the words of whatever ran in it.
#[test]
fn what_is_in_the_log_of_automake_is_counted_once() {
    let text = "PASS: t/a.tap 1 - adds\nFAIL: t/a.tap 2 - keeps the sign\nFAIL: t/py.sh\n\
                =======\n   calc 1.0: ./test-suite.log\n=======\n\n# TOTAL: 3\n# PASS:  1\n# FAIL:  2\n\n\
                FAIL: t/a\n=========\n\n1..2\nok 1 - adds\nnot ok 2 - keeps the sign\n\n\
                FAIL: t/py\n==========\n\nFAILED tests/test_a.py::test_b - no\n=== 1 failed, 4 passed in 0.01s ===\n\n\
                =======\nTestsuite summary for calc 1.0\n=======\n# TOTAL: 3\n# PASS:  1\n# SKIP:  0\n# XFAIL: 0\n\
                # FAIL:  2\n# XPASS: 0\n# ERROR: 0\n=======\n";
    let read = parse(None, text, &[]);
    assert_eq!(read.runners, [Runner::Automake], "{read:?}");
    assert_eq!((read.counts.passed, read.counts.failed), (1, 2), "{read:?}");
}

/// Of runners that name failures only: one failure is taken out, and another test comes for it.
#[test]
fn a_test_that_the_change_takes_out_is_not_repaired_by_silence() {
    let bad = "--- FAIL: TestAbs (0.00s)\nFAIL\nFAIL\tx/calc\t0.1s\nFAIL\n";
    let good = "ok  \tx/calc\t0.1s\n";
    let mut found = compare(&[parse(None, bad, &[])], &[parse(None, good, &[])]);
    assert_eq!(found.unnamed.names, ["x/calc.TestAbs"]);
    let mut renamed = found.clone();
    found.take_out(|name| name.ends_with("TestAbs"), &[]);
    assert_eq!(found.line(), "fixed 0 · broke 0 · 1 no longer runs");
    renamed.take_out(|name| name.ends_with("TestAbs"), &["TestAbsolute".to_owned()]);
    assert_eq!((renamed.gone.count, renamed.new_passing.count), (1, 1));
    // What is named is not in doubt.
    let named = "=== RUN   TestAbs\n--- PASS: TestAbs (0.00s)\nPASS\nok  \tx/calc\t0.1s\n";
    let mut found = compare(&[parse(None, bad, &[])], &[parse(None, named, &[])]);
    found.take_out(|_| true, &[]);
    assert_eq!(found.line(), "fixed 1 · broke 0");
}

/// A spec breaks beside a test that is repaired, and beside one that fails as before.
#[test]
fn tests_of_ruby_are_read_with_blanks_in_their_names() {
    let base = "  1) Failure:\nCalcTest#test_abs [t/calc.rb:4]:\nno\n\n  2) Error:\nCalcTest#test_other:\nRuntimeError: no\n\n3 runs, 3 assertions, 1 failures, 1 errors, 0 skips\n";
    let head = "  1) Failure:\nCalc::deep group#test_0001_keeps the sign [t/calc.rb:8]:\nno\n\n  2) Error:\nCalcTest#test_other:\nRuntimeError: no\n\n3 runs, 3 assertions, 1 failures, 1 errors, 0 skips\n";
    assert_eq!(compared(None, base, head), "fixed 1 · broke 1 · 1 fails as before");
    let read = parse(None, head, &[]);
    assert!(read.tests.contains_key("Calc::deep group#test_0001_keeps the sign"), "{read:?}");
    let verbose = "Calc#test_0001_keeps the sign = 0.01 s = .\nCalcTest#test_abs = 0.00 s = F\n\n  1) Failure:\nCalcTest#test_abs [t/calc.rb:4]:\nno\n\n2 runs, 2 assertions, 1 failures, 0 errors, 0 skips\n";
    assert!(parse(None, verbose, &[]).names_all());
}

#[test]
fn an_omitted_test_is_skipped_and_not_repaired() {
    let base = "===\nFailure: test: keeps the sign(CalcTest)\n<1> expected\n===\n\n2 tests, 2 assertions, 1 failures, 0 errors, 0 pendings, 0 omissions, 0 notifications\n";
    let head = "===\nOmission: later [test: keeps the sign(CalcTest)]\nt/calc.rb:6\n===\n\n2 tests, 1 assertions, 0 failures, 0 errors, 0 pendings, 1 omissions, 0 notifications\n";
    assert_eq!(compared(None, base, head), "fixed 0 · broke 0 · 1 no longer runs");
    let counts = parse(None, head, &[]).counts;
    assert_eq!((counts.passed, counts.skipped), (1, 1));
}

/// A name that is not understood must not make another test repaired.
#[test]
fn with_failures_that_have_no_name_nothing_is_repaired_by_silence() {
    let base = "FAIL: test_a\n  1) Failure:\nCalcTest#test_abs [t/calc.rb:4]:\nno\n\n3 runs, 3 assertions, 1 failures, 0 errors, 0 skips\n";
    let head = "  1) Failure:\n(of a form that nobody knows)\nno\n\n3 runs, 3 assertions, 1 failures, 0 errors, 0 skips\n";
    let expected = "fixed 0 · broke 0 · 1 fails without a name · 1 no longer runs";
    assert_eq!(compared(None, base, head), expected);
    let repaired = "3 runs, 3 assertions, 0 failures, 0 errors, 0 skips\n";
    assert_eq!(compared(None, base, repaired), "fixed 1 · broke 0");
}

#[test]
fn prove_without_names_is_read_by_its_report() {
    let report = |numbers: &str| {
        format!(
            "t/a.t .. \nFailed 1/3 subtests \nt/b.t .. ok\n\nTest Summary Report\n-------------------\n\
             t/a.t (Wstat: 256 (exited 1) Tests: 3 Failed: 1)\n  Failed tests:  {numbers}\n  Non-zero exit status: 1\n\
             Files=2, Tests=5,  0 wallclock secs\nResult: FAIL\n"
        )
    };
    let good = "t/a.t .. ok\nt/b.t .. ok\nAll tests successful.\nFiles=2, Tests=5,  0 wallclock secs\nResult: PASS\n";
    assert_eq!(compared(None, &report("2"), good), "fixed 1 · broke 0");
    assert_eq!(
        compared(None, &report("2"), &report("2-3")),
        "fixed 0 · broke 1 · 1 fails as before"
    );
    assert_eq!(compared(None, good, &report("1, 3")), "fixed 0 · broke 2");
    let died = good.replace("t/b.t .. ok\nAll tests successful.\n", "t/b.t .. \nNo subtests run \n\nTest Summary Report\n-------------------\nt/b.t (Wstat: 9 (Signal: KILL) Tests: 0 Failed: 0)\n  Non-zero wait status: 9\n");
    let read = parse(None, &died, &[]);
    assert_eq!(read.bad().collect::<Vec<_>>(), ["t/b.t"]);
    let repaired = good.replace("Tests=5", "Tests=6");
    assert_eq!(compared(None, &died, &repaired), "fixed 1 · broke 0");
}
