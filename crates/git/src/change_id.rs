//! What a change does, as one hash that is the same on another base.

use std::path::Path;

use git2::{DiffOptions, Odb, Patch};
use sha2::{Digest, Sha256};

use super::diffstat::MAX_FILES;
use super::hunks::{FilePair, FileSide, GITLINK, MAX_FILE_LINES, TYPE, count_lines};
use super::repo::Repo;
use super::tree_diff::differing;
use super::{GitError, Oid};

/// Larger files count as what they become, bytes.
const MAX_FILE: usize = 8 << 20;
/// Bytes that are compared in all files together; later files count as what they become.
const MAX_COMPARED: usize = 256 << 20;

/// SHA-256, in hex, of what a change does: paths, modes, and the lines that go and come, without their
/// positions and what stands around them. The same change on another base has the same one. Of files that
/// are binary or large, what they become counts.
///
/// # Errors
/// [`GitError::Unacceptable`] when more than [`MAX_FILES`] differ; when an object cannot be read.
pub fn change_id(repo: &Repo, old: Oid, new: Oid) -> Result<String, GitError> {
    let git = repo.git()?;
    let odb = git.odb()?;
    let (old, new) = (git.find_tree(old.0)?, git.find_tree(new.0)?);
    let pairs = differing(&git, Some(&old), Some(&new), MAX_FILES)?;
    let mut id = Id(Sha256::new());
    let pairs: Vec<FilePair> = pairs.into_iter().flat_map(apart).collect();
    for pair in &pairs {
        for version in [&pair.old, &pair.new] {
            id.part(b'f', pair.path());
            let mode = version.as_ref().map_or(0, |version| version.mode);
            id.part(b'm', &mode.cast_unsigned().to_be_bytes());
        }
    }
    let mut left = MAX_COMPARED;
    for pair in &pairs {
        lines(&odb, pair, &mut left, &mut id)?;
    }
    Ok(hex::encode(id.0.finalize()))
}

struct Id(Sha256);

impl Id {
    fn part(&mut self, kind: u8, text: &[u8]) {
        self.0.update([kind]);
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    /// A line, and which file it is in: in another file it is another change.
    fn line(&mut self, pair: &FilePair, origin: u8, line: &[u8]) {
        self.part(b'p', pair.path());
        self.part(origin, line);
    }
}

/// A file that becomes something of another kind goes, and the other comes.
fn apart(pair: FilePair) -> Vec<FilePair> {
    match pair {
        FilePair { old: Some(old), new: Some(new) } if old.mode & TYPE != new.mode & TYPE => {
            vec![FilePair { old: Some(old), new: None }, FilePair { old: None, new: Some(new) }]
        }
        pair => vec![pair],
    }
}

fn lines(odb: &Odb<'_>, pair: &FilePair, left: &mut usize, id: &mut Id) -> Result<(), GitError> {
    let oid = |version: &Option<FileSide>| version.as_ref().map(|version| version.id);
    if oid(&pair.old) == oid(&pair.new) {
        return Ok(());
    }
    let becomes = oid(&pair.new).unwrap_or(git2::Oid::ZERO_SHA1);
    let mut contents = [Vec::new(), Vec::new()];
    for (version, content) in [&pair.old, &pair.new].into_iter().zip(&mut contents) {
        let Some(version) = version else { continue };
        if version.mode == GITLINK {
            *content = format!("Subproject commit {}\n", version.id).into_bytes();
            continue;
        }
        let (size, _) = odb.read_header(version.id)?;
        if size > MAX_FILE || size > *left {
            id.part(b'b', becomes.as_bytes());
            return Ok(());
        }
        *left -= size;
        *content = odb.read(version.id)?.data().to_vec();
    }
    let [before, after] = &contents;
    if count_lines(before).max(count_lines(after)) > MAX_FILE_LINES {
        id.part(b'b', becomes.as_bytes());
        return Ok(());
    }
    let mut options = DiffOptions::new();
    options.context_lines(0).interhunk_lines(0);
    let patch = Patch::from_buffers(before, None::<&Path>, after, None, Some(&mut options))?;
    if patch.delta().flags().is_binary() {
        id.part(b'b', becomes.as_bytes());
    }
    for hunk in 0..patch.num_hunks() {
        for at in 0..patch.num_lines_in_hunk(hunk)? {
            let line = patch.line_in_hunk(hunk, at)?;
            match line.origin() {
                '+' => id.line(pair, b'+', line.content()),
                '-' => id.line(pair, b'-', line.content()),
                _ => {}
            }
        }
    }
    Ok(())
}
