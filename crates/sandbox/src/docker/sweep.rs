//! Removes what killed runs left, and never what a live one uses, whoever and wherever its process is. Things
//! without our labels are never touched.
//!
//! [`super::signs`] says what is known of owners. Where that is not enough, the engine is asked whether a guest
//! runs, whose stream its owner holds: what has neither owner nor guest is removed. A guest that goes on without an
//! owner (commands can stop it for ever, and some engines keep it when they begin anew) is given a day. Where the lock
//! shows that the owner has ended, nobody is asked about guests.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerInspectResponse, Volume};
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptionsBuilder, ListVolumesOptionsBuilder,
    RemoveVolumeOptions,
};

use super::CALL;
use super::api::bounded;
use super::bring_up::plain;
use super::owner::{LabeledOwner, OWNER, Owner, RUN, named};
use super::signs::{Ages, OwnerState, Signs, Verdict, created, heartbeat, seconds, verdict};
use super::takedown::remove_container;
use crate::SandboxError;

/// Between two looks at what seems to be abandoned.
const SECOND_LOOK: Duration = Duration::from_secs(5);
/// How long a guest may take to end after its owner has, and between two looks.
const LAST_BREATH: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(100);

/// Removes leftovers; see [`crate::Sandbox::sweep`]. What cannot be removed is logged and
/// left to the next sweep. Returns what was removed.
pub(super) async fn sweep(
    docker: &Docker,
    own: &Owner,
    run: Option<&str>,
) -> Result<Vec<String>, SandboxError> {
    // Heartbeats first: the owner of a container that is found later has beaten before it made it.
    let volumes = unused_volumes(docker).await?;
    let containers = containers(docker).await?;
    let mut removed = Vec::new();
    if let Some(run) = run {
        let of_run: Vec<LabeledContainer> =
            containers.into_iter().filter(|found| found.is_of(run)).collect();
        removed = take_all(docker, own, of_run).await.removed;
        let is_of_run = |volume: &&Volume| volume.labels.get(RUN).is_some_and(|label| label == run);
        for volume in unused_volumes(docker).await?.iter().filter(is_of_run) {
            removed.extend(take_volume(docker, volume).await);
        }
        return Ok(removed);
    }
    let is_own =
        |labels: &HashMap<String, String>| labels.get(OWNER).is_some_and(|owner| owner == own.id());
    // What this process itself could not remove, when it ended what ran there.
    let (mine, containers): (Vec<_>, Vec<_>) =
        containers.into_iter().partition(|found| is_own(&found.labels) && found.is_left_by(own));
    removed.extend(take_all(docker, own, mine).await.removed);
    if containers.iter().all(|found| is_own(&found.labels))
        && volumes.iter().all(|volume| is_own(&volume.labels))
        && own.ended().is_empty()
    {
        return Ok(removed);
    }
    let signs = Signs::read(docker, own, &volumes).await;
    let (mut left, mut leftover, mut abandoned) = (Vec::new(), Vec::new(), Vec::new());
    for found in containers {
        match look(docker, &signs, &found).await {
            Verdict::Keep | Verdict::Ending => left.push(found),
            Verdict::Remove => leftover.push(found),
            Verdict::Abandoned => abandoned.push(found),
        }
    }
    let taken = take_all(docker, own, std::mem::take(&mut leftover)).await;
    removed.extend(taken.removed);
    // As long as they are there, the lock has to say that their owner is not.
    left.extend(taken.kept);
    if !abandoned.is_empty() {
        // A run may have been between two steps, or its process have gone on again.
        tokio::time::sleep(SECOND_LOOK).await;
        let signs = Signs::read(docker, own, &unused_volumes(docker).await?).await;
        for found in abandoned {
            match look(docker, &signs, &found).await {
                Verdict::Remove | Verdict::Abandoned => leftover.push(found),
                Verdict::Keep | Verdict::Ending => left.push(found),
            }
        }
        let taken = take_all(docker, own, leftover).await;
        removed.extend(taken.removed);
        left.extend(taken.kept);
    }
    removed.extend(sweep_volumes(docker, &signs, &volumes, &left).await);
    Ok(removed)
}

