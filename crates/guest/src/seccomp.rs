//! System calls that commands do not get. Lists of what is denied, not of what is allowed: builds
//! use everything else. A denied call fails with EPERM, which programs report; `clone3` and
//! `io_uring_setup` answer ENOSYS, because programs then fall back to what they did before. Whoever calls by
//! numbers of another architecture is killed: nothing that builds do comes that way.

use std::collections::BTreeMap;

#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Whether the kernel already keeps signals inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    Scoped,
    /// `kill(-1)` would reach every process of the user, so it is denied.
    Unscoped,
}

/// Administration of the kernel, and the parts of it that broke sandboxes most often.
const KERNEL_SURFACE: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Ways to other processes and machines.
const REACHING_OUT: &[libc::c_long] = &[
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];

/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

/// Bits of the first argument of `clone` that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// `personality` values that programs use: query, Linux, and the latter without randomisation.
const PERSONALITIES: [u64; 3] = [0xffff_ffff, 0, 0x0004_0000];

/// "Every process of a user", to `setpriority` and to `ioprio_set`.
const PRIO_USER: libc::c_int = 2;
const IOPRIO_WHO_USER: libc::c_int = 3;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Denies [`KERNEL_SURFACE`], new namespaces, odd personalities, other processes' limits and priorities, and
/// the numbers of other architectures.
pub fn deny_kernel_surface() -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    kill_x32()?;
    let mut rules: Rules = KERNEL_SURFACE.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACES.iter().map(|flag| {
        let flag = u64::from(flag.cast_unsigned());
        rule(vec![(0, SeccompCmpOp::MaskedEq(flag), flag)])
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let odd = PERSONALITIES.iter().map(|value| (0, SeccompCmpOp::Ne, *value)).collect();
    rules.insert(libc::SYS_personality, vec![rule(odd)?]);
    rules.extend(others()?);
    apply(rules, libc::EPERM)?;
    // ENOSYS, not EPERM: clone3 passes its flags behind a pointer, which a filter cannot read
    // (`man 2 seccomp`), and C libraries fall back to clone only when the call seems not to exist.
    let replaced = [
        libc::SYS_clone3,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_uring_setup,
    ];
    apply(replaced.iter().map(|call| (*call, Vec::new())).collect(), libc::ENOSYS)
}

/// Calls that set limits and priorities, unless it is the caller's own (number 0): the kernel would let a
/// command set those of the guest, and of all other programs of its user.
fn others() -> Result<Rules, String> {
    let not_own = |index: u8| rule(vec![(index, SeccompCmpOp::Ne, 0)]);
    let of_user =
        |which: libc::c_int| rule(vec![(0, SeccompCmpOp::Eq, u64::from(which.cast_unsigned()))]);
    Ok(Rules::from([
        (libc::SYS_prlimit64, vec![not_own(0)?]),
        (libc::SYS_setpriority, vec![not_own(1)?, of_user(PRIO_USER)?]),
        (libc::SYS_ioprio_set, vec![not_own(1)?, of_user(IOPRIO_WHO_USER)?]),
    ]))
}

/// Kills whoever calls by numbers of x32, an interface with numbers of its own for some of what is denied
/// here. The kernel marks them with one bit. The number -1 is left alone: it is no call, and programs use it
/// to see what is answered.
#[cfg(target_arch = "x86_64")]
fn kill_x32() -> Result<(), String> {
    const MARK: u32 = 0x4000_0000;
    // Offsets in `seccomp_data`. Source: `seccomp(2)`.
    const NUMBER: u32 = 0;
    let load = u16::try_from(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
    let at_least = u16::try_from(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K);
    let equal = u16::try_from(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let give = u16::try_from(libc::BPF_RET | libc::BPF_K);
    let (Ok(load), Ok(at_least), Ok(equal), Ok(give)) = (load, at_least, equal, give) else {
        return Err("the filter has no codes".to_owned());
    };
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let program: BpfProgram = vec![
        step(load, 0, 0, NUMBER),
        step(at_least, 0, 2, MARK),
        step(equal, 1, 0, u32::MAX),
        step(give, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    seccompiler::apply_filter(&program).map_err(|err| err.to_string())
}

/// Denies [`REACHING_OUT`]: tracing, and sockets but those of a loopback. Must be in a network namespace that has
/// nothing else.
pub fn deny_reaching_out(signals: Signals) -> Result<(), String> {
    let mut rules: Rules = REACHING_OUT.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, all_but_loopback()?);
    if signals == Signals::Unscoped {
        rules.insert(libc::SYS_kill, vec![rule(vec![(0, SeccompCmpOp::Eq, 0xffff_ffff)])?]);
    }
    apply(rules, libc::EPERM)
}

/// Denies sockets of families that no build needs and old container profiles let through: those
/// that reach the machine below a virtual one, and parts of the kernel seldom used.
pub fn deny_odd_sockets() -> Result<(), String> {
    let usual = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let odd = usual.map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())));
    let rules = Rules::from([(libc::SYS_socket, vec![rule(odd.to_vec())?])]);
    apply(rules, libc::EAFNOSUPPORT)
}

/// Sockets that are neither TCP nor UDP over IPv4 or IPv6, nor for asking which interfaces there are: by family, type and
/// protocol. Local ones (`AF_UNIX`) are among those denied, because a network namespace does not hold them: one with a
/// file is reached through that file, also where its folder is mounted read-only, and daemons have theirs below `/opt`
/// and `/nix`. Pairs are another call.
fn all_but_loopback() -> Result<Vec<SeccompRule>, String> {
    const FAMILY: u8 = 0;
    const TYPE: u8 = 1;
    const PROTOCOL: u8 = 2;
    let number = |value: i32| u64::from(value.cast_unsigned());
    let is = |index, value| (index, SeccompCmpOp::Eq, number(value));
    let is_not = |index, value| (index, SeccompCmpOp::Ne, number(value));
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let mut denied = vec![
        rule(families.map(|family| is_not(FAMILY, family)).to_vec())?,
        rule(vec![is(FAMILY, libc::AF_NETLINK), is_not(PROTOCOL, libc::NETLINK_ROUTE)])?,
    ];
    let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let other = protocols.map(|protocol| is_not(PROTOCOL, protocol));
        denied.push(rule([&[is(FAMILY, family)], &other[..]].concat())?);
        let usual = [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(number);
        for kind in (0..=SOCKET_TYPE).filter(|kind| !usual.contains(kind)) {
            let is_kind = (TYPE, SeccompCmpOp::MaskedEq(SOCKET_TYPE), kind);
            denied.push(rule(vec![is(FAMILY, family), is_kind])?);
        }
    }
    Ok(denied)
}

/// All conditions together: argument index, operator, 32-bit value.
fn rule(conditions: Vec<(u8, SeccompCmpOp, u64)>) -> Result<SeccompRule, String> {
    let conditions = conditions
        .into_iter()
        .map(|(index, operator, value)| {
            SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
        })
        .collect::<Result<_, _>>()
        .map_err(|err| err.to_string())?;
    SeccompRule::new(conditions).map_err(|err| err.to_string())
}

fn apply(rules: Rules, errno: i32) -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|err| err.to_string())?;
    let denied = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)
        .map_err(|err| err.to_string())?;
    let program = BpfProgram::try_from(filter).map_err(|err| err.to_string())?;
    seccompiler::apply_filter(&program).map_err(|err| err.to_string())
}
