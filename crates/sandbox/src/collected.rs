//! The tar that comes out of the sandbox, parsed as hostile. Nothing is ever unpacked: the result is
//! a list of files in memory, within the caller's bounds.
//!
//! The reader knows only what [`patchwright_guest::serve`] writes: regular files, symbolic links, and long names
//! before them. Everything else is an error.

use std::collections::{BTreeSet, HashSet};
use std::io::Read;

use bytes::Bytes;

use super::client::{CollectLimits, CollectedFile, CollectedKind};
use patchwright_guest::paths;
use patchwright_guest::protocol::{Collected, MAX_CHANGED_FILE};

/// Longest target of a link, in bytes. Source: `PATH_MAX` of Linux.
const MAX_TARGET: usize = 4096;

/// Most entries of each list that comes with the files.
const MAX_LISTED: usize = 2_000_000;

/// Reads all files; the error says what was wrong.
pub fn parse(tar: impl Read, limits: CollectLimits) -> Result<Vec<CollectedFile>, String> {
    let mut files = Vec::new();
    let mut paths_seen = HashSet::new();
    let mut bytes_left = limits.bytes;
    let mut long = Long::default();
    let mut archive = tar::Archive::new(tar);
    // Raw: the library must not put names of any length into memory for us.
    for entry in archive.entries().map_err(|err| err.to_string())?.raw(true) {
        let mut entry = entry.map_err(|err| format!("not a tar: {err}"))?;
        let kind = entry.header().entry_type();
        match kind {
            tar::EntryType::GNULongName => {
                long.name = Some(read_long(&mut entry, paths::MAX_PATH)?);
                continue;
            }
            tar::EntryType::GNULongLink => {
                long.link = Some(read_long(&mut entry, MAX_TARGET)?);
                continue;
            }
            tar::EntryType::Regular | tar::EntryType::Symlink => {}
            other => return Err(format!("an entry of type {:#04x}", other.as_byte())),
        }
        if files.len() >= limits.files {
            return Err(format!("more than {} files", limits.files));
        }
        let raw = long.name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let path = paths::check(&raw)
            .map_err(|reason| format!("`{}`: {reason}", paths::escape(&raw)))?
            .to_owned();
        if !paths_seen.insert(path.clone()) {
            return Err(format!("`{path}` is there twice"));
        }
        let kind = if kind == tar::EntryType::Symlink {
            read_link(&entry, long.link.take(), &path)?
        } else {
            read_file(&mut entry, &path, &mut bytes_left)?
        };
        long = Long::default();
        files.push(CollectedFile { path, kind });
    }
    refuse_files_below_files(&files)?;
    Ok(files)
}

/// Names that were too long for the header of the entry that follows.
#[derive(Default)]
struct Long {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

fn read_long(entry: &mut tar::Entry<'_, impl Read>, most: usize) -> Result<Vec<u8>, String> {
    // The name ends with a NUL that counts.
    if entry.size() > most as u64 + 1 {
        return Err(format!("a name of {} bytes", entry.size()));
    }
    let mut name = Vec::new();
    entry.read_to_end(&mut name).map_err(|err| err.to_string())?;
    if name.pop() != Some(0) || name.contains(&0) {
        return Err("a name without its end".to_owned());
    }
    Ok(name)
}

fn read_link(
    entry: &tar::Entry<'_, impl Read>,
    long: Option<Vec<u8>>,
    path: &str,
) -> Result<CollectedKind, String> {
    let target = long.or_else(|| entry.link_name_bytes().map(std::borrow::Cow::into_owned));
    match target {
        Some(target) if !target.is_empty() && target.len() <= MAX_TARGET && entry.size() == 0 => {
            Ok(CollectedKind::Symlink { target })
        }
        _ => Err(format!("`{path}`: a link that cannot be")),
    }
}

fn read_file(
    entry: &mut tar::Entry<'_, impl Read>,
    path: &str,
    bytes_left: &mut u64,
) -> Result<CollectedKind, String> {
    let size = entry.size();
    if size > MAX_CHANGED_FILE {
        return Err(format!("`{path}`: a file of {size} bytes"));
    }
    *bytes_left = bytes_left.checked_sub(size).ok_or("more bytes than allowed in all")?;
    let mode = entry.header().mode().map_err(|err| format!("`{path}`: {err}"))?;
    // A declared size proves nothing: memory is allocated as bytes arrive.
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0).min(1 << 20));
    entry.take(size).read_to_end(&mut content).map_err(|err| format!("`{path}`: {err}"))?;
    if content.len() as u64 != size {
        return Err(format!("`{path}`: the stream ended inside the file"));
    }
    Ok(CollectedKind::File { executable: mode & 0o100 != 0, content: Bytes::from(content) })
}

/// A path cannot be a file and a folder at once.
fn refuse_files_below_files(files: &[CollectedFile]) -> Result<(), String> {
    let all: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for file in files {
        for (at, _) in file.path.match_indices('/') {
            if all.contains(&file.path[..at]) {
                return Err(format!("`{}` lies below a file", file.path));
            }
        }
    }
    Ok(())
}

/// Checks the lists that come with the files.
pub fn check_listing(listing: &Collected, files: &[CollectedFile]) -> Result<(), String> {
    let lists = [
        listing.deleted.len(),
        listing.refused.len(),
        listing.left_out.len(),
        listing.artefacts.len(),
        listing.ignored.len(),
    ];
    if lists.into_iter().any(|length| length > MAX_LISTED) {
        return Err("too many listed files".to_owned());
    }
    let sent: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut deleted = HashSet::new();
    for path in &listing.deleted {
        paths::check(path.as_bytes()).map_err(|reason| {
            format!("`{}` was deleted: {reason}", paths::escape(path.as_bytes()))
        })?;
        if sent.contains(path.as_str()) || !deleted.insert(path.as_str()) {
            return Err(format!("`{path}` was listed twice"));
        }
    }
    Ok(())
}
