//! The Docker sandbox: one locked container per run, with one guest in it.
//!
//! [`DockerSandbox`] is what `World` holds. The container's shape is [`configuration`], what Docker
//! made of it is checked by [`hardening`] and [`seccomp`]; [`podman`] has what differs there, and [`inside`] what
//! is seen from within; [`attach`] speaks to the guest, [`takedown`] removes, and
//! [`owner`] and [`heartbeat`] tell others that they are in use, and [`sweep`] removes what nobody uses. Images are made ready by [`pull`] and [`setup`]; servers beside
//! a sandbox are [`services`], with a [`twin`] where that is needed; [`warm`] keeps some ready.
//! Nothing here runs the `docker` command line, mounts a folder of the host, or passes the socket on.

mod api;
mod attach;
mod bring_up;
mod configuration;
mod disk;
mod hardening;
mod heartbeat;
mod inside;
pub(crate) mod owned;
pub(crate) mod owner;
mod podman;
mod pull;
mod seccomp;
mod services;
mod setup;
mod setup_cache;
mod signs;
mod sweep;
mod takedown;
mod twin;
mod warm;

use parking_lot::Mutex;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::models::SystemInfo;
use bollard::{API_DEFAULT_VERSION, Docker};

use self::api::bounded;
pub(crate) use self::configuration::SETUP_CAPABILITIES;
use self::configuration::{Shape, Task};
pub use self::heartbeat::HeartbeatTiming;
use self::owner::Owner;
pub use self::seccomp::Seccomp;
use self::warm::Pool;
pub use self::warm::WarmLimits;
use super::image::NamedBy;
use super::{
    ContainerLimits, ImageSpec, PreparedImage, Running, Sandbox, SandboxError, SandboxSpec, image,
};

/// Where Docker listens when `DOCKER_HOST` says nothing.
pub const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// The anonymous volume of every container: guest and workspace. Docker extracts archives into a
/// container with a read-only root only below a volume, and cannot give the volume's own root to
/// another user; so the workspace is a folder in it, and one upload brings both.
pub const VOLUME: &str = "/pw";
/// The guest in the container; root's, so that nothing in the container can replace it.
pub const GUEST: &str = "/pw/patchwright-guest";
/// The workspace in the container.
pub const WORKSPACE: &str = "/pw/workspace";
/// The home folder in the container: a bounded tmpfs.
pub const HOME: &str = "/home/agent";
/// User and group of everything that runs in the container.
pub const USER: u32 = 10_000;

/// The security option of engines whose root is nobody outside.
const ROOTLESS: &str = "name=rootless";

/// Bound of one ordinary API call.
const CALL: Duration = Duration::from_mins(1);

/// Docker through its socket. Clones share everything.
#[derive(Clone)]
pub struct DockerSandbox {
    docker: Docker,
    host: String,
    owner: Arc<Owner>,
    /// Processors of the engine's machine; Docker refuses to promise more.
    processors: f64,
    seccomp: Seccomp,
    is_podman: bool,
    /// As far as that can be told.
    is_rootless: bool,
    /// The state folder, where those of this machine lock what only one of them should do.
    state: Option<PathBuf>,
    /// Limits that it does not enforce.
    unbounded: Vec<&'static str>,
    /// Names of images that their registries give to anybody, as far as that was asked.
    public: Arc<Mutex<HashSet<String>>>,
    /// Sandboxes that wait for runs, where that is wanted.
    pool: Option<Arc<Pool>>,
}

/// What answers at the socket, for `doctor` and the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// `docker` or `podman`.
    pub name: &'static str,
    pub version: String,
    pub api_version: String,
    /// `1` or `2`.
    pub cgroup_version: String,
    /// As the engine lists them: `name=seccomp,profile=default`, `name=rootless`, …
    pub security: Vec<String>,
    /// The storage driver: `overlay2`, `vfs`, …
    pub storage: String,
    /// Limits that this engine's kernel does not enforce, of those that every container has.
    pub unbounded: Vec<&'static str>,
    /// What the engine itself warns of.
    pub warnings: Vec<String>,
}

