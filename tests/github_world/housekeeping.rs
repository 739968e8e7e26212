//! What a campaign keeps in order: its issue, its pull requests, its branches; and what people do
//! with them meanwhile.

use patchwright_forge::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Said, ask, get, post};
use crate::support::github::{GitHub, Server};

async fn patch(github: &Server, path: &str, body: Value) -> Said {
    ask(github, Method::PATCH, path, Some(body)).await
}

async fn delete(github: &Server, path: &str) -> Said {
    ask(github, Method::DELETE, path, None).await
}

fn world() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("a", "a")])
        .repository("acme/tool", &[("a", "a")])
        .pull(1, "Tidy", "patchwright/tidy", &[("a", "b")])
        .by("patchwright-bot")
        .pull(2, "Theirs", "topic", &[("a", "c")])
        .by("rita")
}

const PULL: &str = "/repos/acme/tool/pulls/1";

#[tokio::test(flavor = "multi_thread")]
async fn issues_are_opened_edited_and_listed_by_creator_page_by_page() {
    let github = world().start();
    let issues = "/repos/acme/app/issues";
    let opened = post(
        &github,
        issues,
        json!({"title": "Campaign", "body": "0 of 9", "labels": ["Bug", "new"]}),
    )
    .await;
    assert_eq!((opened.status, &opened.json()["number"]), (201, &json!(1)));
    assert_eq!(github.of("acme/app").issues()[0].labels, ["bug", "new"]);
    let edited = patch(
        &github,
        &format!("{issues}/1"),
        json!({"body": "9 of 9", "state": "closed", "state_reason": "completed", "labels": []}),
    )
    .await;
    assert_eq!((edited.status, &edited.json()["state"]), (200, &json!("closed")));
    assert_eq!(github.of("acme/app").issues()[0].body.as_deref(), Some("9 of 9"));
    for number in 2..=6 {
        post(&github, issues, json!({"title": format!("Issue {number}")})).await;
    }
    github.world().add_issue("acme/app", 7, "Theirs", None, Some("rita"));
    let mut path = format!("{issues}?creator=patchwright-bot&state=all&per_page=4");
    let mut found = Vec::new();
    loop {
        let answer = get(&github, &path).await;
        let page = answer.json().as_array().cloned().unwrap();
        found.extend(page.iter().map(|issue| issue["number"].as_u64().unwrap()));
        let Some(link) = answer.headers.get("link") else { break };
        let link = link.to_str().unwrap();
        assert!(link.contains("after=") && !link.contains("rel=\"last\""), "{link}");
        path = link[1..].split('>').next().unwrap().replace(&github.api_url(), "");
    }
    assert_eq!(found, [6, 5, 4, 3, 2, 1]);
    let long = post(&github, issues, json!({"title": "x".repeat(257)})).await;
    assert!(long.problem().starts_with("422 Validation Failed"), "{}", long.problem());
    let long = patch(&github, &format!("{issues}/1"), json!({"body": "x".repeat(65_537)})).await;
    assert_eq!(long.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn pull_requests_are_closed_and_opened_again_while_their_branch_is_there() {
    let github = world().start();
    let tool = github.of("acme/tool");
    assert_eq!(patch(&github, PULL, json!({"state": "closed"})).await.json()["state"], "closed");
    assert_eq!(patch(&github, PULL, json!({"state": "open"})).await.json()["state"], "open");
    let branch = "/repos/acme/tool/git/refs/heads/patchwright/tidy";
    assert_eq!(delete(&github, branch).await.status, 204);
    assert_eq!(delete(&github, branch).await.problem(), "422 Reference does not exist");
    assert!(!tool.pulls()[0].open);
    let again = patch(&github, PULL, json!({"state": "open"})).await;
    assert!(again.problem().contains("branch has been deleted"), "{}", again.problem());
    tool.merge(2);
    let merged = patch(&github, "/repos/acme/tool/pulls/2", json!({"state": "open"})).await;
    assert!(merged.problem().contains("Cannot reopen a merged pull request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_may_only_read_change_nothing_of_others() {
    let github = world().our_role(Role::Read).start();
    assert_eq!(patch(&github, PULL, json!({"title": "Mine"})).await.status, 200);
    let theirs = patch(&github, "/repos/acme/tool/pulls/2", json!({"state": "closed"})).await;
    assert_eq!(theirs.problem(), "403 Resource not accessible by personal access token");
    let branch = delete(&github, "/repos/acme/tool/git/refs/heads/topic").await;
    assert_eq!(branch.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_push_close_merge_rename_archive_and_delete_in_any_repository() {
    let github = world().start();
    let tool = github.of("acme/tool");
    let commit = tool.push("patchwright/tidy", &[("b", "b")]);
    assert_eq!(get(&github, PULL).await.json()["head"]["sha"], json!(commit));
    tool.close(1);
    tool.comment(1, "rita", "No, thanks.");
    assert_eq!(tool.comments(1).len(), 1);
    tool.reopen(1);
    tool.merge(1);
    assert_eq!(get(&github, PULL).await.json()["merged"], json!(true));
    assert_eq!(tool.file("main", "b").as_deref(), Some("b"));
    tool.push("more", &[("c", "c")]);
    tool.open_pull(3, "More", "more", "rita");
    tool.delete_branch("more");
    assert!(!tool.pulls().iter().any(|pull| pull.number == 3 && pull.open));
    tool.rename("tools");
    assert_eq!(get(&github, PULL).await.status, 301);
    let renamed = github.of("acme/tools");
    renamed.archive();
    let refused = post(&github, "/repos/acme/tools/issues", json!({"title": "New"})).await;
    assert_eq!(refused.problem(), "403 Repository was archived so is read-only.");
    renamed.delete();
    assert_eq!(get(&github, "/repos/acme/tools").await.status, 404);
    let about = github.of("acme/tools").requests();
    assert_eq!(about, ["POST /repos/acme/tools/issues 403", "GET /repos/acme/tools 404"]);
}
