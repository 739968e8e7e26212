//! Checks whose exit code says something else than their tests, and reports of other checks.

use super::{PYTHON, TestWorld, in_docker, repair, result, sh, told, useless};
use crate::support::model::{Turn, say};
use serde_json::json;

/// Takes the arguments of pytest, and leaves a report where it comes to its end.
const PYTEST: &str = r#"#!/bin/sh
for word; do
  case $word in
    --junitxml=*) out=${word#--junitxml=} ;;
    --backend=disk) disk=1 ;;
  esac
done
[ -z "$disk" ] || [ ! -e dies ] || exit 3
if [ -n "$disk" ]; then why='<failure message="no"/>'; code=1; else why=; code=0; fi
echo "<testsuite tests=\"1\"><testcase classname=\"t\" name=\"roundtrip\">$why</testcase></testsuite>" > "$out"
exit $code
"#;

#[test]
fn a_pipe_does_not_hide_what_the_change_broke() {
    let verify = "python -m unittest discover -v -s tests 2>&1 | tee log";
    let wrong = sh("sed -i 's/a - b/a + b/; s/2 \\* a/3 * a/' calc.py");
    let world = in_docker(PYTHON, [wrong, say("Repaired."), say("Done."), say("Done.")]);
    world.run(&["issue", "acme/app#7", "--verify", verify]).expect(20);
    assert!(told(&world, 2).contains("test_double"), "{}", told(&world, 2));
    let pull = &world.github.pulls()[0];
    assert!(pull.draft && pull.body.contains("fixed 1 · broke 1"), "{}", pull.body);
    assert!(pull.body.contains("its tests say so, with exit code 0"), "{}", pull.body);
    let result = result(&world);
    assert_eq!(
        (&result["conclusion"], &result["checks"]),
        (&json!("partial"), &json!("failed")),
        "{result:#}"
    );
}

#[test]
fn a_pipe_that_hides_nothing_new_is_believed() {
    let verify = "python -m unittest discover -v -s tests 2>&1 | tee log";
    let world = in_docker(PYTHON, [repair(), say("Add instead of subtracting")]);
    world.run(&["issue", "acme/app#7", "--verify", verify]).expect(0);
    assert!(!world.github.pulls()[0].draft);
}

/// Tests that are started by the last line of their file, and a command that takes this line away.
fn without_tests(calc: &str, turns: &[Turn]) -> TestWorld {
    let tests = ["import sys\nsys.path.insert(0, '.')\n", PYTHON[1].1, "\n\nunittest.main()\n"];
    let files = [("calc.py", calc), ("tests/test_calc.py", &tests.concat())];
    let away = sh("sed -i 's/^unittest.main/# &/' tests/test_calc.py");
    in_docker(&files, [&[away], turns].concat())
}

const VERBOSE: &str = "python tests/test_calc.py -v";
const LOST: &str = "`python tests/test_calc.py -v` ran 2 tests before the change and none with it";

#[test]
fn a_check_that_is_made_to_run_no_tests_shows_nothing() {
    let calc = PYTHON[0].1.replace("a - b", "a + b");
    let world = without_tests(&calc, &[say("Repaired."), say("They stay away.")]);
    let output = world.run(&["issue", "acme/app#7", "--verify", VERBOSE]).expect(0);
    let told = told(&world, 2);
    assert!(told.contains("no test was seen to run; before your change there were 2"), "{told}");
    assert_eq!(world.model.requests().len(), 3, "{}", output.text());
    let body = &world.github.pulls()[0].body;
    assert!(body.contains(LOST) && body.contains("no test ran, with exit code 0"), "{body}");
    assert!(body.contains("Nothing shows that this works"), "{body}");
    assert_eq!(result(&world)["checks"], "none");
}

#[test]
fn a_check_that_failed_and_prints_no_tests_any_more_has_a_warning() {
    let world = without_tests(PYTHON[0].1, &[say("Repaired.")]);
    world.run(&["issue", "acme/app#7", "--verify", VERBOSE]).expect(0);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains(LOST), "{body}");
    assert_eq!(result(&world)["checks"], "passed");
}

#[test]
fn tests_that_passed_and_no_longer_run_are_named() {
    let verify = "python -m unittest discover -v -s tests";
    let change =
        "sed -i 's/a - b/a + b/' calc.py; sed -i 's/def test_double/def double/' tests/*.py";
    let world = in_docker(PYTHON, [sh(change), say("Add instead of subtracting")]);
    world.run(&["issue", "acme/app#7", "--verify", verify]).expect(0);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("fixed 1 · broke 0 · 1 that passed no longer runs"), "{body}");
    assert!(
        body.contains("Passed before, and no longer run:\n\n- `test_calc.Calc.test_double`"),
        "{body}"
    );
}

