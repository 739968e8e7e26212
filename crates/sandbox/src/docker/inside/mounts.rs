//! Mounts of a container, as it sees them itself: those that were asked for, as they were asked for, and of the
//! engine's own only those that are known and cannot be filled. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use bollard::models::{HostConfig, MountType};
use patchwright_guest::confinement::Mount;

/// What engines mount of their own; below `/proc` and `/sys` all that hides something or is read-only. Sources: the
/// default mounts of the OCI runtime specification (`config-linux.md`), and what Podman adds for names and users.
const OF_ENGINE: &[&str] = &[
    "/",
    "/proc",
    "/sys",
    "/sys/fs/cgroup",
    "/dev",
    "/dev/pts",
    "/dev/mqueue",
    "/dev/shm",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/passwd",
    "/etc/group",
    "/run/.containerenv",
];
/// Devices, which rootless engines mount one by one.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom"];
/// Writable for everybody, and bounded by size or by limits of processes.
const BOUNDED: &[&str] = &["/dev/shm", "/dev/mqueue"];
/// Bytes of a page; sizes are rounded up to whole ones.
const PAGE: u64 = 64 << 10;

/// What is mounted otherwise than asked for.
pub(super) fn differences(host: &HostConfig, mounts: &[Mount], writable: &[String]) -> Vec<String> {
    let asked = RequestedMounts::of(host);
    let mut found = Vec::new();
    for mount in mounts {
        let at = mount.at.to_string_lossy();
        if let Some(tmpfs) = asked.tmpfs.get(at.as_ref()) {
            found.extend(tmpfs.difference(mount));
        } else if !asked.volumes.contains(&at.as_ref()) && !is_known(mount, &at) {
            found.push(format!("there is a {} mount at `{at}`", mount.kind));
        }
    }
    let top = |path: &str| mounts.iter().rfind(|mount| mount.at == Path::new(path));
    let wanted = asked.tmpfs.keys().copied().chain(asked.volumes.iter().copied());
    found.extend(
        wanted
            .filter(|path| top(path).is_none())
            .map(|path| format!("nothing is mounted at `{path}`")),
    );
    if host.readonly_rootfs != Some(true) {
        return found;
    }
    for path in ["/", "/sys"] {
        if !top(path).is_some_and(Mount::is_read_only) {
            found.push(format!("`{path}` is not read-only"));
        }
    }
    let shm = u64::try_from(host.shm_size.unwrap_or(0)).unwrap_or(0);
    if top("/dev/shm").and_then(size).is_none_or(|size| size > rounded(shm)) {
        found.push("`/dev/shm` has no bound, or another one".to_owned());
    }
    let may_be_written = |path: &str| {
        asked.volumes.contains(&path)
            || asked.tmpfs.contains_key(path)
            || BOUNDED.contains(&path)
            || DEVICES.contains(&path)
            // Masked by a device that takes everything and keeps nothing.
            || top(path).is_some_and(|mount| mount.root == Path::new("/null"))
    };
    let open = writable.iter().filter(|path| !may_be_written(path));
    found.extend(open.map(|path| format!("commands can write to `{path}`")));
    found
}

/// Whether a mount hides what is below it: an empty file, or an empty folder that stays empty.
pub(super) fn hides(mount: &Mount) -> bool {
    mount.root == Path::new("/null") || (mount.kind == "tmpfs" && mount.is_read_only())
}

fn is_known(mount: &Mount, at: &str) -> bool {
    let is_below = |folder: &str| at.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let is_of_kind = match at {
        "/proc" => mount.kind == "proc",
        "/sys" => mount.kind == "sysfs",
        "/dev" | "/dev/shm" => mount.kind == "tmpfs",
        "/dev/pts" => mount.kind == "devpts",
        "/dev/mqueue" => mount.kind == "mqueue",
        "/sys/fs/cgroup" => matches!(mount.kind.as_str(), "tmpfs" | "cgroup2"),
        _ => true,
    };
    if OF_ENGINE.contains(&at) {
        return is_of_kind;
    }
    let is_device = DEVICES.contains(&at) && mount.root.to_string_lossy() == at.replace("/dev", "");
    is_device || ((is_below("/proc") || is_below("/sys")) && (hides(mount) || mount.is_read_only()))
}

struct RequestedMounts<'a> {
    volumes: Vec<&'a str>,
    tmpfs: BTreeMap<&'a str, Tmpfs>,
}

struct Tmpfs {
    bytes: u64,
    is_read_only: bool,
}

impl<'a> RequestedMounts<'a> {
    fn of(host: &'a HostConfig) -> RequestedMounts<'a> {
        let mut asked = RequestedMounts { volumes: Vec::new(), tmpfs: BTreeMap::new() };
        for (path, options) in host.tmpfs.iter().flatten() {
            let mut options = options.split(',');
            let is_read_only = options.clone().any(|option| option == "ro");
            let bytes = options.find_map(|option| option.strip_prefix("size=")?.parse().ok());
            let tmpfs = Tmpfs { bytes: bytes.unwrap_or(0), is_read_only };
            asked.tmpfs.insert(path, tmpfs);
        }
        for mount in host.mounts.iter().flatten() {
            let Some(target) = mount.target.as_deref() else { continue };
            if mount.typ == Some(MountType::TMPFS) {
                let bytes = mount.tmpfs_options.as_ref().and_then(|options| options.size_bytes);
                let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
                asked.tmpfs.insert(target, Tmpfs { bytes, is_read_only: false });
            } else {
                asked.volumes.push(target);
            }
        }
        asked
    }
}

impl Tmpfs {
    fn difference(&self, mount: &Mount) -> Option<String> {
        let at = mount.at.display();
        if mount.kind != "tmpfs" {
            return Some(format!("there is a {} mount at `{at}`", mount.kind));
        }
        if self.is_read_only && !mount.is_read_only() {
            return Some(format!("`{at}` is not read-only"));
        }
        let is_bounded = size(mount).is_some_and(|size| size <= rounded(self.bytes));
        (!is_bounded).then(|| format!("`{at}` has no bound, or another one"))
    }
}

/// Bytes that a tmpfs may hold; `None` where it says nothing. Source: the kernel writes `size=` in units of 1024.
fn size(mount: &Mount) -> Option<u64> {
    let kib = mount.own.iter().find_map(|option| option.strip_prefix("size="))?;
    kib.strip_suffix('k')?.parse::<u64>().ok()?.checked_mul(1024)
}

fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE).saturating_mul(PAGE)
}
