//! Sandboxes that wait for a run: who gets which, and what becomes of the others.

use std::time::Duration;

use bollard::models::{ContainerInspectResponse, ContainerUpdateBody};
use bollard::query_parameters::{InspectContainerOptions, KillContainerOptions};
use patchwright_sandbox::docker::{DockerSandbox, WarmLimits};
use patchwright_sandbox::{Running, Sandbox, SandboxSpec};

use super::{assert_nothing_left, sh, spec};
use crate::support::docker::{BUSYBOX, RealDocker, docker, fresh_run};

const ONE: WarmLimits = WarmLimits { count: 1, age: Duration::from_mins(5), memory_bytes: 1 << 30 };

async fn inspected(docker: &RealDocker, id: &str) -> Option<ContainerInspectResponse> {
    docker.engine.inspect_container(id, None::<InspectContainerOptions>).await.ok()
}

async fn owner_of(docker: &RealDocker, running: &Running) -> String {
    let made = inspected(docker, &running.id).await.unwrap();
    made.config.unwrap().labels.unwrap()["patchwright.owner"].clone()
}

/// The ids of what waits in the process that has this sandbox.
async fn waiting(docker: &RealDocker, owner: &str) -> Vec<String> {
    use bollard::query_parameters::ListContainersOptionsBuilder;
    let labels = vec![format!("patchwright.owner={owner}")];
    let filter = std::collections::HashMap::from([("label".to_owned(), labels)]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filter).build();
    let listed = docker.engine.list_containers(Some(options)).await.unwrap();
    let is_waiting = |names: &[String]| names.iter().any(|name| name.contains("-warm-waiting"));
    let found = listed.into_iter().filter(|one| is_waiting(one.names.as_deref().unwrap_or(&[])));
    found.filter_map(|one| one.id).collect()
}

