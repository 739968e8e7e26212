//! From nothing to a serving guest: create, check, fill, start, attach. Whatever fails on the way,
//! the container is removed.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions,
    UploadToContainerOptionsBuilder,
};

use super::api::{ApiError, bounded};
use super::attach::attach;
use super::configuration::{self, Shape, Task};
use super::owner::{self, OWNER, RUN};
use super::seccomp::{ASKED, Seccomp};
use super::sweep::is_leftover;
use super::takedown::{Container, remove_container};
use super::{CALL, DockerSandbox, HOME, USER, VOLUME, hardening, inside, podman};
use crate::client::Client;
use crate::guest_binary;
use crate::{ContainerLimits, SandboxError, Stop};
use patchwright_guest::programs;

/// Creating copies what setup left into the volume; starting may wait for a slow disk.
const SLOW_CALL: Duration = Duration::from_mins(5);
/// How long the guest may take to say hello.
const HELLO: Duration = Duration::from_secs(30);
/// Names that are tried when one is taken.
pub(super) const NAMES: u32 = 20;

/// A container to be made, and what its guest is told.
pub(super) struct Order {
    pub(super) asked: ContainerCreateBody,
    pub(super) run: String,
    pub(super) purpose: &'static str,
    pub(super) limits: ContainerLimits,
    pub(super) task: Task,
    pub(super) guest: Vec<&'static str>,
}

impl Order {
    /// One of the same shape, for somebody else.
    pub(super) fn of(&self, run: &str, purpose: &'static str) -> Order {
        let mut asked = self.asked.clone();
        let relabel = |labels: &mut Option<HashMap<String, String>>| {
            if let Some(labels) = labels {
                let owner = labels.get(OWNER).cloned().unwrap_or_default();
                *labels = owner::labels(run, purpose, &owner);
            }
        };
        relabel(&mut asked.labels);
        let mounts = asked.host_config.iter_mut().flat_map(|host| host.mounts.iter_mut().flatten());
        for options in mounts.filter_map(|mount| mount.volume_options.as_mut()) {
            relabel(&mut options.labels);
        }
        let (limits, guest) = (self.limits.clone(), self.guest.clone());
        Order { asked, run: run.to_owned(), purpose, limits, task: self.task, guest }
    }
}

impl DockerSandbox {
    /// What the engine is asked for to get this shape. An engine without seccomp is looser than any container is
    /// asked for; one whose daemon applies no profile is asked for its own.
    pub(super) fn order(&self, shape: &Shape<'_>) -> Result<Order, SandboxError> {
        if let Some(why) = self.seccomp.refusal() {
            return Err(SandboxError::HardeningMismatch(why.to_owned()));
        }
        bounds(&self.unbounded)?;
        let mut asked = configuration::body(shape)?;
        self.adapt(&mut asked);
        if self.is_podman {
            // The guest is in the container's own layer there, which a volume would cover.
            if let Some(path) = configuration::volume_of_guest(shape.image) {
                return Err(configuration::covered(&path));
            }
            podman::adapt(&mut asked, shape.limits, self.is_rootless);
        }
        let relay = shape.egress.map(|_| "--relay");
        let home = shape.image.has_home().then_some("--watch-home");
        Ok(Order {
            asked,
            run: shape.run.to_owned(),
            purpose: shape.purpose,
            limits: shape.limits.clone(),
            task: shape.task,
            guest: relay.into_iter().chain(home).collect(),
        })
    }

    /// In the words of this engine.
    pub(super) fn adapt(&self, asked: &mut ContainerCreateBody) {
        if self.seccomp == Seccomp::Unconfined
            && let Some(host) = &mut asked.host_config
        {
            host.security_opt.get_or_insert_default().push(ASKED.to_owned());
        }
    }

