//! Outputs of real runners, and of the formats that others publish, in `tests/fixtures/ecosystems`. What
//! is read of each stands beside it in `read/`; `UPDATE_EXPECT=1` writes it anew.

use std::path::PathBuf;

use expect_test::expect_file;
use proptest::prelude::*;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/ecosystems")
}

fn fixture(name: &str) -> String {
    fs_err::read_to_string(folder().join(name)).unwrap()
}

fn read(name: &str) -> TestResults {
    let text = fixture(name);
    let is_junit = std::path::Path::new(name).extension().is_some_and(|it| it == "xml");
    if is_junit { parse(None, "", &[&text]) } else { parse(None, &text, &[]) }
}

fn shown(results: &TestResults) -> String {
    let counts = results.counts;
    let mut out = format!(
        "{:?} passed {} failed {} errors {} skipped {}{}{}{}\n",
        results.runners,
        counts.passed,
        counts.failed,
        counts.errors,
        counts.skipped,
        if results.finished { "" } else { ", broke off" },
        if results.truncated { ", truncated" } else { "" },
        if results.names_all() { "" } else { ", not all named" },
    );
    for (name, test) in &results.tests {
        out.push_str(&format!("{:?}: {name}\n", test.status));
        for line in test.detail.lines() {
            out.push_str(&format!("    {line}\n"));
        }
    }
    out
}

#[test]
fn outputs_of_runners_are_read_test_by_test() {
    let mut names: Vec<String> = fs_err::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| !["gcc.txt", "javac.txt", "rustc.txt"].contains(&name.as_str()))
        .collect();
    names.sort();
    assert!(names.len() > 30);
    for name in names {
        let results = read(&name);
        let expected = folder().join("read").join(&name);
        expect_file![expected.to_str().unwrap()].assert_eq(&shown(&results));
        assert!(results.counts.all() > 0 && results.bad().count() > 0, "{name}");
    }
}

#[test]
fn two_runners_in_one_output_are_both_read() {
    let both = format!("{}\n{}", fixture("cargo-test.txt"), fixture("jest.txt"));
    let results = parse(None, &both, &[]);
    assert_eq!(results.runners, [Runner::CargoTest, Runner::Jest]);
    assert!(results.bad().any(|name| name == "sums::tests::large"));
    assert!(results.bad().any(|name| name == "t/sums.test.js > add › large numbers"));
}

#[test]
fn other_outputs_are_nobody_s() {
    for text in ["", "hello\n1 passed the gate\n", "Compiling\nerror: no\n", &fixture("gcc.txt")] {
        assert!(parse(None, text, &[]).is_empty(), "{text}");
    }
    assert!(parse(None, "nothing", &["<a/>", "", "not xml", "<testsuite>"]).is_empty());
}

#[test]
fn a_hundred_thousand_tests_are_counted_and_the_bad_ones_are_named() {
    let mut output = "running 100000 tests\n".to_owned();
    for n in 0..99_990 {
        output.push_str(&format!("test passes_{n:05} ... ok\n"));
    }
    for n in 0..10 {
        output.push_str(&format!("test fails_{n} ... FAILED\n"));
    }
    output.push_str(
        "test result: FAILED. 99990 passed; 10 failed; 0 ignored; 0 measured; 0 filtered out\n",
    );
    let results = parse(Some(Runner::CargoTest), &output, &[]);
    assert!(results.truncated && results.finished && !results.names_all());
    assert_eq!(results.counts, Counts { passed: 99_990, failed: 10, errors: 0, skipped: 0 });
    assert_eq!(results.bad().count(), 10);
    assert_eq!(results.tests.len(), MAX_TESTS + 10);
}

#[test]
fn a_junit_file_that_breaks_off_counts_as_far_as_it_goes() {
    let text = fixture("pytest-junit.xml");
    let results = parse(None, "", &[&text[..text.len() / 2]]);
    assert!(!results.finished && results.truncated);
    assert!(results.bad().any(|name| name == "test_sums::test_large"));
}