/// Until one waits, whose guest has answered.
async fn one_waits(docker: &RealDocker, owner: &str) -> String {
    for _ in 0..300 {
        if let [id] = waiting(docker, owner).await.as_slice()
            && let Some(made) = inspected(docker, id).await
            && made.exec_ids.is_some_and(|execs| !execs.is_empty())
        {
            tokio::time::sleep(Duration::from_millis(500)).await;
            return id.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("none waits: {:?}", waiting(docker, owner).await);
}

async fn warm(limits: WarmLimits) -> DockerSandbox {
    DockerSandbox::connect(None).await.unwrap().with_warm(limits)
}

fn other_run() -> SandboxSpec {
    spec(&fresh_run(), BUSYBOX)
}

#[tokio::test]
async fn the_next_run_gets_what_waits_and_nobody_gets_what_was_used() {
    let Some(docker) = docker().await else { return };
    let sandbox = warm(ONE).await;
    let first = sandbox.start(&spec(&docker.run, BUSYBOX)).await.unwrap();
    let owner = owner_of(&docker, &first).await;
    let waits = one_waits(&docker, &owner).await;
    assert_ne!(waits, first.id);
    sh(&first, "echo secret > left; echo secret > /tmp/left; echo secret > ~/left").await;

    let of_second = other_run();
    let second = sandbox.start(&of_second).await.unwrap();
    assert_eq!(second.id, waits);
    let (made, cold) = (
        inspected(&docker, &second.id).await.unwrap(),
        inspected(&docker, &first.id).await.unwrap(),
    );
    assert_eq!(made.name.unwrap(), format!("/patchwright-{}-agent", of_second.run));
    let (mut made, mut cold) = (made.host_config.unwrap(), cold.host_config.unwrap());
    // Labels of volumes name the run.
    made.mounts = None;
    cold.mounts = None;
    assert_eq!(made, cold, "a waiting one is made like any other");
    assert_eq!(sh(&second, "ls -A . /tmp ~").await, sh_of_empty());
    assert_eq!(sh(&second, "id -u; pwd -P").await, "10000\n/pw/workspace");

    first.stop().await.unwrap();
    let waits = one_waits(&docker, &owner).await;
    let third = sandbox.start(&other_run()).await.unwrap();
    assert_eq!(third.id, waits);
    second.stop().await.unwrap();
    third.stop().await.unwrap();
    sandbox.drop_warm().await;
    assert_eq!(waiting(&docker, &owner).await, Vec::<String>::new());
    assert_nothing_left(&docker).await;
}

/// The guest puts a profile into every home folder.
fn sh_of_empty() -> &'static str {
    ".:\n\n/home/agent:\n.profile\n\n/tmp:"
}

#[tokio::test]
async fn another_shape_is_not_what_waits() {
    let Some(docker) = docker().await else { return };
    let sandbox = warm(ONE).await;
    let first = sandbox.start(&spec(&docker.run, BUSYBOX)).await.unwrap();
    let owner = owner_of(&docker, &first).await;
    let waits = one_waits(&docker, &owner).await;
    let mut other = other_run();
    other.limits.pids = 65;
    let second = sandbox.start(&other).await.unwrap();
    assert_ne!(second.id, waits);
    // There is room for one, and the newest shape is asked for next.
    let now_waits = loop {
        let now = one_waits(&docker, &owner).await;
        if now != waits {
            break now;
        }
    };
    let made = inspected(&docker, &now_waits).await.unwrap();
    assert_eq!(made.host_config.unwrap().pids_limit, Some(65));
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    sandbox.drop_warm().await;
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn what_died_or_was_loosened_while_it_waited_is_not_used() {
    let Some(docker) = docker().await else { return };
    let sandbox = warm(ONE).await;
    let first = sandbox.start(&spec(&docker.run, BUSYBOX)).await.unwrap();
    let owner = owner_of(&docker, &first).await;
    first.stop().await.unwrap();

    let waits = one_waits(&docker, &owner).await;
    docker.engine.kill_container(&waits, None::<KillContainerOptions>).await.unwrap();
    let second = sandbox.start(&other_run()).await.unwrap();
    assert_ne!(second.id, waits);
    assert_eq!(sh(&second, "echo works").await, "works");
    assert!(inspected(&docker, &waits).await.is_none(), "a dead one was left");
    second.stop().await.unwrap();

    let waits = one_waits(&docker, &owner).await;
    let looser =
        ContainerUpdateBody { pids_limit: Some(100_000), ..ContainerUpdateBody::default() };
    docker.engine.update_container(&waits, looser).await.unwrap();
    let third = sandbox.start(&other_run()).await.unwrap();
    assert_ne!(third.id, waits);
    assert!(inspected(&docker, &waits).await.is_none(), "a loosened one was left");
    third.stop().await.unwrap();
    sandbox.drop_warm().await;
    assert_eq!(waiting(&docker, &owner).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_nobody_asks_for_waits_for_a_while_only() {
    let Some(docker) = docker().await else { return };
    let sandbox = warm(WarmLimits { age: Duration::from_secs(2), ..ONE }).await;
    let first = sandbox.start(&spec(&docker.run, BUSYBOX)).await.unwrap();
    let owner = owner_of(&docker, &first).await;
    one_waits(&docker, &owner).await;
    for _ in 0..100 {
        if waiting(&docker, &owner).await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(waiting(&docker, &owner).await, Vec::<String>::new());
    first.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn without_being_asked_to_nothing_is_kept_ready() {
    let Some(docker) = docker().await else { return };
    for limits in [WarmLimits { count: 0, ..ONE }, WarmLimits { memory_bytes: 1, ..ONE }] {
        let sandbox = warm(limits).await;
        let first = sandbox.start(&spec(&docker.run, BUSYBOX)).await.unwrap();
        let owner = owner_of(&docker, &first).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(waiting(&docker, &owner).await, Vec::<String>::new());
        first.stop().await.unwrap();
    }
    assert_nothing_left(&docker).await;
}
