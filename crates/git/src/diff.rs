//! Patches for people and for `git apply`: git's own format, binary files included, renames spelled
//! out as a deletion and an addition. No diff driver of the repository is ever consulted.
//!
//! A patch has bounds: libgit2 takes a hundred bytes of memory for a line of text. What is beyond them is
//! not in the patch, and is named.

use std::collections::HashSet;

use git2::{DiffFormat, DiffOptions, Odb};

use super::diffstat::MAX_FILES;
use super::hunks::{FilePair, GITLINK, MAX_FILE_LINES, count_lines, is_binary};
use super::repo::Repo;
use super::tree_diff::differing;
use super::{GitError, Oid};

/// Larger files are left out, bytes.
const MAX_FILE: usize = 8 << 20;

/// Files of one patch.
const MAX_LISTED: usize = 20_000;

/// Which part of a difference to write, and how much.
#[derive(Clone, Copy, Debug)]
pub struct DiffSpec<'a> {
    /// Exact paths (or folders); everything when empty.
    pub paths: &'a [&'a str],
    /// Bytes of the patch.
    pub max_bytes: usize,
}

impl DiffSpec<'_> {
    /// Everything, up to 64 MiB.
    pub fn all() -> DiffSpec<'static> {
        DiffSpec { paths: &[], max_bytes: 64 << 20 }
    }
}

/// A patch, fit for `git apply --index`. Bytes, because files are.
#[derive(Debug, Default)]
pub struct Patch {
    pub bytes: Vec<u8>,
    /// Files that differ and are not in it, because that would be too much.
    pub left_out: Vec<OmittedFile>,
}

/// A file that a patch does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedFile {
    pub path: String,
    /// Bytes of the larger side.
    pub size: u64,
}

/// The patch from one tree to another. Whole files are left out of it, never a part of one: a cut patch
/// would apply to the wrong thing.
///
/// # Errors
/// When an object cannot be read, or libgit2 gives no lines for a file that has some, as it does when it
/// is out of memory.
pub fn unified(repo: &Repo, old: Oid, new: Oid, spec: DiffSpec<'_>) -> Result<Patch, GitError> {
    let git = repo.git()?;
    let (old, new) = (git.find_tree(old.0)?, git.find_tree(new.0)?);
    let odb = git.odb()?;
    let pairs = differing(&git, Some(&old), Some(&new), MAX_FILES)?;
    let pairs = pairs.into_iter().filter(|pair| is_asked_for(pair.path(), spec.paths));
    let mut patch = Patch::default();
    let mut fit: Vec<PatchFile> = Vec::new();
    for pair in pairs {
        match PatchFile::new(&odb, pair)? {
            Ok(fits) if fit.len() < MAX_LISTED => fit.push(fits),
            Ok(PatchFile { pair, size, .. }) | Err((pair, size)) => {
                patch.leave_out(pair.path(), size);
            }
        }
    }
    if fit.is_empty() {
        return Ok(patch);
    }
    let mut options = DiffOptions::new();
    options.show_binary(true).id_abbrev(40).context_lines(3).disable_pathspec_match(true);
    if !patch.left_out.is_empty() || !spec.paths.is_empty() {
        // libgit2 reads a pathspec as a prefix: naming a file would also print the files below a
        // folder that took its place. If one of those was left out, the file goes with it.
        let in_the_way = |path: &[u8]| {
            patch.left_out.iter().any(|left| {
                left.path.as_bytes().strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"))
            })
        };
        let (gone, kept): (Vec<PatchFile>, Vec<PatchFile>) =
            fit.into_iter().partition(|fit| in_the_way(fit.pair.path()));
        fit = kept;
        for gone in &gone {
            patch.leave_out(gone.pair.path(), gone.size);
        }
        for fit in &fit {
            options.pathspec(fit.pair.path());
        }
        if fit.is_empty() {
            return Ok(patch);
        }
    }
    let diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))?;
    print(&diff, &fit, spec.max_bytes, &mut patch)?;
    Ok(patch)
}

