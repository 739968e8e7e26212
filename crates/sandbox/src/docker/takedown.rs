//! Ends containers, and tells afterwards what they died of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::models::ContainerState;
use bollard::query_parameters::{InspectContainerOptions, RemoveContainerOptionsBuilder};
use futures_util::future::join_all;

use super::DockerSandbox;
use super::api::bounded;
use super::attach::Session;
use super::heartbeat::Heartbeat;
use super::owned::Owned;
use super::services::Services;
use crate::services::ServiceState;
use crate::{EngineTrouble, SandboxError, Stop};

/// Bound of one attempt to remove.
const REMOVE: Duration = Duration::from_mins(1);
/// Waits between attempts to remove.
const RETRIES: &[Duration] =
    &[Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];
/// Bound of the question what happened.
const ASK: Duration = Duration::from_secs(10);
/// Waits until a guest that was killed is said to have been: whoever kills or removes a container kills the guest first, and
/// the engine notes the rest a moment later.
const KILLED: &[Duration] = &[Duration::from_millis(200), Duration::from_millis(800)];

/// A container of ours that exists. Dropped before [`Container::keep`], it is removed in the
/// background: no way out of starting one leaves it behind.
pub(super) struct Container {
    docker: Docker,
    owned: Arc<Owned>,
    /// The command line of its engine.
    program: &'static str,
    pub(super) id: String,
    /// The exec in which the guest runs, once it does.
    pub(super) session: Option<Session>,
    /// What runs beside it.
    pub(super) services: Option<Services>,
    /// Shows that it is in use.
    heartbeat: Option<Arc<Heartbeat>>,
    memory_bytes: u64,
    is_kept: bool,
    /// The engine did not answer when it was asked what had ended the container.
    is_unasked: AtomicBool,
}

impl Container {
    pub(super) fn new(
        sandbox: &DockerSandbox,
        heartbeat: Arc<Heartbeat>,
        id: String,
        memory_bytes: u64,
    ) -> Container {
        Container {
            docker: sandbox.docker.clone(),
            owned: Arc::clone(&sandbox.owner.owned),
            program: if sandbox.is_podman { "podman" } else { "docker" },
            id,
            session: None,
            services: None,
            heartbeat: Some(heartbeat),
            memory_bytes,
            is_kept: false,
            is_unasked: AtomicBool::new(false),
        }
    }

    /// From now on only [`Stop::stop`] or the sweep removes it.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Removes it with its volumes, and what runs beside it. What is cut off on the way is left to a sweep.
    pub(super) async fn remove(mut self) -> Result<(), SandboxError> {
        self.keep();
        self.owned.leave(&self.id);
        if let Some(mut services) = self.services.take() {
            let containers = std::mem::take(&mut services.containers);
            let removals = containers.into_iter().map(|(_, it)| Box::pin(it.remove()));
            for removed in join_all(removals).await {
                if let Err(err) = removed {
                    tracing::warn!(%err, "cannot remove a service");
                }
            }
        }
        removed(&self.docker, &self.owned, &self.id, self.heartbeat.take()).await
    }
}

/// Removes a container of ours. The last one takes the heartbeat with it.
async fn removed(
    docker: &Docker,
    owned: &Owned,
    id: &str,
    heartbeat: Option<Arc<Heartbeat>>,
) -> Result<(), SandboxError> {
    // An engine that does not remove the one does not remove the other.
    remove_container(docker, id).await?;
    owned.gone(id);
    end(heartbeat).await;
    Ok(())
}

