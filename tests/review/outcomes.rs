//! Pull requests that are not reviewed, each with its reason, its exit code, and nothing spent.

use expect_test::{Expect, expect};
use serde_json::json;

use super::{BASE, DIVIDE, last_words, nothing_found, pull, pull_with, report, result, review};
use crate::support::github::GitHub;
use crate::support::world::TestWorld;

/// Nothing is asked of the model and nothing is written to GitHub.
#[track_caller]
fn ends(github: GitHub, args: &[&str], code: i32, expected: &Expect) {
    let world = TestWorld::new(github, []);
    let output = review(&world, args).expect(code);
    let said: Vec<&str> =
        output.stderr.lines().skip_while(|line| !line.starts_with("error:")).collect();
    expected.assert_eq(&world.tidy(&said.join("\n")));
    assert!(world.model.requests().is_empty());
    assert!(world.github.reviews(8).is_empty());
}

#[test]
fn a_closed_merged_locked_or_draft_pull_request_is_left_alone() {
    ends(
        pull().closed(),
        &[],
        10,
        &expect![[r#"
        error: pull request acme/app#8 is closed

        hint: reopen it to have it reviewed"#]],
    );
    ends(
        pull().merged(),
        &[],
        10,
        &expect![[r#"
        error: pull request acme/app#8 is merged

        hint: it cannot be reviewed any more; ask about it in a comment, or open another pull request for what is to be changed"#]],
    );
    ends(
        pull().locked(),
        &[],
        10,
        &expect![[r#"
        error: pull request acme/app#8 is locked

        hint: unlock the conversation to have it reviewed"#]],
    );
    ends(
        pull().draft(),
        &[],
        10,
        &expect![[r#"
        error: not reviewed: pull request #8 is a draft

        hint: mark it as ready for review, or have drafts reviewed with `review: {drafts: true}`"#]],
    );
}

#[test]
fn rules_of_the_repository_leave_pull_requests_out() {
    let with = |rules: &str| {
        let mut files = BASE.to_vec();
        files.push((".github/patchwright.yml", rules));
        GitHub::new()
            .repository("acme/app", &files)
            .pull(8, "Add divide", "divide", &[("calc.sh", DIVIDE)])
            .by("rita")
            .label("bug")
    };
    ends(
        with("review:\n  skip-labels: [Bug]\n"),
        &[],
        10,
        &expect![
            "error: not reviewed: pull request #8 has the label `Bug` of `review.skip-labels`"
        ],
    );
    ends(
        with("review:\n  labels: [please-review]\n"),
        &[],
        10,
        &expect!["error: not reviewed: pull request #8 has none of the labels of `review.labels`"],
    );
    ends(
        with("review:\n  skip-authors: [Rita]\n"),
        &[],
        10,
        &expect![
            "error: not reviewed: pull request #8 is by `rita`, who is in `review.skip-authors`"
        ],
    );
    ends(
        with("review:\n  ignore-paths: ['*.sh']\n"),
        &[],
        10,
        &expect!["error: pull request #8 has no file to review: all are filtered out or not text"],
    );
    ends(
        with("review:\n  paths: [docs/]\n"),
        &[],
        10,
        &expect!["error: pull request #8 has no file to review: all are filtered out or not text"],
    );
}

#[test]
fn a_pull_request_without_a_difference_has_nothing_to_review() {
    ends(
        pull_with(&[]),
        &[],
        10,
        &expect![
            "error: pull request #8 changes nothing: its branch has no difference to its base"
        ],
    );
}

#[test]
fn what_is_no_pull_request_is_said() {
    let github = || pull().issue("acme/app", 9, "A bug", "It breaks.");
    let world = TestWorld::new(github(), []);
    let output = world.run(&["review", "acme/app#9"]).expect(2);
    expect![[r#"
        error: acme/app#9 is an issue, not a pull request

        hint: give the number of a pull request
    "#]]
    .assert_eq(&world.tidy(&output.stderr));
    let output = world.run(&["review", "acme/app#77"]).expect(60);
    expect![[r#"
        error: pull request `acme/app#77` (or the token lacks `pull-requests: read`) was not found

        hint: check the number: acme/app#77
    "#]]
    .assert_eq(&world.tidy(&output.stderr));
    let output = world.run(&["review", "acme/app"]).expect(2);
    assert!(output.stderr.contains("write it as `OWNER/REPO#N`"), "{}", output.stderr);
}

#[test]
fn a_head_that_is_no_commit_or_gone_is_said() {
    ends(
        pull(),
        &["--head", "main"],
        2,
        &expect![[r#"
        error: `main` is not the id of the pull request's newest commit

        hint: give a commit by all 40 digits of its id"#]],
    );
    ends(
        pull(),
        &["--head", &"ab".repeat(20)],
        60,
        &expect![[r#"
            error: commit SHA can no longer be fetched: pull request #8 is at SHA now
              cause: `SHA` in `GITHUB/acme/app.git` was not found

            hint: review the newest commit: leave out `--head`"#]],
    );
}

#[test]
fn a_model_without_tool_calls_cannot_review() {
    ends(
        pull(),
        &["--profile", "text"],
        2,
        &expect![[r#"
        error: a review needs a model with tool calls

        hint: choose another model with `--model`, or another tool profile with `--profile`"#]],
    );
}

#[test]
fn an_archived_repository_takes_no_review_and_can_be_read() {
    let archived = || pull().with(|repository| repository.archived = true);
    ends(
        archived(),
        &[],
        10,
        &expect![[r#"
        error: `acme/app` is archived

        hint: unarchive the repository in its settings, or use `--dry-run` to post nothing"#]],
    );
    let world = TestWorld::new(archived(), [nothing_found()]);
    review(&world, &["--dry-run"]).expect(0);
}

#[test]
fn the_same_commit_is_reviewed_once_unless_asked() {
    let turns = || [report(&json!({})), last_words()];
    let world = TestWorld::new(pull(), turns().into_iter().chain(turns()));
    review(&world, &[]).expect(0);
    let output = review(&world, &[]).expect(10);
    assert!(output.stderr.contains("was reviewed at"), "{}", output.stderr);
    assert_eq!(world.model.requests().len(), 2);
    review(&world, &["--full"]).expect(0);
    assert_eq!(world.model.requests().len(), 4);
    assert_eq!(world.github.review_comments(8).len(), 1, "the finding is known");
}

#[test]
fn the_fork_may_be_gone() {
    let github = GitHub::new()
        .repository("acme/app", BASE)
        .fork("mallory/app")
        .pull(8, "Add divide", "mallory:divide", &[("calc.sh", DIVIDE)])
        .fork_deleted();
    let world = TestWorld::new(github, [report(&json!({})), last_words()]);
    review(&world, &["--dry-run"]).expect(0);
    assert_eq!(result(&world)["findings"][0]["anchor"]["line"], 6);
}

#[test]
fn an_older_commit_of_the_pull_request_is_reviewed_when_it_is_named() {
    let world = TestWorld::new(pull(), [nothing_found()]);
    let older = world.github.head_of(8);
    world.github.push_to_pull(8, &[("more.sh", "true\n")]);
    review(&world, &["--dry-run", "--head", &older]).expect(0);
    let result = result(&world);
    assert_eq!(result["head"], older);
    assert_eq!(result["coverage"]["files"], 1);
}
