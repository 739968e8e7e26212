//! Threads on the diff: over GraphQL, and over REST where that is refused.

use patchwright_forge::{Forge, ForgeError};
use serde_json::{Value, json};

use super::reviews::with_pull;
use super::{app, connect, connect_within, said};
use crate::support::github::{Fault, Kind};

const WHEN: &str = "2026-01-01T00:00:00Z";

fn comment(id: u64, login: &str, kind: &str) -> Value {
    json!({
        "fullDatabaseId": id.to_string(), "databaseId": null, "body": format!("comment {id}"),
        "url": format!("https://github.com/acme/app/pull/2#discussion_r{id}"),
        "createdAt": WHEN, "updatedAt": WHEN, "path": "a.txt", "diffHunk": "@@ -1 +1 @@",
        "author": {"__typename": kind, "login": login},
        "pullRequestReview": {"fullDatabaseId": "77", "databaseId": 77},
    })
}

fn thread(id: &str, comments: &[Value], more: Option<&str>) -> Value {
    json!({
        "id": id, "isResolved": true, "isOutdated": false, "viewerCanResolve": true,
        "path": "a.txt", "line": 5, "resolvedBy": {"__typename": "User", "login": "alice"},
        "comments": {"pageInfo": {"hasNextPage": more.is_some(), "endCursor": more}, "nodes": comments},
    })
}

fn page(threads: &[Value], more: Option<&str>) -> Value {
    json!({"repository": {"pullRequest": {"reviewThreads": {
        "pageInfo": {"hasNextPage": more.is_some(), "endCursor": more}, "nodes": threads}}}})
}

fn answer(data: Value) -> Fault {
    Fault::once("POST", "graphql", Kind::Answer(200, json!({ "data": data })))
}

fn refusal(kind: &str, message: &str) -> Fault {
    let errors = json!([{"type": kind, "path": ["repository"], "message": message}]);
    Fault::once("POST", "graphql", Kind::Answer(200, json!({"data": null, "errors": errors})))
}

#[tokio::test]
async fn forge_reads_threads_and_pages_at_both_levels() {
    let github = with_pull().start();
    let forge = connect(&github);
    let large = 5_000_000_000;
    github.fault(answer(page(
        &[thread("T1", &[comment(large, "dependabot", "Bot")], Some("c1"))],
        Some("t1"),
    )));
    let more =
        json!({"pageInfo": {"hasNextPage": false}, "nodes": [comment(large + 1, "alice", "User")]});
    github.fault(answer(json!({"node": {"comments": more}})));
    let mut second = thread("T2", &[comment(7, "bob", "User")], None);
    second["isResolved"] = json!(false);
    second["resolvedBy"] = Value::Null;
    second["isOutdated"] = json!(true);
    second["comments"]["nodes"][0]["author"] = Value::Null;
    github.fault(answer(page(&[second], None)));
    let threads = forge.threads(&app(), 2).await.unwrap();
    assert_eq!(threads.len(), 2);
    let (first, second) = (&threads[0], &threads[1]);
    assert_eq!((first.id.as_deref(), first.line, first.may_resolve), (Some("T1"), Some(5), true));
    assert_eq!((first.resolved, first.resolved_by.as_deref()), (true, Some("alice")));
    let root = &first.comments[0];
    assert_eq!(
        (root.id, root.author.login.as_str(), root.author.is_bot),
        (large, "dependabot[bot]", true)
    );
    assert_eq!((root.in_reply_to, root.review), (None, Some(77)));
    assert_eq!((first.comments[1].id, first.comments[1].in_reply_to), (large + 1, Some(large)));
    assert_eq!((second.resolved, second.outdated, second.line), (false, true, None));
    assert_eq!(second.comments[0].author.login, "ghost");
    let asked: Vec<Value> = github.requests().into_iter().filter_map(|r| r.body).collect();
    let after: Vec<&Value> = asked.iter().map(|body| &body["variables"]["after"]).collect();
    assert_eq!(after, [&Value::Null, &json!("c1"), &json!("t1")]);
    assert_eq!(asked[1]["variables"]["thread"], "T1");
}

#[tokio::test]
async fn forge_asks_older_servers_with_the_fields_that_they_have() {
    let github = with_pull().start();
    let unknown = json!({"errors": [{
        "message": "Field 'fullDatabaseId' doesn't exist on type 'PullRequestReviewComment'",
        "extensions": {"code": "undefinedField"}}]});
    github.fault(Fault::once("POST", "graphql", Kind::Answer(200, unknown)));
    let mut old = comment(7, "bob", "User");
    old["fullDatabaseId"] = Value::Null;
    old["databaseId"] = json!(7);
    github.fault(answer(page(&[thread("T1", &[old], None)], None)));
    let threads = connect(&github).threads(&app(), 2).await.unwrap();
    assert_eq!(threads[0].comments[0].id, 7);
    let last = github.requests().pop().unwrap().body.unwrap();
    assert!(!last["query"].as_str().unwrap().contains("fullDatabaseId"));
}

