//! The tree into the workspace, and what it looked like then.
//!
//! [`unpack`] takes the tar that the host made from git objects; it is strict all the same, because
//! names and links in it come from a repository that anyone may have written. For every file it
//! remembers git's blob id and how the file looked, so that [`super::collect`] finds changes without
//! reading what has not changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use sha1::{Digest, Sha1};

use super::checkpoint::LastCheckpoint;
use super::folder::{self, Folder, Parents, Stamp};
use super::look::Look;
use super::paths;
use super::wanted::Wanted;
use crate::tool::ToolError;

/// The uploaded tree, by path as in git.
#[derive(Debug, Default)]
pub struct Base {
    pub entries: BTreeMap<Vec<u8>, Entry>,
    /// What is in the workspace besides, and not the model's work while it looks so: setup left it.
    pub others: BTreeMap<Vec<u8>, Look>,
    /// How the last checkpoint found it.
    pub kept: LastCheckpoint,
    /// What is in the change although ignore rules hide it.
    pub wanted: Wanted,
}

/// One file of the uploaded tree.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// Git's blob id.
    pub blob: [u8; 20],
    pub stamp: Stamp,
}

impl Entry {
    /// How the file looked when it was unpacked.
    pub fn look(&self) -> Look {
        Look { stamp: self.stamp, content: Some((self.kind, self.blob)) }
    }
}

/// The kinds of file that git keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Executable,
    Symlink,
}

/// Git's id of a blob with this content.
pub fn blob_id(content: &[u8]) -> [u8; 20] {
    let mut hash = blob_hash(content.len() as u64);
    hash.update(content);
    hash.finalize().into()
}

fn blob_hash(size: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("blob {size}\0"))
}

/// Unpacks a tar into `workspace`; the result is the new base. Files that setup left at the same
/// paths are replaced. Returns the numbers of files and bytes.
pub fn unpack(workspace: &Path, tar: impl Read) -> Result<(Base, u64, u64), ToolError> {
    let broken = |err: &dyn std::fmt::Display| ToolError::Broken(format!("cannot unpack: {err}"));
    let mut folder = Folder::open(workspace).map_err(|err| broken(&err))?;
    let mut base = Base::default();
    let mut bytes = 0;
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().map_err(|err| broken(&err))? {
        let mut entry = entry.map_err(|err| broken(&err))?;
        let path = entry.path_bytes().into_owned();
        let path = path.strip_suffix(b"/").unwrap_or(&path);
        let place = |err: &dyn std::fmt::Display| {
            ToolError::Broken(format!("cannot unpack `{}`: {err}", paths::escape(path)))
        };
        let kind = entry.header().entry_type();
        if kind == tar::EntryType::XGlobalHeader {
            continue;
        }
        // The repository of its own that the host gives the tree is no part of what is compared.
        let inside_git = path.strip_prefix(b".git/");
        let is_git = path == b".git" || inside_git.is_some();
        if path != b".git" {
            paths::check_contained(inside_git.unwrap_or(path)).map_err(|reason| place(&reason))?;
        }
        if kind.is_dir() {
            folder.parent(&[path, b"/x"].concat(), Parents::Create).map_err(|err| place(&err))?;
            continue;
        }
        let (parent, name) = folder.parent(path, Parents::Create).map_err(|err| place(&err))?;
        let unpacked = match kind {
            tar::EntryType::Regular => unpack_file(parent, name, &mut entry),
            tar::EntryType::Symlink => unpack_link(parent, name, &entry),
            _ => Err(io::Error::other("only files, links and folders are accepted")),
        };
        let unpacked = unpacked.map_err(|err| place(&err))?;
        if is_git {
            continue;
        }
        if base.entries.insert(path.to_vec(), unpacked).is_some() {
            return Err(place(&"it is there twice"));
        }
        bytes += entry.size();
    }
    let files = base.entries.len() as u64;
    Ok((base, files, bytes))
}

/// Removes files and the folders that are empty without them, so that a tree can be put back in which they
/// are not. What is not there, or is a folder, is left alone.
pub fn remove(workspace: &Path, paths: &[String]) -> Result<(), ToolError> {
    let broken = |err: &dyn std::fmt::Display| ToolError::Broken(format!("cannot remove: {err}"));
    let mut folder = Folder::open(workspace).map_err(|err| broken(&err))?;
    for path in paths {
        paths::check(path.as_bytes()).map_err(|reason| broken(&reason))?;
        let mut flags = AtFlags::empty();
        let mut rest = Some(path.as_str());
        while let Some(path) = rest {
            let removed = folder
                .parent(path.as_bytes(), Parents::Require)
                .and_then(|(parent, name)| rustix::fs::unlinkat(parent, name, flags));
            match removed {
                Ok(()) => {}
                Err(
                    Errno::NOENT
                    | Errno::NOTDIR
                    | Errno::LOOP
                    | Errno::ISDIR
                    | Errno::PERM
                    | Errno::NOTEMPTY
                    | Errno::EXIST,
                ) => break,
                Err(err) => return Err(broken(&format!("`{path}`: {err}"))),
            }
            flags = AtFlags::REMOVEDIR;
            rest = path.rsplit_once('/').map(|(above, _)| above);
        }
    }
    Ok(())
}

fn unpack_file(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    entry: &mut tar::Entry<'_, impl Read>,
) -> io::Result<Entry> {
    let executable = entry.header().mode()? & 0o111 != 0;
    let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, mode) {
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, mode)
        }
        other => other,
    };
    let mut file = File::from(opened?);
    let size = entry.size();
    let mut hash = blob_hash(size);
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(usize::MAX).clamp(1, 128 << 10)];
    let mut left = size;
    loop {
        let count = entry.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        left -= (count as u64).min(left);
        hash.update(&buffer[..count]);
        file.write_all(&buffer[..count])?;
    }
    if left > 0 {
        return Err(io::Error::other("the stream ended inside the file"));
    }
    let seconds = i64::try_from(entry.header().mtime()?).unwrap_or(0);
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
    let stat = rustix::fs::fstat(file.as_fd())?;
    let kind = if executable { Kind::Executable } else { Kind::File };
    Ok(Entry { kind, blob: hash.finalize().into(), stamp: Stamp::of(&stat) })
}

fn unpack_link(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    entry: &tar::Entry<'_, impl Read>,
) -> io::Result<Entry> {
    let target = entry.link_name_bytes().ok_or_else(|| io::Error::other("a link to nothing"))?;
    let target = OsStr::from_bytes(&target);
    match rustix::fs::symlinkat(target, parent, name) {
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
            rustix::fs::symlinkat(target, parent, name)?;
        }
        other => other?,
    }
    let stat = folder::look(parent, name)?;
    let blob = blob_id(target.as_bytes());
    Ok(Entry { kind: Kind::Symlink, blob, stamp: Stamp::of(&stat) })
}
