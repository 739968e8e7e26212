//! A change put onto another commit than the one it was made on.
//!
//! Trees only: no working folder, no index file, no merge driver of the repository. Files are merged name by name; those
//! that one side has moved and the other has touched are followed ([`super::merge_moves`]).

use git2::{
    FileFavor, Index, IndexConflict, IndexEntry, MergeFileInput, MergeFileOptions, MergeOptions,
    Repository,
};

use super::attributes::{Attributes, Merge};
use super::merge_moves::{Sides, follow};
use super::repo::Repo;
use super::{GitError, Oid, diff};

/// Bytes of a file that is merged line by line; larger ones are taken as they are on the new base.
const MAX_FILE: usize = 8 << 20;
/// Bytes at the beginning of a file in which a NUL makes it a binary one, as in git.
const SNIFFED: usize = 8000;

/// The tree of `now` with what differs between `old` and `change`; `None` when both have changed the
/// same place.
pub fn onto(repo: &Repo, old: Oid, now: Oid, change: Oid) -> Result<Option<Oid>, GitError> {
    let git = repo.git()?;
    let (mut merged, moved) = merge(&git, old, now, change, Labels { base: "", change: "" })?;
    if merged.has_conflicts() || !moved.is_empty() {
        return Ok(None);
    }
    Ok(Some(Oid(merged.write_tree_to(&git)?)))
}

/// Most merge bases that are merged with another one, for a merge of two commits: each may need as many again.
const MOST_CRISS_CROSSES: usize = 20;

/// The tree that two commits come from. Where each side has taken in the other once (a criss-cross), they have several
/// merge bases, and it is those merged, as git does it: with one of them alone, what the other has would count as a
/// change of both sides. `None` where no common commit is known.
///
/// # Errors
/// When a commit or a tree cannot be read or written.
pub fn common_tree(repo: &Repo, one: Oid, other: Oid) -> Result<Option<Oid>, GitError> {
    let mut left = MOST_CRISS_CROSSES;
    common_tree_within(repo, one, other, &mut left)
}

fn common_tree_within(
    repo: &Repo,
    one: Oid,
    other: Oid,
    left: &mut usize,
) -> Result<Option<Oid>, GitError> {
    let bases = match repo.git()?.merge_bases(one.0, other.0) {
        Ok(bases) => bases,
        Err(err) if err.code() == git2::ErrorCode::NotFound => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let mut bases = bases.iter().map(|base| Oid(*base));
    let Some(first) = bases.next() else { return Ok(None) };
    let mut tree = diff::tree_of(repo, first)?;
    for next in bases {
        if *left == 0 {
            break;
        }
        *left -= 1;
        let below = common_tree_within(repo, first, next, left)?;
        // What they have nothing in common with is no help.
        let Some(below) = below else { continue };
        let labels = Labels { base: "", change: "" };
        tree = match with_markers(repo, below, tree, diff::tree_of(repo, next)?, labels)? {
            MergeResult::Clean(tree) | MergeResult::Conflicts { tree, .. } => tree,
        };
    }
    Ok(Some(tree))
}

/// How a commit stands to the branch that it is for, as that is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseComparison {
    /// The branch is where the commit was made.
    Same,
    Clean,
    Conflicts,
    /// The branch has the change already.
    Contained,
}

/// Compares `commit`, which was made on `base`, with the branch that points to `now`.
///
/// # Errors
/// When one of the three cannot be read.
pub fn compare_with_base(
    repo: &Repo,
    base: Oid,
    now: Oid,
    commit: Oid,
) -> Result<BaseComparison, GitError> {
    if base == now {
        return Ok(BaseComparison::Same);
    }
    let tree = |commit| diff::tree_of(repo, commit);
    let (old, new) = (tree(base)?, tree(now)?);
    Ok(match onto(repo, old, new, tree(commit)?)? {
        None => BaseComparison::Conflicts,
        Some(merged) if merged == new => BaseComparison::Contained,
        Some(_) => BaseComparison::Clean,
    })
}

