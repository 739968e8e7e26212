//! What changed in the workspace since the tree was unpacked.
//!
//! One walk that follows no link: files that look as they did are passed over, others are read and
//! compared by git's blob id. New files count unless `.gitignore` rules ignore them; files of the
//! uploaded tree always count. What cannot be part of a change (pipes, sockets, devices, nested
//! repositories, odd names, huge files) is listed with the reason and not sent.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, Gid, Stat, Uid};
use rustix::io::Errno;

use super::folder::{self, Folder, Parents, Stamp};
use super::paths;
use super::protocol::{Collected, MAX_CHANGED_BYTES, MAX_CHANGED_FILE, MAX_CHANGED_FILES};
use super::removal;
use super::transfer::{Base, Entry, Kind, blob_id};
use crate::tools::ToolError;

/// Deepest nesting of folders that is searched.
const MAX_DEPTH: usize = 200;

/// Most names that one collection looks at.
const MAX_NAMES: usize = 5_000_000;

/// Most entries of the list of refused files; the last one then says that there were more.
const MAX_REFUSED: usize = 1000;

/// Bytes of a path in that list.
const MAX_SHOWN_PATH: usize = 400;

/// Largest `.gitignore` that is obeyed, in bytes.
const MAX_IGNORE_FILE: u64 = 256 << 10;

/// A new or changed file, on its way out.
#[derive(Debug)]
pub struct Changed {
    pub kind: Kind,
    /// The content, or the target of a link.
    pub content: Vec<u8>,
}

/// Where changed files go. An error ends the collection.
pub type Sink<'a> = dyn FnMut(&str, Changed) -> io::Result<()> + 'a;

