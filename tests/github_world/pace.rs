//! What is counted of writes, and what happens when there are too many.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{ask_with, get, post};
use crate::support::git_http;
use crate::support::github::{Ceiling, GitHub, Server};

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
    assert!(seen.smallest_gap.unwrap() < Duration::from_secs(60));
    assert_eq!((seen.refused, seen.pushes), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_in_a_minute_meet_the_secondary_limit_until_the_wait_is_over() {
    let ceiling = Ceiling { per_minute: 5, per_hour: 500, retry_after: Some(60) };
    // A minute takes 0.6 seconds.
    let github = world().time_scale(0.01).enforce(ceiling).start();
    let mut status = Vec::new();
    for _ in 0..6 {
        status.push(comment(&github).await);
    }
    assert_eq!(status, [201, 201, 201, 201, 201, 403]);
    let early = post(&github, "/repos/acme/app/issues/1/comments", json!({"body": "x"})).await;
    assert!(early.text.contains("secondary rate limit"), "{}", early.text);
    assert_eq!(early.headers["retry-after"], "60");
    assert_eq!(get(&github, "/repos/acme/app").await.status, 403);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(comment(&github).await, 201);
    let seen = github.pace();
    assert_eq!((seen.created, seen.worst_minute, seen.refused), (6, 5, 3));
    assert_eq!((seen.early_writes.len(), seen.early_reads.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_in_an_hour_are_refused_too_and_sometimes_without_a_time() {
    let ceiling = Ceiling { per_minute: 80, per_hour: 12, retry_after: None };
    let github = world().time_scale(0.01).enforce(ceiling).start();
    for _ in 0..12 {
        assert_eq!(comment(&github).await, 201);
    }
    assert_eq!(comment(&github).await, 403);
    // A minute later the hour is not over.
    std::thread::sleep(Duration::from_millis(700));
    let refused = post(&github, "/repos/acme/app/issues/1/comments", json!({"body": "x"})).await;
    assert_eq!(refused.status, 403);
    assert!(!refused.headers.contains_key("retry-after"));
    let seen = github.pace();
    assert_eq!((seen.worst_hour, seen.refused, seen.early_writes.len()), (12, 2, 0));
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
