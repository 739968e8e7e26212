//! Test steps of CI: what is built before them, and which of them decide.

use serde_json::json;

use super::{result, sh};
use crate::support::model::say;
use crate::support::world::{TestWorld, github_with};

const CI: &str = ".github/workflows/ci.yml";
/// Tests what its build makes of the sources.
const PACKAGE: &str = r#"{"name": "calc", "scripts": {"build": "mkdir dist && cp calc.txt dist", "test": "grep -q good dist/calc.txt", "test:next": "false", "deploy": "touch deployed"}}"#;

fn workflow(steps: &str) -> String {
    format!("on: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n{steps}")
}

fn repaired(steps: &str) -> TestWorld {
    let workflow = workflow(steps);
    let files = [(CI, workflow.as_str()), ("package.json", PACKAGE), ("calc.txt", "bad\n")];
    let turns = [sh("echo good > calc.txt"), say("Repair it"), say("It is not mine.")];
    TestWorld::new(github_with(&files), turns).set("PATCHWRIGHT_SETUP", "none")
}

fn rows(world: &TestWorld) -> Vec<serde_json::Value> {
    result(world)["evidence"]["rows"].as_array().unwrap().clone()
}

#[test]
fn what_ci_builds_before_its_tests_is_built() {
    let steps = [
        "      - run: npm ci\n      - run: npm run build\n      - run: npm run deploy\n      - run: npm test\n",
        "      - run: |\n          npm ci\n          npm run build\n          npm test\n",
        "      - run: npm ci && npm run build && npm test\n",
    ];
    for steps in steps {
        let world = repaired(steps);
        world.issue().expect(0);
        let rows = rows(&world);
        assert_eq!(rows.len(), 1, "{rows:#?}");
        assert_eq!(rows[0]["command"], "npm run build && npm test", "{steps}");
        assert_ne!(rows[0]["base"]["exit_code"], 0, "{steps}");
        assert!(!world.github.pulls()[0].draft, "{steps}");
    }
}

#[test]
fn a_step_that_may_fail_decides_nothing() {
    let steps = "      - run: npm run build\n      - run: npm test\n      - run: npm run test:next\n        continue-on-error: true\n";
    let world = repaired(steps);
    world.issue().expect(0);
    assert_eq!(rows(&world).len(), 1);
    assert!(!world.github.pulls()[0].draft);
    // Where it is all that there is, the convention is not taken instead.
    let steps = "      - run: npm test\n        continue-on-error: true\n";
    let world = repaired(steps);
    world.issue().expect(0);
    assert_eq!(rows(&world), [json!(null); 0]);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("may fail there, so it is no check here"), "{body}");
    assert!(body.contains("none were found that count"), "{body}");
}
