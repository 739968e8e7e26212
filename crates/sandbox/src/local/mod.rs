//! The sandbox without Docker: the same guest as a child process that confines itself.
//!
//! Commands see a file system of their own ([`patchwright_guest::view`]), of which they write to three folders
//! (Landlock too), there is no network but a loopback of their own ([`isolation`]; seccomp closes sockets of other
//! kinds); where the kernel lets an ordinary user make them, a process namespace hides other processes,
//! and where groups can be made, memory, processes and processors are bounded ([`group`]). It is chosen
//! explicitly or by commands that say so, never as a silent replacement for Docker. A machine that does not
//! give a file system of its own, or cannot confine, is refused.
//!
//! Setup commands run once per (repository, commands, hosts, lock files, programs of the machine) in a sandbox of their own, under
//! the same confinement, with the hosts that setup may reach and no others; what they leave in workspace and
//! home is copied into every sandbox ([`setup`]).

mod folders;
mod group;
mod guest_file;
mod isolation;
mod programs;
mod setup;

use parking_lot::Mutex;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use self::folders::Folders;
use self::group::Group;
use self::isolation::Isolation;
use super::{
    ContainerLimits, ImageSpec, PreparedImage, Running, Sandbox, SandboxError, SandboxSpec, Stop,
};
use crate::client::{Client, GuestError};
use crate::services::ServiceState;
use patchwright_guest::view;

/// How long a guest may take to say hello. Milliseconds, unless the machine is overloaded.
const HELLO: Duration = Duration::from_secs(20);

/// How long it may take to end after its input was closed.
const FAREWELL: Duration = Duration::from_secs(10);
/// Where pip and npm, cargo and Go put programs for one user, in the home folder.
const OWN_PROGRAMS: [&str; 3] = [".local/bin", ".cargo/bin", "go/bin"];
/// Why a service is not started.
const NO_SERVICES: &str = "services need containers, and this is the local sandbox";

/// Starts sandboxes below one folder of the state directory.
pub struct LocalSandbox {
    base: PathBuf,
    toolchains: isolation::Toolchains,
    /// Found out once.
    isolation: OnceCell<Option<Isolation>>,
}

/// Where a guest is to serve, and what it is held to.
#[derive(Clone, Copy)]
struct GuestLaunch<'a> {
    guest: &'a Path,
    folders: &'a Folders,
    group: &'a Group,
    spec: &'a SandboxSpec,
}

impl LocalSandbox {
    /// Sandboxes live in `base/sandboxes`, the guest in `base/guest`.
    pub fn new(base: PathBuf) -> LocalSandbox {
        let toolchains = isolation::Toolchains::of_this_user();
        LocalSandbox { base, toolchains, isolation: OnceCell::new() }
    }

    /// A fresh sandbox with a serving guest. `template` is what setup left.
    async fn launch(
        &self,
        spec: &SandboxSpec,
        template: Option<&Path>,
    ) -> Result<Running, SandboxError> {
        let guest = guest_file::install(&self.base)?;
        let folders = Folders::create(&self.base, &spec.run, spec.purpose)?;
        let group = Group::create(&folders.name(), &spec.limits);
        let started = async {
            folders.note_group(&group)?;
            if let Some(template) = template {
                folders.fill(template)?;
            }
            let place = GuestLaunch { guest: &guest, folders: &folders, group: &group, spec };
            self.serve_isolated(&place).await
        };
        match started.await {
            Ok((isolation, child, client)) => {
                let mut enforced = client.hello().confinement.clone();
                if let Some(egress) = &spec.egress {
                    egress.relay(&client);
                    enforced.push(egress.report());
                }
                enforced.push(isolation.report());
                enforced.extend(group.report(&spec.limits, isolation.counts_processes()));
                enforced.push(spec.limits.workspace_report());
                let id = folders.top.display().to_string();
                let workspace = view::WORKSPACE.to_owned();
                let stopper = Box::new(LocalStop { folders, group, child: Mutex::new(child) });
                let services = spec.services.iter();
                let services = services.map(|it| ServiceState::absent(it, NO_SERVICES)).collect();
                Ok(Running { client, id, workspace, services, enforced, stopper })
            }
            Err(err) => {
                // The error that ended the start is the one to report.
                group.remove();
                let _ = folders.remove();
                Err(err)
            }
        }
    }

    /// The command line of the guest.
    fn guest_argv(&self, place: &GuestLaunch<'_>, isolation: Isolation) -> Vec<OsString> {
        let GuestLaunch { guest, folders, group, spec } = *place;
        let mut argv: Vec<OsString> = isolation.wrap(guest);
        argv.extend(["serve", "--confine", "--workspace"].map(OsString::from));
        argv.push(folders.workspace().into());
        for (option, path) in [("--home", folders.home()), ("--root", folders.root())] {
            argv.extend([option.into(), path.into()]);
        }
        argv.extend(["--tmp-bytes".into(), spec.limits.tmp_bytes.to_string().into()]);
        // What setup leaves there is copied, from outside and into it.
        if spec.purpose != setup::PURPOSE && spec.image.reference.is_empty() {
            argv.push("--bound-home".into());
        }
        if spec.egress.is_some() {
            argv.push("--relay".into());
        }
        let ContainerLimits { workspace_bytes, workspace_files, .. } = spec.limits;
        for (option, most) in [("--max-bytes", workspace_bytes), ("--max-files", workspace_files)] {
            argv.extend([option.into(), most.to_string().into()]);
        }
        for path in &self.toolchains.read {
            argv.extend(["--read".into(), path.into()]);
        }
        for path in &self.toolchains.programs {
            argv.extend(["--programs".into(), path.into()]);
        }
        for path in &self.toolchains.emptied {
            argv.extend(["--emptied".into(), path.into()]);
        }
        for folder in group.folders() {
            argv.extend(["--group".into(), folder.into()]);
        }
        if isolation.counts_processes() && !group.bounds_processes() {
            argv.extend(["--max-processes".into(), spec.limits.pids.to_string().into()]);
        }
        argv
    }

