//! Where commands run.
//!
//! [`Sandbox`] is a seam with three shipping implementations: Docker ([`docker`]), pods ([`kubernetes`]) and the local
//! one ([`local`]: the same guest, confined by Landlock and seccomp). All end in a [`Running`] sandbox
//! whose [`Client`] speaks to the guest in it.

pub mod client;
pub mod collected;
mod connection;
pub mod disk;
pub mod docker;
pub mod egress;
mod environment;
mod failure;
pub mod image;
pub mod kubernetes;
pub mod local;
pub mod packed;
pub mod services;
pub mod setup;
mod setup_cache;
mod streams;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::Access;
use rustix::io::Errno;
use secrecy::SecretString;

use patchwright_guest::enforced::{Bound, Enforced};
use patchwright_guest::tool::OutOfMemory;

pub use failure::JOIN_DOCKER;
pub use patchwright_embedded::{GUEST_SIZE, GUEST_VERSION, guest_binary};

use crate::client::Client;
use crate::egress::Egress;
use crate::packed::Packed;
use crate::services::{Service, ServiceState};
use crate::setup::SetupRun;

/// Starts places to work in.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// `docker`, `kubernetes` or `local`.
    fn name(&self) -> &'static str;

    /// Makes the image ready that `spec` asks for: pulls it when absent, runs setup commands once
    /// per (repository, image, setup, lock files) and caches the result. Returns what `start` takes
    /// as image.
    async fn prepare(&self, spec: &ImageSpec<'_>) -> Result<PreparedImage, SandboxError>;

    /// Starts a fresh, empty sandbox with a serving guest in it.
    async fn start(&self, spec: &SandboxSpec) -> Result<Running, SandboxError>;

    /// Removes what killed runs left: everything with our labels and this run id, or, without a run
    /// id, everything of ours whose owner process is gone.
    async fn sweep(&self, run: Option<&str>) -> Result<Vec<String>, SandboxError>;

    /// Removes what is kept ready for later runs. It can be used again.
    async fn drop_warm(&self) {}

    /// Waits until what somebody gave up on the way is removed.
    async fn settled(&self) {}
}

/// What to make ready before a run.
#[derive(Clone, Debug)]
pub struct ImageSpec<'a> {
    /// What tells the repository from every other one (part of the cache key: its tree decides what
    /// setup leaves, so no repository may get what was set up in another one's).
    pub repository: String,
    /// From the configuration; otherwise chosen by what the repository is.
    pub image: Option<&'a str>,
    /// Who says so.
    pub named_by: image::NamedBy,
    /// Shell commands, run as root in a container of their own. One that fails is
    /// recorded, and the next one runs.
    pub setup: &'a [String],
    /// Variables of these commands, and of nothing else: secrets of registries. What of them the commands leave in
    /// a file is removed with the file.
    pub setup_secrets: &'a [(String, SecretString)],
    /// A command that fails is an error instead.
    pub setup_required: bool,
    /// No other run may start from what setup leaves: a model has written the tree.
    pub is_for_this_run: bool,
    /// Hosts that setup may reach; none means no network.
    pub setup_hosts: &'a [String],
    /// The relay to those hosts; `None` when no host or every host (`*`) is allowed.
    pub setup_egress: Option<Arc<Egress>>,
    pub setup_timeout: Duration,
    /// Bytes that setup may write in all.
    pub setup_bytes: u64,
    /// Bytes of memory of all its processes together.
    pub setup_memory: u64,
    /// Names of the files in the root folder of the repository (decide the image by kind).
    pub root_files: &'a [String],
    /// What tells the contents of lock files from others, by path (part of the cache key).
    pub lock_files: &'a [(String, Vec<u8>)],
    /// The tree that setup runs in. It is not part of the cache key, so it has to be one that every run
    /// on this repository may start from.
    pub tree: Option<&'a Packed>,
    /// What a killed attempt of this run had when the same was asked for: taken where it is still there, whatever a
    /// name means by now and whatever others have set up since.
    pub begun_with: Option<&'a PreparedImage>,
    pub run: &'a str,
}

impl<'a> ImageSpec<'a> {
    /// The bounds of what setup runs in.
    pub(crate) fn setup_limits(&self) -> ContainerLimits {
        ContainerLimits {
            workspace_bytes: self.setup_bytes,
            memory_bytes: self.setup_memory,
            ..ContainerLimits::default()
        }
    }

    /// Without any setup: just the image, or what the sandbox is otherwise made of.
    pub fn plain(repository: String, image: Option<&'a str>, run: &'a str) -> ImageSpec<'a> {
        ImageSpec {
            repository,
            image,
            named_by: image::NamedBy::Operator,
            setup: &[],
            setup_secrets: &[],
            setup_required: false,
            is_for_this_run: false,
            setup_hosts: &[],
            setup_egress: None,
            setup_timeout: Duration::ZERO,
            setup_bytes: ContainerLimits::default().workspace_bytes,
            setup_memory: ContainerLimits::default().memory_bytes,
            root_files: &[],
            lock_files: &[],
            tree: None,
            begun_with: None,
            run,
        }
    }
}

