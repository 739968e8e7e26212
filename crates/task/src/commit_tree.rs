//! The tree of a commit, as the readers of manifests, lock files and CI files take it.

use super::workspace::Workspace;
use patchwright_ecosystems::files::{Entry, Kind, Tree};
use patchwright_git::tree::{self, FolderEntryKind};

/// Reads from git at once, without waiting: large repositories belong on a thread that may block. What
/// cannot be read counts as absent.
impl Tree for Workspace {
    fn list(&self, folder: &str) -> Vec<Entry> {
        let listed = tree::list_at(&self.repo, self.seen(), folder).unwrap_or_default();
        let shown = listed.into_iter().filter_map(|listed| {
            let kind = match listed.kind {
                FolderEntryKind::File => Kind::File,
                FolderEntryKind::Folder => Kind::Folder,
                FolderEntryKind::Symlink | FolderEntryKind::Submodule => return None,
            };
            Some(Entry { name: listed.name, kind })
        });
        shown.collect()
    }

    fn read(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        tree::file_within(&self.repo, self.seen(), path, most).ok().flatten()
    }
}
