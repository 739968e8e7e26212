//! Container engines of other kinds than the machine's own, each with its data in a temporary folder and ended with
//! the test: Docker with remapped users, rootless Docker, and Podman of both kinds.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::docker::{BUSYBOX, IMAGE, is_required};

/// Whom rootless engines run as where the tests run as root; `./test` makes it.
const USER: &str = "patchwright-test";
/// Where Debian's package has Docker's own script, and where others have it.
const ROOTLESS: [&str; 3] = [
    "/usr/share/docker.io/contrib/dockerd-rootless.sh",
    "/usr/bin/dockerd-rootless.sh",
    "/usr/local/bin/dockerd-rootless.sh",
];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long one may take to answer.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `dockerd --userns-remap`.
    Remapped,
    Rootless,
    Podman,
    RootlessPodman,
}

pub(crate) struct OtherEngine {
    kind: Kind,
    folder: PathBuf,
    daemon: Child,
    /// For `DOCKER_HOST`.
    pub(crate) host: String,
}

impl OtherEngine {
    /// One of this kind, with the test images; `None` (and one line on standard error) where this machine has not
    /// got what it needs and nobody insists.
    pub(crate) fn start(kind: Kind) -> Option<OtherEngine> {
        match OtherEngine::try_start(kind) {
            Ok(engine) => Some(engine),
            Err(why) => {
                assert!(!is_required(), "{kind:?}: {why}; `./test` installs what it needs");
                eprintln!("{kind:?}: not available, skipped: {why}");
                None
            }
        }
    }

    fn try_start(kind: Kind) -> Result<OtherEngine, String> {
        let folder = tempfile::tempdir().map_err(|err| err.to_string())?.keep();
        let path = |name: &str| folder.join(name).display().to_string();
        let socket = path("docker.sock");
        let host = format!("unix://{socket}");
        // What ours shares with others: no bridge, no rules.
        let apart = ["--bridge=none", "--iptables=false", "--ip6tables=false", "-H", &host];
        let places = [
            ("--data-root", path("data")),
            ("--exec-root", path("exec")),
            ("--pidfile", path("pid")),
        ];
        let places = places.iter().flat_map(|(flag, place)| [*flag, place.as_str()]);
        let mut command = match kind {
            Kind::Remapped => {
                // In a network of its own: a daemon without a bridge removes the `docker0` of the one it is in, which
                // is that of the machine's own engine.
                as_root("dockerd")?;
                let mut command = as_root("unshare")?;
                command.args(["--net", "dockerd", "--userns-remap=default"]);
                command.args(places).args(apart);
                command
            }
            Kind::Rootless => {
                let script = ROOTLESS.iter().find(|path| std::path::Path::new(path).exists());
                let script = script.ok_or("there is no dockerd-rootless.sh")?;
                let mut command = unprivileged_command(&folder)?;
                // A network of its own where anybody may use the device for it: Docker 26 answers no `version`
                // without. No sandbox has one.
                let device = fs_err::metadata("/dev/net/tun");
                let (network, ports) = if device.is_ok_and(|it| it.mode() & 0o6 == 0o6) {
                    ("slirp4netns", "builtin")
                } else {
                    ("host", "none")
                };
                command
                    .arg(format!("DOCKERD_ROOTLESS_ROOTLESSKIT_NET={network}"))
                    .arg(format!("DOCKERD_ROOTLESS_ROOTLESSKIT_PORT_DRIVER={ports}"))
                    .arg(script)
                    .args(["--data-root", &path("data")])
                    .args(apart);
                command
            }
            Kind::Podman => podman(as_root("podman")?, &folder, &host),
            Kind::RootlessPodman => {
                let mut command = unprivileged_command(&folder)?;
                command.arg("podman");
                podman(command, &folder, &host)
            }
        };
        let log = fs_err::File::create(folder.join("log")).map_err(|err| err.to_string())?;
        let (out, err) = (log.try_clone().map_err(|err| err.to_string())?, log);
        let daemon = command
            // Podman's monitor leaves a file named `oom` where it is started.
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(out.into_parts().0)
            .stderr(err.into_parts().0)
            .spawn()
            .map_err(|err| format!("{command:?}: {err}"))?;
        let engine = OtherEngine { kind, folder, daemon, host };
        engine.answers()?;
        engine.load()?;
        Ok(engine)
    }

