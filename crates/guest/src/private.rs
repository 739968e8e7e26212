//! Closes what is not everybody's in folders of the system: keys, tokens and passwords that are kept there
//! for one user or group are nobody else's business, also when that user is the one who runs commands.
//!
//! Searched are the places where people install things by hand, and what commands see of `/etc`. What a
//! distribution puts into the rest of `/usr` is the same on every machine, and is not searched: it has
//! hundreds of thousands of files.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::mount_bind;

use crate::enforced::Enforced;

/// Folders whose entries are searched, one by one.
const PLACES: &[&str] = &["opt", "usr/local", "etc"];

/// Entries that are looked at below one entry of those. A larger one is closed as a whole.
const MAX_ENTRIES: usize = 400_000;
/// Most that is closed below one entry; where there is more, it is closed as a whole.
const MAX_CLOSED: usize = 500;

/// What is mounted over what is closed: nobody has a right to it.
const CLOSED: &str = "pw/closed";

/// Closes it in the tree below `root`.
pub(super) fn close(root: &Path) -> Result<Enforced, String> {
    let closed = Closed::make(root)?;
    let mut count = 0;
    let mut unsearched = Vec::new();
    for place in PLACES {
        let entries = fs_err::read_dir(root.join(place)).into_iter().flatten().flatten();
        for entry in entries {
            let path = entry.path();
            if let Some(found) = search(&path) {
                count += found.len();
                found.iter().try_for_each(|path| closed.cover(path))?;
            } else {
                closed.cover(&path)?;
                let name = path.strip_prefix(root).unwrap_or(&path);
                unsearched.push(format!("/{}", name.display()));
            }
        }
    }
    Ok(Enforced::PrivateFiles { closed: count, unsearched })
}

/// What is not everybody's at or below `top`; `None` when there is too much to look at.
fn search(top: &Path) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(kind) = fs_err::symlink_metadata(top) else { return Some(found) };
    let mut folders = VecDeque::new();
    match judge(&kind) {
        Judged::Private => return Some(vec![top.to_owned()]),
        Judged::Folder => folders.push_back(top.to_owned()),
        Judged::Fine => {}
    }
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        // One that this process cannot list is closed to commands anyway.
        for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            let Ok(kind) = entry.metadata() else { continue };
            match judge(&kind) {
                Judged::Private => found.push(entry.path()),
                Judged::Folder => folders.push_back(entry.path()),
                Judged::Fine => {}
            }
            if seen > MAX_ENTRIES || found.len() > MAX_CLOSED {
                return None;
            }
        }
    }
    Some(found)
}

enum Judged {
    Private,
    Folder,
    Fine,
}

/// By the rights of everybody: to read a file, to go into a folder.
fn judge(kind: &std::fs::Metadata) -> Judged {
    let everybody = kind.permissions().mode() & 0o007;
    match (kind.is_symlink(), kind.is_dir()) {
        (true, _) => Judged::Fine,
        (_, true) if everybody & 0o1 == 0 => Judged::Private,
        (_, true) => Judged::Folder,
        _ if everybody & 0o4 == 0 => Judged::Private,
        _ => Judged::Fine,
    }
}

/// A file and a folder without any rights.
struct Closed {
    file: PathBuf,
    folder: PathBuf,
}

impl Closed {
    fn make(root: &Path) -> Result<Closed, String> {
        let place = root.join(CLOSED);
        let closed = Closed { file: place.join("file"), folder: place.join("folder") };
        let make = || -> std::io::Result<()> {
            fs_err::create_dir_all(&closed.folder)?;
            fs_err::File::create(&closed.file)?;
            let nobody = || Permissions::from_mode(0o000);
            fs_err::set_permissions(&closed.file, nobody())?;
            fs_err::set_permissions(&closed.folder, nobody())
        };
        make().map_err(|err| format!("cannot close private files: {err}"))?;
        Ok(closed)
    }

    fn cover(&self, path: &Path) -> Result<(), String> {
        let with = if path.is_dir() { &self.folder } else { &self.file };
        mount_bind(with, path).map_err(|err| format!("cannot close `{}`: {err}", path.display()))
    }
}
