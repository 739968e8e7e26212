//! How a file looks, and whether it still looks so: stamp first, content only when that differs. Used
//! by [`super::collect`], [`super::checkpoint`] and [`super::leftover`].

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::folder::{self, Folder, Parents, Stamp};
use super::protocol::MAX_CHANGED_FILE;
use super::transfer::{Kind, blob_id};

/// How something in the workspace looked at some time.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub stamp: Stamp,
    /// What it is and git's blob id, where the content is known.
    pub content: Option<(Kind, [u8; 20])>,
}

impl Look {
    /// The look of something that is known by its path alone.
    pub fn of_folder() -> Look {
        Look { stamp: Stamp::default(), content: None }
    }
}

/// A new or changed file, on its way out.
#[derive(Debug)]
pub struct Changed {
    pub kind: Kind,
    /// The content, or the target of a link.
    pub content: Vec<u8>,
    /// Git's id of it.
    pub blob: [u8; 20],
}

/// How a name compares with what it was.
pub enum Seen {
    Unchanged,
    /// With the stamp from before the content was read.
    Changed(Changed, Stamp),
    Folder,
    Gone,
    Refused(&'static str),
}

/// Compares one file with how it looked before; everything differs from nothing.
pub fn compare(parent: BorrowedFd<'_>, name: &OsStr, stat: &Stat, before: Option<Look>) -> Seen {
    let stamp = Stamp::of(stat);
    if before.is_some_and(|before| before.stamp == stamp) {
        return Seen::Unchanged;
    }
    let (kind, content) = match folder::kind(stat) {
        FileType::Directory => return Seen::Folder,
        FileType::RegularFile => {
            let kind = if stat.st_mode & 0o100 == 0 { Kind::File } else { Kind::Executable };
            match folder::read_file(parent, name, MAX_CHANGED_FILE) {
                Ok(Some(content)) => (kind, content),
                Ok(None) => return Seen::Refused("a file larger than 100 MB"),
                Err(_) => return Seen::Refused("it cannot be read"),
            }
        }
        FileType::Symlink => match rustix::fs::readlinkat(parent, name, Vec::new()) {
            Ok(target) => (Kind::Symlink, target.into_bytes()),
            Err(_) => return Seen::Refused("it cannot be read"),
        },
        FileType::Fifo => return Seen::Refused("a named pipe"),
        FileType::Socket => return Seen::Refused("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => return Seen::Refused("a device"),
        FileType::Unknown => return Seen::Refused("an unknown kind of file"),
    };
    let blob = blob_id(&content);
    if before.and_then(|before| before.content) == Some((kind, blob)) {
        return Seen::Unchanged;
    }
    Seen::Changed(Changed { kind, content, blob }, stamp)
}

/// Compares what is at a path, wherever that leads without a link.
pub fn compare_at(folder: &mut Folder, path: &[u8], before: Option<Look>) -> Seen {
    match folder.parent(path, Parents::Require) {
        Ok((parent, name)) => match folder::look(parent, name) {
            Ok(stat) => compare(parent, name, &stat, before),
            Err(err) => missing(err),
        },
        Err(err) => missing(err),
    }
}

/// How a file looks now, with its content when it has one of at most `room` bytes, which that takes
/// from.
pub fn now(parent: BorrowedFd<'_>, name: &OsStr, stat: &Stat, room: &mut u64) -> Look {
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    let stamp = Stamp::of(stat);
    if size > *room {
        return Look { stamp, content: None };
    }
    *room -= size;
    match compare(parent, name, stat, None) {
        Seen::Changed(changed, stamp) => {
            Look { stamp, content: Some((changed.kind, changed.blob)) }
        }
        Seen::Unchanged | Seen::Folder | Seen::Gone | Seen::Refused(_) => {
            Look { stamp, content: None }
        }
    }
}

/// What is not found is gone; what only cannot be looked at (too many open files, no right to) is not.
pub fn missing(err: Errno) -> Seen {
    match err {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Seen::Gone,
        _ => Seen::Refused("it cannot be read"),
    }
}
