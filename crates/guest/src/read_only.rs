//! Makes mounts read-only: whoever may not write to a mount cannot change modes, owners, times or
//! attributes on it either, by whatever name or open file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::mount::MountFlags;

/// Every mount of this namespace except those at `writable`. Looks afterwards: one that stayed writable and
/// can be reached is an error.
pub(super) fn all_but(writable: &[&str]) -> Result<(), String> {
    let is_kept = |mount: &Mount| writable.iter().any(|path| mount.point == Path::new(path));
    for mount in mounts()?.iter().filter(|mount| !is_kept(mount) && !mount.is_read_only()) {
        // What cannot be changed shows below.
        let flags = MountFlags::BIND | MountFlags::RDONLY | mount.flags;
        let _ = rustix::mount::mount_remount(&mount.point, flags, "");
    }
    let left = mounts()?;
    let open = left.iter().find(|it| !is_kept(it) && !it.is_read_only() && it.is_reachable());
    match open {
        Some(mount) => Err(format!("cannot make `{}` read-only", mount.point.display())),
        None => Ok(()),
    }
}

/// A line of `/proc/self/mountinfo`. Source: `proc_pid_mountinfo(5)`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    point: PathBuf,
    flags: MountFlags,
}

/// Options of a mount as the kernel writes them. Those that are set must be named again when it is changed.
const OPTIONS: &[(&str, MountFlags)] = &[
    ("ro", MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    // `MS_NOSYMFOLLOW`, which has no name here.
    ("nosymfollow", MountFlags::from_bits_retain(256)),
];

impl Mount {
    fn parse(line: &str) -> Option<Mount> {
        let mut fields = line.split(' ');
        let id = fields.next()?.parse().ok()?;
        let point = unescape(fields.nth(3)?);
        let named = fields.next()?;
        let flags = named.split(',').filter_map(|name| {
            OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag)
        });
        Some(Mount { id, point, flags: flags.collect() })
    }

    fn is_read_only(&self) -> bool {
        self.flags.contains(MountFlags::RDONLY)
    }

    /// Whether its path leads to it, and not to another mount on top of it. What this process, with rights
    /// that commands do not have, cannot reach is out of their reach too.
    fn is_reachable(&self) -> bool {
        let flags = AtFlags::NO_AUTOMOUNT;
        match rustix::fs::statx(CWD, &self.point, flags, StatxFlags::MNT_ID) {
            Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => {
                found.stx_mnt_id == self.id
            }
            // A kernel that does not tell (before 5.8): taken for reachable.
            Ok(_) | Err(rustix::io::Errno::NOSYS) => true,
            Err(_) => false,
        }
    }
}

fn mounts() -> Result<Vec<Mount>, String> {
    let text = fs_err::read_to_string("/proc/self/mountinfo")
        .map_err(|err| format!("cannot see what is mounted: {err}"))?;
    let mounts: Option<Vec<Mount>> = text.lines().map(Mount::parse).collect();
    mounts.ok_or_else(|| "cannot read `/proc/self/mountinfo`".to_owned())
}

/// A path as the kernel writes it: spaces, tabs, ends of lines and backslashes as `\` and three octal digits.
pub(crate) fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let (b'\\', Some(value)) = (first, value) {
            bytes.push(value);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use crate::read_only::*;

    #[test]
    fn reads_lines_of_the_kernel() {
        for (line, id, point, flags) in [
            (
                "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
                36,
                "/mnt2",
                MountFlags::NOATIME,
            ),
            (
                r"40 35 0:5 / /a\040b\134c ro,nosuid,nodev,noexec,relatime - tmpfs x\040y rw",
                40,
                r"/a b\c",
                MountFlags::RDONLY
                    | MountFlags::NOSUID
                    | MountFlags::NODEV
                    | MountFlags::NOEXEC
                    | MountFlags::RELATIME,
            ),
        ] {
            let expected = Mount { id, point: PathBuf::from(point), flags };
            assert_eq!(Mount::parse(line), Some(expected));
        }
        assert_eq!(Mount::parse("nothing"), None);
    }
}
