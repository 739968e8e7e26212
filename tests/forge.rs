//! The forge contract on GitHub and on a folder; GitHub's traps; lost answers; limits.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::expect;
use patchwright::forge::github::{GitHubForge, GitHubOptions, Pace};
use patchwright::forge::local::{LocalForge, Seed};
use patchwright::forge::{Forge, ForgeError, Operation, PullRequestDraft, RepositoryId, Role};
use patchwright::world::Clock;
use serde_json::json;

use crate::support::git_http::{GitState, file};
use crate::support::github::{Fault, GitHub, Issue, Kind, Server, TOKEN};

/// A thousand times as fast as real life.
fn pace() -> Pace {
    Pace { write_gap: Duration::from_secs(1), timeout: Duration::from_millis(1500), scale: 0.001, ..Pace::default() }
}

/// A client as the program has it: no redirects of its own.
pub(crate) fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    client.build().unwrap()
}

pub(crate) fn connect(github: &Server) -> GitHubForge {
    connect_to(github, &github.api_url())
}

pub(crate) fn connect_to(github: &Server, api_url: &str) -> GitHubForge {
    let options = GitHubOptions {
        api_url: api_url.parse().unwrap(),
        server_url: github.server_url().parse().unwrap(),
        token: github.token().into(),
        http: client(),
        pace: pace(),
    };
    GitHubForge::new(options).unwrap()
}

fn app() -> RepositoryId {
    RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() }
}

const MARKER: &str = "<!-- patchwright:progress run=r1 v=1 -->";
const BRANCH: &str = "patchwright/issue-1";

fn draft() -> PullRequestDraft {
    PullRequestDraft {
        title: "Fix the typo".to_owned(),
        body: format!("The fix.\n\n{MARKER}"),
        head_branch: BRANCH.to_owned(),
        base_branch: "main".to_owned(),
        draft: false,
    }
}

/// One repository, one issue of Alice's, and a branch with a fix.
fn github() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("README.md", "teh\n")])
        .user("alice", Role::Write)
        .user("bob", Role::Write)
        .branch(BRANCH, &[("README.md", "the\n")])
        .issue("acme/app", 1, "Typo", "It says teh.")
        .by("alice")
        .label("patchwright")
}

/// What a result says, with what differs between runs named.
fn said<T: std::fmt::Debug>(github: &Server, result: &Result<T, ForgeError>) -> String {
    let text = match result {
        Ok(value) => format!("{value:?}"),
        Err(err) => {
            let kind = format!("{err:?}");
            let kind = kind.split([' ', '{']).next().unwrap_or_default().to_owned();
            let need = match err {
                ForgeError::Forbidden { need: Some(need), .. } => format!(" [needs {need}]"),
                _ => String::new(),
            };
            format!("{kind}: {err}{need}")
        }
    };
    assert!(!text.contains(TOKEN), "the token is in: {text}");
    text.replace(&github.server_url().replace("http://", ""), "HOST")
}