#[test]
fn a_check_that_dies_does_not_have_the_report_of_the_one_before() {
    let config = "verify: ['sh ./pytest', 'sh ./pytest --backend=disk']\n";
    let files = [("pytest", PYTEST), (".github/patchwright.yml", config)];
    let world = in_docker(&files, [sh("touch dies && ls"), say("Done."), say("Done.")]);
    world.issue().expect(20);
    let result = result(&world);
    let rows = &result["evidence"]["rows"];
    assert_eq!(rows[0]["head"]["tests"]["counts"]["passed"], 1, "{rows:#}");
    assert_eq!(rows[1]["base"]["tests"]["counts"]["failed"], 1, "{rows:#}");
    assert_eq!(rows[1]["head"]["tests"], json!(null), "{rows:#}");
    assert!(world.github.pulls()[0].draft);
}

#[test]
fn an_item_of_gitlabs_script_stops_at_what_fails_in_the_folder_of_those_before() {
    let ci = "test:\n  script:\n    - cd app\n    - |\n      sh test.sh\n      echo finished\n";
    let test = "[ -e good ] || { echo bad; exit 1; }\n";
    let files = [(".gitlab-ci.yml", ci), ("app/test.sh", test)];
    let world = in_docker(&files, [useless(), say("Done."), say("Done.")]);
    world.issue().expect(20);
    let head = &result(&world)["evidence"]["rows"][0]["head"];
    assert_eq!(head["exit_code"], 1, "{head:#}");
    assert!(!head["tail"].as_str().unwrap().contains("finished"), "{head:#}");
}

#[test]
fn a_failing_test_that_is_skipped_is_not_repaired() {
    let skip = sh(
        "sed -i 's/    def test_add/    @unittest.skip(\"later\")\\n    def test_add/' tests/test_calc.py",
    );
    let world = in_docker(PYTHON, [skip, say("Done."), say("It is done.")]);
    world.issue().expect(20);
    assert_eq!(world.model.requests().len(), 3, "once");
    assert!(told(&world, 2).contains("tests that failed no longer run"));
    let pull = &world.github.pulls()[0];
    assert!(pull.draft && pull.body.contains("Refs #7"), "{}", pull.body);
    assert!(pull.body.contains("⚠️ tests that failed no longer run"), "{}", pull.body);
    let result = result(&world);
    assert_eq!(result["checks"], "failed", "{result:#}");
}

/// A stand-in for `go test` without `-v`, which names what fails and nothing else.
const GO: &str = "grep -q 'func TestAbs' calc_test.go && ! grep -q fixed calc.go && {\n\
                  printf '%s\\n' '--- FAIL: TestAbs (0.00s)' FAIL 'FAIL\texample.com/calc\t0.1s' FAIL; exit 1; }\n\
                  printf 'ok  \\texample.com/calc\\t0.1s\\n'\n";

#[test]
fn a_failing_test_that_is_deleted_is_not_repaired_where_its_runner_names_failures_only() {
    let tests =
        "package calc\n\nfunc TestAbs(t *testing.T) {\n}\n\nfunc TestSum(t *testing.T) {\n}\n";
    let files = [("calc.go", "package calc\n"), ("calc_test.go", tests), ("gotest", GO)];
    let verify = "sh ./gotest # go test ./...";
    let deleted = sh("sed -i '/TestAbs/,/^}/d' calc_test.go");
    let world = in_docker(&files, [deleted, say("Done."), say("It is done.")]);
    let output = world.run(&["issue", "acme/app#7", "--verify", verify]).expect(20);
    assert!(output.text().contains("failed with exit code 1 (1 test fails)"), "{}", output.text());
    assert!(!told(&world, 2).contains("your change repaired"), "{}", told(&world, 2));
    let pull = &world.github.pulls()[0];
    assert!(pull.draft && pull.body.contains("tests that failed no longer run"), "{}", pull.body);
    assert!(pull.body.contains("removed or renamed, 0 added: `TestAbs`"), "{}", pull.body);
    // Repaired, the same output is believed.
    let world = in_docker(&files, [sh("echo '// fixed' >> calc.go"), say("Done.")]);
    world.run(&["issue", "acme/app#7", "--verify", verify]).expect(0);
    assert!(world.github.pulls()[0].body.contains("fixed 1 · broke 0"));
}