#[test]
fn entities_do_not_grow() {
    let mut bomb = "<!DOCTYPE x [<!ENTITY a0 \"boom\">".to_owned();
    for n in 1..30 {
        bomb.push_str(&format!("<!ENTITY a{n} \"&a{0};&a{0};&a{0};\">", n - 1));
    }
    bomb.push_str(
        "]><testsuite><testcase name=\"x&a29;\"><failure>&a29;</failure></testcase></testsuite>",
    );
    let results = parse(None, "", &[&bomb]);
    assert_eq!(results.tests.keys().collect::<Vec<_>>(), ["x&a29;"]);
    assert_eq!(results.tests["x&a29;"].detail, "&a29;");
}

#[test]
fn patterns_are_all_valid() {
    for row in &RUNNERS {
        assert!(!row.mark.is_match("no such thing"), "{:?}", row.runner);
    }
}

#[test]
fn commands_name_their_runner_and_can_write_reports() {
    let rows: [(&str, Option<Runner>, Option<&str>); 16] = [
        (
            "python -m pytest -q",
            Some(Runner::Pytest),
            Some("python -m pytest -q --junitxml=/tmp/r1.xml"),
        ),
        (
            "PATH=.venv/bin:$PATH pytest tests/",
            Some(Runner::Pytest),
            Some("PATH=.venv/bin:$PATH pytest tests/ --junitxml=/tmp/r1.xml"),
        ),
        ("pytest --junitxml=out.xml", Some(Runner::Pytest), None),
        ("pytest -- x", Some(Runner::Pytest), None),
        ("cd a && pytest", Some(Runner::Pytest), None),
        ("pytest a && pytest b", Some(Runner::Pytest), None),
        (
            "npm run build && cd a && npm run build && npx vitest run",
            Some(Runner::Vitest),
            Some(
                "npm run build && cd a && npm run build && npx vitest run --reporter=default --reporter=junit --outputFile.junit=/tmp/r1.xml",
            ),
        ),
        ("python3 -m unittest discover", Some(Runner::Unittest), None),
        ("cargo test --workspace", Some(Runner::CargoTest), None),
        ("cargo nextest run", Some(Runner::Nextest), None),
        (
            "npx vitest run",
            Some(Runner::Vitest),
            Some(
                "npx vitest run --reporter=default --reporter=junit --outputFile.junit=/tmp/r1.xml",
            ),
        ),
        (
            "vendor/bin/phpunit",
            Some(Runner::Phpunit),
            Some("vendor/bin/phpunit --log-junit /tmp/r1.xml"),
        ),
        (
            "node --test test/",
            Some(Runner::NodeTest),
            Some(
                "node --test --test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit --test-reporter-destination=/tmp/r1.xml test/",
            ),
        ),
        (
            "ctest --test-dir build",
            Some(Runner::Ctest),
            Some("ctest --test-dir build --output-junit /tmp/r1.xml"),
        ),
        ("make test", None, None),
        ("npm test", None, None),
    ];
    for (command, runner, report) in rows {
        assert_eq!(runner_of(command), runner, "{command}");
        let made = command_with_report(command, "r1").map(|report| report.command);
        assert_eq!(made.as_deref(), report, "{command}");
    }
    assert_eq!(command_with_report("pytest", "../x"), None);
}

fn results(finished: bool, passed: u64, tests: &[(&str, Status)]) -> TestResults {
    let mut sink = Sink::new(Runner::Pytest);
    for (name, status) in tests {
        sink.test(name, *status);
    }
    sink.stated.passed = passed;
    sink.results.finished = finished;
    sink.done()
}