/// Writes the files one after the other, as many as there is room for.
fn print(
    diff: &git2::Diff<'_>,
    fit: &[PatchFile],
    most: usize,
    out: &mut Patch,
) -> Result<(), GitError> {
    // Where each file begins, in the order in which they are written.
    let mut starts: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut with_lines: HashSet<Vec<u8>> = HashSet::new();
    let bytes = &mut out.bytes;
    let printed = diff.print(DiffFormat::Patch, |delta, _, line| {
        let path = delta.new_file().path_bytes().unwrap_or_default();
        if line.origin() == 'F' {
            starts.push((path.to_vec(), bytes.len()));
        } else if !with_lines.contains(path) {
            with_lines.insert(path.to_vec());
        }
        // libgit2 gives the sign apart from the content for these lines, and inside the content for
        // headers.
        if matches!(line.origin(), '+' | '-' | ' ') {
            bytes.push(line.origin() as u8);
        }
        bytes.extend_from_slice(line.content());
        bytes.len() <= most
    });
    // The callback ends the printing by returning false, which libgit2 reports as an error; it is
    // one only when the limit was not the reason.
    let is_full = bytes.len() > most;
    if !is_full {
        printed?;
    }
    if is_full && let Some((_, start)) = starts.pop() {
        // Half a file would not apply, so the last one goes as a whole.
        bytes.truncate(start);
    }
    let written: HashSet<&[u8]> = starts.iter().map(|(path, _)| path.as_slice()).collect();
    for fit in fit {
        let path = fit.pair.path();
        if !written.contains(path) {
            // libgit2 skips a file silently when it cannot allocate the difference.
            if !is_full {
                return Err(unprinted(path));
            }
            out.leave_out(path, fit.size);
        } else if fit.has_lines && !with_lines.contains(path) {
            return Err(unprinted(path));
        }
    }
    Ok(())
}

fn unprinted(path: &[u8]) -> GitError {
    let path = super::display_path(&String::from_utf8_lossy(path));
    GitError::Machine(format!("the lines of `{path}` could not be compared: not enough memory"))
}

fn is_asked_for(path: &[u8], asked: &[&str]) -> bool {
    let is_below = |asked: &&str| {
        path.strip_prefix(asked.trim_end_matches('/').as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    asked.is_empty() || asked.iter().any(is_below)
}

impl Patch {
    fn leave_out(&mut self, path: &[u8], size: u64) {
        let path = String::from_utf8_lossy(path).into_owned();
        self.left_out.push(OmittedFile { path, size });
    }
}

/// A file that a patch can have.
struct PatchFile {
    pair: FilePair,
    /// Bytes of the larger side.
    size: u64,
    /// There is something to be written below its head.
    has_lines: bool,
}

impl PatchFile {
    /// The file and its size when it is too large.
    fn new(odb: &Odb<'_>, pair: FilePair) -> Result<Result<PatchFile, (FilePair, u64)>, GitError> {
        let mut sizes = [0, 0];
        let versions = [&pair.old, &pair.new];
        let is_same = match versions {
            [Some(old), Some(new)] => old.id == new.id,
            _ => false,
        };
        let mut is_too_long = false;
        for (version, size) in versions.into_iter().zip(&mut sizes) {
            let Some(version) = version.as_ref().filter(|version| version.mode != GITLINK) else {
                continue;
            };
            *size = odb.read_header(version.id)?.0;
            // Few bytes are few lines.
            if !is_same && *size > MAX_FILE_LINES && *size <= MAX_FILE {
                let object = odb.read(version.id)?;
                let content = object.data();
                is_too_long |= !is_binary(content) && count_lines(content) > MAX_FILE_LINES;
            }
        }
        let size = sizes[0].max(sizes[1]);
        if !is_same && (size > MAX_FILE || is_too_long) {
            return Ok(Err((pair, size as u64)));
        }
        Ok(Ok(PatchFile { pair, size: size as u64, has_lines: !is_same && size > 0 }))
    }
}

/// The tree of a commit, for [`unified`].
pub fn tree_of(repo: &Repo, commit: Oid) -> Result<Oid, GitError> {
    Ok(Oid(repo.git()?.find_commit(commit.0)?.tree_id()))
}
