//! Whether memory ran out while a command ran. The kernel then ends a process, of which its parent sees nothing but
//! signal 9, and counts it in the control group that has the limit: `oom_kill` in `memory.events` (version 2 of the
//! interface) or in `memory.oom_control` (version 1, since Linux 4.13). Sources: `admin-guide/cgroup-v2` and `cgroup-v1`
//! of the kernel's documentation.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::confine::Bounds;
use super::control_group;
use crate::tool::OutOfMemory;

/// The files of the two versions that count, each with the one that has the limit.
const FILES: [(&str, &str); 2] =
    [("memory.events", "memory.max"), ("memory.oom_control", "memory.limit_in_bytes")];
/// What the count is called in both.
const COUNT: &str = "oom_kill ";
/// Bytes of such a file that are read.
const MOST: usize = 1 << 10;
/// Version 1 writes "no limit" as the largest number of pages: no machine has so much.
const UNBOUNDED: u64 = 1 << 60;

/// The count of one group.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    count: File,
    limit_mib: Option<u64>,
}

impl MemoryWatch {
    /// Of the group that a guest is to enter; in a container, of the one that it is in. To be opened before there are walls,
    /// which hide it from everybody else. In a user's own groups, others would be counted that have nothing to do with it.
    pub(super) fn of_guest(bounds: Option<&Bounds>) -> Option<Arc<MemoryWatch>> {
        match bounds {
            Some(bounds) => MemoryWatch::open(&bounds.groups),
            None => MemoryWatch::open(&control_group::own()),
        }
    }

    /// Of the first of these groups that counts; `None` where none does.
    fn open(groups: &[PathBuf]) -> Option<Arc<MemoryWatch>> {
        let open = |group: &Path, (count, limit): (&str, &str)| {
            let limit = fs_err::read_to_string(group.join(limit)).ok();
            let bytes = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
            let limit_mib = bytes.filter(|bytes| *bytes < UNBOUNDED).map(|bytes| bytes >> 20);
            let count = fs_err::File::open(group.join(count)).ok()?.into_file();
            read(&count)?;
            Some(Arc::new(MemoryWatch { count, limit_mib }))
        };
        groups.iter().find_map(|group| FILES.into_iter().find_map(|files| open(group, files)))
    }
}

/// Processes that were ended for want of memory so far; `None` where the kernel does not count them.
fn read(count: &File) -> Option<u64> {
    let mut text = [0; MOST];
    let read = count.read_at(&mut text, 0).ok()?;
    let text = String::from_utf8_lossy(text.get(..read)?);
    text.lines().find_map(|line| line.strip_prefix(COUNT)?.trim().parse().ok())
}

/// The count at a moment, such as the start of a command.
#[derive(Clone, Debug)]
pub(crate) struct MemoryMark {
    watch: Arc<MemoryWatch>,
    before: u64,
}

impl MemoryMark {
    /// The count as it is now.
    pub(super) fn now(watch: &Arc<MemoryWatch>) -> MemoryMark {
        MemoryMark { watch: Arc::clone(watch), before: read(&watch.count).unwrap_or_default() }
    }

    /// A mark of the same group, set anew.
    pub(super) fn again(&self) -> MemoryMark {
        MemoryMark::now(&self.watch)
    }

    /// What was ended since then. Commands that ran at the same time share it: nobody can tell whose fault it was.
    pub(super) fn ran_out(&self) -> Option<OutOfMemory> {
        let killed = read(&self.watch.count)?.saturating_sub(self.before);
        (killed > 0).then_some(OutOfMemory { killed, limit_mib: self.watch.limit_mib })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_count() {
        let two = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n";
        let one = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        for ((count, limit), text) in FILES.into_iter().zip([two, one]) {
            let group = tempfile::tempdir().unwrap();
            fs_err::write(group.path().join(count), text).unwrap();
            fs_err::write(group.path().join(limit), "268435456\n").unwrap();
            let groups = [group.path().join("absent"), group.path().to_owned()];
            let watch = MemoryWatch::open(&groups).unwrap();
            let mark = MemoryMark::now(&watch);
            assert_eq!(mark.ran_out(), None);
            let more = text.replace("oom_kill 2", "oom_kill 5");
            fs_err::write(group.path().join(count), more).unwrap();
            assert_eq!(mark.ran_out(), Some(OutOfMemory { killed: 3, limit_mib: Some(256) }));
            assert_eq!(mark.again().ran_out(), None);
        }
    }

    #[test]
    fn no_limit_is_no_number() {
        for ((count, limit), none) in FILES.into_iter().zip(["max\n", "9223372036854771712\n"]) {
            let group = tempfile::tempdir().unwrap();
            fs_err::write(group.path().join(count), "oom_kill 0\n").unwrap();
            fs_err::write(group.path().join(limit), none).unwrap();
            let watch = MemoryWatch::open(&[group.path().to_owned()]).unwrap();
            assert_eq!(watch.limit_mib, None, "{none}");
        }
    }
}