/// What merges name by name, and the conflicts of files that were moved, which are settled in it.
fn merge(
    git: &Repository,
    old: Oid,
    now: Oid,
    change: Oid,
    labels: Labels<'_>,
) -> Result<(Index, Vec<Conflict>), GitError> {
    let sides = Sides {
        old: git.find_tree(old.0)?,
        base: git.find_tree(now.0)?,
        change: git.find_tree(change.0)?,
    };
    let mut options = MergeOptions::new();
    // libgit2 does not find all that git does, and gives up with 200 files.
    options.find_renames(false);
    let mut index = git.merge_trees(&sides.old, &sides.base, &sides.change, Some(&options))?;
    let moved = follow(git, &sides, &mut index, labels)?;
    unite(git, &sides, &mut index)?;
    Ok((index, moved))
}

/// Settles the conflicts of files of which the attributes want the lines of both sides (`merge=union`).
fn unite(git: &Repository, sides: &Sides<'_>, index: &mut Index) -> Result<(), GitError> {
    if !index.has_conflicts() {
        return Ok(());
    }
    let mut attributes = Attributes::new(git, &sides.base);
    let conflicts: Vec<IndexConflict> = index.conflicts()?.collect::<Result<_, _>>()?;
    for conflict in &conflicts {
        let (Some(base), Some(change)) = (&conflict.our, &conflict.their) else { continue };
        let Ok(path) = std::str::from_utf8(&base.path) else { continue };
        if attributes.merge(path)? != Merge::Union {
            continue;
        }
        let how = (Labels { base: "", change: "" }, Merge::Union);
        let merged = merged_text(git, [base, change], conflict.ancestor.as_ref(), how)?;
        if let Some((merged, true)) = merged {
            clear(index, &base.path)?;
            index.add(&IndexEntry { flags: 0, flags_extended: 0, ..merged })?;
        }
    }
    Ok(())
}

/// What a file in conflict looks like in the merged tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both have changed the same lines, or added the file: it has conflict markers.
    Marked,
    /// Both have changed it, and it is no text, or too large: it is as on the new base.
    Unmerged,
    /// The new base has deleted what the change changes: it is as the change has it.
    DeletedOnBase,
    /// The change deletes what the new base has changed: it is as on the new base.
    DeletedByChange,
    /// The new base has moved here what the change deletes: it is as on the new base.
    MovedOnBase,
    /// The change moves here what the new base has deleted: it is as the change has it.
    MovedByChange,
    /// Both have moved it, this is where one of them has it, and the other's is there as well.
    MovedApart,
}

/// A file that both sides have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub path: String,
    pub kind: ConflictKind,
    /// What it was called where both have it from, if that is something else.
    pub from: Option<String>,
}

/// A merge that may need somebody to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    Clean(Oid),
    /// The tree has everything that could be merged, and these files as their [`ConflictKind`] says.
    Conflicts {
        tree: Oid,
        files: Vec<Conflict>,
    },
}

/// The names of both sides in conflict markers: `<<<<<<< base`, `>>>>>>> change`.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    pub base: &'a str,
    pub change: &'a str,
}

