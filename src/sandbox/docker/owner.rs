//! Whose container it is: the labels that every container and volume carries, and the sweep that
//! removes what killed runs left. Containers without our labels are never touched.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions,
};

use super::CALL;
use super::api::bounded;
use super::takedown::remove_container;
use crate::sandbox::SandboxError;

/// The run's id.
pub(super) const RUN: &str = "patchwright.run";
const PURPOSE: &str = "patchwright.purpose";
/// `hostname/pid/start time of the process`.
const OWNER: &str = "patchwright.owner";
/// Seconds since 1970 after which anybody may remove the container.
const DEADLINE: &str = "patchwright.deadline";

/// How long a container may live, whoever owns it.
const LIFETIME: Duration = Duration::from_hours(24);

/// A process that owns containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    host: String,
    pid: u32,
    /// In clock ticks since the machine started: tells a process from a later one with its pid.
    start: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this_process() -> Result<Owner, SandboxError> {
        let pid = std::process::id();
        let start = start_of(pid).ok_or_else(|| {
            SandboxError::Other(
                "cannot read `/proc/self/stat`, so leftovers could not be told from live runs"
                    .to_owned(),
            )
        })?;
        Ok(Owner { host: hostname(), pid, start })
    }

    fn parse(label: &str) -> Option<Owner> {
        let mut parts = label.rsplitn(3, '/');
        let start = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        Some(Owner { host: parts.next()?.to_owned(), pid, start })
    }

    fn label(&self) -> String {
        format!("{}/{}/{}", self.host, self.pid, self.start)
    }

    /// True when it ran on this machine and is no longer there. Owners on other machines are never
    /// judged; their containers have a deadline.
    fn is_gone(&self) -> bool {
        self.host == hostname() && start_of(self.pid) != Some(self.start)
    }
}

/// Field 22 of `/proc/PID/stat`; the name in field 2 may hold anything, but ends with the last `)`.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn hostname() -> String {
    let name = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "deadlines are compared between processes, so a fixed clock must not change them"
)]
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The labels of a container or volume of ours.
pub(super) fn labels(run: &str, purpose: &str, owner: &Owner) -> HashMap<String, String> {
    HashMap::from([
        (RUN.to_owned(), run.to_owned()),
        (PURPOSE.to_owned(), purpose.to_owned()),
        (OWNER.to_owned(), owner.label()),
        (DEADLINE.to_owned(), (now() + LIFETIME.as_secs()).to_string()),
    ])
}

/// Labels that say nothing, for images: Docker copies a container's labels into the image it is
/// committed to, and containers made from that image by others are not ours.
pub(super) fn no_labels() -> HashMap<String, String> {
    [RUN, PURPOSE, OWNER, DEADLINE]
        .into_iter()
        .map(|name| (name.to_owned(), String::new()))
        .collect()
}

/// What the labels of something say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not made by Patchwright.
    Foreign,
    /// In use by a live process, or by one that cannot be judged from here.
    InUse,
    /// Its process is gone or its deadline has passed.
    LeftOver,
}

/// Judges labels. Half of our labels is as good as none.
pub(super) fn standing(labels: &HashMap<String, String>) -> Standing {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    let owner = Owner::parse(label(OWNER));
    let deadline = label(DEADLINE).parse::<u64>();
    let (Some(owner), Ok(deadline), false) = (owner, deadline, label(RUN).is_empty()) else {
        return Standing::Foreign;
    };
    if owner.is_gone() || deadline < now() { Standing::LeftOver } else { Standing::InUse }
}

/// May be removed by a sweep for `run`, or by a general one.
fn is_swept(labels: &HashMap<String, String>, run: Option<&str>) -> bool {
    match (standing(labels), run) {
        (Standing::Foreign, _) | (Standing::InUse, None) => false,
        (Standing::LeftOver, None) => true,
        (Standing::InUse | Standing::LeftOver, Some(run)) => {
            labels.get(RUN).is_some_and(|label| label == run)
        }
    }
}

/// Removes leftovers; see [`crate::sandbox::Sandbox::sweep`]. What cannot be removed is logged and
/// left to the next sweep. Returns what was removed.
pub(super) async fn sweep(docker: &Docker, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
    let filter = run.map_or_else(|| RUN.to_owned(), |run| format!("{RUN}={run}"));
    let ours = HashMap::from([("label".to_owned(), vec![filter])]);
    let mut removed = Vec::new();
    let options = ListContainersOptionsBuilder::default().all(true).filters(&ours).build();
    for container in bounded("list containers", CALL, docker.list_containers(Some(options))).await?
    {
        let (Some(id), Some(labels)) = (container.id, container.labels) else { continue };
        if !is_swept(&labels, run) {
            continue;
        }
        match remove_container(docker, &id).await {
            Ok(()) => removed.push(name_of(container.names, &id)),
            Err(err) => tracing::warn!(container = id, %err, "cannot remove a leftover container"),
        }
    }
    let mut unused = ours;
    unused.insert("dangling".to_owned(), vec!["true".to_owned()]);
    let options = ListVolumesOptionsBuilder::default().filters(&unused).build();
    let volumes = bounded("list volumes", CALL, docker.list_volumes(Some(options))).await?;
    for volume in volumes.volumes.unwrap_or_default() {
        if !is_swept(&volume.labels, run) {
            continue;
        }
        let removal = docker.remove_volume(&volume.name, None::<RemoveVolumeOptions>);
        match bounded("remove volume", CALL, removal).await {
            Ok(()) => removed.push(format!("volume {}", volume.name)),
            Err(err) if err.is_missing() => {}
            Err(err) => {
                tracing::warn!(
                    volume = volume.name,
                    err = err.cause(),
                    "cannot remove a leftover volume"
                );
            }
        }
    }
    Ok(removed)
}

fn name_of(names: Option<Vec<String>>, id: &str) -> String {
    let name = names.into_iter().flatten().next();
    name.map_or_else(|| id.to_owned(), |name| name.trim_start_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_labels() {
        let here = Owner::this_process().unwrap();
        let gone = Owner { start: here.start + 1, ..here.clone() };
        let elsewhere = Owner { host: "elsewhere/x".to_owned(), ..gone.clone() };
        let row = |owner: &Owner| labels("r1", "agent", owner);
        let mut late = row(&elsewhere);
        late.insert(DEADLINE.to_owned(), "1".to_owned());
        let mut half = row(&gone);
        half.remove(OWNER);
        for (labels, expected) in [
            (row(&here), Standing::InUse),
            (row(&gone), Standing::LeftOver),
            (row(&elsewhere), Standing::InUse),
            (late, Standing::LeftOver),
            (half, Standing::Foreign),
            (no_labels(), Standing::Foreign),
            (HashMap::new(), Standing::Foreign),
        ] {
            assert_eq!(standing(&labels), expected, "{labels:?}");
        }
    }
}