    /// A guest behind the strongest isolation that this machine gives.
    ///
    /// Nearly every machine gives the strongest there is, so the guest itself is the first trial of it. What else there
    /// is, is only looked for when it did not start.
    async fn serve_isolated(
        &self,
        place: &GuestLaunch<'_>,
    ) -> Result<(Isolation, Child, Client), SandboxError> {
        if !self.isolation.initialized() {
            match self.serve(place, Isolation::STRONGEST).await {
                Ok((child, client)) => {
                    // Another launch may have found the same.
                    let _ = self.isolation.set(Some(Isolation::STRONGEST));
                    return Ok((Isolation::STRONGEST, child, client));
                }
                Err(err) => tracing::debug!(%err, "the strongest isolation was tried"),
            }
        }
        if !self.isolation.initialized() {
            // What keeps the guest itself from starting says nothing of namespaces.
            guest_file::repair(&self.base)?;
            guest_file::try_start(place.guest).await?;
        }
        let isolation = *self.isolation.get_or_init(|| Isolation::find(place.guest)).await;
        let isolation = isolation.ok_or_else(isolation::refused)?;
        let (child, client) = self.serve(place, isolation).await?;
        Ok((isolation, child, client))
    }

    async fn serve(
        &self,
        place: &GuestLaunch<'_>,
        isolation: Isolation,
    ) -> Result<(Child, Client), SandboxError> {
        let argv = self.guest_argv(place, isolation);
        let GuestLaunch { folders, spec, .. } = *place;
        let log = folders.log()?;
        let path = search_path(spec, folders, self.toolchains.path());
        let path = spec.image.path(view::WORKSPACE, &path).unwrap_or(path);
        #[expect(clippy::disallowed_methods, reason = "this is where the guest is started")]
        let spawned = Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(folders.workspace())
            .env_clear()
            .envs(&self.toolchains.env)
            .envs(&spec.image.env)
            .envs(&spec.env)
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child =
            spawned.map_err(|err| SandboxError::Other(format!("cannot start the guest: {err}")))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SandboxError::Other("the guest has no standard streams".to_owned()));
        };
        folders.note_guest(child.id())?;
        match Client::connect(stdout, stdin, HELLO).await {
            Ok(client) => Ok((child, client)),
            Err(err) => {
                // Whoever closes the stream and ends may still be about to say why.
                if matches!(err, GuestError::Gone(_)) {
                    let _ = tokio::time::timeout(FAREWELL, child.wait()).await;
                }
                // Another attempt may follow in the same folders.
                let _ = child.kill().await;
                let said = folders.last_words();
                Err(SandboxError::Other(format!("the local sandbox does not start: {err}{said}")))
            }
        }
    }
}

/// `PATH` with the folders in front into which a user who may not write to the system installs programs: all of them while
/// setup runs, and afterwards those that it has made.
fn search_path(spec: &SandboxSpec, folders: &Folders, of_machine: &str) -> String {
    let is_setup = spec.purpose == setup::PURPOSE;
    let is_wanted = |folder: &&&str| {
        is_setup || (!spec.image.reference.is_empty() && folders.home().join(folder).is_dir())
    };
    let own =
        OWN_PROGRAMS.iter().filter(is_wanted).map(|folder| format!("{}/{folder}", view::HOME));
    own.chain([of_machine.to_owned()]).collect::<Vec<_>>().join(":")
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn prepare(&self, spec: &ImageSpec<'_>) -> Result<PreparedImage, SandboxError> {
        let programs = programs::seen(self.toolchains.path());
        if spec.setup.is_empty() {
            let (description, stamp) = ("local".to_owned(), hex::encode(programs));
            return Ok(PreparedImage { stamp, description, ..PreparedImage::default() });
        }
        setup::prepare(self, spec, &programs).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Running, SandboxError> {
        let reference = &spec.image.reference;
        let template = (!reference.is_empty()).then(|| Path::new(reference));
        self.launch(spec, template).await
    }

    async fn sweep(&self, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
        folders::sweep(&self.base, run)
    }
}

/// Takes one sandbox down.
struct LocalStop {
    folders: Folders,
    group: Group,
    child: Mutex<Child>,
}

#[async_trait]
impl Stop for LocalStop {
    async fn stop(self: Box<Self>) -> Result<(), SandboxError> {
        let LocalStop { folders, group, child } = *self;
        let mut child = child.into_inner();
        // Its input is closed by now: it kills what it started and ends.
        if tokio::time::timeout(FAREWELL, child.wait()).await.is_err() {
            folders.kill_guest();
            let _ = child.kill().await;
        }
        group.remove();
        folders.remove()
    }

    async fn exit_reason(&self) -> Option<String> {
        let mut child = self.child.lock();
        let status = child.try_wait().ok()??;
        if self.group.out_of_memory().is_some_and(|count| count > 0) {
            return Some(format!("out of memory (the guest ended with {status})"));
        }
        Some(format!("the guest ended with {status}{}", self.folders.last_words()))
    }
}
