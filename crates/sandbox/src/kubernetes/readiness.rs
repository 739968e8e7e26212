//! Waits until the services beside a sandbox are ready, or known not to be. The rules are Docker's, as far as a cluster
//! tells what they need: it says nothing of the health check and of the ports that an image declares. So ports are those
//! that the configuration says, or that a process of the container is seen to listen on.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::KubernetesSandbox;
use super::exec;
use super::pod::{ContainerPhase, PodTrouble, TroubleKind};
use super::services::container_name;
use super::takedown;
use crate::services::{Service, ServiceState, listeners};

/// How long an image may take to come, and a service to be ready.
const PULL: Duration = Duration::from_mins(5);
const READY: Duration = Duration::from_mins(2);
/// Between two looks at a service that is starting, and between two health checks.
const LOOK: Duration = Duration::from_millis(300);
const HEALTH: Duration = Duration::from_secs(1);
/// How long one health check may take, and one look at its sockets.
const HEALTH_TIME: Duration = Duration::from_secs(10);
/// Bytes of such a look.
const SOCKETS: u64 = 256 << 10;
/// Lines and bytes of a log that are kept.
const LOG_LINES: u32 = 30;
const LOG_BYTES: usize = 4 << 10;
/// Who listens in the network of the pod, and which sockets are open in the container.
const LISTENERS: &str = "cat /proc/net/tcp /proc/net/tcp6; ls -l /proc/[0-9]*/fd";

impl KubernetesSandbox {
    /// What becomes of the services beside a sandbox.
    pub(super) async fn ready_services(
        &self,
        pod: &str,
        services: &[Service],
    ) -> Vec<ServiceState> {
        join_all(services.iter().map(|service| async {
            // What others say is theirs is nobody else's.
            let others = services.iter().filter(|other| other.name != service.name);
            let others: Vec<u16> = others.flat_map(|other| other.ports.clone()).collect();
            let mut state = ServiceState {
                name: service.name.clone(),
                image: service.image.clone(),
                ports: service.ports.clone(),
                ..ServiceState::default()
            };
            if let Err(why) = self.until_ready(pod, service, &others, &mut state).await {
                state.problem = Some(why);
                state.log = self.log(pod, service).await;
            }
            state
        }))
        .await
    }

    async fn until_ready(
        &self,
        pod: &str,
        service: &Service,
        others: &[u16],
        state: &mut ServiceState,
    ) -> Result<(), String> {
        let name = container_name(service);
        let began = Instant::now();
        let (mut running, mut troubled): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            let found = takedown::read(&self.cluster, pod).await;
            let found = found.map_err(|err| err.to_string())?.ok_or("its pod is gone")?;
            match found.standing(&name) {
                ContainerPhase::Running => {
                    let since = *running.get_or_insert_with(Instant::now);
                    if let Some(id) = found.image_id(&name) {
                        state.image = described(&service.image, id);
                    }
                    if self.is_ready(pod, service, others, &mut state.ports).await {
                        return Ok(());
                    }
                    if since.elapsed() >= READY {
                        return Err(format!("it was not ready after {} s", READY.as_secs()));
                    }
                }
                ContainerPhase::Ended { out_of_memory: true, .. } => {
                    return Err("it ran out of memory".to_owned());
                }
                ContainerPhase::Ended { not_started: Some(why), .. } => {
                    return Err(format!("its command cannot be started ({why})"));
                }
                ContainerPhase::Ended { code, .. } => {
                    return Err(format!("it ended with exit code {code}"));
                }
                ContainerPhase::Waiting(Some(trouble)) => {
                    let since = *troubled.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.patience(&trouble) {
                        return Err(trouble.why);
                    }
                }
                ContainerPhase::Waiting(None) => {
                    troubled = None;
                    if began.elapsed() >= PULL {
                        return Err(format!("its image took longer than {PULL:?}"));
                    }
                }
            }
            tokio::time::sleep(if service.health.is_some() { HEALTH } else { LOOK }).await;
        }
    }

    fn patience(&self, trouble: &PodTrouble) -> Duration {
        match trouble.kind {
            TroubleKind::Unschedulable
            | TroubleKind::Image
            | TroubleKind::Node
            | TroubleKind::Silent => self.waits.image,
            TroubleKind::Configuration => self.waits.configuration,
        }
    }

    /// Its health command says so; without one, a port of its own is open.
    async fn is_ready(
        &self,
        pod: &str,
        service: &Service,
        others: &[u16],
        ports: &mut Vec<u16>,
    ) -> bool {
        let name = container_name(service);
        let place = (pod, name.as_str());
        if let Some(health) = &service.health {
            let argv = ["sh", "-c", health];
            let limits = (HEALTH_TIME, 4096);
            if exec::run(&self.cluster, place, &argv, &[], limits).await.is_err() {
                return false;
            }
        }
        let seen = self.listening(place, others).await;
        let is_open = match service.ports.as_slice() {
            [] => !seen.is_empty(),
            said => said.iter().any(|port| seen.contains(port)),
        };
        if service.ports.is_empty() {
            *ports = seen;
        }
        service.health.is_some() || is_open
    }

    /// Ports that its processes listen on. Where those of another user hide them, or the image has no `ls`: all of the
    /// pod's that nobody else is said to have.
    async fn listening(&self, place: (&str, &str), others: &[u16]) -> Vec<u16> {
        // The end of `ls` may be an error: processes come and go.
        let argv = ["sh", "-c", &format!("{LISTENERS}; true")];
        let limits = (HEALTH_TIME, SOCKETS);
        let looked = exec::run(&self.cluster, place, &argv, &[], limits).await;
        let looked = match looked {
            Ok(looked) => looked,
            Err(_) => self.of_pod(place.0).await,
        };
        owned(&String::from_utf8_lossy(&looked), others)
    }

    async fn of_pod(&self, pod: &str) -> Vec<u8> {
        let argv = ["cat", "/proc/net/tcp", "/proc/net/tcp6"];
        let place = (pod, super::template::CONTAINER);
        let read = exec::run(&self.cluster, place, &argv, &[], (HEALTH_TIME, SOCKETS)).await;
        // Without IPv6 the second file is not there.
        read.unwrap_or_default()
    }

    /// The end of what it printed.
    async fn log(&self, pod: &str, service: &Service) -> String {
        let path = format!(
            "{}/log?container={}&tailLines={LOG_LINES}",
            takedown::path(&self.cluster, pod),
            container_name(service)
        );
        match self.cluster.text(&path, LOG_BYTES).await {
            Ok(log) => log,
            // One that has never run has none.
            Err(err) => {
                tracing::debug!(service = service.name, %err, "there is no log of a service");
                String::new()
            }
        }
    }
}

