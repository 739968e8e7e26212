//! What a process in the sandbox sees of its own walls: rights, limits, mounts, network. Asked by a host whose engine
//! does not say all of it from outside; whether it is enough is the host's business.
//!
//! Nothing is judged here, and nothing is changed. What cannot be read is left out, and the host takes it for missing.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::read_only::unescape;

/// The name of the command.
pub const CONFINEMENT: &str = "confinement";
/// Most bytes that are read of one file.
const MOST: u64 = 256 << 10;
/// Limits in control groups, by file name. Sources: the kernel's `cgroup-v2.rst` and `cgroup-v1/`.
const LIMITS: &[&str] = &[
    "memory.max",
    "memory.swap.max",
    "cpu.max",
    "pids.max",
    "memory/memory.limit_in_bytes",
    "memory/memory.memsw.limit_in_bytes",
    "cpu/cpu.cfs_quota_us",
    "cpu/cpu.cfs_period_us",
    "pids/pids.max",
];

/// The walls around this process. Texts are as the kernel writes them (`proc(5)`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// `/proc/self/status`.
    pub status: String,
    /// `/proc/1/status`.
    pub first_status: String,
    /// `/proc/1/cmdline`, its arguments.
    pub first_command: Vec<String>,
    /// `/proc/self/limits`.
    pub limits: String,
    /// `/proc/self/mountinfo`.
    pub mounts: String,
    /// Mount points that this process may write to.
    pub writable: Vec<String>,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// Limits of the control group, by name below `/sys/fs/cgroup`.
    pub groups: BTreeMap<String, String>,
    /// Folders below `/sys/fs/cgroup`, or that itself, whose limits are not those of this process: it is in another group.
    pub outside: Vec<String>,
    /// What is at the paths that were asked for; those where nothing is are absent.
    pub places: BTreeMap<String, PathState>,
}

/// What is at a path, without following a link there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Type and rights, as `stat(2)` has them.
    pub mode: u32,
    /// A folder with nothing in it.
    pub is_empty: bool,
}

/// A line of `/proc/self/mountinfo`. Source: `proc_pid_mountinfo(5)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The folder or file of the file system that is mounted.
    pub root: PathBuf,
    /// The mount point.
    pub at: PathBuf,
    /// Options of the mount: `rw`, `nosuid`, …
    pub options: Vec<String>,
    /// The kind of file system.
    pub kind: String,
    /// Options of the file system: `rw`, `size=65536k`, …
    pub own: Vec<String>,
}

impl Mount {
    /// Nothing can be written through it, by whomever.
    pub fn is_read_only(&self) -> bool {
        [&self.options, &self.own].iter().any(|options| options.iter().any(|it| it == "ro"))
    }

    fn parse(line: &str) -> Option<Mount> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at, options) = (mount.next()?, mount.next()?, mount.next()?);
        let mut system = system.split(' ');
        let (kind, _source, own) = (system.next()?, system.next()?, system.next()?);
        let list = |options: &str| options.split(',').map(str::to_owned).collect();
        Some(Mount {
            root: unescape(root),
            at: unescape(at),
            options: list(options),
            kind: kind.to_owned(),
            own: list(own),
        })
    }
}

/// All mounts, of two at the same point the later one last; `None` when a line is not understood.
pub fn mounts(text: &str) -> Option<Vec<Mount>> {
    text.lines().map(Mount::parse).collect()
}

/// Looks at this process, and at what is at these paths.
pub fn look(paths: &[&str]) -> Confinement {
    let mounted = read("/proc/self/mountinfo");
    let mut writable = mounts(&mounted).unwrap_or_default();
    writable.retain(|mount| access(&mount.at, Access::WRITE_OK).is_ok());
    let places = paths.iter().filter_map(|path| Some(((*path).to_owned(), place(path)?)));
    let (groups, outside) = groups(Path::new("/sys/fs/cgroup"), std::process::id());
    Confinement {
        status: read("/proc/self/status"),
        first_status: read("/proc/1/status"),
        first_command: read("/proc/1/cmdline").split_terminator('\0').map(str::to_owned).collect(),
        limits: read("/proc/self/limits"),
        writable: writable.iter().map(|mount| mount.at.to_string_lossy().into_owned()).collect(),
        mounts: mounted,
        interfaces: interfaces(),
        groups,
        outside,
        places: places.collect(),
    }
}