    /// Starts a container with a guest in it.
    pub(super) async fn bring_up(
        &self,
        order: &Order,
    ) -> Result<(Container, Client), SandboxError> {
        let heartbeat = self.owner.heartbeat(&self.docker).await?;
        let id = Box::pin(self.create(&order.run, order.purpose, &order.asked)).await?;
        let mut container = Container::new(self, heartbeat, id, order.limits.memory_bytes);
        match self.start_guest(order, &mut container).await {
            Ok(client) => {
                container.keep();
                Ok((container, client))
            }
            Err(err) => {
                if let Err(left) = container.remove().await {
                    tracing::warn!(%left, "cannot remove a container that did not start");
                }
                Err(err)
            }
        }
    }

    async fn start_guest(
        &self,
        order: &Order,
        container: &mut Container,
    ) -> Result<Client, SandboxError> {
        let id = container.id.clone();
        let inspection = self.docker.inspect_container(&id, None::<InspectContainerOptions>);
        let made = bounded("inspect", CALL, inspection).await?;
        self.as_asked(&order.asked, made)?;
        self.upload(&id, &order.asked, order.task).await?;
        let start = self.docker.start_container(&id, None::<StartContainerOptions>);
        bounded("start", SLOW_CALL, start).await?;
        let user = order.asked.user.clone().unwrap_or_default();
        if self.is_podman || self.is_rootless {
            let seen = Box::pin(inside::look(&self.docker, &id, &user)).await?;
            inside::refuse(&if self.is_podman {
                inside::differences(&order.asked, &seen)
            } else {
                inside::unbounded(&order.asked, &seen)
            })?;
        }
        let (session, reader, writer) =
            attach(&self.docker, &id, &user, &order.limits, &order.guest).await?;
        container.session = Some(session);
        match Client::connect(reader, writer, HELLO).await {
            Ok(client) => Ok(client),
            Err(err) => {
                let reason = container.exit_reason().await.unwrap_or_default();
                Err(container.gone(format!("the guest did not start: {err}; {reason}")))
            }
        }
    }

    /// What the engine says of a container that it has made.
    ///
    /// # Errors
    /// When it is looser than asked for.
    pub(super) fn as_asked(
        &self,
        asked: &ContainerCreateBody,
        mut made: ContainerInspectResponse,
    ) -> Result<(), SandboxError> {
        inside::refuse(&if self.is_podman {
            bounds(&podman::unbounded(asked, &made))?;
            podman::in_dockers_words(asked, &mut made);
            hardening::told(asked, &made)
        } else {
            hardening::differences(asked, &made)
        })
    }

    /// Creates the container. A name that is taken by a leftover of the same run is freed; any other
    /// owner keeps it, and we take the next name.
    pub(super) async fn create(
        &self,
        run: &str,
        purpose: &str,
        asked: &ContainerCreateBody,
    ) -> Result<String, SandboxError> {
        let mut number = 1;
        loop {
            let name = name(run, purpose, number);
            let options = CreateContainerOptionsBuilder::default().name(&name).build();
            let creation = self.docker.create_container(Some(options), asked.clone());
            let owned = &self.owner.owned;
            owned.begin(&name);
            let created = bounded("create", SLOW_CALL, creation).await;
            if created.as_ref().is_err_and(ApiError::is_unreachable) {
                // It may be there all the same.
                owned.leave(&name);
            } else {
                owned.gone(&name);
            }
            let err: ApiError = match created {
                Ok(created) => {
                    owned.begin(&created.id);
                    return Ok(created.id);
                }
                Err(err) => err,
            };
            if !err.is_conflict() || number >= NAMES {
                return Err(err.into());
            }
            if !Box::pin(self.removed_leftover(&name, run)).await? {
                number += 1;
            }
        }
    }

