//! Which process somebody is, in words that another process can judge: whether it has ended.
//!
//! A process is judged only where its number means the same to us: in the same boot of the same machine, in
//! the same process namespace. There, its number and the moment when it started tell it from every other one,
//! also from a later one with its number. Of all others (other hosts, other containers, whatever their host
//! name) nothing is said.

use std::fmt;

use rustix::io::Errno;
use rustix::process::Pid;

/// A process of some machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// What the process id is a number in.
    pub space: ProcessSpace,
    pub pid: u32,
    /// In clock ticks since the machine started: tells a process from a later one with its number.
    pub start: u64,
}

/// The machine's boot and the namespace in which a process id is a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSpace {
    pub boot: String,
    /// The namespace of process ids, and of the clock by which processes start.
    pub namespace: String,
    pub host: String,
}

impl ProcessSpace {
    /// Ours. `None` where `/proc` does not tell, or is that of another namespace.
    fn own() -> Option<ProcessSpace> {
        let read = |path: &str| Some(fs_err::read_to_string(path).ok()?.trim().to_owned());
        let own_number = fs_err::read_link("/proc/self").ok()?;
        if own_number.to_str() != Some(&std::process::id().to_string()) {
            return None;
        }
        let namespace = fs_err::read_link("/proc/self/ns/pid").ok()?;
        // Older kernels have no such namespace.
        let time = fs_err::read_link("/proc/self/ns/time").unwrap_or_default();
        let namespace = format!("{}+{}", namespace.to_str()?, time.to_str()?);
        Some(ProcessSpace {
            boot: read("/proc/sys/kernel/random/boot_id").filter(|boot| !boot.is_empty())?,
            namespace: namespace.replace('/', "-"),
            host: read("/proc/sys/kernel/hostname")?,
        })
    }
}

impl ProcessIdentity {
    /// This process; `None` where `/proc` does not tell.
    pub fn own() -> Option<ProcessIdentity> {
        let (space, pid) = (ProcessSpace::own()?, std::process::id());
        let ProcEntry::Running { start } = look(pid) else { return None };
        Some(ProcessIdentity { space, pid, start })
    }

    /// What [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<ProcessIdentity> {
        let mut parts = text.splitn(5, '/').map(str::to_owned);
        let (boot, namespace) = (parts.next()?, parts.next()?);
        let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let space = ProcessSpace { boot, namespace, host: parts.next()? };
        Some(ProcessIdentity { space, pid, start })
    }

    /// Whether it still runs; `None` when that cannot be said from here.
    pub fn is_alive(&self) -> Option<bool> {
        (ProcessSpace::own()? == self.space).then(|| match look(self.pid) {
            ProcEntry::Running { start } => start == self.start,
            ProcEntry::Ended => false,
            // Some systems hide other users' processes; a signal still tells them from none.
            ProcEntry::Nothing => is_there(self.pid),
        })
    }
}

/// `boot/namespace/pid/start time/host name`.
impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessSpace { boot, namespace, host } = &self.space;
        write!(f, "{boot}/{namespace}/{}/{}/{host}", self.pid, self.start)
    }
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// What `/proc` says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcEntry {
    Running {
        start: u64,
    },
    /// Its parent has not asked yet how it ended.
    Ended,
    Nothing,
}

fn look(pid: u32) -> ProcEntry {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    read(&stat).unwrap_or(ProcEntry::Nothing)
}

/// Fields 3 and 22 of `/proc/PID/stat` (proc(5)); the name in field 2 may hold anything, but ends with the
/// last `)`.
fn read(line: &str) -> Option<ProcEntry> {
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some(if matches!(state, "Z" | "X") { ProcEntry::Ended } else { ProcEntry::Running { start } })
}

#[cfg(test)]
mod tests {
    use super::{ProcEntry, ProcessIdentity, read};

    #[test]
    fn a_process_is_judged_only_where_its_number_means_the_same() {
        let here = ProcessIdentity::own().unwrap();
        assert_eq!(ProcessIdentity::parse(&here.to_string()), Some(here.clone()));
        assert_eq!(here.is_alive(), Some(true));
        let later = ProcessIdentity { start: here.start + 1, ..here.clone() };
        assert_eq!(later.is_alive(), Some(false), "the number has another process now");
        let none = ProcessIdentity { pid: u32::MAX, ..here.clone() };
        assert_eq!(none.is_alive(), Some(false));
        let mut elsewhere = [later.clone(), later.clone(), later];
        elsewhere[0].space.boot.push('x');
        elsewhere[1].space.namespace.push('x');
        elsewhere[2].space.host.push('x');
        for other in elsewhere {
            assert_eq!(other.is_alive(), None, "{other}");
        }
        for text in ["", "a/b/c/d/e", "a/b/1/2", "host:1:0badcafe"] {
            assert_eq!(ProcessIdentity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_process_that_has_ended_has_ended_before_its_parent_asks() {
        let stat = |state: &str| {
            format!(
                "7 (a ) Z name) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
            )
        };
        assert_eq!(read(&stat("S")), Some(ProcEntry::Running { start: 4_711 }));
        assert_eq!(read(&stat("Z")), Some(ProcEntry::Ended));
        assert_eq!(read("7 (cut"), None);
        assert_eq!(read(""), None);
    }
}
