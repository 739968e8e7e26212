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
pub enum Comparison {
    Unchanged,
    /// With the stamp from before the content was read.
    Changed(Changed, Stamp),
    Folder,
    Gone,
    Refused(&'static str),
}

/// Compares one file with how it looked before; everything differs from nothing.
pub fn compare(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    stat: &Stat,
    before: Option<Look>,
) -> Comparison {
    let stamp = Stamp::of(stat);
    if before.is_some_and(|before| before.stamp == stamp) {
        return Comparison::Unchanged;
    }
    let (kind, content) = match folder::kind(stat) {
        FileType::Directory => return Comparison::Folder,
        FileType::RegularFile => {
            let kind = if stat.st_mode & 0o100 == 0 { Kind::File } else { Kind::Executable };
            match folder::read_file(parent, name, MAX_CHANGED_FILE) {
                Ok(Some(content)) => (kind, content),
                Ok(None) => return Comparison::Refused("a file larger than 100 MB"),
                Err(_) => return Comparison::Refused("it cannot be read"),
            }
        }
        FileType::Symlink => match rustix::fs::readlinkat(parent, name, Vec::new()) {
            Ok(target) => (Kind::Symlink, target.into_bytes()),
            Err(_) => return Comparison::Refused("it cannot be read"),
        },
        FileType::Fifo => return Comparison::Refused("a named pipe"),
        FileType::Socket => return Comparison::Refused("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => {
            return Comparison::Refused("a device");
        }
        FileType::Unknown => return Comparison::Refused("an unknown kind of file"),
    };
    let blob = blob_id(&content);
    if before.and_then(|before| before.content) == Some((kind, blob)) {
        return Comparison::Unchanged;
    }
    Comparison::Changed(Changed { kind, content, blob }, stamp)
}

/// Compares what is at a path, wherever that leads without a link.
pub fn compare_at(folder: &mut Folder, path: &[u8], before: Option<Look>) -> Comparison {
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
        Comparison::Changed(changed, stamp) => {
            Look { stamp, content: Some((changed.kind, changed.blob)) }
        }
        Comparison::Unchanged | Comparison::Folder | Comparison::Gone | Comparison::Refused(_) => {
            Look { stamp, content: None }
        }
    }
}

/// What is not found is gone; what only cannot be looked at (too many open files, no right to) is not.
pub fn missing(err: Errno) -> Comparison {
    match err {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Comparison::Gone,
        _ => Comparison::Refused("it cannot be read"),
    }
}