/// Limits of the control groups below a folder, and which of these groups a process is not in. The runtime of a rootless
/// engine cannot always move into them what it starts in a running container, and goes on.
fn groups(folder: &Path, process: u32) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut limits, mut outside) = (BTreeMap::new(), Vec::new());
    for name in LIMITS {
        let file = folder.join(name);
        let limit = read(&file);
        if limit.is_empty() {
            continue;
        }
        limits.insert((*name).to_owned(), limit.trim().to_owned());
        let group = file.parent().unwrap_or(folder);
        let members = read(group.join("cgroup.procs"));
        if !members.lines().any(|line| line.parse() == Ok(process)) {
            outside.push(group.display().to_string());
        }
    }
    outside.dedup();
    (limits, outside)
}

/// The start of a file; empty when it cannot be read.
fn read(path: impl AsRef<Path>) -> String {
    let mut text = Vec::new();
    let file = fs_err::File::open(path.as_ref());
    // What was read before an error is kept.
    let _ = file.map(|file| file.take(MOST).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// By `/proc/net/dev`, which is of this process's network whatever is mounted at `/sys`.
fn interfaces() -> Vec<String> {
    let table = read("/proc/self/net/dev");
    let names = table.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

fn place(path: &str) -> Option<PathState> {
    let found = match fs_err::symlink_metadata(path) {
        Ok(found) => found,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return None,
        // There is something.
        Err(_) => return Some(PathState::default()),
    };
    let is_empty =
        found.is_dir() && fs_err::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    Some(PathState { user: found.uid(), group: found.gid(), mode: found.mode(), is_empty })
}

#[cfg(test)]
mod tests {
    use crate::confinement::*;

    #[test]
    fn reads_the_lines_of_mountinfo() {
        let text = "80 78 0:44 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755\n\
                    55 82 0:44 /null /proc/keys rw - tmpfs tmpfs rw\n\
                    89 78 254:0 /v/_data /pw/a\\040b ro,nodev master:7 - ext4 /dev/vda rw,discard\n";
        let found = mounts(text).unwrap();
        let at: Vec<_> = found.iter().map(|mount| mount.at.display().to_string()).collect();
        assert_eq!(at, ["/dev", "/proc/keys", "/pw/a b"]);
        let read_only: Vec<_> = found.iter().map(Mount::is_read_only).collect();
        assert_eq!(read_only, [false, false, true]);
        assert_eq!(found[1].root, Path::new("/null"));
        assert_eq!((found[0].kind.as_str(), found[0].own[1].as_str()), ("tmpfs", "size=65536k"));
        assert_eq!(mounts("80 78 0:44 /"), None);
        assert_eq!(mounts(""), Some(Vec::new()));
    }

    #[test]
    fn limits_of_groups_that_a_process_is_not_in_are_not_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        let outside =
            || groups(folder.path(), 12).1.join(" ").replace(folder.path().to_str().unwrap(), "*");
        assert_eq!(outside(), "");
        for name in ["memory.max", "memory.swap.max", "pids.max"] {
            write(name, "1000\n");
        }
        assert_eq!(outside(), "*", "nothing says that it is in there");
        write("cgroup.procs", "1\n123\n0\n");
        assert_eq!(outside(), "*");
        write("cgroup.procs", "1\n12\n");
        assert_eq!(outside(), "");
        // Version 1 has a group for each controller.
        write("memory/memory.limit_in_bytes", "1000\n");
        write("memory/cgroup.procs", "12\n");
        write("pids/pids.max", "64\n");
        write("pids/cgroup.procs", "7\n");
        assert_eq!(outside(), "*/pids");
        assert_eq!(groups(folder.path(), 12).0["pids/pids.max"], "64");
    }

    #[test]
    fn tells_what_it_sees() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs_err::create_dir(path("empty")).unwrap();
        std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
        let whole = folder.path().display().to_string();
        let (empty, link, absent) = (path("empty"), path("link"), path("absent"));
        let seen = look(&[&whole, &empty, &link, &absent]);
        let is_empty = |path: &str| seen.places.get(path).map(|place| place.is_empty);
        assert_eq!(
            [&whole, &empty, &link, &absent].map(|path| is_empty(path)),
            [Some(false), Some(true), Some(false), None]
        );
        assert!(seen.status.contains("NoNewPrivs:"), "{}", seen.status);
        assert!(seen.first_status.starts_with("Name:"), "{}", seen.first_status);
        assert!(seen.limits.contains("Max open files"), "{}", seen.limits);
        assert!(seen.interfaces.iter().any(|name| name == "lo"), "{:?}", seen.interfaces);
        assert!(mounts(&seen.mounts).unwrap().iter().any(|mount| mount.at == Path::new("/")));
        let json = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Confinement>(&json).unwrap(), seen);
    }
}
