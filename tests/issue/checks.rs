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
    world.issue().expect(20);
    let pulls = world.github.pulls();
    assert_eq!((pulls.len(), pulls[0].draft), (1, true));
    assert_eq!(world.model.requests().len(), 4, "two rounds, no more");
}

#[test]
fn a_change_that_edits_its_own_check_is_a_draft_that_says_so() {
    let gut = "*** Begin Patch\n*** Update File: test.sh\n@@\n-#!/bin/sh\n+exit 0\n*** End Patch\n";
    let turns = [custom("apply_patch", gut), say("Fix the sum\n\nAll checks pass.")];
    let world = TestWorld::new(github_with(FILES), turns);
    world.issue().expect(0);
    let pulls = world.github.pulls();
    assert_eq!((pulls.len(), pulls[0].draft), (1, true));
    let body = &pulls[0].body;
    let (_, flags) = body.split_once("Please look at").expect("a section");
    for said in ["`test.sh`", "is run by the check `sh ./test.sh`", "`path.check`"] {
        assert!(flags.contains(said), "{said}: {body}");
    }
    // Who only adds a file beside the check does not decide what it says.
    let world = TestWorld::new(github_with(FILES), fix());
    world.issue().expect(0);
    assert!(!world.github.pulls()[0].draft);
}

#[test]
fn checks_come_from_the_base_commit_and_operator_keys_are_refused() {
    let mut files = FILES.to_vec();
    let config = "verify: ['sh test.sh', 'test -f README.md']\nlimits: { max-turns: 20 }\nmodel: other\naccess: { allow-bots: ['evil[bot]'] }\n";
    files.push((".github/patchwright.yml", config));
    let world = TestWorld::new(github_with(&files), fix());
    let output = world.issue().expect(0);
    check(
        &output.text(),
        &expect![[r#"
        exit 0
        --- stdout
        Add instead of subtracting

        The sign in `calc.sh` was wrong.
        --- stderr
        run RUN
        cloning the repository
        note: `model` in `.github/patchwright.yml` was refused: only the operator may set it
        note: `access.allow-bots` in `.github/patchwright.yml` was refused: only the operator may set it
        preparing the sandbox
        running the repository's checks on the base
        check on base: `sh test.sh` failed with exit code 1
        check on base: `test -f README.md` passed
        working on it
        · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
        · shell_command {"command":"sh test.sh"}
        · apply_patch calc.sh
        · shell_command {"command":"sh test.sh"}
        · update_plan {"plan":[{"step":"Find the bug","status":"completed"},{"step":"Fix it","status":"completed"}]}
        running the repository's checks on the change
        check on head: `sh test.sh` passed
        check on head: `test -f README.md` passed
        publishing
        pull request #8: GITHUB/acme/app/pull/8 (created)
    "#]],
    );
    let body = &world.github.pulls()[0].body;
    for text in ["test -f README.md", "`model` in", "`access.allow-bots` in"] {
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

#[test]
fn checks_are_found_by_folders_of_the_root() {
    let unittest = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(True)\n";
    let python = "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; else python -m unittest discover";
    let project = ("pyproject.toml", "[project]\nname = 'x'\n");
    let rows: [(Vec<(&str, &str)>, String); 4] = [
        (vec![project, ("tests/test_a.py", unittest)], format!("{python} -s tests; fi")),
        (
            vec![project, ("tests/__init__.py", "\n"), ("tests/test_a.py", unittest)],
            format!("{python} -s tests -t .; fi"),
        ),
        (vec![project, ("test/test_a.py", unittest)], format!("{python}; fi")),
        (
            vec![
                ("Gemfile", "source 'https://rubygems.org'\n"),
                ("Rakefile", "task :test\n"),
                ("spec/a_spec.rb", "describe('a') {}\n"),
            ],
            "bundle exec rspec".to_owned(),
        ),
    ];
    for (files, command) in rows {
        let turns = [call("shell_command", json!({"command": "echo x > new.txt"})), say("Done.")];
        let mut turns = turns.to_vec();
        // Where the image lacks the program, the check fails before and after.
        turns.push(say("Nothing more."));
        let world = TestWorld::new(github_with(&files), turns).set("PATCHWRIGHT_SETUP", "none");
        let output = world.issue().expect(0);
        assert!(
            output.stderr.contains(&format!("check on base: `{command}`")),
            "{}",
            output.text()
        );
        let body = &world.github.pulls()[0].body;
        assert!(!body.contains("No checks ran"), "{body}");
    }
}

/// An edit that repairs nothing.
fn useless() -> crate::support::model::Turn {
    call("shell_command", json!({"command": "echo '# more' >> README.md"}))
}

#[test]
fn a_check_that_failed_before_and_still_fails_goes_back_once() {
    let turns = [useless(), say("Done."), custom("apply_patch", PATCH), say("Now it is repaired.")];
    let world = TestWorld::new(github_with(FILES), turns);
    world.issue().expect(0);
    let asked = world.model.requests();
    assert_eq!(asked.len(), 4);
    let told = asked[2].body["input"].as_array().unwrap().last().unwrap().to_string();
    assert!(told.contains("it failed before your change too"), "{told}");
    assert!(!world.github.pulls()[0].draft);
    let comment = &world.github.comments(7)[0].body;
    assert!(comment.contains("Pull request: #8 (1 check passes)"), "{comment}");

    let world =
        TestWorld::new(github_with(FILES), [useless(), say("Done."), say("It is not mine.")]);
    world.issue().expect(20);
    assert_eq!(world.model.requests().len(), 3, "once, no more");
    assert!(world.github.pulls()[0].draft);
    let comment = &world.github.comments(7)[0].body;
    assert!(comment.starts_with("**Patchwright: draft: checks fail**"), "{comment}");
    assert!(comment.contains("Pull request: #8 (1 check fails)"), "{comment}");
    let result: serde_json::Value = serde_json::from_str(&world.result("result.json")).unwrap();
    assert_eq!((&result["conclusion"], &result["checks"]), (&json!("partial"), &json!("failed")));
}

#[test]
fn a_check_that_failed_before_is_nobodys_business_without_a_change() {
    let world = TestWorld::new(github_with(FILES), vec![say("There is nothing to do."); 2]);
    world.issue().expect(10);
    // It is asked once whether it means to change nothing, and no check is given back.
    assert_eq!(world.model.requests().len(), 2);
    assert!(!world.told().contains("check fails"), "{}", world.told());
}
