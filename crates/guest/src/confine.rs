//! Takes rights away from the guest and from the commands that it runs.
//!
//! In a container the container is the wall, and this is a second one: no core dumps, no new
//! privileges, a list of system calls that no build needs ([`super::seccomp`]), and commands that
//! cannot signal or trace the guest. In the local sandbox this is the wall: before the guest takes
//! its first request, [`restrict_guest`] enters a file system of its own ([`super::view`]) and limits files with
//! Landlock and network with seccomp.
//! Everything is inherited by every command. What could be had is reported, never assumed.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
    Scope,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{loopback, seccomp, view};
use crate::enforced::{Enforced, Network, SystemCalls};

/// The newest Landlock that this file knows; older kernels give what they have.
const NEWEST: ABI = ABI::V6;

/// Files that one command can have open.
const OPEN_FILES: u64 = 4096;

/// Largest single file that a process may write, in bytes.
const FILE_BYTES: u64 = 2 << 30;

/// What the local sandbox is made of.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The folder that becomes the workspace.
    pub workspace: PathBuf,
    /// The folder that becomes the home folder, unless that is in memory.
    pub home: PathBuf,
    /// Whether the home folder is in memory and bounded, like that of temporary files.
    pub home_is_bounded: bool,
    /// An empty folder, where the file system of commands is put together.
    pub root: PathBuf,
    /// More folders and files to read and execute: toolchains.
    pub read: Vec<PathBuf>,
    /// Folders of programs, to read and execute too, in which the user may keep private files. Those are closed.
    pub programs: Vec<PathBuf>,
    /// Files in those and in folders of the system that commands find empty.
    pub emptied: Vec<PathBuf>,
    /// Most bytes of the temporary files and of the home folder, each.
    pub tmp_bytes: u64,
    /// Control groups to enter, made and bounded by the host.
    pub groups: Vec<PathBuf>,
    /// Most processes, where no group bounds them.
    pub max_processes: Option<u64>,
    /// The newest Landlock ABI to use: what an older kernel would give.
    pub landlock_abi: Option<u64>,
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

/// For the guest and every launcher: no core dumps, bounded files, nothing readable through `/proc` by others of the same
/// user, no new privileges, orphans come here. Not every engine sets the limits that a container is asked for with.
pub fn harden_process() -> Result<(), String> {
    let all = || -> rustix::io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        limit(Resource::Core, 0)?;
        limit(Resource::Nofile, OPEN_FILES)?;
        limit(Resource::Fsize, FILE_BYTES)?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        Ok(())
    };
    all().map_err(|err| format!("cannot take rights away: {err}"))
}

/// For a launcher: a domain of its own, so that the command can neither signal nor trace the guest
/// or another command. Best effort: kernels before 6.12 cannot do it.
pub fn restrict_command() {
    // A second domain refuses to rename from one folder to another (`EXDEV`) unless a rule of its own
    // allows it; where that may be done is for the first one to say.
    let everywhere = PathFd::new("/").ok().map(|root| Ok(PathBeneath::new(root, AccessFs::Refer)));
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Refer)
        .and_then(|rules| rules.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(everywhere))
        .and_then(RulesetCreated::restrict_self);
    // The report says whether the kernel can; there is nobody to tell here.
    drop(scoped);
}

/// What holds without confinement of our own, and the system call list on top. For containers.
pub fn restrict_contained() -> Vec<Enforced> {
    keep_inherited_files();
    let mut report = Vec::new();
    report.push(Enforced::SystemCalls(match seccomp::deny_kernel_surface() {
        Ok(()) => SystemCalls::NoAdministration,
        Err(err) => SystemCalls::Unrestricted { why: err },
    }));
    if let Err(err) = seccomp::deny_odd_sockets() {
        report.push(Enforced::SystemCalls(SystemCalls::EverySocket { why: err }));
    }
    report.push(Enforced::Network(network()));
    report
}

