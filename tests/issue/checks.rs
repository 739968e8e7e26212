//! What the repository's own checks do to a run, and where they come from.

use expect_test::expect;
use serde_json::json;

use super::{check, state};
use crate::support::model::{call, custom, say};
use crate::support::world::{FILES, PATCH, TestWorld, fix, github_with};

/// A change that breaks what worked.
const BREAK: &str =
    "*** Begin Patch\n*** Update File: test.sh\n@@\n-#!/bin/sh\n+exit 3\n*** End Patch\n";
const MEND: &str =
    "*** Begin Patch\n*** Update File: test.sh\n@@\n-exit 3\n+#!/bin/sh\n*** End Patch\n";

/// The project with the bug repaired, so that its check passes on the base.
fn sound() -> Vec<(&'static str, &'static str)> {
    let mut files = FILES.to_vec();
    files[0] = ("calc.sh", "add() {\n  echo $(($1 + $2))\n}\n");
    files
}

#[test]
fn a_check_that_the_change_broke_goes_back_to_the_model() {
    let turns = [
        custom("apply_patch", BREAK),
        say("Done."),
        custom("apply_patch", MEND)
            .and(call("shell_command", json!({"command": "echo '# more' >> README.md"}))),
        say("Mended."),
    ];
    let world = TestWorld::new(github_with(&sound()), turns);
    world.issue().expect(0);
    let asked = world.model.requests();
    let told = asked[2].body["input"].as_array().unwrap().last().unwrap().to_string();
    assert!(told.contains("sh ./test.sh") && told.contains('3'), "{told}");
    let pulls = world.github.pulls();
    assert_eq!(pulls.len(), 1);
    assert!(!pulls[0].draft, "every check passes in the end");
}

#[test]
fn a_change_whose_checks_still_fail_becomes_a_draft() {
    let mut turns = vec![custom("apply_patch", BREAK)];
    turns.extend((0..3).map(|round| say(format!("Done, attempt {round}."))));
    let world = TestWorld::new(github_with(&sound()), turns);
    world.issue().expect(0);
    let pulls = world.github.pulls();
    assert_eq!((pulls.len(), pulls[0].draft), (1, true));
    assert_eq!(world.model.requests().len(), 4, "two rounds, no more");
}

#[test]
fn checks_come_from_the_base_commit_and_operator_keys_are_refused() {
    let mut files = FILES.to_vec();
    let config = "verify: ['sh test.sh', 'test -f README.md']\nlimits: { max-turns: 20 }\nmodel: other\naccess: { allow-bots: ['evil[bot]'] }\n";
    files.push((".github/patchwright.yml", config));
    let world = TestWorld::new(github_with(&files), fix());
    let output = world.issue().expect(0);
    check(&output.text(), &expect![[""]]);
    let body = &world.github.pulls()[0].body;
    for text in ["test -f README.md", "`model`", "`access`"] {
        assert!(body.contains(text), "{text}: {body}");
    }
}

#[test]
fn a_change_to_the_configuration_does_not_change_the_checks_of_this_run() {
    let mut files = FILES.to_vec();
    files.push((".github/patchwright.yml", "verify: ['sh test.sh']\n"));
    let patch = "*** Begin Patch\n*** Update File: .github/patchwright.yml\n@@\n-verify: ['sh test.sh']\n+verify: ['true']\n*** End Patch\n";
    let world = TestWorld::new(
        github_with(&files),
        [custom("apply_patch", PATCH), custom("apply_patch", patch), say("Done.")],
    );
    world.issue();
    let head = world.result("result.json");
    let result: serde_json::Value = serde_json::from_str(&head).unwrap();
    assert_eq!(result["evidence"]["rows"][0]["head"]["command"], "sh test.sh", "{}", state(&world));
}
