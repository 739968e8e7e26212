//! Files that were moved to where nothing can be part of a change: a name that is refused, a nested repository, a folder of packages. Only
//! their deletion would be published, so they are found by their contents and stay. Used by [`super::collect`] and
//! [`super::checkpoint`].

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FileType;

use super::folder::{self, Folder, Parents};
use super::look::{Comparison, compare};
use super::protocol::MAX_CHANGED_BYTES;
use super::transfer::{Base, blob_id};

/// Most names that are looked at in all nested repositories.
const MAX_NAMES: usize = 200_000;

/// Deepest nesting of folders in a nested repository.
const MAX_DEPTH: usize = 100;

/// What was refused.
#[derive(Default)]
pub(super) struct Lost {
    /// Git's ids of the contents of refused files.
    pub(super) contents: HashSet<[u8; 20]>,
    /// The folders of nested repositories.
    pub(super) repositories: Vec<Vec<u8>>,
}

impl Lost {
    /// Notes files of the tree whose new places are refused.
    pub(super) fn stay<'b>(&mut self, base: &Base, files: impl Iterator<Item = &'b [u8]>) {
        let entries = files.filter_map(|path| base.entries.get(path));
        self.contents.extend(entries.map(|entry| entry.blob));
    }

    /// Why a file stays whose content is where nothing can be part of a change.
    pub(super) const REASON: &str =
        "its content was moved to where it cannot be part of a change, so the file stays";

    /// Divides deleted files into those whose content was moved to a refused place, and the others.
    pub(super) fn divide(
        &mut self,
        folder: &mut Folder,
        base: &Base,
        deleted: Vec<String>,
        stop: &dyn Fn() -> bool,
    ) -> (Vec<String>, Vec<String>) {
        let entries = deleted.iter().filter_map(|path| base.entries.get(path.as_bytes()));
        let sizes: HashSet<u64> = entries.map(|entry| entry.stamp.size()).collect();
        let contents = &mut self.contents;
        let mut search =
            Search { sizes, contents, stop, names: MAX_NAMES, bytes: MAX_CHANGED_BYTES };
        for path in &self.repositories {
            if search.sizes.is_empty() {
                break;
            }
            let Ok((parent, name)) = folder.parent(path, Parents::Require) else { continue };
            let Ok(inner) = folder::open_directory(parent, name) else { continue };
            search.folder(inner.as_fd(), 0);
        }
        // Files without content are all alike, which says nothing about where one went.
        self.contents.remove(&blob_id(b""));
        deleted.into_iter().partition(|path| {
            let entry = base.entries.get(path.as_bytes());
            entry.is_some_and(|entry| self.contents.contains(&entry.blob))
        })
    }
}

struct Search<'a> {
    /// Of the deleted files; others are not read.
    sizes: HashSet<u64>,
    contents: &'a mut HashSet<[u8; 20]>,
    stop: &'a dyn Fn() -> bool,
    /// Names that may still be looked at.
    names: usize,
    /// Bytes that may still be read.
    bytes: u64,
}

impl Search<'_> {
    /// Reads what a folder has. What cannot be read is passed over: then the deletion counts, as it would have.
    fn folder(&mut self, fd: BorrowedFd<'_>, depth: usize) {
        let Ok(names) = folder::names(fd) else { return };
        for name in names.iter().filter(|name| *name != ".git") {
            if self.names == 0 || (self.stop)() {
                return;
            }
            self.names -= 1;
            self.name(fd, name, depth);
        }
    }

    fn name(&mut self, parent: BorrowedFd<'_>, name: &OsStr, depth: usize) {
        let Ok(stat) = folder::look(parent, name) else { return };
        if folder::kind(&stat) == FileType::Directory {
            if depth < MAX_DEPTH
                && let Ok(inner) = folder::open_directory(parent, name)
            {
                self.folder(inner.as_fd(), depth + 1);
            }
            return;
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if !self.sizes.contains(&size) || size > self.bytes {
            return;
        }
        self.bytes -= size;
        if let Comparison::Changed(changed, _) = compare(parent, name, &stat, None) {
            self.contents.insert(changed.blob);
        }
    }
}
