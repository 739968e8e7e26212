//! Two reviews of one pull request at the same time, on machines that share nothing but GitHub: one of
//! them works, and what is there at the end is there once.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{adds, github, handed_over, module, ours, post_from, review, reviewer, sticky, table};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::model::{ModelServer, Turn, call, unauthorized};
use crate::support::world::{Output, TestWorld};

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(1);
/// A check that takes a while.
const SLOW: &str = "sleep 2";

/// A world in which every review finds the same.
fn world(github: GitHub) -> TestWorld {
    TestWorld::asking(github, ModelServer::conversations(|_| reviewer([adds(3, 1)])))
}

/// A world in which a review whose check is slow runs it once more in the middle of its work.
fn slow_world(github: GitHub) -> TestWorld {
    TestWorld::asking(
        github,
        ModelServer::conversations(|said| {
            let check = call("run_check", json!({"check": "1"}));
            let is_slow = said.opening.contains(SLOW);
            let first: Vec<Turn> = is_slow.then_some(check).into_iter().collect();
            [first, reviewer([adds(3, 1)])].concat()
        }),
    )
}

/// The command on another machine, which shares nothing with this one but GitHub.
fn elsewhere(world: &TestWorld, args: &[&str]) -> Command {
    let mut command = world.command(&[&["review", "acme/app#3"], args].concat());
    command.env("PATCHWRIGHT_STATE_DIR", world.path("elsewhere"));
    command
}

fn there(world: &TestWorld, args: &[&str]) -> Output {
    world.wait(elsewhere(world, args).spawn().unwrap())
}

/// Both machines at the same moment.
fn both(world: &TestWorld, args: &[&str]) -> [Output; 2] {
    let here: Child = world.spawn(&[&["review", "acme/app#3"], args].concat());
    [here, elsewhere(world, args).spawn().unwrap()].map(|child| world.wait(child))
}

/// Comments of ours, reviews, comments on the diff, check runs.
fn counts(world: &TestWorld) -> [usize; 4] {
    let github = &world.github;
    [
        github.comments(3).len(),
        github.reviews(3).len(),
        github.review_comments(3).len(),
        github.check_runs().len(),
    ]
}

fn wait_for(mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "nothing happens any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a review and kills it when the model has been asked.
fn killed(world: &TestWorld) {
    let mut child = world.spawn(&["review", "acme/app#3"]);
    wait_for(|| !world.model.requests().is_empty());
    child.kill().unwrap();
    world.wait(child);
    world.model.settle();
}

#[track_caller]
fn one_worked(outputs: &[Output; 2], round: usize) {
    let said = outputs.each_ref().map(Output::text).join("\n");
    let mut codes = outputs.each_ref().map(|output| output.code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 10], "round {round}: {said}");
    assert!(said.contains("another run "), "round {round}: {said}");
}

#[test]
fn two_machines_that_begin_at_once_leave_one_of_everything() {
    for round in 0..5 {
        let world = world(github().actions_token());
        one_worked(&both(&world, &[]), round);
        assert_eq!(counts(&world), [1, 1, 1, 1], "round {round}");
        assert_eq!(world.model.requests().len(), 2, "round {round}");
        assert_eq!(table(&world), ["new: Adds 3"]);
        // After a push there is a comment to write into, and still one of them works.
        let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
        world.github.push_to_pull(3, &[("calc.py", &pushed)]);
        one_worked(&both(&world, &[]), round);
        assert_eq!(counts(&world), [1, 1, 1, 2], "round {round}: a check on each commit");
        assert_eq!(table(&world), ["still there: Adds 3"]);
        one_worked(&both(&world, &["--full"]), round);
        assert_eq!(counts(&world), [1, 1, 1, 3], "round {round}: a check that was announced");
    }
}

