//! The guest's file on this machine: written once per version to `guest/<version>/` below the state folder, and looked
//! at before it is started, because it runs outside of every sandbox until it has confined itself.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::folders::{failed, make_private};
use super::isolation::{WAITS, succeeds};
use crate::{GUEST_SIZE, GUEST_VERSION, SandboxError, guest_binary};
use patchwright_guest::programs;

/// The guest's file name.
const GUEST: &str = "patchwright-guest";
/// Its mode: the user's, and written by nobody.
const MODE: u32 = 0o500;
/// What files are called that are being written.
const FRESH: &str = "fresh-";
/// A file that is still called so after this time was left by a process that was killed.
const WRITTEN_BY_NOW: Duration = Duration::from_hours(1);

/// Held while the guest is looked at and written: several sandboxes of one process may be the first ones.
static WRITING: Mutex<()> = Mutex::new(());

/// The path of the guest, which is written where there is none that is this user's and of the right size; the names of its
/// programs are beside it. Its content is read only where it does not start ([`repair`]): nobody else can have written it.
pub(super) fn install(base: &Path) -> Result<PathBuf, SandboxError> {
    let _writing = WRITING.lock();
    let folder = folder(base);
    let path = folder.join(GUEST);
    if path.to_str().is_none() {
        return Err(SandboxError::GuestFile {
            path: path.display().to_string(),
            trouble: "cannot be told of a folder whose name is not UTF-8".to_owned(),
            hint: "choose another state folder with `--state-dir`",
        });
    }
    for folder in [&base.join("guest"), &folder, &folder.join(programs::FOLDER)] {
        make_own(folder)?;
    }
    link_programs(&folder.join(programs::FOLDER))?;
    if !is_own(&path).unwrap_or(false) {
        replace(&folder, &path, &guest_binary()).map_err(|err| failed("write", &path, &err))?;
    }
    Ok(path)
}

/// Writes the guest again where its content is not what it was.
pub(super) fn repair(base: &Path) -> Result<(), SandboxError> {
    let _writing = WRITING.lock();
    let (folder, guest) = (folder(base), guest_binary());
    let path = folder.join(GUEST);
    if is_sound(&path, &guest).unwrap_or(false) {
        return Ok(());
    }
    replace(&folder, &path, &guest).map_err(|err| failed("write", &path, &err))
}

fn folder(base: &Path) -> PathBuf {
    base.join("guest").join(GUEST_VERSION)
}

/// A folder that is this user's and that nobody else writes to.
fn make_own(folder: &Path) -> Result<(), SandboxError> {
    make_private(folder)?;
    let found = fs_err::symlink_metadata(folder).map_err(|err| failed("read", folder, &err))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        return Err(SandboxError::GuestFile {
            path: folder.display().to_string(),
            trouble: "would be run from a folder that is not yours".to_owned(),
            hint: "remove it, or choose another state folder with `--state-dir`",
        });
    }
    if found.mode() & 0o022 != 0 {
        // Kubernetes hands whole volumes to a group (`fsGroup`).
        fs_err::set_permissions(folder, Permissions::from_mode(0o700))
            .map_err(|err| failed("change the mode of", folder, &err))?;
    }
    Ok(())
}

/// Whether the file is of this user and of the guest's size, to be started and not to be written to.
fn is_own(path: &Path) -> io::Result<bool> {
    let found = fs_err::symlink_metadata(path)?;
    // Somebody else may still have it open to write to.
    let was_open = found.mode() & 0o022 != 0;
    if !found.is_file() || found.uid() != geteuid().as_raw() || was_open {
        return Ok(false);
    }
    if found.mode() & 0o7777 != MODE {
        fs_err::set_permissions(path, Permissions::from_mode(MODE))?;
    }
    Ok(found.len() == GUEST_SIZE as u64)
}

/// Whether the file is this guest, and this user's.
fn is_sound(path: &Path, guest: &[u8]) -> io::Result<bool> {
    Ok(is_own(path)? && fs_err::read(path)? == guest)
}

/// Writes the guest beside its place, then puts it there: another process may be starting the same file. One that is
/// there and sound by now stays, because a guest that runs from it would lose its own file otherwise.
fn replace(folder: &Path, path: &Path, guest: &[u8]) -> io::Result<()> {
    remove_leftovers(folder);
    // The processes of two containers may have the same number.
    let name = format!("{FRESH}{}-{:08x}", std::process::id(), rand::random::<u32>());
    let fresh = folder.join(name);
    let placed = write(&fresh, guest).and_then(|()| match fs_err::hard_link(&fresh, path) {
        Err(_) if !is_sound(path, guest).unwrap_or(false) => fs_err::rename(&fresh, path),
        Ok(()) | Err(_) => fs_err::remove_file(&fresh),
    });
    if placed.is_err() {
        // On a full disk it would take what little room there is.
        let _ = fs_err::remove_file(&fresh);
    }
    placed
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(MODE).open(path)?;
    file.write_all(content)?;
    // What the umask has taken away.
    file.set_permissions(Permissions::from_mode(MODE))?;
    // After a power cut the name would have an empty file otherwise.
    file.sync_all()
}

/// Removes what killed processes were writing.
fn remove_leftovers(folder: &Path) {
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        let is_fresh = entry.file_name().to_string_lossy().starts_with(FRESH);
        let made = entry.metadata().and_then(|found| found.modified());
        let age = made.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
        if is_fresh && age > WRITTEN_BY_NOW {
            let _ = fs_err::remove_file(entry.path());
        }
    }
}