/// Whether a container that is in the way is a leftover that may be removed.
pub(super) async fn is_leftover(
    docker: &Docker,
    own: &Owner,
    id: &str,
    labels: HashMap<String, String>,
) -> Result<bool, SandboxError> {
    let signs = Signs::read(docker, own, &unused_volumes(docker).await?).await;
    let found =
        LabeledContainer { id: id.to_owned(), names: Vec::new(), labels, created: signs.now };
    if found.is_left_by(own) {
        return Ok(true);
    }
    Ok(look(docker, &signs, &found).await == Verdict::Remove)
}

/// A container with labels of ours.
struct LabeledContainer {
    id: String,
    names: Vec<String>,
    labels: HashMap<String, String>,
    created: u64,
}

impl LabeledContainer {
    /// By its label, or by its name: one that was started before there was a run has no label of it.
    fn is_of(&self, run: &str) -> bool {
        let prefix = format!("patchwright-{}-", plain(run));
        let is_named = || self.names.iter().any(|name| name.starts_with(&prefix));
        named(&self.labels) != LabeledOwner::Nobody
            && (self.labels.get(RUN).is_some_and(|label| label == run) || is_named())
    }

    /// This process made it, and has no use for it any more.
    fn is_left_by(&self, own: &Owner) -> bool {
        own.owned.is_left(&self.id) || self.names.iter().any(|name| own.owned.is_left(name))
    }

    async fn take_away(&self, docker: &Docker, own: &Owner) -> Result<String, SandboxError> {
        remove_container(docker, &self.id).await?;
        for known in self.names.iter().chain([&self.id]) {
            own.owned.gone(known);
        }
        Ok(self.names.first().unwrap_or(&self.id).clone())
    }
}

/// What became of leftovers.
#[derive(Default)]
struct Taken {
    /// The names of those that are gone.
    removed: Vec<String>,
    kept: Vec<LabeledContainer>,
}

/// Removes these, and says which are gone. What could not be removed is tried again when the others are gone: Podman
/// keeps a container as long as another one shares its network, and lists them in any order.
async fn take_all(docker: &Docker, own: &Owner, all: Vec<LabeledContainer>) -> Taken {
    let (mut taken, mut later) = (Taken::default(), Vec::new());
    for found in all {
        match found.take_away(docker, own).await {
            Ok(name) => taken.removed.push(name),
            Err(_) => later.push(found),
        }
    }
    for found in later {
        match found.take_away(docker, own).await {
            Ok(name) => taken.removed.push(name),
            Err(err) => {
                tracing::warn!(container = found.id, %err, "cannot remove a leftover container");
                taken.kept.push(found);
            }
        }
    }
    taken
}

