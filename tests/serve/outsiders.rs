//! What strangers can make an operator pay for.

use patchwright_forge::Role;
use serde_json::json;

use super::{Serving, guid, served};
use crate::support::github::GitHub;
use crate::support::model::{Turn, say};
use crate::support::world::{FILES, TestWorld};

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