/// The guest under the names of its programs, in a folder beside it.
fn link_programs(folder: &Path) -> Result<(), SandboxError> {
    for name in programs::NAMES {
        let path = folder.join(name);
        match std::os::unix::fs::symlink(Path::new("..").join(GUEST), &path) {
            Err(err) if err.kind() != ErrorKind::AlreadyExists => {
                return Err(failed("make", &path, &err));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Whether the guest can be started at all, without any isolation.
///
/// # Errors
/// When it cannot, with the reason.
pub(super) async fn try_start(guest: &Path) -> Result<(), SandboxError> {
    let mut tried = Ok(());
    for wait in WAITS {
        tokio::time::sleep(wait).await;
        tried = start(guest).await;
        if tried.is_ok() {
            break;
        }
    }
    tried.map_err(|err| {
        let hint = match Errno::from_io_error(&err) {
            Some(Errno::ACCESS) => {
                "its disk is mounted `noexec`, or the machine's rules forbid it (SELinux, AppArmor, fapolicyd); choose \
                 a state folder elsewhere with `--state-dir`"
            }
            Some(Errno::AGAIN | Errno::NOMEM) => {
                "raise the limit for processes and threads of this user or container (`ulimit -u`, `TasksMax`, \
                 `--pids-limit`), or the one for its memory"
            }
            _ => {
                "this build of Patchwright does not run on this machine; take the one for its processor"
            }
        };
        let path = guest.display().to_string();
        SandboxError::GuestFile { path, trouble: format!("does not start: {err}"), hint }
    })
}

async fn start(guest: &Path) -> io::Result<()> {
    succeeds(&[guest.into(), "--version".into()]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    type Damage = fn(&Path);

    fn installed() -> (tempfile::TempDir, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let path = install(base.path()).unwrap();
        (base, path)
    }

    /// One file, and it is the guest.
    fn check(path: &Path) {
        assert!(
            fs_err::read(path).unwrap() == guest_binary(),
            "{} is not the guest",
            path.display()
        );
        let found = fs_err::metadata(path).unwrap();
        assert_eq!(found.mode() & 0o7777, MODE);
        let mut names: Vec<_> = fs_err::read_dir(path.parent().unwrap()).unwrap().collect();
        names.retain(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(FRESH)
        });
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn a_guest_that_is_not_what_it_was_is_written_again() {
        let (base, path) = installed();
        check(&path);
        let damage: [(&str, Damage); 6] = [
            ("zeros", |path| {
                fs_err::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
                let mut file = File::options().write(true).open(path).unwrap();
                file.write_all(&[0; 4096]).unwrap();
            }),
            ("cut off", |path| {
                fs_err::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
                File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
            }),
            ("mode", |path| fs_err::set_permissions(path, Permissions::from_mode(0o000)).unwrap()),
            ("open", |path| fs_err::set_permissions(path, Permissions::from_mode(0o770)).unwrap()),
            ("a link", |path| {
                fs_err::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/bin/true", path).unwrap();
            }),
            ("gone", |path| fs_err::remove_file(path).unwrap()),
        ];
        for (what, damage) in damage {
            damage(&path);
            assert_eq!(install(base.path()).unwrap(), path, "{what}");
            repair(base.path()).unwrap();
            check(&path);
        }
    }

    #[test]
    fn a_guest_that_is_sound_stays_the_same_file() {
        let (base, path) = installed();
        let inode = fs_err::metadata(&path).unwrap().ino();
        install(base.path()).unwrap();
        repair(base.path()).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().ino(), inode);
    }

    #[test]
    fn what_cannot_be_put_in_its_place_is_not_left_beside_it() {
        let (base, path) = installed();
        fs_err::remove_file(&path).unwrap();
        fs_err::create_dir_all(path.join("in the way")).unwrap();
        let old = path.with_file_name("fresh-1");
        File::create(&old).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        install(base.path()).unwrap_err();
        fs_err::remove_dir_all(&path).unwrap();
        install(base.path()).unwrap();
        check(&path);
    }

    #[test]
    fn folders_of_the_guest_are_closed_and_those_of_another_user_refused() {
        let (base, path) = installed();
        let folder = path.parent().unwrap();
        fs_err::set_permissions(folder, Permissions::from_mode(0o2770)).unwrap();
        install(base.path()).unwrap();
        assert_eq!(fs_err::metadata(folder).unwrap().mode() & 0o777, 0o700);
        if geteuid().is_root() {
            std::os::unix::fs::chown(base.path().join("guest"), Some(65534), None).unwrap();
            let err = install(base.path()).unwrap_err();
            assert!(matches!(err, SandboxError::GuestFile { .. }), "{err}");
            std::os::unix::fs::chown(base.path().join("guest"), Some(0), None).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            install(base.path()).unwrap();
            assert_eq!(fs_err::metadata(&path).unwrap().uid(), 0);
        }
    }

    #[tokio::test]
    async fn what_does_not_start_is_told_with_its_reason() {
        let (_base, path) = installed();
        fs_err::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        let err = try_start(&path).await.unwrap_err();
        let SandboxError::GuestFile { trouble, hint, .. } = &err else { panic!("{err}") };
        assert!(trouble.contains("Permission denied"), "{trouble}");
        assert!(hint.contains("noexec") && !hint.contains("namespaces"), "{hint}");
    }
}
