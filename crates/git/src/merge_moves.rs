//! Files that both sides of a merge have touched, and one of them has moved. Decided as git's own merge decides it: a file
//! that both have moved, or one has moved and the other deleted, is a conflict; what one has moved and the other changed is
//! merged at its new place. What the attributes keep from being merged line by line is a conflict, too. Called by
//! [`super::merge`].

use std::collections::{BTreeMap, BTreeSet};

use git2::{Index, IndexEntry, Repository, Tree};

use super::GitError;
use super::attributes::{Attributes, Merge};
use super::diffstat::MAX_FILES;
use super::hunks::{FilePair, FileSide};
use super::merge::{Conflict, ConflictKind, Labels, clear, is_folder, merged_text};
use super::renames::pair_up;
use super::stop::Stop;
use super::tree_diff::differing;

/// With more pairs of a deleted and an added file than this, only those deleted files are followed that matter.
const MAX_PAIRS: usize = 1_000_000;

/// The three trees of a merge.
pub(super) struct Sides<'a> {
    pub(super) old: Tree<'a>,
    pub(super) base: Tree<'a>,
    pub(super) change: Tree<'a>,
}

/// What one side has done to the files that both have touched.
struct Side {
    /// New files by their old paths.
    moved: BTreeMap<Vec<u8>, FileSide>,
    /// What is there now of a file that was there before, by its path.
    now: BTreeMap<Vec<u8>, Option<FileSide>>,
}

/// Follows what was moved in `index`, which was merged name by name; returns the conflicts that are settled there as far
/// as they can be.
pub(super) fn follow(
    git: &Repository,
    sides: &Sides<'_>,
    index: &mut Index,
    labels: Labels<'_>,
) -> Result<Vec<Conflict>, GitError> {
    let base = differing(git, Some(&sides.old), Some(&sides.base), MAX_FILES)?;
    let change = differing(git, Some(&sides.old), Some(&sides.change), MAX_FILES)?;
    let paths = |pairs: &[FilePair]| -> BTreeSet<Vec<u8>> {
        pairs.iter().filter_map(|pair| pair.old.as_ref()).map(|old| old.path.clone()).collect()
    };
    let contested: BTreeSet<Vec<u8>> =
        paths(&base).intersection(&paths(&change)).cloned().collect();
    let before: BTreeMap<Vec<u8>, FileSide> = base
        .iter()
        .filter_map(|pair| pair.old.clone())
        .filter(|old| contested.contains(&old.path))
        .map(|old| (old.path.clone(), old))
        .collect();
    let base = Side::of(git, base, &contested)?;
    let change = Side::of(git, change, &contested)?;
    let attributes = Attributes::new(git, &sides.base);
    let mut followed = Follow { git, attributes, index, labels, found: Vec::new() };
    for (path, old) in &before {
        let now = |side: &Side| side.now.get(path).cloned().flatten();
        match ((now(&base), base.moved.get(path)), (now(&change), change.moved.get(path))) {
            ((None, Some(one)), (None, Some(other))) if one.path == other.path => {
                followed.merge(old, [one, other], &one.path)?;
            }
            ((None, Some(one)), (None, Some(other))) => {
                followed.conflict(old, one, ConflictKind::MovedApart);
                followed.conflict(old, other, ConflictKind::MovedApart);
            }
            ((None, Some(new)), (None, None)) => {
                followed.conflict(old, new, ConflictKind::MovedOnBase);
            }
            ((None, None), (None, Some(new))) => {
                followed.conflict(old, new, ConflictKind::MovedByChange);
            }
            ((None, Some(new)), (Some(changed), _)) => {
                followed.merge(old, [new, &changed], &new.path)?;
            }
            ((Some(changed), _), (None, Some(new))) => {
                followed.merge(old, [&changed, new], &new.path)?;
            }
            ((Some(one), _), (Some(other), _)) if one.id != other.id => {
                followed.whole(old, [&one, &other])?;
            }
            _ => {}
        }
    }
    Ok(followed.found)
}

impl Side {
    fn of(
        git: &Repository,
        pairs: Vec<FilePair>,
        contested: &BTreeSet<Vec<u8>>,
    ) -> Result<Side, GitError> {
        let of_both =
            |pair: &FilePair| pair.old.as_ref().is_some_and(|old| contested.contains(&old.path));
        let now = pairs
            .iter()
            .filter(|pair| of_both(pair))
            .filter_map(|pair| Some((pair.old.as_ref()?.path.clone(), pair.new.clone())));
        let now: BTreeMap<_, _> = now.collect();
        // As git's merge does, which would find too much: files without content are all alike.
        let empty = git2::Oid::hash_object(git2::ObjectType::Blob, b"")?;
        let has_content = |side: &Option<FileSide>| side.as_ref().is_none_or(|it| it.id != empty);
        let mut halves: Vec<FilePair> = pairs
            .into_iter()
            .filter(|pair| pair.old.is_none() != pair.new.is_none())
            .filter(|pair| has_content(&pair.old) && has_content(&pair.new))
            .collect();
        let gone = halves.iter().filter(|pair| pair.new.is_none());
        let (sources, wanted) = (gone.clone().count(), gone.filter(|it| of_both(it)).count());
        let targets = halves.len() - sources;
        let mut moved = BTreeMap::new();
        if wanted == 0 || targets == 0 {
            return Ok(Side { moved, now });
        }
        if sources.saturating_mul(targets) > MAX_PAIRS {
            halves.retain(|pair| pair.new.is_some() || of_both(pair));
        }
        for pair in paired(git, halves)? {
            if let (Some(old), Some(new)) = (pair.old, pair.new) {
                moved.insert(old.path, new);
            }
        }
        Ok(Side { moved, now })
    }
}

