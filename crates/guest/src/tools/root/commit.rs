//! Carries out a list of file operations as one: all contents are on the disk under temporary names
//! before the first name changes, and whatever was done is undone when a later step fails.
//!
//! A kill in between can leave some operations done and temporary files behind; each single file is
//! either old or new at any moment.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Root, split};
use crate::patch::plan::FileOp;
use crate::patch::tree::Entry;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Where and why a list of operations was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {source}")]
pub struct NotDone {
    pub path: String,
    pub source: io::Error,
}

pub(super) fn run(root: &Root, ops: &[FileOp]) -> Result<(), NotDone> {
    let mut commit =
        Commit { root, is_single: ops.len() == 1, staged: Vec::new(), undo: Vec::new() };
    let result = commit.stage(ops).and_then(|()| commit.apply(ops));
    if result.is_err() {
        commit.roll_back();
    }
    commit.clean_up();
    result
}

fn at(op: &FileOp) -> impl FnOnce(Errno) -> NotDone {
    move |err| NotDone { path: op.path().to_owned(), source: err.into() }
}

/// A name in an open folder.
struct FolderEntry {
    dir: OwnedFd,
    name: String,
}

impl FolderEntry {
    /// A folder that came there meanwhile could be moved away, but not back into place.
    fn is_folder(&self) -> bool {
        rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

/// How to take one step back.
enum Undo {
    /// The old file is kept under the second name.
    Restore(FolderEntry, String),
    Unlink(FolderEntry),
    RemoveDir(FolderEntry),
}

struct Commit<'r> {
    root: &'r Root,
    /// One rename is atomic by itself; there is nothing to undo.
    is_single: bool,
    /// One temporary file for each write, in order; `None` once it has its name.
    staged: Vec<Option<FolderEntry>>,
    undo: Vec<Undo>,
}

impl Commit<'_> {
    /// Writes every content to a temporary file in the nearest folder that exists.
    fn stage(&mut self, ops: &[FileOp]) -> Result<(), NotDone> {
        for op in ops {
            if let FileOp::Write { path, content, mode } = op {
                self.stage_one(path, content, *mode).map_err(at(op))?;
            }
        }
        Ok(())
    }

    fn stage_one(&mut self, path: &str, content: &[u8], mode: Option<u32>) -> Result<(), Errno> {
        let mut folder = split(path).0;
        while !matches!(self.root.entry(folder), Ok(Entry::Dir)) {
            folder = split(folder).0;
        }
        let dir = self.folder(folder)?;
        let name = temporary_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&dir, &name, flags, Mode::from_raw_mode(0o666))?;
        self.staged.push(Some(FolderEntry { dir, name }));
        let mut file = std::fs::File::from(file);
        file.write_all(content).map_err(|err| errno(&err))?;
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    fn apply(&mut self, ops: &[FileOp]) -> Result<(), NotDone> {
        let mut write = 0;
        for op in ops {
            self.apply_one(op, write).map_err(at(op))?;
            write += usize::from(matches!(op, FileOp::Write { .. }));
        }
        Ok(())
    }

    /// `write` counts the writes before this operation.
    fn apply_one(&mut self, op: &FileOp, write: usize) -> Result<(), Errno> {
        let (parent, name) = split(op.path());
        let place = FolderEntry { dir: self.folder(parent)?, name: name.to_owned() };
        let is_of_folder = matches!(op, FileOp::MakeDir { .. } | FileOp::RemoveDir { .. });
        if !is_of_folder && place.is_folder() {
            return Err(Errno::ISDIR);
        }
        match op {
            // A folder still has the old files in it, under temporary names.
            FileOp::Remove { .. } | FileOp::RemoveDir { .. } => {
                let kept = temporary_name();
                rustix::fs::renameat(&place.dir, name, &place.dir, &kept)?;
                self.undo.push(Undo::Restore(place, kept));
            }
            FileOp::MakeDir { .. } => {
                rustix::fs::mkdirat(&place.dir, name, Mode::from_raw_mode(0o777))?;
                self.undo.push(Undo::RemoveDir(place));
            }
            FileOp::Write { .. } => self.write(place, write)?,
        }
        Ok(())
    }

    /// Gives a staged file its name. What has the name now is kept beside it.
    fn write(&mut self, place: FolderEntry, index: usize) -> Result<(), Errno> {
        let Some(Some(staged)) = self.staged.get(index) else { return Err(Errno::INVAL) };
        let FolderEntry { dir, name } = &place;
        let kept = temporary_name();
        let has_old = if self.is_single {
            false
        } else {
            match rustix::fs::linkat(dir, name, dir, &kept, AtFlags::empty()) {
                Err(Errno::NOENT) => false,
                Ok(()) => true,
                // No hard links here: the name is free for a moment.
                Err(_) => rustix::fs::renameat(dir, name, dir, &kept).map(|()| true)?,
            }
        };
        let renamed = rustix::fs::renameat(&staged.dir, &staged.name, dir, name);
        if renamed.is_ok() {
            self.staged[index] = None;
        }
        match (has_old, &renamed) {
            (true, _) => self.undo.push(Undo::Restore(place, kept)),
            (false, Ok(())) => self.undo.push(Undo::Unlink(place)),
            (false, Err(_)) => {}
        }
        renamed
    }

    fn folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.root.open_at(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
    }

    /// As well as possible: an error here leaves what cannot be undone.
    fn roll_back(&mut self) {
        for step in self.undo.drain(..).rev() {
            let _ = match step {
                Undo::Restore(place, kept) => {
                    let restored = rustix::fs::renameat(&place.dir, &kept, &place.dir, &place.name);
                    // A rename between two names of one file does nothing.
                    let _ = rustix::fs::unlinkat(&place.dir, &kept, AtFlags::empty());
                    restored
                }
                Undo::Unlink(place) => {
                    rustix::fs::unlinkat(&place.dir, &place.name, AtFlags::empty())
                }
                Undo::RemoveDir(place) => {
                    rustix::fs::unlinkat(&place.dir, &place.name, AtFlags::REMOVEDIR)
                }
            };
        }
    }

    fn clean_up(&mut self) {
        for place in self.staged.drain(..).flatten() {
            let _ = rustix::fs::unlinkat(&place.dir, &place.name, AtFlags::empty());
        }
        for step in self.undo.drain(..) {
            if let Undo::Restore(place, kept) = step {
                let gone = rustix::fs::unlinkat(&place.dir, &kept, AtFlags::empty());
                // Folders come after what was in them.
                if gone == Err(Errno::ISDIR) {
                    let _ = rustix::fs::unlinkat(&place.dir, &kept, AtFlags::REMOVEDIR);
                }
            }
        }
    }
}

fn temporary_name() -> String {
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(".patchwright-{}-{number}.tmp", std::process::id())
}

fn errno(err: &io::Error) -> Errno {
    err.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
