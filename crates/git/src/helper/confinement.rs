//! Takes away from the git helper what it does not need: every file but the repository's, every system
//! call but those for files and memory, and most of the machine's memory, disk and time.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::wire::Bounds;

/// The newest Landlock that this file knows; older kernels give what they have.
const NEWEST: ABI = ABI::V6;

/// Address space besides the helper's own memory: the program, and packs and their indexes, which are
/// mapped.
const MAPPED: u64 = 6 << 30;

/// Files that can be open: a mirror has a few packs.
const OPEN_FILES: u64 = 1024;

/// Bytes of a pack that are mapped at a time, and altogether.
const WINDOW: usize = 32 << 20;
const WINDOWS: usize = 1 << 30;

/// The system calls that the helper may make: files, memory, time and exit. None of them starts a process or
/// a thread, opens a socket, or reaches another process.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mkdirat,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The older names of the same calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_getdents,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Confines this process, which must have no other thread. True when the files that it can open are
/// limited, too: that takes a kernel with Landlock.
///
/// # Errors
/// When a wall that every kernel has cannot be had; nothing is to be done then.
pub(super) fn raise(bounds: &Bounds) -> Result<bool, String> {
    // First, because no later rule applies to a file that is open already.
    close_inherited_files();
    let failed = |err: rustix::io::Errno| format!("cannot take rights away: {err}");
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)?;
    // A helper must not outlive the host: nobody would enforce its time limit.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    limit(bounds).map_err(failed)?;
    map_little()?;
    confine(bounds)
}

/// Confines the thread that calls it; true when files are, too.
fn confine(bounds: &Bounds) -> Result<bool, String> {
    rustix::thread::set_no_new_privs(true).map_err(|err| format!("no new privileges: {err}"))?;
    let files_confined = confine_files(bounds).map_err(|err| format!("Landlock: {err}"))?;
    confine_calls().map_err(|err| format!("seccomp: {err}"))?;
    Ok(files_confined)
}

/// Closes inherited file descriptors: an open folder or pipe would bypass every rule about paths.
#[expect(unsafe_code, reason = "inherited files have a number and no owner")]
fn close_inherited_files() {
    let open = fs_err::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: nothing in this process has opened a file yet, so nobody owns this one. The folder that
        // was just read is in the list, and is closed already: the question finds that out.
        unsafe {
            if rustix::io::fcntl_getfd(BorrowedFd::borrow_raw(number)).is_ok() {
                rustix::io::close(number);
            }
        }
    }
}

fn limit(bounds: &Bounds) -> rustix::io::Result<()> {
    let set = |resource, most: u64| {
        // Raising a limit above the inherited hard limit fails with EPERM.
        let hard = rustix::process::getrlimit(resource).maximum;
        let most = Some(hard.map_or(most, |hard| hard.min(most)));
        rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })
    };
    set(Resource::Core, 0)?;
    set(Resource::Nofile, OPEN_FILES)?;
    set(Resource::Data, bounds.memory)?;
    set(Resource::As, bounds.memory.saturating_add(MAPPED))?;
    set(Resource::Fsize, bounds.file)?;
    set(Resource::Cpu, bounds.seconds)
}

/// libgit2 maps a gigabyte of a pack at a time, which the bound of the address space would not allow.
#[expect(unsafe_code, reason = "libgit2 is configured through process-wide state")]
fn map_little() -> Result<(), String> {
    let failed = |err: git2::Error| err.message().to_owned();
    // SAFETY: this is the only thread, so nothing uses libgit2 meanwhile.
    unsafe {
        git2::opts::set_mwindow_size(WINDOW).map_err(failed)?;
        git2::opts::set_mwindow_mapped_limit(WINDOWS).map_err(failed)
    }
}

