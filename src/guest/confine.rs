//! Takes rights away from the guest and from the commands that it runs.
//!
//! In a container the container is the wall, and this is a second one: no core dumps, no new
//! privileges, a list of system calls that no build needs ([`super::seccomp`]), and commands that
//! cannot signal or trace the guest. In the local sandbox this is the wall: [`restrict_guest`]
//! limits files with Landlock and network with seccomp before the guest takes its first request.
//! Everything is inherited by every command. What could be had is reported, never assumed.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::mount::MountFlags;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::seccomp;

/// The newest Landlock that this file knows; older kernels give what they have.
const NEWEST: ABI = ABI::V6;

/// Files that one command can have open.
const OPEN_FILES: u64 = 4096;

/// Largest single file that a process may write, in bytes.
const FILE_BYTES: u64 = 2 << 30;

/// Inodes of the folders for temporary files, each.
const TMP_INODES: u32 = 200_000;

const SHARED_MEMORY: &str = "/dev/shm";
/// Bytes of [`SHARED_MEMORY`].
const SHARED_BYTES: u64 = 64 << 20;

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
    /// The folder of temporary files.
    pub tmp: Option<PathBuf>,
    /// The home folder, when it is to be bounded like the temporary files.
    pub home: Option<PathBuf>,
    /// Most bytes of the temporary files and of the home folder, each, when the guest has its own
    /// mount namespace.
    pub tmp_bytes: Option<u64>,
    /// Control groups to enter, made and bounded by the host.
    pub groups: Vec<PathBuf>,
    /// Most processes, where no group bounds them.
    pub max_processes: Option<u64>,
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

/// Keeps to this process what it inherited besides its standard streams: an open folder or pipe of
/// whoever started Patchwright is a hole in the wall, which no rule about paths closes.
#[expect(unsafe_code, reason = "inherited files have a number and no owner")]
fn keep_inherited_files() {
    for entry in fs_err::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number: &i32| *number > 2) else { continue };
        // SAFETY: borrowed for one call, which does nothing but fail when the file is closed by then.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC);
    }
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
    keep_inherited_files();
    let mut report = Vec::new();
    match seccomp::deny_kernel_surface() {
        Ok(()) => report.push("seccomp: no kernel administration".to_owned()),
        Err(err) => report.push(format!("seccomp: not in force ({err})")),
    }
    if let Err(err) = seccomp::deny_odd_sockets() {
        report.push(format!("seccomp: sockets of every kind ({err})"));
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
        return Err(
            "hosts can be allowed only in a network namespace, which this machine does not \
                    give to an ordinary user"
                .to_owned(),
        );
    }
    keep_inherited_files();
    enter(&bounds.groups)?;
    let (furnished, has_shared_memory) = furnish(bounds);
    report.extend(furnished);
    limit(bounds).map_err(|err| format!("cannot set limits: {err}"))?;
    drop_capabilities().map_err(|err| format!("cannot drop capabilities: {err}"))?;
    let status = restrict_files(bounds, has_shared_memory, relay)
        .map_err(|err| format!("cannot confine: {err}"))?;
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
    if let LandlockStatus::Available { effective_abi, kernel_abi } = status.landlock {
        report.push(format!("landlock ABI: {}", kernel_abi.unwrap_or(effective_abi as i32)));
    }
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

/// Enters the groups: everything that is started from now on is in them.
fn enter(groups: &[PathBuf]) -> Result<(), String> {
    for group in groups {
        let procs = group.join("cgroup.procs");
        fs_err::write(procs, "0").map_err(|err| format!("cannot enter a control group: {err}"))?;
    }
    Ok(())
}

/// Mounts of the sandbox's own, where it may make any: bounded folders for temporary files, as a
/// container has them. What cannot be had is reported; also whether there is shared memory.
fn furnish(bounds: &Bounds) -> (Vec<String>, bool) {
    let mut report = Vec::new();
    let mut has_shared_memory = false;
    if let Some(bytes) = bounds.tmp_bytes {
        let small = [bounds.tmp.as_deref(), bounds.home.as_deref()];
        let mounted =
            small.into_iter().flatten().all(|path| mount_memory(path, bytes, 0o700).is_ok());
        let (what, size) =
            (if bounds.home.is_some() { "/tmp and home" } else { "/tmp" }, bytes >> 20);
        report.push(match mounted {
            true if bounds.home.is_some() => format!("{what}: {size} MiB each"),
            true => format!("{what}: {size} MiB"),
            false => format!("{what}: not bounded"),
        });
        let shared = mount_memory(Path::new(SHARED_MEMORY), SHARED_BYTES, 0o1777);
        has_shared_memory = shared.is_ok();
    }
    if let Some(tmp) = &bounds.private_tmp {
        match rustix::mount::mount_bind(tmp, "/tmp") {
            Ok(()) => report.push("/tmp: private".to_owned()),
            Err(err) => report.push(format!("/tmp: shared ({err})")),
        }
    }
    (report, has_shared_memory)
}

/// An empty folder in memory over another one.
fn mount_memory(path: &Path, bytes: u64, mode: u32) -> std::io::Result<()> {
    let options = format!("size={bytes},nr_inodes={TMP_INODES},mode={mode:o}");
    let options = std::ffi::CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, options.as_c_str())?;
    Ok(())
}

/// Limits of each process, and where no group counts them, of their number.
fn limit(bounds: &Bounds) -> rustix::io::Result<()> {
    let set = |resource, most: u64| {
        let hard = rustix::process::getrlimit(resource).maximum;
        let most = Some(hard.map_or(most, |hard| hard.min(most)));
        rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })
    };
    set(Resource::Fsize, FILE_BYTES)?;
    bounds.max_processes.map_or(Ok(()), |most| set(Resource::Nproc, most))
}

/// Gives up every capability: those of root, and those that come with a user namespace. Without new
/// privileges no program gets them back.
fn drop_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    for capability in CapabilitySet::all() {
        // Who may not do this can get none back either: there are no new privileges.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    rustix::thread::clear_ambient_capability_set()?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

fn restrict_files(
    bounds: &Bounds,
    has_shared_memory: bool,
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
    if has_shared_memory {
        rules = allow(rules, Path::new(SHARED_MEMORY), everything)?;
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
