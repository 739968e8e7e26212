//! Removes trees whatever a command made of them: nested deeper than there are file descriptors, stack
//! or bytes in a path, and with folders that nobody may enter.
//!
//! Everything is reached from its open folder, without ever following a link. No more than
//! [`MAX_DEPTH`] folders are open at a time: what is deeper is moved up, next to the top of what is being
//! removed, and its turn comes there. Used for the folders of local sandboxes, on the host, and by
//! [`super::collect`].

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Folders that are open at a time, besides the one above the tree.
const MAX_DEPTH: usize = 32;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Needs no rights to the folder itself.
const HANDLE: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes the folder `path` with everything in it; one that is not there is a success.
///
/// # Errors
/// The first thing that could not be removed. Everything else is gone all the same. A file or a link at
/// `path` itself is an error, and stays.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let name = CString::new(name.as_bytes())?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(above.unwrap_or(Path::new(".")), flags, Mode::empty());
    let opened = above.and_then(|above| {
        let top = open(above.as_fd(), &name)?;
        Ok((above, top))
    });
    match opened {
        Ok((above, top)) => Ok(Removal::new(above, name, top)?.run()?),
        Err(Errno::NOENT) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

/// A folder that is being emptied.
struct Level {
    /// Its name in the folder above it.
    name: CString,
    /// What is left to look at in it.
    entries: Dir,
    /// Something has come or gone since its entries were read from the start.
    has_changed: bool,
}

struct Removal {
    /// The folder that the tree is in.
    above: OwnedFd,
    /// The open folders, from the top of the tree.
    levels: Vec<Level>,
    /// Number of folders that were moved up: part of their names.
    moved: u64,
    failed: Option<Errno>,
}

impl Removal {
    fn new(above: OwnedFd, name: CString, top: OwnedFd) -> rustix::io::Result<Removal> {
        let top = Level { name, entries: Dir::new(top)?, has_changed: false };
        Ok(Removal { above, levels: vec![top], moved: 0, failed: None })
    }

    fn run(mut self) -> rustix::io::Result<()> {
        while let Some(level) = self.levels.last_mut() {
            let step = match level.entries.read() {
                Some(Ok(entry)) => {
                    let (name, kind) = (entry.file_name().to_owned(), entry.file_type());
                    match name.to_bytes() {
                        b"." | b".." => Ok(()),
                        _ => self.entry(name, kind),
                    }
                }
                Some(Err(err)) => Err(err),
                None => self.leave(),
            };
            if let Err(err) = step {
                self.failed.get_or_insert(err);
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Removes what is no folder, or is an empty one; goes into the others.
    fn entry(&mut self, name: CString, kind: FileType) -> rustix::io::Result<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let here = level.entries.fd()?;
        let mut removed = match kind {
            FileType::Directory => Err(Errno::ISDIR),
            _ => rustix::fs::unlinkat(here, &name, AtFlags::empty()),
        };
        // Some file systems do not say the kind in the folder.
        if removed == Err(Errno::ISDIR)
            || (removed == Err(Errno::PERM) && kind == FileType::Unknown)
        {
            removed = rustix::fs::unlinkat(here, &name, AtFlags::REMOVEDIR);
        }
        match removed {
            Ok(()) => {
                level.has_changed = true;
                Ok(())
            }
            // Somebody else was faster. Not a change of ours: a name that is never found would be one
            // each time.
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.enter(name),
            Err(err) => Err(err),
        }
    }

    fn enter(&mut self, name: CString) -> rustix::io::Result<()> {
        let Some(level) = self.levels.last() else { return Ok(()) };
        let inner = open(level.entries.fd()?, &name)?;
        if self.levels.len() >= MAX_DEPTH {
            return self.move_up(&name);
        }
        self.levels.push(Level { name, entries: Dir::new(inner)?, has_changed: false });
        Ok(())
    }

    /// Moves a folder of the deepest level into the top one.
    fn move_up(&mut self, name: &CStr) -> rustix::io::Result<()> {
        let [top, .., deepest] = self.levels.as_mut_slice() else { return Ok(()) };
        loop {
            self.moved += 1;
            let Ok(fresh) = CString::new(format!("deep-{}", self.moved)) else { return Ok(()) };
            let (from, to) = (deepest.entries.fd()?, top.entries.fd()?);
            match rustix::fs::renameat(from, name, to, &fresh) {
                Ok(()) => {
                    deepest.has_changed = true;
                    top.has_changed = true;
                    return Ok(());
                }
                // The name is taken, by a folder that is not empty or by something else.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(err) => return Err(err),
            }
        }
    }

    /// Removes the deepest open folder, which has been read to its end.
    fn leave(&mut self) -> rustix::io::Result<()> {
        let Some(mut level) = self.levels.pop() else { return Ok(()) };
        let above = match self.levels.last() {
            Some(above) => above.entries.fd()?,
            None => self.above.as_fd(),
        };
        match rustix::fs::unlinkat(above, &level.name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                if let Some(above) = self.levels.last_mut() {
                    above.has_changed = true;
                }
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            // What was moved here, or passed over because the folder changed while it was read.
            Err(Errno::NOTEMPTY | Errno::EXIST) if level.has_changed => {
                level.has_changed = false;
                level.entries.rewind();
                self.levels.push(level);
                Ok(())
            }
            Err(err) => Err(err),
        }
    }
}

/// Opens a folder in a folder, made accessible to its owner where it is not.
fn open(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let fd = match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let handle = rustix::fs::openat(parent, name, HANDLE, Mode::empty())?;
            // By its descriptor: a name could mean something else by now, and be a link.
            let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
            rustix::fs::chmod(itself, Mode::RWXU)?;
            return rustix::fs::openat(&handle, c".", FOLDER, Mode::empty());
        }
        opened => opened?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        // What this would have helped with says so itself.
        let _ = rustix::fs::fchmod(&fd, Mode::RWXU);
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use crate::removal::*;

    /// Nested folders, each with a file in it, far longer than any path may be.
    fn dig(top: &Path, depth: usize) {
        let mut at = rustix::fs::open(top, FOLDER, Mode::empty()).unwrap();
        for _ in 0..depth {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&at, c"file", flags, Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&at, c"a-folder", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, c"a-folder", FOLDER, Mode::empty()).unwrap();
        }
    }

    fn lock(path: &Path, mode: u32) {
        fs_err::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn removes_what_is_deeper_than_a_path_can_say() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join("top");
        // Two deep arms a level apart, and names like those that moved folders get.
        for folder in ["x/arm", "deep-1/inside", "deep-2"] {
            fs_err::create_dir_all(top.join(folder)).unwrap();
        }
        fs_err::write(top.join("deep-3"), "").unwrap();
        dig(&top.join("x/arm"), 3000);
        dig(&top.join("x"), 500);
        remove_tree(&top).unwrap();
        assert_eq!(fs_err::read_dir(base.path()).unwrap().count(), 0);
        remove_tree(&top).unwrap();
    }

    #[test]
    fn removes_many_deep_folders_beside_each_other() {
        let base = tempfile::tempdir().unwrap();
        let mut above = base.path().join("top");
        for _ in 0..MAX_DEPTH + 3 {
            above.push("d");
        }
        for number in 0..300 {
            fs_err::create_dir_all(above.join(format!("{number}/inside"))).unwrap();
            fs_err::write(above.join(format!("{number}/file")), "").unwrap();
        }
        remove_tree(&base.path().join("top")).unwrap();
        assert_eq!(fs_err::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn opens_what_is_locked_and_follows_no_link() {
        let base = tempfile::tempdir().unwrap();
        let (top, outside) = (base.path().join("top"), base.path().join("outside"));
        fs_err::create_dir_all(top.join("a/b/c")).unwrap();
        fs_err::create_dir_all(outside.join("kept")).unwrap();
        lock(&outside, 0o500);
        std::os::unix::fs::symlink(&outside, top.join("a/b/link")).unwrap();
        std::os::unix::fs::symlink("/nowhere", top.join("a/b/dangling")).unwrap();
        fs_err::write(top.join("a/b/c/file"), "").unwrap();
        lock(&top.join("a/b/c"), 0o000);
        lock(&top.join("a/b"), 0o500);
        lock(&top.join("a"), 0o300);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert!(outside.join("kept").is_dir());
        assert_eq!(fs_err::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o500);
        lock(&outside, 0o700);
    }

    #[test]
    fn a_file_or_a_link_is_no_tree() {
        let base = tempfile::tempdir().unwrap();
        let (file, link) = (base.path().join("file"), base.path().join("link"));
        fs_err::write(&file, "").unwrap();
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        for path in [&file, &link] {
            assert!(remove_tree(path).is_err());
            assert!(fs_err::symlink_metadata(path).is_ok());
        }
    }
}
