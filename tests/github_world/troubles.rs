//! Trouble with one repository, which the others know nothing of.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, get, post};
use crate::forge::client;
use crate::support::git_http;
use crate::support::github::{GitHub, Server, Trouble, fleet_name};

fn fleet() -> GitHub {
    let files = |number: usize| {
        // More than fits into one answer's first part.
        let noise: String = (0..200).map(|line| format!("{:x}\n", line * number * 7_919)).collect();
        [("README.md", noise)]
    };
    GitHub::new().repositories(20, files)
}

fn clone(github: &Server, name: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}/{name}.git", github.server_url());
    let output = git_http::command(folder.path(), &["clone", "--quiet", &url, "clone"]).output();
    output.unwrap().status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_of_one_repository_fail_once() {
    for trouble in [Trouble::CloneCut, Trouble::CloneError(503)] {
        let github = fleet().fault_for("acme/app-003", trouble.clone()).start();
        assert!(clone(&github, "acme/app-002"), "{trouble:?}");
        assert!(!clone(&github, "acme/app-003"), "{trouble:?}");
        assert!(clone(&github, "acme/app-003"), "{trouble:?}");
    }
}

/// Status of opening a pull request, zero when the answer is lost; and how many there are then.
async fn open(github: &Server, name: &str) -> (u16, usize) {
    github.of(name).push("topic", &[("new", "new")]);
    let body = json!({"title": "New", "head": "topic", "base": "main"});
    let request = client()
        .post(format!("{}/repos/{name}/pulls", github.api_url()))
        .header("user-agent", "test")
        .bearer_auth(github.token())
        .json(&body);
    let status = match request.send().await {
        Err(_) => 0,
        Ok(answer) => {
            let status = answer.status().as_u16();
            if answer.bytes().await.is_ok() { status } else { 0 }
        }
    };
    (status, github.of(name).pulls().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_pull_request_fails_before_or_after_it_took_effect() {
    let github = fleet()
        .fault_for("acme/app-001", Trouble::PullErrorAfter(502))
        .fault_for("acme/app-002", Trouble::PullLost)
        .fault_for("acme/app-003", Trouble::PullError(500))
        .fault_for("acme/app-004", Trouble::Secondary(None))
        .start();
    let mut seen = Vec::new();
    for number in 1..=5 {
        seen.push(open(&github, &fleet_name(number)).await);
    }
    assert_eq!(seen, [(502, 1), (0, 1), (500, 0), (403, 0), (201, 1)]);
    // The wait holds for the account, not for the repository.
    assert_eq!(github.pace().early_writes.len(), 1);
    assert_eq!(github.all_pulls().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_or_forbidden_is_so_everywhere() {
    let github = fleet()
        .fault_for("acme/app-001", Trouble::Gone)
        .fault_for("acme/app-002", Trouble::Forbidden)
        .start();
    assert_eq!(get(&github, "/repos/acme/app-001").await.status, 404);
    let answer = get(&github, "/repos/acme/app-002/contents/README.md").await;
    assert_eq!(answer.status, 403);
    assert!(answer.headers.contains_key("x-github-sso"));
    assert!(!clone(&github, "acme/app-001") && !clone(&github, "acme/app-002"));
    let query = "{ a: repository(owner: \"acme\", name: \"app-001\") { id }
        b: repository(owner: \"acme\", name: \"app-002\") { id }
        c: repository(owner: \"acme\", name: \"app-003\") { name } }";
    let answer = post(&github, "/graphql", json!({"query": query})).await.json();
    assert_eq!(answer["data"], json!({"a": null, "b": null, "c": {"name": "app-003"}}));
    let kinds: Vec<&Value> =
        answer["errors"].as_array().unwrap().iter().map(|error| &error["type"]).collect();
    assert_eq!(kinds, ["NOT_FOUND", "FORBIDDEN"]);
    assert_eq!(answer["errors"][1]["extensions"]["saml_failure"], json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_repositories_is_chosen_evenly_and_always_the_same() {
    let kinds = [Trouble::CloneCut, Trouble::PullLost];
    let github = fleet().fault_share(0.1, &kinds).start();
    let troubled: Vec<_> = github.troubled().into_iter().collect();
    assert_eq!(
        troubled,
        [
            ("acme/app-005".to_owned(), Trouble::CloneCut),
            ("acme/app-015".to_owned(), Trouble::PullLost),
        ]
    );
    let slow = fleet().fault_for("acme/app-002", Trouble::Slow(Duration::from_millis(300))).start();
    get(&slow, "/repos/acme/app-001").await;
    let began = Instant::now();
    ask(&slow, Method::GET, "/repos/acme/app-002", None).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
}
