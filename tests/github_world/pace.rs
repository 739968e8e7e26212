//! What is counted of writes, and what happens when there are too many.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::{ask_with, get, post};
use crate::support::git_http;
use crate::support::github::{Ceiling, GitHub, Pace, PaceReport, Server};

fn world() -> GitHub {
    GitHub::new().repository("acme/app", &[("a", "a")]).issue("acme/app", 1, "One", "Body")
}

async fn comment(github: &Server) -> u16 {
    let body = json!({"body": "Hm."});
    post(github, "/repos/acme/app/issues/1/comments", body).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_counted_for_each_account_and_reads_and_queries_are_not() {
    let github = world().another_token("other-token", "other").start();
    for _ in 0..3 {
        assert_eq!(comment(&github).await, 201);
    }
    get(&github, "/repos/acme/app").await;
    let query = "query { repository(owner: \"acme\", name: \"app\") { name } }";
    post(&github, "/graphql", json!({"query": query})).await;
    let path = "/repos/acme/app/issues/1";
    let body = Some(json!({"title": "Other"}));
    let accept = "application/vnd.github+json";
    ask_with(&github, Method::PATCH, path, body, "other-token", accept).await;
    let seen = github.pace();
    assert_eq!((seen.writes, seen.created, seen.worst_minute, seen.worst_hour), (4, 3, 3, 3));
    assert!(seen.smallest_gap.is_some());
    assert_eq!((seen.refused, seen.pushes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_writes_meet_the_secondary_limit_and_so_does_everything_after_them() {
    let ceiling = Ceiling { per_minute: 3, per_hour: 500, retry_after: Some(60) };
    let github = world().enforce(ceiling).start();
    let mut status = Vec::new();
    for _ in 0..4 {
        status.push(comment(&github).await);
    }
    assert_eq!(status, [201, 201, 201, 403]);
    let early = post(&github, "/repos/acme/app/issues/1/comments", json!({"body": "x"})).await;
    assert!(early.text.contains("secondary rate limit"), "{}", early.text);
    assert_eq!(early.headers["retry-after"], "60");
    assert_eq!(get(&github, "/repos/acme/app").await.status, 403);
    let seen = github.pace();
    assert_eq!((seen.created, seen.worst_minute, seen.refused), (3, 3, 3));
    assert_eq!((seen.early_writes.len(), seen.early_reads.len()), (1, 1));
}

/// Writes at these seconds of GitHub's clock; whether each was let through, and what was seen.
fn written(ceiling: Ceiling, scale: f64, seconds: &[u64]) -> (Vec<bool>, PaceReport) {
    let began = Instant::now();
    let mut pace = Pace::new();
    (pace.scale, pace.ceiling) = (scale, Some(ceiling));
    let passed = seconds.iter().map(|at| {
        let at = began + Duration::from_secs(*at).mul_f64(scale) + Duration::from_millis(50);
        pace.arrive(at, "bot", "POST", "/repos/acme/app/pulls", None).is_none()
    });
    (passed.collect(), pace.report())
}

#[test]
fn the_minute_slides_and_the_wait_ends() {
    for scale in [1.0, 0.01] {
        let ceiling = Ceiling { per_minute: 3, per_hour: 500, retry_after: Some(60) };
        let (passed, seen) = written(ceiling, scale, &[0, 20, 40, 61, 62, 63, 121, 130]);
        assert_eq!(passed, [true, true, true, true, false, false, false, true]);
        assert_eq!((seen.worst_minute, seen.refused, seen.early_writes.len()), (3, 3, 2));
        let gap = seen.smallest_gap.unwrap();
        assert!(gap > Duration::from_secs(19) && gap < Duration::from_secs(22), "{gap:?}");
    }
}

#[test]
fn the_hour_is_counted_too_and_a_limit_without_a_time_means_a_minute() {
    let ceiling = Ceiling { per_minute: 80, per_hour: 4, retry_after: None };
    let (passed, seen) = written(ceiling, 1.0, &[0, 100, 200, 300, 400, 450, 470, 3_590, 3_700]);
    assert_eq!(passed, [true, true, true, true, false, false, false, false, true]);
    // The third refusal came after the wait, and began another.
    assert_eq!((seen.worst_hour, seen.refused, seen.early_writes.len()), (4, 4, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_are_counted_apart() {
    let github = world().start();
    let folder = tempfile::tempdir().unwrap();
    let auth = format!("http://x-access-token:{}@", github.token());
    let url = format!("{}/acme/app.git", github.server_url().replace("http://", &auth));
    git_http::git(folder.path(), &["clone", "--quiet", &url, "clone"]);
    let clone = folder.path().join("clone");
    git_http::git(&clone, &["push", "--quiet", "origin", "HEAD:topic"]);
    let seen = github.pace();
    assert_eq!((seen.pushes, seen.writes), (1, 0));
}
