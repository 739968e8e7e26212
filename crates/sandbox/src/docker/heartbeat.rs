//! A sign of life that everybody sees who asks the same engine, wherever they are: while a process has containers,
//! there is a volume of its owner that is never older than a few beats. By the engine's own clock, so that no two
//! machines have to agree on the time. A volume cannot be touched, so every beat makes one and removes the last.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bollard::Docker;
use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::RemoveVolumeOptions;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::CALL;
use super::api::{ApiError, bounded};
use super::owner::OWNER;

/// Seconds for which one beat counts.
pub(super) const HEARTBEAT: &str = "patchwright.heartbeat";

/// How a living process shows that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatTiming {
    /// Between two beats.
    pub every: Duration,
    /// How long one counts. Many times longer, because engines and machines can be slow.
    pub counts: Duration,
}

impl Default for HeartbeatTiming {
    fn default() -> HeartbeatTiming {
        HeartbeatTiming { every: Duration::from_mins(1), counts: Duration::from_mins(5) }
    }
}

/// Beats until it is ended or dropped. Every container of the process holds it.
pub(super) struct Heartbeat {
    docker: Docker,
    /// The volume of the last beat.
    last: Arc<Mutex<String>>,
    beating: AbortOnDropHandle<()>,
}

impl Heartbeat {
    /// The first beat is there when this returns.
    pub(super) async fn start(
        docker: &Docker,
        owner: &str,
        timing: HeartbeatTiming,
    ) -> Result<Heartbeat, ApiError> {
        let last = Arc::new(Mutex::new(beat(docker, owner, timing).await?));
        let (own, owner, shared) = (docker.clone(), owner.to_owned(), Arc::clone(&last));
        let beating = tokio::spawn(async move {
            loop {
                tokio::time::sleep(timing.every).await;
                match beat(&own, &owner, timing).await {
                    Ok(name) => {
                        let before = std::mem::replace(&mut *shared.lock(), name);
                        remove(&own, &before).await;
                    }
                    // The last one counts for a while; the guests' streams show that they are used, too.
                    Err(err) => {
                        tracing::warn!(err = err.cause(), "cannot show that this process lives");
                    }
                }
            }
        });
        Ok(Heartbeat { docker: docker.clone(), last, beating: AbortOnDropHandle::new(beating) })
    }

    /// Nothing of the process is left to protect.
    pub(super) async fn end(self) {
        let Heartbeat { docker, last, beating } = self;
        beating.abort();
        // The volume of a beat that is cut off on its way is found by the next sweep.
        let _ = beating.await;
        let last = last.lock().clone();
        remove(&docker, &last).await;
    }
}

async fn beat(docker: &Docker, owner: &str, timing: HeartbeatTiming) -> Result<String, ApiError> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let name = format!("patchwright-owner-{owner}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let labels = HashMap::from([
        (OWNER.to_owned(), owner.to_owned()),
        (HEARTBEAT.to_owned(), timing.counts.as_secs().to_string()),
    ]);
    let volume = VolumeCreateRequest {
        name: Some(name.clone()),
        labels: Some(labels),
        ..Default::default()
    };
    bounded("create volume", CALL, docker.create_volume(volume)).await?;
    Ok(name)
}

/// What stays is found by the next sweep.
async fn remove(docker: &Docker, name: &str) {
    let removal = docker.remove_volume(name, None::<RemoveVolumeOptions>);
    if let Err(err) = bounded("remove volume", CALL, removal).await
        && !err.is_missing()
    {
        tracing::debug!(volume = name, err = err.cause(), "cannot remove an old heartbeat");
    }
}
