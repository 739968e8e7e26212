//! `patchwright eval mine --from reviews`: what reviewers of merged pull requests asked for, as instances.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::github::{GitHub, Wanted};
use crate::support::model::Turn;
use crate::support::world::{TestWorld, write};

/// Doubles each number of its arguments.
const FIRST: &str = "for n in \"$@\"; do\n  echo $((n + n))\ndone\n";
/// Refuses large ones, which the reviewer asked for.
const LATER: &str = "for n in \"$@\"; do\n  [ \"$n\" -lt 100 ] || { echo \"$n is too large\" >&2; exit 2; }\n  echo $((n + n))\ndone\n";
const TEST: &str = "#!/bin/sh\n# Test Anything Protocol\nok() { eval \"$2\" && echo \"ok $1 - $3\" || { echo \"not ok $1 - $3\"; bad=1; }; }\n";

fn tests(rows: &[&str]) -> String {
    let count = rows.len();
    format!("{TEST}echo 1..{count}\n{}\nexit ${{bad:-0}}\n", rows.join("\n"))
}

/// A repository with a pull request that adds a program and its test.
fn github() -> GitHub {
    let test = tests(&["ok 1 '[ \"$(sh double.sh 2)\" = 4 ]' doubles"]);
    let files = [("double.sh", FIRST), ("tests/double.sh", test.as_str())];
    GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .pull(3, "Double numbers", "double", &files)
        .by("author")
        .body("Prints twice each number.<!-- nobody sees this -->")
}

/// What the author pushes after the review.
fn pushed(world: &TestWorld) {
    let test = tests(&[
        "ok 1 '[ \"$(sh double.sh 2)\" = 4 ]' doubles",
        "ok 2 '! sh double.sh 100 2>/dev/null' refuses",
    ]);
    world.github.push_to_pull(3, &[("double.sh", LATER), ("tests/double.sh", &test)]);
}

fn remark(line: u32, body: &str) -> Wanted {
    Wanted {
        path: "double.sh".to_owned(),
        line: Some(line),
        body: body.to_owned(),
        ..Wanted::default()
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const MINE: [&str; 8] =
    ["eval", "mine", "--from", "reviews", "--issues", "acme/app", "--verify", "sh tests/double.sh"];

fn reasons(world: &TestWorld) -> Vec<String> {
    let skipped = lines(&world.path("instances.skipped.jsonl"));
    skipped.iter().map(|it| it["why"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_review_asked_for_becomes_an_instance_that_the_tests_after_it_decide() {
    let right: Vec<Turn> = write("double.sh", LATER, "Large ones are refused.");
    let world = TestWorld::new(github(), right);
    let reviewed = world.github.pulls()[0].head_sha.clone();
    let body = "Only small numbers can be doubled.<!-- or hidden ones -->";
    world.github.review_as("rita", 3, "CHANGES_REQUESTED", body, &[remark(2, "Refuse `100`.")]);
    let thread = world.github.comment_on_line("rita", 3, "double.sh", 1, "And test that.");
    pushed(&world);
    world.github.reply("author", thread, "Done by a comparison.");
    world.github.review_as("rita", 3, "APPROVED", "Good.", &[]);
    world.github.merge(3);
    world.run(&MINE).expect(0);
    let instances = lines(&world.path("instances.jsonl"));
    let instance = &instances[0];
    assert_eq!(instances.len(), 1);
    assert_eq!(instance["instance_id"], format!("acme__app-3-review-{}", &reviewed[..10]));
    assert_eq!(instance["base_commit"], reviewed);
    assert_eq!(instance["statement"], "review");
    assert_eq!(instance["FAIL_TO_PASS"], json!(["refuses"]));
    assert_eq!(instance["PASS_TO_PASS"], json!(["doubles"]));
    let patch = instance["patch"].as_str().unwrap();
    assert!(patch.contains("is too large") && !patch.contains("tests/"), "{patch}");
    let told = instance["problem_statement"].as_str().unwrap();
    for said in [
        "\"Double numbers\"",
        "Prints twice each number.",
        "Only small numbers can be doubled.",
        "+  echo $((n + n))\n```\n\nRefuse `100`.",
        "And test that.",
    ] {
        assert!(told.contains(said), "{said} is not in\n{told}");
    }
    for kept_back in ["nobody sees", "hidden ones", "comparison", "Good."] {
        assert!(!told.contains(kept_back), "{kept_back} is in\n{told}");
    }
    // A second call skips it, and a model that makes the requested change resolves it.
    let again = world.run(&MINE).expect(0);
    assert!(!again.stderr.contains("trying"), "{}", again.text());
    let output = world.run(&["eval", "run", "instances.jsonl"]).expect(0);
    assert!(output.stdout.contains("1 of 1"), "{}", output.text());
    let first = String::from_utf8(world.model.requests().remove(0).raw.clone()).unwrap();
    assert!(first.contains("Only small numbers can be doubled."), "{first}");
    assert!(!first.contains("is too large"), "the model was shown the solution");
}

#[test]
fn reviews_that_led_to_nothing_that_can_be_judged_are_said_with_the_reason() {
    let world = TestWorld::new(github(), Vec::new());
    pushed(&world);
    world.github.merge(3);
    world.run(&MINE).expect(10);
    assert_eq!(reasons(&world), ["nobody has reviewed it"]);

    let world = TestWorld::new(github(), Vec::new());
    world.github.review_as("rita", 3, "APPROVED", "Good.", &[]);
    // What is still open may be reviewed later, so nothing is said of it yet.
    world.run(&MINE).expect(10);
    assert!(!world.path("instances.skipped.jsonl").exists());
    world.github.merge(3);
    world.run(&MINE).expect(10);
    assert_eq!(reasons(&world), ["nothing was changed after its review"]);

    let world = TestWorld::new(github(), Vec::new());
    world.github.review_as("rita", 3, "CHANGES_REQUESTED", "Refuse `100`.", &[]);
    world.github.force_push(3, &[("double.sh", LATER)], false);
    world.github.merge(3);
    world.run(&MINE).expect(10);
    assert_eq!(reasons(&world), ["its branch was rewritten after its review"]);

    let world = TestWorld::new(github(), Vec::new());
    world.github.review_as("rita", 3, "CHANGES_REQUESTED", "Say what it does.", &[]);
    world.github.push_to_pull(3, &[("README.md", "# app\n\n`double.sh` doubles.\n")]);
    world.github.merge(3);
    world.run(&MINE).expect(10);
    assert_eq!(reasons(&world), ["it adds no test and changes none"]);
}

#[test]
fn reviews_are_asked_for_with_the_name_of_a_repository_on_github() {
    let world = TestWorld::new(github(), Vec::new());
    let address = format!("{}/acme/app", world.github.server_url());
    let output = world.run(&["eval", "mine", "--from", "reviews", "--repo", &address]).expect(2);
    assert!(output.stderr.contains("--issues OWNER/REPO"), "{}", output.text());
}
