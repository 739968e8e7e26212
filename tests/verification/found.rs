//! Where checks come from.

use serde_json::json;

use super::{PYTHON, in_docker, repair, result, sh};
use crate::support::model::say;
use crate::support::world::{TestWorld, github_with};

fn commands(world: &TestWorld) -> Vec<String> {
    let result = result(world);
    let rows = result["evidence"]["rows"].as_array().unwrap();
    rows.iter().map(|row| row["command"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn python_without_configuration_is_tested() {
    let world = in_docker(PYTHON, [repair(), say("Add instead of subtracting")]);
    world.issue().expect(0);
    let commands = commands(&world);
    assert_eq!(commands.len(), 1);
    assert!(commands[0].contains("python -m unittest discover -s tests"), "{commands:?}");
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("Commands from: found by the repository's kind"), "{body}");
}

#[test]
fn the_command_of_a_ci_file_is_run_and_its_place_is_said() {
    let workflow = "on: [push]\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n      - run: python -m unittest discover -v -s tests\n";
    let files = [PYTHON, &[(".github/workflows/ci.yml", workflow)]].concat();
    let world = in_docker(&files, [repair(), say("Add instead of subtracting")]);
    world.issue().expect(0);
    assert_eq!(commands(&world), ["python -m unittest discover -v -s tests"]);
    let row = &result(&world)["evidence"]["rows"][0];
    assert_eq!(row["found"], ".github/workflows/ci.yml, line 7");
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("found in `.github/workflows/ci.yml, line 7`"), "{body}");
    assert!(body.contains("fixed 1 · broke 0"), "{body}");
}

#[test]
fn of_many_packages_those_that_are_changed_are_checked_before_and_after() {
    let names: Vec<String> = (0..6).map(|n| format!("packages/p{n}/run_tests.sh")).collect();
    let manifests: Vec<String> = (0..6).map(|n| format!("packages/p{n}/package.json")).collect();
    let manifest = r#"{"scripts": {"test": "sh ./run_tests.sh"}}"#;
    let mut files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "exit 0\n")).collect();
    files.extend(manifests.iter().map(|name| (name.as_str(), manifest)));
    let turns = [sh("echo x > packages/p3/new.txt"), say("Add a file")];
    let world = TestWorld::new(github_with(&files), turns);
    world.issue().expect(0);
    assert_eq!(commands(&world), ["cd packages/p3 && npm test"]);
    let result = result(&world);
    let row = &result["evidence"]["rows"][0];
    assert!(row["base"].is_object() && row["head"].is_object(), "{row:#}");
    assert_ne!(result["evidence"]["notes"], json!(null));
}
