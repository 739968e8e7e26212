//! Takes rights away from the guest and from the commands that it runs.
//!
//! In a container the container is the wall, and this is a second one: no core dumps, no new
//! privileges, a list of system calls that no build needs ([`super::seccomp`]), and commands that
//! cannot signal or trace the guest. In the local sandbox this is the wall: [`restrict_guest`]
//! limits files with Landlock and network with seccomp before the guest takes its first request.
//! Everything is inherited by every command. What could be had is reported, never assumed.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
    Scope,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::seccomp;

/// The newest Landlock that this file knows; older kernels give what they have.
const NEWEST: ABI = ABI::V6;

/// Files that one command can have open.
const OPEN_FILES: u64 = 4096;

/// Folders of the system that commands read and execute. The home folders, `/run` and `/var` are
/// left out: credentials and sockets live there.
const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/proc", "/sys",
];

/// Files in `/etc` that are nobody's business.
const SECRET_ETC: &[&str] = &[
    "docker",
    "gshadow",
    "gshadow-",
    "kubernetes",
    "krb5.keytab",
    "rancher",
    "shadow",
    "shadow-",
    "ssh",
    "sudoers",
    "sudoers.d",
    "wireguard",
    "NetworkManager",
    "ssl-private",
];

/// Devices that commands may write to.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// What the local sandbox leaves open.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Folders with every right: workspace, temporary files, home.
    pub write: Vec<PathBuf>,
    /// More folders and files to read and execute: toolchains, the guest itself.
    pub read: Vec<PathBuf>,
    /// Mounted over `/tmp`, when the guest has its own mount namespace.
    pub private_tmp: Option<PathBuf>,
    pub when_unenforced: WhenUnenforced,
}

/// What to do on a kernel that cannot confine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnenforced {
    /// Do not start.
    #[default]
    Refuse,
    /// Start and report it.
    Report,
}

/// Moves standard input away, so that no command inherits it; `/dev/null` takes its place.
pub fn detach_stdin() -> std::io::Result<OwnedFd> {
    let moved = rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(null)?;
    Ok(moved)
}

/// Moves standard output away, as [`detach_stdin`] does.
pub fn detach_stdout() -> std::io::Result<File> {
    let moved = rustix::io::fcntl_dupfd_cloexec(std::io::stdout().as_fd(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(null)?;
    Ok(moved.into())
}

/// For the guest and every launcher: no core dumps, nothing readable through `/proc` by others of
/// the same user, no new privileges, orphans come here.
pub fn harden_process() -> Result<(), String> {
    let all = || -> rustix::io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
        let open = rustix::process::getrlimit(Resource::Nofile);
        let maximum = open.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
        rustix::process::setrlimit(
            Resource::Nofile,
            Rlimit { current: Some(maximum), maximum: Some(maximum) },
        )?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        Ok(())
    };
    all().map_err(|err| format!("cannot take rights away: {err}"))
}

/// For a launcher: a domain of its own, so that the command can neither signal nor trace the guest
/// or another command. Best effort: kernels before 6.12 cannot do it.
pub fn restrict_command() {
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::Signal)
        .and_then(Ruleset::create)
        .and_then(RulesetCreated::restrict_self);
    // The report says whether the kernel can; there is nobody to tell here.
    drop(scoped);
}

/// What holds without confinement of our own, and the system call list on top. For containers.
pub fn restrict_contained() -> Vec<String> {
    let mut report = Vec::new();
    match seccomp::deny_kernel_surface() {
        Ok(()) => report.push("seccomp: no kernel administration".to_owned()),
        Err(err) => report.push(format!("seccomp: not in force ({err})")),
    }
    report.push(network());
    report
}