#[test]
fn the_review_of_a_machine_that_is_gone_is_taken_over_when_its_time_is_over() {
    let world = world(github());
    killed(&world);
    let asked = world.model.requests().len();
    let early = there(&world, &[]).expect(10);
    assert!(
        early.stderr.contains("another run is already reviewing acme/app#3"),
        "{}",
        early.text()
    );
    assert!(early.stderr.contains("taken over from 2026-11-20 13:00 UTC on"), "{}", early.text());
    assert_eq!(world.model.requests().len(), asked, "nothing was spent");
    assert!(sticky(&world).contains("is reviewing"), "{}", sticky(&world));
    let world = world.set("PATCHWRIGHT_NOW", "2026-11-20T13:00:01Z");
    there(&world, &[]).expect(0);
    assert_eq!(counts(&world), [1, 1, 1, 0]);
    assert_eq!(table(&world), ["new: Adds 3"]);
    // The first machine comes back, and has nothing left to do.
    let asked = world.model.requests().len();
    let back = review(&world).expect(10);
    assert!(back.stderr.contains("another run has reviewed acme/app#3"), "{}", back.text());
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!((counts(&world), table(&world).len()), ([1, 1, 1, 0], 1));
    assert!(!sticky(&world).contains("is reviewing"), "{}", sticky(&world));
}

#[test]
fn the_machine_itself_goes_on_at_once_and_so_does_who_asks_for_everything() {
    let world = world(github());
    killed(&world);
    review(&world).expect(0);
    assert_eq!((counts(&world), table(&world).len()), ([1, 1, 1, 0], 1));
    let other = self::world(github());
    killed(&other);
    there(&other, &["--full"]).expect(0);
    assert_eq!((counts(&other), table(&other).len()), ([1, 1, 1, 0], 1));
}

/// A review that stands still in the middle of its work, while `change` happens, and goes on.
fn paused(world: &TestWorld, change: impl FnOnce()) -> Output {
    let mut command = world.command(&["review", "acme/app#3"]);
    command.env("PATCHWRIGHT_VERIFY", SLOW);
    let process = world.process_of(command);
    process.wait_until(|| !world.model.requests().is_empty());
    process.signal("STOP");
    change();
    process.signal("CONT");
    process.end()
}

#[test]
fn a_full_review_that_somebody_asked_for_comes_before_one_that_is_under_way() {
    let world = slow_world(github().actions_token());
    let first = paused(&world, || {
        there(&world, &["--full"]).expect(0);
    });
    assert_eq!(first.code, 10, "{}", first.text());
    assert!(first.stderr.contains("another run has reviewed acme/app#3"), "{}", first.text());
    assert_eq!(counts(&world), [1, 1, 1, 1]);
    assert_eq!(world.github.check_runs()[0].conclusion.as_deref(), Some("neutral"));
    assert_eq!(table(&world), ["new: Adds 3"]);
}

#[test]
fn a_review_of_a_newer_commit_comes_before_one_that_is_under_way() {
    let world = slow_world(github().actions_token());
    let old = world.github.head_of(3);
    let first = paused(&world, || {
        let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
        world.github.push_to_pull(3, &[("calc.py", &pushed)]);
        there(&world, &[]).expect(0);
    });
    assert_eq!(first.code, 10, "{}", first.text());
    assert_eq!(counts(&world), [1, 1, 1, 2]);
    for check in world.github.check_runs() {
        let is_old = check.sha == old;
        let expected = if is_old { "Not reviewed" } else { "1 finding" };
        assert_eq!(check.title.as_deref(), Some(expected), "{check:?}");
    }
}

#[test]
fn an_older_commit_gives_way_to_the_newest() {
    let world = world(github().actions_token());
    let old = world.github.head_of(3);
    let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &pushed)]);
    killed(&world);
    let stale = there(&world, &["--head", &old]).expect(10);
    assert!(stale.stderr.contains("at its newest commit"), "{}", stale.text());
    review(&world).expect(0);
    assert_eq!(counts(&world), [1, 1, 1, 1]);
}

#[test]
fn a_review_without_a_result_leaves_the_comment_as_it_was() {
    let failing = || TestWorld::new(github(), [unauthorized()]);
    let world = failing();
    assert_ne!(review(&world).code, 0);
    assert_eq!(world.github.comments(3).len(), 0, "{:?}", world.github.comments(3));
    let world = TestWorld::new(github(), [reviewer([adds(3, 1)]), vec![unauthorized()]].concat());
    review(&world).expect(0);
    let before = sticky(&world);
    let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &pushed)]);
    assert_ne!(review(&world).code, 0);
    let text = |body: &str| patchwright_forge::seal::without(body);
    assert_eq!(text(&sticky(&world)), text(&before));
}

