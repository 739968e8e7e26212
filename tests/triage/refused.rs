//! Issues that are not triaged, and a forge that says no: each is said, and nothing is written.

use super::{answer, good, the_comment, tracker, triage};
use crate::resume::wait_for;
use crate::support::github::GitHub;
use crate::support::model::limited;
use crate::support::world::TestWorld;

fn refused(github: GitHub, code: i32, said: &str) {
    let world = TestWorld::new(github, answer(&good()));
    let output = triage(&world, &[]).expect(code);
    assert!(output.stderr.contains(said), "{said}: {}", output.text());
    assert_eq!(world.github.writes(), Vec::<String>::new(), "{said}");
    assert_eq!(world.model.requests().len(), 0, "{said}");
}

#[test]
fn issues_that_are_over_or_no_issues_are_left_alone() {
    refused(tracker().with_issue(|issue| issue.open = false), 10, "acme/app#7 is closed");
    refused(tracker().with_issue(|issue| issue.locked = true), 10, "acme/app#7 is locked");
    refused(
        tracker().with_issue(|issue| issue.deleted = true),
        10,
        "deleted, or issues are turned off",
    );
    refused(tracker().with(|it| it.has_issues = false), 10, "issues are turned off");
    refused(tracker().with(|it| it.archived = true), 10, "`acme/app` is archived");
    refused(tracker().by("renovate[bot]"), 10, "is by the bot `renovate[bot]`");
    let elsewhere = tracker().repository("acme/other", &[("a", "b")]);
    let elsewhere = elsewhere.issue("acme/other", 1, "Moved", "Here.");
    let id = std::cell::Cell::new(0);
    let elsewhere = elsewhere.with(|it| id.set(it.id));
    let elsewhere = elsewhere.issue("acme/app", 7, "Moved", "Gone.");
    let moved = elsewhere.with_issue(|issue| issue.transferred_to = Some((id.get(), 1)));
    refused(moved, 10, "was transferred to `acme/other#1`");
}

#[test]
fn an_issue_that_is_closed_while_the_model_reads_gets_nothing() {
    let mut turns = vec![limited(20)];
    turns.extend(answer(&good()));
    let world = TestWorld::new(tracker(), turns);
    let child = world.spawn(&["triage", "acme/app#7"]);
    wait_for(|| !world.model.requests().is_empty());
    world.github.change(|repository| repository.issues.get_mut(&7).unwrap().open = false);
    let output = world.wait(child).expect(10);
    assert!(output.stderr.contains("closed"), "{}", output.text());
    assert_eq!(world.github.writes(), Vec::<String>::new());
    assert_eq!(world.model.requests().len(), 2);
}

#[test]
fn a_pull_request_is_no_issue() {
    let github = tracker().pull(8, "Add", "add", &[("a", "b")]);
    let world = TestWorld::new(github, answer(&good()));
    let output = world.run(&["triage", "acme/app#8"]).expect(2);
    assert!(output.stderr.contains("is a pull request, not an issue"), "{}", output.text());
    let url = format!("{}/acme/app/pull/8", world.github.server_url());
    world.run(&["triage", &url]).expect(2);
    assert_eq!(world.github.writes(), Vec::<String>::new());
}

#[test]
fn a_token_that_may_not_label_is_said_and_the_answer_is_kept() {
    let world = TestWorld::new(tracker().token_lacks("issues"), answer(&good()));
    let output = triage(&world, &[]).expect(60);
    for part in ["not allowed to label `acme/app#7`", "issues: write"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.text());
    }
    assert_eq!(world.github.comments(7).len(), 0);
    assert_eq!(world.github.labels(7), Vec::<String>::new());
    // With the permission, the same command goes on without asking again.
    world.github.permit("issues");
    triage(&world, &[]).expect(0);
    assert_eq!(world.model.requests().len(), 1);
    assert_eq!(world.github.labels(7), ["bug"]);
    assert!(the_comment(&world).contains("Which version"), "{}", the_comment(&world));
}
