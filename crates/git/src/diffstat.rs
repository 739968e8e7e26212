//! The files of a change, with how many lines of them came and went: what differs between two trees that
//! are ours. Used by [`super::change`].

use std::path::Path;

use git2::{DiffOptions, Odb, Patch, Repository, Tree};

use super::hunks::{FilePair, FileSide, GITLINK, MAX_FILE_LINES, count_lines, is_binary};
use super::tree::{Entry, FileChange, Mode};
use super::tree_diff::differing;
use super::{GitError, Oid};

/// Files that may differ: as many as a tree that goes into a sandbox may have.
pub(super) const MAX_FILES: u64 = 1_000_000;

/// Larger files count as binary: nobody reads their lines.
const MAX_TEXT: usize = 16 << 20;

/// Bytes that are read for all files together; the lines of later ones are not counted.
const MAX_READ: usize = 256 << 20;

/// What differs between two trees, sorted by path.
pub(super) fn compare(
    git: &Repository,
    old: &Tree<'_>,
    new: &Tree<'_>,
) -> Result<Vec<FileChange>, GitError> {
    let odb = git.odb()?;
    let mut left = MAX_READ;
    let pairs = differing(git, Some(old), Some(new), MAX_FILES)?;
    pairs.iter().map(|pair| file(&odb, pair, &mut left)).collect()
}

fn file(odb: &Odb<'_>, pair: &FilePair, left: &mut usize) -> Result<FileChange, GitError> {
    let entry = |version: &Option<FileSide>| {
        version.as_ref().map(|version| entry(odb, version)).transpose()
    };
    let (old, new) = (entry(&pair.old)?, entry(&pair.new)?);
    let lines = lines(odb, pair, [old, new], left)?;
    let (added_lines, removed_lines) = lines.unwrap_or_default();
    Ok(FileChange {
        path: String::from_utf8_lossy(pair.path()).into_owned(),
        old,
        new,
        added_lines,
        removed_lines,
        binary: lines.is_none(),
    })
}

fn entry(odb: &Odb<'_>, version: &FileSide) -> Result<Entry, GitError> {
    let mode = match version.mode {
        0o100_755 => Mode::Executable,
        0o120_000 => Mode::Symlink,
        GITLINK => Mode::Gitlink,
        _ => Mode::File,
    };
    let size = match mode {
        Mode::Gitlink => 0,
        _ => odb.read_header(version.id)?.0 as u64,
    };
    Ok(Entry { mode, oid: Oid(version.id), size })
}

/// Lines that came and went; `None` when the file is not read as text.
fn lines(
    odb: &Odb<'_>,
    pair: &FilePair,
    entries: [Option<Entry>; 2],
    left: &mut usize,
) -> Result<Option<(u64, u64)>, GitError> {
    let [old, new] = entries;
    if old.map(|old| old.oid) == new.map(|new| new.oid) {
        return Ok(Some((0, 0)));
    }
    let is_link = |entry: &Entry| entry.mode == Mode::Gitlink;
    if entries.iter().flatten().any(is_link) {
        return Ok(Some((0, 0)));
    }
    let mut contents = [Vec::new(), Vec::new()];
    for ((version, entry), content) in [&pair.old, &pair.new].iter().zip(entries).zip(&mut contents)
    {
        let (Some(version), Some(entry)) = (version, entry) else { continue };
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        if size > MAX_TEXT || size > *left {
            return Ok(None);
        }
        *left -= size;
        *content = odb.read(version.id)?.data().to_vec();
    }
    let [before, after] = &contents;
    if is_binary(before) || is_binary(after) {
        return Ok(None);
    }
    let counted = (count_lines(after), count_lines(before));
    if before.is_empty() || after.is_empty() {
        return Ok(Some((counted.0 as u64, counted.1 as u64)));
    }
    // libgit2 needs a hundred bytes a line.
    if counted.0.max(counted.1) > MAX_FILE_LINES {
        return Ok(None);
    }
    let mut options = DiffOptions::new();
    options.force_text(true);
    let patch = Patch::from_buffers(before, None::<&Path>, after, None, Some(&mut options))?;
    let (_, added, removed) = patch.line_stats()?;
    Ok(Some((added as u64, removed as u64)))
}
