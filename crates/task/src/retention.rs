//! What a fleet leaves on a disk stays bounded: folders of its runs that ended long ago, locks, and
//! clone mirrors that nobody uses.
//!
//! Called by long-lived and nightly processes; single commands leave everything as it is. What the run of a single command
//! (`exec`, `issue`, `review`) has left in the same state folder is never removed: it may be all that somebody has of it.

use std::collections::HashSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use tokio_util::sync::CancellationToken;

use super::folder::{OF_FLEET, settled};
use super::learn::read;
use super::lock;
use patchwright_base::clock::Clock;
use patchwright_git::cache;
use patchwright_journal as journal;

/// How long things are kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// Folders of a fleet's runs that have ended, since then.
    pub ended: Duration,
    /// Folders of a fleet's runs that could still be resumed, and locks.
    pub unfinished: Duration,
    /// Bytes of all these folders together; the oldest ended ones go first, but none of the last day.
    pub bytes: u64,
    pub mirrors: cache::CacheLimits,
}

/// A month, a quarter, 10 GiB, and what the clone cache keeps.
pub const KEPT: RetentionLimits = RetentionLimits {
    ended: Duration::from_hours(30 * 24),
    unfinished: Duration::from_hours(90 * 24),
    bytes: 10 << 30,
    mirrors: cache::ROOM,
};

impl RetentionLimits {
    /// These, where ended runs are to be kept at least so long.
    #[must_use]
    pub fn at_least(self, ended: Duration) -> RetentionLimits {
        let ended = self.ended.max(ended);
        RetentionLimits { ended, unfinished: self.unfinished.max(ended), ..self }
    }
}

const DAY: Duration = Duration::from_hours(24);
/// Between two rounds.
const ROUND: Duration = Duration::from_hours(1);

/// Goes round until the process ends.
pub async fn keep_small(
    state: PathBuf,
    clock: Clock,
    kept: RetentionLimits,
    ending: CancellationToken,
) {
    loop {
        let (state, now) = (state.clone(), SystemTime::from(clock.now()));
        let round = tokio::task::spawn_blocking(move || sweep(&state, now, kept));
        match round.await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(count)) => tracing::info!(count, "old runs and clones were removed"),
            Ok(Err(err)) => tracing::warn!(%err, "old runs and clones could not be removed"),
        }
        tokio::select! {
            () = ending.cancelled() => return,
            () = tokio::time::sleep(ROUND) => {}
        }
    }
}

/// A run's folder.
struct Folder {
    path: PathBuf,
    bytes: u64,
    age: Duration,
    /// It could be resumed.
    is_unfinished: bool,
}

/// One round; returns how many runs and mirrors were removed.
///
/// # Errors
/// What the disk says. A run that cannot be removed is left, and the others are removed all the same; what else was not
/// reached is left for the next round.
pub fn sweep(state: &Path, now: SystemTime, kept: RetentionLimits) -> std::io::Result<usize> {
    let mut folders = runs(state, now)?;
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.age));
    let mut total: u64 = folders.iter().map(|folder| folder.bytes).sum();
    let mut removed = 0;
    let mut trouble = None;
    for folder in folders {
        let is_old = if folder.is_unfinished {
            folder.age >= kept.unfinished
        } else {
            folder.age >= kept.ended || (total > kept.bytes && folder.age >= DAY)
        };
        if !is_old {
            continue;
        }
        match fs::remove_dir_all(&folder.path) {
            Ok(()) => {
                total = total.saturating_sub(folder.bytes);
                removed += 1;
            }
            // Otherwise the disk would fill up behind the first one.
            Err(err) => trouble = trouble.or(Some(err)),
        }
    }
    for pointer in names(&state.join(settled::FOLDER))? {
        if age(&pointer, now).is_some_and(|age| age >= settled::KEPT) {
            settled::forget(state, &pointer)?;
        }
    }
    sweep_small(state, now, kept.unfinished)?;
    let mirrors = cache::prune(state, now, kept.mirrors).map_err(std::io::Error::other)?;
    trouble.map_or(Ok(removed + mirrors), Err)
}

fn runs(state: &Path, now: SystemTime) -> std::io::Result<Vec<Folder>> {
    let unfinished: HashSet<String> = names(&state.join("unfinished"))?
        .iter()
        .filter_map(|pointer| fs::read_to_string(pointer).ok())
        .collect();
    let mut folders = Vec::new();
    for path in names(&state.join("runs"))?.into_iter().filter(|path| is_folder(path)) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_unfinished = name.is_some_and(|name| unfinished.contains(&name));
        if !path.join(OF_FLEET).exists() {
            continue;
        }
        // A folder without a journal was not begun properly; its own time counts.
        let journal = path.join(journal::FILE);
        let age = age(&journal, now).or_else(|| age(&path, now)).unwrap_or_default();
        folders.push(Folder { bytes: bytes(&path), path, age, is_unfinished });
    }
    Ok(folders)
}

/// It is one itself: what a link leads to is elsewhere.
fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_dir())
}

/// Bytes of all files in a folder and below it: a run of several attempts has a folder for each. What cannot be read
/// counts as nothing.
fn bytes(folder: &Path) -> u64 {
    let mut total = 0;
    for path in names(folder).unwrap_or_default() {
        // What links lead to is elsewhere.
        let Ok(data) = path.symlink_metadata() else { continue };
        total += if data.is_dir() { bytes(&path) } else { data.len() };
    }
    total
}

/// Locks and pointers of work that nobody will come back to, and what was read for lessons long ago.
fn sweep_small(state: &Path, now: SystemTime, kept: Duration) -> std::io::Result<()> {
    for folder in ["locks", "unfinished", read::FOLDER] {
        for path in names(&state.join(folder))? {
            if folder == "unfinished" && leads_to_a_kept_run(state, &path) {
                continue;
            }
            // Most are young, and need not be opened.
            if age(&path, now).is_some_and(|age| age >= kept) {
                lock::remove_unused(&path, |data| {
                    age_of(data, now).is_some_and(|age| age >= kept)
                })?;
            }
        }
    }
    Ok(())
}

/// Without its pointer, the run of a single command could not be resumed.
fn leads_to_a_kept_run(state: &Path, pointer: &Path) -> bool {
    let run = fs::read_to_string(pointer).unwrap_or_default();
    let folder = state.join("runs").join(&run);
    !run.is_empty() && is_folder(&folder) && !folder.join(OF_FLEET).exists()
}

fn age(path: &Path, now: SystemTime) -> Option<Duration> {
    age_of(&path.metadata().ok()?, now)
}

fn age_of(data: &Metadata, now: SystemTime) -> Option<Duration> {
    // A time in the future is a clock that jumped: as good as new.
    Some(now.duration_since(data.modified().ok()?).unwrap_or_default())
}

fn names(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(err) => Err(err),
    }
}