/// As [`onto`]; where both have changed the same place, the tree has conflict markers.
///
/// # Errors
/// When a tree or a file cannot be read or written.
pub fn with_markers(
    repo: &Repo,
    old: Oid,
    now: Oid,
    change: Oid,
    labels: Labels<'_>,
) -> Result<MergeResult, GitError> {
    let git = repo.git()?;
    let (mut index, mut files) = merge(&git, old, now, change, labels)?;
    if !index.has_conflicts() && files.is_empty() {
        return Ok(MergeResult::Clean(Oid(index.write_tree_to(&git)?)));
    }
    let conflicts: Vec<IndexConflict> = index.conflicts()?.collect::<Result<_, _>>()?;
    for conflict in &conflicts {
        let sides = [&conflict.ancestor, &conflict.our, &conflict.their];
        let Some(any) = sides.into_iter().flatten().next() else { continue };
        let path = any.path.clone();
        let (entry, kind) = settled(&git, conflict, labels)?;
        clear(&mut index, &path)?;
        if let Some(entry) = entry.filter(|_| !is_folder(&index, &path)) {
            index.add(&IndexEntry { flags: 0, flags_extended: 0, ..entry })?;
        }
        let path = String::from_utf8_lossy(&path).into_owned();
        files.push(Conflict { path, kind, from: None });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(MergeResult::Conflicts { tree: Oid(index.write_tree_to(&git)?), files })
}

/// Takes a path out of the index, whoever has it there.
pub(super) fn clear(index: &mut Index, path: &[u8]) -> Result<(), GitError> {
    let name = std::path::Path::new(std::str::from_utf8(path).map_err(|_| {
        GitError::Unacceptable("a file in conflict has a name that is not UTF-8".to_owned())
    })?);
    for stage in 0..=3 {
        if index.get_path(name, stage).is_some() {
            index.remove(name, stage)?;
        }
    }
    Ok(())
}

/// There are files below this path: what one side made a folder cannot be the other's file as well.
pub(super) fn is_folder(index: &Index, path: &[u8]) -> bool {
    let below = |entry: &IndexEntry| {
        entry.path.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    index.iter().any(|entry| below(&entry))
}

/// The file that stands for the conflict.
fn settled(
    git: &Repository,
    conflict: &IndexConflict,
    labels: Labels<'_>,
) -> Result<(Option<IndexEntry>, ConflictKind), GitError> {
    let copy = |entry: &IndexEntry| IndexEntry { path: entry.path.clone(), ..*entry };
    let (base, change) = match (&conflict.our, &conflict.their) {
        (Some(base), Some(change)) => (base, change),
        (Some(base), None) => return Ok((Some(copy(base)), ConflictKind::DeletedByChange)),
        (None, Some(change)) => return Ok((Some(copy(change)), ConflictKind::DeletedOnBase)),
        (None, None) => return Ok((None, ConflictKind::DeletedOnBase)),
    };
    let how = (labels, Merge::Lines);
    let merged = merged_text(git, [base, change], conflict.ancestor.as_ref(), how)?;
    Ok(match merged {
        Some((merged, _)) => (Some(merged), ConflictKind::Marked),
        None => (Some(copy(base)), ConflictKind::Unmerged),
    })
}

/// Two versions of a text merged line by line, with markers where both have changed the same ones, and whether there are
/// none; `None` for what is no text.
pub(super) fn merged_text(
    git: &Repository,
    [base, change]: [&IndexEntry; 2],
    old: Option<&IndexEntry>,
    (labels, how): (Labels<'_>, Merge),
) -> Result<Option<(IndexEntry, bool)>, GitError> {
    let texts = [Some(base), Some(change), old].into_iter().flatten().map(|side| text(git, side));
    let texts: Option<Vec<Vec<u8>>> = texts.collect::<Result<_, _>>()?;
    let Some(texts) = texts else { return Ok(None) };
    let input = |at: usize| {
        let mut input = MergeFileInput::new();
        // Of a file that both have added there is no earlier version.
        input.content(texts.get(at).map_or(&[], Vec::as_slice));
        input
    };
    let mut options = MergeFileOptions::new();
    options.our_label(labels.base).their_label(labels.change);
    if how == Merge::Union {
        options.favor(FileFavor::Union);
    }
    let merged = git2::merge_file(&input(2), &input(0), &input(1), Some(&mut options))?;
    let id = git.blob(merged.content())?;
    // Whichever side has changed the mode.
    let mode = if old.is_some_and(|old| old.mode == base.mode) { change.mode } else { base.mode };
    let entry = IndexEntry { id, mode, path: base.path.clone(), ..*base };
    Ok(Some((entry, merged.is_automergeable())))
}

/// The content of a text file that is not too large; no link and no submodule.
fn text(git: &Repository, entry: &IndexEntry) -> Result<Option<Vec<u8>>, GitError> {
    if !matches!(entry.mode, 0o100_644 | 0o100_755) {
        return Ok(None);
    }
    let (size, _) = git.odb()?.read_header(entry.id)?;
    if size > MAX_FILE {
        return Ok(None);
    }
    let content = git.find_blob(entry.id)?.content().to_vec();
    let is_text = !content.iter().take(SNIFFED).any(|byte| *byte == 0);
    Ok(is_text.then_some(content))
}