/// An image that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedImage {
    /// What the sandbox is given: for Docker a name, or the id of a cached setup image; for pods a name, or the folder
    /// with what setup left.
    pub reference: String,
    /// What tells it from another one with the same reference; empty where the reference does.
    pub stamp: String,
    /// What was asked for, so that whoever asked knows it again.
    pub asked: String,
    /// For the report: name and digest.
    pub description: String,
    /// How each command of setup went, also when that was in an earlier run.
    pub setup: Vec<SetupRun>,
    /// Setup was done by an earlier run.
    pub is_cached: bool,
    /// Variables of every command in it.
    pub env: BTreeMap<String, String>,
    /// Folders of the workspace that come first in `PATH`, relative to it.
    pub paths: Vec<String>,
}

impl PreparedImage {
    /// `PATH` with the folders of setup in front, where there are some.
    fn path(&self, workspace: &str, path: &str) -> Option<String> {
        let is_plain = |folder: &&String| !folder.contains(':');
        let folders = self.paths.iter().filter(is_plain);
        let front: Vec<String> = folders.map(|folder| format!("{workspace}/{folder}")).collect();
        (!front.is_empty()).then(|| format!("{}:{path}", front.join(":")))
    }
}

/// What a sandbox is started with.
#[derive(Clone, Debug)]
pub struct SandboxSpec {
    pub image: PreparedImage,
    /// The run's id: label, and part of every name.
    pub run: String,
    /// What it is for: `agent`, `baseline`, `evidence`.
    pub purpose: &'static str,
    pub env: BTreeMap<String, String>,
    pub limits: ContainerLimits,
    /// What commands may reach, over the relay; nothing when absent.
    pub egress: Option<Arc<Egress>>,
    /// Servers beside it.
    pub services: Vec<Service>,
}

/// Bounds of one sandbox; the defaults are those of `docs/sandbox.md`.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ContainerLimits {
    pub memory_bytes: u64,
    pub cpus: f64,
    pub pids: u32,
    /// Bounded size of /tmp and of the home folder, each.
    pub tmp_bytes: u64,
    /// The guest ends commands that make the workspace grow beyond this.
    pub workspace_bytes: u64,
    pub workspace_files: u64,
}

impl ContainerLimits {
    /// What the guest watches, for the report.
    pub fn workspace_report(&self) -> Enforced {
        Enforced::Workspace { mib: self.workspace_bytes >> 20, files: self.workspace_files }
    }

    /// What is most likely wrong when a sandbox with these limits does not start: a number without its unit, or too few
    /// processes for the sandbox's own. `None` when they are not conspicuously small.
    pub fn hint_when_it_fails(&self) -> Option<String> {
        const LEAST_MEMORY: u64 = 16 << 20;
        const LEAST_PIDS: u32 = 32;
        let ContainerLimits { memory_bytes, pids, .. } = self;
        if *memory_bytes < LEAST_MEMORY {
            return Some(format!(
                "`container.memory` is {memory_bytes} bytes, with which hardly anything starts: give it a unit, as in `4g`"
            ));
        }
        (*pids < LEAST_PIDS).then(|| {
            format!(
                "`container.pids` is {pids}, and the sandbox has processes and threads of its own: raise it, or leave it out"
            )
        })
    }
}

impl Default for ContainerLimits {
    fn default() -> ContainerLimits {
        ContainerLimits {
            memory_bytes: 4 << 30,
            cpus: 2.0,
            pids: 512,
            tmp_bytes: 1 << 30,
            workspace_bytes: 10 << 30,
            workspace_files: 2_000_000,
        }
    }
}

/// A sandbox with a serving guest. Dropping it does not stop it: call [`Running::stop`]; the sweep
/// finds what was not stopped.
pub struct Running {
    pub client: Client,
    /// Container id, name of the pod, or the folder of the local sandbox.
    pub id: String,
    /// Absolute path of the workspace as commands in it see it.
    pub workspace: String,
    /// What became of the services that were asked for.
    pub services: Vec<ServiceState>,
    /// What is enforced, for the report.
    pub enforced: Vec<Enforced>,
    pub stopper: Box<dyn Stop>,
}

impl Running {
    /// Why the sandbox died (`out of memory`, `removed`); `None` when it still works. Ask this after
    /// the client has reported a lost guest, for the reason that goes into the report.
    pub async fn exit_reason(&self) -> Option<String> {
        self.stopper.exit_reason().await
    }

    /// What the last [`Running::exit_reason`] came to, when the sandbox died of nothing of its own.
    pub fn trouble(&self) -> Option<EngineTrouble> {
        self.stopper.trouble()
    }

    /// The services that were ready and run no more, with the reason.
    pub async fn ended_services(&self) -> Vec<ServiceState> {
        self.stopper.ended_services().await
    }

    /// What all processes in it may have of memory together, in MiB; `None` where nothing bounds it.
    pub fn memory_mib(&self) -> Option<u64> {
        self.enforced.iter().find_map(|one| match one {
            Enforced::Memory(Bound::AtMost(mib)) => Some(*mib),
            _ => None,
        })
    }