async fn containers(docker: &Docker) -> Result<Vec<LabeledContainer>, SandboxError> {
    let ours = HashMap::from([("label".to_owned(), vec![RUN.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&ours).build();
    let listed = bounded("list containers", CALL, docker.list_containers(Some(options))).await?;
    let found = listed.into_iter().filter_map(|container| {
        let names = container.names.unwrap_or_default();
        Some(LabeledContainer {
            id: container.id?,
            names: names.iter().map(|name| name.trim_start_matches('/').to_owned()).collect(),
            labels: container.labels?,
            created: u64::try_from(container.created?).ok()?,
        })
    });
    Ok(found.collect())
}

/// The verdict about a container, with what its engine says of its guest: never [`Verdict::Ending`] for one that
/// has none, and never [`Verdict::Abandoned`] for one that has one.
async fn look(docker: &Docker, signs: &Signs<'_>, found: &LabeledContainer) -> Verdict {
    let standing = signs.standing(&found.labels);
    let mut ages = Ages { made: signs.now.saturating_sub(found.created), stopped: None };
    let first = verdict(standing, ages, signs.now);
    if matches!(first, Verdict::Keep | Verdict::Remove)
        && !matches!(standing, OwnerState::Unknown { .. })
    {
        return first;
    }
    let inspection = docker.inspect_container(&found.id, None::<InspectContainerOptions>);
    // What the engine does not say counts as use.
    let Ok(made) = bounded("inspect", CALL, inspection).await else { return Verdict::Keep };
    ages.stopped = stopped(&made, signs.now);
    match verdict(standing, ages, signs.now) {
        Verdict::Ending => {
            let deadline = tokio::time::Instant::now() + LAST_BREATH;
            while !is_unused(docker, &made).await {
                if tokio::time::Instant::now() > deadline {
                    return Verdict::Keep;
                }
                tokio::time::sleep(LOOK).await;
            }
            Verdict::Remove
        }
        Verdict::Abandoned if is_unused(docker, &made).await => Verdict::Abandoned,
        Verdict::Abandoned | Verdict::Keep => Verdict::Keep,
        Verdict::Remove => Verdict::Remove,
    }
}

/// Whether no guest runs in it, nor in the sandbox that it is a service of.
async fn is_unused(docker: &Docker, made: &ContainerInspectResponse) -> bool {
    let network = made.host_config.as_ref().and_then(|host| host.network_mode.as_deref());
    if let Some(sandbox) = network.and_then(|network| network.strip_prefix("container:")) {
        let inspection = docker.inspect_container(sandbox, None::<InspectContainerOptions>);
        return match bounded("inspect", CALL, inspection).await {
            Err(err) => err.is_missing(),
            Ok(made) => runs_nothing(docker, &made).await,
        };
    }
    let id = made.id.as_deref().unwrap_or_default();
    // The list of commands is read again: the first reading can be seconds old.
    let inspection = docker.inspect_container(id, None::<InspectContainerOptions>);
    match bounded("inspect", CALL, inspection).await {
        Err(err) => err.is_missing(),
        Ok(made) => runs_nothing(docker, &made).await,
    }
}

/// No command was started in it that still runs.
async fn runs_nothing(docker: &Docker, made: &ContainerInspectResponse) -> bool {
    let is_running = made.state.as_ref().and_then(|state| state.running);
    if is_running == Some(false) {
        return true;
    }
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
fn stopped(made: &ContainerInspectResponse, now: u64) -> Option<u64> {
    let state = made.state.as_ref().filter(|state| state.running != Some(true))?;
    // Docker writes the year 1 for "never".
    Some(now.saturating_sub(seconds(state.finished_at.as_deref()?)?))
}

/// Volumes of ours that no container has: heartbeats, and what is left of containers.
async fn unused_volumes(docker: &Docker) -> Result<Vec<Volume>, SandboxError> {
    let unused = HashMap::from([
        ("label".to_owned(), vec![OWNER.to_owned()]),
        ("dangling".to_owned(), vec!["true".to_owned()]),
    ]);
    let options = ListVolumesOptionsBuilder::default().filters(&unused).build();
    let volumes = bounded("list volumes", CALL, docker.list_volumes(Some(options))).await?;
    Ok(volumes.volumes.unwrap_or_default())
}

/// Removes what is left of containers, and the heartbeats and locks of owners of which nothing else is left.
async fn sweep_volumes(
    docker: &Docker,
    signs: &Signs<'_>,
    volumes: &[Volume],
    left: &[LabeledContainer],
) -> Vec<String> {
    let has_left = |owner: &str| {
        left.iter().any(|found| found.labels.get(OWNER).is_some_and(|it| it == owner))
    };
    let mut removed = Vec::new();
    for volume in volumes {
        if let Some((owner, _)) = heartbeat(volume) {
            if signs.owner(owner) != OwnerState::Lives && !has_left(owner) {
                // Nothing of a run: not worth a word.
                take_volume(docker, volume).await;
            }
            continue;
        }
        let made = created(volume).map_or(0, |created| signs.now.saturating_sub(created));
        let ages = Ages { made, stopped: None };
        if verdict(signs.standing(&volume.labels), ages, signs.now) != Verdict::Keep {
            removed.extend(take_volume(docker, volume).await);
        }
    }
    for (owner, ended) in &signs.ended {
        if !has_left(owner) {
            // The next sweep finds one that stays.
            let _ = fs_err::remove_file(&ended.lock);
        }
    }
    removed
}

async fn take_volume(docker: &Docker, volume: &Volume) -> Option<String> {
    let removal = docker.remove_volume(&volume.name, None::<RemoveVolumeOptions>);
    match bounded("remove volume", CALL, removal).await {
        Ok(()) => Some(format!("volume {}", volume.name)),
        Err(err) if err.is_missing() => None,
        Err(err) => {
            tracing::warn!(
                volume = volume.name,
                err = err.cause(),
                "cannot remove a leftover volume"
            );
            None
        }
    }
}
