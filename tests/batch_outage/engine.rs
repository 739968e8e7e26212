//! Docker goes away in the middle of a run, or has no room for containers.

use super::{until, worker};
use crate::batch_run::{batch, counted, fixed, shell, states, within};
use crate::support::docker;
use crate::support::engine_proxy::EngineProxy;
use crate::support::github::GitHub;
use crate::support::world::{FILES, TestWorld};

fn world(proxy: &EngineProxy, scale: &str) -> TestWorld {
    let github = GitHub::new().organization("acme").repositories(2, |_| FILES.to_vec());
    let first = [vec![shell("sleep 5")], fixed()].concat();
    let world = within(github, vec![(1, first)])
        .in_docker()
        .set("DOCKER_HOST", proxy.host.as_str())
        .set("PATCHWRIGHT_TIME_SCALE", scale);
    world.run(&["batch", "run", "campaign.yml", "--model", "gpt-5.3-codex", "--detach"]).expect(0);
    world
}

fn log(world: &TestWorld) -> String {
    fs_err::read_to_string(world.path("one.log")).unwrap_or_default()
}

#[track_caller]
fn all_are_open_after_one_attempt(world: &TestWorld) {
    let output = batch(world, &["run"]).expect(0);
    assert_eq!(states(&output), counted(&[("open", 2)]), "{}", output.text());
    let status = batch(world, &["status"]).stdout;
    for attempts in [r#""attempts":2"#, r#""attempts":3"#] {
        assert!(!status.contains(attempts), "{status}");
    }
}

#[test]
fn a_docker_that_goes_away_under_a_run_leaves_no_container_when_it_is_back() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(_docker) = runtime.block_on(docker::docker()) else { return };
    let proxy = EngineProxy::start();
    let world = world(&proxy, "0.02");
    let mut worker = worker(&world, "one");
    until("a command", || !world.model.requests().is_empty());
    proxy.end();
    until("the notice", || log(&world).contains("no run is begun here until it does"));
    proxy.work();
    assert!(worker.wait().unwrap().success(), "{}", log(&world));
    assert!(log(&world).contains("Docker answers again"), "{}", log(&world));
    // The lock of an owner stays as long as something of it does.
    let owners = fs_err::read_dir(world.path("state/owners")).map_or(0, Iterator::count);
    assert_eq!(owners, 0, "a container was left: {}", log(&world));
    all_are_open_after_one_attempt(&world);
}

#[test]
fn a_full_disk_of_docker_costs_no_repository_an_attempt() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(_docker) = runtime.block_on(docker::docker()) else { return };
    let proxy = EngineProxy::start();
    let world = world(&proxy, "0.02");
    proxy.fill();
    let mut worker = worker(&world, "one");
    // More than one repository has attempts, and then some.
    until("the failures", || {
        log(&world).matches("no space left on the disk of Docker").count() > 6
    });
    assert!(
        log(&world).contains("one at a time until there are sandboxes again"),
        "{}",
        log(&world)
    );
    assert!(world.model.requests().is_empty(), "nothing was paid for");
    proxy.work();
    assert!(worker.wait().unwrap().success(), "{}", log(&world));
    assert!(log(&world).contains("there are sandboxes again"), "{}", log(&world));
    all_are_open_after_one_attempt(&world);
}
