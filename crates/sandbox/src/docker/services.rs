//! Servers beside a sandbox. They join its network namespace, which has a loopback interface and nothing
//! else: they are `localhost` for its commands, reach nothing outside, and nothing outside reaches them. A
//! network of Docker's own would have a gateway on the host and a resolver that asks the host's.
//!
//! A service that does not start is not an error: the run continues without it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HealthConfig, HealthStatusEnum, HostConfig,
    HostConfigLogConfig,
};
use bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptions, LogsOptionsBuilder, StartContainerOptions,
};
use futures_util::StreamExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::api::bounded;
use super::configuration::{self, SETUP_CAPABILITIES};
use super::disk::until_filled;
use super::pull::Image;
use super::takedown::Container;
use super::{CALL, DockerSandbox, owner, podman};
use crate::client::Client;
use crate::image::{self, NamedBy};
use crate::services::{Service, ServiceState, listening};
use crate::{ContainerLimits, SandboxError, SandboxSpec};
use patchwright_guest::protocol::Exec;

/// How long an image may take to come, and a service to be ready.
const PULL: Duration = Duration::from_mins(5);
const READY: Duration = Duration::from_mins(2);
/// Between two looks at a service that is starting.
const LOOK: Duration = Duration::from_millis(300);
/// The same where every look runs a command of its own, and there have been some.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// How long a service runs that has no port and no health check before it counts as ready.
const SETTLED: Duration = Duration::from_secs(1);
/// Between two health checks, and how long one may take, in nanoseconds.
const HEALTH_INTERVAL: i64 = 1_000_000_000;
const HEALTH_TIMEOUT: i64 = 10_000_000_000;
/// Most memory of one service.
const MEMORY: u64 = 2 << 30;
/// Lines and bytes of a log that are kept.
const LOG_LINES: &str = "30";
const LOG_BYTES: usize = 4 << 10;

/// The services of one sandbox. They are removed with it; dropped, they are no longer watched.
pub(super) struct Services {
    /// With what became of each when it was started.
    pub(super) containers: Vec<(ServiceState, Container)>,
    /// The containers that were ended because of what they had written.
    filled: Arc<Mutex<HashSet<String>>>,
    #[expect(dead_code, reason = "what is dropped watches no more")]
    watch: JoinSet<()>,
}

impl Services {
    /// Those that were ready and run no more, with the reason.
    pub(super) async fn ended(&self, docker: &Docker) -> Vec<ServiceState> {
        let mut ended = Vec::new();
        for (state, container) in self.containers.iter().filter(|(it, _)| it.problem.is_none()) {
            let id = &container.id;
            let inspection = docker.inspect_container(id, None::<InspectContainerOptions>);
            let why = match bounded("inspect", CALL, inspection).await {
                Ok(made) => is_ready(&made).err(),
                Err(err) => err.says_stopped().then(|| "it ended".to_owned()),
            };
            let is_full = self.filled.lock().contains(id);
            let full =
                || "it wrote more than `container.workspace` and was ended for it".to_owned();
            let Some(why) = why.map(|why| if is_full { full() } else { why }) else { continue };
            let problem = Some(format!("it was ready, and ended later: {why}"));
            let log = log(docker, id).await;
            ended.push(ServiceState { problem, log, ..state.clone() });
        }
        ended
    }
}

impl DockerSandbox {
    /// Starts the services of `spec` beside its sandbox, and waits until each is ready or known not to be.
    pub(super) async fn start_services(
        &self,
        spec: &SandboxSpec,
        sandbox: &mut Container,
        client: &Client,
    ) -> Vec<ServiceState> {
        if spec.services.is_empty() {
            return Vec::new();
        }
        let (id, limits) = (sandbox.id.clone(), self.limits(&spec.limits));
        let starts = spec.services.iter().map(|service| {
            let place = ServiceContext { spec, limits: &limits, network: &id, client };
            self.start_service(place, service)
        });
        let (mut states, mut containers) = (Vec::new(), Vec::new());
        for (state, container) in join_all(starts).await {
            states.push(state.clone());
            containers.extend(container.map(|container| (state, container)));
        }
        let filled = Arc::<Mutex<HashSet<String>>>::default();
        let watches = containers.iter().map(|(_, container)| {
            let (docker, id) = (self.docker.clone(), container.id.clone());
            watch(docker, id, limits.workspace_bytes, Arc::clone(&filled))
        });
        let watch = watches.collect();
        sandbox.services = Some(Services { containers, filled, watch });
        states
    }

