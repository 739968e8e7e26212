//! Whose container it is: the labels that every container and volume carries, and the sweep that
//! removes what killed runs left. Containers without our labels are never touched.
//!
//! A process is judged only where its number means the same to us ([`patchwright_base::process`]). All others (other hosts, other containers, whatever their host name) are judged
//! by the engine: a live run holds the guest's streams, and the guest ends with them, so a container in which
//! no guest runs any more, for a good while, belongs to nobody.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::Docker;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptionsBuilder, ListVolumesOptionsBuilder,
    RemoveVolumeOptions,
};

use super::CALL;
use super::api::bounded;
use super::takedown::remove_container;
use crate::SandboxError;
pub(super) use patchwright_base::process::ProcessIdentity as Owner;

/// The run's id.
pub(super) const RUN: &str = "patchwright.run";
const PURPOSE: &str = "patchwright.purpose";
/// The process, as [`Owner`] writes it.
const OWNER: &str = "patchwright.owner";
/// Seconds since 1970 after which a container is removed as soon as no guest runs in it.
const DEADLINE: &str = "patchwright.deadline";

/// How long after its creation a container has its deadline.
const LIFETIME: Duration = Duration::from_hours(24);
/// How old a container of an owner that cannot be judged has to be, and how long it has to have stood still,
/// before it is taken for a leftover: longer than any step of a live run in which no guest runs.
const QUIET: Duration = Duration::from_mins(30);
/// Between two looks at such a container.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// This process, which owns containers.
pub(super) fn this_process() -> Result<Owner, SandboxError> {
    Owner::own().ok_or_else(|| {
        SandboxError::Other(
            "cannot read `/proc/self`, so leftovers could not be told from live runs".to_owned(),
        )
    })
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
        (OWNER.to_owned(), owner.to_string()),
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
    /// In use by a live process.
    InUse,
    /// Its process is gone.
    LeftOver,
    /// Of a process that cannot be judged from here.
    Unknown { deadline: u64 },
}

/// Judges labels. Half of our labels is as good as none.
pub(super) fn standing(labels: &HashMap<String, String>) -> Standing {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    let Ok(deadline) = label(DEADLINE).parse::<u64>() else { return Standing::Foreign };
    if label(RUN).is_empty() || label(OWNER).is_empty() {
        return Standing::Foreign;
    }
    match Owner::parse(label(OWNER)).and_then(|owner| owner.is_alive()) {
        Some(true) => Standing::InUse,
        Some(false) => Standing::LeftOver,
        None => Standing::Unknown { deadline },
    }
}

/// What a sweep for `run`, or a general one, does about something with these labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    Remove,
    /// Remove it when the engine shows that nobody uses it.
    Look {
        deadline: u64,
    },
}

fn verdict(labels: &HashMap<String, String>, run: Option<&str>) -> Verdict {
    match (standing(labels), run) {
        (Standing::Foreign, _) | (Standing::InUse, None) => Verdict::Keep,
        (Standing::LeftOver, None) => Verdict::Remove,
        (Standing::Unknown { deadline }, None) => Verdict::Look { deadline },
        (_, Some(run)) if labels.get(RUN).is_some_and(|label| label == run) => Verdict::Remove,
        (_, Some(_)) => Verdict::Keep,
    }
}

/// Whether a container, or a volume without one, has stood still for long enough: `age` and `stopped` in
/// seconds, `stopped` where it does not run any more.
fn is_quiet(deadline: u64, age: u64, stopped: Option<u64>) -> bool {
    let quiet = QUIET.as_secs();
    deadline < now() || (age > quiet && stopped.is_none_or(|stopped| stopped > quiet))
}

/// Whether nobody uses this container, as far as its engine knows. What it does not say counts as use.
async fn is_abandoned(docker: &Docker, id: &str, deadline: u64, created: i64) -> bool {
    let inspection = docker.inspect_container(id, None::<InspectContainerOptions>);
    let Ok(made) = bounded("inspect", CALL, inspection).await else { return false };
    let age = now().saturating_sub(u64::try_from(created).unwrap_or(0));
    if !is_quiet(deadline, age, stopped(&made)) {
        return false;
    }
    // A service is used as long as the sandbox whose network it has joined.
    let network = made.host_config.as_ref().and_then(|host| host.network_mode.as_deref());
    if let Some(sandbox) = network.and_then(|network| network.strip_prefix("container:")) {
        let inspection = docker.inspect_container(sandbox, None::<InspectContainerOptions>);
        return match bounded("inspect", CALL, inspection).await {
            Err(err) => err.is_missing(),
            Ok(made) => runs_nothing(docker, &made).await,
        };
    }
    runs_nothing(docker, &made).await
}

/// No command was started in it that still runs.
async fn runs_nothing(docker: &Docker, made: &ContainerInspectResponse) -> bool {
    for exec in made.exec_ids.iter().flatten() {
        let running = bounded("inspect exec", CALL, docker.inspect_exec(exec)).await;
        match running {
            Ok(exec) if exec.running == Some(false) => {}
            Err(err) if err.is_missing() => {}
            Ok(_) | Err(_) => return false,
        }
    }
    true
}

/// Seconds since a container stopped; `None` when it runs, or never did.
fn stopped(made: &ContainerInspectResponse) -> Option<u64> {
    let state = made.state.as_ref().filter(|state| state.running != Some(true))?;
    let finished = chrono::DateTime::parse_from_rfc3339(state.finished_at.as_deref()?).ok()?;
    // Docker writes the year 1 for "never".
    let finished = u64::try_from(finished.timestamp()).ok()?;
    Some(now().saturating_sub(finished))
}

