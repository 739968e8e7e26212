//! A commit on its way to another repository: the pack of what its parent lacks, and taking one in.
//!
//! What is taken in may have been made by anybody who could write to the database. It is unpacked in a
//! place of its own first, which borrows the objects that are here, and has to be exactly what it says
//! it is: one commit with one parent that is here, whole, and nothing else.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use git2::{ErrorClass, Repository};

use super::clone::lock;
use super::quarantine::Quarantine;
use super::repo::{Repo, parents};
use super::{GitError, Oid, helper, incoming, push};

/// The largest pack that is made or taken in, in bytes.
pub const MAX_PACK: usize = 256 << 20;

/// The most objects of a pack: far beyond what the policy lets a change have.
const MAX_OBJECTS: usize = 200_000;

/// The pack of `commit`: itself, and what its tree has that its parent's has not.
pub fn pack(repo: &Repo, commit: Oid) -> Result<Vec<u8>, GitError> {
    let pack = push::pack(&repo.git()?, commit.into())?;
    if pack.len() > MAX_PACK {
        return Err(GitError::Unacceptable(format!("the change is larger than {MAX_PACK} bytes")));
    }
    Ok(pack.to_vec())
}

/// Takes a pack in and returns the commit's only parent, which must be here.
///
/// # Errors
/// [`GitError::Unacceptable`] when it is something else than `commit`; nothing is kept of it then.
/// [`GitError::NotFound`] when the parent is not here.
pub fn unpack(repo: &Repo, pack: &[u8], commit: Oid) -> Result<Oid, GitError> {
    unpack_by(repo, pack, |place| helper::unpack(repo, place, pack, commit))
}

/// [`unpack`] in this process, for fuzzing the parser itself.
///
/// # Errors
/// Those of [`unpack`].
pub fn unpack_here(repo: &Repo, mut pack: &[u8], commit: Oid) -> Result<Oid, GitError> {
    unpack_by(repo, pack, |place| take_in(&Repo::at(place.to_owned()), &mut pack, commit))
}

fn unpack_by(
    repo: &Repo,
    pack: &[u8],
    take_in: impl FnOnce(&Path) -> Result<Oid, GitError>,
) -> Result<Oid, GitError> {
    if pack.len() > MAX_PACK {
        return Err(refused("it is too large"));
    }
    // The header is checked before a process is started for the pack.
    let announced = announced(pack).ok_or_else(|| refused("it is no git pack"))?;
    if announced > MAX_OBJECTS {
        return Err(refused("it has too many objects"));
    }
    let _lock = lock(repo.path())?;
    let place = Quarantine::new(repo)?;
    let parent = take_in(place.path())?;
    place.keep_packs(repo)?;
    Ok(parent)
}

fn refused(why: &str) -> GitError {
    GitError::Unacceptable(format!("the stored change is not valid: {why}"))
}

/// Unpacks into `place`, which borrows the objects that are here, and sees that this is the commit with one
/// parent that is here, whole, and nothing else; returns the parent.
pub(super) fn take_in(place: &Repo, pack: &mut impl Read, commit: Oid) -> Result<Oid, GitError> {
    let before = place.git()?;
    write(&before, pack).map_err(|error| match error {
        GitError::Other(error) if error.class() == ErrorClass::NoMemory => error.into(),
        _ => refused("it cannot be unpacked"),
    })?;
    let git = place.git()?;
    let ours = incoming::all_listed(place)?;
    // A delta of a few bytes can expand to gigabytes.
    incoming::check_sizes(&git, &ours, MAX_PACK)?;
    let found = git.find_commit(commit.0).map_err(|_| refused("its commit is not in it"))?;
    let [parent] = parents(&found)[..] else { return Err(refused("it has not one parent")) };
    if ours.contains(&parent) {
        return Err(refused("it has more than its commit"));
    }
    let base = git.find_commit(parent).and_then(|commit| commit.tree());
    let base = base.map_err(|_| GitError::NotFound(parent.to_string()))?;
    let mut reached = vec![commit.0];
    let tree = found.tree().map_err(|_| refused("its tree is not in it"))?;
    push::differing(&git, Some(&base), &tree, &mut reached)
        .map_err(|_| refused("a folder of it is missing"))?;
    let known = git.odb()?;
    if reached.len() > MAX_OBJECTS || !reached.iter().all(|oid| known.exists(*oid)) {
        return Err(refused("a file of it is missing"));
    }
    // The same content may stand at several paths and be in the pack once, so distinct objects are
    // counted.
    if ours.len() > reached.into_iter().collect::<HashSet<_>>().len() {
        return Err(refused("it has more than its commit"));
    }
    Ok(Oid(parent))
}

fn write(git: &Repository, pack: &mut impl Read) -> Result<(), GitError> {
    let odb = git.odb()?;
    let mut writer = odb.packwriter()?;
    std::io::copy(pack, &mut writer)?;
    writer.commit()?;
    Ok(())
}

/// The number of objects in a pack's header (`Documentation/gitformat-pack`).
fn announced(pack: &[u8]) -> Option<usize> {
    let rest = pack.strip_prefix(b"PACK")?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (count, _) = rest.split_first_chunk::<4>()?;
    let is_known = matches!(u32::from_be_bytes(*version), 2 | 3);
    is_known.then(|| u32::from_be_bytes(*count) as usize)
}
