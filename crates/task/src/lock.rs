//! A lock that is a file: of whoever works on something, until its process ends. The kernel keeps it, so it never
//! outlives that process.
//!
//! Files that nobody has used for long are removed ([`remove_unused`]). A file that is removed while somebody opens it
//! would be a lock that nobody else can see, so whoever has taken one looks whether it is still the file of that name.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fs_err as fs;

/// How often a lock is tried for: whoever removes the file holds it for a moment.
const TRIES: usize = 5;
const BETWEEN: Duration = Duration::from_millis(10);

/// Takes the lock, and marks the file as used `now`; `None` when others have it.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn take(path: &Path, now: SystemTime) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let file = file.into_file();
        match file.try_lock() {
            Ok(()) if is_named(&file, path)? => {
                // That it stays old costs nothing but another file later.
                let _ = file.set_modified(now);
                return Ok(Some(file));
            }
            // It was removed meanwhile.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN),
            Err(TryLockError::Error(err)) => return Err(err),
        }
    }
    Ok(None)
}

/// Removes the file when nobody has the lock, and it is `is_unused` even then. True when it is gone.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn remove_unused(
    path: &Path,
    is_unused: impl Fn(&Metadata) -> bool,
) -> io::Result<bool> {
    let Ok(file) = File::open(path) else { return Ok(false) };
    if file.try_lock().is_err() || !is_unused(&file.metadata()?) || !is_named(&file, path)? {
        return Ok(false);
    }
    // The lock is held until it is gone: whoever opened it before finds it gone then.
    fs::remove_file(path)?;
    Ok(true)
}

/// Whether it is the file of this name.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let named = match fs::symlink_metadata(path) {
        Ok(named) => named,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(err) => return Err(err),
    };
    let own = file.metadata()?;
    Ok((own.dev(), own.ino()) == (named.dev(), named.ino()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::lock::*;

    /// How often the file is removed.
    const ROUNDS: usize = 50;

    #[test]
    fn two_never_have_the_lock_while_a_third_removes_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work.lock");
        let (holders, taken, removed) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while removed.load(Ordering::Relaxed) < ROUNDS {
                        let Some(lock) = take(&path, SystemTime::UNIX_EPOCH).unwrap() else {
                            continue;
                        };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two have it");
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        taken.fetch_add(1, Ordering::Relaxed);
                        drop(lock);
                    }
                });
            }
            while removed.load(Ordering::Relaxed) < ROUNDS {
                let gone = remove_unused(&path, |_| true).unwrap();
                removed.fetch_add(usize::from(gone), Ordering::Relaxed);
            }
        });
        assert!(taken.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn what_is_held_or_was_used_since_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work.lock");
        let is_old = |data: &Metadata| data.modified().unwrap() == SystemTime::UNIX_EPOCH;
        fs::write(&path, "").unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let lock = take(&path, later).unwrap().unwrap();
        assert!(take(&path, later).unwrap().is_none());
        assert!(!remove_unused(&path, |_| true).unwrap(), "it is held");
        drop(lock);
        assert!(!remove_unused(&path, is_old).unwrap(), "it was used");
        assert!(remove_unused(&path, |_| true).unwrap() && !path.exists());
        assert!(!remove_unused(&path, |_| true).unwrap(), "it is gone");
    }
}
