//! What a sandbox enforces, and what it could not have: reported by the guest in its first words and by the host for
//! what it bounds itself. `doctor` judges the values; text is made of them where people read it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// One thing that a sandbox enforces or, where the value says so, does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforced {
    /// A tree of its own, read-only but for workspace, home and temporary files.
    FileTree,
    /// Files that others may not read are closed.
    PrivateFiles {
        closed: usize,
        /// Folders that are too large to be searched, and are closed as a whole.
        unsearched: Vec<String>,
        /// Folders of the user in which so much is closed to others that nothing can be told from it, and is open to
        /// commands.
        #[serde(default)]
        undecided: Vec<String>,
    },
    ReadOnlyRoot,
    TemporaryFiles {
        mib: u64,
        home: Home,
    },
    /// No terminals but its own.
    Terminals,
    /// Landlock limits files.
    Landlock,
    LandlockAbi(i32),
    /// Signals reach nothing but own processes.
    Signals,
    SystemCalls(SystemCalls),
    Network(Network),
    /// Commands reach these hosts through the relay.
    Relay {
        hosts: Vec<String>,
        /// There are more of them than are named.
        more: bool,
        /// The environment's proxy, which looks names up itself.
        through_proxy: bool,
    },
    /// Network and mounts always; those of users and processes where the machine gives them.
    Namespaces {
        user: bool,
        processes: bool,
    },
    /// The user of a container, without capabilities and new privileges; the engine's system call profile.
    User {
        id: u32,
        seccomp: String,
    },
    Memory(Bound<u64>),
    Cpus(Bound<f64>),
    Processes(Bound<u32>),
    Workspace {
        mib: u64,
        files: u64,
    },
}

/// Where the home folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// In memory, with as much room as temporary files have.
    InMemory,
    /// Setup filled it: it counts as a part of the workspace.
    Workspace,
    /// A folder on the disk.
    OnDisk,
}

/// System calls that commands do not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemCalls {
    /// Sockets but TCP and UDP of the loopback, tracing, kernel administration.
    LoopbackOnly,
    /// Kernel administration, in a container.
    NoAdministration,
    /// The list could not be had.
    Unrestricted { why: String },
    /// Sockets of every kind can be opened.
    EverySocket { why: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// There is nothing but the loopback.
    None,
    Present,
    Unknown,
}

/// A limit, if this machine can set it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound<T> {
    AtMost(T),
    /// Counted by the kernel for the user namespace instead of a control group.
    InNamespace(T),
    Unbounded,
}

impl Enforced {
    /// It says that something is not in force.
    pub fn is_missing(&self) -> bool {
        match self {
            Enforced::SystemCalls(calls) => {
                matches!(calls, SystemCalls::Unrestricted { .. } | SystemCalls::EverySocket { .. })
            }
            Enforced::Network(network) => *network != Network::None,
            // The user namespace alone does not hide the machine's processes.
            Enforced::Namespaces { processes, .. } => !processes,
            Enforced::Memory(bound) => *bound == Bound::Unbounded,
            Enforced::Cpus(bound) => *bound == Bound::Unbounded,
            Enforced::Processes(bound) => *bound == Bound::Unbounded,
            Enforced::FileTree
            | Enforced::PrivateFiles { .. }
            | Enforced::ReadOnlyRoot
            | Enforced::TemporaryFiles { .. }
            | Enforced::Terminals
            | Enforced::Landlock
            | Enforced::LandlockAbi(_)
            | Enforced::Signals
            | Enforced::Relay { .. }
            | Enforced::User { .. }
            | Enforced::Workspace { .. } => false,
        }
    }
}

/// For people: a name, a colon and the rest.
impl Display for Enforced {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Enforced::FileTree => {
                f.write_str("files: a tree of its own, read-only but for workspace, home and /tmp")
            }
            Enforced::PrivateFiles { closed, unsearched, undecided } => {
                write!(f, "private files: {closed} closed")?;
                for (names, what) in [
                    (unsearched, "too large to be searched, and closed"),
                    (undecided, "nearly all of it is closed to others, and open to commands"),
                ] {
                    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                    if !names.is_empty() {
                        write!(f, "; {what}: {}", names.join(", "))?;
                    }
                }
                Ok(())
            }
            Enforced::ReadOnlyRoot => f.write_str("root: read-only"),
            Enforced::TemporaryFiles { mib, home } => match home {
                Home::InMemory => write!(f, "/tmp and home: {mib} MiB each"),
                Home::Workspace => {
                    write!(f, "/tmp: {mib} MiB; home, which setup filled, counts as workspace")
                }
                Home::OnDisk => write!(f, "/tmp: {mib} MiB"),
            },
            Enforced::Terminals => f.write_str("terminals: its own"),
            Enforced::Landlock => f.write_str("landlock: files fully enforced"),
            Enforced::LandlockAbi(abi) => write!(f, "landlock ABI: {abi}"),
            Enforced::Signals => f.write_str("signals: own processes only"),
            Enforced::SystemCalls(calls) => write!(f, "seccomp: {calls}"),
            Enforced::Network(network) => f.write_str(match network {
                Network::None => "network: none",
                Network::Present => "network: present",
                Network::Unknown => "network: unknown",
            }),
            Enforced::Relay { hosts, more, through_proxy } => {
                let more = if *more { ", …" } else { "" };
                let way = if *through_proxy {
                    "; through the proxy of the environment, which looks names up itself"
                } else {
                    ""
                };
                write!(f, "relay: only {}{more}{way}", hosts.join(", "))
            }
            Enforced::Namespaces { user, processes } => {
                let user = if *user { "user, " } else { "" };
                let processes = if *processes { "processes, " } else { "" };
                write!(f, "namespaces: {user}network, {processes}mounts")
            }
            Enforced::User { id, seccomp } => {
                write!(f, "user: {id}:{id}, all capabilities dropped, no new privileges, {seccomp}")
            }
            Enforced::Memory(bound) => bound.write(f, "memory", " MiB without swap"),
            Enforced::Cpus(bound) => bound.write(f, "cpus", ""),
            Enforced::Processes(bound) => bound.write(f, "processes", ""),
            Enforced::Workspace { mib, files } => {
                write!(f, "workspace: {mib} MiB and {files} files, watched by the guest")
            }
        }
    }
}

impl Display for SystemCalls {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SystemCalls::LoopbackOnly => {
                f.write_str("no sockets but TCP and UDP, no tracing, no kernel administration")
            }
            SystemCalls::NoAdministration => f.write_str("no kernel administration"),
            SystemCalls::Unrestricted { why } => write!(f, "not in force ({why})"),
            SystemCalls::EverySocket { why } => write!(f, "sockets of every kind ({why})"),
        }
    }
}

impl<T: Display> Bound<T> {
    fn write(&self, f: &mut Formatter<'_>, name: &str, unit: &str) -> fmt::Result {
        match self {
            Bound::AtMost(most) => write!(f, "{name}: {most}{unit}"),
            Bound::InNamespace(most) => {
                write!(f, "{name}: {most}{unit}, counted in the user namespace")
            }
            Bound::Unbounded => write!(f, "{name}: not bounded"),
        }
    }
}
