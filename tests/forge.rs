//! The forge contract on GitHub and on a folder; GitHub's traps; lost answers; limits.
#![allow(
    clippy::needless_raw_string_hashes,
    clippy::too_many_lines,
    reason = "snapshots, as expect-test writes them"
)]
#![allow(clippy::needless_pass_by_value, reason = "a snapshot is used once")]

mod checks;
mod folder;
mod installations;
mod limits;
mod lost_answers;
mod ours;
mod refusals;
mod reviews;
mod threads;

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::expect;
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_forge::github::{GitHubForge, GitHubOptions, Pace};
use patchwright_forge::local::{LocalForge, Seed};
use patchwright_forge::seal::{Seal, without};
use patchwright_forge::{Forge, ForgeError, PullRequestDraft, RepositoryId, Role};
use patchwright_git::Oid;
use patchwright_git::clone::Repo;
use serde_json::json;

use self::lost_answers::write_everything;
use crate::support::git_http::{GitState, file};
use crate::support::github::{GitHub, Server, TOKEN};

/// A thousand times as fast as real life.
fn pace() -> Pace {
    Pace {
        write_gap: Duration::from_secs(1),
        timeout: Duration::from_secs(30),
        scale: 0.001,
        ..Pace::default()
    }
}

/// A client as the program has it: no redirects of its own.
pub(crate) fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    client.build().unwrap()
}

pub(crate) fn connect(github: &Server) -> GitHubForge {
    connect_to(github, &github.api_url())
}

/// Waits so long for an answer.
pub(crate) fn connect_within(github: &Server, timeout: Duration) -> GitHubForge {
    connect_at(github, &github.api_url(), Pace { timeout, ..pace() })
}

pub(crate) fn connect_to(github: &Server, api_url: &str) -> GitHubForge {
    connect_at(github, api_url, pace())
}

fn connect_at(github: &Server, api_url: &str, pace: Pace) -> GitHubForge {
    let options = GitHubOptions {
        api_url: api_url.parse().unwrap(),
        graphql_url: graphql_beside(api_url).parse().unwrap(),
        server_url: github.server_url().parse().unwrap(),
        token: github.token().into(),
        http: client(),
        pace,
        seal: seal(),
    };
    GitHubForge::new(options).unwrap()
}

/// The key of this installation.
pub(crate) fn seal() -> Seal {
    Seal::from_secrets(&["key of the forge tests".to_owned().into()])
}

fn graphql_beside(api_url: &str) -> String {
    Env::from_pairs([("GITHUB_API_URL", api_url)]).github_graphql_url()
}

fn app() -> RepositoryId {
    RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() }
}

const MARKER: &str = "<!-- patchwright:progress run=r1 v=1 -->";
const BRANCH: &str = "patchwright/issue-1";

