//! Control groups: the bounds of memory, processes and processors of a local sandbox, where this
//! machine lets us make groups (root, or a user whose session manages its own).
//!
//! The guest enters the groups itself before it confines itself, so everything that it starts is in
//! them. Both versions of the interface are used, whichever has a controller. Sources:
//! `cgroups(7)`, and `admin-guide/cgroup-v2` and `cgroup-v1` of the kernel's documentation.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::ContainerLimits;
use patchwright_guest::control_group::Mount;
use patchwright_guest::enforced::{Bound, Enforced};

/// How long the last processes of a group may take to vanish.
const PATIENCE: Duration = Duration::from_secs(3);
/// The period over which processor time is counted, in microseconds: the kernel's default.
const PERIOD: u32 = 100_000;

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
    Cpu,
}

const CONTROLLERS: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

impl Controller {
    fn word(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
        }
    }
}

/// Where groups of a controller can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    folder: PathBuf,
    version: u8,
    controllers: Vec<Controller>,
}

/// The groups of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Group {
    folders: Vec<PathBuf>,
    bounded: Vec<Controller>,
}

impl Group {
    /// Makes the groups that this machine allows; none is no error.
    pub(super) fn create(name: &str, limits: &ContainerLimits) -> Group {
        let own = fs_err::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut group = Group::default();
        for parent in candidates(&own, &mounts) {
            let wanted: Vec<Controller> = parent
                .controllers
                .iter()
                .filter(|one| !group.bounded.contains(one))
                .copied()
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let folder = parent.folder.join(format!("patchwright-{name}"));
            if fs_err::create_dir(&folder).is_err() {
                continue;
            }
            let bounded: Vec<Controller> = wanted
                .into_iter()
                .filter(|one| bound(&folder, parent.version, *one, limits).is_ok())
                .collect();
            if bounded.is_empty() {
                let _ = fs_err::remove_dir(&folder);
            } else {
                group.folders.push(folder);
                group.bounded.extend(bounded);
            }
        }
        group
    }