#[test]
fn two_sides_are_compared_test_by_test() {
    use Status::{Error, Failed, Passed, Skipped};
    let base = results(
        true,
        0,
        &[
            ("a", Failed),
            ("b", Passed),
            ("c", Failed),
            ("m.py", Error),
            ("s", Skipped),
            ("g", Failed),
            ("f", Passed),
        ],
    );
    let head = results(
        true,
        0,
        &[
            ("a", Passed),
            ("b", Failed),
            ("c", Failed),
            ("m.py::x", Passed),
            ("s", Passed),
            ("n", Failed),
            ("f", Failed),
        ],
    );
    let again = results(true, 0, &[("b", Failed), ("c", Failed), ("n", Failed), ("f", Passed)]);
    let found = compare(std::slice::from_ref(&base), &[head.clone(), again]);
    assert_eq!(found.fixed.names, ["a", "m.py"]);
    assert_eq!(found.broke.names, ["b"]);
    assert_eq!(found.still_failing.names, ["c"]);
    assert_eq!(found.new_failing.names, ["n"]);
    assert_eq!(found.flaky.names, ["f"]);
    assert_eq!(found.gone.names, ["g"]);
    assert_eq!(found.new_passing.names, ["m.py::x"]);
    assert_eq!(
        found.line(),
        "fixed 2 · broke 1 · 1 fails as before · 1 new fails · 1 flaky · 1 no longer runs · 1 new passes"
    );
    let found = compare(&[base], &[]);
    assert_eq!(found.line(), "fixed 0 · broke 0");
}

/// pytest numbers the cases whose values are no text.
#[test]
fn cases_that_got_another_number_are_the_same() {
    use Status::Passed;
    let side = |names: &[&str]| {
        let tests: Vec<(&str, Status)> = names.iter().map(|name| (*name, Passed)).collect();
        results(true, 0, &tests)
    };
    let base = side(&["t::a[x-expected0]", "t::a[y-expected1]", "t::a[-expected2]", "t::b[utf8]"]);
    let head = side(&[
        "t::a[x-expected0]",
        "t::a[y-expected1]",
        "t::a[z-expected2]",
        "t::a[-expected3]",
        "t::b[utf16]",
    ]);
    let found = compare(std::slice::from_ref(&base), std::slice::from_ref(&head));
    assert_eq!(found.new_passing.names, ["t::a[z-expected2]", "t::b[utf16]"]);
    // A number that counts nothing is a value.
    assert_eq!(found.dropped.names, ["t::b[utf8]"]);
    let found = compare(&[head], &[base]);
    assert_eq!(found.dropped.names, ["t::a[z-expected2]", "t::b[utf16]"]);
}

#[test]
fn runners_that_name_only_failures_are_compared_by_their_end() {
    use Status::Failed;
    // Dots: what is not named passed.
    let base = results(true, 10, &[("a", Failed), ("b", Failed)]);
    let head = results(true, 11, &[("b", Failed), ("c", Failed)]);
    let found = compare(std::slice::from_ref(&base), &[head]);
    assert_eq!(found.line(), "fixed 1 · broke 1 · 1 fails as before");
    // No more tests pass than before, and fewer run: what failed was taken out.
    let head = results(true, 10, &[]);
    let found = compare(std::slice::from_ref(&base), &[head]);
    assert_eq!(found.line(), "fixed 0 · broke 0 · 2 no longer run");
    // A run that broke off says nothing about the rest.
    let head = results(false, 3, &[("b", Failed)]);
    let found = compare(&[base], &[head]);
    assert!(found.is_partial);
    assert_eq!(found.line(), "fixed 0 · broke 0 · 1 fails as before · 1 that failed not reached");
}

