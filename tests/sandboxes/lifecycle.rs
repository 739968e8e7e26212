//! How containers start, die, are removed and swept; and what passes over the engine's socket.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, RemoveContainerOptions,
    RemoveContainerOptionsBuilder, StartContainerOptions,
};
use patchwright_sandbox::docker::DockerSandbox;
use patchwright_sandbox::{Sandbox, SandboxError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::{assert_nothing_left, left, sh, spec, started, try_sh};
use crate::support::docker::{BUSYBOX, IMAGE, RealDocker, docker, socket};

#[tokio::test]
async fn works_in_an_image_with_nothing_but_busybox() {
    let Some(docker) = docker().await else { return };
    let running = docker.sandbox.start(&spec(&docker.run, BUSYBOX)).await.unwrap();
    assert_eq!(sh(&running, "id -u; pwd -P").await, "10000\n/pw/workspace");
    assert_eq!(running.workspace, "/pw/workspace");
    running.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn removed_container_is_named() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    docker.engine.remove_container(&running.id, Some(options)).await.unwrap();
    assert!(try_sh(&running, "true").await.is_err());
    assert_eq!(running.exit_reason().await.unwrap(), "the container was removed");
    running.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn paused_container_is_named() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    docker.engine.pause_container(&running.id).await.unwrap();
    assert_eq!(running.exit_reason().await.unwrap(), "the container is paused");
    running.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn live_sandbox_has_no_cause_of_death() {
    let Some(docker) = docker().await else { return };
    let running = started(&docker).await;
    assert_eq!(running.exit_reason().await, None);
    running.stop().await.unwrap();
}

/// Makes a container with these labels; returns its id.
async fn labelled(docker: &RealDocker, name: &str, labels: &[(&str, &str)]) -> String {
    let body = ContainerCreateBody {
        image: Some(BUSYBOX.to_owned()),
        labels: Some(labels.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    docker.engine.create_container(Some(options), body).await.unwrap().id
}

/// How an owner is written, with the parts of this process's own that are not named.
fn owner(boot: Option<&str>, namespace: Option<&str>, process: &str, host: Option<&str>) -> String {
    let read = |path: &str| fs_err::read_to_string(path).unwrap().trim().to_owned();
    let link = |path: &str| fs_err::read_link(path).ok().map(|to| to.display().to_string());
    let time = link("/proc/self/ns/time").unwrap_or_default();
    let own = format!("{}+{time}", link("/proc/self/ns/pid").unwrap());
    let boot = boot.map_or_else(|| read("/proc/sys/kernel/random/boot_id"), str::to_owned);
    let host = host.map_or_else(|| read("/proc/sys/kernel/hostname"), str::to_owned);
    format!("{boot}/{}/{process}/{host}", namespace.unwrap_or(&own))
}

/// An owner on this machine that is no longer there: no process started with the machine has this id.
fn gone_owner() -> String {
    owner(None, None, "4194304/1", None)
}

/// Removes containers that a test made with labels of nobody's.
async fn remove(docker: &RealDocker, ids: impl IntoIterator<Item = &String>) {
    for id in ids {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        docker.engine.remove_container(id, Some(options)).await.unwrap();
    }
}

/// A live run in another container of this machine, with or without the machine's host name, or on another
/// machine, looks like a dead one by its number, and is not.
#[tokio::test]
async fn runs_of_other_process_namespaces_and_hosts_are_left_alone() {
    let Some(docker) = docker().await else { return };
    let host = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut ids = Vec::new();
    for (name, owner) in [
        ("same-host-name", owner(None, Some("pid:[4026532999]"), "7/123456", None)),
        ("own-host-name", owner(None, Some("pid:[4026532999]"), "7/123456", Some("a1b2c3"))),
        ("other-machine", owner(Some("0-0-0-0"), None, "7/123456", None)),
        ("host-renamed", owner(None, None, "4194304/1", Some("vm/renamed"))),
        ("earlier-version", format!("{}/7/123456", host.trim())),
        ("odd", "nobody knows".to_owned()),
    ] {
        let labels = [
            ("patchwright.run", docker.run.as_str()),
            ("patchwright.owner", owner.as_str()),
            ("patchwright.deadline", "99999999999"),
        ];
        ids.push((name, labelled(&docker, &format!("{}-{name}", docker.run), &labels).await));
    }
    let removed = docker.sandbox.sweep(None).await.unwrap();
    for (name, id) in &ids {
        let there = docker.engine.inspect_container(id, None::<InspectContainerOptions>).await;
        assert!(there.is_ok(), "{name} was swept: {removed:?}");
    }
    remove(&docker, ids.iter().map(|(_, id)| id)).await;
    assert_nothing_left(&docker).await;
}

/// Where nobody can say whether the owner lives, the guest in the container can: it ends with its run.
#[tokio::test]
async fn a_container_with_a_guest_is_in_use_past_its_deadline() {
    let Some(docker) = docker().await else { return };
    let owner = owner(None, Some("pid:[4026532999]"), "7/123456", None);
    let labels = HashMap::from([
        ("patchwright.run".to_owned(), docker.run.clone()),
        ("patchwright.owner".to_owned(), owner),
        ("patchwright.deadline".to_owned(), "1".to_owned()),
    ]);
    let body = ContainerCreateBody {
        image: Some(BUSYBOX.to_owned()),
        cmd: Some(["sleep", "600"].map(str::to_owned).to_vec()),
        labels: Some(labels),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(&docker.run).build();
    let id = docker.engine.create_container(Some(options), body).await.unwrap().id;
    docker.engine.start_container(&id, None::<StartContainerOptions>).await.unwrap();
    // As a guest is started: it ends when its input does.
    let exec = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        cmd: Some(vec!["cat"]),
        ..CreateExecOptions::default()
    };
    let exec = docker.engine.create_exec(&id, exec).await.unwrap().id;
    let started = docker.engine.start_exec(&exec, None).await.unwrap();
    let StartExecResults::Attached { output, input } = started else { panic!("not attached") };
    docker.sandbox.sweep(None).await.unwrap();
    let there = docker.engine.inspect_container(&id, None::<InspectContainerOptions>).await;
    assert!(there.is_ok(), "a container in use was swept");
    // Its run is killed: nothing is said, the streams are closed.
    drop((input, output));
    for _ in 0..300 {
        if docker.engine.inspect_exec(&exec).await.unwrap().running == Some(false) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    docker.sandbox.sweep(None).await.unwrap();
    let there = docker.engine.inspect_container(&id, None::<InspectContainerOptions>).await;
    assert!(there.is_err(), "a container that nobody uses was left");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn sweep_removes_leftovers_and_nothing_else() {
    let Some(docker) = docker().await else { return };
    let (run, owner) = (docker.run.clone(), gone_owner());
    let name = |suffix: &str| format!("{run}-{suffix}");
    let late = [
        ("patchwright.run", run.as_str()),
        ("patchwright.owner", owner.as_str()),
        ("patchwright.deadline", "99999999999"),
    ];
    let expired = [
        ("patchwright.run", run.as_str()),
        ("patchwright.owner", "elsewhere/1/1"),
        ("patchwright.deadline", "1"),
    ];
    let elsewhere = [
        ("patchwright.run", run.as_str()),
        ("patchwright.owner", "elsewhere/1/1"),
        ("patchwright.deadline", "99999999999"),
    ];
    let foreign = [("other.run", run.as_str())];
    let half = [("patchwright.run", run.as_str())];
    let mut ids = HashMap::new();
    for (suffix, labels) in [
        ("late", &late[..]),
        ("expired", &expired),
        ("elsewhere", &elsewhere),
        ("foreign", &foreign),
        ("half", &half),
    ] {
        ids.insert(suffix, labelled(&docker, &name(suffix), labels).await);
    }
    let live = started(&docker).await;

    // Another test's sweep may have been faster; what counts is what is left.
    docker.sandbox.sweep(None).await.unwrap();
    for (suffix, id) in &ids {
        let there = docker.engine.inspect_container(id, None::<InspectContainerOptions>).await;
        let is_leftover = matches!(*suffix, "late" | "expired");
        assert_eq!(there.is_err(), is_leftover, "{suffix}");
    }
    assert_eq!(sh(&live, "echo works").await, "works");

    let removed = docker.sandbox.sweep(Some(&run)).await.unwrap();
    assert!(removed.contains(&name("elsewhere")) && removed.len() >= 2, "{removed:?}");
    assert!(try_sh(&live, "true").await.is_err());
    drop(live);
    for suffix in ["foreign", "half"] {
        let there =
            docker.engine.inspect_container(&ids[suffix], None::<InspectContainerOptions>).await;
        assert!(there.is_ok(), "{suffix} was touched");
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        docker.engine.remove_container(&ids[suffix], Some(options)).await.unwrap();
    }
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn taken_names_are_freed_only_when_they_are_leftovers_of_the_run() {
    let Some(docker) = docker().await else { return };
    let first = format!("patchwright-{}-agent", docker.run);
    let owner = gone_owner();
    let labels = [
        ("patchwright.run", docker.run.as_str()),
        ("patchwright.owner", owner.as_str()),
        ("patchwright.deadline", "99999999999"),
    ];
    let leftover = labelled(&docker, &first, &labels).await;
    let foreign = labelled(&docker, &format!("patchwright-{}-evidence", docker.run), &[]).await;
    let agent = started(&docker).await;
    let mut second = spec(&docker.run, IMAGE);
    second.purpose = "evidence";
    let evidence = docker.sandbox.start(&second).await.unwrap();
    let mut names = left(&docker).await.0;
    names.sort();
    assert_eq!(names, [format!("/{first}"), format!("/patchwright-{}-evidence-2", docker.run)]);
    assert_ne!(agent.id, leftover);
    agent.stop().await.unwrap();
    evidence.stop().await.unwrap();
    docker.engine.remove_container(&foreign, None::<RemoveContainerOptions>).await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn failed_start_leaves_nothing() {
    let Some(docker) = docker().await else { return };
    let mut spec = spec(&docker.run, IMAGE);
    // Six megabytes is what the engine allows at least; with them nothing starts.
    spec.limits.memory_bytes = 6 << 20;
    spec.limits.pids = 1;
    let err = docker.sandbox.start(&spec).await.err().unwrap();
    assert!(matches!(err, SandboxError::Gone(_) | SandboxError::Other(_)), "{err}");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn abandoned_start_leaves_nothing() {
    let Some(docker) = docker().await else { return };
    for patience in [40, 120, 240] {
        let spec = spec(&docker.run, IMAGE);
        let start = docker.sandbox.start(&spec);
        let patience = std::time::Duration::from_millis(patience);
        if let Ok(running) = tokio::time::timeout(patience, start).await {
            running.unwrap().stop().await.unwrap();
        }
    }
    // The removal runs in the background; a call that was cut off on its way is left to the sweep,
    // and the engine may still be at it.
    let mut empty = 0;
    for _ in 0..200 {
        docker.sandbox.sweep(Some(&docker.run)).await.unwrap();
        empty = if left(&docker).await.0.is_empty() { empty + 1 } else { 0 };
        if empty == 10 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    assert_nothing_left(&docker).await;
}

/// The requests that pass through a relay to the engine's socket: first line and the bytes after the
/// head, in the order in which they began.
type Requests = Arc<Mutex<Vec<Vec<u8>>>>;

/// Relays a socket of its own to the engine and records what clients send. Every request of the
/// client library has a connection of its own.
fn relay(path: &std::path::Path) -> Requests {
    let listener = UnixListener::bind(path).unwrap();
    let requests = Requests::default();
    let recorded = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let engine = UnixStream::connect(socket()).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_engine, mut to_engine) = engine.into_split();
            let slot = {
                let mut recorded = recorded.lock();
                recorded.push(Vec::new());
                recorded.len() - 1
            };
            let recorded = Arc::clone(&recorded);
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    recorded.lock()[slot].extend_from_slice(&buffer[..count]);
                    if to_engine.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
                let _ = to_engine.shutdown().await;
            });
            tokio::spawn(async move { tokio::io::copy(&mut from_engine, &mut to_client).await });
        }
    });
    requests
}

#[tokio::test]
async fn upload_is_plain_and_before_the_start() {
    let Some(docker) = docker().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    let requests = relay(&path);
    let host = format!("unix://{}", path.display());
    let sandbox = DockerSandbox::connect(Some(&host)).await.unwrap();
    let running = sandbox.start(&spec(&docker.run, IMAGE)).await.unwrap();
    sh(&running, "true").await;
    running.stop().await.unwrap();

    let requests = requests.lock();
    let mut calls = Vec::new();
    for request in requests.iter() {
        let text = String::from_utf8_lossy(request);
        let line = text.lines().next().unwrap_or_default();
        let path = line.split(['?', ' ']).nth(1).unwrap_or_default();
        let call = path.rsplit('/').next().unwrap_or_default().to_owned();
        if call == "archive" {
            let head = text.split("\r\n\r\n").next().unwrap().to_lowercase();
            assert!(head.contains("content-type: application/x-tar"), "{head}");
            assert!(!head.contains("content-encoding"), "{head}");
            let body = &request[text.find("\r\n\r\n").unwrap() + 4..];
            assert_eq!(&body[257..262], b"ustar", "the body is not a plain tar");
        }
        calls.push(call);
    }
    let place = |name: &str| calls.iter().position(|call| call == name).unwrap();
    assert!(place("create") < place("archive") && place("archive") < place("start"), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "archive").count(), 1, "{calls:?}");
}

#[tokio::test]
async fn says_when_there_is_no_docker() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("unix://{}", folder.path().join("none.sock").display());
    for (host, message) in [
        ("tcp://127.0.0.1:2375", "only sockets (`unix:///path/docker.sock`) are supported"),
        ("ssh://host", "only sockets (`unix:///path/docker.sock`) are supported"),
        (missing.as_str(), "Socket not found"),
    ] {
        let err = DockerSandbox::connect(Some(host)).await.err().unwrap();
        let SandboxError::NoDocker { host: named, message: said } = &err else { panic!("{err}") };
        assert_eq!(named, host);
        assert!(said.contains(message), "{said}");
    }
}

#[tokio::test]
async fn says_when_docker_goes_away() {
    let Some(docker) = docker().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    let _requests = relay(&path);
    let host = format!("unix://{}", path.display());
    let sandbox = DockerSandbox::connect(Some(&host)).await.unwrap();
    fs_err::remove_file(&path).unwrap();
    let err = sandbox.start(&spec(&docker.run, IMAGE)).await.err().unwrap();
    assert!(matches!(err, SandboxError::EngineBroken(_)), "{err}");
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn simultaneous_starts_of_one_run_get_names_of_their_own() {
    let Some(docker) = docker().await else { return };
    let (one, two) = tokio::join!(started(&docker), started(&docker));
    assert_ne!(one.id, two.id);
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    assert_nothing_left(&docker).await;
}

#[tokio::test]
async fn an_image_that_is_not_there_is_pulled_once_where_that_is_asked() {
    if docker().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    let requests = relay(&path);
    let host = format!("unix://{}", path.display());
    let sandbox = DockerSandbox::connect(Some(&host)).await.unwrap();
    assert!(sandbox.has(IMAGE).await.unwrap());
    // Nobody listens there.
    let missing = "127.0.0.1:9/none:1";
    assert!(!sandbox.has(missing).await.unwrap());
    let patience = std::time::Duration::from_secs(20);
    let err = sandbox.pull_once(missing, patience).await.unwrap_err();
    assert!(matches!(&err, SandboxError::NoImage { image, .. } if image == missing), "{err}");
    let requests = requests.lock();
    let is_pull = |request: &&Vec<u8>| String::from_utf8_lossy(request).contains("/images/create?");
    assert_eq!(requests.iter().filter(is_pull).count(), 1);
}
