//! Removes files that hold a secret of setup, and files and folders whose names do, before what setup has left is kept.
//!
//! Only what has changed since the guest was started is read: what was there before cannot hold it.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memmem::Finder;

use crate::tool::ToolError;

/// Clocks of file systems are coarse.
const SLACK_SECONDS: i64 = 2;
/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;
/// Files that are named in the answer.
const MAX_NAMED: usize = 50;

/// The beginning of the guest's life, in seconds since 1970, less some slack.
#[expect(
    clippy::disallowed_methods,
    reason = "the file system's own clock is what it is compared with"
)]
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(SLACK_SECONDS)
}

/// Where setup may have left something: in the workspace and the home folder, or everywhere.
pub fn roots(everywhere: bool, workspace: &Path, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    if everywhere {
        return vec![PathBuf::from("/")];
    }
    std::iter::once(workspace.to_path_buf()).chain(env.get("HOME").map(PathBuf::from)).collect()
}

/// Removes every file below `roots` that has changed since `since` and holds one of `texts`, also as the target of
/// a symbolic link, and every file and folder with one of them in its path; returns their paths, the first ones of
/// many. Texts are found across the ends of lines too, as tools break base64. Other file systems below them are left
/// out. What the owner may not read is made readable for this, and what nobody can look into is removed.
///
/// # Errors
/// When a file cannot be removed: then nobody knows what is left.
pub fn purge(
    roots: &[PathBuf],
    texts: &[String],
    since: i64,
    cancelled: &AtomicBool,
) -> Result<Vec<String>, ToolError> {
    let finders: Vec<Finder<'_>> =
        texts.iter().filter(|text| !text.is_empty()).map(Finder::new).collect();
    let longest = texts.iter().map(String::len).max().unwrap_or_default();
    let mut purge = Purge { finders, longest, since, cancelled, removed: Vec::new() };
    for root in roots {
        let device = fs_err::symlink_metadata(root).map_err(|err| broken(root, &err))?.dev();
        purge.below(root, device)?;
    }
    Ok(purge.removed)
}

struct Purge<'a> {
    finders: Vec<Finder<'a>>,
    longest: usize,
    since: i64,
    cancelled: &'a AtomicBool,
    removed: Vec<String>,
}

