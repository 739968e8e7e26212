//! GraphQL: threads and their paging, mutations, and what is refused.

use std::fmt::Write as _;

use expect_test::expect;
use serde_json::{Value, json};

use super::{PULL, Said, post, with_pull};
use crate::support::github::Server;

async fn graphql(github: &Server, query: &str, variables: Value) -> Said {
    post(github, "/graphql", json!({"query": query, "variables": variables})).await
}

const THREADS: &str = "query Threads($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 2, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { ...Seen }
      }
    }
  }
}
fragment Seen on PullRequestReviewThread {
  id isResolved isOutdated viewerCanResolve path line originalLine resolvedBy { login }
  said: comments(first: 100) { totalCount nodes { databaseId body author { __typename login ... on Bot { databaseId } } } }
}";

fn about(after: Option<&str>) -> Value {
    json!({"owner": "acme", "name": "app", "number": 5, "after": after})
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_come_page_by_page_with_what_was_asked_for() {
    let github = with_pull().token_of("patchwright[bot]").start();
    for line in [10, 11, 33] {
        let comment = json!([{"path": "long.txt", "line": line, "body": "Hm."}]);
        let review = json!({"event": "COMMENT", "comments": comment});
        assert_eq!(post(&github, &format!("{PULL}/reviews"), review).await.status, 200);
    }
    let root = github.review_comments(5)[0].id;
    github.reply("alice", root, "No.");
    github.resolve("alice", github.review_comments(5)[1].id);
    github.push_to_pull(5, &[("new.txt", "newer\n")]);
    let mut said = String::new();
    let mut after: Option<String> = None;
    loop {
        let answer = graphql(&github, THREADS, about(after.as_deref())).await.json();
        let threads = &answer["data"]["repository"]["pullRequest"]["reviewThreads"];
        for node in threads["nodes"].as_array().unwrap() {
            let comments = node["said"]["nodes"].as_array().unwrap().iter();
            let comments: Vec<String> = comments
                .map(|c| {
                    format!("{} {}: {}", c["author"]["__typename"], c["author"]["login"], c["body"])
                })
                .collect();
            writeln!(
                said,
                "{} resolved {} by {} may {} fields {} {comments:?}",
                node["line"],
                node["isResolved"],
                node["resolvedBy"],
                node["viewerCanResolve"],
                node.as_object().unwrap().len()
            )
            .unwrap();
        }
        if threads["pageInfo"]["hasNextPage"] == json!(false) {
            break;
        }
        after = threads["pageInfo"]["endCursor"].as_str().map(str::to_owned);
        writeln!(said, "next page").unwrap();
    }
    expect![[r#"
        10 resolved false by null may true fields 9 ["\"Bot\" \"patchwright\": \"Hm.\"", "\"User\" \"alice\": \"No.\""]
        11 resolved true by {"login":"alice"} may false fields 9 ["\"Bot\" \"patchwright\": \"Hm.\""]
        next page
        33 resolved false by null may true fields 9 ["\"Bot\" \"patchwright\": \"Hm.\""]
    "#]].assert_eq(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_schema_does_not_have_is_a_mistake() {
    let github = with_pull().start();
    let mut said = String::new();
    let inside = |what: &str| {
        format!(
            "{{ repository(owner: \"acme\", name: \"app\") {{ pullRequest(number: 5) {{ {what} }} }} }}"
        )
    };
    let queries = [
        inside("reviewThreads(first: 1) { nodes { pullRequestReview { id } } }"),
        inside("reviewThreads(first: 1, newest: true) { nodes { id } }"),
        inside("author"),
        inside("title { text }"),
        "query Q($a: Int) { viewer { login } }".to_owned(),
        "{ node(id: $id) { id } }".to_owned(),
        "{ repository(owner: \"acme\") { id } }".to_owned(),
        "mutation { resolveReviewThread(input: {id: \"x\"}) { thread { id } } }".to_owned(),
        "{ viewer { login }".to_owned(),
    ];
    for query in &queries {
        let answer = graphql(&github, query, json!({})).await;
        writeln!(said, "{} {}", answer.status, answer.json()["errors"][0]["message"]).unwrap();
    }
    assert!(github.take_violations().len() >= queries.len());
    let asked = [
        inside("reviewThreads { nodes { id } }"),
        inside("reviewThreads(first: 101) { nodes { id } }"),
        inside("reviewThreads(first: 1, after: \"x\") { nodes { id } }"),
        inside("reviewThreads { totalCount }"),
        "{ node(id: \"PRRT_1\") { id } }".to_owned(),
        "{ repository(owner: \"acme\", name: \"gone\") { id } }".to_owned(),
        inside("id").replace('5', "6"),
    ];
    for query in &asked {
        let body = graphql(&github, query, json!({})).await.json();
        let error = &body["errors"][0];
        writeln!(said, "{} {} {}", body["data"], error["type"], error["message"]).unwrap();
    }
    expect![[r#"
        200 "Field 'pullRequestReview' doesn't exist on type 'PullRequestReviewThread'"
        200 "Field 'reviewThreads' doesn't accept argument 'newest'"
        200 "Field must have selections (field 'author' returns Actor but has no selections. Did you mean 'author { ... }'?)"
        200 "Selections can't be made on scalars (field 'title' returns a scalar but has selections)"
        200 "Variable $a is declared by Q but not used"
        200 "Variable $id is used by the query but not declared"
        200 "Field 'repository' is missing required arguments: name"
        200 "InputObject of 'resolveReviewThread' doesn't accept argument 'id'"
        200 "Unexpected end of document"
        {"repository":{"pullRequest":null}} "MISSING_PAGINATION_BOUNDARIES" "You must provide a `first` or `last` value to properly paginate the `reviewThreads` connection."
        {"repository":{"pullRequest":null}} "EXCESSIVE_PAGINATION" "Requesting 101 records on the `reviewThreads` connection exceeds the `first` limit of 100 records."
        {"repository":{"pullRequest":null}} "INVALID_CURSOR_ARGUMENTS" "`x` does not appear to be a valid cursor."
        {"repository":{"pullRequest":{"reviewThreads":{"totalCount":0}}}} null null
        {"node":null} "NOT_FOUND" "Could not resolve to a node with the global id of 'PRRT_1'"
        {"repository":null} "NOT_FOUND" "Could not resolve to a Repository with the name 'acme/gone'."
        {"repository":{"pullRequest":null}} "NOT_FOUND" "Could not resolve to a PullRequest with the number of 6."
    "#]].assert_eq(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_resolved_by_those_who_may() {
    let resolve = "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved resolvedBy { login } } } }";
    let mut said = String::new();
    for (name, github) in [
        ("app", with_pull().token_of("patchwright[bot]")),
        (
            "app that reads contents",
            with_pull().token_of("patchwright[bot]").token_lacks("contents"),
        ),
        ("person", with_pull().token_lacks("contents")),
        ("fork", with_pull().fork_actions_token()),
    ] {
        let github = github.start();
        let root = github.comment_on_line("alice", 5, "new.txt", 1, "Hm.");
        let threads = graphql(&github, THREADS, about(None)).await.json();
        let id =
            threads["data"]["repository"]["pullRequest"]["reviewThreads"]["nodes"][0]["id"].clone();
        let body = graphql(&github, resolve, json!({"id": id})).await.json();
        let resolved = github.review_comments(5)[0].resolved;
        writeln!(said, "{name}: {} {} {resolved}", body["data"], body["errors"][0]["message"])
            .unwrap();
        let _ = root;
    }
    expect![[r#"
        app: {"resolveReviewThread":{"thread":{"isResolved":true,"resolvedBy":{"login":"patchwright"}}}} null true
        app that reads contents: {"resolveReviewThread":null} "Resource not accessible by integration" false
        person: {"resolveReviewThread":{"thread":{"isResolved":true,"resolvedBy":{"login":"patchwright-bot"}}}} null true
        fork: {"resolveReviewThread":null} "Resource not accessible by integration" false
    "#]].assert_eq(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn drafts_hidden_comments_and_threads_off_the_diff() {
    let github = with_pull().start();
    let id = "query($n: Int!) { repository(owner: \"acme\", name: \"app\") { pullRequest(number: $n) { id } } }";
    let id = graphql(&github, id, json!({"n": 5})).await.json();
    let id = id["data"]["repository"]["pullRequest"]["id"].clone();
    for (mutation, draft) in
        [("convertPullRequestToDraft", true), ("markPullRequestReadyForReview", false)]
    {
        let query = format!(
            "mutation($id: ID!) {{ {mutation}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft }} }} }}"
        );
        let answer = graphql(&github, &query, json!({"id": id})).await.json();
        assert_eq!(answer["data"][mutation]["pullRequest"]["isDraft"], json!(draft));
        assert_eq!(github.is_draft(5), draft);
    }
    let comment = github.post_comment(5, "alice", "Look.");
    let hide = "mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED}) { minimizedComment { isMinimized minimizedReason } } }";
    let hidden = graphql(&github, hide, json!({"id": format!("IC_{comment}")})).await.json();
    assert_eq!(
        hidden["data"]["minimizeComment"]["minimizedComment"]["minimizedReason"],
        json!("outdated")
    );
    let add = "mutation($id: ID!, $line: Int!) { addPullRequestReviewThread(input: {pullRequestId: $id, path: \"new.txt\", line: $line, body: \"x\"}) { thread { line } } }";
    let off = graphql(&github, add, json!({"id": id, "line": 9})).await.json();
    assert_eq!(off, json!({"data": {"addPullRequestReviewThread": {"thread": null}}}));
    let on = graphql(&github, add, json!({"id": id, "line": 1})).await.json();
    assert_eq!(on["data"]["addPullRequestReviewThread"]["thread"]["line"], json!(1));
    graphql(&github, add, json!({"id": id, "line": 1})).await;
    let reviews = github.reviews(5);
    assert_eq!(
        (reviews.len(), reviews[0].state.as_str(), reviews[0].comments.len()),
        (1, "PENDING", 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn older_servers_lack_fields() {
    let github =
        with_pull().without_graphql_field("PullRequestReviewThread.viewerCanResolve").start();
    let body = graphql(&github, THREADS, about(None)).await.json();
    assert_eq!(body.get("data"), None);
    assert_eq!(body["errors"][0]["extensions"]["code"], json!("undefinedField"));
}
