//! Repositories found and looked at on GitHub, and what a campaign would do with each.

use parking_lot::Mutex;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use chrono::{DateTime, NaiveDate, Utc};
use expect_test::expect;
use patchwright_forge::github::{
    GitHubForge, GitHubOptions, Pace, PreflightQuery, RepositoryFacts,
};
use patchwright_forge::{ForgeError, RepositoryId, Role};
use serde_json::{Value, json};

use crate::forge::{client, connect};

use crate::support::github::{Fault, GitHub, Kind, Server, fleet_name};
use crate::support::world::{Output, TestWorld};

const OURS: &str = "Done.\n\n<!-- patchwright:pull-request run=r1 v=1 -->";
const BRANCH: &str = "patchwright/x";

fn ids(names: &[&str]) -> Vec<RepositoryId> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn wanted() -> PreflightQuery {
    PreflightQuery { head_branch: BRANCH.to_owned(), ..PreflightQuery::default() }
}

/// A fact for each repository, one line.
fn lines(all: &[RepositoryFacts]) -> String {
    let line = |facts: &RepositoryFacts| {
        let mut words = vec![facts.repository.clone()];
        if facts.asked != facts.repository {
            words.push(format!("was {}", facts.asked));
        }
        if let Some(trouble) = &facts.trouble {
            words.push(format!("trouble: {trouble}"));
            return words.join(" ");
        }
        words.push(facts.base_branch.clone());
        words.push(if facts.base_sha.is_some() { "tip" } else { "no-tip" }.to_owned());
        for (is, word) in [
            (facts.archived, "archived"),
            (facts.disabled, "disabled"),
            (facts.fork, "fork"),
            (facts.template, "template"),
            (facts.private, "private"),
            (facts.can_push == Some(true), "push"),
        ] {
            if is {
                words.push(word.to_owned());
            }
        }
        words.extend(facts.topics.iter().map(|topic| format!("topic:{topic}")));
        words.extend(facts.missing_files.iter().map(|file| format!("no:{file}")));
        for pull in &facts.pulls {
            let state = match (pull.open, pull.merged) {
                (true, _) => "open",
                (false, true) => "merged",
                (false, false) => "closed",
            };
            let ours = if pull.ours { "ours" } else { "theirs" };
            let draft = if pull.draft { "/draft" } else { "" };
            assert!(pull.head_sha.len() == 40 && pull.base_sha.len() == 40, "{pull:?}");
            words.push(format!("#{}/{state}/{ours}{draft}", pull.number));
        }
        words.join(" ")
    };
    all.iter().map(|facts| line(facts) + "\n").collect()
}

fn many() -> GitHub {
    GitHub::new()
        .repository("acme/plain", &[("Cargo.toml", ""), ("src/a b.rs", "")])
        .topics(&["cli", "rust"])
        .repository("acme/old", &[("a", "a")])
        .archived()
        .repository("acme/mould", &[("a", "a")])
        .template()
        .repository("acme/empty", &[])
        .repository("acme/read", &[("a", "a")])
        .our_role(Role::Read)
        .repository("acme/secret", &[("a", "a")])
        .private()
        .our_role(Role::None)
        .repository("acme/ours", &[("a", "a")])
        .private()
        .repository("acme/now", &[("a", "a")])
        .renamed_from("acme/then")
        .repository("acme/pulls", &[("a", "a")])
        .fork("mallory/pulls")
        .pull(1, "rejected", BRANCH, &[("b", "b")])
        .body(OURS)
        .closed()
        .pull(2, "again", BRANCH, &[("c", "c")])
        .body(OURS)
        .draft()
        .pull(3, "foreign", "mallory:patchwright/x", &[("d", "d")])
        .body(OURS)
        .pull(4, "else", "feature", &[("e", "e")])
}

const MANY: &[&str] = &[
    "acme/plain",
    "acme/old",
    "acme/mould",
    "acme/empty",
    "acme/read",
    "acme/secret",
    "acme/ours",
    "acme/then",
    "acme/now",
    "acme/gone",
    "acme/pulls",
];

