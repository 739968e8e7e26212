//! Changes to the tests themselves, and test runners that break off: neither repairs anything.

use super::{ELSEWHERE, PYTHON, in_docker, result, sh, told};
use crate::support::model::say;

/// The test that fails expects what the code does.
const TURNED: &str = "sed -i 's/add(2, 2), 4/add(2, 2), 0/' tests/test_calc.py";

#[test]
fn a_test_that_is_turned_around_is_not_repaired_where_others_still_fail() {
    let files = [PYTHON, &[("tests/test_elsewhere.py", ELSEWHERE)]].concat();
    // With code beside it as well: the other test fails as it did.
    let beside = format!("{TURNED}; echo '# more' >> calc.py");
    for change in [TURNED, &beside] {
        let world = in_docker(&files, [sh(change), say("Repaired."), say("It is done.")]);
        world.issue().expect(20);
        let told = told(&world, 2);
        assert!(
            told.contains("altered the tests themselves, which shows no repair (1):"),
            "{told}"
        );
        assert!(!told.contains("your change repaired"), "{told}");
        let pull = &world.github.pulls()[0];
        assert!(pull.draft && pull.body.contains("Refs #7"), "{}", pull.body);
        let line =
            "fixed 0 · broke 0 · 1 fails as before · 1 passes after a change to the test itself";
        assert!(pull.body.contains(line), "{}", pull.body);
    }
}

#[test]
fn a_change_of_nothing_but_the_tests_that_fail_is_given_back_and_partly_done() {
    let world = in_docker(PYTHON, [sh(TURNED), say("Repaired."), say("The test was wrong.")]);
    world.issue().expect(20);
    assert_eq!(world.model.requests().len(), 3, "once");
    assert!(told(&world, 2).contains("because you changed the tests that failed and nothing else"));
    let pull = &world.github.pulls()[0];
    assert!(pull.draft && pull.body.contains("Refs #7"), "{}", pull.body);
    assert!(pull.body.contains("⚠️ only the tests that failed are changed"), "{}", pull.body);
    let result = result(&world);
    assert_eq!(result["evidence"]["rows"][0]["tests"]["altered"]["count"], 1, "{result:#}");
    assert_eq!((&result["conclusion"], &result["checks"]), (&"partial".into(), &"failed".into()));
}

#[test]
fn a_repair_with_another_expectation_is_done() {
    let other = "sed -i 's/a - b/a + b/' calc.py; sed -i 's/add(2, 2), 4/add(2, 3), 5/' tests/*.py";
    let world = in_docker(PYTHON, [sh(other), say("Add instead of subtracting")]);
    world.issue().expect(0);
    assert!(!world.github.pulls()[0].draft);
    // A test that expects more than before speaks for the change, whatever else fails.
    let files = [PYTHON, &[("tests/test_elsewhere.py", ELSEWHERE)]].concat();
    let more = "sed -i 's/a - b/a + b/' calc.py; sed -i '/add(2, 2)/a\\        self.assertEqual(calc.add(1, 1), 2)' tests/test_calc.py";
    let world = in_docker(&files, [sh(more), say("Add instead of subtracting"), say("Done.")]);
    world.issue().expect(0);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("fixed 1 · broke 0 · 1 fails as before"), "{body}");
}

/// Says what pytest says: two tests fail, or it dies in itself after one of them.
const DIES: &str = "[ -e dies ] && { echo 'INTERNALERROR> SystemError: no'; echo; echo '1 failed, 1 passed in 0.01s'; exit 3; }\n\
                    echo 'FAILED t/a.py::test_one - no'; echo 'FAILED t/a.py::test_two - no'; echo '2 failed, 3 passed in 0.01s'; exit 1\n";

#[test]
fn a_runner_that_breaks_off_says_nothing_of_the_tests_that_failed_before() {
    let files = [("run.sh", DIES), ("calc.py", "")];
    let turns = [sh("touch dies"), say("Repaired."), say("It is done."), say("It is.")];
    let world = in_docker(&files, turns);
    let output = world.run(&["issue", "acme/app#7", "--verify", "sh ./run.sh"]).expect(20);
    let said = "failed with exit code 3, and its tests broke off (1 test fails)";
    assert!(output.text().contains(said), "{}", output.text());
    assert!(output.text().contains("(2 of 5 tests fail)"), "{}", output.text());
    let told = told(&world, 2);
    assert!(
        told.contains("exit code 3, its tests broke off before their end; it failed before"),
        "{told}"
    );
    assert!(told.contains("this run, which broke off, says nothing (2):"), "{told}");
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("❌ failed (3): its tests broke off"), "{body}");
    assert!(body.contains("2 that failed not reached"), "{body}");
    assert!(!body.contains("once more") && !body.contains("flaky"), "{body}");
    assert_eq!(result(&world)["checks"], "failed");
}
