//! What setup leaves in the workspace: only that is kept when setup has ended ([`remove_base`]), and it is
//! no part of a change later ([`remember`]).

use std::collections::{BTreeMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Uid};
use rustix::io::Errno;

use super::folder::{self, Folder, Parents};
use super::look::{self, Comparison, Look};
use super::removal;
use super::survey::{Ignored, SurveyEntry, survey};
use super::transfer::Base;
use super::wanted::Wanted;
use crate::tool::ToolError;

/// Most files that are remembered.
const MAX_REMEMBERED: usize = 1_000_000;

/// Bytes of them that are read, so that a file that is written again with the same content is known.
const MAX_READ: u64 = 256 << 20;

/// How everything looks that is in the workspace besides the uploaded tree. Ignored files as well: the rules
/// that ignore them may change.
pub fn remember(
    workspace: &Path,
    base: &Base,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<Vec<u8>, Look>, ToolError> {
    let broken = |err: Errno| ToolError::Broken(format!("cannot look at the workspace: {err}"));
    let folder = Folder::open(workspace).map_err(broken)?;
    let mut found = BTreeMap::new();
    let mut room = MAX_READ;
    let mut take = |path: &[u8], what: SurveyEntry<'_>| {
        if found.len() < MAX_REMEMBERED {
            let look = match what {
                SurveyEntry::File(file) => look::now(file.parent, file.name, file.stat, &mut room),
                SurveyEntry::Repository | SurveyEntry::Artefact | SurveyEntry::Odd(_) => {
                    Look::of_folder()
                }
            };
            found.insert(path.to_vec(), look);
        }
        Ok(())
    };
    let none = Wanted::default();
    survey(folder.top(), base, &none, Ignored::Shown, stop, &mut take)?;
    Ok(found)
}

/// Whether there is nothing in the workspace yet.
pub fn is_empty(workspace: &Path) -> bool {
    let folder = Folder::open(workspace).and_then(|folder| folder::names(folder.top()));
    folder.is_ok_and(|names| names.is_empty())
}

/// Removes the files of the base that have not changed and the folders that are empty then, so that
/// only what setup made is left; gives everything to `owner`.
pub fn remove_base(
    workspace: &Path,
    base: &Base,
    owner: Option<(u32, u32)>,
) -> Result<(), ToolError> {
    let broken = |err: Errno| ToolError::Broken(format!("cannot clear the workspace: {err}"));
    let mut folder = Folder::open(workspace).map_err(broken)?;
    for (path, entry) in base.entries.iter().rev() {
        let Ok((parent, name)) = folder.parent(path, Parents::Require) else { continue };
        let Ok(stat) = folder::look(parent, name) else { continue };
        if matches!(look::compare(parent, name, &stat, Some(entry.look())), Comparison::Unchanged) {
            rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(broken)?;
        }
    }
    let git = workspace.join(".git");
    let removed = match fs_err::symlink_metadata(&git) {
        Ok(found) if found.is_dir() => removal::remove_tree(&git),
        Ok(_) => fs_err::remove_file(&git),
        Err(_) => Ok(()),
    };
    removed.map_err(|err| ToolError::Broken(format!("cannot clear the workspace: {err}")))?;
    let parents: HashSet<&[u8]> = base.entries.keys().flat_map(|path| above(path)).collect();
    let mut parents: Vec<&[u8]> = parents.into_iter().collect();
    parents.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in parents {
        if let Ok((parent, name)) = folder.parent(path, Parents::Require) {
            // Fails when something is left in it, which is the point.
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
    }
    owner.map_or(Ok(()), |owner| give_folder(workspace, owner))
}

/// Gives a folder and everything in it to `owner`. One that is not there needs no owner.
pub fn give_folder(path: &Path, owner: (u32, u32)) -> Result<(), ToolError> {
    let broken = |err: Errno| ToolError::Broken(format!("cannot give a folder away: {err}"));
    let folder = match Folder::open(path) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(err) => return Err(broken(err)),
    };
    let ids = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    rustix::fs::fchown(folder.top(), Some(ids.0), Some(ids.1)).map_err(broken)?;
    give(folder.top(), ids).map_err(broken)
}

/// Every folder above a path, as paths.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// Changes the owner of everything in a folder, without following links.
fn give(fd: BorrowedFd<'_>, owner: (Uid, Gid)) -> rustix::io::Result<()> {
    let mut given = Ok(());
    let walked = folder::every_name(fd, &mut |parent, name, _| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        given = rustix::fs::chownat(parent, name, Some(owner.0), Some(owner.1), flags);
        given.is_ok()
    });
    given.and(walked)
}
