//! What is open is known from our own threads too: a comment that is gone, or that could not be brought up to
//! date, makes no finding disappear.

use serde_json::json;

use super::{adds, github, module, ours, review, reviewer, sticky, table, verdicts};
use crate::support::git_repo::{deleted, file};
use crate::support::github::{Fault, Kind};
use crate::support::world::{Output, TestWorld};

/// A comment in the conversation of the test's GitHub.
const COMMENTS: &str = "/issues/comments/";

fn configured(world: &TestWorld, rules: &str) -> Output {
    let config = world.path("config.yml");
    fs_err::write(&config, rules).unwrap();
    world.run(&["review", "acme/app#3", "--config", &config.display().to_string()])
}

const FAILING: &str = "review:\n  fail-on: 1\n";
const REQUESTING: &str = "review:\n  fail-on: 1\n  event: request-changes\n";

fn lose_the_comment(world: &TestWorld) {
    world.github.change(|it| it.comments.clear());
}

fn push_something(world: &TestWorld, text: &str) {
    world.github.push_to_pull(3, &[("README.md", text)]);
}

/// Nobody can write comments for a while.
fn comments_fail(world: &TestWorld) {
    world.github.fault(Fault::once("PATCH", COMMENTS, Kind::ErrorBefore(502)).times(1000));
}

fn all_is_well(world: &TestWorld) {
    world.github.world().faults.clear();
}

fn last_verdict(world: &TestWorld) -> String {
    verdicts(world).pop().unwrap()
}