/// Finds what changed below `workspace` and hands it to `sink`, in the order of paths within each
/// folder. `stop` is asked often; when it says so, the collection ends with an error.
pub fn collect(
    workspace: &Path,
    base: &Base,
    sink: &mut Sink<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Collected, ToolError> {
    let broken = |err: &dyn std::fmt::Display| ToolError::Broken(format!("cannot collect: {err}"));
    let mut folder = Folder::open(workspace).map_err(|err| broken(&err))?;
    let mut walk = Walk {
        base,
        sink,
        stop,
        seen: HashSet::new(),
        listing: Collected::default(),
        rules: Vec::new(),
        names: 0,
        files: 0,
        bytes: 0,
    };
    walk.folder(folder.top(), &mut Vec::new(), 0)?;
    walk.rest_of_base(&mut folder)?;
    walk.listing.deleted.sort();
    walk.listing.refused.sort();
    Ok(walk.listing)
}

/// How a name compares with the base.
enum Seen {
    Unchanged,
    Changed(Changed),
    Folder,
    Gone,
    Refused(&'static str),
}

struct Walk<'a> {
    base: &'a Base,
    sink: &'a mut Sink<'a>,
    stop: &'a dyn Fn() -> bool,
    /// Paths of the base that the walk has met.
    seen: HashSet<&'a [u8]>,
    listing: Collected,
    /// The ignore rules of the open folders, outermost first, with the length of the folder's path.
    rules: Vec<(usize, Gitignore)>,
    names: usize,
    files: usize,
    bytes: u64,
}

impl Walk<'_> {
    /// Walks one folder; `path` is its path with a final `/`, or empty at the top.
    fn folder(
        &mut self,
        fd: BorrowedFd<'_>,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), ToolError> {
        let names = match folder::names(fd) {
            Ok(names) => names,
            Err(err) => return self.unreadable(path, err),
        };
        let rules = read_rules(fd);
        if let Some(rules) = rules {
            self.rules.push((path.len(), rules));
        }
        let own_rules = self.rules.last().is_some_and(|(length, _)| *length == path.len());
        let length = path.len();
        for name in &names {
            if length == 0 && name == ".git" {
                continue;
            }
            path.extend_from_slice(name.as_bytes());
            self.name(fd, name, path, depth)?;
            path.truncate(length);
        }
        if own_rules {
            self.rules.pop();
        }
        Ok(())
    }

    fn name(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), ToolError> {
        self.names += 1;
        if self.names > MAX_NAMES {
            return Err(ToolError::tell(format!("the workspace has more than {MAX_NAMES} files")));
        }
        if (self.stop)() {
            return Err(ToolError::tell("the collection was cancelled"));
        }
        let stat = match folder::look(parent, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(err) => return self.unreadable(path, err),
        };
        let is_folder = folder::kind(&stat) == FileType::Directory;
        let known = self.base.entries.get_key_value(path.as_slice());
        if let Some((key, entry)) = known {
            self.seen.insert(key.as_slice());
            let seen = compare(parent, name, &stat, Some(entry));
            if !matches!(seen, Seen::Folder) {
                return self.take(path, seen);
            }
            self.take(path, Seen::Gone)?;
        }
        if self.is_ignored(path, is_folder) || is_artefact(name, is_folder) {
            return Ok(());
        }
        if !is_folder {
            let seen = compare(parent, name, &stat, None);
            return self.take(path, seen);
        }
        if depth >= MAX_DEPTH {
            self.refuse(path, "folders nested too deeply");
            return Ok(());
        }
        let inner = match folder::open_directory(parent, name) {
            Ok(inner) => inner,
            Err(err) => return self.unreadable(path, err),
        };
        if folder::look(inner.as_fd(), OsStr::new("CACHEDIR.TAG")).is_ok() {
            return Ok(());
        }
        if folder::look(inner.as_fd(), OsStr::new(".git")).is_ok() {
            self.refuse(path, "a nested repository");
            return Ok(());
        }
        path.push(b'/');
        self.folder(inner.as_fd(), path, depth + 1)
    }

    /// Files of the base that the walk has not met: deleted, or in ignored or refused folders.
    fn rest_of_base(&mut self, folder: &mut Folder) -> Result<(), ToolError> {
        let base = self.base;
        for (path, entry) in &base.entries {
            if self.seen.contains(path.as_slice()) {
                continue;
            }
            let seen = match folder.parent(path, Parents::Require) {
                Ok((parent, name)) => match folder::look(parent, name) {
                    Ok(stat) => compare(parent, name, &stat, Some(entry)),
                    Err(err) => missing(err),
                },
                Err(err) => missing(err),
            };
            let seen = if matches!(seen, Seen::Folder) { Seen::Gone } else { seen };
            self.take(path, seen)?;
        }
        Ok(())
    }

    fn take(&mut self, path: &[u8], seen: Seen) -> Result<(), ToolError> {
        match seen {
            Seen::Unchanged | Seen::Folder => return Ok(()),
            Seen::Refused(reason) => {
                self.refuse(path, reason);
                return Ok(());
            }
            Seen::Gone | Seen::Changed(_) => {}
        }
        let text = match paths::check(path) {
            Ok(text) => text,
            Err(reason) => {
                self.refuse(path, &reason);
                return Ok(());
            }
        };
        let Seen::Changed(changed) = seen else {
            self.listing.deleted.push(text.to_owned());
            return Ok(());
        };
        self.files += 1;
        self.bytes += changed.content.len() as u64;
        if self.files > MAX_CHANGED_FILES {
            return Err(ToolError::tell(format!("more than {MAX_CHANGED_FILES} files changed")));
        }
        if self.bytes > MAX_CHANGED_BYTES {
            return Err(ToolError::tell(format!("more than {MAX_CHANGED_BYTES} bytes changed")));
        }
        (self.sink)(text, changed)
            .map_err(|err| ToolError::Broken(format!("cannot send `{text}`: {err}")))
    }

    fn refuse(&mut self, path: &[u8], reason: &str) {
        let refused = &mut self.listing.refused;
        if refused.len() < MAX_REFUSED {
            refused.push((shortened(path), reason.to_owned()));
        } else if refused.len() == MAX_REFUSED {
            refused.push(("…".to_owned(), "and more".to_owned()));
        }
    }

    fn unreadable(&mut self, path: &[u8], err: Errno) -> Result<(), ToolError> {
        if path.is_empty() {
            return Err(ToolError::Broken(format!("cannot read the workspace: {err}")));
        }
        self.refuse(path, "it cannot be read");
        Ok(())
    }

    /// What git's rules say about a path that is not in the base; the innermost rule wins.
    fn is_ignored(&self, path: &[u8], is_folder: bool) -> bool {
        for (length, rules) in self.rules.iter().rev() {
            let below = Path::new(OsStr::from_bytes(&path[*length..]));
            let found = rules.matched(below, is_folder);
            if !found.is_none() {
                return found.is_ignore();
            }
        }
        false
    }
}

/// What commands leave behind in repositories whose ignore rules do not mention it: caches of
/// interpreters and test runners, installed packages. Only ever asked about files that the base does
/// not have. Folders with a `CACHEDIR.TAG` (<https://bford.info/cachedir/>) are left out as well.
fn is_artefact(name: &OsStr, is_folder: bool) -> bool {
    const FOLDERS: &[&str] = &["__pycache__", "node_modules", ".tox", ".nox", ".venv", ".gradle"];
    let name = name.to_string_lossy();
    if is_folder {
        return FOLDERS.contains(&name.as_ref())
            || (name.starts_with('.') && name.ends_with("_cache"));
    }
    name.ends_with(".pyc") || name == ".DS_Store"
}

