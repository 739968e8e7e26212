//! Reviews that something kept from their end: what was paid for is posted by the same command, nothing that was found
//! turns into a pass, and no pass is for a change that nobody has read.

use patchwright_forge::Role;

use super::{adds, github, module, review, reviewer, sticky, table, verdicts};
use crate::resume::ends_by_the_model;
use crate::support::github::{Fault, GitHub, Kind, entries};
use crate::support::model::{Turn, call, drip, say};
use crate::support::process::Process;
use crate::support::world::TestWorld;

const REVIEW: &[&str] = &["review", "acme/app#3"];

/// A review that finds something that must not be merged.
fn grave() -> Vec<Turn> {
    reviewer([adds(3, 0)])
}

/// The same command again: its exit code, and how often the model was asked by it.
#[track_caller]
fn again(world: &TestWorld, code: i32) -> usize {
    let asked = world.model.requests().len();
    review(world).expect(code);
    world.model.requests().len() - asked
}

/// On a machine that has nothing of the former runs.
fn elsewhere(world: TestWorld) -> TestWorld {
    let state = world.path("other").display().to_string();
    world.set("PATCHWRIGHT_STATE_DIR", state)
}

/// A pull request onto `dev`, which has a file that `main` lacks.
fn onto_dev() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .branch("dev", &[("extra.py", "import os\n")])
        .user("rita", Role::Write)
        .pull_onto("dev", 3, "Add functions", "feature", &entries(&[("calc.py", &module(1..4))]))
        .by("rita")
}

fn retarget(world: &TestWorld, base: &str) {
    world.github.change(|it| base.clone_into(&mut it.pulls.get_mut(&3).unwrap().base));
}

/// A review whose model has been asked and takes its time.
fn asked(world: &TestWorld) -> Process<'_> {
    let before = world.model.requests().len();
    let process = world.process(REVIEW);
    process.wait_until(|| world.model.requests().len() > before);
    process
}

fn slow(turns: Vec<Turn>) -> Vec<Turn> {
    let mut slow = vec![drip(std::time::Duration::from_millis(4))];
    slow.extend(turns);
    slow
}

/// Status and conclusion of each check run, oldest first.
fn checks(world: &TestWorld) -> Vec<String> {
    let said = |run: crate::support::github::CheckRun| {
        format!("{} {}", run.status, run.conclusion.unwrap_or_default())
    };
    world.github.check_runs().into_iter().map(said).collect()
}

#[test]
fn a_review_for_another_base_branch_is_not_resumed() {
    let world = TestWorld::new(onto_dev(), slow(reviewer([])));
    asked(&world).kill();
    world.model.settle();
    retarget(&world, "main");
    world.model.replace(reviewer([]));
    let output = review(&world).expect(0);
    let why = "is not resumed: it was for `dev`, and `main` is asked for";
    assert!(output.stderr.contains(why), "{}", output.text());
    assert!(sticky(&world).contains("of 2 changed files"), "{}", sticky(&world));
    assert_eq!(world.runs().len(), 2);
    assert_eq!(again(&world, 10), 0);
}

#[test]
fn a_pull_request_that_is_moved_to_another_branch_meanwhile_does_not_pass() {
    let world = TestWorld::new(onto_dev().actions_token(), slow(reviewer([])));
    let process = asked(&world);
    retarget(&world, "main");
    process.end().expect(0);
    assert_eq!(checks(&world), ["completed action_required"]);
    let summary = world.github.check_runs()[0].summary.clone().unwrap();
    assert!(summary.contains("moved from `dev` to `main`"), "{summary}");
    world.model.replace(reviewer([]));
    review(&world).expect(0);
    assert_eq!(checks(&world).last().unwrap(), "completed success");
}

#[test]
fn a_model_that_ended_the_review_is_asked_again_by_the_same_command() {
    for (name, ends) in ends_by_the_model() {
        let mut turns = vec![call("report_finding", adds(3, 0))];
        turns.extend(ends);
        let world = TestWorld::new(github(), turns);
        let output = review(&world).expect(50);
        assert!(output.stderr.contains("run the same command again"), "{name}: {}", output.text());
        assert_eq!(table_or_none(&world), Vec::<String>::new(), "{name}");
        world.model.replace([say("It adds functions.")]);
        assert_eq!(again(&world, 0), 1, "{name}");
        // What was found before that is not paid for again.
        assert_eq!(table(&world), ["new: Adds 3"], "{name}");
        assert_eq!((world.github.reviews(3).len(), world.runs().len()), (1, 1), "{name}");
        assert_eq!(verdicts(&world).last().unwrap(), "failure", "{name}");
    }
}