/// Removes leftovers; see [`crate::Sandbox::sweep`]. What cannot be removed is logged and
/// left to the next sweep. Returns what was removed.
pub(super) async fn sweep(docker: &Docker, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
    let filter = run.map_or_else(|| RUN.to_owned(), |run| format!("{RUN}={run}"));
    let ours = HashMap::from([("label".to_owned(), vec![filter])]);
    let mut removed = Vec::new();
    let mut looked_at = Vec::new();
    let options = ListContainersOptionsBuilder::default().all(true).filters(&ours).build();
    for container in bounded("list containers", CALL, docker.list_containers(Some(options))).await?
    {
        let (Some(id), Some(labels)) = (container.id, container.labels) else { continue };
        match verdict(&labels, run) {
            Verdict::Keep => {}
            Verdict::Remove => removed.extend(take_away(docker, &id, container.names).await),
            Verdict::Look { deadline } => {
                let created = container.created.unwrap_or(i64::MAX);
                if is_abandoned(docker, &id, deadline, created).await {
                    looked_at.push((id, container.names, deadline, created));
                }
            }
        }
    }
    if !looked_at.is_empty() {
        // A run may have been between two steps.
        tokio::time::sleep(SECOND_LOOK).await;
    }
    for (id, names, deadline, created) in looked_at {
        if is_abandoned(docker, &id, deadline, created).await {
            removed.extend(take_away(docker, &id, names).await);
        }
    }
    removed.extend(sweep_volumes(docker, run, ours).await?);
    Ok(removed)
}

async fn take_away(docker: &Docker, id: &str, names: Option<Vec<String>>) -> Option<String> {
    match remove_container(docker, id).await {
        Ok(()) => Some(name_of(names, id)),
        Err(err) => {
            tracing::warn!(container = id, %err, "cannot remove a leftover container");
            None
        }
    }
}

/// Volumes that no container has.
async fn sweep_volumes(
    docker: &Docker,
    run: Option<&str>,
    ours: HashMap<String, Vec<String>>,
) -> Result<Vec<String>, SandboxError> {
    let mut removed = Vec::new();
    let mut unused = ours;
    unused.insert("dangling".to_owned(), vec!["true".to_owned()]);
    let options = ListVolumesOptionsBuilder::default().filters(&unused).build();
    let volumes = bounded("list volumes", CALL, docker.list_volumes(Some(options))).await?;
    for volume in volumes.volumes.unwrap_or_default() {
        let is_swept = match verdict(&volume.labels, run) {
            Verdict::Keep => false,
            Verdict::Remove => true,
            Verdict::Look { deadline } => {
                let created = deadline.saturating_sub(LIFETIME.as_secs());
                is_quiet(deadline, now().saturating_sub(created), None)
            }
        };
        if !is_swept {
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
    use crate::docker::owner::*;
    use patchwright_base::process::ProcessSpace as Space;

    #[test]
    fn judges_labels() {
        let here = this_process().unwrap();
        let gone = Owner { start: here.start + 1, ..here.clone() };
        let in_space = |change: &dyn Fn(&mut Space)| {
            let mut other = gone.clone();
            change(&mut other.space);
            other
        };
        let row = |owner: &Owner| labels("r1", "agent", owner);
        let deadline = row(&here)[DEADLINE].parse().unwrap();
        let unknown = Standing::Unknown { deadline };
        let with = |name: &str, value: &str| {
            let mut row = row(&gone);
            row.insert(name.to_owned(), value.to_owned());
            row
        };
        let mut half = row(&gone);
        half.remove(OWNER);
        for (labels, expected) in [
            (row(&here), Standing::InUse),
            (row(&gone), Standing::LeftOver),
            // The same numbers mean other processes elsewhere, whatever the host is called.
            (row(&in_space(&|space| space.namespace = "pid:[1]".to_owned())), unknown),
            (row(&in_space(&|space| space.boot = "another".to_owned())), unknown),
            (row(&in_space(&|space| space.host = "else/where".to_owned())), unknown),
            // Labels of earlier versions.
            (with(OWNER, &format!("{}/7/123456", here.space.host)), unknown),
            (with(DEADLINE, "1"), Standing::LeftOver),
            (with(DEADLINE, ""), Standing::Foreign),
            (half, Standing::Foreign),
            (no_labels(), Standing::Foreign),
            (HashMap::new(), Standing::Foreign),
        ] {
            assert_eq!(standing(&labels), expected, "{labels:?}");
        }
    }

    #[test]
    fn a_live_process_is_in_use_past_its_deadline() {
        let mut labels = labels("r1", "agent", &this_process().unwrap());
        labels.insert(DEADLINE.to_owned(), "1".to_owned());
        assert_eq!(standing(&labels), Standing::InUse);
        assert_eq!(verdict(&labels, None), Verdict::Keep);
    }

    #[test]
    fn quiet_is_old_and_long_without_a_change() {
        let (future, hour) = (now() + 1000, 3600);
        for (deadline, age, stopped, expected) in [
            (future, 10, None, false),
            (future, hour, None, true),
            (future, hour, Some(10), false),
            (future, hour, Some(hour), true),
            (future, 10, Some(hour), false),
            (1, 10, None, true),
            (1, 10, Some(10), true),
        ] {
            assert_eq!(is_quiet(deadline, age, stopped), expected, "{age} {stopped:?}");
        }
    }
}