impl DockerSandbox {
    /// Connects to `host` (the value of `DOCKER_HOST`), or to [`DEFAULT_HOST`], and agrees on an API
    /// version. Only `unix://` sockets are supported: the others need TLS or ssh code that this
    /// binary leaves out.
    ///
    /// # Errors
    /// [`SandboxError::NoDocker`] with the host and what it said.
    pub async fn connect(host: Option<&str>) -> Result<DockerSandbox, SandboxError> {
        let host = host.filter(|host| !host.is_empty()).unwrap_or(DEFAULT_HOST).to_owned();
        let no_docker = |message: String| SandboxError::NoDocker { host: host.clone(), message };
        let Some(socket) = host.strip_prefix("unix://") else {
            return Err(no_docker(
                "only sockets (`unix:///path/docker.sock`) are supported".to_owned(),
            ));
        };
        let docker = Docker::connect_with_unix(socket, 24 * 3600, API_DEFAULT_VERSION)
            .map_err(|err| no_docker(err.to_string()))?;
        let docker = bounded("version", Duration::from_secs(15), docker.negotiate_version())
            .await
            .map_err(|err| no_docker(err.cause()))?;
        let info =
            bounded("info", CALL, docker.info()).await.map_err(|err| no_docker(err.cause()))?;
        let processors =
            info.ncpu.and_then(|count| i32::try_from(count).ok()).map_or(1.0, f64::from);
        let version = bounded("version", CALL, docker.version()).await;
        let parts = version.map_err(|err| no_docker(err.cause()))?.components.unwrap_or_default();
        let is_podman = parts.iter().any(|part| part.name.starts_with("Podman"));
        let is_rootless = is_rootless(&info, is_podman.then_some(socket));
        let unbounded = unbounded(&info, is_podman, is_rootless);
        let seccomp = Seccomp::of(&info.security_options.unwrap_or_default());
        let (owner, public) = (Arc::new(Owner::new(HeartbeatTiming::default())), Arc::default());
        Ok(DockerSandbox {
            docker,
            host,
            owner,
            processors,
            seccomp,
            is_podman,
            is_rootless,
            state: None,
            unbounded,
            public,
            pool: None,
        })
    }

    /// Holds a lock in the state folder while it has containers, so that the next process with this folder knows
    /// at once when this one was killed.
    #[must_use]
    pub fn in_state(self, state: &Path) -> DockerSandbox {
        let owner = Arc::new(self.owner.in_state(state));
        DockerSandbox { owner, state: Some(state.to_owned()), ..self }
    }

    /// Shows in another rhythm that this process lives.
    #[must_use]
    pub fn with_heartbeat(self, timing: HeartbeatTiming) -> DockerSandbox {
        DockerSandbox { owner: Arc::new(self.owner.with_heartbeat(timing)), ..self }
    }

    /// Keeps so many sandboxes ready.
    #[must_use]
    pub fn with_warm(self, limits: WarmLimits) -> DockerSandbox {
        DockerSandbox { pool: Some(Arc::new(Pool::new(limits))), ..self }
    }

    /// The address in use.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The limits as far as this machine can give them.
    fn limits(&self, asked: &ContainerLimits) -> ContainerLimits {
        ContainerLimits { cpus: asked.cpus.min(self.processors), ..asked.clone() }
    }

    /// Asks the engine about itself.
    pub async fn engine(&self) -> Result<Engine, SandboxError> {
        let info = bounded("info", CALL, self.docker.info()).await?;
        let unbounded = unbounded(&info, self.is_podman, self.is_rootless);
        let mut security = info.security_options.unwrap_or_default();
        // Not every Podman says it.
        if self.is_rootless && !security.iter().any(|option| option == ROOTLESS) {
            security.push(ROOTLESS.to_owned());
        }
        Ok(Engine {
            name: if self.is_podman { "podman" } else { "docker" },
            unbounded,
            storage: info.driver.unwrap_or_default(),
            version: info.server_version.unwrap_or_default(),
            api_version: self.docker.client_version().to_string(),
            cgroup_version: info
                .cgroup_version
                .map(|version| version.to_string())
                .unwrap_or_default(),
            security,
            warnings: info.warnings.unwrap_or_default(),
        })
    }
}

/// Whether the engine says that its root is nobody outside, or the socket of a Podman is not root's: not all of them
/// say it.
fn is_rootless(info: &SystemInfo, podman: Option<&str>) -> bool {
    let is_said = info.security_options.iter().flatten().any(|it| it == ROOTLESS);
    let is_roots = |socket| fs_err::metadata(socket).is_ok_and(|socket| socket.uid() == 0);
    is_said || podman.is_some_and(|socket| !is_roots(socket))
}