/// The same calls on any forge; one line each.
async fn contract(forge: &dyn Forge) -> String {
    let (app, mut log) = (app(), String::new());
    let mut line = |name: &str, value: String| writeln!(log, "{name}: {value}").unwrap();
    let kind = |err: ForgeError| format!("{err:?}").split([' ', '{']).next().unwrap().to_owned();

    let repository = forge.repository(&app).await.unwrap();
    line("repository", format!("{} {} {}", repository.id, repository.default_branch, repository.archived));
    let nowhere = RepositoryId { name: "nowhere".to_owned(), ..app.clone() };
    line("no repository", kind(forge.repository(&nowhere).await.unwrap_err()));
    line("role", format!("{:?}", forge.role(&app, "alice").await.unwrap() >= Role::Write));
    line("no role", kind(forge.role(&app, "nobody-at-all").await.unwrap_err()));

    forge.add_labels(&app, 1, &["patchwright".to_owned(), "bug".to_owned()]).await.unwrap();
    line("label gone", format!("{:?}", forge.remove_label(&app, 1, "Patchwright").await.unwrap()));
    line("label gone again", format!("{:?}", forge.remove_label(&app, 1, "patchwright").await.unwrap()));
    let issue = forge.issue(&app, 1).await.unwrap();
    line("issue", format!("{} {} {:?} open {} {:?}", issue.number, issue.title, issue.body, issue.open, issue.labels));
    line("no issue", kind(forge.issue(&app, 99).await.unwrap_err()));
    let first = forge.react(&app, 1, "eyes").await.unwrap();
    line("same reaction", (first == forge.react(&app, 1, "eyes").await.unwrap()).to_string());

    let one = forge.upsert_comment(&app, 1, MARKER, None, "Working").await.unwrap();
    let same = forge.upsert_comment(&app, 1, MARKER, None, "Working").await.unwrap();
    let edited = forge.upsert_comment(&app, 1, MARKER, Some(one.id), "Done").await.unwrap();
    let wrong = forge.upsert_comment(&app, 1, MARKER, Some(one.id + 77), "Done!").await.unwrap();
    line("one comment", (one.id == same.id && one.id == edited.id && one.id == wrong.id).to_string());
    let comments = forge.comments(&app, 1, 100).await.unwrap();
    line("comments", format!("{:?}", comments.iter().map(|c| &c.body).collect::<Vec<_>>()));

    let nothing = PullRequestDraft { head_branch: "same".to_owned(), ..draft() };
    line("nothing to propose", kind(forge.open_or_update(&app, &nothing, MARKER).await.unwrap_err()));
    let missing = PullRequestDraft { head_branch: "missing".to_owned(), ..draft() };
    line("no branch", kind(forge.open_or_update(&app, &missing, MARKER).await.unwrap_err()));
    let (pull, operation) = forge.open_or_update(&app, &draft(), MARKER).await.unwrap();
    line("pull", format!("{operation:?} {} {} {} → {}", pull.number, pull.title, pull.head_branch, pull.base_branch));
    let tip = forge.branch_tip(&app, BRANCH).await.unwrap().unwrap();
    line("its head", (tip.to_string() == pull.head_sha).to_string());
    line("no tip", format!("{:?}", forge.branch_tip(&app, "missing").await.unwrap()));
    let again = forge.open_or_update(&app, &draft(), MARKER).await.unwrap();
    line("pull again", format!("{:?} {}", again.1, again.0.number));
    let renamed = PullRequestDraft { title: "Better".to_owned(), ..draft() };
    let updated = forge.open_or_update(&app, &renamed, MARKER).await.unwrap();
    line("pull updated", format!("{:?} {} {}", updated.1, updated.0.number, updated.0.title));
    let found = forge.pull_requests_from(&app, BRANCH).await.unwrap();
    line("from the branch", format!("{:?}", found.iter().map(|p| (p.number, p.open)).collect::<Vec<_>>()));
    forge.add_labels(&app, pull.number, &["bug".to_owned()]).await.unwrap();
    let asked = ["alice".to_owned(), "nobody".to_owned()];
    line("not asked", format!("{:?}", forge.request_reviewers(&app, pull.number, &asked).await.unwrap()));
    let conversation = forge.issue(&app, pull.number).await.unwrap();
    line("conversation", format!("{} {:?}", conversation.is_pull_request, conversation.labels));
    log
}

#[tokio::test]
async fn forge_contract_is_the_same_on_github_and_in_a_folder() {
    let expected = expect![[""]];
    let github = github().branch("same", &[]).start();
    expected.assert_eq(&contract(&connect(&github)).await);

    let dir = tempfile::tempdir().unwrap();
    let seed = Seed {
        id: app(),
        files: vec![("README.md".to_owned(), b"teh\n".to_vec())],
        issues: vec![(1, "Typo".to_owned(), "It says teh.".to_owned())],
        owner: "alice".to_owned(),
    };
    let local = LocalForge::create(dir.path(), &seed, Clock { fixed: None }).unwrap();
    let main = local.branch_tip(&app(), "main").await.unwrap().unwrap();
    let git = git2::Repository::open_bare(local.repository_path()).unwrap();
    for branch in ["same", BRANCH] {
        git.reference(&format!("refs/heads/{branch}"), main.0, false, "").unwrap();
    }
    GitState::new(dir.path()).commit("repository", BRANCH, "Fix", &[file("README.md", "the\n")]);
    expected.assert_eq(&contract(&local).await);
    let reopened = LocalForge::open(dir.path(), Clock { fixed: None }).unwrap();
    assert_eq!(reopened.pull_requests_from(&app(), BRANCH).await.unwrap()[0].title, "Better");
    let page = std::fs::read_to_string(dir.path().join("pull-requests/2.md")).unwrap();
    assert!(page.starts_with("# Better #2\n\n`patchwright/issue-1` → `main`\n\nThe fix."), "{page}");
}

#[tokio::test]
async fn forge_works_where_enterprise_server_has_its_api() {
    let github = github().branch("same", &[]).start();
    let forge = connect_to(&github, &github.enterprise_api_url());
    assert!(contract(&forge).await.contains("pull updated: Updated 2 Better"));
    assert!(github.requests().iter().all(|request| request.path.starts_with("/api/v3/")));
}

