//! Runs whose work is done when GitHub refuses it, a signal comes or the issue is closed: what their files and messages say
//! until the next run has published it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::resume::{kill_when, replies, rest, signalled, until, wait_for};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::world::{Output, TestWorld, fix, github};

const ARGS: [&str; 3] = ["issue", "acme/app#7", "--json"];

fn result(world: &TestWorld) -> Value {
    serde_json::from_str(&world.result("result.json")).unwrap()
}

fn last_event(output: &Output) -> Value {
    serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap()
}

/// What the page begins with, up to its facts.
fn head(world: &TestWorld) -> String {
    let page = world.result("report.html");
    let from = page.find("<header>").unwrap();
    let length = page[from..].find("<dl").unwrap();
    page[from..from + length].to_owned()
}

/// The next run publishes without the model, and all say so.
fn published(world: &TestWorld, words: &str) {
    let output = world.run(&ARGS).expect(0);
    let (result, last) = (result(world), last_event(&output));
    assert_eq!((&result["conclusion"], &result["reason"]), (&"done".into(), &Value::Null));
    assert_eq!(result["published"]["pull_request"], 8, "{result}");
    assert_eq!(last, result);
    assert!(head(world).contains(">done<"), "{}", head(world));
    // What was done before is not said to be done now, and what the sandbox enforced is known still.
    assert!(output.stderr.contains("the model's work is done already"), "{}", output.stderr);
    for untrue in ["running the repository's checks", "working on it"] {
        assert!(!output.stderr.contains(untrue), "{untrue}: {}", output.stderr);
    }
    let enforced = result["provenance"]["enforced"].as_array().unwrap();
    assert!(!enforced.is_empty(), "{result}");
    assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
}

#[test]
fn work_that_github_refuses_is_not_said_to_be_done() {
    let answer = json!({"message": "Resource not accessible by personal access token"});
    let refused = Fault::once("POST", "/pulls", Kind::Answer(403, answer));
    let world = TestWorld::new(github().fault(refused), fix());
    let output = world.run(&ARGS).expect(60);
    let (result, last) = (result(&world), last_event(&output));
    assert_eq!(
        (&result["conclusion"], &last["conclusion"]),
        (&last["conclusion"], &"forge_error".into())
    );
    assert!(result["reason"].as_str().unwrap().contains("Resource not accessible"), "{result}");
    assert_eq!((&result["published"], &result["checks"]), (&Value::Null, &"passed".into()));
    for words in [">not published<", "Resource not accessible", "the work is done and kept"] {
        assert!(head(&world).contains(words), "{words}: {}", head(&world));
    }
    published(&world, "(created)");
}

#[test]
fn work_that_is_interrupted_on_its_way_is_not_said_to_be_done() {
    let slow = Kind::Delay(Duration::from_mins(1));
    let world = TestWorld::new(github().fault(Fault::once("POST", "/pulls", slow)), fix());
    let child = world.spawn(&ARGS);
    until(&world, |journal| journal.contains("\"effect\":\"pull_request\""));
    let output = signalled(&world, child, "TERM").expect(143);
    let (result, last) = (result(&world), last_event(&output));
    assert_eq!(
        (&result["conclusion"], &last["conclusion"]),
        (&last["conclusion"], &"interrupted".into())
    );
    assert_eq!(result["reason"], last["message"]);
    assert!(head(&world).contains(">interrupted<"), "{}", head(&world));
    // What is there already, whoever reads the terminal or the issue is told.
    let link = "/acme/app/compare/main...patchwright/issue-7";
    for words in ["without asking the model again", link] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
        let comments = world.github.comments(7);
        assert!(comments[0].body.contains(words), "{words}: {comments:?}");
    }
    // Whether or not GitHub took the request.
    published(&world, "(created)");
}

/// Nobody is there to say so when it is killed, so the files say it before.
#[test]
fn work_whose_publishing_is_killed_is_not_said_to_be_done() {
    let slow = Kind::Delay(Duration::from_mins(1));
    let world = TestWorld::new(github().fault(Fault::once("POST", "/pulls", slow)), fix());
    let mut child = world.spawn(&ARGS);
    until(&world, |journal| journal.contains("\"effect\":\"pull_request\""));
    child.kill().unwrap();
    world.wait(child);
    let result = result(&world);
    assert_eq!(
        (&result["conclusion"], &result["published"], &result["checks"]),
        (&"interrupted".into(), &Value::Null, &"passed".into())
    );
    assert_eq!(result["reason"], "the run ended before it had published all of this");
    for words in [">interrupted<", "without asking the model again"] {
        assert!(head(&world).contains(words), "{words}: {}", head(&world));
    }
    published(&world, "(created)");
}

#[test]
fn a_pull_request_that_a_killed_run_has_opened_is_told_as_created() {
    let lost = Fault::once("POST", "/pulls", Kind::DelayAfter(Duration::from_mins(1)));
    let world = TestWorld::new(github().fault(lost), fix());
    let mut child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| !world.github.pulls().is_empty());
    child.kill().unwrap();
    world.wait(child);
    published(&world, "(created)");
}

/// The branch is as it was; the pull request is not.
#[test]
fn a_draft_that_becomes_ready_is_told_as_updated() {
    let slow = Kind::Delay(Duration::from_secs(5));
    let github: GitHub = github().fault(Fault::once("GET", "/git/ref/heads/main", slow));
    let world = TestWorld::new(github, fix());
    let child = world.spawn(&ARGS);
    wait_for(|| world.runs().first().is_some_and(|run| run.join("report.html").exists()));
    signalled(&world, child, "TERM").expect(143);
    let cut = result(&world);
    assert_eq!(cut["conclusion"], "interrupted", "{cut}");
    assert_eq!(
        (&cut["published"]["pull_request"], &cut["published"]["draft"]),
        (&8.into(), &true.into())
    );
    published(&world, "(updated)");
    assert!(!world.github.pulls()[0].draft);
}

#[test]
fn a_killed_run_of_a_closed_issue_is_not_said_to_be_at_work_and_is_resumed_when_it_is_reopened() {
    let world = TestWorld::new(github(), fix());
    kill_when(&world, |journal| journal.matches("\"is\":\"replied\"").count() == 2);
    let open = |open| world.github.change(|it| it.issues.get_mut(&7).unwrap().open = open);
    assert!(world.github.comments(7)[0].body.contains("is working on this"));
    open(false);
    let output = world.issue().expect(10);
    let run = world.runs()[0].file_name().unwrap().display().to_string();
    let kept = format!("its run {run} has not ended: it is kept, and resumed then");
    for words in ["issue acme/app#7 is closed", "reopen it", kept.as_str()] {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    let comments = world.github.comments(7);
    let [comment] = &comments[..] else { panic!("one comment: {comments:?}") };
    for words in ["**Patchwright was interrupted**", "is closed", "resumed then"] {
        assert!(comment.body.contains(words), "{words}: {}", comment.body);
    }
    open(true);
    assert!(replies(&world) >= 2);
    world.model.replace(rest(&world, fix()));
    world.issue().expect(0);
    let comments = world.github.comments(7);
    assert!(
        comments.len() == 1 && comments[0].body.contains("**Patchwright: done**"),
        "{comments:?}"
    );
    assert_eq!((world.runs().len(), world.github.pulls().len()), (1, 1));
}
