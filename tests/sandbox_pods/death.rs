//! Pods that end in the middle: what they died of, in words.

use std::time::Duration;

use patchwright_sandbox::kubernetes::HeartbeatTiming;
use patchwright_sandbox::{EngineTrouble, Running, Sandbox};

use super::{Pods, connected, pods};
use crate::sandboxes::{sh, spec, try_sh};
use crate::support::docker::IMAGE;

/// Starts a sandbox, lets something happen to its pod, and asks why a command was lost.
async fn exit_reason(pods: &Pods, happens: impl FnOnce(&Running)) -> String {
    let running = pods.start().await.unwrap();
    assert_eq!(sh(&running, "echo x").await, "x");
    let client = running.client.clone();
    let lost = tokio::spawn(async move {
        let exec = crate::support::guest::sh("sleep 60");
        client.exec(exec).await
    });
    happens(&running);
    assert!(lost.await.unwrap().is_err());
    let why = running.exit_reason().await.unwrap_or_default();
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    why
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_ended_says_what_of() {
    let Some(pods) = pods().await else { return };
    let server = &pods.server;
    let memory = exit_reason(&pods, |running| server.kill_for_memory(&running.id)).await;
    assert_eq!(memory, "out of memory (limit 256 MiB)");
    let evicted = exit_reason(&pods, |running| server.evict(&running.id)).await;
    assert_eq!(
        evicted,
        "the pod was evicted (Evicted: The node was low on resource: ephemeral-storage.)"
    );
    let overdue = exit_reason(&pods, |running| server.overdue(&running.id)).await;
    assert!(overdue.contains("DeadlineExceeded"), "{overdue}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_ends_the_sandbox_with_that_reason() {
    let Some(pods) = pods().await else { return };
    let broken = exit_reason(&pods, |_| pods.server.break_streams()).await;
    assert!(broken.starts_with("the connection to the pod broke ("), "{broken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_a_command_ends_is_named() {
    let Some(pods) = pods().await else { return };
    let running = pods.start().await.unwrap();
    assert_eq!(sh(&running, "echo x").await, "x");
    #[expect(clippy::disallowed_methods, reason = "what no command of the sandbox can do")]
    let kill = std::process::Command::new("docker")
        .args(["exec", "--user", "10000", &pods.server.container(&running.id)])
        .args(["sh", "-c", "kill -9 -1"])
        .status();
    // It ends itself as well.
    drop(kill);
    assert!(try_sh(&running, "true").await.is_err());
    let why = running.exit_reason().await.unwrap();
    assert!(why.contains("137"), "{why}");
    running.stop().await.unwrap();
}

/// It would count for the quota, and nobody else removes what a living process has made.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_could_not_be_removed_is_removed_when_the_server_is_back() {
    let Some(pods) = pods().await else { return };
    let running = pods.start().await.unwrap();
    pods.server.world().is_away = true;
    let err = running.stop().await.unwrap_err();
    assert!(err.to_string().contains("cannot remove the pod"), "{err}");
    pods.server.world().is_away = false;
    pods.assert_nothing_left();
}

/// A server that is away for a while ends no sandbox by itself: its streams go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_for_a_moment_is_waited_for() {
    let Some(pods) = pods().await else { return };
    let running = pods.start().await.unwrap();
    pods.server.world().is_away = true;
    assert_eq!(sh(&running, "echo x").await, "x");
    let shared = std::sync::Arc::clone(&pods.sandbox);
    let spec = crate::sandboxes::spec(&pods.run, crate::support::docker::IMAGE);
    let second =
        tokio::spawn(async move { patchwright_sandbox::Sandbox::start(&*shared, &spec).await });
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    pods.server.world().is_away = false;
    let second = second.await.unwrap().unwrap();
    assert_eq!(sh(&second, "echo y").await, "y");
    second.stop().await.unwrap();
    running.stop().await.unwrap();
    pods.assert_nothing_left();
}

/// The server answers for a node that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_node_is_gone_does_not_keep_its_run_waiting() {
    let Some(pods) = pods().await else { return };
    let timing =
        HeartbeatTiming { every: Duration::from_millis(300), counts: Duration::from_mins(10) };
    let sandbox = connected(&pods.server, pods.state.path(), None).await.with_heartbeat(timing);
    let running = sandbox.start(&spec(&pods.run, IMAGE)).await.unwrap();
    pods.server.lose_node(&running.id);
    let lost = running.client.exec(crate::support::guest::sh("true"));
    let lost = tokio::time::timeout(Duration::from_mins(1), lost).await;
    assert!(lost.expect("it waits for a pod that is gone").is_err());
    let why = running.exit_reason().await.unwrap();
    assert!(why.contains("took the pod away (DeletionByTaintManager"), "{why}");
    assert_eq!(running.trouble(), Some(EngineTrouble::TookAway));
    running.stop().await.unwrap();
    pods.assert_nothing_left();
}

/// The file has the new one, and what was read of it before is not accepted any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_exchanged_is_read_anew() {
    let Some(pods) = pods().await else { return };
    let running = pods.start().await.unwrap();
    pods.server.rotate_token();
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    pods.server.meets(&axum::http::Method::GET, "/exec", 401, "Unauthorized", 1);
    let running = pods.start().await.unwrap();
    assert_eq!(sh(&running, "echo x").await, "x");
    running.stop().await.unwrap();
    pods.assert_nothing_left();
}
