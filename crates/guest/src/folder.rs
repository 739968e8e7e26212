//! Files below one folder, reached without ever following a link: every part of a path is opened
//! relative to its parent. Used by [`super::transfer`] and [`super::collect`]; [`every_name`] and
//! [`Descent`] go through trees of any depth with a bounded number of open folders.

use std::collections::VecDeque;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    size: i64,
    mtime: (i64, u64),
    ctime: (i64, u64),
    inode: u64,
    mode: u32,
}

impl Stamp {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless,
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

    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
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

/// A folder below another one, gone to and left a level at a time. Only the deepest [`MAX_OPEN`] folders of
/// the way are open: those above are opened again, as `..` of the one that is left, when they are needed.
#[derive(Debug)]
pub struct Descent {
    /// The deepest folders; never empty.
    open: VecDeque<OwnedFd>,
    /// Every folder of the way, from the top.
    way: Vec<Identity>,
}

/// Folders that a [`Descent`] keeps open.
pub const MAX_OPEN: usize = 64;

/// Device and inode: what tells a folder from every other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::cast_lossless,
        reason = "the fields of `stat` have other types on other architectures"
    )]
    fn of(folder: &OwnedFd) -> rustix::io::Result<Identity> {
        let stat = rustix::fs::fstat(folder)?;
        Ok(Identity(stat.st_dev as u64, stat.st_ino as u64))
    }
}

impl Descent {
    /// Begins at an open folder.
    pub fn new(top: BorrowedFd<'_>) -> rustix::io::Result<Descent> {
        let top = rustix::io::fcntl_dupfd_cloexec(top, 0)?;
        let way = vec![Identity::of(&top)?];
        Ok(Descent { open: VecDeque::from([top]), way })
    }

    /// The folder that was gone to.
    pub fn here(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.open.back().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Goes into a folder of this one.
    pub fn enter(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        let inner = open_directory(self.here()?, name)?;
        self.way.push(Identity::of(&inner)?);
        self.open.push_back(inner);
        if self.open.len() > MAX_OPEN {
            self.open.pop_front();
        }
        Ok(())
    }

    /// Goes back to the folder above; at the top, stays there.
    ///
    /// # Errors
    /// `ESTALE` when this folder has been moved elsewhere meanwhile and the one that it was in is not open
    /// any more: there is no way back.
    pub fn leave(&mut self) -> rustix::io::Result<()> {
        let [.., above, _] = self.way.as_slice() else { return Ok(()) };
        if self.open.len() == 1 {
            let opened = open_directory(self.here()?, OsStr::new(".."))?;
            if Identity::of(&opened)? != *above {
                return Err(Errno::STALE);
            }
            self.open.push_front(opened);
        }
        self.open.pop_back();
        self.way.pop();
        Ok(())
    }
}

/// Shows every name below a folder, at any depth, with the open folder it is in and how it looks: a
/// folder before what is in it. Ends early, without an error, when `show` says no.
///
/// # Errors
/// The first folder that could not be read, or name that could not be looked at; those behind it are
/// shown all the same, unless the tree was changed so that there is no way back.
pub fn every_name(
    top: BorrowedFd<'_>,
    show: &mut dyn FnMut(BorrowedFd<'_>, &OsStr, &Stat) -> bool,
) -> rustix::io::Result<()> {
    let mut descent = Descent::new(top)?;
    let mut trouble = None;
    // Folders that are still to be gone into, level by level.
    let Some(first) = folders_shown(top, show, &mut trouble) else { return Ok(()) };
    let mut waiting = vec![first];
    while let Some(level) = waiting.last_mut() {
        let Some(name) = level.pop() else {
            waiting.pop();
            if !waiting.is_empty() {
                descent.leave()?;
            }
            continue;
        };
        match descent.enter(&name) {
            Ok(()) => match folders_shown(descent.here()?, show, &mut trouble) {
                Some(inner) => waiting.push(inner),
                None => return Ok(()),
            },
            Err(Errno::NOENT) => {}
            Err(err) => trouble = trouble.or(Some(err)),
        }
    }
    trouble.map_or(Ok(()), Err)
}

/// Shows the names in one folder, and returns the folders among them, the last one first; `None` when
/// `show` said no.
fn folders_shown(
    fd: BorrowedFd<'_>,
    show: &mut dyn FnMut(BorrowedFd<'_>, &OsStr, &Stat) -> bool,
    trouble: &mut Option<Errno>,
) -> Option<Vec<OsString>> {
    let mut folders = Vec::new();
    let names = names(fd).unwrap_or_else(|err| {
        trouble.get_or_insert(err);
        Vec::new()
    });
    for name in names {
        match look(fd, &name) {
            Ok(stat) => {
                if !show(fd, &name, &stat) {
                    return None;
                }
                if kind(&stat) == FileType::Directory {
                    folders.push(name);
                }
            }
            Err(Errno::NOENT) => {}
            Err(err) => *trouble = trouble.or(Some(err)),
        }
    }
    folders.reverse();
    Some(folders)
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

#[cfg(test)]
mod tests {
    use crate::folder::*;

    /// `top/d/d/d/…`, with an `e` beside each `d`.
    fn ladder(depth: usize) -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let folder = Folder::open(top.path()).unwrap();
        let mut descent = Descent::new(folder.top()).unwrap();
        for _ in 0..depth {
            for name in ["d", "e"] {
                rustix::fs::mkdirat(descent.here().unwrap(), name, Mode::RWXU).unwrap();
            }
            descent.enter(OsStr::new("d")).unwrap();
        }
        top
    }

    #[test]
    fn shows_every_name_however_deep_with_few_open_folders() {
        let depth = MAX_OPEN * 10;
        let top = ladder(depth);
        let folder = Folder::open(top.path()).unwrap();
        let mut seen = 0;
        every_name(folder.top(), &mut |_, name, _| {
            assert!(name == "d" || name == "e");
            seen += 1;
            true
        })
        .unwrap();
        assert_eq!(seen, depth * 2);
        let mut descent = Descent::new(folder.top()).unwrap();
        for _ in 0..depth {
            descent.enter(OsStr::new("d")).unwrap();
            assert!(descent.open.len() <= MAX_OPEN);
        }
        for _ in 0..=depth {
            descent.leave().unwrap();
        }
        assert_eq!(Identity::of(&descent.open[0]).unwrap(), descent.way[0]);
        crate::removal::remove_tree(&top.path().join("d")).unwrap();
    }

    #[test]
    fn a_folder_that_was_moved_leads_nowhere_else() {
        let top = ladder(MAX_OPEN + 2);
        let folder = Folder::open(top.path()).unwrap();
        let mut descent = Descent::new(folder.top()).unwrap();
        for _ in 0..MAX_OPEN + 2 {
            descent.enter(OsStr::new("d")).unwrap();
        }
        // The highest folder that is still open goes elsewhere.
        fs_err::rename(top.path().join("d/d/d"), top.path().join("moved")).unwrap();
        for _ in 0..MAX_OPEN - 1 {
            descent.leave().unwrap();
        }
        assert_eq!(descent.leave(), Err(Errno::STALE));
    }

    #[test]
    fn ends_when_it_is_told_to() {
        let top = ladder(3);
        let folder = Folder::open(top.path()).unwrap();
        let mut seen = 0;
        let shown = every_name(folder.top(), &mut |_, _, _| {
            seen += 1;
            seen < 4
        });
        assert_eq!((shown, seen), (Ok(()), 4));
    }
}
