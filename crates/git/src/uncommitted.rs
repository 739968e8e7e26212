//! What somebody's working folder has beside its commit, for `exec`: a run begins at the commit and does not see it.
//! Only reads: no filter that the repository's configuration names is run, and the index is not written.

use std::path::Path;

use git2::{IndexEntryExtendedFlag, Repository, Status, StatusOptions};

/// Paths of the folder of a repository that are not as they were committed, new files and folders included; those that
/// git ignores are not, nor what a sparse checkout leaves out. None where git cannot tell.
pub fn uncommitted(folder: &Path) -> Vec<String> {
    let Ok(repo) = Repository::open(folder) else { return Vec::new() };
    if repo.is_bare() {
        return Vec::new();
    }
    let mut options = StatusOptions::new();
    options.include_untracked(true).exclude_submodules(true);
    let (Ok(statuses), Ok(index)) = (repo.statuses(Some(&mut options)), repo.index()) else {
        return Vec::new();
    };
    let is_left_out = |path: &[u8], status: Status| {
        let entry = index.get_path(Path::new(std::str::from_utf8(path).unwrap_or_default()), 0);
        let flags = entry.map_or(0, |entry| entry.flags_extended);
        status == Status::WT_DELETED && flags & IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0
    };
    let changed = statuses.iter().filter(|it| !is_left_out(it.path_bytes(), it.status()));
    changed.map(|it| String::from_utf8_lossy(it.path_bytes()).into_owned()).collect()
}