/// Limits that an engine does not enforce, of those that every container has. A rootless Docker takes and repeats limits
/// that it has no control groups for, and says so here. Podman looks for files of version 1: on version 2 it says that
/// it has none of most limits, and without root it ignores them all on version 1 and does not say so. The limits of
/// its containers are checked inside each of them.
fn unbounded(info: &SystemInfo, is_podman: bool, is_rootless: bool) -> Vec<&'static str> {
    let version = info.cgroup_version.map(|version| version.to_string()).unwrap_or_default();
    match version.as_str() {
        "2" if is_podman => return Vec::new(),
        "1" if is_podman && is_rootless => return vec!["memory", "swap", "cpus", "processes"],
        _ => {}
    }
    let limits = [
        ("memory", info.memory_limit),
        ("swap", info.swap_limit),
        ("cpus", info.cpu_cfs_quota),
        ("processes", info.pids_limit),
    ];
    limits.into_iter().filter(|(_, has)| *has == Some(false)).map(|(what, _)| what).collect()
}

#[async_trait]
impl Sandbox for DockerSandbox {
    fn name(&self) -> &'static str {
        "docker"
    }

    async fn prepare(&self, spec: &ImageSpec<'_>) -> Result<PreparedImage, SandboxError> {
        if let Some(known) = self.begun_with(spec).await? {
            return Ok(known);
        }
        let name = image::choose(spec.image, spec.root_files)?;
        let base = match spec.named_by {
            NamedBy::Operator => self.present_or_pulled(&name).await?,
            // By its whole name, which no id can be mistaken for.
            NamedBy::Repository => self.present_or_pulled(&image::whole(&name)).await?,
            NamedBy::OneOfMany => self.given_to_anybody(&image::whole(&name)).await?,
        };
        if base.is_setup_result() {
            let message = "it is what setup left for one repository, and no image to choose";
            return Err(SandboxError::NoImage { image: name, message: message.to_owned() });
        }
        if spec.setup.is_empty() {
            let (reference, description) = (base.id, base.description);
            return Ok(PreparedImage { reference, description, ..PreparedImage::default() });
        }
        Box::pin(self.with_setup(&base, spec)).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Running, SandboxError> {
        let image = self.image(&spec.image.reference).await?;
        let limits = self.limits(&spec.limits);
        let shape = Shape {
            image: &image,
            run: &spec.run,
            purpose: spec.purpose,
            env: &spec.env,
            prepared: Some(&spec.image),
            limits: &limits,
            task: Task::Work,
            egress: spec.egress.as_ref(),
            services: &spec.services,
            owner: self.owner.id(),
        };
        let order = self.order(&shape)?;
        let (mut container, client) = match self.take_warm(&order).await {
            Some(waiting) => waiting,
            None => Box::pin(self.bring_up(&order)).await?,
        };
        self.leave_warm(&order);
        if let Some(egress) = shape.egress {
            egress.relay(&client);
        }
        let services = self.start_services(spec, &mut container, &client).await;
        let mut enforced = configuration::enforced(&shape, &self.seccomp);
        enforced.extend(spec.egress.as_ref().map(|egress| egress.report()));
        Ok(Running {
            client,
            id: container.id.clone(),
            workspace: WORKSPACE.to_owned(),
            services,
            enforced,
            stopper: Box::new(container),
        })
    }

    async fn sweep(&self, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
        Box::pin(sweep::sweep(&self.docker, &self.owner, run)).await
    }

    async fn drop_warm(&self) {
        self.remove_warm().await;
    }

    async fn settled(&self) {
        self.owner.owned.settled().await;
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::SystemInfoCgroupVersionEnum::{_1, _2};

    use crate::docker::*;

    #[test]
    fn what_podman_says_of_limits_counts_only_for_control_groups_of_version_1() {
        let all = vec!["memory", "swap", "cpus", "processes"];
        for (version, is_podman, is_rootless, expected) in [
            (_2, false, false, vec!["swap", "cpus"]),
            (_1, false, true, vec!["swap", "cpus"]),
            (_1, true, false, vec!["swap", "cpus"]),
            (_1, true, true, all),
            (_2, true, false, Vec::new()),
            (_2, true, true, Vec::new()),
        ] {
            // As Podman 5.4 with crun answers on Debian 13.
            let info = SystemInfo {
                memory_limit: Some(true),
                swap_limit: Some(false),
                cpu_cfs_quota: Some(false),
                pids_limit: Some(true),
                cgroup_version: Some(version),
                ..SystemInfo::default()
            };
            let found = unbounded(&info, is_podman, is_rootless);
            assert_eq!(found, expected, "{version} {is_podman} {is_rootless}");
        }
    }
}