async fn end(heartbeat: Option<Arc<Heartbeat>>) {
    if let Some(heartbeat) = heartbeat.and_then(Arc::into_inner) {
        heartbeat.end().await;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.owned.leave(&self.id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_kept {
            return;
        }
        let (docker, owned) = (self.docker.clone(), Arc::clone(&self.owned));
        let (id, heartbeat) = (std::mem::take(&mut self.id), self.heartbeat.take());
        owned.going(&id);
        runtime.spawn(async move {
            if let Err(err) = removed(&docker, &owned, &id, heartbeat).await {
                owned.leave(&id);
                tracing::warn!(container = id, %err, "cannot remove an unfinished container");
            }
        });
    }
}

#[async_trait]
impl Stop for Container {
    async fn stop(self: Box<Self>) -> Result<(), SandboxError> {
        self.remove().await
    }

    async fn ended_services(&self) -> Vec<ServiceState> {
        match &self.services {
            Some(services) => services.ended(&self.docker).await,
            None => Vec::new(),
        }
    }

    fn by_hand(&self) -> Option<String> {
        let id = self.id.get(..12).unwrap_or(&self.id);
        Some(format!("{} rm --force --volumes {id}", self.program))
    }

    async fn exit_reason(&self) -> Option<String> {
        let mut waits = KILLED.iter();
        loop {
            if let Some(reason) = self.state_reason().await {
                return Some(reason);
            }
            let session = self.session.as_ref()?;
            let exec = bounded("inspect exec", ASK, self.docker.inspect_exec(&session.exec)).await;
            let exec = exec.ok().filter(|exec| exec.running == Some(false))?;
            match exec.exit_code {
                Some(137) => {}
                Some(code) => {
                    let words = session.last_words();
                    return Some(format!("the guest ended with exit code {code}{words}"));
                }
                None => return Some("the guest ended, and nobody knows how".to_owned()),
            }
            let Some(wait) = waits.next() else {
                let why =
                    "the guest was killed (137): a command killed everything, or memory ran out";
                return Some(why.to_owned());
            };
            tokio::time::sleep(*wait).await;
        }
    }

    /// It may answer again before anybody else asks.
    fn trouble(&self) -> Option<EngineTrouble> {
        self.is_unasked.load(Ordering::Relaxed).then_some(EngineTrouble::TookAway)
    }
}

impl Container {
    /// That it is gone, for a reason that [`Stop::exit_reason`] gave.
    pub(super) fn gone(&self, why: String) -> SandboxError {
        match self.trouble() {
            Some(_) => SandboxError::EngineBroken(why),
            None => SandboxError::Gone(why),
        }
    }

    /// Why the container does not run, or cannot be asked.
    async fn state_reason(&self) -> Option<String> {
        let inspection = self.docker.inspect_container(&self.id, None::<InspectContainerOptions>);
        match bounded("inspect", ASK, inspection).await {
            Ok(made) => self.cause_of_death(&made.state.unwrap_or_default()),
            Err(err) if err.says_stopped() => Some("the container ended".to_owned()),
            Err(err) if err.is_missing() => Some("the container was removed".to_owned()),
            Err(err) => {
                self.is_unasked.store(true, Ordering::Relaxed);
                Some(format!("Docker does not answer: {}", err.cause()))
            }
        }
    }

    /// What the container's state says; `None` when it runs.
    fn cause_of_death(&self, state: &ContainerState) -> Option<String> {
        if state.oom_killed == Some(true) {
            return Some(format!("out of memory (limit {} MiB)", self.memory_bytes >> 20));
        }
        if state.paused == Some(true) {
            return Some("the container is paused".to_owned());
        }
        if state.running == Some(true) {
            return None;
        }
        let words = self.session.as_ref().map(Session::last_words).unwrap_or_default();
        Some(match state.exit_code {
            Some(137) => "the container was killed (137)".to_owned(),
            Some(code) => format!("the container ended with exit code {code}{words}"),
            None => "the container ended".to_owned(),
        })
    }
}

/// Kills and removes a container and its anonymous volumes. One that is already gone is a success.
///
/// # Errors
/// When it is still there after all attempts, or the engine does not come to the end of one.
pub(super) async fn remove_container(docker: &Docker, id: &str) -> Result<(), SandboxError> {
    let options = || RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    let mut waits = RETRIES.iter();
    loop {
        let err =
            match bounded("remove", REMOVE, docker.remove_container(id, Some(options()))).await {
                Ok(()) => return Ok(()),
                Err(err) if err.is_missing() => return Ok(()),
                Err(err) => err,
            };
        match waits.next().filter(|_| !err.is_timeout()) {
            Some(wait) => tokio::time::sleep(*wait).await,
            None => return Err(err.into()),
        }
    }
}
