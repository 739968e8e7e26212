//! Refusals: each says the thing, the cause and what would help, and nothing secret.

use std::fmt::Write as _;

use expect_test::expect;
use patchwright_forge::{Forge, ForgeError};
use serde_json::json;

use super::{MARKER, app, connect, draft, fetch_and_push, github, said};
use crate::support::git_http::{self, Step};
use crate::support::github::{Fault, GitHub, Issue, Kind, Server, TOKEN};

#[tokio::test]
async fn forge_says_thing_cause_and_permission() {
    let closed = |change: fn(&mut Issue)| github().with_issue(change);
    let cases: Vec<(&str, GitHub)> = vec![
        ("fine", github()),
        ("lacks issues", github().token_lacks("issues")),
        ("lacks pull requests", github().token_lacks("pull_requests")),
        ("archived", github().with(|repository| repository.archived = true)),
        ("locked", closed(|issue| issue.locked = true)),
        ("deleted", closed(|issue| issue.deleted = true)),
        ("no issues", github().with(|repository| repository.has_issues = false)),
        ("actions", github().token_of("github-actions[bot]").with(|r| r.actions_may_open_pulls = false)),
        ("private", github().with(|repository| { repository.private = true; repository.roles.clear(); })),
        ("no token", github().fault(Fault { method: "GET", path: "", times: 99, kind: Kind::Answer(401, json!({"message": "Bad credentials"})) })),
        ("hostile words", github().fault(Fault { method: "GET", path: "issues", times: 99, kind: Kind::Answer(403, json!({"message": format!("\u{1b}[31m{TOKEN}\r\n::error::x \u{202e}{}", "y".repeat(400))})) })),
        ("a web page", github().fault(Fault { method: "GET", path: "issues", times: 99, kind: Kind::Text(200, "<html>log in</html>".to_owned()) })),
    ];
    let mut log = String::new();
    for (name, github) in cases {
        let github = github.start();
        let forge = connect(&github);
        writeln!(log, "# {name}").unwrap();
        let issue = forge.issue(&app(), 1).await.map(|issue| issue.number);
        writeln!(log, "issue: {}", said(&github, &issue)).unwrap();
        let comment = forge.upsert_comment(&app(), 1, MARKER, None, "Hello").await.map(|_| ());
        writeln!(log, "comment: {}", said(&github, &comment)).unwrap();
        let pull =
            forge.open_or_update(&app(), &draft(), MARKER).await.map(|(_, operation, _)| operation);
        writeln!(log, "pull: {}", said(&github, &pull)).unwrap();
        let refused =
            github.requests().iter().filter(|r| r.status == 403 && r.method != "GET").count();
        writeln!(log, "refused writes: {refused}").unwrap();
    }
    expect![[r#"
        # fine
        issue: 1
        comment: ()
        pull: Created
        refused writes: 0
        # lacks issues
        issue: 1
        comment: Forbidden: not allowed to comment on `acme/app#1`: Resource not accessible by personal access token [needs `issues: write`]
        pull: Created
        refused writes: 1
        # lacks pull requests
        issue: 1
        comment: ()
        pull: Forbidden: not allowed to open a pull request in `acme/app`: Resource not accessible by personal access token [needs `pull-requests: write`]
        refused writes: 1
        # archived
        issue: 1
        comment: State: cannot comment on `acme/app#1`: the repository is archived and read-only
        pull: State: cannot open a pull request in `acme/app`: the repository is archived and read-only
        refused writes: 2
        # locked
        issue: 1
        comment: State: cannot comment on `acme/app#1`: the conversation is locked
        pull: Created
        refused writes: 1
        # deleted
        issue: State: cannot read issue `acme/app#1`: it was deleted, or issues are turned off there
        comment: State: cannot read the comments of `acme/app#1`: it was deleted, or issues are turned off there
        pull: Created
        refused writes: 0
        # no issues
        issue: State: cannot read issue `acme/app#1`: it was deleted, or issues are turned off there
        comment: State: cannot read the comments of `acme/app#1`: it was deleted, or issues are turned off there
        pull: Created
        refused writes: 0
        # actions
        issue: 1
        comment: ()
        pull: Forbidden: not allowed to open a pull request in `acme/app`: GitHub Actions is not permitted to create or approve pull requests. [needs the repository setting “Allow GitHub Actions to create and approve pull requests” (Settings, Actions, General)]
        refused writes: 1
        # private
        issue: NotFound: issue `acme/app#1` (or the token may not see it) was not found
        comment: NotFound: the comments of `acme/app#1` (or the token may not see it) was not found
        pull: NotFound: the pull requests of `acme/app` (or the token may not see it) was not found
        refused writes: 0
        # no token
        issue: Authentication: the token is missing, wrong or expired: Bad credentials
        comment: Authentication: the token is missing, wrong or expired: Bad credentials
        pull: Authentication: the token is missing, wrong or expired: Bad credentials
        refused writes: 0
        # hostile words
        issue: Forbidden: not allowed to read issue `acme/app#1`: [31m***  ::error::x yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…
        comment: Forbidden: not allowed to read the comments of `acme/app#1`: [31m***  ::error::x yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…
        pull: Created
        refused writes: 0
        # a web page
        issue: Malformed: HOST answered with something unexpected: issue `acme/app#1` could not be read: expected value at line 1 column 1; this is no answer of GitHub's API, and `http://HOST` does not look like its address: set `GITHUB_API_URL` to `http://HOST/api/v3`
        comment: Malformed: HOST answered with something unexpected: the comments of `acme/app#1` could not be read: expected value at line 1 column 1; this is no answer of GitHub's API, and `http://HOST` does not look like its address: set `GITHUB_API_URL` to `http://HOST/api/v3`
        pull: Created
        refused writes: 0
    "#]].assert_eq(&log);
}

#[tokio::test]
async fn forge_says_why_a_push_was_refused() {
    type Change = fn(&Server);
    let cases: [(&str, GitHub, Change); 6] = [
        ("lacks contents", github().token_lacks("contents"), |_| ()),
        ("archived", github().with(|repository| repository.archived = true), |_| ()),
        ("protected", github(), |github| github.git().protect("acme/app", "new")),
        ("rejected", github(), |github| {
            github.git().refuse("acme/app", "*", "refusing to allow a GitHub App to create or update workflow `.github/workflows/x.yml` without `workflows` permission");
        }),
        ("empty", GitHub::new().repository("acme/app", &[]), |_| ()),
        ("down", github(), |github| {
            for _ in 0..1000 {
                github.git().fault(Step::Advertise, git_http::Fault::Status(503));
            }
        }),
    ];
    let mut log = String::new();
    for (name, github, change) in cases {
        let github = github.start();
        change(&github);
        let result = fetch_and_push(&connect(&github), "new").await;
        writeln!(log, "{name}: {}", said(&github, &result)).unwrap();
    }
    expect![[r#"
        lacks contents: Forbidden: not allowed to push to `http://HOST/acme/app.git`: remote: Permission to acme/app.git denied to test. [needs `contents: write`]
        archived: State: cannot push to `http://HOST/acme/app.git`: the repository is archived and read-only
        protected: Invalid: the push of `refs/heads/new` was rejected: hook declined; error: GH006: Protected branch update failed for refs/heads/new.; error: hook declined to update refs/heads/new
        rejected: Forbidden: not allowed to push to `http://HOST/acme/app.git`: hook declined; refusing to allow a GitHub App to create or update workflow `.github/workflows/x.yml` without `workflows` permission; error: hook declined to update refs/heads/new [needs `workflows: write`, which no Actions token has]
        empty: State: cannot read `http://HOST/acme/app.git`: the repository is empty; push a first commit to it
        down: Unavailable: 127.0.0.1 is unavailable: `http://HOST/acme/app.git` answered with status 503
    "#]].assert_eq(&log);
}

#[tokio::test]
async fn forge_sends_the_token_nowhere_else() {
    let elsewhere = GitHub::new().repository("acme/app", &[]).start();
    let away = format!("{}/repositories/1/issues/1/comments?page=2", elsewhere.api_url());
    for kind in [Kind::NextPage(away.clone()), Kind::Redirect(away.clone())] {
        let github = github().fault(Fault::once("GET", "comments", kind)).start();
        let result = connect(&github).comments(&app(), 1, 100).await.map(|comments| comments.len());
        assert!(matches!(result, Err(ForgeError::Malformed { .. })), "{result:?}");
    }
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn forge_stops_at_a_transferred_issue() {
    let github = github()
        .repository("acme/other", &[("a", "b")])
        .issue("acme/other", 5, "Typo", "x")
        .start();
    let other = github.world().repositories[1].id;
    github.change(|repository| {
        repository.issues.get_mut(&1).unwrap().transferred_to = Some((other, 5));
    });
    let result = connect(&github).issue(&app(), 1).await;
    expect!["State: issue `acme/app#1` was transferred to `acme/other#5`; ask for it there"]
        .assert_eq(&said(&github, &result));
    // Where the token may not look, it is known all the same that the issue is not here.
    github.fault(Fault::once(
        "GET",
        "issues/5",
        Kind::Answer(404, json!({"message": "Not Found", "status": "404"})),
    ));
    let result = connect(&github).issue(&app(), 1).await;
    expect!["State: issue `acme/app#1` was transferred to a repository that the token may not see"]
        .assert_eq(&said(&github, &result));
}
