//! The check while a review works, and after a review that did not come to its end: a check that is required must neither
//! pass before the review nor wait for one that is over.

use super::{adds, github, review, reviewer};
use crate::support::process::Process;
use crate::support::world::TestWorld;

/// A check of the repository that takes a while.
const SLOW: &str = "sleep 2";

fn world() -> TestWorld {
    let world = TestWorld::new(github().actions_token(), reviewer([adds(3, 1)]));
    world.set("PATCHWRIGHT_VERIFY", SLOW)
}

/// Status and conclusion of each check run of ours, oldest first.
fn checks(world: &TestWorld) -> Vec<String> {
    let said = |run: crate::support::github::CheckRun| {
        format!("{} {}", run.status, run.conclusion.unwrap_or_default())
    };
    world.github.check_runs().into_iter().map(said).collect()
}

/// A review that has said that it works.
fn begun(world: &TestWorld) -> Process<'_> {
    let process = world.process(&["review", "acme/app#3"]);
    process.wait_until(|| !world.github.check_runs().is_empty());
    assert_eq!(checks(world), ["in_progress "]);
    process
}

#[test]
fn the_check_runs_while_the_review_works_and_is_ended_by_it() {
    let world = world();
    begun(&world).end().expect(0);
    assert_eq!(checks(&world), ["completed neutral"]);
    assert_eq!(world.github.check_runs()[0].title.as_deref(), Some("1 finding"));
}

#[test]
fn an_interruption_ends_the_check_without_a_pass_and_the_resumed_run_says_what_it_found() {
    let world = world();
    begun(&world).term().expect(143);
    assert_eq!(checks(&world), ["completed action_required"]);
    let summary = world.github.check_runs()[0].summary.clone().unwrap();
    assert!(summary.contains("interrupted"), "{summary}");
    review(&world).expect(0);
    // The newest of a name counts.
    assert_eq!(checks(&world).last().unwrap(), "completed neutral");
}

#[test]
fn the_run_after_one_that_was_killed_finds_its_check() {
    let world = world();
    begun(&world).kill();
    assert_eq!(checks(&world), ["in_progress "]);
    review(&world).expect(0);
    assert_eq!(checks(&world), ["completed neutral"]);
}

#[test]
fn a_review_that_fails_before_it_has_a_verdict_leaves_no_check_that_runs() {
    let world = TestWorld::new(github().actions_token(), [crate::support::model::unauthorized()]);
    review(&world).expect(50);
    assert_eq!(checks(&world), ["completed action_required"]);
    // Setup that must not fail, and does.
    let world = TestWorld::new(github().actions_token(), reviewer([]));
    let world = world.set("PATCHWRIGHT_SETUP", "exit 3").set("PATCHWRIGHT_SETUP_REQUIRED", "true");
    let output = review(&world);
    assert_ne!(output.code, 0, "{}", output.text());
    assert!(checks(&world).iter().all(|it| it == "completed action_required"), "{}", output.text());
}

#[test]
fn nothing_is_announced_where_nothing_is_written() {
    let world = world();
    world.run(&["review", "acme/app#3", "--dry-run"]).expect(0);
    assert!(world.github.check_runs().is_empty());
}
