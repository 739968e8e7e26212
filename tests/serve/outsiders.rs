//! What strangers can make an operator pay for.

use patchwright_forge::Role;
use serde_json::json;

use super::{Serving, guid, served};
use crate::support::github::GitHub;
use crate::support::model::{Turn, say, stall};
use crate::support::world::{FILES, TestWorld};
use crate::triage::good;

const PULL: u64 = 8;

fn world(reviews: usize) -> TestWorld {
    let github = GitHub::new()
        .repository("acme/app", FILES)
        .user("ann", Role::Write)
        .user("mallory", Role::Read)
        .fork("mallory/app")
        .pull(PULL, "Say more", "mallory:topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("mallory");
    let turns: Vec<Turn> = vec![say("Says more.\n\nVerdict: fine"); reviews];
    served(TestWorld::new(github, turns))
}

fn configured(world: TestWorld, config: &str) -> TestWorld {
    let path = world.path("config.yml");
    fs_err::write(&path, config).unwrap();
    world.set("PATCHWRIGHT_CONFIG", path.display().to_string())
}

/// Pushes to the pull request, and delivers the event of it.
fn push(world: &TestWorld, server: &Serving<'_>, number: u32) {
    let before = world.github.pulls()[0].head_sha.clone();
    let text = format!("# calc\n\nIt adds {number}.\n");
    world.github.push_to_pull(PULL, &[("README.md", &text)]);
    let event = world.github.synchronize_event(PULL, &before, "mallory");
    let event = event.with(|it| it["pull_request"]["updated_at"] = json!("2026-11-20T12:00:00Z"));
    assert_eq!(server.deliver(&guid(number), event.name, &event.payload).status, 202);
}

#[test]
fn heads_that_were_pushed_over_are_not_paid_for() {
    let world = world(1);
    let server = Serving::start(&world, &["--no-worker"]);
    for number in 1..=6 {
        push(&world, &server, number);
    }
    server.stop(15);
    let server = Serving::start(&world, &["--room", "1"]);
    server.until_idle();
    assert_eq!((world.model.requests().len(), world.model.unused()), (1, 0));
    let (_, said) = server.stop(15);
    assert_eq!(said.matches("is no longer the newest commit").count(), 5, "{said}");
}

#[test]
fn a_strangers_pushes_cost_no_more_than_the_operator_says_and_that_is_said_once() {
    for (cap, wanted) in [("per-pull-request", 2), ("per-author", 1), ("per-day", 0)] {
        let world = configured(world(wanted), &format!("review:\n  {cap}: {wanted}\n"));
        let server = Serving::start(&world, &["--room", "1"]);
        for number in 1..=4 {
            push(&world, &server, number);
            server.until_idle();
        }
        assert_eq!((world.model.requests().len(), world.model.unused()), (wanted, 0), "{cap}");
        let comments = world.github.comments(PULL);
        let said = comments.iter().filter(|it| it.body.contains("are not reviewed for now"));
        assert_eq!(said.count(), 1, "{cap}: {comments:?}");
        assert!(server.get("/").body.contains(&format!("`review.{cap}` is reached")), "{cap}");
        server.stop(15);
    }
}

#[test]
fn what_a_delivery_said_is_forgotten_when_it_is_worked_off() {
    let world = world(1);
    let server = Serving::start(&world, &["--room", "1"]);
    push(&world, &server, 1);
    server.until_idle();
    server.stop(15);
    let url = format!("sqlite://{}", world.path("state/fleet.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body: String = runtime.block_on(async {
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        sqlx::query_scalar("SELECT body FROM deliveries").fetch_one(&pool).await.unwrap()
    });
    assert_eq!(body, "");
}

/// An issue of a stranger, and one of a maintainer.
const ISSUE: u64 = 3;
const OURS: u64 = 4;

fn tracker(turns: Vec<Turn>, limits: &str) -> TestWorld {
    let github = GitHub::new()
        .repository("acme/app", FILES)
        .user("ann", Role::Write)
        .user("mallory", Role::Read)
        .issue("acme/app", ISSUE, "It crashes", "It crashes.")
        .by("mallory")
        .issue("acme/app", OURS, "It crashes, too", "It does.")
        .by("ann")
        .fork("mallory/app")
        .pull(PULL, "Say more", "mallory:topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("mallory");
    configured(
        served(TestWorld::new(github, turns)),
        &format!("triage: {{enabled: true}}\nreview: {{{limits}}}\n"),
    )
}

fn triaged() -> Turn {
    let mut answer = good();
    answer["duplicates"] = json!([]);
    say(answer.to_string())
}

/// Changes what an issue says.
fn change(world: &TestWorld, issue: u64, body: &str) {
    world.github.change(|repository| {
        let issue = repository.issues.get_mut(&issue).unwrap();
        issue.body = Some(body.to_owned());
        issue.updated += 60;
    });
}

/// Delivers that an issue was edited.
fn deliver(server: &Serving<'_>, issue: u64, author: &str, number: u32) {
    let payload = json!({
        "action": "edited",
        "issue": {
            "number": issue, "title": "x", "body": "y", "state": "open", "locked": false,
            "updated_at": format!("2026-11-20T11:59:{number:02}Z"),
            "user": {"login": author, "type": "User"},
        },
        "repository": {"full_name": "acme/app"},
        "sender": {"login": author, "type": "User"},
    });
    assert_eq!(server.deliver(&guid(number), "issues", &payload).status, 202);
}

/// Edits an issue, and waits for what comes of it.
fn edit(world: &TestWorld, server: &Serving<'_>, issue: u64, author: &str, number: u32) {
    change(world, issue, &format!("It crashes in {number} ways."));
    deliver(server, issue, author, number);
    server.until_idle();
}

#[test]
fn triages_of_a_strangers_issues_cost_no_more_than_reviews_may() {
    for (cap, wanted) in [("per-pull-request", 2), ("per-author", 1), ("per-day", 0)] {
        let world = tracker(vec![triaged(); wanted], &format!("{cap}: {wanted}"));
        let server = Serving::start(&world, &["--room", "1"]);
        for number in 1..=4 {
            edit(&world, &server, ISSUE, "mallory", number);
        }
        let asked = (world.model.requests().len(), world.model.unused());
        assert_eq!(asked, (wanted, 0), "{cap}: {}", server.said());
        let said = format!("`review.{cap}` is reached for 24 hours, in which triages count too");
        assert!(server.get("/").body.contains(&said), "{cap}");
        // Nothing is said on the issue: whoever floods it would have us write.
        assert_eq!(world.github.comments(ISSUE).len(), wanted.min(1), "{cap}");
        server.stop(15);
    }
}

#[test]
fn reviews_and_triages_share_what_strangers_may_cost_and_maintainers_are_not_counted() {
    let review = say("Says more.\n\nVerdict: fine");
    let world = tracker(vec![triaged(), review, triaged(), triaged()], "per-author: 2");
    let server = Serving::start(&world, &["--room", "1"]);
    edit(&world, &server, ISSUE, "mallory", 1);
    push(&world, &server, 2);
    server.until_idle();
    edit(&world, &server, ISSUE, "mallory", 3);
    push(&world, &server, 4);
    server.until_idle();
    assert_eq!(world.model.requests().len(), 2, "{}", server.said());
    for number in 5..=6 {
        edit(&world, &server, OURS, "ann", number);
    }
    assert_eq!((world.model.requests().len(), world.model.unused()), (4, 0), "{}", server.said());
    server.stop(15);
}

#[test]
fn a_triage_that_is_cut_off_is_counted_once_though_the_issue_has_changed_since() {
    let world = tracker(vec![stall()], "per-author: 1");
    let server = Serving::start(&world, &["--room", "1", "--lease", "8s"]);
    deliver(&server, ISSUE, "mallory", 1);
    server.until("the model is not asked", || !world.model.requests().is_empty());
    server.stop(9);
    // As it is when we have set a label, or somebody has said something.
    change(&world, ISSUE, "It crashes.");
    world.model.replace([triaged()]);
    let server = Serving::start(&world, &["--room", "1", "--lease", "8s"]);
    server.until("nothing was said", || !world.github.comments(ISSUE).is_empty());
    server.until_idle();
    assert!(!server.get("/").body.contains("is reached"), "{}", server.said());
    server.stop(15);
}
