//! Closes what is not everybody's in folders of the system: keys, tokens and passwords that are kept there
//! for one user or group are nobody else's business, also when that user is the one who runs commands.
//!
//! Searched are the places where people install things by hand, and what commands see of `/etc`. What a
//! distribution puts into the rest of `/usr` is the same on every machine, and is not searched: it has
//! hundreds of thousands of files.
//!
//! So are folders of the user's home that are shown because programs are installed in them. There a folder is often
//! closed because the home folder is, and programs because of the user's `umask`: [`of_user`] has what differs.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{Metadata, Permissions};
use std::io::Read;
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

/// Folders of what is installed, beside its `bin`: a version manager has hundreds of thousands of files in them, and
/// people keep nothing there.
const INSTALLED: &[&str] = &["lib", "lib64", "include", "share"];
/// Folders of packages, wherever they are.
const PACKAGES: &[&str] = &["node_modules"];

/// What is mounted over what is closed: nobody has a right to it.
const CLOSED: &str = "pw/closed";

/// Closes it in the tree below `root`, and in those of its folders that are the user's own, `own`.
pub(super) fn close(root: &Path, own: &[PathBuf]) -> Result<Enforced, String> {
    let closed = Closed::make(root)?;
    let (mut count, mut unsearched, mut undecided) = (0, Vec::new(), Vec::new());
    let name = |path: &Path| format!("/{}", path.strip_prefix(root).unwrap_or(path).display());
    let mut close = |path: &Path, found: Found| match found {
        Found::Private(found) => {
            count += found.len();
            found.iter().try_for_each(|path| closed.cover(path))
        }
        Found::TooMuch => {
            unsearched.push(name(path));
            closed.cover(path)
        }
        Found::Undecided => {
            undecided.push(name(path));
            Ok(())
        }
    };
    for place in PLACES {
        let entries = fs_err::read_dir(root.join(place)).into_iter().flatten().flatten();
        for entry in entries {
            let path = entry.path();
            close(&path, search(&path))?;
        }
    }
    for path in own.iter().filter(|path| path.is_dir()) {
        let is_inside = own.iter().any(|outer| outer != path && path.starts_with(outer));
        if !is_inside {
            close(path, of_user(path, own))?;
        }
    }
    Ok(Enforced::PrivateFiles { closed: count, unsearched, undecided })
}

/// What a search has come to.
enum Found {
    Private(Vec<PathBuf>),
    /// There is too much to look at.
    TooMuch,
    /// So much is closed to others that this says nothing.
    Undecided,
}

/// What is not everybody's at or below `top`.
fn search(top: &Path) -> Found {
    let mut found = Vec::new();
    let Ok(kind) = fs_err::symlink_metadata(top) else { return Found::Private(found) };
    let mut folders = VecDeque::new();
    match judge(&kind) {
        Judged::Private => return Found::Private(vec![top.to_owned()]),
        Judged::Folder => folders.push_back(top.to_owned()),
        Judged::Fine => {}
    }
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        // One that this process cannot list is closed to commands anyway.
        for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            let Some(kind) = look(&entry) else { continue };
            match judge(&kind) {
                Judged::Private => found.push(entry.path()),
                Judged::Folder => folders.push_back(entry.path()),
                Judged::Fine => {}
            }
            if seen > MAX_ENTRIES || found.len() > MAX_CLOSED {
                return Found::TooMuch;
            }
        }
    }
    Found::Private(found)
}

/// What the user has closed to others below `top`, a folder of programs: files that others may not read, except
/// compiled programs, and folders that others may not enter, except `top` and what leads to another one of `shown`. Where
/// that is more than people close one by one, or what is installed, their `umask` has closed it, and nothing can be told
/// from it. What is installed is not searched.
fn of_user(top: &Path, shown: &[PathBuf]) -> Found {
    let mut found = Vec::new();
    // With whether they are in one that is closed.
    let mut folders = VecDeque::from([(top.to_owned(), false)]);
    let (mut seen, mut closed) = (0, 0);
    while let Some((folder, is_inside)) = folders.pop_front() {
        let entries: Vec<_> = fs_err::read_dir(folder).into_iter().flatten().flatten().collect();
        let has_programs = entries.iter().any(|entry| entry.file_name() == "bin");
        for entry in entries {
            seen += 1;
            let Some(kind) = look(&entry) else { continue };
            let path = entry.path();
            let leads = || shown.iter().any(|shown| shown.starts_with(&path));
            if kind.is_dir() && is_installed(&entry.file_name(), has_programs) && !leads() {
                if is_inside || matches!(judge(&kind), Judged::Private) {
                    return Found::Undecided;
                }
                continue;
            }
            let is_private = match judge(&kind) {
                Judged::Private if kind.is_dir() => !leads(),
                Judged::Private => !is_program(&path, &kind),
                Judged::Folder | Judged::Fine => false,
            };
            if is_private && !is_inside {
                found.push(path.clone());
            }
            if kind.is_dir() {
                folders.push_back((path, is_inside || is_private));
            } else if is_inside || is_private {
                closed += 1;
            }
            if closed > MAX_CLOSED || found.len() > MAX_CLOSED {
                return Found::Undecided;
            }
            if seen > MAX_ENTRIES {
                return Found::TooMuch;
            }
        }
    }
    Found::Private(found)
}

/// The metadata of an entry; `None` for a symbolic link, which closes nothing by itself. The directory listing already has
/// the type, which saves a `stat` for each of the hundreds of links in `/etc`.
fn look(entry: &fs_err::DirEntry) -> Option<Metadata> {
    let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
    if is_link { None } else { entry.metadata().ok() }
}

/// By its name, in a folder that has a `bin` or none.
fn is_installed(name: &OsStr, has_programs: bool) -> bool {
    let is_one = |names: &[&str]| names.iter().any(|other| name == *other);
    is_one(PACKAGES) || (has_programs && is_one(INSTALLED))
}

/// A compiled program: checks may need it, and nobody writes a secret into one by hand.
fn is_program(path: &Path, kind: &Metadata) -> bool {
    let mut magic = [0; 4];
    let mut read = || fs_err::File::open(path)?.read_exact(&mut magic);
    kind.is_file()
        && kind.permissions().mode() & 0o100 != 0
        && read().is_ok()
        && &magic == b"\x7fELF"
}

enum Judged {
    Private,
    Folder,
    Fine,
}

/// By the rights of everybody: to read a file, to go into a folder.
fn judge(kind: &Metadata) -> Judged {
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
