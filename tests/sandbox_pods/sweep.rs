//! Pods that killed processes left behind, and those that only look like it.

use std::time::Duration;

use patchwright_sandbox::Sandbox;
use patchwright_sandbox::kubernetes::HeartbeatTiming;

use super::{connected, pods};
use crate::sandboxes::{sh, spec};
use crate::support::docker::IMAGE;

#[tokio::test(flavor = "multi_thread")]
async fn pods_in_use_are_left_alone_and_silent_ones_are_removed() {
    let Some(pods) = pods().await else { return };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let other = connected(&pods.server, folders[0].path(), None).await;
    let timing =
        HeartbeatTiming { every: Duration::from_millis(500), counts: Duration::from_mins(2) };
    let beating = connected(&pods.server, folders[1].path(), None).await.with_heartbeat(timing);
    let running = beating.start(&spec(&pods.run, IMAGE)).await.unwrap();
    let first = pods.server.world().made[0]["metadata"]["annotations"]["patchwright/alive"].clone();
    pods.server.until("a sign of life", |world| {
        let now = &world.pods[&running.id]["metadata"]["annotations"]["patchwright/alive"];
        *now != first && now.is_string()
    });
    assert_eq!(other.sweep(None).await.unwrap(), Vec::<String>::new());
    assert_eq!(beating.sweep(None).await.unwrap(), Vec::<String>::new());
    assert_eq!(sh(&running, "echo x").await, "x");
    // A process that stands still, as far as others can see.
    let name = running.id.clone();
    let silence = || {
        let mut world = pods.server.world();
        let pod = world.pods.get_mut(&name).unwrap();
        pod["metadata"]["annotations"]["patchwright/alive"] = "1000".into();
    };
    silence();
    let mut removed = Vec::new();
    for _ in 0..20 {
        removed = other.sweep(None).await.unwrap();
        if !removed.is_empty() {
            break;
        }
        // It has beaten in between.
        silence();
    }
    assert_eq!(removed, std::slice::from_ref(&name));
    assert!(running.exit_reason().await.is_none_or(|why| why.contains("remove")));
    running.stop().await.unwrap();
    pods.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_one_run_are_removed_by_its_name() {
    let Some(pods) = pods().await else { return };
    let (mine, other) = (pods.start().await.unwrap(), format!("{}-other", pods.run));
    let others = pods.sandbox.start(&spec(&other, IMAGE)).await.unwrap();
    let swept = pods.sandbox.sweep(Some(&pods.run)).await.unwrap();
    assert_eq!(swept, std::slice::from_ref(&mine.id));
    assert_eq!(sh(&others, "echo x").await, "x");
    mine.stop().await.unwrap();
    others.stop().await.unwrap();
    pods.assert_nothing_left();
}