    fn answers(&self) -> Result<(), String> {
        let began = Instant::now();
        while !self.docker(&["version"]).status.success() {
            // The folder is ours alone.
            if !is_root()
                && let Ok(mut open) = as_root("chmod")
            {
                let _ = open.args(["-f", "666"]).arg(self.folder.join("docker.sock")).status();
            }
            if began.elapsed() > PATIENCE {
                let log = fs_err::read_to_string(self.folder.join("log")).unwrap_or_default();
                let end = log.ceil_char_boundary(log.len().saturating_sub(2_000));
                return Err(format!("it does not answer: {}", &log[end..]));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Kills its process; whatever that has started goes on.
    pub(crate) fn kill(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
    }

    /// Starts the service of a Podman for the whole machine again, with the same data.
    pub(crate) fn start_again(&mut self) {
        let _ = fs_err::remove_file(self.folder.join("docker.sock"));
        let mut command = podman(as_root("podman").unwrap(), &self.folder, &self.host);
        let log = fs_err::File::create(self.folder.join("log.restarted")).unwrap();
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null());
        self.daemon = command.stderr(log.into_parts().0).spawn().unwrap();
        self.answers().unwrap();
    }

    /// The command line of Docker, on this engine.
    pub(crate) fn docker(&self, args: &[&str]) -> std::process::Output {
        command("docker").arg("-H").arg(&self.host).args(args).output().unwrap()
    }

    fn load(&self) -> Result<(), String> {
        let temporary = tempfile::NamedTempFile::new().map_err(|err| err.to_string())?;
        let saved = temporary.path().display().to_string();
        let save = command("docker").args(["save", "-o", &saved, IMAGE, BUSYBOX]).output().unwrap();
        if !save.status.success() {
            return Err(String::from_utf8_lossy(&save.stderr).into_owned());
        }
        let load = self.docker(&["load", "-i", &saved]);
        if load.status.success() {
            Ok(())
        } else {
            Err(format!("docker load: {}", String::from_utf8_lossy(&load.stderr)))
        }
    }
}

impl OtherEngine {
    /// Has Podman end and remove its containers: their monitors outlive its service, and mount what they clean up once
    /// more after it has ended.
    fn end_containers(&self) {
        if self.kind == Kind::Podman
            && let Ok(mut podman) = as_root("podman")
        {
            at(&mut podman, &self.folder).args(["rm", "--all", "--force", "--time", "0"]);
            let _ = podman.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }

    /// The places below the folder where something is mounted, the innermost first.
    fn mounted(&self) -> Vec<PathBuf> {
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let mounts = fs_err::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        let mut places: Vec<PathBuf> = places.filter(|place| place.starts_with(&folder)).collect();
        places.reverse();
        places
    }
}

impl Drop for OtherEngine {
    fn drop(&mut self) {
        self.end_containers();
        let id = self.daemon.id().to_string();
        if let Ok(mut kill) = as_root("kill") {
            let _ = kill.args(["-TERM", &id]).status();
        }
        let began = Instant::now();
        while matches!(self.daemon.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
        }
        // One that was started again may not end by itself.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        // Podman leaves its own mounts, and those of containers that it could not end. Two of them may lie over each other.
        for _ in 0..10 {
            let mounted = self.mounted();
            if mounted.is_empty() {
                break;
            }
            for place in mounted {
                if let Ok(mut unmount) = as_root("umount") {
                    let _ = unmount.arg("--lazy").arg(place).stderr(Stdio::null()).status();
                }
            }
        }
        if let Ok(mut remove) = as_root("rm") {
            let _ = remove.arg("-rf").arg(&self.folder).status();
        }
    }
}

/// `env`, as somebody who may write to the folder and has a home and a place for sockets there, for a program.
fn unprivileged_command(folder: &std::path::Path) -> Result<Command, String> {
    let (user, run) = (unprivileged()?, folder.join("own"));
    fs_err::create_dir(&run).map_err(|err| err.to_string())?;
    give(folder, &user)?;
    // By the user's systemd, where there is one, containers get control groups of version 2. The folder for sockets
    // stays our own: the user's may have an engine already.
    let uid = command_output("id", &["-u", &user])?;
    let bus = format!("/run/user/{uid}/bus");
    let has_bus = std::path::Path::new(&bus).exists();
    let mut command = as_user(&user, has_bus.then_some(&uid));
    if has_bus {
        command.arg(format!("DBUS_SESSION_BUS_ADDRESS=unix:path={bus}"));
    }
    command
        .arg(format!("HOME={}", folder.display()))
        .arg(format!("XDG_RUNTIME_DIR={}", run.display()))
        .arg(format!("PATH={PATH}"));
    Ok(command)
}

/// The rest of the command line of a Podman.
fn podman(mut command: Command, folder: &std::path::Path, host: &str) -> Command {
    at(&mut command, folder).args(["system", "service", "--time", "0", host]);
    command
}

/// Where it has its data.
fn at<'a>(podman: &'a mut Command, folder: &std::path::Path) -> &'a mut Command {
    podman.arg("--root").arg(folder.join("data")).arg("--runroot").arg(folder.join("run"))
}

#[expect(clippy::disallowed_methods, reason = "starts engines")]
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", PATH).env_remove("DOCKER_HOST");
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program with the rights that an engine for the whole machine has.
fn as_root(program: &str) -> Result<Command, String> {
    let is_there =
        PATH.split(':').any(|folder| std::path::Path::new(folder).join(program).exists());
    if !is_there {
        return Err(format!("there is no `{program}`"));
    }
    if is_root() {
        return Ok(command(program));
    }
    let may = command("sudo").args(["-n", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return Err("this needs root, or sudo without a password".to_owned());
    }
    let mut sudo = command("sudo");
    sudo.args(["-n", program]);
    Ok(sudo)
}

/// Somebody who has numbers for the users of containers.
fn unprivileged() -> Result<String, String> {
    let user = if is_root() { USER.to_owned() } else { command_output("id", &["-un"])? };
    let known = fs_err::read_to_string("/etc/subuid").unwrap_or_default();
    if known.lines().any(|line| line.split(':').next() == Some(&user)) {
        Ok(user)
    } else {
        Err(format!("`{user}` has no numbers in /etc/subuid"))
    }
}

fn command_output(program: &str, args: &[&str]) -> Result<String, String> {
    let output = command(program).args(args).output().map_err(|err| err.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn give(folder: &std::path::Path, user: &str) -> Result<(), String> {
    if !is_root() {
        return Ok(());
    }
    let done = command("chown").args(["-R", user]).arg(folder).status();
    if done.is_ok_and(|status| status.success()) { Ok(()) } else { Err("chown failed".to_owned()) }
}

/// `env`, as somebody without rights, for variables and a program; in a control group of that user's systemd, where the
/// user's number is given: an engine outside cannot move into a container what it starts in it.
fn as_user(user: &str, systemd_of: Option<&String>) -> Command {
    if !is_root() {
        let mut command = command("env");
        command.arg("-i");
        return command;
    }
    let as_user = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "env", "-i"];
    let Some(uid) = systemd_of else {
        let mut command = command(as_user[0]);
        command.args(&as_user[1..]);
        return command;
    };
    let group =
        format!("/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service/patchwright-tests");
    let enter = "mkdir \"$0\" 2>/dev/null; echo $$ >\"$0/cgroup.procs\"; exec \"$@\"";
    let mut command = command("sh");
    command.args(["-c", enter, &group]).args(as_user);
    command
}
