//! Deliveries that never arrived.

use patchwright_forge::Role;

use super::front::{Front, attempt};
use super::{Serving, guid, labeled, served};
use crate::support::world::{TestWorld, fix, github};

#[test]
fn what_did_not_arrive_is_fetched_and_done_once() {
    let world = served(TestWorld::new(github().user("ann", Role::Write), fix()));
    let front = Front::of(&world.github.api_url());
    let payload = labeled("acme/app", 7, "patchwright", "ann");
    let other = labeled("acme/app", 7, "bug", "ann");
    let at = "2026-11-20T11:59:30Z";
    front.seen.lock().deliveries = vec![
        // The same delivery, tried again by hand and failed again.
        (attempt(105, &guid(1), "issues", at, 503), payload.clone()),
        (attempt(104, &guid(4), "issues", at, 202), payload.clone()),
        (attempt(103, &guid(3), "star", at, 0), payload.clone()),
        (attempt(102, &guid(2), "issues", at, 502), other),
        (attempt(101, &guid(1), "issues", at, 0), payload.clone()),
        // Before anything that we would act on.
        (attempt(100, &guid(5), "issues", "2026-11-15T11:00:00Z", 0), payload.clone()),
    ];
    let world = world.set("GITHUB_API_URL", front.url());
    let server = Serving::start(&world, &["--room", "1", "--hook", "acme/app/292430182"]);
    server.until("nothing was done", || !world.github.pulls().is_empty());
    server.until_idle();
    assert_eq!(server.metric("patchwright_deliveries_caught_up_total"), 1.0);
    assert!(server.said().contains("1 missed deliveries"), "{}", server.said());
    // It arrives after all, and another process looks again.
    assert!(server.deliver(&guid(1), "issues", &payload).body.contains("came before"));
    server.stop(15);
    let server = Serving::start(&world, &["--room", "1", "--hook", "acme/app/292430182"]);
    server.deliver(&guid(1), "issues", &payload);
    server.until_idle();
    assert_eq!(server.metric("patchwright_deliveries_caught_up_total"), 0.0);
    assert_eq!((world.github.pulls().len(), world.runs().len()), (1, 1));
}

#[test]
fn a_hook_that_may_not_be_asked_about_is_said_once() {
    let world = served(TestWorld::new(github(), []));
    let server =
        Serving::start(&world, &["--no-worker", "--hook", "acme/none/1", "--catch-up", "1s"]);
    server.until("nothing was said", || server.said().contains("missed deliveries of acme/none/1"));
    std::thread::sleep(std::time::Duration::from_millis(400));
    let (_, said) = server.stop(15);
    assert_eq!(said.matches("missed deliveries of").count(), 1, "{said}");
    // GitHub's refusal of this path is what the test wants.
    world.github.take_violations();
}