/// The folders of the work and no other file; no TCP, no signal or abstract socket outwards. False when
/// this kernel has no Landlock.
fn confine_files(bounds: &Bounds) -> Result<bool, landlock::RulesetError> {
    let everything = AccessFs::from_all(NEWEST);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let write = bounds.write.iter().map(|path| (path.as_path(), everything & !AccessFs::Execute));
    let folders = bounds.read.iter().map(|path| (path.as_path(), read)).chain(write);
    for (path, access) in folders {
        // Landlock needs an open folder for a rule. A folder that does not exist grants nothing
        // anyway.
        let Ok(folder) = PathFd::new::<&Path>(path) else { continue };
        rules = rules.add_rule(PathBeneath::new(folder, access))?;
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Refuses every call that is not in the list. Memory that can be executed is not to be had either.
fn confine_calls() -> Result<(), String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    // Both calls are needed for memory and packs, but not with PROT_EXEC: code that was written
    // into memory cannot run.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let is_plain = SeccompCondition::new(
            2,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(executable),
            0,
        )
        .and_then(|condition| SeccompRule::new(vec![condition]));
        rules.insert(call, vec![is_plain.map_err(|err| err.to_string())?]);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|err| err.to_string())?;
    // An error instead of a kill: the C library probes for newer calls and falls back to older
    // ones.
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, denied, SeccompAction::Allow, arch)
        .map_err(|err| err.to_string())?;
    let program = BpfProgram::try_from(filter).map_err(|err| err.to_string())?;
    seccompiler::apply_filter(&program).map_err(|err| err.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use crate::helper::confinement::*;

    /// What confined code tried, and what came of it.
    #[derive(Debug, Default)]
    struct ConfinementProbe {
        files_confined: bool,
        allowed: Vec<(&'static str, bool)>,
        refused: Vec<(&'static str, Option<ErrorKind>)>,
    }

    #[expect(clippy::disallowed_methods, reason = "what is tried is what must not work")]
    fn attempt(bounds: &Bounds, port: u16) -> ConfinementProbe {
        let files_confined = confine(bounds).unwrap();
        let (ours, place) = (&bounds.read[0], bounds.write.as_ref().unwrap());
        let outside = ours.with_file_name("outside");
        let mut tried = ConfinementProbe { files_confined, ..ConfinementProbe::default() };
        tried.allowed.push(("reads", fs_err::read(ours.join("object")).is_ok()));
        tried.allowed.push(("writes", fs_err::write(place.join("pack"), "x").is_ok()));
        let renamed = fs_err::rename(place.join("pack"), place.join("pack-1"));
        tried.allowed.push(("renames", renamed.is_ok()));
        let mut refused = |what, result: std::io::Result<()>| {
            tried.refused.push((what, result.err().map(|err| err.kind())));
        };
        refused("a file outside", fs_err::read(&outside).map(drop));
        refused("a file of the system", fs_err::read("/etc/passwd").map(drop));
        refused("its own environment", fs_err::read("/proc/self/environ").map(drop));
        refused("the memory of others", fs_err::read("/proc/1/environ").map(drop));
        refused("a file of ours", fs_err::write(ours.join("object"), "x"));
        refused("a new file of ours", fs_err::write(ours.join("new"), "x"));
        refused("a new file outside", fs_err::write(outside.with_extension("new"), "x"));
        refused("a connection", TcpStream::connect(("127.0.0.1", port)).map(drop));
        refused("a port", TcpListener::bind("127.0.0.1:0").map(drop));
        refused("a pair of sockets", UnixStream::pair().map(drop));
        refused("a local socket", UnixDatagram::unbound().map(drop));
        refused("a program", std::process::Command::new("/bin/true").status().map(drop));
        refused("a thread", std::thread::Builder::new().spawn(|| {}).map(drop));
        let signal = rustix::process::kill_process(rustix::process::getpid(), Signal::CONT);
        refused("a signal", signal.map_err(std::io::Error::from));
        tried
    }

    #[test]
    fn nothing_but_the_repositorys_files_is_left() {
        let top = tempfile::tempdir().unwrap();
        let (ours, place) = (top.path().join("ours"), top.path().join("place"));
        for folder in [&ours, &place] {
            fs_err::create_dir(folder).unwrap();
        }
        fs_err::write(ours.join("object"), "ours").unwrap();
        fs_err::write(top.path().join("outside"), "outside").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bounds =
            Bounds { read: vec![ours], write: Some(place), memory: 0, file: 0, seconds: 0 };
        // Both kinds of walls hold for the thread that raises them.
        let tried = std::thread::spawn(move || attempt(&bounds, port)).join().unwrap();
        assert!(tried.files_confined, "this machine has no Landlock");
        assert!(tried.allowed.iter().all(|(_, done)| *done), "{:?}", tried.allowed);
        for (what, kind) in tried.refused {
            assert_eq!(kind, Some(ErrorKind::PermissionDenied), "{what}");
        }
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok(), "the test's own port is shut");
    }
}
