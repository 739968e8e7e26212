//! Checks that come and go, print very much, cannot run or never end.

use super::{in_docker, result, sides, told};
use crate::support::model::{call, custom, say};
use crate::support::world::{FILES, PATCH};
use serde_json::json;

/// Prints the list of tests of which one fails, another one each second.
const COMES_AND_GOES: &str = "sleep 1.1\nawk -v bad=$(($(date +%s) % 4000)) 'BEGIN { print \"running 4000 tests\"; for (i = 0; i < 4000; i++) printf \"test t_%d ... %s\\n\", i, (i == bad ? \"FAILED\" : \"ok\"); print \"test result: FAILED. 3999 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\" }'\nexit 101\n";

fn change() -> crate::support::model::Turn {
    call("shell_command", json!({"command": "echo '# more' >> README.md"}))
}

#[test]
fn a_test_that_comes_and_goes_is_nobodys_fault() {
    let files = [("run.sh", COMES_AND_GOES), ("README.md", "# app\n")];
    let world = in_docker(&files, [change(), say("Say more in the readme")]);
    world.run(&["issue", "acme/app#7", "--verify", "sh ./run.sh"]).expect(0);
    assert_eq!(world.model.requests().len(), 2, "nothing is given back");
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft, "{}", pull.body);
    assert!(pull.body.contains("broke 0 · 2 flaky"), "{}", pull.body);
    let head = &result(&world)["evidence"]["rows"][0]["head"];
    assert_eq!(head["again"]["exit_code"], 101, "{head:#}");
}

#[test]
fn a_hundred_thousand_tests_are_counted_and_a_few_are_named() {
    let print = "[ \"$(. ./calc.sh; add 2 2)\" = 4 ] && s=ok || s=FAILED\nawk -v s=$s 'BEGIN { print \"running 100000 tests\"; for (i = 0; i < 99999; i++) printf \"test passes_%06d ... ok\\n\", i; print \"test addition ... \" s; printf \"test result: x. %d passed; %d failed; 0 ignored; 0 measured; 0 filtered out\\n\", (s == \"ok\") ? 100000 : 99999, (s == \"ok\") ? 0 : 1 }' | sed \"s/result: x/result: $s/\"\n[ $s = ok ]\n";
    let files = [FILES, &[("many.sh", print)]].concat();
    let world =
        in_docker(&files, [custom("apply_patch", PATCH), say("Add instead of subtracting")]);
    world.run(&["issue", "acme/app#7", "--verify", "sh ./many.sh"]).expect(0);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("fixed 1 · broke 0") && body.contains("`addition`"), "{body}");
    let row = &result(&world)["evidence"]["rows"][0];
    let (base, head) = (&row["base"]["tests"]["counts"], &row["head"]["tests"]["counts"]);
    assert_eq!((&base["passed"], &base["failed"]), (&json!(99_999), &json!(1)));
    assert_eq!((&head["passed"], &head["failed"]), (&json!(100_000), &json!(0)));
    assert!(world.result("result.json").len() < 100_000, "names are left out");
    assert!(world.result("journal.jsonl").len() < 4 << 20);
}

#[test]
fn a_check_without_its_program_is_said_and_held_against_nobody() {
    let world = in_docker(FILES, [custom("apply_patch", PATCH), say("Add instead of subtracting")]);
    world.run(&["issue", "acme/app#7", "--verify", "no-such-runner --all"]).expect(0);
    assert_eq!(world.model.requests().len(), 2, "nothing is given back");
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft, "{}", pull.body);
    let said = r"could not be run here: \`no-such-runner\` is not in the image";
    assert!(pull.body.contains(said), "{}", pull.body);
    assert!(pull.body.contains("nothing shows that this works"), "{}", pull.body);
    assert_eq!(result(&world)["checks"], "none");
}

#[test]
fn a_program_that_the_change_took_away_is_the_changes_fault() {
    let files = [("run", "#!/bin/sh\nexit 0\n"), ("README.md", "# app\n")];
    let gone = call("shell_command", json!({"command": "rm run"}));
    let world = in_docker(&files, [gone, say("Done."), say("Done."), say("Done.")]);
    world.run(&["issue", "acme/app#7", "--verify", "sh -c 'chmod +x ./run; ./run'"]).expect(20);
    assert!(told(&world, 2).contains("it passed before your change"));
    assert!(world.github.pulls()[0].draft);
}

#[test]
fn a_check_that_never_ends_is_not_waited_for_as_long_again() {
    let config = "verify: ['sleep 1000']\nlimits: { command-timeout: 2s }\n";
    let files = [FILES, &[(".github/patchwright.yml", config)]].concat();
    let world =
        in_docker(&files, [custom("apply_patch", PATCH), say("Add instead of subtracting")]);
    world.issue().expect(0);
    assert_eq!(world.model.requests().len(), 2);
    assert_eq!(sides(&world), ["base", "loop"], "not run once more");
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("timed out: stopped after 2 s"), "{body}");
}

/// What a check would have said that the run's own deadline cut off, nobody knows.
#[test]
fn a_check_that_the_deadline_cuts_off_is_not_the_changes_fault() {
    let config = "limits: { timeout: 14s }\n";
    let files = [FILES, &[(".github/patchwright.yml", config)]].concat();
    let wait = call("shell_command", json!({"command": "sleep 4"}));
    let turns = [custom("apply_patch", PATCH), wait, say("Add instead of subtracting")];
    let world = in_docker(&files, turns);
    let check = "sleep 5; test -f README.md";
    let output = world.run(&["issue", "acme/app#7", "--verify", check]);
    // On a busy machine nothing may be left for it at all.
    assert!(matches!(output.code, 20 | 40), "{}", output.text());
    let result = result(&world);
    assert_eq!(result["checks"], "none", "{result}");
    for pull in world.github.pulls() {
        assert!(pull.draft && !pull.body.contains("that did not fail before"), "{}", pull.body);
    }
}