/// Everything that a run writes, twice, as after a restart.
async fn write_everything(forge: &dyn Forge) {
    for _ in 0..2 {
        forge.react(&app(), 1, "eyes").await.unwrap();
        forge.remove_label(&app(), 1, "patchwright").await.unwrap();
        let comment = forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
        let known = Some(comment.id);
        forge.upsert_comment(&app(), 1, MARKER, known, "Done").await.unwrap();
        let (pull, _) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
        forge.add_labels(&app(), pull.number, &["bug".to_owned()]).await.unwrap();
        forge.request_reviewers(&app(), pull.number, &["bob".to_owned()]).await.unwrap();
    }
}

#[tokio::test]
async fn forge_writes_once_when_the_answer_is_lost() {
    let kinds = || [Kind::ErrorAfter(502), Kind::CutAfter, Kind::ErrorBefore(503), Kind::ErrorAfter(500)];
    let routes = [
        ("POST", "issues/1/comments"),
        ("PATCH", "issues/comments"),
        ("POST", "/pulls"),
        ("POST", "/labels"),
        ("DELETE", "/labels"),
        ("POST", "/reactions"),
        ("POST", "/requested_reviewers"),
    ];
    for (method, path) in routes {
        for kind in kinds() {
            let shown = format!("{method} {path} {kind:?}");
            let github = github().fault(Fault::once(method, path, kind)).start();
            write_everything(&connect(&github)).await;
            let pulls = github.pulls();
            assert_eq!(pulls.len(), 1, "{shown}");
            assert_eq!((&pulls[0].labels, &pulls[0].reviewers), (&vec!["bug".to_owned()], &vec!["bob".to_owned()]), "{shown}");
            let bodies: Vec<String> = github.comments(1).into_iter().map(|c| c.body).collect();
            assert_eq!(bodies, [format!("Done\n\n{MARKER}")], "{shown}");
            assert_eq!(github.labels(1), Vec::<String>::new(), "{shown}");
            let eyes = ("patchwright-bot".to_owned(), "eyes".to_owned());
            assert_eq!(github.reactions(1), [eyes], "{shown}");
        }
    }
}

#[tokio::test]
async fn forge_looks_more_than_once_when_lists_lag_behind_a_lost_write() {
    for (method, list) in [("issues/1/comments", "issues/1/comments"), ("/pulls", "/pulls")] {
        let github = github()
            .fault(Fault::once("POST", method, Kind::ErrorAfter(502)))
            .fault(Fault::once("GET", list, Kind::StaleList).times(3))
            .start();
        write_everything(&connect(&github)).await;
        assert_eq!((github.comments(1).len(), github.pulls().len()), (1, 1), "{list}");
    }
}

#[tokio::test]
async fn forge_tells_a_label_it_removed_from_one_that_was_gone() {
    let removed = async |fault: Option<Kind>, label: &str| {
        let github = github().start();
        if let Some(kind) = fault {
            github.fault(Fault::once("DELETE", "/labels", kind));
        }
        connect(&github).remove_label(&app(), 1, label).await.unwrap()
    };
    assert!(removed(None, "patchwright").await);
    assert!(!removed(None, "bug").await);
    assert!(removed(Some(Kind::ErrorAfter(502)), "patchwright").await);
}

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
        let pull = forge.open_or_update(&app(), &draft(), MARKER).await.map(|(_, operation)| operation);
        writeln!(log, "pull: {}", said(&github, &pull)).unwrap();
        let refused = github.requests().iter().filter(|r| r.status == 403 && r.method != "GET").count();
        writeln!(log, "refused writes: {refused}").unwrap();
    }
    expect![[""]].assert_eq(&log);
}

#[tokio::test]
async fn forge_follows_a_renamed_repository_and_takes_its_new_name() {
    let github = github().start();
    let forge = connect(&github);
    github.rename("web");
    assert_eq!(forge.repository(&app()).await.unwrap().id.to_string(), "acme/web");
    assert_eq!(forge.issue(&app(), 1).await.unwrap().title, "Typo");
    write_everything(&forge).await;
    assert_eq!((github.comments(1).len(), github.pulls().len()), (1, 1));
}

#[tokio::test]
async fn forge_stops_at_a_transferred_issue() {
    let github = github().repository("acme/other", &[("a", "b")]).issue("acme/other", 5, "Typo", "x").start();
    let other = github.world().repositories[1].id;
    github.change(|repository| repository.issues.get_mut(&1).unwrap().transferred_to = Some((other, 5)));
    let result = connect(&github).issue(&app(), 1).await;
    expect!["State: issue `acme/app#1` was transferred to `acme/other`"].assert_eq(&said(&github, &result));
}