    async fn start_service(
        &self,
        place: ServiceContext<'_>,
        service: &Service,
    ) -> (ServiceState, Option<Container>) {
        let image = match tokio::time::timeout(PULL, self.service_image(service)).await {
            Ok(Ok(image)) => image,
            Ok(Err(err)) => return (ServiceState::absent(service, err.to_string()), None),
            Err(_) => {
                let why = format!("its image took longer than {PULL:?}");
                return (ServiceState::absent(service, why), None);
            }
        };
        let mut state = ServiceState {
            name: service.name.clone(),
            // As it is called in the configuration.
            image: image.description.replacen(&image::whole(&service.image), &service.image, 1),
            ports: ports(&image),
            ..ServiceState::default()
        };
        let mut container = match Box::pin(self.run_service(&place, service, &image)).await {
            Ok(container) => container,
            Err(err) => {
                state.problem = Some(err.to_string());
                return (state, None);
            }
        };
        container.keep();
        let ready = self.until_ready(&place, &container.id, service, &image, &state.ports);
        if let Err(why) = ready.await {
            state.problem = Some(why);
            state.log = log(&self.docker, &container.id).await;
        }
        (state, Some(container))
    }

    async fn service_image(&self, service: &Service) -> Result<Image, SandboxError> {
        match service.named_by {
            NamedBy::Operator => self.present_or_pulled(&service.image).await,
            NamedBy::Repository => self.present_or_pulled(&image::whole(&service.image)).await,
            NamedBy::OneOfMany => self.given_to_anybody(&image::whole(&service.image)).await,
        }
    }

    /// Creates, checks and starts the container of a service.
    async fn run_service(
        &self,
        place: &ServiceContext<'_>,
        service: &Service,
        image: &Image,
    ) -> Result<Container, SandboxError> {
        let purpose = format!("{}-{}", place.spec.purpose, service.name);
        let mut asked = body(place, service, image)?;
        asked.labels = Some(owner::labels(&place.spec.run, &purpose, self.owner.id()));
        self.adapt(&mut asked);
        if self.is_podman {
            podman::adapt(&mut asked, place.limits, self.is_rootless);
            let memory = place.limits.memory_bytes;
            let run = &place.spec.run;
            Box::pin(self.twin_is_as_asked(run, &purpose, &asked, memory)).await?;
        }
        let heartbeat = self.owner.heartbeat(&self.docker).await?;
        let id = Box::pin(self.create(&place.spec.run, &purpose, &asked)).await?;
        // Removed when it is dropped, until it is kept.
        let container = Container::new(self, heartbeat, id, place.limits.memory_bytes);
        let inspection =
            self.docker.inspect_container(&container.id, None::<InspectContainerOptions>);
        let made = bounded("inspect", CALL, inspection).await?;
        self.as_asked(&asked, made)?;
        let start = self.docker.start_container(&container.id, None::<StartContainerOptions>);
        bounded("start", READY, start).await?;
        Ok(container)
    }

    /// Waits until a service is ready.
    async fn until_ready(
        &self,
        place: &ServiceContext<'_>,
        id: &str,
        service: &Service,
        image: &Image,
        ports: &[u16],
    ) -> Result<(), String> {
        let started = Instant::now();
        // When it was last seen to be anything else.
        let mut stopped = started;
        let mut look = LOOK;
        let test = health(service, image).test.unwrap_or_default();
        let asks = self.is_podman && test.first().is_some_and(|kind| kind != "NONE");
        loop {
            let inspection = self.docker.inspect_container(id, None::<InspectContainerOptions>);
            let made = match bounded("inspect", CALL, inspection).await {
                Ok(made) => made,
                // It says more a moment later.
                Err(err) if err.says_stopped() && stopped.elapsed() < SETTLED => {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Err(err) if err.says_stopped() => return Err("it ended".to_owned()),
                Err(err) => return Err(err.cause()),
            };
            stopped = Instant::now();
            let said = is_ready(&made)?;
            let is_ready = if asks { Some(self.is_healthy(id, &test).await) } else { said };
            if let Some(is_ready) = is_ready {
                if is_ready {
                    return Ok(());
                }
            } else if ports.is_empty() {
                if started.elapsed() >= SETTLED {
                    return Ok(());
                }
            } else if has_port(place.client, ports).await {
                return Ok(());
            }
            if started.elapsed() >= READY {
                let name = patchwright_base::text::cut(&image.description, 100);
                return Err(format!("{name} was not ready after {} s", READY.as_secs()));
            }
            tokio::time::sleep(look).await;
            if asks {
                // Podman keeps a process for five minutes of every command that has ended.
                look = (look + LOOK).min(LONGEST_LOOK);
            }
        }
    }
}

/// Where a service is started.
#[derive(Clone, Copy)]
struct ServiceContext<'a> {
    spec: &'a SandboxSpec,
    limits: &'a ContainerLimits,
    /// The container whose network it joins.
    network: &'a str,
    client: &'a Client,
}