fn table_or_none(world: &TestWorld) -> Vec<String> {
    if world.github.comments(3).is_empty() { Vec::new() } else { table(world) }
}

#[test]
fn a_pull_request_that_is_closed_meanwhile_gets_its_review_when_it_is_opened_again() {
    let world = TestWorld::new(github().actions_token(), slow(grave()));
    let process = asked(&world);
    world.github.set_open(3, false);
    let output = process.end().expect(10);
    assert!(output.stderr.contains("was closed while it was reviewed"), "{}", output.text());
    assert!(world.github.reviews(3).is_empty());
    assert_eq!(checks(&world), ["completed action_required"]);
    assert_eq!(again(&world, 10), 0);
    world.github.set_open(3, true);
    assert_eq!(again(&world, 0), 0);
    assert_eq!((table(&world), world.github.reviews(3).len()), (vec!["new: Adds 3".to_owned()], 1));
    assert_eq!(checks(&world), ["completed failure"]);
}

#[test]
fn a_pull_request_that_is_locked_meanwhile_gets_its_review_when_it_is_unlocked() {
    let world = TestWorld::new(github().actions_token(), slow(grave()));
    let process = asked(&world);
    world.github.set_locked(3, true);
    let output = process.end().expect(10);
    assert!(output.stderr.contains("was locked while it was reviewed"), "{}", output.text());
    assert_eq!(checks(&world), ["completed failure"]);
    assert_eq!(again(&world, 10), 0);
    world.github.set_locked(3, false);
    assert_eq!(again(&world, 0), 0);
    assert_eq!((table(&world), world.github.reviews(3).len()), (vec!["new: Adds 3".to_owned()], 1));
    assert_eq!(checks(&world), ["completed failure"]);
}

#[test]
fn a_commit_that_failed_does_not_pass_by_a_review_that_knows_nothing_of_it() {
    let world = TestWorld::new(github().actions_token(), slow(grave()));
    let process = asked(&world);
    world.github.set_locked(3, true);
    process.end().expect(10);
    assert_eq!(checks(&world), ["completed failure"]);
    world.github.set_locked(3, false);
    // What was found is with a machine that is gone.
    let world = elsewhere(world);
    world.model.replace(reviewer([]));
    review(&world).expect(0);
    assert_eq!(checks(&world).last().unwrap(), "completed action_required");
    let summary = world.github.check_runs().last().unwrap().summary.clone().unwrap();
    assert!(summary.contains("earlier review of this commit has failed"), "{summary}");
    world.model.replace(reviewer([]));
    world.run(&["review", "acme/app#3", "--full"]).expect(0);
    assert_eq!(checks(&world).last().unwrap(), "completed success");
}

#[test]
fn a_pull_request_that_is_merged_meanwhile_gets_no_review() {
    let world = TestWorld::new(github().actions_token(), slow(grave()));
    let process = asked(&world);
    world.github.merge(3);
    let output = process.end().expect(10);
    assert!(output.stderr.contains("was merged while it was reviewed"), "{}", output.text());
    assert_eq!(checks(&world), ["completed action_required"]);
    let summary = world.github.check_runs()[0].summary.clone().unwrap();
    assert!(summary.contains("was merged"), "{summary}");
}

#[test]
fn a_review_that_may_not_be_posted_is_posted_by_the_same_command() {
    let world = TestWorld::new(github().actions_token(), grave());
    let refused = Kind::Answer(403, serde_json::json!({"message": "Resource not accessible"}));
    world.github.fault(Fault::once("POST", "/pulls/3/reviews", refused));
    review(&world).expect(0);
    assert_eq!(
        (checks(&world), world.github.reviews(3).len()),
        (vec!["completed failure".to_owned()], 0)
    );
    assert_eq!(again(&world, 0), 0);
    assert_eq!((table(&world), world.github.reviews(3).len()), (vec!["new: Adds 3".to_owned()], 1));
    assert_eq!(checks(&world), ["completed failure"]);
}
