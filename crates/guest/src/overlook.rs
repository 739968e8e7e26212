//! Takes back what was written after a collection, which was not the model but a check of the harness.
//!
//! What the check made besides the change is remembered as it is, so that no collection takes it for the
//! model's, and stays: a report of the check may be worth reading. What it did to files of the tree or of
//! the change is undone: those that it brought back are removed here, and the others are named, for the
//! host to send them again as they were.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::collect::{Last, Was};
use super::folder::{Folder, Parents, Stamp};
use super::look::{self, Look, Seen, compare_at};
use super::paths;
use super::survey::{Found, Ignored, survey};
use super::transfer::Base;
use crate::tool::ToolError;

/// Most files that are named.
const MAX_NAMED: usize = 20_000;

/// Bytes that are read of what the check made, so that it is known when it is made again.
const MAX_READ: u64 = 256 << 20;

/// Returns the files that are no longer as the last collection found them.
pub fn overlook(
    workspace: &Path,
    base: &mut Base,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<String>, ToolError> {
    let broken = |err: Errno| ToolError::Broken(format!("cannot look at the workspace: {err}"));
    let last = base.last.take().filter(|last| !last.is_cut);
    let Some(last) = last else {
        return Err(ToolError::tell("it is not known how the files were before"));
    };
    let mut folder = Folder::open(workspace).map_err(broken)?;
    let mut changed = tracked(&mut folder, base, &last)?;
    // By content: setting a time changes nothing, and is no reason to send a file again.
    for (path, was) in &last.others {
        if was.content.is_some()
            && !matches!(compare_at(&mut folder, path, Some(*was)), Seen::Unchanged)
        {
            changed.insert(path.clone());
        }
    }
    made_besides(&folder, base, &last, stop)?;
    let names = changed.iter().take(MAX_NAMED).filter_map(|path| paths::check(path).ok());
    Ok(names.map(str::to_owned).collect())
}

/// Files of the uploaded tree that are not as they were left.
fn tracked(folder: &mut Folder, base: &Base, last: &Last) -> Result<BTreeSet<Vec<u8>>, ToolError> {
    let mut changed = BTreeSet::new();
    for (path, entry) in &base.entries {
        let before = match last.tracked.get(path.as_slice()) {
            None => entry.look(),
            // One that was left out of the change cannot be had again.
            Some(Was::Changed(Look { content: None, .. }) | Was::Odd) => continue,
            Some(Was::Changed(look)) => *look,
            Some(Was::Gone) => {
                remove(folder, path)?;
                continue;
            }
        };
        if !matches!(compare_at(folder, path, Some(before)), Seen::Unchanged) {
            changed.insert(path.clone());
        }
    }
    Ok(changed)
}

/// Removes a file that was gone; a folder in its place is the model's or new, and stays.
fn remove(folder: &mut Folder, path: &[u8]) -> Result<(), ToolError> {
    let removed = folder
        .parent(path, Parents::Require)
        .and_then(|(parent, name)| rustix::fs::unlinkat(parent, name, AtFlags::empty()));
    match removed {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::PERM) => {
            Ok(())
        }
        Err(err) => Err(ToolError::tell(format!("cannot remove `{}`: {err}", paths::escape(path)))),
    }
}

/// Remembers what is there now and was not before, or looked otherwise.
fn made_besides(
    folder: &Folder,
    base: &mut Base,
    last: &Last,
    stop: &dyn Fn() -> bool,
) -> Result<(), ToolError> {
    let mut made = Vec::new();
    let mut room = MAX_READ;
    let mut take = |path: &[u8], found: Found<'_>| {
        let known = base.others.get(path);
        match found {
            Found::File(file) => {
                let stamp = Stamp::of(file.stat);
                let is_known = known.is_some_and(|known| known.stamp == stamp);
                if !is_known && !last.others.contains_key(path) {
                    let look = look::now(file.parent, file.name, file.stat, &mut room);
                    made.push((path.to_vec(), look));
                }
            }
            Found::Repository | Found::Artefact | Found::Odd(_) => {
                if known.is_none() {
                    made.push((path.to_vec(), Look::of_folder()));
                }
            }
        }
        Ok(())
    };
    survey(folder.top(), base, Ignored::Hidden, stop, &mut take)?;
    base.others.extend(made);
    Ok(())
}