const LOOKED_AT: &str = "\
acme/plain main tip push topic:cli topic:rust
acme/old main tip archived push
acme/mould main tip template push
acme/empty main no-tip push
acme/read main tip
acme/secret trouble: repository `acme/secret` (or the token may not see it) was not found
acme/ours main tip private push
acme/now was acme/then main tip push
acme/gone trouble: repository `acme/gone` (or the token may not see it) was not found
acme/pulls main tip push #2/open/ours/draft #1/closed/ours
";

fn questions(github: &Server) -> usize {
    github.requests().iter().filter(|request| request.path.contains("graphql")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_question_tells_about_many_and_one_that_is_gone_does_not_take_the_rest_with_it() {
    let github = many().start();
    let found = connect(&github).preflight_all(&ids(MANY), &wanted()).await.unwrap();
    // An empty repository has no branch to tell the name of.
    assert_eq!(lines(&found), LOOKED_AT.replace("empty main", "empty "));
    assert_eq!(questions(&github), 1);
    assert!(github.writes().iter().all(|write| write.contains("graphql")), "reads only");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_graphql_every_repository_is_asked_by_itself_with_the_same_result() {
    let refusal = json!({"message": "Resource not accessible by integration"});
    let github = many().fault(Fault::once("POST", "graphql", Kind::Answer(403, refusal))).start();
    let found = connect(&github).preflight_all(&ids(MANY), &wanted()).await.unwrap();
    assert_eq!(lines(&found), LOOKED_AT);
    assert_eq!(questions(&github), 1, "it is not asked again");

    let old = many().without_graphql_field("Repository.isDisabled").start();
    let found = connect(&old).preflight_all(&ids(MANY), &wanted()).await.unwrap();
    assert_eq!(lines(&found), LOOKED_AT);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_looked_for_on_the_branch_that_is_worked_on() {
    let files = ["Cargo.toml", "src/a b.rs", "src", "no.rs"].map(str::to_owned).to_vec();
    let github = many()
        .at("acme/plain")
        .branch("dev/next", &[("no.rs", "now")])
        .fault(Fault::once("GET", "nothing", Kind::ErrorBefore(500)))
        .start();
    let forge = connect(&github);
    let names = ids(&["acme/plain", "acme/read"]);
    let on_default = PreflightQuery { files: files.clone(), ..wanted() };
    let on_dev = PreflightQuery { base: Some("dev/next".to_owned()), files, ..wanted() };
    let expected_default = "acme/plain main tip push topic:cli topic:rust no:no.rs\n\
        acme/read main tip no:Cargo.toml no:src/a b.rs no:src no:no.rs\n";
    let expected_dev =
        "acme/plain dev/next tip push topic:cli topic:rust\nacme/read dev/next no-tip\n";
    for (wanted, expected) in [(&on_default, expected_default), (&on_dev, expected_dev)] {
        assert_eq!(lines(&forge.preflight_all(&names, wanted).await.unwrap()), expected);
    }
    let refusal = json!({"message": "no"});
    for (wanted, expected) in [(&on_default, expected_default), (&on_dev, expected_dev)] {
        github.fault(Fault::once("POST", "graphql", Kind::Answer(403, refusal.clone())));
        assert_eq!(
            lines(&forge.preflight_all(&names, wanted).await.unwrap()),
            expected,
            "over REST"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_repositories_are_one_question_and_names_of_one_repository_are_one() {
    let github = GitHub::new().repositories(120, |_| [("a", "a")]).start();
    let mut names: Vec<RepositoryId> =
        (1..=120).map(|number| fleet_name(number).parse().unwrap()).collect();
    names.push("ACME/App-007".parse().unwrap());
    let found = connect(&github).preflight_all(&names, &wanted()).await.unwrap();
    assert_eq!(found.len(), 120);
    assert!(found.iter().all(|facts| facts.trouble.is_none() && facts.base_sha.is_some()));
    assert_eq!(questions(&github), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_fails_is_asked_in_halves_and_costs_the_others_nothing() {
    let github = GitHub::new().repositories(500, |_| [("a", "a")]).start();
    let names: Vec<RepositoryId> =
        (1..=500).map(|number| fleet_name(number).parse().unwrap()).collect();
    let asked_one_by_one = || {
        let requests = github.requests();
        requests.iter().filter(|request| request.path.contains("/repos/")).count()
    };
    let down = |times| {
        let fault = Fault::once("POST", "graphql", Kind::ErrorBefore(502));
        github.world().faults = vec![fault.times(times)];
    };
    // All that one question is sent again is lost, and then all of its first half.
    for (lost, one_by_one) in [(5, 0), (10, 25)] {
        let before = asked_one_by_one();
        down(lost);
        let found = connect(&github).preflight_all(&names, &wanted()).await.unwrap();
        assert_eq!(found.len(), 500);
        assert!(found.iter().all(|facts| facts.trouble.is_none() && facts.base_sha.is_some()));
        let asked = asked_one_by_one() - before;
        assert!(asked >= one_by_one && asked <= 4 * one_by_one, "{lost}: {asked}");
    }
    // Down for all: many are not asked one by one, and few are.
    let before = asked_one_by_one();
    down(u32::MAX);
    let err = connect(&github).preflight_all(&names, &wanted()).await.unwrap_err();
    assert!(matches!(err, ForgeError::Unavailable { .. }), "{err}");
    assert_eq!(asked_one_by_one(), before);
    let found = connect(&github).preflight_all(&names[..60], &wanted()).await.unwrap();
    assert!(found.len() == 60 && found.iter().all(|facts| facts.base_sha.is_some()));
    github.world().faults.clear();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_open_pull_request_is_told_for_reviews() {
    let mut github =
        GitHub::new().repository("acme/busy", &[("a", "a")]).repository("acme/app", &[("a", "a")]);
    github =
        github.pull(1, "one", "one", &[("b", "b")]).pull(2, "two", "two", &[("c", "c")]).draft();
    github = github.pull(3, "three", "three", &[("d", "d")]).closed().at("acme/busy");
    for number in 1..=53 {
        github = github.pull(number, "more", &format!("branch-{number}"), &[]);
    }
    let github = github.start();
    let wanted = PreflightQuery { open_pulls: true, ..wanted() };
    let found =
        connect(&github).preflight_all(&ids(&["acme/app", "acme/busy"]), &wanted).await.unwrap();
    let numbers: Vec<(u64, bool)> =
        found[0].pulls.iter().map(|one| (one.number, one.draft)).collect();
    assert_eq!(numbers, [(2, true), (1, false)]);
    assert_eq!(found[1].pulls.len(), 53);
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_for_all_is_an_error_and_trouble_for_one_is_not() {
    let github = many().start();
    let forge = connect(&github);
    let refusal = json!({"message": "Bad credentials"});
    github.fault(Fault::once("POST", "graphql", Kind::Answer(401, refusal)));
    let err = forge.preflight_all(&ids(MANY), &wanted()).await.unwrap_err();
    assert!(matches!(err, ForgeError::Authentication { .. }), "{err}");
    // A server that is broken for one repository.
    let nothing = json!({"errors": [{"message": "no"}]});
    github.fault(Fault::once("POST", "graphql", Kind::Answer(200, nothing)));
    github.fault(Fault::once("GET", "repos/acme/old", Kind::ErrorBefore(502)).times(5));
    let found = forge.preflight_all(&ids(MANY), &wanted()).await.unwrap();
    let broken = found.iter().filter(|facts| facts.repository == "acme/old");
    let trouble: Vec<_> = broken.filter_map(|facts| facts.trouble.as_deref()).collect();
    assert!(trouble.len() == 1 && trouble[0].contains("502"), "{trouble:?}");
    assert_eq!(lines(&found).lines().count(), LOOKED_AT.lines().count());
    // And one that is broken for all.
    github.fault(Fault::once("", "", Kind::ErrorBefore(502)).times(1000));
    github.fault(Fault::once("GET", "repos/", Kind::ErrorBefore(502)).times(1000));
    github.fault(Fault::once("POST", "graphql", Kind::ErrorBefore(502)).times(1000));
    let err = forge.preflight_all(&ids(MANY), &wanted()).await.unwrap_err();
    assert!(matches!(err, ForgeError::Unavailable { .. }), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_are_listed_to_the_end_whether_organisation_or_person() {
    let github = GitHub::new()
        .repositories(230, |_| [("a", "a")])
        .repository("rita/two", &[])
        .person("rita")
        .start();
    let forge = connect(&github);
    assert_eq!(forge.repositories_of("acme").await.unwrap().len(), 230);
    let of_rita = forge.repositories_of("rita").await.unwrap();
    assert_eq!(of_rita.into_iter().collect::<Vec<_>>(), ids(&["rita/two"]));
    let err = forge.repositories_of("nobody").await.unwrap_err();
    assert!(matches!(err, ForgeError::NotFound { .. }), "{err}");
    assert_eq!(forge.installed_for().await.unwrap(), None, "the token is a person's");
    // A part of a list is never taken for the whole.
    github.fault(Fault::once("GET", "organizations/", Kind::ErrorBefore(500)).times(5));
    assert!(forge.repositories_of("acme").await.is_err());

    let app = GitHub::new()
        .repository("acme/in", &[("a", "a")])
        .token_of("fixer[bot]")
        .repository("acme/out", &[("a", "a")])
        .start();
    let installed = connect(&app).installed_for().await.unwrap();
    assert!(installed.is_some_and(|names| names.into_seen().has("acme/in")));
}

/// A search over repositories that were created on known days, with GitHub's cap.
struct Searched {
    days: Vec<NaiveDate>,
    queries: Mutex<Vec<String>>,
}

async fn search(
    State(all): State<Arc<Searched>>,
    Query(query): Query<Vec<(String, String)>>,
) -> axum::Json<Value> {
    let value = |name: &str| query.iter().find(|(key, _)| key == name).unwrap().1.clone();
    let (q, page): (String, usize) = (value("q"), value("page").parse().unwrap());
    all.queries.lock().push(q.clone());
    let span = q.split("created:").nth(1).map(|span| {
        let (from, to) = span.trim().split_once("..").unwrap();
        (from.parse::<NaiveDate>().unwrap(), to.parse::<NaiveDate>().unwrap())
    });
    let fits = |day: &NaiveDate| span.is_none_or(|(from, to)| from <= *day && *day <= to);
    let found: Vec<usize> = (0..all.days.len()).filter(|at| fits(&all.days[*at])).collect();
    let items: Vec<Value> = found
        .iter()
        .take(1000)
        .skip((page - 1) * 100)
        .take(100)
        .map(|number| json!({"full_name": format!("acme/r{number}"), "node_id": format!("R_{number}")}))
        .collect();
    axum::Json(json!({"total_count": found.len(), "incomplete_results": false, "items": items}))
}

async fn searched(days: Vec<NaiveDate>) -> (GitHubForge, Arc<Searched>) {
    let all = Arc::new(Searched { days, queries: Mutex::new(Vec::new()) });
    let app = Router::new().route("/search/repositories", get(search)).with_state(Arc::clone(&all));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let options = GitHubOptions {
        api_url: url.parse().unwrap(),
        graphql_url: format!("{url}/graphql").parse().unwrap(),
        server_url: url.parse().unwrap(),
        token: "t".to_owned().into(),
        http: client(),
        pace: Pace::default(),
        seal: patchwright_forge::seal::Seal::from_secrets(&[]),
    };
    (GitHubForge::new(options).unwrap(), all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_with_more_results_than_github_gives_is_asked_in_parts() {
    let now: DateTime<Utc> = "2026-06-01T12:00:00Z".parse().unwrap();
    let first = NaiveDate::from_ymd_opt(2015, 1, 1).unwrap();
    let days: Vec<NaiveDate> = first.iter_days().take(2500).collect();
    let (forge, all) = searched(days.clone()).await;
    let found = forge.search_repositories("org:acme", now).await.unwrap();
    assert_eq!((found.repositories.len(), found.notes.len()), (2500, 0));
    let queries = all.queries.lock().clone();
    assert_eq!(queries[0], "org:acme");
    assert!(queries.len() < 60, "{}", queries.len());

    // Few results are one question.
    let (forge, all) = searched(days[..40].to_vec()).await;
    assert_eq!(forge.search_repositories("x", now).await.unwrap().repositories.len(), 40);
    assert_eq!(all.queries.lock().len(), 1);

    // What cannot be split is said.
    let (forge, _) = searched(vec![first; 1300]).await;
    let found = forge.search_repositories("x", now).await.unwrap();
    assert_eq!(found.repositories.len(), 1000);
    assert!(found.notes[0].contains("300 results more than GitHub gives"), "{:?}", found.notes);
    let (forge, all) = searched(days).await;
    let found = forge.search_repositories("x created:2010-01-01..2030-01-01", now).await.unwrap();
    assert_eq!(found.repositories.len(), 1000);
    assert!(found.notes[0].contains("1500 results more"), "{:?}", found.notes);
    assert_eq!(all.queries.lock().len(), 10);
}

/// A world with a campaign file.
fn world(github: GitHub, campaign: &str) -> TestWorld {
    let world = TestWorld::new(github, []);
    fs_err::write(world.path("c.yml"), campaign).unwrap();
    world
}

fn plan(world: &TestWorld, flags: &[&str]) -> Output {
    let file = world.path("c.yml").display().to_string();
    let mut args = vec!["batch", "plan", file.as_str()];
    args.extend(flags);
    world.run(&args)
}

/// Commits are as long as a line shows them.
fn without_commits(text: &str) -> String {
    let is_commit = |word: &str| word.len() == 10 && word.chars().all(|c| c.is_ascii_hexdigit());
    let line = |line: &str| {
        let words = line.split(' ').map(|word| if is_commit(word) { "COMMIT" } else { word });
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

#[test]
fn a_plan_says_what_is_done_where_and_why_not() {
    let github = many().at("acme/plain").fork("acme/forked");
    let world = world(
        github,
        r#"
name: x
select:
  organizations: [acme, nobody]
  repositories: [acme/then, acme/gone]
  exclude: ["acme/our*"]
task:
  prompt: Fix it.
agent:
  max-cost-usd: 2
waves:
  - size: 1
  - size: all
limits:
  budget-usd: 5
"#,
    );
    let output = plan(&world, &[]);
    expect![[r#"
        exit 0
        --- stdout
        campaign x (x-efa6a8a9efb3)

        to work on: 2
          acme/now    main  COMMIT  wave 1
          acme/plain  main  COMMIT  wave 2

        finished: 1
          acme/pulls: pull request #2 is open

        skipped: 7
          acme/ours: excluded by `acme/our*`
          acme/forked: it is a fork, and `select.forks` is not set
          acme/mould: it is a template, and `select.templates` is not set
          acme/old: it is archived
          acme/empty: it is empty
          acme/gone: repository `acme/gone` (or the token may not see it) was not found
          acme/read: the token may not push to it

        cost:    not known, no run has ended yet; at most $4.00
        running: not known
        publishing: about TIME at the pace that GitHub allows
        --- stderr
        note: `nobody` was left out: the repositories of `nobody` (or the token may not see it) was not found
        note: `acme/then` is called `acme/now` now
    "#]].assert_eq(&without_commits(&world.tidy(&output.text())));
    assert!(world.github.writes().iter().all(|write| write.contains("graphql")), "reads only");
    assert_eq!(world.model.requests().len(), 0);
    let lines = plan(&world, &["--json", "--quiet"]);
    let last: Value = serde_json::from_str(lines.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "plan");
    let work = last["estimate"]["targets"].as_u64().unwrap();
    assert_eq!((work, last["estimate"]["most_usd"].as_f64()), (2, Some(4.0)));
    let plans = |word: &str| lines.stdout.matches(&format!("\"plan\":\"{word}\"")).count();
    assert_eq!((plans("work"), plans("finished"), plans("skip")), (2, 1, 7));
    for line in lines.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["type"] == "plan" || line["repository"].as_str().is_some(), "{line}");
    }
}

#[test]
fn pull_requests_of_the_branch_say_what_was_done_already() {
    let one = |name: &str, github: GitHub| github.repository(name, &[("a", "a")]);
    let mut github = one("acme/open", GitHub::new()).pull(1, "t", BRANCH, &[("b", "b")]).body(OURS);
    github = one("acme/merged", github).pull(1, "t", BRANCH, &[("b", "b")]).body(OURS).merged();
    github = one("acme/rejected", github).pull(1, "t", BRANCH, &[("b", "b")]).body(OURS).closed();
    github = one("acme/person", github).pull(1, "t", BRANCH, &[("b", "b")]).body("Mine.");
    github = one("acme/once", github).pull(1, "t", BRANCH, &[("b", "b")]).body("Mine.").closed();
    let campaign = "name: x\nselect: {organizations: [acme]}\ntask: {prompt: Fix it.}\n";
    let world = world(github, campaign);
    // What a person had on the branch is gone.
    world.github.of("acme/once").delete_branch(BRANCH);
    expect![[r#"
        exit 0
        --- stdout
        campaign x (x-efa6a8a9efb3)

        to work on: 1
          acme/once  main  COMMIT  wave 1

        finished: 2
          acme/open: pull request #1 is open
          acme/merged: pull request #1 was merged

        skipped: 2
          acme/rejected: it was rejected: #1 was closed unmerged
          acme/person: pull request #1 from `patchwright/x` is not ours; close it, or choose another `publish.branch`

        cost:    not known, no run has ended yet; at most $5.00
        running: not known
        publishing: about TIME at the pace that GitHub allows
    "#]].assert_eq(&without_commits(&world.tidy(&plan(&world, &[]).text())));
    // Again when the base has moved, which it has not for the open one, and for the merged one only by its merge.
    let moved = format!("{campaign}repeat: when-moved\n");
    fs_err::write(world.path("c.yml"), moved).unwrap();
    expect![[r#"
        exit 0
        --- stdout
        campaign x (x-efa6a8a9efb3)

        to work on: 1
          acme/once  main  COMMIT  wave 1

        finished: 2
          acme/open: pull request #1 is open
          acme/merged: pull request #1 was merged

        skipped: 2
          acme/rejected: it was rejected: #1 was closed unmerged
          acme/person: pull request #1 from `patchwright/x` is not ours; close it, or choose another `publish.branch`

        cost:    not known, no run has ended yet; at most $5.00
        running: not known
        publishing: about TIME at the pace that GitHub allows
    "#]].assert_eq(&without_commits(&world.tidy(&plan(&world, &[]).text())));
}

#[test]
fn reviews_are_planned_for_each_open_pull_request() {
    let github = GitHub::new()
        .repository("acme/quiet", &[("a", "a")])
        .repository("acme/app", &[("a", "a")])
        .pull(1, "one", "one", &[("b", "b")])
        .pull(2, "two", "two", &[("c", "c")])
        .draft()
        .pull(3, "three", "three", &[("d", "d")])
        .closed();
    let world = world(github, "name: x\nselect: {organizations: [acme]}\nmode: review\n");
    expect![[r#"
        exit 0
        --- stdout
        campaign x (x-4940ac532625)

        to work on: 1
          acme/app#1  main  COMMIT  wave 1

        skipped: 2
          acme/app#2: it is a draft
          acme/quiet: no open pull request

        cost:    not known, no run has ended yet; at most $5.00
        running: not known
        publishing: about TIME at the pace that GitHub allows
    "#]]
    .assert_eq(&without_commits(&world.tidy(&plan(&world, &[]).text())));
}

#[test]
fn a_matrix_has_the_shards_that_have_work() {
    let campaign = "name: x\nselect: {organizations: [acme]}\ntask: {prompt: Fix it.}\n";
    let fleet = world(GitHub::new().repositories(40, |_| [("a", "a")]), campaign);
    let output = plan(&fleet, &["--matrix", "--shards", "4"]).expect(0);
    let all = r#"{"include":[{"shard":"1/4"},{"shard":"2/4"},{"shard":"3/4"},{"shard":"4/4"}]}"#;
    assert_eq!(output.stdout.trim_end(), all);
    let few: Value =
        serde_json::from_str(&plan(&fleet, &["--matrix", "--shards", "256"]).stdout).unwrap();
    assert!((20..=40).contains(&few["include"].as_array().unwrap().len()), "{few}");
    plan(&fleet, &["--matrix", "--shards", "257"]).expect(2);
    plan(&fleet, &["--matrix", "--shards", "0"]).expect(2);

    let empty = world(GitHub::new().repository("acme/empty", &[]), campaign);
    let output = plan(&empty, &["--matrix"]).expect(10);
    assert_eq!(output.stdout.trim_end(), r#"{"include":[]}"#);
}

/// GitHub shows pull requests of a private repository to no token without `pull-requests: read`.
#[test]
fn what_cannot_be_read_is_no_night_without_work() {
    let campaign = "name: x\nselect: {repositories: [acme/app]}\ntask: {prompt: Fix it.}\n";
    let hidden = world(GitHub::new().repository("acme/other", &[("a", "a")]), campaign);
    let output = plan(&hidden, &["--matrix"]).expect(60);
    assert_eq!(output.stdout.trim_end(), r#"{"include":[]}"#);
    assert!(output.stderr.starts_with("acme/app: skipped: "), "{}", output.stderr);
    plan(&hidden, &[]).expect(60);

    // Beside one that can be worked on, it is said and no more.
    let both = "name: x\nselect: {repositories: [acme/app, acme/other]}\ntask: {prompt: Fix it.}\n";
    fs_err::write(hidden.path("c.yml"), both).unwrap();
    let output = plan(&hidden, &["--matrix"]).expect(0);
    assert!(output.stderr.contains("acme/app: skipped: "), "{}", output.stderr);
    assert!(!output.stderr.contains("acme/other: "), "{}", output.stderr);
}

#[test]
fn nothing_selected_is_said_clearly() {
    let github = GitHub::new().organization("acme").repository("other/app", &[("a", "a")]);
    let world = world(
        github,
        "name: x\nselect: {organizations: [acme], topics: [cli]}\ntask: {prompt: Fix it.}\n",
    );
    let output = plan(&world, &["--matrix"]);
    assert_eq!(output.stdout.trim_end(), r#"{"include":[]}"#);
    expect![[r#"
        exit 10
        --- stderr
        error: campaign `x` selects no repository

        hint: check `select` in the campaign file, and that the token may see them
    "#]]
    .assert_eq(&plan(&world, &[]).text());
    fs_err::write(
        world.path("c.yml"),
        "name: x\nselect: {search: \"org:nobody\"}\ntask: {prompt: Fix it.}\n",
    )
    .unwrap();
    expect![[r#"
        exit 60
        --- stderr
        error: search by `org:nobody` was rejected: Validation Failed: The listed users and repositories cannot be searched either because the resources do not exist or you do not have permission to view them.
    "#]].assert_eq(&plan(&world, &[]).text());
    fs_err::write(world.path("c.yml"), "name: x\nselekt: {}\n").unwrap();
    let output = plan(&world, &[]).expect(2);
    assert!(output.stderr.contains("did you mean `select`?"), "{}", output.stderr);
}