    /// The command that removes it, for a person; `None` where nothing has to be.
    pub fn by_hand(&self) -> Option<String> {
        self.stopper.by_hand()
    }

    /// Ends the guest and removes container and volumes. Failing to remove is reported, not fatal.
    pub async fn stop(self) -> Result<(), SandboxError> {
        let Running { client, stopper, .. } = self;
        client.close().await;
        stopper.stop().await
    }
}

/// How one sandbox is taken down.
#[async_trait]
pub trait Stop: Send + Sync {
    async fn stop(self: Box<Self>) -> Result<(), SandboxError>;
    /// The services that were ready and run no more, with the reason, as far as that is known.
    async fn ended_services(&self) -> Vec<ServiceState> {
        Vec::new()
    }
    /// The command that removes it, for a person; `None` where nothing has to be.
    fn by_hand(&self) -> Option<String> {
        None
    }
    /// Why the sandbox died, when it did (`out of memory`, `removed`), asked after a lost stream.
    async fn exit_reason(&self) -> Option<String>;
    /// What the last [`Running::exit_reason`] came to, when the sandbox died of nothing of its own.
    fn trouble(&self) -> Option<EngineTrouble> {
        None
    }
}

/// What kept a sandbox from being there, or ended it, that is nothing of its run's: others have it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineTrouble {
    /// Docker or the API server does not answer.
    Away,
    /// It answers, and gives no sandbox to anybody: a quota, no room, a full disk, a right or a policy that is missing, a
    /// registry that does not give the operator's image.
    Refuses,
    /// The cluster took the sandbox away, or the connection to it, or to Docker, broke.
    TookAway,
}

/// Why there is no sandbox, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("Docker does not answer at `{host}`: {message}")]
    NoDocker { host: String, message: String },
    /// The Kubernetes API, or what the cluster made of a pod, with the next step where there is one.
    #[error("{message}")]
    Kubernetes { message: String, hint: Option<String>, trouble: Option<EngineTrouble> },
    #[error("image `{image}` is not there and could not be pulled: {message}")]
    NoImage { image: String, message: String },
    #[error(
        "setup command `{command}` failed with exit code {exit_code}{}",
        setup::memory(*exit_code, *out_of_memory)
    )]
    Setup {
        command: String,
        exit_code: i32,
        /// Processes of it were ended, because memory ran out.
        out_of_memory: Option<OutOfMemory>,
        output: String,
        /// Hosts that it asked for and that setup may not reach.
        refused: Vec<String>,
        /// Why hosts that it may reach gave it no answer.
        unreached: Vec<String>,
        /// Setup could reach no host at all.
        is_offline: bool,
    },
    #[error("setup command `{command}` had not ended when the time for setup was up ({limit:?})")]
    SetupTime { command: String, limit: Duration, output: String },
    #[error("the container is looser than asked for: {0}")]
    HardeningMismatch(String),
    #[error("the sandbox is gone: {0}")]
    Gone(String),
    /// The engine did not answer in the middle of it.
    #[error("the sandbox is gone: {0}")]
    EngineBroken(String),
    #[error("no space left: {0}")]
    DiskFull(String),
    /// The engine has no room for what everybody needs of it.
    #[error("no space left on the disk of Docker: {0}")]
    EngineFull(String),
    /// A folder of the local sandbox, on this machine.
    #[error("cannot {verb} `{path}`: {cause}")]
    Folder { verb: String, path: String, cause: std::io::Error },
    /// The file of the local sandbox's guest, or a folder that it lies in, with the next step.
    #[error("the guest of the local sandbox {trouble}: `{path}`")]
    GuestFile { path: String, trouble: String, hint: &'static str },
    #[error("{0}")]
    Other(String),
}

impl SandboxError {
    /// Docker's socket is there, and this user may not use it.
    pub fn is_closed_socket(&self) -> bool {
        let SandboxError::NoDocker { host, .. } = self else { return false };
        let may = host
            .strip_prefix("unix://")
            .map(|socket| rustix::fs::access(socket, Access::READ_OK | Access::WRITE_OK));
        may == Some(Err(Errno::ACCESS))
    }

    /// An image could not be pulled because its registry, or the way there, gives nobody anything at the moment.
    pub fn is_of_registry(&self) -> bool {
        matches!(self, SandboxError::NoImage { message, .. } if image::is_out(message))
    }

    /// What of it is nothing of the run's.
    pub fn trouble(&self) -> Option<EngineTrouble> {
        match self {
            SandboxError::NoDocker { .. } => Some(EngineTrouble::Away),
            SandboxError::Kubernetes { trouble, .. } => *trouble,
            // It may answer again when somebody asks.
            SandboxError::EngineBroken(_) => Some(EngineTrouble::TookAway),
            SandboxError::EngineFull(_) => Some(EngineTrouble::Refuses),
            SandboxError::NoImage { .. }
            | SandboxError::Setup { .. }
            | SandboxError::SetupTime { .. }
            | SandboxError::HardeningMismatch(_)
            | SandboxError::Gone(_)
            | SandboxError::DiskFull(_)
            | SandboxError::Folder { .. }
            | SandboxError::GuestFile { .. }
            | SandboxError::Other(_) => None,
        }
    }
}
