//! Deliveries whose workers are killed in every attempt.

use patchwright_forge::Role;

use super::{Serving, guid, labeled, served};
use crate::batch_run::shell;
use crate::support::model::ModelServer;
use crate::support::world::{TestWorld, github};

/// How often this is in the journal of its run.
fn journal_has(world: &TestWorld, what: &str) -> usize {
    let journal = fs_err::read_to_string(world.runs()[0].join("journal.jsonl")).unwrap();
    journal.matches(what).count()
}

#[test]
fn a_delivery_whose_workers_are_killed_is_said_to_be_given_up() {
    let model = ModelServer::conversations(|_| vec![shell("sleep 60"); 6]);
    let world = served(TestWorld::asking(github().user("ann", Role::Write), model))
        .set("PATCHWRIGHT_TIME_SCALE", "0.05");
    for attempt in 1..=4 {
        let server = Serving::start(&world, &["--room", "1"]);
        if attempt == 1 {
            server.deliver(&guid(1), "issues", &labeled("acme/app", 7, "patchwright", "ann"));
        }
        server.until("no turn", || match attempt {
            1 => {
                !world.model.requests().is_empty() && journal_has(&world, r#""is":"replied""#) == 1
            }
            _ => journal_has(&world, r#""text":"resumed""#) == attempt - 1,
        });
        server.stop(9);
    }
    let body = || world.github.comments(7)[0].body.clone();
    assert!(body().contains("is working on this"), "{}", body());
    let server = Serving::start(&world, &["--room", "1"]);
    let lost = "patchwright_delivery_runs_total{conclusion=\"lost\"}";
    server.until("it is not counted", || server.metric(lost) >= 1.0);
    let said = server.said();
    let line =
        "acme/app#7 (issues): given up: its worker was lost 4 times; redeliver it to try again";
    assert_eq!(said.matches(line).count(), 1, "{said}");
    assert!(server.metric("patchwright_delivery_cost_usd_total") > 0.0);
    let body = body();
    assert!(!body.contains("is working on this"), "{body}");
    assert!(body.contains("its worker was lost 4 times"), "{body}");
    // Nobody counts it again.
    server.stop(15);
    let server = Serving::start(&world, &["--room", "1"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(server.metric(lost), 0.0, "{}", server.said());
    assert!(!server.said().contains("given up"), "{}", server.said());
}
