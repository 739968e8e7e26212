//! How a review ends when GitHub fails or is silent at the end, and what an old job that runs again finds:
//! no check runs for ever, and nothing goes back to an older state.

use std::time::Duration;

use serde_json::Value;

use super::{
    adds, github, handed_over, module, newest_result, post_from, review, reviewer, sticky, table,
};
use crate::support::github::{Fault, Kind};
use crate::support::model::call;
use crate::support::world::{Output, TestWorld};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_hours(1);

/// The command on another machine, which shares nothing with this one but GitHub.
fn there(world: &TestWorld) -> Output {
    let mut command = world.command(&["review", "acme/app#3"]);
    command.env("PATCHWRIGHT_STATE_DIR", world.path("elsewhere"));
    world.wait(command.spawn().unwrap())
}

fn world() -> TestWorld {
    TestWorld::new(github().actions_token(), [reviewer([adds(3, 1)]), reviewer([])].concat())
}

/// Status and conclusion of the newest check run.
fn check(world: &TestWorld) -> String {
    let run = world.github.check_runs().pop().unwrap();
    format!("{} {}", run.status, run.conclusion.unwrap_or_default())
}

#[test]
fn a_check_that_could_not_be_written_is_written_by_the_same_command_later() {
    let world = world();
    world.github.fault(Fault::once("PATCH", "/check-runs/", Kind::ErrorBefore(502)).times(1000));
    let output = review(&world).expect(60);
    assert!(output.stderr.contains("run the same command again"), "{}", output.stderr);
    assert_eq!(check(&world), "in_progress ");
    world.github.world().faults.clear();
    let asked = world.model.requests().len();
    let output = review(&world).expect(0);
    assert_eq!(world.model.requests().len(), asked, "the model is not asked again");
    assert!(output.stderr.contains("the model's work is done already"), "{}", output.stderr);
    assert!(!output.stderr.contains("\nreviewing"), "{}", output.stderr);
    assert_eq!(check(&world), "completed neutral");
    assert_eq!((world.github.reviews(3).len(), table(&world).len()), (1, 1));
}

/// Killed after the comment and before the check, on a machine that does not come back.
#[test]
fn a_check_that_a_dead_run_left_is_ended_by_whoever_comes_next() {
    let world = world();
    world.github.fault(Fault::once("PATCH", "/check-runs/", Kind::Delay(NEVER)));
    let process = world.process(&["review", "acme/app#3"]);
    let is_written =
        || !world.github.comments(3).is_empty() && sticky(&world).contains("| Finding |");
    process.wait_until(is_written);
    process.kill();
    assert_eq!(check(&world), "in_progress ");
    world.github.world().faults.clear();
    let asked = world.model.requests().len();
    there(&world).expect(10);
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(check(&world), "completed action_required");
    // The machine itself knows what it found.
    review(&world).expect(0);
    assert_eq!(check(&world), "completed neutral");
}

/// Another run's check that is at work is not touched.
#[test]
fn a_check_of_a_review_that_is_at_work_goes_on() {
    let turns =
        [reviewer([]), vec![call("run_check", serde_json::json!({"check": "1"}))], reviewer([])];
    let world = TestWorld::new(github().actions_token(), turns.concat());
    review(&world).expect(0);
    let world = world.set("PATCHWRIGHT_VERIFY", "sleep 2");
    let process = world.process(&["review", "acme/app#3", "--full"]);
    process.wait_until(|| check(&world) == "in_progress ");
    process.signal("STOP");
    there(&world).expect(10);
    assert_eq!(check(&world), "in_progress ");
    process.signal("CONT");
    process.end().expect(0);
    assert_eq!(check(&world), "completed success");
}

