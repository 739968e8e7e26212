//! Whether a folder is out of the reach of other users of the machine, so that what lies in it can be run and believed.
//!
//! Where everybody may make names (`/tmp`, `/var/tmp`), anybody can have made a folder or a link before us. Elsewhere
//! the machine's owner has decided: volumes that belong to root or to another user, home folders that a group may write
//! to and what is mounted below `/tmp` are all usual in containers, and are taken as they are.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::process::geteuid;

/// As many as Linux follows.
const MOST_LINKS: usize = 40;
/// Everybody may write.
const OPEN: u32 = 0o002;
/// In such a folder, names can be changed by those only whom they belong to.
const STICKY: u32 = 0o1000;

/// How another user could put something into this folder, in words; `None` where nobody can, but for root.
///
/// # Errors
/// When a part of the path cannot be looked at.
pub fn intrusion(folder: &Path) -> io::Result<Option<String>> {
    let us = geteuid().as_raw();
    let mut rest = names(&std::path::absolute(folder)?);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    // Whether everybody may make names in what we are in, or above it.
    let mut is_shared = false;
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let found = fs_err::symlink_metadata(&next)?;
        // Only root mounts here.
        is_shared &= !is_mounted(&next);
        if is_shared && ![us, 0].contains(&found.uid()) {
            let owner = found.uid();
            return Ok(Some(format!("`{}` belongs to another user ({owner})", next.display())));
        }
        if found.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = fs_err::read_link(&next)?;
            if target.is_absolute() {
                at = PathBuf::from("/");
                is_shared = false;
            }
            rest.extend(names(&target));
            continue;
        }
        at = next;
        match (found.mode() & OPEN != 0, found.mode() & STICKY != 0) {
            (true, true) => is_shared = true,
            (true, false) if is_shared => {
                return Ok(Some(format!("everybody may write to `{}`", at.display())));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(named).map(|part| part.as_os_str().to_owned()).collect()
}

/// Something is mounted there. A kernel that does not say so (before 5.8) has nothing mounted.
fn is_mounted(path: &Path) -> bool {
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).is_ok_and(|found| {
        found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
            && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    })
}

/// Why this user cannot work in a folder; `None` where they can, and where the folder does not exist.
pub fn closed(folder: &Path) -> Option<io::Error> {
    use rustix::fs::Access;
    match rustix::fs::access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => None,
        Err(err) => Some(err.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;

    use crate::ownership::intrusion;

    /// A folder below one in which everybody may make names, as `/tmp`.
    fn shared() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        set(top.path(), 0o1777);
        top
    }

    fn set(path: &Path, mode: u32) {
        fs_err::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn own_folders_below_a_shared_one_are_fine_unless_everybody_writes_to_them() {
        let top = shared();
        let state = top.path().join("own/state");
        fs_err::create_dir_all(&state).unwrap();
        assert_eq!(intrusion(&state).unwrap(), None);
        set(&state, 0o775);
        assert_eq!(intrusion(&state).unwrap(), None, "a group is chosen by its user");
        set(&top.path().join("own"), 0o777);
        let why = intrusion(&state).unwrap().unwrap();
        assert!(why.contains("everybody may write to") && why.ends_with("/own`"), "{why}");
        set(&top.path().join("own"), 0o1777);
        assert_eq!(intrusion(&state).unwrap(), None, "names in it are their owners'");
        symlink("own/state", top.path().join("link")).unwrap();
        assert_eq!(intrusion(&top.path().join("link/../state")).unwrap(), None);
        symlink("round", top.path().join("round")).unwrap();
        assert!(intrusion(&top.path().join("round")).is_err());
    }

    #[test]
    fn what_another_user_has_made_in_a_shared_folder_is_not_ours() {
        if !rustix::process::geteuid().is_root() {
            // Nobody else can give a folder away.
            return;
        }
        let top = shared();
        let (theirs, home) = (top.path().join("theirs"), tempfile::tempdir().unwrap());
        fs_err::create_dir_all(theirs.join("state")).unwrap();
        chown(&theirs, Some(65534), None).unwrap();
        for path in [&theirs, &theirs.join("state")] {
            let why = intrusion(path).unwrap().unwrap();
            assert!(why.ends_with("/theirs` belongs to another user (65534)"), "{why}");
        }
        // A link of theirs to a folder of ours, and one of ours to theirs.
        let link = top.path().join("link");
        symlink(home.path(), &link).unwrap();
        assert_eq!(intrusion(&link).unwrap(), None);
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(intrusion(&link).unwrap().unwrap().contains("/link` belongs to"));
        symlink(&theirs, home.path().join("state")).unwrap();
        assert!(intrusion(&home.path().join("state")).unwrap().is_some());
    }
}
