//! Files below one folder, reached without ever following a link: every part of a path is opened
//! relative to its parent. Used by [`super::transfer`] and [`super::collect`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// What to do about parents that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    Create,
    Require,
}

/// A folder, and the chain of folders below it that was opened last: paths in order share parents,
/// so most need no new one.
#[derive(Debug)]
pub struct Folder {
    top: OwnedFd,
    chain: Vec<(Vec<u8>, OwnedFd)>,
}

/// How a file looked: when all of it is the same, the content is taken to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    size: i64,
    mtime: (i64, u64),
    ctime: (i64, u64),
    inode: u64,
    mode: u32,
}

impl Stamp {
    #[expect(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless,
        clippy::useless_conversion,
        reason = "the fields of `stat` have other types on other architectures"
    )]
    pub fn of(stat: &Stat) -> Stamp {
        Stamp {
            size: stat.st_size as i64,
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
        }
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    pub fn open(path: &Path) -> rustix::io::Result<Folder> {
        let top = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
        Ok(Folder { top, chain: Vec::new() })
    }

    pub fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// The open parent of `path`, and the last name of it. The path was checked before.
    pub fn parent<'p>(
        &mut self,
        path: &'p [u8],
        parents: Parents,
    ) -> rustix::io::Result<(BorrowedFd<'_>, &'p OsStr)> {
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let last = names.pop().unwrap_or_default();
        let shared =
            self.chain.iter().zip(&names).take_while(|((open, _), name)| open == *name).count();
        self.chain.truncate(shared);
        for name in &names[shared..] {
            let above = self.chain.last().map_or(self.top.as_fd(), |(_, fd)| fd.as_fd());
            let opened = open_directory(above, OsStr::from_bytes(name));
            let fd = match opened {
                Err(Errno::NOENT) if parents == Parents::Create => {
                    rustix::fs::mkdirat(above, *name, Mode::from_raw_mode(0o755))?;
                    open_directory(above, OsStr::from_bytes(name))?
                }
                other => other?,
            };
            self.chain.push((name.to_vec(), fd));
        }
        let parent = self.chain.last().map_or(self.top.as_fd(), |(_, fd)| fd.as_fd());
        Ok((parent, OsStr::from_bytes(last)))
    }
}

/// Opens a folder in a folder.
pub fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

/// Looks at a name without following it.
pub fn look(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Stat> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// What kind of file it is.
pub fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The names in a folder, sorted, without `.` and `..`.
pub fn names(folder: BorrowedFd<'_>) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a regular file of at most `limit` bytes; `None` when it is no regular file or larger.
pub fn read_file(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    limit: u64,
) -> std::io::Result<Option<Vec<u8>>> {
    // Not blocking: the name may be a pipe by now.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > limit {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= limit).then_some(content))
}