/// Confines this process and everything it will start. Must run before other threads exist, with
/// the right to mount, in a network namespace of its own: commands may use its loopback, and neither
/// [`seccomp`] nor Landlock can tell addresses apart.
///
/// # Errors
/// When a wall that `docs/sandbox.md` calls necessary cannot be had.
pub fn restrict_guest(bounds: &Bounds) -> Result<Vec<Enforced>, String> {
    let mut report = Vec::new();
    if network() != Network::None {
        return Err(
            "no sandbox is started: it needs a network namespace of its own, and this one has more than the loopback"
                .to_owned(),
        );
    }
    keep_inherited_files();
    enter(&bounds.groups)?;
    report.extend(view::enter(bounds)?);
    // What was opened outside could be changed through there.
    let reopened = detach_stdin().map(drop).and_then(|()| detach_stdout().map(drop));
    reopened.map_err(|err| format!("cannot detach: {err}"))?;
    if let Some(most) = bounds.max_processes {
        limit(Resource::Nproc, most).map_err(|err| format!("cannot limit processes: {err}"))?;
    }
    drop_capabilities().map_err(|err| format!("cannot drop capabilities: {err}"))?;
    let status = restrict_files(bounds).map_err(|err| {
        format!("this kernel has no Landlock that limits files, so no sandbox is started: {err}")
    })?;
    report.push(Enforced::Landlock);
    if let LandlockStatus::Available { effective_abi, kernel_abi } = status.landlock {
        report.push(Enforced::LandlockAbi(kernel_abi.unwrap_or(effective_abi as i32)));
    }
    let signals = if status.ruleset == RulesetStatus::FullyEnforced {
        report.push(Enforced::Signals);
        seccomp::Signals::Scoped
    } else {
        seccomp::Signals::Unscoped
    };
    seccomp::deny_kernel_surface()
        .and_then(|()| seccomp::deny_reaching_out(signals))
        .map_err(|err| format!("cannot confine: seccomp: {err}"))?;
    report.push(Enforced::SystemCalls(SystemCalls::LoopbackOnly));
    report.push(Enforced::Network(network()));
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

/// Lowers a limit of this process and its children, which nobody without rights can raise again.
fn limit(resource: Resource, most: u64) -> rustix::io::Result<()> {
    let hard = rustix::process::getrlimit(resource).maximum;
    let most = Some(hard.map_or(most, |hard| hard.min(most)));
    rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })
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

/// Rules about files, on top of the tree that commands see. Those that the first Landlock has are necessary.
/// What newer ones add is either kept by read-only mounts too (truncation, from ABI 3) or has a line of its
/// own in the report.
fn restrict_files(bounds: &Bounds) -> Result<RestrictionStatus, landlock::RulesetError> {
    let newest = match bounds.landlock_abi {
        Some(1) => ABI::V1,
        Some(2) => ABI::V2,
        Some(3) => ABI::V3,
        Some(4) => ABI::V4,
        Some(5) => ABI::V5,
        _ => NEWEST,
    };
    let read = AccessFs::from_read(newest);
    let everything = AccessFs::from_all(newest);
    let device = (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev) & everything;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let system = view::SYSTEM.iter().copied().chain(["/etc", "/pw"]).map(Path::new);
    let own = bounds.read.iter().chain(&bounds.programs).map(PathBuf::as_path);
    for path in system.chain(own) {
        let access = if path.is_dir() { read } else { AccessFs::ReadFile | AccessFs::Execute };
        rules = allow(rules, path, access)?;
    }
    // Launchers run the file that this process was started from, which has no name any more.
    let launcher = AccessFs::ReadFile | AccessFs::Execute;
    rules = allow(rules, Path::new("/proc/self/exe"), launcher)?;
    for path in view::DEVICES {
        rules = allow(rules, Path::new(path), device)?;
    }
    rules = allow(rules, Path::new(view::TERMINALS), device | AccessFs::ReadDir)?;
    for path in view::writable().iter().filter(|path| **path != view::TERMINALS) {
        rules = allow(rules, Path::new(path), everything)?;
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

/// Whether this process has any network interface besides the loopback. Where the kernel does not list them, those that
/// are down count too.
fn network() -> Network {
    match loopback::others_are_up() {
        Ok(true) => return Network::Present,
        Ok(false) => return Network::None,
        Err(_) => {}
    }
    let interfaces = fs_err::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let mut names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next());
    if interfaces.is_empty() {
        Network::Unknown
    } else if names.all(|name| name.trim() == "lo") {
        Network::None
    } else {
        Network::Present
    }
}
