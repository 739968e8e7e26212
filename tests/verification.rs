//! The repository's own checks in whole runs: where they come from, where they run, what is said of each
//! test, what goes back to the model, and what a run is worth whose checks are red.

mod altered;
mod found;
mod hidden_codes;
mod line_ends;
mod lost;
mod noise;
mod packages;
mod steps;
mod stopped;
mod usual_names;

use patchwright_journal::{self as journal, Entry};
use serde_json::{Value, json};

use crate::support::model::{Turn, call, say};
use crate::support::world::{TestWorld, github_with};

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n";
const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n\n    def test_double(self):\n        self.assertEqual(calc.double(2), 4)\n";
/// A test that no change to the project can repair.
const ELSEWHERE: &str = "import unittest\n\n\nclass Elsewhere(unittest.TestCase):\n    def test_host(self):\n        open('/no/such/machine')\n";
/// Python without any configuration.
const PYTHON: &[(&str, &str)] = &[("calc.py", CALC), ("tests/test_calc.py", TESTS)];

fn sh(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

fn repair() -> Turn {
    sh("sed -i 's/a - b/a + b/' calc.py")
}

/// A change that has nothing to do with it.
fn useless() -> Turn {
    sh("echo '# calc' > README.md")
}

fn in_docker(files: &[(&str, &str)], turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    TestWorld::new(github_with(files), turns).in_docker()
}

/// The last that the model was told in a request.
fn told(world: &TestWorld, request: usize) -> String {
    let body = &world.model.requests()[request].body;
    let last = body["input"].as_array().unwrap().last().unwrap();
    last["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn result(world: &TestWorld) -> Value {
    serde_json::from_str(&world.result("result.json")).unwrap()
}

/// On which side checks ran, in order.
fn sides(world: &TestWorld) -> Vec<String> {
    let lines = journal::read(&world.runs()[0].join("journal.jsonl")).unwrap();
    let when = lines.iter().filter_map(|line| match &line.entry {
        Entry::Checked { when, .. } => Some(when.clone()),
        _ => None,
    });
    when.collect()
}

#[test]
fn a_bug_that_is_not_repaired_goes_back_and_the_run_is_partly_done() {
    let world = in_docker(PYTHON, [useless(), say("All tests pass."), say("It is not mine.")]);
    world.issue().expect(20);
    assert_eq!(world.model.requests().len(), 3, "once: the model did nothing about it");
    let told = told(&world, 2);
    for text in [
        "in a fresh sandbox",
        "it failed before your change too",
        "Tests that failed before your change and still fail (1):",
        "test_add",
        "AssertionError: 0 != 4",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    assert!(!told.contains("test_double"), "{told}");
    let pull = &world.github.pulls()[0];
    assert!(pull.draft && pull.body.contains("Refs #7") && !pull.body.contains("Fixes #7"));
    assert!(pull.body.contains("fixed 0 · broke 0 · 1 fails as before"), "{}", pull.body);
    let comment = &world.github.comments(7)[0].body;
    assert!(comment.contains("**Patchwright: draft: checks fail**"), "{comment}");
    assert!(comment.contains("still fails, as it did before the change"), "{comment}");
    let result = result(&world);
    assert_eq!(
        (&result["conclusion"], &result["checks"]),
        (&json!("partial"), &json!("failed")),
        "{result:#}"
    );
}

#[test]
fn a_bug_that_is_repaired_is_shown_test_by_test() {
    let world = in_docker(PYTHON, [repair(), say("Add instead of subtracting")]);
    world.issue().expect(0);
    assert_eq!(sides(&world), ["base", "loop"], "once before, once after");
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft && pull.body.contains("Fixes #7"), "{}", pull.body);
    assert!(pull.body.contains("fixed 1 · broke 0"), "{}", pull.body);
    assert!(pull.body.contains("test_add"), "{}", pull.body);
    let tests = &result(&world)["evidence"]["rows"][0]["tests"];
    assert_eq!(tests["fixed"]["count"], 1, "{tests:#}");
    let comment = &world.github.comments(7)[0].body;
    assert!(comment.contains("(1 check passes: fixed 1 · broke 0)"), "{comment}");
}

#[test]
fn the_model_is_told_how_the_checks_went_before() {
    let world = in_docker(PYTHON, [repair(), say("Add instead of subtracting")]);
    world.issue().expect(0);
    let opening = world.model.requests()[0].body["input"].to_string();
    for text in ["<baseline>", "1 of 2 tests fail, twice", "test_add", "AssertionError: 0 != 4"] {
        assert!(opening.contains(text), "{text}: {opening}");
    }
}

#[test]
fn what_failed_elsewhere_and_still_does_is_no_reason_against_what_was_repaired() {
    let files = [PYTHON, &[("tests/test_elsewhere.py", ELSEWHERE)]].concat();
    let turns = [repair(), say("Repaired."), say("The other one needs another machine.")];
    let world = in_docker(&files, turns);
    world.issue().expect(0);
    let told = told(&world, 2);
    assert!(told.contains("test_host") && told.contains("in more tests"), "{told}");
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft && pull.body.contains("Fixes #7"), "{}", pull.body);
    assert!(pull.body.contains("fixed 1 · broke 0 · 1 fails as before"), "{}", pull.body);
}

/// It fails in every sandbox, and says why.
const OUTSIDE: &str = "import socket\nimport unittest\n\n\nclass Outside(unittest.TestCase):\n    def test_fetch(self):\n        socket.create_connection(('example.com', 80), timeout=5)\n";

#[test]
fn tests_that_find_no_network_before_and_after_make_no_draft_and_are_not_given_back() {
    let files = [PYTHON, &[("tests/test_outside.py", OUTSIDE)]].concat();
    let sandboxes: [fn(TestWorld) -> TestWorld; 2] = [TestWorld::in_docker, |world| world];
    for in_sandbox in sandboxes {
        let turns = [repair(), say("Add instead of subtracting")];
        let world = in_sandbox(TestWorld::new(github_with(&files), turns));
        world.issue().expect(0);
        let opening = world.model.requests()[0].body.to_string();
        let title = "Tests that need a network, which checks do not have (1)";
        assert!(opening.contains(title), "{opening}");
        assert_eq!(world.model.requests().len(), 2);
        let pull = &world.github.pulls()[0];
        assert!(!pull.draft && pull.body.contains("Fixes #7"), "{}", pull.body);
        let said = "fixed 1 · broke 0 · 1 fails for want of a network, as before";
        assert!(pull.body.contains(said), "{}", pull.body);
        assert!(!pull.body.contains("Not all checks pass"), "{}", pull.body);
        assert_eq!(result(&world)["conclusion"], "done");
    }
}

#[test]
fn a_test_that_the_change_broke_counts_where_its_check_was_red_before() {
    let files = [PYTHON, &[("tests/test_elsewhere.py", ELSEWHERE)]].concat();
    let turns = [
        sh("sed -i 's/a - b/a + b/; s/2 \\* a/3 * a/' calc.py"),
        say("Repaired."),
        sh("sed -i 's/3 \\* a/2 * a/' calc.py"),
        say("Mended."),
    ];
    let world = in_docker(&files, turns);
    world.issue().expect(0);
    let first = told(&world, 2);
    assert!(first.contains("Tests that passed before your change and fail now (1):"), "{first}");
    assert!(first.contains("test_double"), "{first}");
    assert!(!world.github.pulls()[0].draft);
}

#[test]
fn a_later_round_says_what_is_new_and_not_the_same_again() {
    let turns = [
        useless(),
        say("Done."),
        sh("echo more >> README.md"),
        say("Done again."),
        say("I do not know."),
    ];
    let world = in_docker(PYTHON, turns);
    world.issue().expect(20);
    assert_eq!(world.model.requests().len(), 5);
    let second = told(&world, 4);
    assert!(second.contains("It fails as it did in the last round."), "{second}");
    assert!(!second.contains("AssertionError"), "{second}");
}

#[test]
fn what_a_check_writes_is_neither_in_the_change_nor_where_the_model_works() {
    let verify = "echo report > junit.xml; mkdir -p htmlcov; echo x > htmlcov/a; echo litter >> calc.py.orig; python -m unittest discover -s tests";
    let turns = [
        useless(),
        say("Done."),
        sh("ls; sed -i 's/a - b/a + b/' calc.py"),
        say("Add instead of subtracting"),
    ];
    let world = in_docker(PYTHON, turns);
    world.run(&["issue", "acme/app#7", "--verify", verify]).expect(0);
    let listed = world.model.requests()[3].body["input"].to_string();
    assert!(listed.contains("README.md") && !listed.contains("htmlcov\\n"), "{listed}");
    let change: Value = serde_json::from_str(&world.result("change.json")).unwrap();
    let files = change["files"].as_array().unwrap();
    let paths: Vec<&str> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["README.md", "calc.py"]);
    // The same conversation comes to the same tree again.
    let id = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    let output = world.run(&["replay", &id]).expect(0);
    assert!(output.stdout.starts_with("same tree"), "{}", output.text());
}