/// The name in the configuration, with the digest that the node has.
fn described(name: &str, id: &str) -> String {
    match id.rsplit_once("@sha256:") {
        Some((_, digest)) if !name.contains('@') => format!("{name} (sha256:{digest})"),
        Some(_) | None => name.to_owned(),
    }
}

/// From what [`LISTENERS`] prints.
fn owned(said: &str, others: &[u16]) -> Vec<u16> {
    let sockets: Vec<&str> = said
        .split("socket:[")
        .skip(1)
        .filter_map(|rest| rest.split_once(']').map(|(inode, _)| inode))
        .collect();
    let all: Vec<(u16, &str)> =
        listeners(said).filter(|(port, _)| !others.contains(port)).collect();
    let is_own = |inode: &str| sockets.contains(&inode);
    let is_known = all.iter().any(|(_, inode)| is_own(inode));
    let own = all.iter().filter(|(_, inode)| !is_known || is_own(inode));
    let mut ports: Vec<u16> = own.map(|(port, _)| *port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::readiness::{described, owned};

    #[test]
    fn a_service_has_the_ports_of_its_own_sockets() {
        let row = |port: u16, inode: u16| {
            format!(
                "   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 {inode} 1 0\n"
            )
        };
        let table = format!("{}{}", row(5432, 11), row(6379, 12));
        let sockets = "/proc/1/fd:\nlrwx------ 1 999 999 64 Nov 26 00:00 3 -> socket:[11]\n";
        for (said, others, expected) in [
            (format!("{table}{sockets}"), &[][..], &[5432][..]),
            // Of another user, whose sockets are hidden.
            (table.clone(), &[], &[5432, 6379]),
            (table.clone(), &[6379], &[5432]),
            (table, &[6379, 5432], &[]),
            (String::new(), &[], &[]),
        ] {
            assert_eq!(owned(&said, others), expected, "{said}");
        }
    }

    #[test]
    fn the_digest_is_the_nodes() {
        let id = "docker.io/library/postgres@sha256:00ff";
        assert_eq!(described("postgres:16", id), "postgres:16 (sha256:00ff)");
        assert_eq!(described("postgres@sha256:00ff", id), "postgres@sha256:00ff");
        assert_eq!(described("postgres:16", "sha256:00ff"), "postgres:16");
    }
}