#[test]
fn results_are_kept_in_less_room_with_what_failed_first() {
    use Status::{Failed, Passed};
    let names: Vec<String> = (0..2_000).map(|n| format!("test_{n:04}")).collect();
    let mut tests: Vec<(&str, Status)> = names.iter().map(|name| (name.as_str(), Passed)).collect();
    tests.push(("z_fails", Failed));
    let whole = results(true, 0, &tests);
    let kept = whole.clone().bounded(100, 1_000);
    assert!(kept.truncated && !kept.names_all() && kept.tests.len() <= 100);
    assert_eq!(kept.counts, whole.counts);
    assert_eq!(kept.bad().collect::<Vec<_>>(), ["z_fails"]);
    assert_eq!(whole.clone().bounded(5_000, 1 << 20), whole);
    // What was left out passed, for all that is known. The 99 by name are not on the head.
    let head = results(true, 0, &[("z_fails", Passed), ("test_1999", Failed)]);
    let found = compare(std::slice::from_ref(&kept), &[head]);
    assert_eq!(found.line(), "fixed 1 · broke 1 · 99 that passed no longer run");
    let bad = whole.only_bad(10);
    assert_eq!(bad.tests.len(), 1);
    let mut both = compare(std::slice::from_ref(&bad), std::slice::from_ref(&bad));
    both.join(&both.clone());
    assert_eq!(both.line(), "fixed 0 · broke 0 · 2 fail as before");
}

#[test]
fn the_first_error_and_the_tail_are_kept() {
    let noise: String = (0..2_000).map(|n| format!("noise {n}\n")).collect();
    let rows = [
        ("rustc.txt", "error[E0425]: cannot find value `y`"),
        ("gcc.txt", "a.c:2:26: error: ‘y’ undeclared"),
        ("javac.txt", "A.java:1: error: incompatible types"),
        ("pytest-quiet.txt", "RuntimeError: no database"),
        ("jest.txt", "● add › large numbers"),
        ("cargo-test.txt", "panicked at src/lib.rs:23:9"),
        ("go.txt", "broken/broken.go:4:9: undefined: missing"),
        ("surefire.txt", "SumTest.large"),
        ("unittest-dots.txt", "ERROR: test_breaks"),
    ];
    for (name, expected) in rows {
        let output = format!("starting\n{noise}{}{noise}make: leaving\n", fixture(name));
        let kept = digest(&output, 4_000);
        assert!(kept.len() <= 4_000, "{name}: {}", kept.len());
        assert!(kept.contains(expected), "{name}:\n{kept}");
        assert!(
            kept.ends_with("make: leaving") && kept.contains("lines left out …"),
            "{name}:\n{kept}"
        );
    }
    // What a passing test of a command line prints, as long before the failure as behind it.
    for most in [4_000, 2_000] {
        let kept = digest(&digest(&fixture("go-noise.txt"), 6_000), most);
        let failure = "--- FAIL: TestSum (0.00s)\n    --- FAIL: TestSum/small (0.00s)\n        calc_test.go:16: Sum(1, 2): expected 3, got -1\n";
        assert!(kept.contains(failure) && kept.len() <= most, "{kept}");
        assert_eq!(kept.matches(" left out …").count(), 2, "{kept}");
    }
    assert_eq!(digest("short\n", 100), "short");
    assert!(digest(&"x".repeat(10_000), 500).len() <= 500);
    assert!(digest(&format!("error: {}\n{noise}", "é".repeat(5_000)), 500).len() <= 500);
    let none = digest(&noise, 500);
    assert!(none.starts_with("… 19") && none.ends_with("noise 1999"), "{none}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_output_makes_a_parser_fail(cuts in prop::collection::vec((0..40usize, 0..4000usize, 0..600usize), 1..6), noise in "\\PC{0,200}") {
        let names: Vec<PathBuf> = fs_err::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        let mut output = String::new();
        for (which, from, length) in cuts {
            let text = fs_err::read_to_string(&names[which % names.len()]).unwrap();
            output.extend(text.chars().skip(from).take(length));
            output.push_str(&noise);
        }
        for row in &RUNNERS {
            let lines: Vec<&str> = output.lines().collect();
            (row.parse)(&lines);
        }
        parse(None, &output, &[&output]);
        prop_assert!(digest(&output, 300).len() <= 300);
    }
}
