//! Pull requests, comparisons, reviews and comments on the diff.

use std::fmt::Write as _;

use expect_test::expect;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PULL, ask, ask_with, get, long, post, with_pull};
use crate::support::git_http::{self, command, deleted, executable, file, renamed, submodule};
use crate::support::github::{Fault, GitHub, Kind, Server};

fn review(comments: &Value) -> Value {
    json!({"body": "Words.", "event": "COMMENT", "comments": comments})
}

fn on(path: &str, line: u32) -> Value {
    json!({"path": path, "line": line, "side": "RIGHT", "body": "Hm."})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_says_what_it_changes() {
    let github = with_pull().draft().label("bug").start();
    let first = get(&github, PULL).await.json();
    assert_eq!(
        (first["changed_files"].clone(), first["additions"].clone(), first["deletions"].clone()),
        (json!(2), json!(3), json!(2))
    );
    assert_eq!((first["commits"].clone(), first["draft"].clone()), (json!(1), json!(true)));
    assert_eq!(first["mergeable"], Value::Null, "nobody has asked before");
    assert_eq!(get(&github, PULL).await.json()["mergeable"], json!(true));
    let files = get(&github, &format!("{PULL}/files?per_page=1")).await;
    assert!(files.headers["link"].to_str().unwrap().contains("rel=\"next\""));
    let files = get(&github, &format!("{PULL}/files")).await.json();
    assert_eq!(files[0]["filename"], json!("long.txt"));
    assert!(files[0]["patch"].as_str().unwrap().starts_with("@@ -7,7 +7,8 @@"));
    let commits = get(&github, &format!("{PULL}/commits")).await.json();
    assert_eq!(commits[0]["sha"], first["head"]["sha"]);
    let head = github.head_of(5);
    let of = get(&github, &format!("/repos/acme/app/commits/{head}/pulls")).await.json();
    assert_eq!(of[0]["number"], json!(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_a_fork_is_fetched_from_the_base() {
    let github = GitHub::new()
        .repository("acme/app", &[("a.txt", "a\n")])
        .fork("bob/app")
        .pull(5, "From outside", "bob:topic", &[("a.txt", "b\n")])
        .maintainer_can_modify()
        .start();
    let pull = get(&github, PULL).await.json();
    assert_eq!(pull["head"]["repo"]["full_name"], json!("bob/app"));
    assert_eq!(pull["head"]["repo"]["fork"], json!(true));
    assert_eq!(
        (pull["head"]["label"].clone(), pull["user"]["login"].clone()),
        (json!("bob:topic"), json!("bob"))
    );
    let commit = github.push_to_pull(5, &[("a.txt", "c\n")]);
    let folder = tempfile::tempdir().unwrap();
    git_http::git(folder.path(), &["init", "-q"]);
    let url = format!("{}/acme/app.git", github.server_url());
    git_http::git(folder.path(), &["fetch", "-q", &url, "refs/pull/5/head:refs/heads/it"]);
    assert_eq!(git_http::git(folder.path(), &["rev-parse", "it"]).trim(), commit);
    let push = ["push", "-q", &url, "it:refs/pull/5/head"];
    assert!(!command(folder.path(), &push).output().unwrap().status.success());
    // Maintainers may push to it, as people.
    let fork = format!("http://x:{}@{}/bob/app.git", github.token(), &github.server_url()[7..]);
    let push = ["push", "-q", &fork, "it:refs/heads/topic"];
    let pushes = || command(folder.path(), &push).output().unwrap().status.success();
    assert!(pushes());
    github.change_pull(5, |pull| pull.maintainer_can_modify = false);
    assert!(!pushes());
    github.delete_fork_of(5);
    let pull = get(&github, PULL).await.json();
    assert_eq!(
        (pull["head"]["repo"].clone(), pull["head"]["sha"].clone()),
        (Value::Null, json!(commit))
    );
    git_http::git(folder.path(), &["fetch", "-q", &url, "refs/pull/5/head"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_compare_and_are_forgotten() {
    let github = with_pull().start();
    let compare = async |base: &str, head: &str| {
        let said = get(&github, &format!("/repos/acme/app/compare/{base}...{head}")).await;
        let body = said.json();
        let status = body["status"].as_str().unwrap_or("-").to_owned();
        format!("{} {status} +{} -{}", said.status, body["ahead_by"], body["behind_by"])
    };
    let first = github.head_of(5);
    let second = github.push_to_pull(5, &[("long.txt", "short\n")]);
    assert_eq!(compare(&first, &second).await, "200 ahead +1 -0");
    assert_eq!(compare(&second, &first).await, "200 behind +0 -1");
    assert_eq!(compare(&second, &second).await, "200 identical +0 -0");
    let third = github.force_push(5, &[("long.txt", "other\n")], false);
    assert_eq!(compare(&second, &third).await, "200 diverged +1 -2");
    let fourth = github.force_push(5, &[("long.txt", "another\n")], true);
    assert_eq!(compare(&third, &fourth).await, "404 404 +null -null");
    assert_eq!(compare("main", "topic").await, "200 ahead +1 -0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_is_all_or_nothing() {
    let github = with_pull().start();
    let reviews = format!("{PULL}/reviews");
    let mut said = String::new();
    let long = "x".repeat(65_537);
    let tries = [
        ("no words", json!({"event": "COMMENT"})),
        (
            "changes without words",
            json!({"event": "REQUEST_CHANGES", "comments": [on("new.txt", 1)]}),
        ),
        ("off the diff", review(&json!([on("long.txt", 10), on("long.txt", 20)]))),
        ("other file", review(&json!([on("README.md", 1)]))),
        ("deleted, on the right", review(&json!([on("long.txt", 41)]))),
        (
            "start is line",
            review(&json!([{"path": "long.txt", "line": 10, "start_line": 10, "body": "x"}])),
        ),
        (
            "two hunks",
            review(
                &json!([{"path": "long.txt", "line": 31, "start_line": 10, "start_side": "RIGHT", "side": "RIGHT", "body": "x"}]),
            ),
        ),
        (
            "start off the diff",
            review(&json!([{"path": "long.txt", "line": 10, "start_line": 2, "body": "x"}])),
        ),
        ("whole file", review(&json!([{"path": "long.txt", "subject_type": "file", "body": "x"}]))),
        ("no line", review(&json!([{"path": "long.txt", "body": "x"}]))),
        ("no body", review(&json!([{"path": "long.txt", "line": 10, "body": " "}]))),
        ("too long", json!({"event": "COMMENT", "body": long})),
        ("wrong commit", json!({"event": "COMMENT", "body": "x", "commit_id": "0".repeat(40)})),
        (
            "base commit",
            json!({"event": "COMMENT", "body": "x", "commit_id": github.branches()[0].1}),
        ),
        ("too many", review(&json!(vec![on("long.txt", 10); 41]))),
    ];
    for (name, body) in tries {
        let answer = post(&github, &reviews, body).await;
        writeln!(said, "{name}: {}", answer.problem()).unwrap();
    }
    expect![[r#"
        no words: 422 Unprocessable Entity ["Review body can't be blank"]
        changes without words: 422 Unprocessable Entity ["Review body can't be blank"]
        off the diff: 422 Unprocessable Entity ["Line could not be resolved"]
        other file: 422 Unprocessable Entity ["Path could not be resolved"]
        deleted, on the right: 422 Unprocessable Entity ["Line could not be resolved"]
        start is line: 422 Unprocessable Entity ["Pull request review thread start line must precede the end line."]
        two hunks: 422 Unprocessable Entity ["Pull request review thread start line must be part of the same hunk as the line."]
        start off the diff: 422 Unprocessable Entity ["Start line could not be resolved"]
        whole file: 422 Invalid request.

        "subject_type" is not a permitted key.
        no line: 422 Unprocessable Entity ["Line could not be resolved"]
        no body: 422 Unprocessable Entity ["Body can't be blank"]
        too long: 422 Unprocessable Entity ["Body is too long (maximum is 65536 characters)"]
        wrong commit: 422 Unprocessable Entity ["The commitOID is not part of the pull request"]
        base commit: 422 Unprocessable Entity ["The commitOID is not part of the pull request"]
        too many: 403 You have exceeded a secondary rate limit. Please wait a few minutes before you try again.
    "#]].assert_eq(&said);
    assert!(github.reviews(5).is_empty(), "nothing was posted");

    let good = json!([
        on("long.txt", 10),
        {"path": "long.txt", "line": 11, "side": "RIGHT", "start_line": 9, "start_side": "RIGHT", "body": "x"},
        {"path": "long.txt", "line": 30, "side": "LEFT", "body": "x"},
        {"path": "long.txt", "line": 10, "side": "RIGHT", "start_line": 10, "start_side": "LEFT", "body": "x"},
        {"path": "new.txt", "position": 1, "body": "x"},
    ]);
    let done = post(&github, &reviews, review(&good)).await;
    assert_eq!((done.status, done.json()["state"].clone()), (200, json!("COMMENTED")));
    let quoted: Vec<Vec<String>> =
        github.review_comments(5).into_iter().map(|comment| comment.quoted).collect();
    expect![[r#"[["ten"], ["line 9", "ten", "ten and a half"], ["line 30"], ["line 10", "ten"], ["new"]]"#]].assert_eq(&format!("{quoted:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_lines_take_no_comments() {
    let github = GitHub::new()
        .repository(
            "acme/app",
            &[
                ("old name.txt", &long()),
                ("gone.txt", "gone\n"),
                ("moved.txt", &long()),
                ("run.sh", "true\n"),
            ],
        )
        .limits(|limits| limits.patch_lines = 50)
        .pull_onto(
            "main",
            5,
            "All kinds",
            "topic",
            &[
                renamed("old name.txt", "neuer Name ä.txt"),
                renamed("moved.txt", "moved elsewhere.txt"),
                file("moved elsewhere.txt", long().replace("line 3\n", "three\n")),
                deleted("gone.txt"),
                executable("run.sh", "true\n"),
                file("picture.png", vec![0_u8, 1, 2, 0]),
                file("huge.txt", "x\n".repeat(60)),
                file("empty.txt", ""),
                submodule("vendor", &"1".repeat(40)),
                file("end.txt", "no newline"),
            ],
        )
        .start();
    let mut said = String::new();
    for file in get(&github, &format!("{PULL}/files")).await.json().as_array().unwrap() {
        let path = file["filename"].as_str().unwrap();
        let answers = async |side: &str| {
            let comment = json!([{"path": path, "line": 1, "side": side, "body": "x"}]);
            post(&github, &format!("{PULL}/reviews"), review(&comment)).await.status
        };
        let (left, right) = (answers("LEFT").await, answers("RIGHT").await);
        writeln!(
            said,
            "{path}: {} patch {} left {left} right {right}",
            file["status"],
            file["patch"].is_string()
        )
        .unwrap();
    }
    let old = json!([{"path": "moved.txt", "line": 1, "side": "LEFT", "body": "x"}]);
    let old = post(&github, &format!("{PULL}/reviews"), review(&old)).await;
    writeln!(said, "moved.txt: {}", old.problem()).unwrap();
    expect![[r#"
        empty.txt: "added" patch false left 422 right 422
        end.txt: "added" patch true left 422 right 200
        gone.txt: "removed" patch true left 200 right 422
        huge.txt: "added" patch false left 422 right 422
        moved elsewhere.txt: "renamed" patch true left 200 right 200
        neuer Name ä.txt: "renamed" patch false left 422 right 422
        picture.png: "added" patch false left 422 right 422
        run.sh: "modified" patch false left 422 right 422
        vendor: "added" patch false left 422 right 422
        moved.txt: 422 Unprocessable Entity ["Path could not be resolved"]
    "#]]
    .assert_eq(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_reviews_are_seen_by_nobody_and_block_the_next() {
    let github = with_pull().another_token("other", "carol").start();
    let reviews = format!("{PULL}/reviews");
    let pending = post(&github, &reviews, json!({"comments": [on("new.txt", 1)]})).await.json();
    assert_eq!(
        (pending["state"].clone(), pending["submitted_at"].clone()),
        (json!("PENDING"), Value::Null)
    );
    let again = post(&github, &reviews, review(&json!([]))).await;
    assert_eq!(
        again.problem(),
        "422 Unprocessable Entity [\"User can only have one pending review per pull request\"]"
    );
    let others = ask_with(&github, Method::GET, &reviews, None, "other", "").await.json();
    assert_eq!(others, json!([]));
    assert_eq!(get(&github, &format!("{PULL}/comments")).await.json(), json!([]));
    let id = pending["id"].as_u64().unwrap();
    let listed = get(&github, &format!("{reviews}/{id}/comments")).await.json();
    assert_eq!((listed[0]["body"].clone(), listed[0]["line"].clone()), (json!("Hm."), Value::Null));
    let one = format!("{reviews}/{id}");
    assert_eq!(ask(&github, Method::DELETE, &one, None).await.status, 200);
    let kept =
        post(&github, &reviews, json!({"body": "Kept.", "comments": [on("new.txt", 1)]})).await;
    let kept = format!("{reviews}/{}", kept.json()["id"]);
    let done = post(&github, &format!("{kept}/events"), json!({"event": "COMMENT"})).await.json();
    assert_eq!((done["state"].clone(), done["body"].clone()), (json!("COMMENTED"), json!("Kept.")));
    let gone = ask(&github, Method::DELETE, &kept, None).await;
    assert_eq!(
        gone.problem(),
        "422 Unprocessable Entity [\"Can not delete a non-pending pull request review\"]"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_judges_their_own_pull_request() {
    let try_all = async |github: &Server| {
        let mut said = String::new();
        for event in ["APPROVE", "REQUEST_CHANGES", "COMMENT"] {
            let body = json!({"event": event, "body": "Seen. <!-- patchwright:review v=1 -->"});
            let answer = post(github, &format!("{PULL}/reviews"), body).await;
            let kept = answer.json()["body"].as_str().map(str::to_owned);
            writeln!(said, "{event}: {} {kept:?}", answer.problem()).unwrap();
        }
        said
    };
    let own = try_all(&with_pull().by("patchwright-bot").start()).await;
    let robot = try_all(&with_pull().actions_token().start()).await;
    let locked = try_all(&with_pull().locked().start()).await;
    let fork = try_all(&with_pull().fork_actions_token().start()).await;
    let keeps = try_all(&with_pull().with(|r| r.keeps_html_comments = true).start()).await;
    expect![[r#"
        own
        APPROVE: 422 Unprocessable Entity ["Can not approve your own pull request"] None
        REQUEST_CHANGES: 422 Unprocessable Entity ["Can not request changes on your own pull request"] None
        COMMENT: 200 - Some("Seen.")
        robot
        APPROVE: 422 Unprocessable Entity ["GitHub Actions is not permitted to approve pull requests."] None
        REQUEST_CHANGES: 200 - Some("Seen.")
        COMMENT: 200 - Some("Seen.")
        locked
        APPROVE: 422 Unprocessable Entity ["lock prevents review"] None
        REQUEST_CHANGES: 422 Unprocessable Entity ["lock prevents review"] None
        COMMENT: 422 Unprocessable Entity ["lock prevents review"] None
        fork
        APPROVE: 403 Resource not accessible by integration None
        REQUEST_CHANGES: 403 Resource not accessible by integration None
        COMMENT: 403 Resource not accessible by integration None
        keeps
        APPROVE: 200 - Some("Seen. <!-- patchwright:review v=1 -->")
        REQUEST_CHANGES: 200 - Some("Seen. <!-- patchwright:review v=1 -->")
        COMMENT: 200 - Some("Seen. <!-- patchwright:review v=1 -->")
    "#]]
        .assert_eq(&format!("own\n{own}robot\n{robot}locked\n{locked}fork\n{fork}keeps\n{keeps}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_move_with_their_lines_or_are_outdated() {
    let github = with_pull().start();
    let comments = json!([
        on("long.txt", 10), on("long.txt", 33),
        {"path": "long.txt", "line": 30, "side": "LEFT", "body": "Why?"},
        {"path": "long.txt", "line": 11, "start_line": 10, "body": "Both."},
    ]);
    assert_eq!(post(&github, &format!("{PULL}/reviews"), review(&comments)).await.status, 200);
    let first = github.head_of(5);
    let changed = long().replace("line 10\n", "ten\nTEN AND A HALF\n").replace("line 30\n", "");
    let second = github.push_to_pull(5, &[("long.txt", &format!("top\n{changed}"))]);
    let mut said = String::new();
    for comment in get(&github, &format!("{PULL}/comments")).await.json().as_array().unwrap() {
        let place = if comment["commit_id"] == json!(second) { "head" } else { "then" };
        assert_eq!(comment["original_commit_id"], json!(first));
        writeln!(
            said,
            "{} {} from {}-{} is {}-{} position {} at {place}",
            comment["path"],
            comment["side"],
            comment["original_start_line"],
            comment["original_line"],
            comment["start_line"],
            comment["line"],
            comment["position"]
        )
        .unwrap();
    }
    expect![[r#"
        "long.txt" "RIGHT" from null-10 is null-11 position 10 at head
        "long.txt" "RIGHT" from null-33 is null-34 position 22 at head
        "long.txt" "LEFT" from null-30 is null-30 position 19 at head
        "long.txt" "RIGHT" from 10-11 is null-null position null at then
    "#]]
    .assert_eq(&said);
    // Commits that are still part of it take comments where they had them.
    let old = json!({"event": "COMMENT", "body": "x", "commit_id": first, "comments": [on("long.txt", 33)]});
    assert_eq!(post(&github, &format!("{PULL}/reviews"), old).await.status, 200);
    assert_eq!(github.review_comments(5).last().unwrap().quoted, ["line 33"]);
    github.force_push(5, &[("long.txt", "x\n")], false);
    let gone = json!({"event": "COMMENT", "body": "x", "commit_id": first});
    let gone = post(&github, &format!("{PULL}/reviews"), gone).await;
    assert_eq!(
        gone.problem(),
        "422 Unprocessable Entity [\"The commitOID is not part of the pull request\"]"
    );
    assert!(github.threads(5).iter().filter(|thread| !thread.outdated).count() <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn single_comments_have_words_of_their_own() {
    let github = with_pull().start();
    let head = github.head_of(5);
    let comments = format!("{PULL}/comments");
    let mut said = String::new();
    let tries = [
        ("fine", json!({"path": "new.txt", "line": 1, "body": "x", "commit_id": head})),
        (
            "whole file",
            json!({"path": "long.txt", "subject_type": "file", "body": "x", "commit_id": head}),
        ),
        ("off the diff", json!({"path": "long.txt", "line": 20, "body": "x", "commit_id": head})),
        ("other file", json!({"path": "README.md", "line": 1, "body": "x", "commit_id": head})),
        (
            "two hunks",
            json!({"path": "long.txt", "line": 31, "start_line": 10, "body": "x", "commit_id": head}),
        ),
        (
            "wrong commit",
            json!({"path": "new.txt", "line": 1, "body": "x", "commit_id": "0".repeat(40)}),
        ),
    ];
    for (name, body) in tries {
        writeln!(said, "{name}: {}", post(&github, &comments, body).await.problem()).unwrap();
    }
    let root = github.review_comments(5)[0].id;
    let reply = post(&github, &format!("{comments}/{root}/replies"), json!({"body": "Yes."})).await;
    assert_eq!((reply.status, reply.json()["in_reply_to_id"].clone()), (201, json!(root)));
    let id = reply.json()["id"].clone();
    let nested = post(&github, &format!("{comments}/{id}/replies"), json!({"body": "No."})).await;
    writeln!(said, "reply to a reply: {}", nested.problem()).unwrap();
    let nowhere = post(&github, &format!("{comments}/1/replies"), json!({"body": "No."})).await;
    writeln!(said, "reply to nothing: {}", nowhere.problem()).unwrap();
    expect![[r#"
        fine: 201 -
        whole file: 201 -
        off the diff: 422 Validation Failed [{"code":"custom","field":"pull_request_review_thread.line","message":"pull_request_review_thread.line must be part of the diff","resource":"PullRequestReviewComment"},{"code":"missing_field","field":"pull_request_review_thread.diff_hunk","resource":"PullRequestReviewComment"}]
        other file: 422 Validation Failed [{"code":"invalid","field":"pull_request_review_thread.path","resource":"PullRequestReviewComment"},{"code":"missing_field","field":"pull_request_review_thread.diff_hunk","resource":"PullRequestReviewComment"}]
        two hunks: 422 Validation Failed [{"code":"custom","field":"pull_request_review_thread.start_line","message":"pull_request_review_thread.start_line must be part of the same hunk as the line.","resource":"PullRequestReviewComment"},{"code":"missing_field","field":"pull_request_review_thread.diff_hunk","resource":"PullRequestReviewComment"}]
        wrong commit: 422 Validation Failed [{"code":"custom","field":"pull_request_review_thread.end_commit_oid","message":"pull_request_review_thread.end_commit_oid is not part of the pull request","resource":"PullRequestReviewComment"}]
        reply to a reply: 422 Validation Failed [{"code":"invalid","field":"in_reply_to","message":"in_reply_to is not a top-level comment","resource":"PullRequestReviewComment"}]
        reply to nothing: 404 Not Found
    "#]].assert_eq(&said);

    let one = "/repos/acme/app/pulls/comments";
    for (status, content) in [(201, "eyes"), (200, "eyes"), (201, "+1")] {
        let reaction = json!({"content": content});
        assert_eq!(
            post(&github, &format!("{one}/{root}/reactions"), reaction).await.status,
            status
        );
    }
    assert_eq!(get(&github, &format!("{one}/{root}")).await.json()["reactions"]["eyes"], json!(1));
    let change = Some(json!({"body": "y"}));
    let patched = ask(&github, Method::PATCH, &format!("{one}/{root}"), change).await;
    assert_eq!(patched.json()["body"], json!("y"));
    assert_eq!(ask(&github, Method::DELETE, &format!("{one}/{root}"), None).await.status, 204);
    let said = github.post_comment(5, "alice", "Look.");
    let reactions = format!("/repos/acme/app/issues/comments/{said}/reactions");
    assert_eq!(post(&github, &reactions, json!({"content": "rocket"})).await.status, 201);
    assert_eq!(
        github.comment_reactions(said),
        [("patchwright-bot".to_owned(), "rocket".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn big_diffs_are_not_given_whole() {
    let many: Vec<_> = (0..4).map(|n| (format!("{n}.txt"), "x\n".repeat(5))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let mut said = String::new();
    for (files, lines) in [(300, 20_000), (3, 20_000), (300, 10)] {
        let github = with_pull()
            .limits(|limits| (limits.diff_files, limits.diff_lines) = (files, lines))
            .pull(6, "Many", "many", &many)
            .start();
        let path = "/repos/acme/app/pulls/6";
        let accept = "application/vnd.github.v3.diff";
        let answer = ask_with(&github, Method::GET, path, None, github.token(), accept).await;
        let is_diff = answer.text.starts_with("diff --git ");
        writeln!(said, "{is_diff} {}", answer.problem()).unwrap();
    }
    expect![[r#"
        true 200 -
        false 406 Sorry, the diff exceeded the maximum number of files (3). [{"resource":"PullRequest","field":"diff","code":"too_large"}]
        false 406 Sorry, the diff exceeded the maximum number of lines (10). [{"resource":"PullRequest","field":"diff","code":"too_large"}]
    "#]].assert_eq(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_and_stale_lists_are_as_for_everything_else() {
    let cut = Fault::once("POST", "/reviews", Kind::CutAfter);
    let stale = Fault::once("GET", "/reviews", Kind::StaleList);
    let github = with_pull().fault(cut).fault(stale).start();
    let url = format!("{}{PULL}/reviews", github.api_url());
    let sent = crate::forge::client()
        .post(url)
        .header("user-agent", "t")
        .header("authorization", format!("Bearer {}", github.token()))
        .json(&review(&json!([])))
        .send()
        .await;
    let broken = match sent {
        Ok(answer) => answer.bytes().await.is_err(),
        Err(_) => true,
    };
    assert!(broken);
    assert_eq!(github.reviews(5).len(), 1);
    assert_eq!(get(&github, &format!("{PULL}/reviews")).await.json(), json!([]));
    assert_eq!(get(&github, &format!("{PULL}/reviews")).await.json().as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_dismissed_and_comments_are_not() {
    let github = with_pull().start();
    let reviews = format!("{PULL}/reviews");
    for (event, said) in [
        ("REQUEST_CHANGES", "200 -"),
        (
            "COMMENT",
            "422 Unprocessable Entity [\"Can not dismiss a commented pull request review\"]",
        ),
    ] {
        let made = post(&github, &reviews, json!({"event": event, "body": "x"})).await.json();
        let path = format!("{reviews}/{}/dismissals", made["id"]);
        let answer = ask(&github, Method::PUT, &path, Some(json!({"message": "Done."}))).await;
        assert_eq!(answer.problem(), said);
    }
    assert_eq!(github.reviews(5)[0].state, "DISMISSED");
    github.merge(5);
    let pull = get(&github, PULL).await.json();
    assert_eq!((pull["merged"].clone(), pull["state"].clone()), (json!(true), json!("closed")));
    assert_eq!(pull["changed_files"], json!(2), "a merged one still says what it changed");
}
