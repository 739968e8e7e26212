//! `@patchwright ignore`, an answer to a finding: the check says at once what follows from it, and no model is asked.

use patchwright_forge::Role;

use super::{adds, github, review, reviewer, table};
use crate::support::world::{Output, TestWorld};

fn world() -> TestWorld {
    let world = TestWorld::new(github().actions_token(), reviewer([adds(3, 0), adds(5, 3)]));
    review(&world).expect(0);
    assert_eq!(check(&world), "failure: 1 finding at P0 or above");
    world
}

/// What the newest check says.
fn check(world: &TestWorld) -> String {
    let newest = world.github.check_runs().pop().unwrap();
    format!("{}: {}", newest.conclusion.unwrap_or(newest.status), newest.title.unwrap_or_default())
}

/// Somebody answers the gravest finding, and the program is told.
fn answers(world: &TestWorld, login: &str, words: &str) -> Output {
    let finding = world.github.review_comments(3)[0].id;
    let answer = world.github.reply(login, finding, words);
    told(world, &format!("discussion_r{answer}"))
}

/// Somebody says something in the conversation, and the program is told.
fn says(world: &TestWorld, login: &str, words: &str) -> Output {
    let comment = world.github.post_comment(3, login, words);
    told(world, &format!("issuecomment-{comment}"))
}

fn told(world: &TestWorld, place: &str) -> Output {
    let asked = world.model.requests().len();
    let address = format!("{}/acme/app/pull/3#{place}", world.github.server_url());
    let output = world.run(&["respond", &address]);
    assert_eq!(world.model.requests().len(), asked, "no model is asked: {}", output.text());
    output
}

#[test]
fn an_answer_that_dismisses_a_finding_turns_the_check_at_once() {
    let world = world();
    let before = (world.github.comments(3).len(), world.github.review_comments(3).len());
    answers(&world, "rita", "That is on purpose.\n\n@patchwright ignore").expect(0);
    assert_eq!(check(&world), "success: 1 finding");
    assert_eq!(table(&world), ["still there: Adds 5", "dismissed: Adds 3"]);
    let after = (world.github.comments(3).len(), world.github.review_comments(3).len());
    assert_eq!(after, (before.0, before.1 + 1), "nothing is said beside the answer itself");
    // Said once more, nothing follows, which is said.
    answers(&world, "rita", "@patchwright ignore").expect(10);
    let said = world.github.review_comments(3).pop().unwrap().body;
    assert!(said.contains("**The check stays as it is**"), "{said}");
    assert_eq!(check(&world), "success: 1 finding");
}

#[test]
fn who_may_not_write_turns_no_check() {
    let github = github().user("tess", Role::Read).by("tess").actions_token();
    let world = TestWorld::new(github, reviewer([adds(3, 0)]));
    review(&world).expect(0);
    let writes = world.github.writes().len();
    for (login, code) in [("maya", 30), ("tess", 30), ("otto", 30)] {
        answers(&world, login, "@patchwright ignore").expect(code);
        says(&world, login, "@patchwright ignore").expect(code);
    }
    let written: Vec<_> = world.github.writes().split_off(writes);
    assert_eq!(written, [] as [String; 0]);
    assert_eq!(check(&world), "failure: 1 finding at P0 or above");
    // The word of the triage role counts with the next review; that of people who may only read never does.
    review(&world).expect(10);
    assert_eq!(check(&world), "success: No findings");
}

#[test]
fn the_authors_word_without_access_counts_in_no_review() {
    let github = github().user("tess", Role::Read).by("tess").actions_token();
    let world = TestWorld::new(github, reviewer([adds(3, 0)]));
    review(&world).expect(0);
    answers(&world, "tess", "@patchwright ignore").expect(30);
    review(&world).expect(10);
    // Somebody who may sets it off, and does not dismiss anything himself.
    says(&world, "rita", "@patchwright ignore").expect(10);
    assert_eq!(check(&world), "failure: 1 finding at P0 or above");
}

/// A fork's pull request has no secrets in the event of an answer on its lines; one in its conversation has.
#[test]
fn in_the_conversation_it_counts_what_was_dismissed_in_the_threads() {
    let world = world();
    says(&world, "rita", "@patchwright ignore").expect(10);
    let said = world.github.comments(3).pop().unwrap().body;
    assert!(said.contains("Answer in the thread of the finding, or resolve it"), "{said}");
    world.github.resolve("otto", world.github.review_comments(3)[0].id);
    says(&world, "rita", "@patchwright ignore").expect(0);
    assert_eq!(check(&world), "success: 1 finding");
}

#[test]
fn a_commit_that_was_not_reviewed_keeps_its_check() {
    let world = world();
    world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
    let checks = world.github.check_runs().len();
    answers(&world, "rita", "@patchwright ignore").expect(10);
    assert_eq!(world.github.check_runs().len(), checks);
    let said = world.github.review_comments(3).pop().unwrap().body;
    assert!(said.contains("has not been reviewed"), "{said}");
    world.model.add(reviewer([]));
    review(&world).expect(0);
    assert_eq!(check(&world), "success: 1 finding");
}

/// A stop is about work that begins by itself; a word against a finding does not lift it.
#[test]
fn it_counts_while_reviews_are_stopped_and_they_stay_stopped() {
    let world = world();
    says(&world, "rita", "@patchwright stop").expect(0);
    answers(&world, "rita", "@patchwright ignore").expect(0);
    assert_eq!(check(&world), "success: 1 finding");
    world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
    let output = review(&world).expect(10);
    assert!(output.stderr.contains("were stopped"), "{}", output.stderr);
}