    /// Frees a name: true when it was a leftover of `run`. A name that is taken by nothing belongs to a
    /// container that is just being made.
    async fn removed_leftover(&self, name: &str, run: &str) -> Result<bool, SandboxError> {
        let inspection = self.docker.inspect_container(name, None::<InspectContainerOptions>);
        let made = match bounded("inspect", CALL, inspection).await {
            Ok(made) => made,
            Err(err) if err.is_missing() => return Ok(false),
            Err(err) => return Err(err.into()),
        };
        let labels = made.config.and_then(|config| config.labels).unwrap_or_default();
        let is_of_run = labels.get(RUN).is_some_and(|label| label == run);
        let id = made.id.as_deref().unwrap_or(name);
        if !is_of_run || !Box::pin(is_leftover(&self.docker, &self.owner, id, labels)).await? {
            return Ok(false);
        }
        remove_container(&self.docker, id).await?;
        Ok(true)
    }

    /// Puts the guest and an empty workspace into a container that has not started. The archive is
    /// never compressed: an engine would run the image's own decompressor on it.
    pub(super) async fn upload(
        &self,
        id: &str,
        asked: &ContainerCreateBody,
        task: Task,
    ) -> Result<(), SandboxError> {
        let is_in_volume = task == Task::Work && !self.is_podman;
        let (prefix, path) = if is_in_volume { ("", VOLUME) } else { ("pw/", "/") };
        let is_open = self.is_podman && podman::has_open_home(asked);
        let home = match task {
            Task::Setup(_) => Some(0o755),
            Task::Work => is_open.then_some(podman::OPEN),
        };
        let archive = archive(task, prefix, home)
            .map_err(|err| SandboxError::Other(format!("cannot pack the guest: {err}")))?;
        let options = UploadToContainerOptionsBuilder::default().path(path).build();
        let body = bollard::body_full(archive.into());
        let upload = self.docker.upload_to_container(id, Some(options), body);
        Ok(bounded("upload", SLOW_CALL, upload).await?)
    }
}

/// A tar with the guest, where commands work also under the names of its programs (both root's), and the
/// workspace folder; and a home folder of root with this mode, where there is to be one.
fn archive(task: Task, prefix: &str, home: Option<u32>) -> std::io::Result<Vec<u8>> {
    let owner = match task {
        Task::Work => USER,
        Task::Setup(_) => 0,
    };
    let guest = guest_binary();
    let mut tar = tar::Builder::new(Vec::with_capacity(guest.len() + 8_192));
    let mut folder = |path: &str, owner: u32, mode: u32| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(mode);
        header.set_uid(owner.into());
        header.set_gid(owner.into());
        header.set_size(0);
        tar.append_data(&mut header, path, std::io::empty())
    };
    if !prefix.is_empty() {
        folder(prefix, 0, 0o755)?;
    }
    folder(&format!("{prefix}workspace/"), owner, 0o755)?;
    if let Some(mode) = home {
        folder(&format!("{}/", HOME.trim_start_matches('/')), 0, mode)?;
    }
    if task == Task::Work {
        folder(&format!("{prefix}{}/", programs::FOLDER), 0, 0o755)?;
    }
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(guest.len() as u64);
    tar.append_data(&mut header, format!("{prefix}patchwright-guest"), guest.as_slice())?;
    if task == Task::Work {
        for name in programs::NAMES {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            let path = format!("{prefix}{}/{name}", programs::FOLDER);
            tar.append_link(&mut header, path, "../patchwright-guest")?;
        }
    }
    tar.into_inner()
}

/// An engine that does not set these limits gets no container.
fn bounds(missing: &[&str]) -> Result<(), SandboxError> {
    if missing.is_empty() {
        return Ok(());
    }
    let what = missing.join(", ");
    let message = format!("the engine does not bound {what}; `patchwright doctor` says more");
    Err(SandboxError::HardeningMismatch(message))
}

/// The name of a run's container, or another one where it is taken.
pub(super) fn name(run: &str, purpose: &str, number: u32) -> String {
    let base = format!("patchwright-{}-{}", plain(run), plain(purpose));
    if number == 1 { base } else { format!("{base}-{number}") }
}

/// A part of a container's name: what Docker does not allow becomes `-`.
pub(super) fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.chars().map(|c| if is_plain(c) { c } else { '-' }).take(64).collect()
}
