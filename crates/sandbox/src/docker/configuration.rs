//! The shape of our containers: what Docker is asked for. `docs/sandbox.md` lists it for people;
//! [`super::hardening`] checks that Docker did as asked. Pure; no call to Docker here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountTmpfsOptions,
    MountType, MountVolumeOptions, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};

use super::owner;
use super::pull::Image;
use super::{GUEST, HOME, Seccomp, USER, VOLUME, WORKSPACE};
use crate::egress::Egress;
use crate::environment::{self, CommandContext};
use crate::services::Service;
use crate::{ContainerLimits, PreparedImage, SandboxError};
use patchwright_guest::enforced::{self, Bound, Enforced, Home};

/// Inodes of /tmp and of the home folder, each.
const TMP_INODES: u32 = 200_000;
/// Largest single file that a process may write, in bytes.
const FILE_BYTES: i64 = 2 << 30;
/// Open files per process.
const OPEN_FILES: i64 = 4_096;
/// Bytes of /dev/shm.
pub(super) const SHM_BYTES: i64 = 64 << 20;
/// Volumes that an image may declare.
const MAX_IMAGE_VOLUMES: usize = 16;
/// What a package manager needs as root, and nothing else.
pub(crate) const SETUP_CAPABILITIES: &[&str] =
    &["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"];

/// What the container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Agent and checks: locked, read-only root, no network.
    Work,
    /// Setup commands: root with few capabilities, writable root, no volumes.
    Setup(Network),
}

/// What a setup container may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    None,
    /// Docker's default bridge.
    Bridge,
}

/// Everything that decides the shape.
pub(super) struct Shape<'a> {
    pub image: &'a Image,
    pub run: &'a str,
    pub purpose: &'static str,
    pub env: &'a BTreeMap<String, String>,
    /// What the image was prepared to; nothing at setup.
    pub prepared: Option<&'a PreparedImage>,
    pub limits: &'a ContainerLimits,
    pub task: Task,
    pub egress: Option<&'a Arc<Egress>>,
    /// Servers that will join its network.
    pub services: &'a [Service],
    /// The name of this process.
    pub owner: &'a str,
}

/// What to ask Docker for.
pub(super) fn body(shape: &Shape<'_>) -> Result<ContainerCreateBody, SandboxError> {
    let (user, name) = match shape.task {
        Task::Work => (format!("{USER}:{USER}"), "agent"),
        Task::Setup(_) => ("0:0".to_owned(), "root"),
    };
    Ok(ContainerCreateBody {
        hostname: Some("sandbox".to_owned()),
        domainname: Some(String::new()),
        user: Some(user),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        tty: Some(false),
        open_stdin: Some(false),
        env: Some(environment(shape, name)),
        entrypoint: Some(vec![GUEST.to_owned()]),
        cmd: Some(vec!["idle".to_owned()]),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(shape.image.id.clone()),
        working_dir: Some("/".to_owned()),
        labels: Some(owner::labels(shape.run, shape.purpose, shape.owner)),
        stop_signal: Some("SIGKILL".to_owned()),
        host_config: Some(host_config(shape)?),
        ..ContainerCreateBody::default()
    })
}

fn host_config(shape: &Shape<'_>) -> Result<HostConfig, SandboxError> {
    let memory = as_i64(shape.limits.memory_bytes);
    let (network, cap_add) = match shape.task {
        Task::Setup(Network::Bridge) => ("bridge", SETUP_CAPABILITIES),
        Task::Setup(Network::None) => ("none", SETUP_CAPABILITIES),
        Task::Work => ("none", &[][..]),
    };
    Ok(HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(cap_add.iter().map(|&name| name.to_owned()).collect()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        privileged: Some(false),
        network_mode: Some(network.to_owned()),
        // Services share the network of the container.
        extra_hosts: Some(
            shape.services.iter().map(|service| format!("{}:127.0.0.1", service.name)).collect(),
        ),
        ipc_mode: Some("private".to_owned()),
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: Some(nano_cpus(shape.limits)),
        pids_limit: Some(i64::from(shape.limits.pids)),
        readonly_rootfs: Some(shape.task == Task::Work),
        tmpfs: Some(tmpfs(shape)),
        mounts: Some(mounts(shape)?),
        ulimits: Some(ulimits()),
        shm_size: Some(SHM_BYTES),
        init: Some(true),
        auto_remove: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    })
}

