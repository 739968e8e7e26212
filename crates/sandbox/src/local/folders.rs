//! The folders of local sandboxes: made, marked with their owner, swept, removed.
//!
//! `sandboxes/<run>-<purpose>-<n>/` holds `workspace`, `home` and `root` (empty: where the guest puts the file
//! system of commands together), and beside them, out of the
//! guest's reach, `owner` and `guest` (process id and start time of each), `group` (its control groups)
//! and `guest.log`; when setup has run, also the copy of its result (`kept`), until it has its own place.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::group::Group;
use crate::SandboxError;
use patchwright_guest::folder::{self, Descent, Folder};
use patchwright_guest::removal;
use patchwright_guest::transfer::blob_id;

/// Bytes of the guest's log that go into an error.
const LAST_WORDS: usize = 2000;

/// The folder of one sandbox.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) top: PathBuf,
}

impl Folders {
    /// Makes a fresh folder, readable by its owner only.
    pub(super) fn create(base: &Path, run: &str, purpose: &str) -> Result<Folders, SandboxError> {
        let all = base.join("sandboxes");
        make_private(&all)?;
        let name = format!("{}-{purpose}", plain(run));
        for number in 1..10_000 {
            let top = all.join(format!("{name}-{number}"));
            match DirBuilder::new().mode(0o700).create(&top) {
                Ok(()) => {
                    let folders = Folders { top };
                    for inner in [folders.workspace(), folders.root(), folders.home()] {
                        make_private(&inner)?;
                    }
                    write(&folders.top.join("owner"), &identity(std::process::id()))?;
                    return Ok(folders);
                }
                Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
                Err(err) => return Err(failed("make", &top, &err)),
            }
        }
        Err(SandboxError::Other(format!("the state folder has too many sandboxes `{name}-…`")))
    }

    /// The folder's own name, which no other sandbox of this state folder has.
    pub(super) fn name(&self) -> String {
        let name = self.top.file_name().unwrap_or_default().to_string_lossy();
        // Other state folders have folders of the same names.
        let place = blob_id(self.top.as_os_str().as_encoded_bytes());
        place.iter().take(4).fold(name.into_owned() + "-", |name, byte| format!("{name}{byte:02x}"))
    }

    pub(super) fn note_group(&self, group: &Group) -> Result<(), SandboxError> {
        write(&self.top.join("group"), &group.note())
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.top.join("workspace")
    }

    pub(super) fn root(&self) -> PathBuf {
        self.top.join("root")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.top.join("home")
    }

    /// Where the guest's standard error goes.
    pub(super) fn log(&self) -> Result<File, SandboxError> {
        let path = self.top.join("guest.log");
        File::create(&path).map_err(|err| failed("make", &path, &err))
    }

    /// The end of the log, as the end of a message.
    pub(super) fn last_words(&self) -> String {
        let log = fs_err::read(self.top.join("guest.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&log[log.len().saturating_sub(LAST_WORDS)..]);
        if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
    }

    pub(super) fn note_guest(&self, pid: Option<u32>) -> Result<(), SandboxError> {
        match pid {
            Some(pid) => write(&self.top.join("guest"), &identity(pid)),
            None => Ok(()),
        }
    }

    /// Kills the guest with its process group, when the noted process is still the same one. What
    /// it started dies with it: every launcher watches the guest.
    pub(super) fn kill_guest(&self) {
        let noted = fs_err::read_to_string(self.top.join("guest")).unwrap_or_default();
        if let Some(pid) = alive(&noted) {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Copies what setup left. Times are kept, so that build tools find their own work unchanged.
    pub(super) fn fill(&self, template: &Path) -> Result<(), SandboxError> {
        for inner in ["workspace", "home"] {
            copy(&template.join(inner), &self.top.join(inner))?;
        }
        Ok(())
    }

    pub(super) fn remove(&self) -> Result<(), SandboxError> {
        remove(&self.top)
    }
}

/// Removes what dead processes left, or everything of one run. Returns the folders' names. One that
/// cannot be removed does not keep the others; it is the error in the end.
pub(super) fn sweep(base: &Path, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
    let all = base.join("sandboxes");
    let entries = match fs_err::read_dir(&all) {
        Ok(entries) => entries,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(failed("read", &all, &err)),
    };
    let mut swept = Vec::new();
    let mut stuck = None;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let top = entry.path();
        let owner = fs_err::read_to_string(top.join("owner")).unwrap_or_default();
        let ours = match run {
            Some(run) => name.starts_with(&format!("{}-", plain(run))),
            None => alive(&owner).is_none() && !is_being_made(&top, &owner),
        };
        if ours {
            let folders = Folders { top };
            folders.kill_guest();
            let group = fs_err::read_to_string(folders.top.join("group")).unwrap_or_default();
            Group::noted(&group).remove();
            match folders.remove() {
                Ok(()) => swept.push(name),
                Err(err) => stuck = stuck.or(Some(err)),
            }
        }
    }
    stuck.map_or(Ok(swept), Err)
}

/// A folder without an owner's note that is younger than a minute.
fn is_being_made(top: &Path, owner: &str) -> bool {
    owner.is_empty()
        && fs_err::metadata(top)
            .and_then(|found| found.modified())
            .is_ok_and(|made| made.elapsed().is_ok_and(|age| age.as_secs() < 60))
}

/// Process id and start time, which together identify a process even after its id is reused. Source: `proc(5)`, `stat`.
fn identity(pid: u32) -> String {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let started = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19));
    format!("{pid} {}", started.unwrap_or("0"))
}

/// The process that a note names, when it still lives.
fn alive(note: &str) -> Option<Pid> {
    let pid: u32 = note.split_ascii_whitespace().next()?.parse().ok()?;
    if identity(pid) != note.trim() || note.trim().ends_with(" 0") {
        return None;
    }
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// A run's id as part of a file name.
fn plain(run: &str) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let name: String = run.chars().map(|c| if ok(c) { c } else { '_' }).take(100).collect();
    name.trim_start_matches('.').to_owned()
}

/// Copies a tree: files, links, folders, with modes and times. Nothing else can be in it that a
/// sandbox would miss.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), SandboxError> {
    let open = |path: &Path| Folder::open(path).and_then(|folder| Descent::new(folder.top()));
    let both = open(from).and_then(|source| Ok((source, open(to)?)));
    let mut name = OsString::new();
    both.map_err(io::Error::from)
        .and_then(|(mut source, mut target)| copy_all(&mut source, &mut target, &mut name))
        // Where it is may be longer than anybody reads.
        .map_err(|err| failed("copy", &from.join("…").join(name), &err))
}

