//! The disk on which this machine keeps what runs write: whether it has room, and whether it is what a failure comes from.
//! The local sandbox keeps its workspace there as well.

use std::path::Path;

/// With less than this a run would not get far.
pub const LEAST: u64 = 32 << 20;

/// What to do about a full disk.
pub const MAKE_ROOM: &str = "free some space on the disk of the state folder";

/// How little room there is on the disk of a folder, where that is too little for a run.
pub fn shortage(folder: &Path) -> Option<String> {
    // By what is free for everybody: the rest is root's, who is told by the write.
    let disk = rustix::fs::statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let megabytes = free >> 20;
    (free < LEAST)
        .then(|| format!("the disk of `{}` has only {megabytes} MB left", folder.display()))
}

/// An error says that a disk is full, and that of this folder is. The words alone could be about a disk of somebody else,
/// as those that come out of a container.
pub fn is_to_blame(words: &str, folder: &Path) -> bool {
    words.contains("No space left") && shortage(folder).is_some()
}