/// What to ask Docker for: the image as it is, without privileges. Its own entry point runs as its own user,
/// which is root with a few capabilities as a rule, and writes to its own layer.
fn body(
    place: &ServiceContext<'_>,
    service: &Service,
    image: &Image,
) -> Result<ContainerCreateBody, SandboxError> {
    let memory = configuration::as_i64(place.limits.memory_bytes.min(MEMORY));
    let mut env: BTreeMap<&str, &str> = BTreeMap::new();
    let of_image = image.config.env.iter().flatten();
    env.extend(of_image.map(|variable| variable.split_once('=').unwrap_or((variable, ""))));
    env.extend(service.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let log = HashMap::from([("max-size", "1m"), ("max-file", "1"), ("compress", "false")]);
    let log = log.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(ContainerCreateBody {
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        tty: Some(false),
        user: image.config.user.clone(),
        env: Some(env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        entrypoint: image.config.entrypoint.clone(),
        cmd: image.config.cmd.clone(),
        image: Some(image.id.clone()),
        healthcheck: Some(health(service, image)),
        host_config: Some(HostConfig {
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(SETUP_CAPABILITIES.iter().map(|&name| name.to_owned()).collect()),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            network_mode: Some(format!("container:{}", place.network)),
            ipc_mode: Some("private".to_owned()),
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some(configuration::nano_cpus(place.limits)),
            pids_limit: Some(i64::from(place.limits.pids)),
            mounts: Some(configuration::image_volumes(image, place.limits, &[])?),
            ulimits: Some(configuration::ulimits()),
            shm_size: Some(configuration::SHM_BYTES),
            log_config: Some(HostConfigLogConfig {
                typ: Some("local".to_owned()),
                config: Some(log.collect()),
            }),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    })
}

/// The health check: the service's own, or the image's, often enough for somebody who waits.
fn health(service: &Service, image: &Image) -> HealthConfig {
    let of_image = || image.config.healthcheck.as_ref()?.test.clone();
    let test = match &service.health {
        Some(command) => Some(vec!["CMD-SHELL".to_owned(), command.clone()]),
        None => of_image().filter(|test| !test.is_empty()),
    };
    HealthConfig {
        test: Some(test.unwrap_or_else(|| vec!["NONE".to_owned()])),
        interval: Some(HEALTH_INTERVAL),
        timeout: Some(HEALTH_TIMEOUT),
        ..HealthConfig::default()
    }
}

/// Whether the health check of a running container says so; `None` where it has none.
///
/// # Errors
/// It does not run any more.
fn is_ready(made: &ContainerInspectResponse) -> Result<Option<bool>, String> {
    let Some(state) = &made.state else { return Ok(None) };
    if state.running != Some(true) {
        return Err(match (state.oom_killed, state.exit_code) {
            (Some(true), _) => "it ran out of memory".to_owned(),
            (_, Some(code)) => format!("it ended with exit code {code}"),
            (_, None) => "it ended".to_owned(),
        });
    }
    let status = state.health.as_ref().and_then(|health| health.status);
    Ok(match status {
        None | Some(HealthStatusEnum::EMPTY | HealthStatusEnum::NONE) => None,
        Some(status) => Some(status == HealthStatusEnum::HEALTHY),
    })
}

/// The TCP ports that an image declares.
fn ports(image: &Image) -> Vec<u16> {
    let declared = image.config.exposed_ports.iter().flatten();
    let mut ports: Vec<u16> = declared
        .filter_map(|port| port.strip_suffix("/tcp").unwrap_or(port).parse().ok())
        .collect();
    ports.sort_unstable();
    ports
}

/// Somebody listens on one of these ports in the sandbox's network. Where that is unreadable, it counts as no listener.
async fn has_port(client: &Client, ports: &[u16]) -> bool {
    let exec = Exec {
        argv: ["cat", "/proc/net/tcp", "/proc/net/tcp6"].map(str::to_owned).to_vec(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: 10_000,
        output_cap: 64 << 10,
    };
    let table = client.exec(exec).await.map(|ended| ended.output).unwrap_or_default();
    let open = listening(&table);
    ports.iter().any(|port| open.contains(port))
}

/// The end of what a container printed.
async fn log(docker: &Docker, id: &str) -> String {
    let options = LogsOptionsBuilder::default().stdout(true).stderr(true).tail(LOG_LINES).build();
    let mut lines = docker.logs(id, Some(options));
    let mut text = String::new();
    let reading = async {
        while let Some(Ok(line)) = lines.next().await {
            text.push_str(&String::from_utf8_lossy(&line.into_bytes()));
        }
    };
    // What has arrived by then is shown.
    let _ = tokio::time::timeout(CALL, reading).await;
    let start = text.ceil_char_boundary(text.len().saturating_sub(LOG_BYTES));
    text.split_off(start)
}

/// Ends a service that fills the disk.
async fn watch(docker: Docker, id: String, most: u64, filled: Arc<Mutex<HashSet<String>>>) {
    until_filled(&docker, &id, most).await;
    filled.lock().insert(id.clone());
    tracing::warn!(container = id, "a service has filled its disk and is ended");
    let kill = docker.kill_container(&id, None::<KillContainerOptions>);
    // One that is gone already needs no ending.
    let _ = bounded("kill", CALL, kill).await;
}