/// Joins what was moved. In a clone that lacks files, those with the same content.
fn paired(git: &Repository, halves: Vec<FilePair>) -> Result<Vec<FilePair>, GitError> {
    match pair_up(&git.odb()?, halves.clone(), &Stop::never()) {
        Err(error) if error.is_missing() => {}
        paired => return paired,
    }
    let mut added: BTreeMap<git2::Oid, FileSide> = BTreeMap::new();
    for new in halves.iter().filter(|pair| pair.old.is_none()).filter_map(|pair| pair.new.clone()) {
        added.entry(new.id).or_insert(new);
    }
    let gone = halves.into_iter().filter_map(|pair| pair.old);
    let joined = gone.filter_map(|old| {
        let new = added.remove(&old.id)?;
        Some(FilePair { old: Some(old), new: Some(new) })
    });
    Ok(joined.collect())
}

/// A merge that is brought up to what was moved.
struct Follow<'a, 'b> {
    git: &'a Repository,
    /// Those of the base.
    attributes: Attributes<'a>,
    index: &'a mut Index,
    labels: Labels<'b>,
    found: Vec<Conflict>,
}

impl Follow<'_, '_> {
    /// Nobody but a person or a model can say what is meant: the file stays where this side has it. Where the other side
    /// has added one there, it is a conflict already.
    fn conflict(&mut self, old: &FileSide, new: &FileSide, kind: ConflictKind) {
        let path = text(&new.path);
        if self.index.get_path(std::path::Path::new(&path), 0).is_some() {
            self.found.push(Conflict { path, kind, from: Some(text(&old.path)) });
        }
    }

    /// Two versions of a file in its old place: the attributes may say that there is only one or the other.
    fn whole(&mut self, old: &FileSide, [base, change]: [&FileSide; 2]) -> Result<(), GitError> {
        let path = text(&base.path);
        let is_whole = self.attributes.merge(&path)? == Merge::Whole;
        if old.id == base.id || old.id == change.id || !is_whole {
            return Ok(());
        }
        clear(self.index, &base.path)?;
        self.index.add(&entry(base, &base.path))?;
        self.found.push(Conflict { path, kind: ConflictKind::Unmerged, from: None });
        Ok(())
    }

    /// Merges the versions of the base and of the change at the place where one of them has it. What is no text, or has
    /// something else in its way, stays the conflict that it is name by name.
    fn merge(
        &mut self,
        old: &FileSide,
        [base, change]: [&FileSide; 2],
        to: &[u8],
    ) -> Result<(), GitError> {
        let is_both = base.path == change.path;
        let Ok(name) = std::str::from_utf8(to).map(std::path::Path::new) else { return Ok(()) };
        let is_free = self.index.get_path(name, 0).is_some();
        if !is_both && (!is_free || is_folder(self.index, to)) {
            return Ok(());
        }
        let how = self.attributes.merge(&text(to))?;
        if (is_both && base.id == change.id) || how == Merge::Whole {
            return Ok(());
        }
        let sides = [base, change, old].map(|side| entry(side, to));
        let (both, old_entry) = ([&sides[0], &sides[1]], Some(&sides[2]));
        let merged = merged_text(self.git, both, old_entry, (self.labels, how))?;
        let Some((merged, is_whole)) = merged else { return Ok(()) };
        for path in [to, &old.path] {
            clear(self.index, path)?;
        }
        self.index.add(&merged)?;
        if !is_whole {
            let from = (!is_both).then(|| text(&old.path));
            self.found.push(Conflict { path: text(to), kind: ConflictKind::Marked, from });
        }
        Ok(())
    }
}

fn entry(side: &FileSide, path: &[u8]) -> IndexEntry {
    IndexEntry {
        ctime: git2::IndexTime::new(0, 0),
        mtime: git2::IndexTime::new(0, 0),
        dev: 0,
        ino: 0,
        mode: side.mode.cast_unsigned(),
        uid: 0,
        gid: 0,
        file_size: 0,
        id: side.id,
        flags: 0,
        flags_extended: 0,
        path: path.to_owned(),
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