    /// The groups that a note names.
    pub(super) fn noted(note: &str) -> Group {
        let is_ours = |path: &PathBuf| {
            path.starts_with("/sys/fs/cgroup")
                && path
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("patchwright-"))
        };
        Group {
            folders: note.lines().map(PathBuf::from).filter(is_ours).collect(),
            bounded: vec![],
        }
    }

    /// For a process that will remove the groups later.
    pub(super) fn note(&self) -> String {
        let lines: Vec<String> =
            self.folders.iter().map(|folder| folder.display().to_string()).collect();
        lines.join("\n")
    }

    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    pub(super) fn bounds_processes(&self) -> bool {
        self.bounded.contains(&Controller::Pids)
    }

    /// What is bounded and what is not, for the report. `counts_processes`: without a group that bounds
    /// them, those of the user namespace are counted.
    pub(super) fn report(&self, limits: &ContainerLimits, counts_processes: bool) -> [Enforced; 3] {
        let processes = if counts_processes && !self.bounds_processes() {
            Bound::InNamespace(limits.pids)
        } else {
            self.bound(Controller::Pids, limits.pids)
        };
        [
            Enforced::Memory(self.bound(Controller::Memory, limits.memory_bytes >> 20)),
            Enforced::Cpus(self.bound(Controller::Cpu, limits.cpus)),
            Enforced::Processes(processes),
        ]
    }

    fn bound<T>(&self, by: Controller, most: T) -> Bound<T> {
        if self.bounded.contains(&by) { Bound::AtMost(most) } else { Bound::Unbounded }
    }

    /// Kills what is left in the groups and removes them. What cannot be removed is left to the
    /// next sweep.
    pub(super) fn remove(&self) {
        let until = Instant::now() + PATIENCE;
        for folder in &self.folders {
            loop {
                match fs_err::remove_dir(folder) {
                    Ok(()) => break,
                    Err(err) if err.kind() == ErrorKind::NotFound => break,
                    Err(_) if Instant::now() >= until => break,
                    Err(_) => kill(folder),
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// How often the kernel has killed for lack of memory; `None` where it does not count.
    pub(super) fn out_of_memory(&self) -> Option<u64> {
        let count = |file: &str, key: &str| {
            self.folders.iter().find_map(|folder| {
                let text = fs_err::read_to_string(folder.join(file)).ok()?;
                text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
            })
        };
        count("memory.events", "oom_kill ").or_else(|| count("memory.oom_control", "oom_kill "))
    }
}

fn kill(folder: &Path) {
    // Atomic, also against forks. Absent before Linux 5.14 and in cgroup v1, hence the loop below.
    if fs_err::write(folder.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let procs = fs_err::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in procs.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Sets the bound of one controller.
fn bound(
    folder: &Path,
    version: u8,
    controller: Controller,
    limits: &ContainerLimits,
) -> std::io::Result<()> {
    let write = |file: &str, value: String| fs_err::write(folder.join(file), value);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few processors")]
    let quota = (limits.cpus.max(0.01) * f64::from(PERIOD)) as u64;
    match (controller, version) {
        (Controller::Memory, 2) => {
            write("memory.max", limits.memory_bytes.to_string())?;
            // Absent where the kernel counts no swap.
            let _ = write("memory.swap.max", "0".to_owned());
            Ok(())
        }
        (Controller::Memory, _) => {
            write("memory.limit_in_bytes", limits.memory_bytes.to_string())?;
            let _ = write("memory.memsw.limit_in_bytes", limits.memory_bytes.to_string());
            Ok(())
        }
        (Controller::Pids, _) => write("pids.max", limits.pids.to_string()),
        (Controller::Cpu, 2) => write("cpu.max", format!("{quota} {PERIOD}")),
        (Controller::Cpu, _) => {
            write("cpu.cfs_period_us", PERIOD.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())
        }
    }
}

/// Every place in which a group might be made, the nearest to our own group first: `own` is
/// `/proc/self/cgroup`, `mounts` is `/proc/self/mountinfo`.
fn candidates(own: &str, mounts: &str) -> Vec<Parent> {
    let mut found = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(path) = own.lines().find_map(|line| mount.path_of(line)) else { continue };
        let controllers: Vec<Controller> = CONTROLLERS
            .into_iter()
            .filter(|one| mount.options.iter().any(|it| it == one.word()))
            .collect();
        if mount.version == 1 && controllers.is_empty() {
            continue;
        }
        for folder in path.ancestors().take_while(|folder| folder.starts_with(&mount.point)) {
            let controllers = match mount.version {
                1 => controllers.clone(),
                // What the children of this group may use.
                _ => enabled(folder),
            };
            if !controllers.is_empty() {
                found.push(Parent {
                    // Without the slash that a group at the mount's root leaves behind.
                    folder: folder.components().collect(),
                    version: mount.version,
                    controllers,
                });
            }
        }
    }
    found
}

fn enabled(folder: &Path) -> Vec<Controller> {
    let text = fs_err::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    let is_there = |one: &Controller| text.split_ascii_whitespace().any(|word| word == one.word());
    CONTROLLERS.into_iter().filter(is_there).collect()
}

#[cfg(test)]
mod tests {
    use crate::local::group::*;

    #[test]
    fn says_what_bounds_processes() {
        let limits = ContainerLimits { pids: 64, ..ContainerLimits::default() };
        let bare = Group::default();
        let group = Group { folders: vec![], bounded: vec![Controller::Pids] };
        for (group, counts_processes, expected) in [
            (&bare, false, "processes: not bounded"),
            (&bare, true, "processes: 64, counted in the user namespace"),
            (&group, false, "processes: 64"),
            (&group, true, "processes: 64"),
        ] {
            let report = group.report(&limits, counts_processes).map(|one| one.to_string());
            assert!(report.iter().any(|line| line == expected), "{expected}: {report:?}");
        }
    }

    #[test]
    fn finds_groups_of_both_versions_nearest_first() {
        let own = "4:memory:/outer/inner\n3:cpu,cpuacct:/\n2:pids:/elsewhere\n0::/user/shell\n";
        let mounts = "\
            30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            31 30 0:27 /outer /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
            32 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            33 30 0:29 /here /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
            34 30 0:30 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n";
        let found: Vec<String> = candidates(own, mounts)
            .into_iter()
            .map(|it| format!("{} v{} {:?}", it.folder.display(), it.version, it.controllers))
            .collect();
        assert_eq!(
            found,
            [
                "/sys/fs/cgroup/memory/inner v1 [Memory]",
                "/sys/fs/cgroup/memory v1 [Memory]",
                "/sys/fs/cgroup/cpu v1 [Cpu]",
            ]
        );
    }
}