/// A path for people, without its middle when nobody would read it all: a thousand of the longest ones
/// would be more than an answer may hold.
fn shortened(path: &[u8]) -> String {
    let start = path.get(..MAX_SHOWN_PATH / 2).filter(|_| path.len() > MAX_SHOWN_PATH);
    match (start, path.get(path.len().saturating_sub(MAX_SHOWN_PATH / 2)..)) {
        (Some(start), Some(end)) => format!("{}…{}", paths::escape(start), paths::escape(end)),
        _ => paths::escape(path),
    }
}

/// What is not found is gone; what only cannot be looked at (too many open files, no right to) is not.
fn missing(err: Errno) -> Seen {
    match err {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Seen::Gone,
        _ => Seen::Refused("it cannot be read"),
    }
}

/// Looks at one file: stamp first, content only when that differs.
fn compare(parent: BorrowedFd<'_>, name: &OsStr, stat: &Stat, base: Option<&Entry>) -> Seen {
    if base.is_some_and(|entry| entry.stamp == Stamp::of(stat)) {
        return Seen::Unchanged;
    }
    let changed = match folder::kind(stat) {
        FileType::Directory => return Seen::Folder,
        FileType::RegularFile => {
            let kind = if stat.st_mode & 0o100 == 0 { Kind::File } else { Kind::Executable };
            match folder::read_file(parent, name, MAX_CHANGED_FILE) {
                Ok(Some(content)) => Changed { kind, content },
                Ok(None) => return Seen::Refused("a file larger than 100 MB"),
                Err(_) => return Seen::Refused("it cannot be read"),
            }
        }
        FileType::Symlink => match rustix::fs::readlinkat(parent, name, Vec::new()) {
            Ok(target) => Changed { kind: Kind::Symlink, content: target.into_bytes() },
            Err(_) => return Seen::Refused("it cannot be read"),
        },
        FileType::Fifo => return Seen::Refused("a named pipe"),
        FileType::Socket => return Seen::Refused("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => return Seen::Refused("a device"),
        FileType::Unknown => return Seen::Refused("an unknown kind of file"),
    };
    match base {
        Some(entry) if entry.kind == changed.kind && entry.blob == blob_id(&changed.content) => {
            Seen::Unchanged
        }
        _ => Seen::Changed(changed),
    }
}

/// The ignore rules of a folder; a rule that cannot be parsed is left out, as git does.
fn read_rules(fd: BorrowedFd<'_>) -> Option<Gitignore> {
    let content = folder::read_file(fd, OsStr::new(".gitignore"), MAX_IGNORE_FILE).ok()??;
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&content).lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

/// Removes the files of the base that have not changed and the folders that are empty then, so that
/// only what setup made is left; gives everything to `owner`.
pub fn remove_base(
    workspace: &Path,
    base: &Base,
    owner: Option<(u32, u32)>,
) -> Result<(), ToolError> {
    let broken = |err: Errno| ToolError::Broken(format!("cannot clear the workspace: {err}"));
    let mut folder = Folder::open(workspace).map_err(broken)?;
    for (path, entry) in base.entries.iter().rev() {
        let Ok((parent, name)) = folder.parent(path, Parents::Require) else { continue };
        let Ok(stat) = folder::look(parent, name) else { continue };
        if matches!(compare(parent, name, &stat, Some(entry)), Seen::Unchanged) {
            rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(broken)?;
        }
    }
    let git = workspace.join(".git");
    let removed = match fs_err::symlink_metadata(&git) {
        Ok(found) if found.is_dir() => removal::remove_tree(&git),
        Ok(_) => fs_err::remove_file(&git),
        Err(_) => Ok(()),
    };
    removed.map_err(|err| ToolError::Broken(format!("cannot clear the workspace: {err}")))?;
    let parents: HashSet<&[u8]> = base.entries.keys().flat_map(|path| above(path)).collect();
    let mut parents: Vec<&[u8]> = parents.into_iter().collect();
    parents.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in parents {
        if let Ok((parent, name)) = folder.parent(path, Parents::Require) {
            // Fails when something is left in it, which is the point.
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
    }
    match owner {
        Some((user, group)) => {
            let ids = (Uid::from_raw(user), Gid::from_raw(group));
            rustix::fs::fchown(folder.top(), Some(ids.0), Some(ids.1)).map_err(broken)?;
            give(folder.top(), ids).map_err(broken)
        }
        None => Ok(()),
    }
}

/// Every folder above a path, as paths.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// Changes the owner of everything in a folder, without following links.
fn give(fd: BorrowedFd<'_>, owner: (Uid, Gid)) -> rustix::io::Result<()> {
    let mut given = Ok(());
    let walked = folder::every_name(fd, &mut |parent, name, _| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        given = rustix::fs::chownat(parent, name, Some(owner.0), Some(owner.1), flags);
        given.is_ok()
    });
    given.and(walked)
}