#[tokio::test]
async fn forge_reads_every_page_or_the_newest_ones() {
    let github = github().start();
    for number in 0..250 {
        github.post_comment(1, "bob", &format!("comment {number}"));
    }
    let forge = connect(&github);
    for (limit, first, pages) in [(1000, 0, 3), (250, 0, 3), (120, 130, 3), (10, 240, 3), (0, 250, 3)] {
        let before = github.requests().len();
        let comments = forge.comments(&app(), 1, limit).await.unwrap();
        let bodies: Vec<String> = comments.into_iter().map(|comment| comment.body).collect();
        let expected: Vec<String> = (first..250).map(|number| format!("comment {number}")).collect();
        assert_eq!(bodies, expected, "limit {limit}");
        assert!(github.requests().len() - before <= pages, "limit {limit}");
    }
    // Ours is found on whatever page it is.
    let ours = forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
    let again = forge.upsert_comment(&app(), 1, MARKER, None, "Done").await.unwrap();
    assert_eq!(ours.id, again.id);
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
async fn forge_waits_for_limits_and_everybody_waits() {
    let window = Duration::from_millis(55);
    let limits = [
        Kind::Secondary { retry_after: Some(60), window },
        Kind::Secondary { retry_after: None, window },
        Kind::Primary { reset_in: 60, window },
    ];
    for kind in limits {
        for (method, path) in [("GET", "issues/1"), ("POST", "issues/1/comments")] {
            // The server complains when it is dropped if anybody asks within the window.
            let github = github().fault(Fault::once(method, path, kind.clone())).start();
            let forge = connect(&github);
            forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
            let app = app();
            let (one, other, third) = tokio::join!(
                forge.issue(&app, 1),
                forge.repository(&app),
                forge.role(&app, "alice")
            );
            assert!(one.is_ok() && other.is_ok() && third.is_ok());
            assert_eq!(github.comments(1).len(), 1);
        }
    }
}

#[tokio::test]
async fn forge_says_how_long_a_limit_lasts_that_is_too_long_to_wait_for() {
    let kind = Kind::Primary { reset_in: 3000, window: Duration::from_secs(60) };
    let github = github().fault(Fault::once("GET", "issues/1", kind)).start();
    let result = connect(&github).issue(&app(), 1).await;
    expect!["RateLimited: the rate limit lasts until 51 minutes from now"].assert_eq(&said(&github, &result));
}

#[tokio::test]
async fn forge_gives_up_on_a_server_that_is_down() {
    let fault = Fault { method: "GET", path: "issues/1", times: 99, kind: Kind::ErrorBefore(502) };
    let github = github().fault(fault).start();
    let result = connect(&github).issue(&app(), 1).await;
    expect!["Unavailable: HOST is unavailable: 502: status 502 with a web page"].assert_eq(&said(&github, &result));
    assert_eq!(github.requests().len(), 5);
}

#[tokio::test]
async fn forge_comment_is_ours_or_new() {
    let github = github().comment("mallory", &format!("Look:\n{MARKER}")).start();
    let forge = connect(&github);
    let first = forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
    assert_eq!(github.comments(1)[0].body, format!("Look:\n{MARKER}"));
    // Unchanged: nothing is written.
    let writes = github.writes().len();
    forge.upsert_comment(&app(), 1, MARKER, Some(first.id), "Working").await.unwrap();
    forge.upsert_comment(&app(), 1, MARKER, None, "Working").await.unwrap();
    assert_eq!(github.writes().len(), writes);
    // Deleted: a new one.
    github.change(|repository| repository.comments.retain(|comment| comment.id != first.id));
    let second = forge.upsert_comment(&app(), 1, MARKER, Some(first.id), "Working").await.unwrap();
    assert_ne!(first.id, second.id);
    // Too long: cut, with the marker, so that it is found again.
    let long = "é".repeat(70_000);
    let third = forge.upsert_comment(&app(), 1, MARKER, None, &long).await.unwrap();
    assert_eq!((third.id, third.body.chars().count()), (second.id, 65_536));
    assert!(third.body.ends_with(&format!("*(cut: GitHub takes no more than 65,536 characters)*\n\n{MARKER}")));
    forge.upsert_comment(&app(), 1, MARKER, None, "Done").await.unwrap();
    assert_eq!(github.comments(1).len(), 2);
}

#[tokio::test]
async fn forge_of_an_app_knows_its_comment_without_knowing_its_name() {
    let github = github().token_of("github-actions[bot]").comment("mallory", MARKER).start();
    let forge = connect(&github);
    assert_eq!(forge.viewer().await.unwrap(), None);
    write_everything(&forge).await;
    let authors: Vec<String> = github.comments(1).into_iter().map(|comment| comment.author).collect();
    assert_eq!(authors, ["mallory", "github-actions[bot]"]);
    assert_eq!(github.pulls().len(), 1);
}

#[tokio::test]
async fn forge_leaves_other_peoples_pull_requests_alone() {
    let github = github().start();
    let forge = connect(&github);
    let (pull, _) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
    // From a fork with a branch of the same name: not the one.
    github.change(|r| r.pulls.get_mut(&2).unwrap().head_repository = "acme/app-fork".to_owned());
    assert_eq!(forge.pull_requests_from(&app(), BRANCH).await.unwrap(), []);
    github.change(|r| r.pulls.get_mut(&2).unwrap().head_repository = "acme/app".to_owned());
    // By somebody else, without our marker: a conflict with its address.
    github.change(|repository| {
        let issue = repository.issues.get_mut(&2).unwrap();
        issue.author = Some("bob".to_owned());
        issue.body = None;
    });
    let result = forge.open_or_update(&app(), &draft(), MARKER).await;
    expect!["Conflict: branch `patchwright/issue-1` already has a pull request of `bob`: http://HOST/acme/app/pull/2"].assert_eq(&said(&github, &result));
    // With our marker: adopted, whoever opened it.
    github.change(|r| r.issues.get_mut(&2).unwrap().body = Some(format!("Old.\r\n{MARKER}\r\n")));
    let (adopted, operation) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
    assert_eq!((adopted.number, operation), (pull.number, Operation::Updated));
    // Closed: a new one.
    github.change(|repository| repository.issues.get_mut(&2).unwrap().open = false);
    let (new, operation) = forge.open_or_update(&app(), &draft(), MARKER).await.unwrap();
    assert_eq!((new.number, operation), (3, Operation::Created));
    let all = forge.pull_requests_from(&app(), BRANCH).await.unwrap();
    assert_eq!(all.iter().map(|p| (p.number, p.open)).collect::<Vec<_>>(), [(3, true), (2, false)]);
}

#[tokio::test]
async fn forge_marks_the_title_where_there_are_no_drafts() {
    let github = github().with(|repository| repository.has_drafts = false).start();
    let forge = connect(&github);
    let wanted = PullRequestDraft { draft: true, title: "t".repeat(300), ..draft() };
    let (pull, operation) = forge.open_or_update(&app(), &wanted, MARKER).await.unwrap();
    assert_eq!((pull.draft, operation, pull.title.chars().count()), (false, Operation::Created, 256));
    assert!(pull.title.starts_with("[WIP] ttt"));
    let short = PullRequestDraft { draft: true, ..draft() };
    forge.open_or_update(&app(), &short, MARKER).await.unwrap();
}

#[tokio::test]
async fn forge_reads_ghosts_nulls_and_empty_repositories() {
    let github = github()
        .comment("gone", "bye")
        .with_issue(|issue| (issue.body, issue.author) = (None, None))
        .with(|repository| repository.comments[0].author = None)
        .repository("acme/empty", &[])
        .start();
    let forge = connect(&github);
    let issue = forge.issue(&app(), 1).await.unwrap();
    assert_eq!((issue.body.as_str(), issue.author.login.as_str()), ("", "ghost"));
    assert_eq!(forge.comments(&app(), 1, 9).await.unwrap()[0].author.login, "ghost");
    let empty = RepositoryId { name: "empty".to_owned(), ..app() };
    assert_eq!(forge.branch_tip(&empty, "main").await.unwrap(), None);
}

#[tokio::test]
async fn forge_test_server_refuses_what_github_would_not_know() {
    let github = github().start();
    let url = github.api_url();
    let http = client();
    let send = async |request: reqwest::RequestBuilder| {
        request.bearer_auth(TOKEN).send().await.unwrap().status().as_u16()
    };
    let agent = ("user-agent", "test");
    assert_eq!(send(http.get(format!("{url}/user"))).await, 403);
    let get = |path: &str| http.get(format!("{url}/{path}")).header(agent.0, agent.1);
    assert_eq!(send(get("user").header("x-github-api-version", "2020-01-01")).await, 400);
    assert_eq!(send(get("repos/acme/app/no-such-thing")).await, 404);
    assert_eq!(send(get("repos/acme/app/pulls?state=ajar")).await, 404);
    let post = http.post(format!("{url}/repos/acme/app/issues/1/comments")).header(agent.0, agent.1);
    assert_eq!(send(post.json(&json!({"text": "x"}))).await, 404);
    expect![[""]].assert_eq(&github.take_violations().join("\n"));
}
