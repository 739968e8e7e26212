//! Checks, statuses, logs, and what the kinds of tokens may.

use std::fmt::Write as _;

use expect_test::expect;
use reqwest::Method;
use serde_json::json;

use super::{PULL, ask, ask_with, get, post, with_pull};
use crate::forge::client;
use crate::support::github::GitHub;

type Change = fn(GitHub) -> GitHub;

const CHECKS: &str = "/repos/acme/app/check-runs";

#[tokio::test(flavor = "multi_thread")]
async fn only_apps_make_check_runs_and_only_their_own_are_theirs() {
    let github = with_pull()
        .token_of("patchwright[bot]")
        .another_token("other", "other-app[bot]")
        .another_token("person", "carol")
        .failing_check("test", "boom\n")
        .start();
    let sha = github.head_of(5);
    let notes: Vec<_> = (1..=50)
        .map(|line| json!({"path": "long.txt", "start_line": line, "end_line": line, "annotation_level": "warning", "message": "Hm."}))
        .collect();
    let output = json!({"title": "Review", "summary": "Found.", "annotations": notes});
    let check = json!({"name": "patchwright", "head_sha": sha, "status": "completed", "conclusion": "neutral", "output": output});
    let made = post(&github, CHECKS, check.clone()).await;
    assert_eq!(made.status, 201);
    let one = format!("{CHECKS}/{}", made.json()["id"]);
    let more = json!({"output": {"summary": "More.", "annotations": [notes[0]]}});
    assert_eq!(ask(&github, Method::PATCH, &one, Some(more.clone())).await.status, 200);
    let listed = get(&github, &format!("{one}/annotations?per_page=100")).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 51);
    let other = ask_with(&github, Method::PATCH, &one, Some(more), "other", "").await;
    let person = ask_with(&github, Method::POST, CHECKS, Some(check.clone()), "person", "").await;
    let mut said = format!("other: {}\nperson: {}\n", other.problem(), person.problem());
    post(&github, CHECKS, check).await;
    for query in ["", "?filter=all", "?check_name=patchwright", "?check_name=test&filter=latest"] {
        let runs =
            get(&github, &format!("/repos/acme/app/commits/{sha}/check-runs{query}")).await.json();
        let names = runs["check_runs"].as_array().unwrap().iter();
        let names: Vec<String> = names
            .map(|run| format!("{} {} {}", run["app"]["slug"], run["name"], run["conclusion"]))
            .collect();
        writeln!(said, "{query}: {} {names:?}", runs["total_count"]).unwrap();
    }
    expect![[r#"
        other: 403 Invalid app_id `191904` - check run can only be modified by the GitHub App that created it.
        person: 403 You must authenticate via a GitHub App.
        : 2 ["\"patchwright\" \"patchwright\" \"neutral\"", "\"github-actions\" \"test\" \"failure\""]
        ?filter=all: 3 ["\"patchwright\" \"patchwright\" \"neutral\"", "\"patchwright\" \"patchwright\" \"neutral\"", "\"github-actions\" \"test\" \"failure\""]
        ?check_name=patchwright: 1 ["\"patchwright\" \"patchwright\" \"neutral\""]
        ?check_name=test&filter=latest: 1 ["\"github-actions\" \"test\" \"failure\""]
    "#]].assert_eq(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_elsewhere_and_take_no_token() {
    let github = with_pull().failing_check("test", "one\nboom\n").start();
    let sha = github.head_of(5);
    let runs = get(&github, &format!("/repos/acme/app/commits/{sha}/check-runs")).await.json();
    let id = runs["check_runs"][0]["id"].clone();
    let logs = get(&github, &format!("/repos/acme/app/actions/jobs/{id}/logs")).await;
    let to = logs.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(logs.status, 302);
    assert!(!to.starts_with(&github.api_url()));
    let log = client().get(&to).send().await.unwrap();
    assert_eq!(log.text().await.unwrap(), "one\nboom\n");
    assert!(github.take_violations().is_empty());
    let refused = client().get(&to).header("authorization", "Bearer x").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), github.take_violations().len()), (400, 1));
    let run = runs["check_runs"][0]["html_url"].as_str().unwrap().to_owned();
    let run = run.split("/runs/").nth(1).unwrap().split('/').next().unwrap();
    let jobs = get(&github, &format!("/repos/acme/app/actions/runs/{run}/jobs")).await.json();
    assert_eq!(jobs["jobs"][0]["name"], json!("test"));
    let all = get(&github, &format!("/repos/acme/app/actions/runs?head_sha={sha}")).await.json();
    assert_eq!(all["workflow_runs"][0]["id"].to_string(), run);
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_have_one_state_for_each_context() {
    let github = with_pull().start();
    let sha = github.head_of(5);
    let path = format!("/repos/acme/app/statuses/{sha}");
    for state in ["pending", "failure", "success"] {
        let status = json!({"state": state, "context": "patchwright", "description": state});
        assert_eq!(post(&github, &path, status).await.status, 201);
    }
    let long = json!({"state": "success", "description": "x".repeat(141)});
    assert_eq!(post(&github, &path, long).await.status, 422);
    let combined = get(&github, &format!("/repos/acme/app/commits/{sha}/status")).await.json();
    assert_eq!(
        (combined["state"].clone(), combined["total_count"].clone()),
        (json!("success"), json!(1))
    );
    assert_eq!(github.statuses().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_token_may_its_own() {
    let mut said = String::new();
    let kinds: [(&str, Change); 4] = [
        ("person", |github| github),
        ("app", |github| github.token_of("patchwright[bot]")),
        ("run", GitHub::actions_token),
        ("run of a fork", GitHub::fork_actions_token),
    ];
    for (name, change) in kinds {
        let github = change(with_pull()).start();
        let sha = github.head_of(5);
        writeln!(said, "{name}: {}", get(&github, "/user").await.problem()).unwrap();
        let writes = [
            ("/repos/acme/app/issues/5/comments".to_owned(), json!({"body": "x"})),
            (format!("{PULL}/reviews"), json!({"event": "COMMENT", "body": "x"})),
            (CHECKS.to_owned(), json!({"name": "x", "head_sha": sha})),
            (format!("/repos/acme/app/statuses/{sha}"), json!({"state": "success"})),
            ("/repos/acme/app/issues/5/reactions".to_owned(), json!({"content": "eyes"})),
        ];
        for (path, body) in writes {
            let path = path.as_str();
            let answer = post(&github, path, body).await;
            let by = answer.json()["user"]["login"].clone();
            writeln!(said, "  {} {by}", answer.problem()).unwrap();
        }
    }
    expect![[r#"
        person: 200 -
          201 - "patchwright-bot"
          200 - "patchwright-bot"
          403 You must authenticate via a GitHub App. null
          201 - null
          201 - "patchwright-bot"
        app: 403 Resource not accessible by integration
          201 - "patchwright[bot]"
          200 - "patchwright[bot]"
          201 - null
          201 - null
          201 - "patchwright[bot]"
        run: 403 Resource not accessible by integration
          201 - "github-actions[bot]"
          200 - "github-actions[bot]"
          201 - null
          201 - null
          201 - "github-actions[bot]"
        run of a fork: 403 Resource not accessible by integration
          403 Resource not accessible by integration null
          403 Resource not accessible by integration null
          403 Resource not accessible by integration null
          403 Resource not accessible by integration null
          403 Resource not accessible by integration null
    "#]]
    .assert_eq(&said);
}