#[tokio::test]
async fn forge_groups_plain_comments_where_graphql_is_refused() {
    let faults = [
        refusal("FORBIDDEN", "Resource not accessible by integration"),
        refusal("NOT_FOUND", "Could not resolve to a Repository"),
        Fault::once("POST", "graphql", Kind::Answer(403, json!({"message": "Forbidden"}))),
        Fault::once("POST", "graphql", Kind::Answer(404, json!({"message": "Not Found"}))),
        Fault::once("POST", "graphql", Kind::Text(200, "<html>a proxy</html>".to_owned())),
    ];
    for fault in faults {
        let shown = format!("{fault:?}");
        let github = with_pull().start();
        let root = github.comment_on_line("alice", 2, "a.txt", 5, "one");
        let other = github.comment_on_line("bob", 2, "a.txt", 4, "other");
        let reply = github.reply("bob", root, "two");
        github.push_to_pull(
            2,
            &[("a.txt", "one\ntwo\nthree\nfour\n5\nsix\nseven\neight\nnine\nten\n")],
        );
        github.fault(fault);
        let threads = connect(&github).threads(&app(), 2).await.unwrap();
        let ids: Vec<Vec<u64>> =
            threads.iter().map(|t| t.comments.iter().map(|c| c.id).collect()).collect();
        assert_eq!(ids, [vec![root, reply], vec![other]], "{shown}");
        assert_eq!((threads[0].outdated, threads[0].line), (true, None), "{shown}");
        assert_eq!((threads[1].outdated, threads[1].line), (false, Some(4)), "{shown}");
        assert!(threads.iter().all(|t| t.id.is_none() && !t.may_resolve && !t.resolved), "{shown}");
        assert_eq!(threads[0].comments[1].in_reply_to, Some(root));
    }
}

#[tokio::test]
async fn forge_completes_a_partial_answer_over_rest() {
    let github = with_pull().start();
    let root = github.comment_on_line("alice", 2, "a.txt", 5, "one");
    let other = github.comment_on_line("bob", 2, "a.txt", 4, "other");
    let reply = github.reply("bob", root, "two");
    let known = thread("T1", &[comment(root, "alice", "User"), Value::Null], None);
    let errors = json!([{"type": "FORBIDDEN", "message": "no"}]);
    let body = json!({"data": page(&[known, Value::Null], None), "errors": errors});
    github.fault(Fault::once("POST", "graphql", Kind::Answer(200, body)));
    let threads = connect(&github).threads(&app(), 2).await.unwrap();
    let ids: Vec<(Option<&str>, Vec<u64>)> = threads
        .iter()
        .map(|t| (t.id.as_deref(), t.comments.iter().map(|c| c.id).collect()))
        .collect();
    assert_eq!(ids, [(Some("T1"), vec![root, reply]), (None, vec![other])]);
}

#[tokio::test]
async fn forge_waits_for_limits_and_asks_again_when_graphql_runs_out_of_time() {
    let github = with_pull().start();
    github.fault(refusal("RATE_LIMITED", "API rate limit exceeded for user ID 1."));
    github
        .fault(refusal("", "Something went wrong while executing your query. Please include `1`"));
    github.fault(Fault::once("POST", "graphql", Kind::ErrorBefore(502)));
    github.fault(answer(page(&[thread("T1", &[comment(7, "bob", "User")], None)], None)));
    assert_eq!(connect(&github).threads(&app(), 2).await.unwrap().len(), 1);
    // Down for good: an error, not a list that looks complete.
    github.fault(Fault::once("POST", "graphql", Kind::ErrorBefore(502)).times(5));
    let result = connect(&github).threads(&app(), 2).await;
    assert!(matches!(result, Err(ForgeError::Unavailable { .. })), "{}", said(&github, &result));
}

#[tokio::test]
async fn forge_resolves_a_thread_or_says_that_it_may_not() {
    let github = with_pull().start();
    let forge = connect(&github);
    let done = json!({"resolveReviewThread": {"thread": {"id": "T1", "isResolved": true}}});
    github.fault(Fault::once("POST", "graphql", Kind::ErrorAfter(502)));
    github.fault(answer(done));
    assert!(forge.resolve_thread(&app(), "T1").await.unwrap());
    for fault in [
        refusal("FORBIDDEN", "Resource not accessible by integration"),
        refusal("NOT_FOUND", "Could not resolve to a node with the global id of 'T1'"),
        Fault::once("POST", "graphql", Kind::Answer(403, json!({"message": "Forbidden"}))),
    ] {
        github.fault(fault);
        assert!(!forge.resolve_thread(&app(), "T1").await.unwrap());
    }
    github.fault(refusal("UNPROCESSABLE", "something else"));
    let result = forge.resolve_thread(&app(), "T1").await;
    assert_eq!(said(&github, &result), "Invalid: resolve a thread was rejected: something else");
}

