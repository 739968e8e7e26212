//! From nothing to a serving guest: create, check, fill, start, attach. Whatever fails on the way,
//! the container is removed.

use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions,
    UploadToContainerOptionsBuilder,
};

use super::api::{ApiError, bounded};
use super::attach::attach;
use super::configuration::{self, Shape, Task};
use super::owner::{RUN, Standing, standing};
use super::seccomp::{ASKED, Seccomp};
use super::takedown::{Container, remove_container};
use super::{CALL, DockerSandbox, HOME, USER, VOLUME, hardening};
use crate::client::Client;
use crate::guest_binary;
use crate::{SandboxError, Stop};
use patchwright_guest::programs;

/// Creating copies what setup left into the volume; starting may wait for a slow disk.
const SLOW_CALL: Duration = Duration::from_mins(5);
/// How long the guest may take to say hello.
const HELLO: Duration = Duration::from_secs(30);
/// Names that are tried when one is taken.
const NAMES: u32 = 20;

impl DockerSandbox {
    /// Starts a container of this shape with a guest in it. An engine without seccomp is looser
    /// than any container is asked for; one whose daemon applies no profile is asked for its own.
    pub(super) async fn bring_up(
        &self,
        shape: &Shape<'_>,
    ) -> Result<(Container, Client), SandboxError> {
        if let Some(why) = self.seccomp.refusal() {
            return Err(SandboxError::HardeningMismatch(why.to_owned()));
        }
        let mut asked = configuration::body(shape)?;
        if self.seccomp == Seccomp::Unconfined
            && let Some(host) = &mut asked.host_config
        {
            host.security_opt.get_or_insert_default().push(ASKED.to_owned());
        }
        let id = self.create(shape.run, shape.purpose, &asked).await?;
        let mut container = Container::new(&self.docker, id, shape.limits.memory_bytes);
        match self.start_guest(shape, &asked, &mut container).await {
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
        shape: &Shape<'_>,
        asked: &ContainerCreateBody,
        container: &mut Container,
    ) -> Result<Client, SandboxError> {
        let id = container.id.clone();
        let inspection = self.docker.inspect_container(&id, None::<InspectContainerOptions>);
        let mismatches =
            hardening::differences(asked, &bounded("inspect", CALL, inspection).await?);
        if !mismatches.is_empty() {
            return Err(SandboxError::HardeningMismatch(mismatches.join("; ")));
        }
        self.upload(&id, shape.task).await?;
        let start = self.docker.start_container(&id, None::<StartContainerOptions>);
        bounded("start", SLOW_CALL, start).await?;
        let user = asked.user.clone().unwrap_or_default();
        let relay = shape.egress.map(|_| "--relay");
        let home = shape.image.has_home().then_some("--watch-home");
        let more: Vec<&str> = relay.into_iter().chain(home).collect();
        let (session, reader, writer) =
            attach(&self.docker, &id, &user, shape.limits, &more).await?;
        container.session = Some(session);
        match Client::connect(reader, writer, HELLO).await {
            Ok(client) => {
                if let Some(egress) = shape.egress {
                    egress.relay(&client);
                }
                Ok(client)
            }
            Err(err) => {
                let reason = container.autopsy().await.unwrap_or_default();
                Err(SandboxError::Gone(format!("the guest did not start: {err}; {reason}")))
            }
        }
    }

    /// Creates the container. A name that is taken by a leftover of the same run is freed; any other
    /// owner keeps it, and we take the next name.
    pub(super) async fn create(
        &self,
        run: &str,
        purpose: &str,
        asked: &ContainerCreateBody,
    ) -> Result<String, SandboxError> {
        let base = format!("patchwright-{}-{}", plain(run), plain(purpose));
        let mut name = base.clone();
        let mut next = 2;
        loop {
            let options = CreateContainerOptionsBuilder::default().name(&name).build();
            let creation = self.docker.create_container(Some(options), asked.clone());
            let err: ApiError = match bounded("create", SLOW_CALL, creation).await {
                Ok(created) => return Ok(created.id),
                Err(err) => err,
            };
            if !err.is_conflict() || next > NAMES {
                return Err(err.into());
            }
            if !self.removed_leftover(&name, run).await? {
                name = format!("{base}-{next}");
            }
            next += 1;
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
        if !is_of_run || standing(&labels) != Standing::LeftOver {
            return Ok(false);
        }
        remove_container(&self.docker, made.id.as_deref().unwrap_or(name)).await?;
        Ok(true)
    }

    /// Puts the guest and an empty workspace into a container that has not started. The archive is
    /// never compressed: an engine would run the image's own decompressor on it.
    async fn upload(&self, id: &str, task: Task) -> Result<(), SandboxError> {
        let archive = archive(task)
            .map_err(|err| SandboxError::Other(format!("cannot pack the guest: {err}")))?;
        let path = if task == Task::Work { VOLUME } else { "/" };
        let options = UploadToContainerOptionsBuilder::default().path(path).build();
        let body = bollard::body_full(archive.into());
        let upload = self.docker.upload_to_container(id, Some(options), body);
        Ok(bounded("upload", SLOW_CALL, upload).await?)
    }
}

/// A tar with the guest, where commands work also under the names of its programs (both root's), and the
/// workspace folder.
fn archive(task: Task) -> std::io::Result<Vec<u8>> {
    let (prefix, owner) = match task {
        Task::Work => ("", USER),
        Task::Setup(_) => ("pw/", 0),
    };
    let guest = guest_binary();
    let mut tar = tar::Builder::new(Vec::with_capacity(guest.len() + 8_192));
    let mut folder = |path: &str, owner: u32| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_uid(owner.into());
        header.set_gid(owner.into());
        header.set_size(0);
        tar.append_data(&mut header, path, std::io::empty())
    };
    if !prefix.is_empty() {
        folder(prefix, 0)?;
    }
    folder(&format!("{prefix}workspace/"), owner)?;
    if let Task::Setup(_) = task {
        folder(&format!("{}/", HOME.trim_start_matches('/')), 0)?;
    }
    if task == Task::Work {
        folder(&format!("{}/", programs::FOLDER), 0)?;
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
            let path = format!("{}/{name}", programs::FOLDER);
            tar.append_link(&mut header, path, "../patchwright-guest")?;
        }
    }
    tar.into_inner()
}

/// A part of a container's name: what Docker does not allow becomes `-`.
pub(super) fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.chars().map(|c| if is_plain(c) { c } else { '-' }).take(64).collect()
}
