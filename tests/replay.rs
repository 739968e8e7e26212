//! `patchwright replay`: recorded replies, real tools, and the tree compared with the recorded one.

use expect_test::expect;
use serde_json::json;

use crate::exec::project;
use crate::resume::{kill_when, rest};
use crate::support::model::{call, custom, say};
use crate::support::world::{TestWorld, fix, github};

#[test]
fn a_prompts_run_comes_to_the_same_tree_again_without_a_model() {
    let world = TestWorld::local(fix());
    project(&world);
    world.run(&["exec", "Make add add", "--repo", "project", "--out", "out"]).expect(0);
    let world = world.unset("OPENAI_API_KEY");
    let output = world.run(&["replay", "out"]).expect(0);
    expect![[r#"
        exit 0
        --- stdout
        same tree after 5 turns (the model finished)
        replayed tree SHA
        recorded tree SHA
        --- stderr
        · update_plan
        · shell_command
        · apply_patch
        · shell_command
        · update_plan
    "#]]
    .assert_eq(&output.text());
    assert_eq!(world.model.requests().len(), 5, "all of them by the run itself");
}

#[test]
fn a_run_whose_conversation_was_compacted_comes_to_the_same_tree_again() {
    let script = r#"
- calls: [{ tool: shell_command, args: { command: "echo 1 > one; seq 3000" } }]
- error: { kind: context_overflow }
- text: One is done, two is next.
- calls: [{ tool: shell_command, args: { command: "echo 2 > two" } }]
- text: Both are there.
- text: Both are there, and the check fails for another reason.
"#;
    let world = TestWorld::local([]);
    project(&world);
    fs_err::write(world.path("script.yml"), script).unwrap();
    let model = ["--model", "scripted:script.yml"];
    let run = [&["exec", "Count", "--repo", "project", "--out", "out"], &model[..]].concat();
    let output = world.run(&run).expect(20);
    assert!(output.stderr.contains("compacted the conversation from about "), "{}", output.text());
    let output = world.run(&["replay", "out"]).expect(0);
    assert!(output.stdout.starts_with("same tree after 4 turns"), "{}", output.text());
}

#[test]
fn an_issues_run_comes_to_the_same_tree_again_without_a_forge() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let asked = world.github.requests().len();
    let id = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    let world = world.unset("GITHUB_TOKEN").unset("OPENAI_API_KEY");
    world.run(&["replay", &id]).expect(0);
    assert_eq!((world.github.requests().len(), world.model.requests().len()), (asked, 5));
}

#[test]
fn a_run_whose_checks_were_given_back_comes_to_the_same_tree_again() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_VERIFY", "! grep -q '+' calc.sh");
    world.model.add([
        custom("apply_patch", "*** Begin Patch\n*** Add File: NEWS.md\n+Adds.\n*** End Patch\n"),
        say("Also told the news."),
        say("It has to have a plus."),
    ]);
    world.issue().expect(20);
    let asked = world.model.requests().len();
    assert_eq!(asked, 8, "two rounds of feedback");
    replays(&world);
    assert_eq!(world.model.requests().len(), asked);
}

#[test]
fn a_run_that_was_killed_and_gone_on_with_comes_to_the_same_tree_again() {
    let world = TestWorld::new(github(), fix());
    kill_when(&world, |journal| journal.matches("\"is\":\"call_ended\"").count() == 3);
    world.model.replace(rest(&world, fix()));
    world.issue().expect(0);
    replays(&world);
}

/// The sandbox has what the run's had: the branch of the pull request that is replaced.
#[test]
fn what_a_run_took_from_its_earlier_pull_request_is_there_again() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let number = world.github.pulls()[0].number;
    let take = format!("git show pull-request-{number}:calc.sh > calc.sh && echo taken > taken");
    world.model.add([
        call("shell_command", json!({ "command": take })),
        say("Add instead of subtracting\n\nTaken over."),
    ]);
    world.issue().expect(0);
    assert_eq!(world.runs().len(), 2);
    let run = world.runs().into_iter().find(|run| {
        fs_err::read_to_string(run.join("change.patch")).is_ok_and(|patch| patch.contains("taken"))
    });
    let run = run.expect("the second run");
    let output = world.run(&["replay", run.to_str().unwrap()]).expect(0);
    assert!(output.stdout.starts_with("same tree"), "{}", output.text());
}

/// The only run comes to the same tree again.
#[track_caller]
fn replays(world: &TestWorld) {
    let id = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    world.run(&["replay", &id]).expect(0);
}

#[test]
fn a_journal_that_was_tampered_with_comes_to_another_tree() {
    let world = TestWorld::local(fix());
    project(&world);
    world.run(&["exec", "Make add add", "--repo", "project", "--out", "out"]).expect(0);
    let journal = world.path("out/journal.jsonl");
    let text = fs_err::read_to_string(&journal).unwrap();
    let tampered = text.replace("$(($1 + $2))", "$(($1 * $2))");
    assert_ne!(tampered, text);
    fs_err::write(&journal, tampered).unwrap();
    let output = world.run(&["replay", "out"]).expect(20);
    assert!(output.stdout.starts_with("another tree after 5 turns"), "{}", output.text());
}

#[test]
fn a_run_that_is_not_there_is_named() {
    let world = TestWorld::local([]);
    let output = world.run(&["replay", "20260101-000000-00000000"]).expect(2);
    expect![[r#"
        exit 2
        --- stderr
        error: there is no run `RUN`

        hint: runs are folders in DIR/state/runs
    "#]]
    .assert_eq(&output.text());
}