/// Copies from one folder to another, level by level. `at` is what was being copied last.
fn copy_all(source: &mut Descent, target: &mut Descent, at: &mut OsString) -> io::Result<()> {
    let mut waiting = vec![folder::names(source.here()?)?];
    while let Some(level) = waiting.last_mut() {
        let Some(name) = level.pop() else {
            waiting.pop();
            source.leave()?;
            target.leave()?;
            continue;
        };
        at.clone_from(&name);
        let (from, to) = (source.here()?, target.here()?);
        let stat = folder::look(from, &name)?;
        match folder::kind(&stat) {
            FileType::Directory => {
                rustix::fs::mkdirat(to, &name, Mode::from_raw_mode(0o755))?;
                source.enter(&name)?;
                target.enter(&name)?;
                waiting.push(folder::names(source.here()?)?);
            }
            FileType::Symlink => {
                let link = rustix::fs::readlinkat(from, &name, Vec::new())?;
                rustix::fs::symlinkat(&link, to, &name)?;
            }
            FileType::RegularFile => copy_file(from, to, &name)?,
            _ => {}
        }
    }
    Ok(())
}

fn copy_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let reading = flags | OFlags::RDONLY | OFlags::NONBLOCK;
    let mut source = File::from(rustix::fs::openat(from, name, reading, Mode::empty())?);
    let found = source.metadata()?;
    let writing = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut target = File::from(rustix::fs::openat(to, name, writing, Mode::RUSR | Mode::WUSR)?);
    io::copy(&mut source, &mut target)?;
    target.set_permissions(found.permissions())?;
    target.set_modified(found.modified()?)
}

/// Removes a tree, even one whose folders a command made unreadable, or nested without end.
pub(super) fn remove(top: &Path) -> Result<(), SandboxError> {
    removal::remove_tree(top).map_err(|err| failed("remove", top, &err))
}

pub(super) fn make_private(path: &Path) -> Result<(), SandboxError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|err| failed("make", path, &err))
}

fn write(path: &Path, text: &str) -> Result<(), SandboxError> {
    File::create(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|err| failed("write", path, &err))
}

pub(super) fn failed(verb: &str, path: &Path, err: &std::io::Error) -> SandboxError {
    let (verb, path) = (verb.to_owned(), path.display().to_string());
    let cause = std::io::Error::new(err.kind(), err.to_string());
    SandboxError::Folder { verb, path, cause }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use crate::local::folders::*;

    #[test]
    fn copies_keep_modes_and_times() {
        let top = tempfile::tempdir().unwrap();
        let (from, to) = (top.path().join("from"), top.path().join("to"));
        make_private(&from).unwrap();
        make_private(&to).unwrap();
        fs_err::write(from.join("made"), "made").unwrap();
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let made = fs_err::File::open(from.join("made")).unwrap();
        made.file().set_modified(long_ago).unwrap();
        fs_err::set_permissions(from.join("made"), Permissions::from_mode(0o444)).unwrap();
        // Deeper than a path can say.
        let folder = Folder::open(&from).unwrap();
        let mut deep = Descent::new(folder.top()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(deep.here().unwrap(), "d", Mode::RWXU).unwrap();
            deep.enter("d".as_ref()).unwrap();
        }
        rustix::fs::symlinkat("made", deep.here().unwrap(), "link").unwrap();
        copy(&from, &to).unwrap();
        let copied = fs_err::metadata(to.join("made")).unwrap();
        assert_eq!(copied.permissions().mode() & 0o777, 0o444);
        assert_eq!(copied.modified().unwrap(), long_ago);
        let folder = Folder::open(&to).unwrap();
        let mut names = 0;
        let mut link = String::new();
        folder::every_name(folder.top(), &mut |_, name, _| {
            names += 1;
            link = name.to_string_lossy().into_owned();
            true
        })
        .unwrap();
        assert_eq!((names, link.as_str()), (3002, "link"));
        for tree in [from, to] {
            remove(&tree).unwrap();
        }
    }

    #[test]
    fn a_sweep_goes_on_after_a_folder_that_stays() {
        let base = tempfile::tempdir().unwrap();
        let all = base.path().join("sandboxes");
        for number in 1..=5 {
            make_private(&all.join(format!("r1-agent-{number}"))).unwrap();
        }
        // Not a folder, so it cannot be removed as one.
        fs_err::write(all.join("r1-agent-6"), "").unwrap();
        let err = sweep(base.path(), Some("r1")).unwrap_err();
        assert!(err.to_string().contains("r1-agent-6"), "{err}");
        assert_eq!(fs_err::read_dir(&all).unwrap().count(), 1);
    }
}
