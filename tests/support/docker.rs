//! The real Docker for tests that need one, and the rule for when there is none: a failure where
//! `./test` or CI runs, one printed line elsewhere.

use std::sync::atomic::{AtomicU32, Ordering};

use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptions, RemoveContainerOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use patchwright_sandbox::docker::{DEFAULT_HOST, DockerSandbox};

/// bash, git, coreutils, python3 …; made by `.ci/images`.
pub(crate) const IMAGE: &str = "patchwright-test:1";
/// busybox and nothing else; made by `.ci/images`.
pub(crate) const BUSYBOX: &str = "patchwright-busybox:1";

/// A Docker that answers, and a run id of this test's own.
pub(crate) struct RealDocker {
    pub(crate) sandbox: DockerSandbox,
    /// The engine, for looking at what the sandbox did.
    pub(crate) engine: Docker,
    pub(crate) run: String,
}

/// The real Docker; `None` (and one line on standard error) when there is none and nobody insists.
pub(crate) async fn docker() -> Option<RealDocker> {
    match connect().await {
        Ok(docker) => Some(docker),
        Err(why) => {
            assert!(!is_required(), "this test needs Docker: {why}; `./test` starts one");
            eprintln!("docker: not available, skipped: {why}");
            None
        }
    }
}

/// The path of the engine's socket.
pub(crate) fn socket() -> String {
    let host = variable("DOCKER_HOST").unwrap_or_else(|| DEFAULT_HOST.to_owned());
    host.trim_start_matches("unix://").to_owned()
}

/// A run id that no other test has.
pub(crate) fn fresh_run() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn connect() -> Result<RealDocker, String> {
    let host = variable("DOCKER_HOST");
    let sandbox = DockerSandbox::connect(host.as_deref()).await.map_err(|err| err.to_string())?;
    let engine = Docker::connect_with_unix(&socket(), 60, API_DEFAULT_VERSION)
        .map_err(|err| err.to_string())?
        .negotiate_version()
        .await
        .map_err(|err| err.to_string())?;
    for image in [IMAGE, BUSYBOX] {
        let there = engine.inspect_image(image).await;
        there.map_err(|err| format!("`{image}` (run `.ci/images`): {err}"))?;
    }
    Ok(RealDocker { sandbox, engine, run: fresh_run() })
}

/// Whether a missing Docker is a failure.
pub(crate) fn is_required() -> bool {
    variable("PATCHWRIGHT_TEST_DOCKER").as_deref() == Some("require") || variable("CI").is_some()
}

#[expect(clippy::disallowed_methods, reason = "tests read the environment of the test run")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Makes an image of the test image and what an archive has; returns its id.
pub(crate) async fn image_with(engine: &Docker, name: &str, archive: Vec<u8>) -> String {
    let body =
        ContainerCreateBody { image: Some(IMAGE.to_owned()), ..ContainerCreateBody::default() };
    let made = engine.create_container(None::<CreateContainerOptions>, body).await.unwrap().id;
    let options = UploadToContainerOptionsBuilder::default().path("/").build();
    let content = bollard::body_full(archive.into());
    engine.upload_to_container(&made, Some(options), content).await.unwrap();
    let (repository, tag) = name.split_once(':').unwrap();
    let options =
        CommitContainerOptionsBuilder::default().container(&made).repo(repository).tag(tag).build();
    engine.commit_container(options, ContainerConfig::default()).await.unwrap();
    let options = RemoveContainerOptionsBuilder::default().force(true).build();
    engine.remove_container(&made, Some(options)).await.unwrap();
    engine.inspect_image(name).await.unwrap().id.unwrap()
}