#[test]
fn an_interrupted_review_gives_its_claim_back() {
    let world = slow_world(github());
    let mut command = world.command(&["review", "acme/app#3"]);
    command.env("PATCHWRIGHT_VERIFY", SLOW);
    let process = world.process_of(command);
    process.wait_until(|| !world.model.requests().is_empty());
    assert!(sticky(&world).contains("is reviewing"), "{}", sticky(&world));
    assert_eq!(process.term().code, 143);
    assert_eq!(world.github.comments(3).len(), 0);
    there(&world, &[]).expect(0);
    assert_eq!(counts(&world), [1, 1, 1, 0]);
}

#[test]
fn a_list_that_lags_behind_costs_no_second_comment() {
    for stale in 1..=3 {
        let world = world(github());
        review(&world).expect(0);
        let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
        world.github.push_to_pull(3, &[("calc.py", &pushed)]);
        let fault = Fault::once("GET", "/issues/3/comments", Kind::StaleList);
        world.github.fault(fault.times(stale));
        review(&world).expect(0);
        assert_eq!(counts(&world)[..3], [1, 1, 1], "{stale}");
        assert_eq!(table(&world), ["still there: Adds 3"], "{stale}");
    }
}

#[test]
fn a_second_comment_that_is_there_goes_with_the_next_review() {
    let world = world(github());
    review(&world).expect(0);
    let first = world.github.comments(3)[0].id;
    let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &pushed)]);
    world.github.fault(Fault::once("GET", "/issues/3/comments", Kind::StaleList));
    let refusal = json!({"message": "Resource not accessible", "status": "403"});
    world.github.fault(Fault::once("DELETE", "/comments/", Kind::Answer(403, refusal)));
    review(&world).expect(0);
    let left: Vec<u64> = world.github.comments(3).iter().map(|comment| comment.id).collect();
    assert_eq!(left, [first]);
    let gone = |write: &&String| write.starts_with("DELETE") && write.ends_with("204");
    assert_eq!(world.github.writes().iter().filter(gone).count(), 1);
}

#[test]
fn what_was_handed_over_gives_way_to_a_review_that_is_under_way() {
    let (world, folder) = handed_over([adds(3, 1)]);
    world.model.replace([]);
    let state = world.path("elsewhere").display().to_string();
    let world = world.set("PATCHWRIGHT_STATE_DIR", state);
    world.model.replace([crate::support::model::stall()]);
    let mut child = world.spawn(&["review", "acme/app#3"]);
    wait_for(|| ours(&world).is_empty() && world.github.comments(3).len() == 1);
    child.kill().unwrap();
    world.wait(child);
    let posted = post_from(&world, &folder, &[]);
    assert_eq!(posted.code, 10, "{}", posted.text());
    assert_eq!(counts(&world)[..3], [1, 0, 0]);
    let world = world.set("PATCHWRIGHT_NOW", "2026-11-20T13:00:01Z");
    let later = post_from(&world, &folder, &[]);
    assert_eq!(later.code, 0, "{}", later.text());
    assert_eq!(counts(&world), [1, 1, 1, 1]);
    assert!(!world.github.comments(3)[0].body.contains("is reviewing"));
}

#[test]
fn the_conversation_is_listed_no_more_often_than_it_has_to_be() {
    let world = world(github());
    let lists = |world: &TestWorld| {
        let all = world.github.requests().into_iter();
        all.filter(|it| it.method == "GET" && it.path.contains("/issues/3/comments?")).count()
    };
    review(&world).expect(0);
    // Before the work, after the comment was created, and before anything is posted.
    assert_eq!(lists(&world), 3);
    let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &pushed)]);
    review(&world).expect(0);
    assert_eq!(lists(&world), 3 + 2);
}
