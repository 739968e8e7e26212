//! Deliveries to a GitHub App, of repositories and installations that have changed since they were sent.

use serde_json::{Value, json};

use super::{Serving, guid, labeled, served};
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::world::{TestWorld, fix, github};
use patchwright_forge::Role;

/// A world in which we are an App that is installed at `acme`.
fn world(change: impl FnOnce(GitHub) -> GitHub) -> TestWorld {
    let github = change(github().user("ann", Role::Write).app("patchy").installation("acme"));
    served(TestWorld::new(github, fix())).with_app_credentials()
}

/// The label, as a hook of the App tells about it.
fn delivery(world: &TestWorld) -> Value {
    let mut payload = labeled("acme/app", 7, "patchwright", "ann");
    payload["repository"]["id"] = json!(world.github.world().repository("acme/app").id);
    payload["installation"] = json!({"id": world.github.app().installations[0].id});
    payload
}

#[test]
fn a_repository_that_was_renamed_meanwhile_is_worked_on() {
    let world = world(|github| github);
    let payload = delivery(&world);
    world.github.of("acme/app").rename("application");
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &payload);
    server.until("no pull request", || !world.github.of("acme/application").pulls().is_empty());
    server.until_idle();
    assert!(!server.said().contains("again in"), "{}", server.said());
}

#[test]
fn a_repository_that_has_taken_over_the_name_is_left_alone() {
    let world = world(|github| github);
    let payload = delivery(&world);
    world.github.of("acme/app").rename("application");
    world.github.take_over("acme/app");
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &payload);
    server.until("no pull request", || !world.github.of("acme/application").pulls().is_empty());
    server.until_idle();
    assert!(world.github.of("acme/app").pulls().is_empty());
    let asked = world.github.of("acme/app").requests();
    assert!(asked.iter().all(|asked| asked.starts_with("GET ")), "{asked:?}");
}

#[test]
fn a_former_name_at_the_command_line_leads_an_app_to_the_repository() {
    let world = world(|github| github);
    world.github.of("acme/app").rename("application");
    world.issue().expect(0);
    assert_eq!(world.github.of("acme/application").pulls().len(), 1);
}

#[test]
fn deliveries_wait_for_an_app_that_is_taken() {
    let world = world(|github| github);
    let id = world.github.app().id;
    world.github.change_app(|app| app.id = 9_999_999);
    let world = world.set("PATCHWRIGHT_TIME_SCALE", "0.001");
    let server = Serving::start(&world, &["--room", "1"]);
    // Before any delivery has come.
    let refused = || server.get("/healthz").body.contains("\"credentials\":\"refused\"");
    server.until("healthz says nothing", refused);
    assert!(server.said().contains("the GitHub App's id or private key is wrong"));
    server.deliver(&guid(1), "issues", &delivery(&world));
    server.until("it does not wait", || server.said().contains("#7 (issues): "));
    world.github.change_app(|app| app.id = id);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    let said = server.said();
    assert!(!said.contains("attempt 1 of") && !said.contains("GITHUB_TOKEN"), "{said}");
    assert!(said.contains("takes the credential of this process again"), "{said}");
}

#[test]
fn an_app_that_was_installed_anew_works_on_what_was_told_before() {
    let world = world(|github| github);
    let mut payload = delivery(&world);
    payload["installation"]["id"] = json!(1);
    let server = Serving::start(&world, &["--room", "1"]);
    server.deliver(&guid(1), "issues", &payload);
    server.until_idle();
    assert_eq!(world.github.of("acme/app").pulls().len(), 1, "{}", server.said());
    assert!(!server.said().contains("again in"), "{}", server.said());
}

#[test]
fn what_could_not_be_published_is_not_paid_for() {
    for (permission, words) in
        [("pull_requests", "`pull-requests: write`"), ("contents", "`contents: write`")]
    {
        let world = world(|github| {
            github.with_installation(|it| {
                it.permissions.insert(permission.to_owned(), "read".to_owned());
            })
        });
        let output = world.issue().expect(60);
        assert!(output.stderr.contains(words), "{}", output.text());
        assert!(world.model.requests().is_empty());
    }
}

#[test]
fn a_delivery_that_github_does_not_tell_about_keeps_no_other_waiting() {
    let world = world(|github| github);
    let hook = world.github.hook("http://127.0.0.1:9/webhook", super::SECRET);
    let event = world.github.issue_event("acme/app", 7, Some("patchwright"), "ann");
    let event = event.with(|it| it["issue"]["updated_at"] = json!("2026-11-20T11:59:00Z"));
    let at = |second: u32| format!("2026-11-20T11:58:{second:02}Z").parse().unwrap();
    let (broken, fine) = (hook.lost(&event), hook.lost(&event));
    world.github.world().delivery_mut(broken).at = at(1);
    world.github.world().delivery_mut(fine).at = at(2);
    let path: &'static str = format!("/app/hook/deliveries/{broken}").leak();
    let fault = Fault::once("GET", path, Kind::ErrorBefore(500));
    world.github.fault(fault.times(1000));
    let server = Serving::start(&world, &["--room", "1", "--catch-up", "1s"]);
    server.until("the later one is not taken", || !world.github.pulls().is_empty());
    world.github.world().faults.clear();
    let caught_up = || server.metric("patchwright_deliveries_caught_up_total") == 2.0;
    server.until("the first one is forgotten", caught_up);
    server.until_idle();
    let said = server.said();
    assert_eq!(said.matches("missed deliveries of the App's hook: ").count(), 1, "{said}");
    // Both tell of one act.
    assert_eq!(world.runs().len(), 1);
}