/// /tmp is a tmpfs in both shapes (so that setup does not commit it). The home folder is one only at
/// work, and only where setup left nothing in it.
fn tmpfs(shape: &Shape<'_>) -> HashMap<String, String> {
    let bound = format!("size={},nr_inodes={TMP_INODES}", shape.limits.tmp_bytes);
    let mut tmpfs =
        HashMap::from([("/tmp".to_owned(), format!("rw,exec,nosuid,nodev,mode=1777,{bound}"))]);
    if shape.task == Task::Work && !shape.image.has_home() {
        let options = format!("rw,exec,nosuid,nodev,mode=0700,uid={USER},gid={USER},{bound}");
        tmpfs.insert(HOME.to_owned(), options);
    }
    tmpfs
}

/// Our volumes, and a bounded tmpfs over every volume that the image declares: otherwise each of them
/// would be an unbounded writable folder.
fn mounts(shape: &Shape<'_>) -> Result<Vec<Mount>, SandboxError> {
    if let Some(path) = volume_of_guest(shape.image).filter(|path| path != Path::new(VOLUME)) {
        return Err(covered(&path));
    }
    let mut mounts = image_volumes(shape.image, shape.limits, &[VOLUME, HOME, "/tmp"])?;
    let volumes: &[&str] = match shape.task {
        Task::Work if shape.image.has_home() => &[VOLUME, HOME],
        Task::Work => &[VOLUME],
        Task::Setup(_) => &[],
    };
    for path in volumes {
        mounts.push(Mount {
            target: Some((*path).to_owned()),
            typ: Some(MountType::VOLUME),
            volume_options: Some(MountVolumeOptions {
                // Only what our own setup left may be copied from the image into the volume.
                no_copy: Some(!shape.image.is_setup_result()),
                labels: Some(owner::labels(shape.run, shape.purpose, shape.owner)),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        });
    }
    Ok(mounts)
}

/// A volume that the image declares where the guest, its programs or the workspace have to be, as engines read its path.
pub(super) fn volume_of_guest(image: &Image) -> Option<PathBuf> {
    let mut declared: Vec<PathBuf> =
        image.config.volumes.iter().flatten().map(|path| cleaned(path)).collect();
    // The deepest first: that is the one which no volume of ours replaces.
    declared.sort_by(|one, other| other.cmp(one));
    declared.into_iter().find(|path| path.starts_with(VOLUME))
}

/// Without `.`, `..` and doubled slashes.
fn cleaned(path: &str) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    clean
}

/// Why no container is made from an image with such a volume.
pub(super) fn covered(path: &Path) -> SandboxError {
    SandboxError::HardeningMismatch(format!(
        "the image declares a volume at `{}`, where the guest has to be; use an image without it",
        path.display()
    ))
}

/// A bounded tmpfs over every volume that the image declares, but these.
pub(super) fn image_volumes(
    image: &Image,
    limits: &ContainerLimits,
    but: &[&str],
) -> Result<Vec<Mount>, SandboxError> {
    let declared = image.config.volumes.clone().unwrap_or_default();
    if declared.len() > MAX_IMAGE_VOLUMES {
        let message = format!(
            "the image declares {} volumes; at most {MAX_IMAGE_VOLUMES} are allowed",
            declared.len()
        );
        return Err(SandboxError::HardeningMismatch(message));
    }
    let mounts = declared
        .iter()
        .map(|path| path.trim_end_matches('/'))
        .filter(|path| !path.is_empty() && !but.contains(path))
        .map(|path| Mount {
            target: Some(path.to_owned()),
            typ: Some(MountType::TMPFS),
            tmpfs_options: Some(MountTmpfsOptions {
                size_bytes: Some(as_i64(limits.tmp_bytes)),
                mode: Some(0o1777),
                options: None,
            }),
            ..Mount::default()
        });
    Ok(mounts.collect())
}

/// Processors in the unit of Docker.
pub(super) fn nano_cpus(limits: &ContainerLimits) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a number of processors")]
    let nano = (limits.cpus * 1e9) as i64;
    nano
}

pub(super) fn ulimits() -> Vec<ResourcesUlimits> {
    vec![ulimit("core", 0), ulimit("nofile", OPEN_FILES), ulimit("fsize", FILE_BYTES)]
}