#[test]
fn a_signal_while_the_comment_is_being_written_ends_the_check() {
    let world = world();
    world.github.fault(Fault::once("PATCH", "/issues/comments/", Kind::DelayAfter(NEVER)));
    let process = world.process(&["review", "acme/app#3"]);
    let is_written =
        || !world.github.comments(3).is_empty() && sticky(&world).contains("| Finding |");
    process.wait_until(is_written);
    process.term().expect(143);
    assert_eq!(check(&world), "completed action_required");
    review(&world).expect(0);
    assert_eq!(check(&world), "completed neutral");
}

#[test]
fn a_signal_ends_the_run_though_github_is_silent() {
    let world = world();
    world.github.fault(Fault::once("POST", "/pulls/3/reviews", Kind::Delay(NEVER)));
    let process = world.process(&["review", "acme/app#3"]);
    process.wait_for("publishing");
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        world.github.fault(Fault::once(method, "/", Kind::Delay(NEVER)).times(1000));
    }
    process.term().expect(143);
}

/// Whoever reads its files must not take for posted what was only found.
#[test]
fn a_review_that_is_not_posted_is_not_said_to_be_done() {
    let ended = |world: &TestWorld| {
        let result = newest_result(world);
        assert_eq!(result["findings"].as_array().unwrap().len(), 1, "{result}");
        (result["conclusion"].clone(), result["published"].is_null(), result["reason"].clone())
    };
    let posted = |world: &TestWorld| {
        world.github.world().faults.clear();
        review(world).expect(0);
        assert_eq!(ended(world), ("done".into(), false, Value::Null));
    };
    let world = world();
    world.github.fault(Fault::once("POST", "/pulls/3/reviews", Kind::Delay(NEVER)));
    let process = world.process(&["review", "acme/app#3"]);
    process.wait_until(|| !world.github.comments(3).is_empty());
    process.wait_for("publishing");
    process.kill();
    let why = "the run ended before it had published all of this";
    assert_eq!(ended(&world), ("interrupted".into(), true, why.into()));
    posted(&world);
    let world = self::world();
    let down = Kind::ErrorBefore(502);
    world.github.fault(Fault::once("POST", "/pulls/3/reviews", down).times(1000));
    let output = review(&world).expect(60);
    let (conclusion, is_unpublished, reason) = ended(&world);
    assert_eq!((conclusion, is_unpublished), ("forge_error".into(), true), "{}", output.text());
    assert!(reason.as_str().unwrap().contains("502"), "{reason}");
    posted(&world);
}

#[test]
fn an_old_job_that_runs_again_finds_its_commit_reviewed() {
    let world = world();
    review(&world).expect(0);
    let old = world.github.head_of(3);
    let fixed = module(1..11).replace("return x + 3\n", "return 3 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &fixed)]);
    review(&world).expect(0);
    let (asked, said) = (world.model.requests().len(), sticky(&world));
    let again = world.run(&["review", "acme/app#3", "--head", &old]).expect(10);
    assert!(again.stderr.contains("newer commit"), "{}", again.stderr);
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(sticky(&world), said);
    // The newest one, once the branch was rewritten.
    world.github.force_push(3, &[("calc.py", &module(1..9))], true);
    world.model.add(reviewer([]));
    review(&world).expect(0);
    let said = sticky(&world);
    world.run(&["review", "acme/app#3", "--head", &old]).expect(10);
    assert_eq!(sticky(&world), said);
}

/// `--full` is no flag of a command that only posts.
#[test]
fn a_killed_post_of_what_was_handed_over_names_no_flag_that_it_does_not_take() {
    let (world, folder) = handed_over([adds(3, 1)]);
    world.github.fault(Fault::once("POST", "/pulls/3/reviews", Kind::Delay(NEVER)));
    let from = folder.display().to_string();
    let process = world.process(&["review", "acme/app#3", "--post-from", &from]);
    process.wait_until(|| !world.github.comments(3).is_empty());
    process.kill();
    world.github.world().faults.clear();
    let output = post_from(&world, &folder, &[]).expect(10);
    assert!(output.stderr.contains("it can be taken over from"), "{}", output.stderr);
    assert!(!output.stderr.contains("--full"), "{}", output.stderr);
}