/// Confines this process and everything it will start. Must run before other threads exist. With a
/// `relay`, commands may connect to that port of the loopback; the process must be in a network
/// namespace that has nothing else, because addresses cannot be told apart here.
///
/// Fails when the kernel enforces nothing, unless the bounds say otherwise.
pub fn restrict_guest(bounds: &Bounds, relay: Option<u16>) -> Result<Vec<String>, String> {
    let mut report = Vec::new();
    if relay.is_some() && network() != NO_NETWORK {
        return Err("hosts can be allowed only in a network namespace, which this machine does not \
                    give to an ordinary user"
            .to_owned());
    }
    if let Some(tmp) = &bounds.private_tmp {
        match rustix::mount::mount_bind(tmp, "/tmp") {
            Ok(()) => report.push("/tmp: private".to_owned()),
            Err(err) => report.push(format!("/tmp: shared ({err})")),
        }
    }
    drop_capabilities().map_err(|err| format!("cannot drop capabilities: {err}"))?;
    let status = restrict_files(bounds, relay).map_err(|err| format!("cannot confine: {err}"))?;
    let enforced = match status.ruleset {
        RulesetStatus::FullyEnforced => "landlock: files fully enforced",
        RulesetStatus::PartiallyEnforced => "landlock: files enforced in part",
        RulesetStatus::NotEnforced => {
            if bounds.when_unenforced == WhenUnenforced::Refuse {
                return Err("this kernel has no Landlock, so nothing would keep commands from \
                            writing elsewhere"
                    .to_owned());
            }
            "landlock: not in force"
        }
    };
    report.push(enforced.to_owned());
    let signals = if status.ruleset == RulesetStatus::FullyEnforced {
        report.push("signals: own processes only".to_owned());
        seccomp::Signals::Scoped
    } else {
        seccomp::Signals::Unscoped
    };
    match seccomp::deny_kernel_surface().and_then(|()| seccomp::deny_reaching_out(signals, relay)) {
        Ok(()) => {
            let sockets = if relay.is_some() { "no sockets but TCP" } else { "no sockets" };
            report.push(format!("seccomp: {sockets}, no tracing, no kernel administration"));
        }
        Err(err) if bounds.when_unenforced == WhenUnenforced::Refuse => {
            return Err(format!("cannot confine: seccomp: {err}"));
        }
        Err(err) => report.push(format!("seccomp: not in force ({err})")),
    }
    report.push(network());
    Ok(report)
}

/// Gives up every capability: those of root, and those that come with a user namespace. Without new
/// privileges no program gets them back.
fn drop_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    rustix::thread::clear_ambient_capability_set()?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

fn restrict_files(
    bounds: &Bounds,
    relay: Option<u16>,
) -> Result<RestrictionStatus, landlock::RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    let everything = AccessFs::from_all(NEWEST);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for path in SYSTEM.iter().map(Path::new).chain(bounds.read.iter().map(PathBuf::as_path)) {
        let access = if path.is_dir() { read } else { AccessFs::ReadFile | AccessFs::Execute };
        rules = allow(rules, path, access)?;
    }
    rules = allow(rules, Path::new("/etc"), AccessFs::ReadDir.into())?;
    for entry in fs_err::read_dir("/etc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !SECRET_ETC.iter().any(|secret| name == **secret) {
            // Links may lead out of `/etc`: what they lead to has its own rule, or none.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                rules = allow(rules, &entry.path(), read)?;
            } else if kind.is_file() {
                rules = allow(rules, &entry.path(), AccessFs::ReadFile | AccessFs::Execute)?;
            }
        }
    }
    for path in DEVICES {
        rules = allow(rules, Path::new(path), device)?;
    }
    for path in &bounds.write {
        rules = allow(rules, path, everything)?;
    }
    if let Some(port) = relay {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    rules.restrict_self()
}

/// Adds a rule; what does not exist needs none.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    match PathFd::new(path) {
        Ok(fd) => rules.add_rule(PathBeneath::new(fd, access)),
        Err(_) => Ok(rules),
    }
}

/// There is nothing but the loopback.
const NO_NETWORK: &str = "network: none";

/// Whether this process has any network interface besides the loopback.
fn network() -> String {
    let interfaces = fs_err::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let mut names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next());
    if interfaces.is_empty() {
        "network: unknown".to_owned()
    } else if names.all(|name| name.trim() == "lo") {
        NO_NETWORK.to_owned()
    } else {
        "network: present".to_owned()
    }
}