#[test]
fn a_finding_is_known_by_its_thread_when_the_comment_is_gone() {
    let turns = [reviewer([adds(3, 0)]), reviewer([]), reviewer([]), reviewer([])];
    let world = TestWorld::new(github(), turns.concat());
    configured(&world, FAILING).expect(0);
    lose_the_comment(&world);
    push_something(&world, "# one\n");
    configured(&world, FAILING).expect(0);
    assert_eq!(table(&world), ["still there: Adds 3"]);
    assert!(sticky(&world).contains("**P0**"), "{}", sticky(&world));
    assert_eq!(last_verdict(&world), "failure");
    // Its code is known as well, so that a fix is seen.
    lose_the_comment(&world);
    let fixed = module(1..11).replace("return x + 3\n", "return 3 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &fixed)]);
    configured(&world, FAILING).expect(0);
    assert_eq!(table(&world), ["fixed: Adds 3"]);
    assert_eq!(last_verdict(&world), "success");
    assert_eq!(world.github.review_comments(3).len(), 1);
    // One that is over is not brought back.
    push_something(&world, "# two\n");
    configured(&world, FAILING).expect(0);
    assert_eq!(table(&world), ["fixed: Adds 3"]);
}

#[test]
fn a_finding_whose_comment_was_written_before_its_signs_stands_as_long_as_its_file() {
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    configured(&world, FAILING).expect(0);
    lose_the_comment(&world);
    // As versions before this one wrote it, which said no more of a finding than its fingerprint.
    world.github.change(|it| {
        for thread in &mut it.pulls.get_mut(&3).unwrap().threads {
            let body = &mut thread.comments[0].body;
            let at = body.find("<!-- patchwright:finding fp=").unwrap();
            let line = body[at..].lines().next().unwrap().to_owned();
            let print = line.split("fp=").nth(1).unwrap().split(' ').next().unwrap();
            let old = format!("<!-- patchwright:finding fp={print} v=1 -->");
            *body = body.replace(&line, &old);
        }
    });
    push_something(&world, "# one\n");
    configured(&world, FAILING).expect(0);
    assert_eq!(table(&world), ["still there: Adds 3"]);
    assert_eq!(last_verdict(&world), "failure");
}

#[test]
fn a_finding_is_followed_to_a_renamed_file_without_the_comment() {
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    configured(&world, FAILING).expect(0);
    lose_the_comment(&world);
    let moved = [deleted("calc.py"), file("sums.py", module(1..11))];
    world.github.push_entries_to_pull(3, &moved);
    configured(&world, FAILING).expect(0);
    assert_eq!(table(&world), ["still there: Adds 3"]);
    assert_eq!(last_verdict(&world), "failure");
}

#[test]
fn what_people_decided_about_a_thread_holds_without_the_comment() {
    let turns = [reviewer([adds(3, 0), adds(5, 0)]), reviewer([])];
    let world = TestWorld::new(github(), turns.concat());
    configured(&world, FAILING).expect(0);
    let comments = world.github.review_comments(3);
    world.github.resolve("otto", comments[0].id);
    world.github.reply("otto", comments[1].id, "@patchwright ignore");
    lose_the_comment(&world);
    push_something(&world, "# one\n");
    configured(&world, FAILING).expect(0);
    assert_eq!(last_verdict(&world), "success");
}

#[test]
fn a_request_for_changes_stands_when_the_comment_is_gone() {
    let mut elsewhere = adds(4, 0);
    elsewhere["path"] = json!("nowhere.py");
    for found in [adds(3, 0), elsewhere] {
        let turns = [reviewer([found]), reviewer([]), reviewer([])];
        let world = TestWorld::new(github(), turns.concat());
        configured(&world, REQUESTING).expect(0);
        let state = || ours(&world)[0].state.clone();
        assert_eq!(state(), "CHANGES_REQUESTED");
        lose_the_comment(&world);
        for text in ["# one\n", "# two\n"] {
            push_something(&world, text);
            configured(&world, REQUESTING).expect(0);
            assert_eq!(state(), "CHANGES_REQUESTED");
        }
    }
}

#[test]
fn a_comment_that_cannot_be_brought_up_to_date_is_written_by_the_same_command_later() {
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    comments_fail(&world);
    let output = configured(&world, REQUESTING).expect(60);
    assert!(output.stderr.contains("run the same command again"), "{}", output.stderr);
    assert_eq!(last_verdict(&world), "failure");
    let reviews = ours(&world);
    assert_eq!(reviews.len(), 1);
    all_is_well(&world);
    let asked = world.model.requests().len();
    configured(&world, REQUESTING).expect(0);
    assert_eq!(world.model.requests().len(), asked, "the model is not asked again");
    assert_eq!(table(&world), ["new: Adds 3"]);
    assert_eq!((ours(&world).len(), world.github.review_comments(3).len()), (1, 1));
    assert_eq!(last_verdict(&world), "failure");
    // The same when the branch moves on before anybody runs it again.
    push_something(&world, "# one\n");
    comments_fail(&world);
    configured(&world, REQUESTING).expect(60);
    assert_eq!(last_verdict(&world), "failure");
    assert_eq!(ours(&world)[0].state, "CHANGES_REQUESTED");
}

#[test]
fn a_push_before_the_comment_is_up_to_date_loses_nothing() {
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    comments_fail(&world);
    configured(&world, REQUESTING).expect(60);
    all_is_well(&world);
    push_something(&world, "# one\n");
    configured(&world, REQUESTING).expect(0);
    assert_eq!(table(&world), ["still there: Adds 3"]);
    assert_eq!(last_verdict(&world), "failure");
    assert_eq!(ours(&world)[0].state, "CHANGES_REQUESTED");
}

/// The review links to the comment.
#[test]
fn an_interrupted_run_leaves_the_comment_that_its_review_links_to() {
    let world = TestWorld::new(github(), reviewer([adds(3, 1)]));
    let never = std::time::Duration::from_hours(1);
    world.github.fault(Fault::once("POST", "/pulls/3/reviews", Kind::DelayAfter(never)));
    let process = world.process(&["review", "acme/app#3"]);
    process.wait_until(|| !ours(&world).is_empty());
    process.term().expect(143);
    assert_eq!(world.github.comments(3).len(), 1);
    let said = sticky(&world);
    assert!(!said.contains("is reviewing") && said.contains("resumes"), "{said}");
    review(&world).expect(0);
    assert_eq!(table(&world), ["new: Adds 3"]);
    assert_eq!((world.github.comments(3).len(), ours(&world).len()), (1, 1));
}
