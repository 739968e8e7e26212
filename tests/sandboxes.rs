//! Real containers through the real guest: what they enforce, how they start, end and are swept.

mod boundary;
mod campaign;
mod engine;
mod engines;
mod images;
mod lifecycle;
mod network;
mod outages;
mod owners;
mod warm;

use std::collections::BTreeMap;

use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::CommandOutput;
use patchwright_sandbox::client::GuestError;
use patchwright_sandbox::{ContainerLimits, PreparedImage, Running, Sandbox, SandboxSpec};

use crate::support::docker::{IMAGE, RealDocker};

/// What tests start: small, so that many fit.
pub(crate) fn spec(run: &str, image: &str) -> SandboxSpec {
    SandboxSpec {
        image: PreparedImage {
            reference: image.to_owned(),
            description: image.to_owned(),
            ..PreparedImage::default()
        },
        run: run.to_owned(),
        purpose: "agent",
        env: BTreeMap::from([("CI".to_owned(), "true".to_owned())]),
        egress: None,
        services: Vec::new(),
        limits: ContainerLimits {
            memory_bytes: 256 << 20,
            cpus: 1.0,
            pids: 64,
            tmp_bytes: 16 << 20,
            ..ContainerLimits::default()
        },
    }
}

/// A running sandbox of the test image.
pub(crate) async fn started(docker: &RealDocker) -> Running {
    docker.sandbox.start(&spec(&docker.run, IMAGE)).await.unwrap()
}

/// Runs a shell command in the sandbox.
pub(crate) async fn try_sh(running: &Running, script: &str) -> Result<CommandOutput, GuestError> {
    let exec = Exec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: 20_000,
        output_cap: 64 << 10,
    };
    running.client.exec(exec).await
}

/// The output of a shell command in the sandbox, whatever its exit code, without the last newline.
pub(crate) async fn sh(running: &Running, script: &str) -> String {
    try_sh(running, script).await.unwrap().output.trim_end().to_owned()
}

/// The names of this run's containers and the number of its volumes: what is left of it.
pub(crate) async fn left(docker: &RealDocker) -> (Vec<String>, usize) {
    use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
    use std::collections::HashMap;

    let label = format!("patchwright.run={}", docker.run);
    let filter = HashMap::from([("label".to_owned(), vec![label])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filter).build();
    let containers = docker.engine.list_containers(Some(options)).await.unwrap();
    let names = containers.into_iter().flat_map(|one| one.names.unwrap_or_default()).collect();
    let options = ListVolumesOptionsBuilder::default().filters(&filter).build();
    let volumes = docker.engine.list_volumes(Some(options)).await.unwrap();
    (names, volumes.volumes.unwrap_or_default().len())
}

/// Nothing is left of this test's run.
pub(crate) async fn assert_nothing_left(docker: &RealDocker) {
    assert_eq!(left(docker).await, (Vec::new(), 0), "something is left of the run");
}
