//! Programs, libraries and object files that a build of the agent's left in a repository whose ignore rules do not mention
//! them: nobody can review them, and whoever wants them builds them.
//!
//! Told by the first bytes, not by the name alone: `.obj` is a format of pictures as well.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::folder;

/// Endings of what compilers and linkers write without making it executable.
const ENDINGS: &[&str] = &[".o", ".obj", ".a", ".so", ".dylib", ".dll", ".exe", ".class"];

/// First bytes: ELF, Mach-O (32 and 64 bits, both byte orders), PE, archives of `ar`, and Java classes, which share
/// theirs with Mach-O for several processors.
const MAGIC: &[&[u8]] = &[
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"MZ",
    b"!<arch>\n",
    b"\xca\xfe\xba\xbe",
];

/// Objects of Windows, which begin with the processor's number: x86-64 and x86.
const COFF: &[&[u8]] = &[b"\x64\x86", b"\x4c\x01"];

/// Whether a file is a program, a library or an object file; false when it cannot be read.
pub(super) fn is_compiled(parent: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> bool {
    let text = name.to_string_lossy();
    let is_named = ENDINGS.iter().any(|ending| text.ends_with(ending));
    let is_executable = stat.st_mode & 0o111 != 0;
    if folder::kind(stat) != FileType::RegularFile || !(is_named || is_executable) {
        return false;
    }
    let Some(first) = first_bytes(parent, name, 8) else { return false };
    let begins = |magic: &&[u8]| first.starts_with(magic);
    MAGIC.iter().any(begins) || text.ends_with(".obj") && COFF.iter().any(begins)
}

/// The beginning of a file, in at most this many bytes; `None` when it cannot be read.
pub(super) fn first_bytes(parent: BorrowedFd<'_>, name: &OsStr, most: u64) -> Option<Vec<u8>> {
    // Not blocking: the name may be a pipe by now.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty()).ok()?);
    let mut first = Vec::new();
    file.take(most).read_to_end(&mut first).ok()?;
    Some(first)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_and_objects_are_told_by_their_first_bytes() {
        let top = tempfile::tempdir().unwrap();
        let folder = folder::Folder::open(top.path()).unwrap();
        for (name, content, mode, expected) in [
            ("app", &b"\x7fELF\x02\x01"[..], 0o755, true),
            ("calc.o", b"\x7fELF\x02\x01", 0o644, true),
            ("libcalc.a", b"!<arch>\nx", 0o644, true),
            ("Calc.class", b"\xca\xfe\xba\xbe\0", 0o644, true),
            ("calc.obj", b"\x64\x86\x05", 0o644, true),
            ("teapot.obj", b"v 1.0 2.0", 0o644, false),
            ("run", b"#!/bin/sh\n", 0o755, false),
            // Named like data and not executable: a picture of a test, whatever is in it.
            ("sample.bin", b"\x7fELF\x02\x01", 0o644, false),
            ("empty.o", b"", 0o644, false),
        ] {
            let path = top.path().join(name);
            fs_err::write(&path, content).unwrap();
            fs_err::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let stat = folder::look(folder.top(), OsStr::new(name)).unwrap();
            assert_eq!(
                is_compiled(folder.top().as_fd(), OsStr::new(name), &stat),
                expected,
                "{name}"
            );
        }
    }
}
