//! Payloads of webhooks against their description.

use serde_json::{Value, json};

use super::with_pull;
use crate::support::github::{Event, GitHub, webhooks};

/// What is wrong with a payload.
fn check(event: &Event, schema: &str) -> String {
    match webhooks().check_schema(&format!("webhook-{schema}"), &event.payload) {
        Ok(()) => String::new(),
        Err(err) => format!("{schema}: {err}\n"),
    }
}

#[test]
fn payloads_are_as_described() {
    let github = with_pull().label("bug").issue("acme/app", 7, "Broken", "It is.").start();
    let mut wrong = String::new();
    let before = github.head_of(5);
    github.push_to_pull(5, &[("new.txt", "newer\n")]);
    wrong += &check(&github.pull_request_event("opened", 5, "alice"), "pull-request-opened");
    wrong += &check(&github.pull_request_event("reopened", 5, "alice"), "pull-request-reopened");
    let ready = github.pull_request_event("ready_for_review", 5, "alice");
    wrong += &check(&ready, "pull-request-ready-for-review");
    wrong += &check(&github.pull_labeled_event(5, "bug", "alice"), "pull-request-labeled");
    let pushed = github.synchronize_event(5, &before, "alice");
    wrong += &check(&pushed, "pull-request-synchronize");
    assert_eq!(pushed.payload["after"], pushed.payload["pull_request"]["head"]["sha"]);
    let on_pull = github.issue_comment_event(github.post_comment(5, "alice", "@patchwright help"));
    wrong += &check(&on_pull, "issue-comment-created");
    assert!(on_pull.payload["issue"]["pull_request"].is_object());
    let on_issue = github.issue_comment_event(github.post_comment(7, "alice", "Same here."));
    wrong += &check(&on_issue, "issue-comment-created");
    assert_eq!(on_issue.payload["issue"].get("pull_request"), None);
    let comment = github.comment_on_line("alice", 5, "new.txt", 1, "Why?");
    wrong += &check(&github.review_comment_event(comment), "pull-request-review-comment-created");
    let reply = github.review_comment_event(github.reply("alice", comment, "Hm."));
    wrong += &check(&reply, "pull-request-review-comment-created");
    assert_eq!(reply.payload["comment"]["in_reply_to_id"], json!(comment));
    let review = github.review_as("alice", 5, "APPROVED", "Fine.", &[]);
    wrong += &check(&github.review_event(5, review), "pull-request-review-submitted");
    wrong += &check(&github.workflow_run_event(5, "review", "success"), "workflow-run-completed");
    wrong +=
        &check(&github.check_suite_event(5, "github-actions", "failure"), "check-suite-completed");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn runs_of_forks_name_no_pull_request() {
    let github = GitHub::new()
        .repository("acme/app", &[("a.txt", "a\n")])
        .fork("bob/app")
        .pull(5, "From outside", "bob:topic", &[("a.txt", "b\n")])
        .pull(6, "From inside", "topic", &[("a.txt", "c\n")])
        .start();
    let pulls = |event: &Event, key: &str| event.payload[key]["pull_requests"].clone();
    let run = github.workflow_run_event(5, "review", "success");
    assert_eq!(check(&run, "workflow-run-completed"), "");
    assert_eq!(pulls(&run, "workflow_run"), json!([]));
    assert_eq!(run.payload["workflow_run"]["head_repository"]["full_name"], json!("bob/app"));
    assert_eq!(run.payload["workflow_run"]["head_sha"], json!(github.head_of(5)));
    let suite = github.check_suite_event(5, "github-actions", "failure");
    assert_eq!(pulls(&suite, "check_suite"), json!([]));
    let inside = github.workflow_run_event(6, "review", "success");
    assert_eq!(pulls(&inside, "workflow_run")[0]["number"], json!(6));
    github.delete_fork_of(5);
    let event = github.pull_request_event("labeled", 5, "bob").with(|payload| {
        payload["label"] = json!({"name": "x"});
    });
    assert_eq!(event.payload["pull_request"]["head"]["repo"], Value::Null);
}
