//! What may not leave the building, and what people are told about it.

use expect_test::expect;
use serde_json::json;

use super::{check, state};
use crate::support::model::{call, custom, say};
use crate::support::world::{KEY, PATCH, TestWorld, github, write};

#[test]
fn workflow_files_are_handed_over_as_a_patch_and_the_rest_is_published() {
    let mut turns = vec![custom("apply_patch", PATCH)];
    turns.extend(write(".github/workflows/ci.yml", "on: push", "Add, and run it in CI"));
    let world = TestWorld::new(github(), turns);
    let output = world.issue().expect(20);
    check(&output.text(), &expect![[""]]);
    let pull = &world.github.pulls()[0];
    assert!(pull.body.contains("+on: push"), "{}", pull.body);
    assert!(world.result("held-back.patch").contains("+on: push"));
    assert!(!world.result("change.patch").contains("on: push"));
    let path = world.github.repository_path();
    let tree =
        crate::support::git_repo::git(&path, &["ls-tree", "-r", "--name-only", &pull.head_sha]);
    assert_eq!(tree, "README.md\ncalc.sh\ntest.sh\n");
}

#[test]
fn a_change_of_workflow_files_alone_is_refused_and_nothing_is_pushed() {
    let world = TestWorld::new(github(), write(".github/workflows/ci.yml", "on: push", "CI"));
    let output = world.issue().expect(30);
    check(&output.text(), &expect![[""]]);
    check(&state(&world), &expect![[""]]);
    assert!(world.result("held-back.patch").contains("+on: push"));
}

#[test]
fn protected_files_make_the_pull_request_a_draft() {
    let mut turns = vec![custom("apply_patch", PATCH)];
    turns.extend(write("Makefile", "all:", "Add, and a Makefile"));
    let world = TestWorld::new(github(), turns);
    world.issue().expect(0);
    let pull = &world.github.pulls()[0];
    assert!(pull.draft);
    assert!(pull.body.contains("Makefile"), "{}", pull.body);
}

#[test]
fn a_change_that_holds_our_own_key_is_refused_and_the_key_is_nowhere() {
    let (front, back) = KEY.split_at(10);
    let command = format!("a={front}; printf '%s%s\\n' $a {back} > notes.txt");
    let world = TestWorld::new(
        github(),
        [call("shell_command", json!({"command": command})), say("Noted.")],
    );
    let output = world.issue().expect(30);
    check(&output.text(), &expect![[""]]);
    check(&state(&world), &expect![[""]]);
    assert_eq!(world.holds(KEY), Vec::<std::path::PathBuf>::new());
}

#[test]
fn no_change_is_no_pull_request() {
    let world = TestWorld::new(github(), [say("Nothing is wrong here.")]);
    let output = world.issue().expect(10);
    check(&output.text(), &expect![[""]]);
    check(&state(&world), &expect![[""]]);
}

#[test]
fn a_question_ends_up_in_the_comment() {
    let world = TestWorld::new(github(), [say("Looked.\n\nNEEDS INPUT: which base, 8 or 10?")]);
    world.issue().expect(10);
    check(&state(&world), &expect![[""]]);
}
