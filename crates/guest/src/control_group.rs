//! Where the control groups of a process are, by what the kernel says in `/proc`. Pure but for [`own`]. Sources:
//! `cgroups(7)` and `proc_pid_mountinfo(5)`.

use std::path::{Path, PathBuf};

/// A mounted hierarchy of control groups.
#[derive(Debug)]
pub struct Mount {
    /// The group that is mounted.
    root: PathBuf,
    pub point: PathBuf,
    /// Of the interface: 1 or 2.
    pub version: u8,
    /// Options of the file system: the controllers, in version 1.
    pub options: Vec<String>,
}

impl Mount {
    /// From a line of `/proc/self/mountinfo`; `None` for other file systems.
    pub fn parse(line: &str) -> Option<Mount> {
        let (ours, theirs) = line.split_once(" - ")?;
        let mut ours = ours.split(' ').skip(3);
        let (root, point) = (ours.next()?, ours.next()?);
        let mut theirs = theirs.split(' ');
        let version = match theirs.next()? {
            "cgroup" => 1,
            "cgroup2" => 2,
            _ => return None,
        };
        let options = theirs.nth(1)?.split(',').map(str::to_owned).collect();
        Some(Mount { root: root.into(), point: point.into(), version, options })
    }

    /// Where our own group is in this hierarchy, by a line of `/proc/self/cgroup`.
    pub fn path_of(&self, line: &str) -> Option<PathBuf> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_this = match self.version {
            2 => controllers.is_empty(),
            _ => controllers.split(',').any(|one| self.options.iter().any(|it| it == one)),
        };
        let below = Path::new(path).strip_prefix(&self.root).ok().filter(|_| is_this)?;
        Some(self.point.join(below))
    }
}

/// The groups that this process is in.
pub(super) fn own() -> Vec<PathBuf> {
    let groups = fs_err::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = mounts.lines().filter_map(Mount::parse);
    mounts.filter_map(|mount| groups.lines().find_map(|line| mount.path_of(line))).collect()
}
