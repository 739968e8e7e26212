//! How much room the clone cache takes. Mirrors that nobody has used for a while are removed, the longest
//! unused first, until the rest is small enough. What is removed is fetched again when it is needed.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::GitError;

/// What the cache may take.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    pub bytes: u64,
    /// A mirror that was used more recently stays, whatever the size: a run may be reading it.
    pub idle: Duration,
}

/// 20 GiB, and what was used in the last twelve hours.
pub const ROOM: CacheLimits = CacheLimits { bytes: 20 << 30, idle: Duration::from_hours(12) };

/// A mirror on disk.
struct Mirror {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Evicts mirrors below `<state>/mirrors`, longest unused first, until the cache fits; returns how many
/// were removed.
pub fn prune(state: &Path, now: SystemTime, room: CacheLimits) -> Result<usize, GitError> {
    let mut mirrors = Vec::new();
    find(&state.join("mirrors"), 0, &mut mirrors)?;
    let mut total: u64 = mirrors.iter().map(|mirror| mirror.bytes).sum();
    // Sorted by last use, so the first mirror that is not idle ends the eviction: all later ones
    // were used even more recently.
    mirrors.sort_by_key(|mirror| mirror.used);
    let mut removed = 0;
    for mirror in mirrors {
        let is_idle = now.duration_since(mirror.used).is_ok_and(|idle| idle >= room.idle);
        if total <= room.bytes || !is_idle {
            break;
        }
        if remove(&mirror.path)? {
            total = total.saturating_sub(mirror.bytes);
            removed += 1;
        }
    }
    Ok(removed)
}

/// Mirrors are folders that end in `.git`, and damaged ones `.broken`; owners are above them.
fn find(folder: &Path, depth: usize, found: &mut Vec<Mirror>) -> Result<(), GitError> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(err.into()),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        // `file_type` describes a link itself, so no link leads out of the cache.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(b".new-");
        let is_mirror = is_unfinished
            || path
                .extension()
                .is_some_and(|extension| extension == "git" || extension == "broken");
        if is_mirror {
            let lock = path.with_extension("lock");
            let time = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
            // The lock is touched by each use; the folder's own time changes only when an entry of
            // it does. An unfinished folder has no lock, so its own time counts.
            let used = time(&lock).filter(|_| !is_unfinished).or_else(|| time(&path));
            let used = used.unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(Mirror { bytes: size(&path), path, used });
        } else if depth < 8 {
            find(&path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Bytes of all files below a folder; what cannot be read counts as nothing.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs_err::read_dir(folder) else { return 0 };
    let of = |entry: fs_err::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

/// False when somebody is using it after all.
fn remove(mirror: &Path) -> Result<bool, GitError> {
    let lock = mirror.with_extension("lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock)?;
    if lock.try_lock().is_err() {
        return Ok(false);
    }
    // A rename makes the mirror disappear in one step for other processes; deleting its files may
    // take minutes.
    let parent = mirror.parent().unwrap_or(Path::new("."));
    let aside = tempfile::Builder::new().prefix(".new-gone-").tempdir_in(parent)?;
    fs_err::rename(mirror, aside.path().join("mirror.git"))?;
    Ok(true)
}