fn ulimit(name: &str, value: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(value), hard: Some(value) }
}

pub(super) fn as_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The environment: the image's toolchain variables, ours, then those of the task. A name without
/// `=` takes a variable of the image out.
fn environment(shape: &Shape<'_>, user: &str) -> Vec<String> {
    let of_image = shape.image.config.env.iter().flatten();
    let of_image = of_image.map(|variable| variable.split_once('=').unwrap_or((variable, "")));
    let place = CommandContext { home: HOME, user, workspace: WORKSPACE };
    let set = environment::of_commands(of_image, place, shape.prepared, shape.env);
    set.into_iter()
        .map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name,
        })
        .collect()
}

/// What a working container enforces, for the report.
pub(super) fn enforced(shape: &Shape<'_>, seccomp: &Seccomp) -> Vec<Enforced> {
    let limits = shape.limits;
    let home = if shape.image.has_home() { Home::Workspace } else { Home::InMemory };
    vec![
        Enforced::Network(enforced::Network::None),
        Enforced::User { id: USER, seccomp: seccomp.report() },
        Enforced::ReadOnlyRoot,
        Enforced::Memory(Bound::AtMost(limits.memory_bytes >> 20)),
        Enforced::Cpus(Bound::AtMost(limits.cpus)),
        Enforced::Processes(Bound::AtMost(limits.pids)),
        Enforced::TemporaryFiles { mib: limits.tmp_bytes >> 20, home },
        limits.workspace_report(),
    ]
}

#[cfg(test)]
mod tests {
    use bollard::models::ImageConfig;

    use crate::docker::configuration::*;

    #[test]
    fn volumes_that_cover_the_guest_are_found_however_they_are_written() {
        for (volumes, expected) in [
            (&["/data", "/pwd", "/"][..], None),
            (&["/pw/"], Some("/pw")),
            (&["/data", "/pw", "/pw/bin"], Some("/pw/bin")),
            (&["/pw/workspace/"], Some("/pw/workspace")),
            (&["/pw//./bin"], Some("/pw/bin")),
            (&["/data/../pw/patchwright-guest"], Some("/pw/patchwright-guest")),
            (&["pw/bin"], Some("/pw/bin")),
        ] {
            let declared = volumes.iter().map(|&path| path.to_owned()).collect();
            let config = ImageConfig { volumes: Some(declared), ..ImageConfig::default() };
            let image = Image { id: String::new(), description: String::new(), config, bytes: 0 };
            let found = volume_of_guest(&image);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{volumes:?}");
        }
    }

    #[test]
    fn inherits_toolchain_variables_and_no_secret() {
        let image = ImageConfig {
            env: Some(
                [
                    "PATH=/x/bin",
                    "CARGO_HOME=/c",
                    "NPM_TOKEN=t",
                    "GPG_KEY=k",
                    "SECRET_PATH=/s",
                    "TOKEN_HOME=h",
                    "PIP_INDEX_URL=u",
                    "HOME=/root",
                    "bad",
                ]
                .map(str::to_owned)
                .to_vec(),
            ),
            ..ImageConfig::default()
        };
        let (id, description) = ("sha256:00".to_owned(), "python:3".to_owned());
        let image = Image { id, description, config: image, bytes: 0 };
        let task = BTreeMap::from([("CI".to_owned(), "true".to_owned())]);
        let prepared = PreparedImage {
            env: BTreeMap::from([("GOPROXY".to_owned(), "off".to_owned())]),
            paths: vec![".venv/bin".to_owned(), "a:b".to_owned()],
            ..PreparedImage::default()
        };
        let shape = Shape {
            image: &image,
            run: "r1",
            purpose: "agent",
            env: &task,
            prepared: Some(&prepared),
            limits: &ContainerLimits::default(),
            task: Task::Work,
            egress: None,
            services: &[],
            owner: "0123456789abcdef0123456789abcdef",
        };
        assert_eq!(
            environment(&shape, "agent"),
            [
                "CARGO_HOME=/c",
                "CI=true",
                "GOPROXY=off",
                "GPG_KEY",
                "HOME=/home/agent",
                "NPM_TOKEN",
                "PATH=/pw/workspace/.venv/bin:/x/bin",
                "PIP_INDEX_URL",
                "SECRET_PATH",
                "TOKEN_HOME",
                "USER=agent",
                "bad"
            ]
        );
    }
}
