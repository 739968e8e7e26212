//! The files a patch works on, as the pure part sees them: names, kinds, contents; and how a name
//! with symbolic links in it becomes one without.

use std::io;

use crate::paths::is_dot_git;

/// A tree of files. Paths are relative to its root, `/` between segments, without `.`, `..` and
/// empty segments; the root itself is the empty path.
pub trait Tree {
    /// A path as written by the model, made relative to the root. The error is a refusal for the
    /// model: the path leads out of the tree, or no file can have this name.
    fn clean(&self, path: &str) -> Result<String, String>;

    /// What stands at this path. No segment before the last one may be a link.
    fn entry(&self, path: &str) -> io::Result<Entry>;

    /// The content of a regular file. No segment may be a link.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// A path of the patch as messages call it.
    fn shown(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Absent,
    /// A regular file with these permission bits.
    File {
        mode: u32,
    },
    Dir,
    /// A symbolic link; a leading `/` means the root of the tree.
    Link(String),
    /// A symbolic link out of the tree.
    Outside,
    /// A FIFO, a device, a socket.
    Other,
}

/// What to do with a link in the last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Follow,
    Keep,
}

/// Links followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Follows links until the path has none, and says what stands there.
///
/// `lookup` is [`Tree::entry`], or something in front of it.
pub fn resolve(
    path: &str,
    last: Last,
    lookup: &dyn Fn(&str) -> io::Result<Entry>,
) -> io::Result<(String, Entry)> {
    let mut ahead: Vec<String> = segments(path).rev().map(str::to_owned).collect();
    let mut behind: Vec<String> = Vec::new();
    let mut links = 0;
    let mut entry = Entry::Dir;
    while let Some(segment) = ahead.pop() {
        match entry {
            Entry::Dir | Entry::Absent => {}
            _ => return Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        }
        if segment == ".." {
            if entry == Entry::Absent {
                return Err(io::Error::from_raw_os_error(libc::ENOENT));
            }
            behind.pop().ok_or_else(outside)?;
            continue;
        }
        behind.push(segment);
        if entry == Entry::Absent {
            continue;
        }
        entry = lookup(&behind.join("/"))?;
        if ahead.is_empty() && last == Last::Keep {
            break;
        }
        if entry == Entry::Outside {
            return Err(outside());
        }
        if let Entry::Link(target) = &entry {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            behind.pop();
            if target.starts_with('/') {
                behind.clear();
            }
            ahead.extend(segments(target).rev().map(str::to_owned));
            entry = Entry::Dir;
        }
    }
    Ok((behind.join("/"), entry))
}

fn segments(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty() && *segment != ".")
}

/// The error for a link that leads out of the tree; [`is_outside`] recognises it.
pub fn outside() -> io::Error {
    io::Error::from_raw_os_error(libc::EXDEV)
}

pub fn is_outside(err: &io::Error) -> bool {
    err.raw_os_error() == Some(libc::EXDEV)
}

/// Removes `.` and `..` as text, without looking at the disk. `None` when it leads above the root.
pub fn textual(path: &str) -> Option<String> {
    let mut out: Vec<&str> = Vec::new();
    for segment in segments(path) {
        if segment == ".." {
            out.pop()?;
        } else {
            out.push(segment);
        }
    }
    Some(out.join("/"))
}

/// Whether git, on any system that people clone to, would take a segment of this path for `.git`.
pub fn is_in_git_dir(path: &str) -> bool {
    path.split('/').any(is_dot_git)
}
