//! Sandboxes as pods. The API server is ours (`tests/support/pods.rs`) and runs them as containers of the real Docker,
//! with the guest in them and commands over `exec`; no real cluster is asked.

mod death;
mod lifecycle;
mod refusals;
mod runs;
mod services;
mod setup;
mod sweep;

use std::sync::Arc;

use patchwright_sandbox::kubernetes::{KubernetesSandbox, PodSettings};
use patchwright_sandbox::{Running, Sandbox, SandboxError};

use crate::sandboxes::spec;
use crate::support::docker::{IMAGE, docker, fresh_run};
use crate::support::pods::PodServer;
use crate::support::world::TestWorld;

/// A cluster, and a process that makes sandboxes in it.
pub(crate) struct Pods {
    pub(crate) server: PodServer,
    pub(crate) sandbox: Arc<KubernetesSandbox>,
    pub(crate) run: String,
    pub(crate) state: tempfile::TempDir,
}

/// `None` when there is no Docker to run pods in.
pub(crate) async fn pods() -> Option<Pods> {
    docker().await?;
    let (server, state) = (PodServer::start(), tempfile::tempdir().unwrap());
    let sandbox = Arc::new(connected(&server, state.path(), None).await);
    Some(Pods { server, sandbox, run: fresh_run(), state })
}

/// A cluster for processes of their own; `None` when there is no Docker.
pub(crate) fn server() -> Option<PodServer> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(docker())?;
    Some(PodServer::start())
}

/// Has the sandboxes of a world's processes made there.
pub(crate) fn in_pods(world: TestWorld, server: &PodServer) -> TestWorld {
    world
        .set("KUBECONFIG", server.kubeconfig())
        .set("PATCHWRIGHT_SANDBOX", "kubernetes")
        .set("PATCHWRIGHT_IMAGE", IMAGE)
}

/// Another process with this state folder, and this template.
pub(crate) async fn connected(
    server: &PodServer,
    state: &std::path::Path,
    template: Option<&str>,
) -> KubernetesSandbox {
    let kubeconfig = server.kubeconfig();
    let file = state.join("template.yaml");
    if let Some(template) = template {
        fs_err::write(&file, template).unwrap();
    }
    let settings = PodSettings {
        kubeconfig: Some(&kubeconfig),
        template: template.map(|_| file.as_path()),
        state,
        own_pod: None,
        time_scale: 0.01,
    };
    KubernetesSandbox::connect(settings).await.unwrap()
}

impl Pods {
    pub(crate) async fn start(&self) -> Result<Running, SandboxError> {
        self.sandbox.start(&spec(&self.run, IMAGE)).await
    }

    /// Waits until no pod is left.
    pub(crate) fn assert_nothing_left(&self) {
        self.server.until("the end of all pods", |world| world.pods.is_empty());
    }
}