impl Purge<'_> {
    fn below(&mut self, root: &Path, device: u64) -> Result<(), ToolError> {
        let mut open = vec![root.to_path_buf()];
        while let Some(folder) = open.pop() {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(ToolError::tell("the search for secrets was cancelled"));
            }
            let entries = match list(&folder) {
                Ok(entries) => entries,
                // A folder of somebody else, where the user of setup may not look: it has left nothing there.
                Err(err) if is_gone(&err) || err.kind() == ErrorKind::PermissionDenied => continue,
                Err(err) => return Err(broken(&folder, &err)),
            };
            for entry in entries {
                let path = entry.map_err(|err| broken(&folder, &err))?.path();
                let stat = match fs_err::symlink_metadata(&path) {
                    Ok(stat) => stat,
                    Err(err) if is_gone(&err) => continue,
                    Err(err) => return Err(broken(&path, &err)),
                };
                let is_new = stat.ctime() >= self.since;
                // What is mounted there is no part of what is kept.
                if stat.is_dir() && stat.dev() != device {
                    continue;
                }
                if is_new && self.is_named_so(root, &path) {
                    if stat.is_dir() { remove_all(&folder, &path) } else { remove(&folder, &path) }
                        .map_err(|err| broken(&path, &err))?;
                    self.note(&path);
                } else if stat.is_dir() {
                    open.push(path);
                } else if is_new && self.holds(&path, &stat)? {
                    remove(&folder, &path).map_err(|err| broken(&path, &err))?;
                    self.note(&path);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &Path) {
        if self.removed.len() < MAX_NAMED {
            self.removed.push(path.to_string_lossy().into_owned());
        }
    }

    /// By the name, with the folders above it below the root: a text that has a `/` is the names of several.
    fn is_named_so(&self, root: &Path, path: &Path) -> bool {
        let below = path.strip_prefix(root).unwrap_or(path).as_os_str().as_encoded_bytes();
        let name = below.len() - path.file_name().unwrap_or_default().len().min(below.len());
        self.finders.iter().any(|finder| {
            // What ends before the name is in that of a folder, which has been looked at.
            let from = (name + 1).saturating_sub(finder.needle().len());
            below.get(from..).is_some_and(|end| finder.find(end).is_some())
        })
    }

    fn holds(&self, path: &Path, stat: &std::fs::Metadata) -> Result<bool, ToolError> {
        if stat.is_symlink() {
            let target = fs_err::read_link(path).map_err(|err| broken(path, &err))?;
            return Ok(self.is_in(target.as_os_str().as_encoded_bytes()));
        }
        if !stat.is_file() || stat.len() == 0 {
            return Ok(false);
        }
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let open = || File::options().read(true).custom_flags(flags).open(path);
        let file = open().or_else(|err| {
            open_up(path, stat, &err)?;
            open()
        });
        match file {
            Ok(file) => self.is_inside(file).map_err(|err| broken(path, &err)),
            Err(err) if is_gone(&err) => Ok(false),
            // Nobody knows what is in it, and it cannot be kept without knowing.
            Err(err) if err.kind() == ErrorKind::PermissionDenied => Ok(true),
            Err(err) => Err(broken(path, &err)),
        }
    }

    fn is_inside(&self, mut file: impl Read) -> std::io::Result<bool> {
        let mut bytes = vec![0; PIECE];
        // What was read, as it is and without spaces and ends of lines: a text may stand across two pieces.
        let (mut plain, mut joined) = (Vec::new(), Vec::new());
        loop {
            let count = file.read(&mut bytes)?;
            if count == 0 {
                return Ok(false);
            }
            let piece = bytes.get(..count).unwrap_or_default();
            plain.extend_from_slice(piece);
            joined.extend(piece.iter().filter(|byte| !byte.is_ascii_whitespace()));
            for read in [&mut plain, &mut joined] {
                if self.is_in(read) {
                    return Ok(true);
                }
                read.drain(..read.len().saturating_sub(self.longest.saturating_sub(1)));
            }
        }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        self.finders.iter().any(|finder| finder.find(bytes).is_some())
    }
}

fn list(folder: &Path) -> std::io::Result<fs_err::ReadDir> {
    fs_err::read_dir(folder).or_else(|err| {
        open_up(folder, &fs_err::symlink_metadata(folder)?, &err)?;
        fs_err::read_dir(folder)
    })
}

fn remove(folder: &Path, path: &Path) -> std::io::Result<()> {
    fs_err::remove_file(path).or_else(|err| {
        open_up(folder, &fs_err::symlink_metadata(folder)?, &err)?;
        fs_err::remove_file(path)
    })
}

/// Removes a folder with all that is in it, also where folders are closed to their owner.
fn remove_all(parent: &Path, top: &Path) -> std::io::Result<()> {
    let mut folders = vec![top.to_path_buf()];
    let mut at = 0;
    while let Some(folder) = folders.get(at).cloned() {
        at += 1;
        let entries = match list(&folder) {
            Ok(entries) => entries,
            // One of somebody else that is empty goes all the same.
            Err(err) if is_gone(&err) || err.kind() == ErrorKind::PermissionDenied => continue,
            Err(err) => return Err(err),
        };
        for entry in entries {
            let path = entry?.path();
            match fs_err::symlink_metadata(&path) {
                Ok(stat) if stat.is_dir() => folders.push(path),
                Ok(_) => remove(&folder, &path)?,
                Err(err) if is_gone(&err) => {}
                Err(err) => return Err(err),
            }
        }
    }
    for folder in folders.iter().rev() {
        let above = folder.parent().unwrap_or(parent);
        let removed = fs_err::remove_dir(folder).or_else(|err| {
            open_up(above, &fs_err::symlink_metadata(above)?, &err)?;
            fs_err::remove_dir(folder)
        });
        match removed {
            Err(err) if !is_gone(&err) => return Err(err),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Gives the owner of a file or folder what it had taken from itself, where that is the user of setup.
fn open_up(path: &Path, stat: &std::fs::Metadata, refused: &Error) -> std::io::Result<()> {
    if refused.kind() != ErrorKind::PermissionDenied {
        return Err(Error::new(refused.kind(), refused.to_string()));
    }
    let own = if stat.is_dir() { 0o700 } else { 0o600 };
    fs_err::set_permissions(path, Permissions::from_mode(stat.mode() & 0o7777 | own))
        // That of somebody else cannot be changed, which is no news.
        .map_err(|_| ErrorKind::PermissionDenied.into())
}

fn is_gone(err: &std::io::Error) -> bool {
    matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn broken(path: &Path, err: &std::io::Error) -> ToolError {
    ToolError::tell(format!("cannot look for secrets in `{}`: {err}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_that_hold_a_secret_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let (root, secret) = (folder.path(), "s3cret-value-of-a-registry");
        fs_err::create_dir_all(root.join("deep/er")).unwrap();
        let write = |name: &str, content: &[u8]| fs_err::write(root.join(name), content).unwrap();
        write("plain", b"nothing");
        write("deep/er/.npmrc", format!("//registry/:_authToken={secret}\n").as_bytes());
        // Across two pieces.
        let mut long = vec![b'x'; PIECE + secret.len() - 7];
        long.extend(secret.as_bytes());
        write("long", &long);
        write("cut", &long[..long.len() - 1]);
        // In lines, and closed to its owner.
        write("wrapped", secret.replace("value", "val\r\n  ue").as_bytes());
        write("closed", secret.as_bytes());
        fs_err::create_dir(root.join("dark")).unwrap();
        write("dark/inside", secret.as_bytes());
        for (name, mode) in [("closed", 0), ("dark/inside", 0), ("dark", 0), ("deep/er", 0o500)] {
            fs_err::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
        }
        symlink(format!("/nowhere/{secret}"), root.join("link")).unwrap();
        symlink(root.join("deep/er/.npmrc"), root.join("harmless")).unwrap();
        // In names: of a file, of a link, of a folder with what is in it, and across two folders.
        write(&format!("name-{secret}"), b"");
        symlink("plain", root.join(format!("to-{secret}"))).unwrap();
        let cache = format!("cache-{secret}.d");
        fs_err::create_dir_all(root.join(&cache).join("inner")).unwrap();
        write(&format!("{cache}/inner/file"), b"nothing");
        for name in ["inner", ""] {
            let closed = root.join(&cache).join(name);
            fs_err::set_permissions(closed, Permissions::from_mode(0o500)).unwrap();
        }
        fs_err::create_dir_all(root.join("a-two/parts-b")).unwrap();
        let texts = [secret.to_owned(), "two/parts".to_owned()];
        let roots = [root.to_path_buf()];
        let go_on = AtomicBool::new(false);
        // Nothing has changed since tomorrow.
        assert!(purge(&roots, &texts, now() + 86_400, &go_on).unwrap().is_empty());
        let mut removed = purge(&roots, &texts, now(), &go_on).unwrap();
        removed.sort();
        let (name, link) = (format!("name-{secret}"), format!("to-{secret}"));
        let expected =
            ["a-two/parts-b", &cache, "closed", "dark/inside", "deep/er/.npmrc", "link", "long"];
        let expected = expected.into_iter().chain([name.as_str(), &link, "wrapped"]);
        let expected: Vec<String> =
            expected.map(|it| root.join(it).display().to_string()).collect();
        assert_eq!(removed, expected);
        assert!(!root.join(&cache).exists() && root.join("a-two").is_dir());
        assert!(root.join("plain").exists() && root.join("cut").exists());
        assert!(root.join("harmless").is_symlink() && !root.join("deep/er/.npmrc").exists());
        assert!(purge(&roots, &texts, now(), &AtomicBool::new(true)).is_err());
    }
}
