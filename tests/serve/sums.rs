//! What deliveries come to, in words and in sums: what was turned away, what nobody can write to any more, reviews
//! without a finding, and runs that are not resumed.

use patchwright_forge::Role;
use serde_json::{Value, json};

use super::{Serving, guid, labeled, served};
use crate::resume_base::{replace, unpushed};
use crate::support::github::GitHub;
use crate::support::model::{fail, say};
use crate::support::world::{FILES, TestWorld, fix, github};

const RATE: &str = "aria-label=\"Success rate, at most ";

fn world(github: GitHub) -> TestWorld {
    served(TestWorld::new(github.user("ann", Role::Write), fix()))
}

#[test]
fn comments_of_strangers_are_no_failures_of_the_day() {
    let world = world(github().user("eve", Role::Read));
    let server = Serving::start(&world, &["--room", "1"]);
    let comment = world.github.post_comment(7, "eve", "@patchwright fix it");
    let event = world.github.issue_comment_event(comment).with(|it| {
        for time in ["created_at", "updated_at"] {
            it["comment"][time] = json!("2026-11-20T11:59:30Z");
        }
    });
    assert_eq!(server.deliver(&guid(1), event.name, &event.payload).status, 202);
    server.until_idle();
    server.deliver(&guid(2), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    let page = server.get("/").body;
    assert!(page.contains("refused: ") && page.contains("may not start work"), "{page}");
    assert!(page.contains(&format!("{RATE}100 %")), "{page}");
}

#[test]
fn what_an_archived_repository_is_asked_for_is_tried_once() {
    let world = world(github().with(|repository| repository.archived = true));
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until_idle();
    let page = server.get("/").body;
    assert!(!page.contains(RATE), "{page}");
    let (_, said) = server.stop(15);
    assert!(said.contains("`acme/app` is archived, so nothing can be written there"), "{said}");
    assert!(!said.contains("again in") && !said.contains("error: "), "{said}");
    assert!(world.model.requests().is_empty() && world.github.writes().is_empty(), "{said}");
}

#[test]
fn a_review_without_findings_is_told_with_its_comment() {
    let github = GitHub::new()
        .repository("acme/app", FILES)
        .user("rita", Role::Write)
        .pull(8, "Say more", "topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("rita");
    let world = served(TestWorld::new(github, vec![say("Says more.\n\nVerdict: fine")]));
    let server = Serving::start(&world, &["--room", "1"]);
    let event = world.github.pull_request_event("opened", 8, "rita");
    let event = event.with(|it| it["pull_request"]["updated_at"] = json!("2026-11-20T12:00:00Z"));
    assert_eq!(server.deliver(&guid(1), event.name, &event.payload).status, 202);
    server.until_idle();
    let comment = &world.github.comments(8)[0];
    let (_, said) = server.stop(15);
    let told = "done: no findings, http";
    let id = format!("#issuecomment-{}", comment.id);
    let line = said.lines().find(|line| line.contains(told));
    assert!(line.is_some_and(|line| line.ends_with(&id)), "{id}: {said}");
}

#[test]
fn a_run_that_is_not_resumed_is_said_and_its_cost_counts() {
    let world = world(github()).set("PATCHWRIGHT_LOG_FORMAT", "json");
    unpushed(&world, &["issue", "acme/app#7"]);
    replace(&world, "main");
    world.model.add(fix());
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    counts_both_runs(&world, server);
}

/// The second attempt resumes the run that the first one has begun in the place of another.
#[test]
fn a_run_that_was_given_up_counts_also_when_its_delivery_goes_back_into_the_queue() {
    let world = world(github()).set("PATCHWRIGHT_TIME_SCALE", "0.01");
    unpushed(&world, &["issue", "acme/app#7"]);
    replace(&world, "main");
    world.model.add(vec![fail(400, "invalid_request_error", "this request is not understood")]);
    world.model.add(fix());
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    assert!(server.said().contains("(attempt 1 of 4, again in "), "{}", server.said());
    counts_both_runs(&world, server);
}

#[test]
fn a_run_that_was_given_up_counts_also_when_a_comment_has_the_issue_done() {
    let world = world(github());
    unpushed(&world, &["issue", "acme/app#7"]);
    replace(&world, "main");
    world.model.add(fix());
    let server = Serving::start(&world, &["--room", "1"]);
    let comment = world.github.post_comment(7, "ann", "@patchwright fix");
    let event = world.github.issue_comment_event(comment).with(|it| {
        for time in ["created_at", "updated_at"] {
            it["comment"][time] = json!("2026-11-20T11:59:30Z");
        }
    });
    assert_eq!(server.deliver(&guid(1), event.name, &event.payload).status, 202);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    counts_both_runs(&world, server);
}

/// The sum has what the run that has come to its end has cost, and as much for the one that was not resumed.
#[track_caller]
fn counts_both_runs(world: &TestWorld, server: Serving) {
    let all = server.metric("patchwright_delivery_cost_usd_total");
    let (_, said) = server.stop(15);
    let journals = world.runs();
    let journals = journals.iter().map(|run| fs_err::read_to_string(run.join("journal.jsonl")));
    let ended = journals.filter_map(|journal| {
        let last: Value = serde_json::from_str(journal.unwrap().lines().last()?).ok()?;
        cost_in(&last).filter(|cost| *cost > 0.0)
    });
    let costs: Vec<f64> = ended.collect();
    let cost = costs.first().copied().unwrap_or_default();
    assert!(cost > 0.0 && costs.iter().all(|it| (it - cost).abs() < 1e-9), "{costs:?}\n{said}");
    assert!(all > 1.8 * cost && all < 2.5 * cost, "{all} {cost}\n{said}");
    assert!(said.contains("is not resumed: `main` does not have the commit"), "{said}");
}

/// The first `cost_usd` below a value.
fn cost_in(value: &Value) -> Option<f64> {
    let within = value.as_object()?;
    let below = || within.values().find_map(cost_in);
    within.get("cost_usd").and_then(Value::as_f64).or_else(below)
}