#[tokio::test]
async fn forge_reads_more_threads_and_comments_than_a_page_holds() {
    let text: Vec<String> = (0..150).map(|number| format!("line {number}\n")).collect();
    let text = text.concat();
    let github = with_pull().start();
    github.push_to_pull(2, &[("long.txt", &text)]);
    let roots: Vec<u64> = (1..=120)
        .map(|line| github.comment_on_line("alice", 2, "long.txt", line, &format!("about {line}")))
        .collect();
    let long = roots[110];
    let replies: Vec<u64> =
        (0..129).map(|number| github.reply("bob", long, &format!("reply {number}"))).collect();
    github.resolve("bob", roots[3]);
    let forge = connect_within(&github, std::time::Duration::from_mins(2));
    let threads = forge.threads(&app(), 2).await.unwrap();
    let found: Vec<u64> = threads.iter().map(|thread| thread.comments[0].id).collect();
    assert_eq!(found, roots);
    let ids: Vec<u64> = threads[110].comments.iter().map(|comment| comment.id).collect();
    assert_eq!(ids, [vec![long], replies].concat());
    assert!(threads[110].comments[1..].iter().all(|comment| comment.in_reply_to == Some(long)));
    let resolved: Vec<Option<&str>> =
        threads.iter().filter(|t| t.resolved).map(|t| t.resolved_by.as_deref()).collect();
    assert_eq!(resolved, [Some("bob")]);
    assert!(
        threads.iter().all(|thread| thread.id.is_some() && thread.may_resolve != thread.resolved)
    );

    assert!(forge.resolve_thread(&app(), threads[5].id.as_deref().unwrap()).await.unwrap());
    assert!(!forge.resolve_thread(&app(), "PRRT_nothing").await.unwrap());
    assert_eq!(github.threads(2)[5].resolved_by.as_deref(), Some("patchwright-bot"));
}

#[tokio::test]
async fn forge_reads_the_same_over_graphql_and_rest_but_for_what_rest_does_not_know() {
    let github = with_pull().start();
    let root = github.comment_on_line("helper[bot]", 2, "a.txt", 5, "beep");
    github.reply("alice", root, "boop");
    github.review_as("alice", 2, "COMMENTED", "", &[]);
    let forge = connect(&github);
    let threads = forge.threads(&app(), 2).await.unwrap();
    github.fault(refusal("FORBIDDEN", "no"));
    let plain = forge.threads(&app(), 2).await.unwrap();
    assert_eq!((plain.len(), &plain[0].comments), (1, &threads[0].comments));
    assert_eq!((plain[0].line, plain[0].outdated), (threads[0].line, threads[0].outdated));
    let comment = &threads[0].comments[0];
    assert_eq!(
        (comment.id, comment.author.login.as_str(), comment.author.is_bot),
        (root, "helper[bot]", true)
    );
}

#[tokio::test]
async fn forge_turns_a_pull_request_into_a_draft_and_back() {
    for kind in
        [None, Some(Kind::ErrorAfter(502)), Some(Kind::CutAfter), Some(Kind::ErrorBefore(503))]
    {
        let github = with_pull().start();
        let forge = connect(&github);
        for draft in [true, true, false] {
            if let Some(kind) = kind.clone() {
                github.fault(Fault::once("POST", "graphql", kind));
            }
            forge.set_draft(&app(), 2, draft).await.unwrap();
            assert_eq!(github.is_draft(2), draft, "{kind:?}");
        }
    }
    let github = with_pull().with(|repository| repository.has_drafts = false).start();
    let result = connect(&github).set_draft(&app(), 2, true).await;
    assert_eq!(
        said(&github, &result),
        "State: cannot mark `acme/app#2` as a draft: the repository has no draft pull requests"
    );
    let github = with_pull().token_lacks("pull_requests").start();
    let result = connect(&github).set_draft(&app(), 2, true).await;
    assert!(said(&github, &result).starts_with("Forbidden: "), "{result:?}");
    let github = with_pull().closed().start();
    let result = connect(&github).set_draft(&app(), 2, true).await;
    assert!(said(&github, &result).starts_with("State: "), "{result:?}");
}