fn draft() -> PullRequestDraft {
    PullRequestDraft {
        head_repository: app(),
        title: "Fix the typo".to_owned(),
        body: format!("The fix.\n\n{MARKER}"),
        head_branch: BRANCH.to_owned(),
        base_branch: "main".to_owned(),
        moves_base: true,
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

/// A series of calls that any forge is to answer alike; one line each.
async fn contract(forge: &dyn Forge) -> String {
    let (app, mut log) = (app(), String::new());
    let mut line = |name: &str, value: String| writeln!(log, "{name}: {value}").unwrap();
    let kind = |err: ForgeError| format!("{err:?}").split([' ', '{']).next().unwrap().to_owned();

    let repository = forge.repository(&app).await.unwrap();
    line(
        "repository",
        format!("{} {} {}", repository.id, repository.default_branch, repository.archived),
    );
    let nowhere = RepositoryId { name: "nowhere".to_owned(), ..app.clone() };
    line("no repository", kind(forge.repository(&nowhere).await.unwrap_err()));
    line("role", format!("{:?}", forge.role(&app, "alice").await.unwrap() >= Role::Write));
    line("no role", kind(forge.role(&app, "nobody-at-all").await.unwrap_err()));

    forge.add_labels(&app, 1, &["patchwright".to_owned(), "bug".to_owned()]).await.unwrap();
    line("label gone", format!("{:?}", forge.remove_label(&app, 1, "Patchwright").await.unwrap()));
    line(
        "label gone again",
        format!("{:?}", forge.remove_label(&app, 1, "patchwright").await.unwrap()),
    );
    let issue = forge.issue(&app, 1).await.unwrap();
    line(
        "issue",
        format!(
            "{} {} {:?} open {} {:?}",
            issue.number, issue.title, issue.body, issue.open, issue.labels
        ),
    );
    line("no issue", kind(forge.issue(&app, 99).await.unwrap_err()));
    let first = forge.react(&app, 1, "eyes").await.unwrap();
    line("same reaction", (first == forge.react(&app, 1, "eyes").await.unwrap()).to_string());

    let one = forge.upsert_comment(&app, 1, MARKER, None, "Working").await.unwrap();
    let same = forge.upsert_comment(&app, 1, MARKER, None, "Working").await.unwrap();
    let edited = forge.upsert_comment(&app, 1, MARKER, Some(one.id), "Done").await.unwrap();
    let wrong = forge.upsert_comment(&app, 1, MARKER, Some(one.id + 77), "Done!").await.unwrap();
    line(
        "one comment",
        (one.id == same.id && one.id == edited.id && one.id == wrong.id).to_string(),
    );
    let comments = forge.comments(&app, 1, 100).await.unwrap();
    line(
        "comments",
        format!("{:?}", comments.iter().map(|c| without(&c.body)).collect::<Vec<_>>()),
    );

    let nothing = PullRequestDraft { head_branch: "same".to_owned(), ..draft() };
    line(
        "nothing to propose",
        kind(forge.open_or_update(&app, &nothing, MARKER).await.unwrap_err()),
    );
    let missing = PullRequestDraft { head_branch: "missing".to_owned(), ..draft() };
    line("no branch", kind(forge.open_or_update(&app, &missing, MARKER).await.unwrap_err()));
    let (pull, operation, _) = forge.open_or_update(&app, &draft(), MARKER).await.unwrap();
    line(
        "pull",
        format!(
            "{operation:?} {} {} {} → {}",
            pull.number, pull.title, pull.head_branch, pull.base_branch
        ),
    );
    let tip = forge.branch_tip(&app, BRANCH).await.unwrap().unwrap();
    line("its head", (tip.to_string() == pull.head_sha).to_string());
    line("no tip", format!("{:?}", forge.branch_tip(&app, "missing").await.unwrap()));
    let again = forge.open_or_update(&app, &draft(), MARKER).await.unwrap();
    line("pull again", format!("{:?} {}", again.1, again.0.number));
    let renamed = PullRequestDraft { title: "Better".to_owned(), ..draft() };
    let updated = forge.open_or_update(&app, &renamed, MARKER).await.unwrap();
    line("pull updated", format!("{:?} {} {}", updated.1, updated.0.number, updated.0.title));
    let found = forge.pull_requests_from(&app, &app, BRANCH).await.unwrap();
    line(
        "from the branch",
        format!("{:?}", found.iter().map(|p| (p.number, p.open)).collect::<Vec<_>>()),
    );
    forge.add_labels(&app, pull.number, &["bug".to_owned()]).await.unwrap();
    let asked = ["alice".to_owned(), "nobody".to_owned()];
    line(
        "not asked",
        format!("{:?}", forge.request_reviewers(&app, pull.number, &asked).await.unwrap()),
    );
    let conversation = forge.issue(&app, pull.number).await.unwrap();
    line("conversation", format!("{} {:?}", conversation.is_pull_request, conversation.labels));
    log
}

#[tokio::test]
async fn forge_contract_is_the_same_on_github_and_in_a_folder() {
    let expected = expect![[r#"
        repository: acme/app main false
        no repository: NotFound
        role: true
        no role: NotFound
        label gone: true
        label gone again: false
        issue: 1 Typo "It says teh." open true ["bug"]
        no issue: NotFound
        same reaction: true
        one comment: true
        comments: ["Done!\n\n<!-- patchwright:progress run=r1 v=1 -->"]
        nothing to propose: State
        no branch: Invalid
        pull: Created 2 Fix the typo patchwright/issue-1 → main
        its head: true
        no tip: None
        pull again: Unchanged 2
        pull updated: Updated 2 Better
        from the branch: [(2, true)]
        not asked: ["nobody"]
        conversation: true ["bug"]
    "#]];
    let github = github().branch("same", &[]).start();
    let on_github = contract(&connect(&github)).await;
    expected.assert_eq(&on_github);

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
    assert_eq!(contract(&local).await, on_github);
    let reopened = LocalForge::open(dir.path(), Clock { fixed: None }).unwrap();
    assert_eq!(
        reopened.pull_requests_from(&app(), &app(), BRANCH).await.unwrap()[0].title,
        "Better"
    );
    let page = fs_err::read_to_string(dir.path().join("pull-requests/2.md")).unwrap();
    assert!(
        page.starts_with("# Better #2\n\n`patchwright/issue-1` → `main`\n\nThe fix."),
        "{page}"
    );
}

#[tokio::test]
async fn forge_works_where_enterprise_server_has_its_api() {
    let github = github().branch("same", &[]).start();
    let forge = connect_to(&github, &github.enterprise_api_url());
    assert!(contract(&forge).await.contains("pull updated: Updated 2 Better"));
    assert!(github.requests().iter().all(|request| request.path.starts_with("/api/v3/")));
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
    let post =
        http.post(format!("{url}/repos/acme/app/issues/1/comments")).header(agent.0, agent.1);
    assert_eq!(send(post.json(&json!({"text": "x"}))).await, 404);
    expect![[r#"
        GET /repos/acme/app/no-such-thing: no such path in GitHub's description
        GET /repos/acme/app/pulls: query parameter `state` may not be `ajar`
        POST /repos/acme/app/issues/1/comments: the body has an unknown field `text`"#]]
    .assert_eq(&github.take_violations().join("\n"));
}

/// A commit on `parent` in the bare repository at `path`, on no branch.
fn commit_on(path: &std::path::Path, parent: Oid, text: &str) -> Oid {
    let git = git2::Repository::open_bare(path).unwrap();
    let parent = git.find_commit(parent.0).unwrap();
    let mut tree = git.treebuilder(Some(&parent.tree().unwrap())).unwrap();
    tree.insert("README.md", git.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
    let tree = git.find_tree(tree.write().unwrap()).unwrap();
    let author = git2::Signature::new("Bot", "bot@example.com", &git2::Time::new(0, 0)).unwrap();
    Oid(git.commit(None, &author, &author, "Fix", &tree, &[&parent]).unwrap())
}

/// Fetches `main`, puts a commit on it and pushes that to `branch`; says how each push went.
async fn fetch_and_push(forge: &dyn Forge, branch: &str) -> Result<String, ForgeError> {
    let dir = tempfile::tempdir().unwrap();
    let repository = forge.repository(&app()).await?;
    let clone = Repo::create(&dir.path().join("clone.git")).unwrap();
    forge.fetch(&repository, clone.path(), &["main".to_owned()], 1).await?;
    let base = clone.resolve("main").unwrap();
    let push = async |commit: Oid, expected| {
        forge.push(&repository, clone.path(), commit.into(), branch, expected).await
    };
    let (one, two) = (commit_on(clone.path(), base, "one"), commit_on(clone.path(), base, "two"));
    let first = push(one, None).await?;
    let again = push(one, None).await?;
    let clobber = push(two, None).await.unwrap_err();
    let kind = format!("{clobber:?}").split([' ', '{']).next().unwrap().to_owned();
    let lease = push(two, Some(one)).await?;
    let landed = forge.branch_tip(&app(), branch).await? == Some(two);
    Ok(format!("{first:?} {again:?} {kind} {lease:?} {landed}"))
}

#[tokio::test]
async fn forge_pushes_one_commit_to_a_branch_that_is_where_we_expect_it() {
    let expected = "Pushed UpToDate Moved Pushed true";
    let github = github().start();
    let forge = connect(&github);
    assert_eq!(fetch_and_push(&forge, "patchwright/new").await.unwrap(), expected);
    // A push moves the pull request with it.
    let wanted = PullRequestDraft { head_branch: "patchwright/new".to_owned(), ..draft() };
    let (pull, _, _) = forge.open_or_update(&app(), &wanted, MARKER).await.unwrap();
    let pushed = github.push("patchwright/new", &[("README.md", "three")]);
    let found = forge.pull_requests_from(&app(), &app(), "patchwright/new").await.unwrap();
    assert_eq!((found[0].number, found[0].head_sha.as_str()), (pull.number, pushed.as_str()));

    let dir = tempfile::tempdir().unwrap();
    let seed = Seed {
        id: app(),
        files: vec![("README.md".to_owned(), b"teh\n".to_vec())],
        issues: Vec::new(),
        owner: "alice".to_owned(),
    };
    let local = LocalForge::create(dir.path(), &seed, Clock { fixed: None }).unwrap();
    assert_eq!(fetch_and_push(&local, "patchwright/new").await.unwrap(), expected);
}
