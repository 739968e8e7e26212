//! A commit on its way to another repository: the pack of what its parent lacks, and taking one in.
//!
//! What is taken in may have been made by anybody who could write to the database. It is unpacked in a
//! place of its own first, which borrows the objects that are here, and has to be exactly what it says
//! it is: one commit with one parent that is here, whole, and nothing else.

use std::collections::HashSet;
use std::io::Write;

use git2::{DiffFormat, DiffOptions, Repository};
use sha2::{Digest, Sha256};

use super::push;
use super::repo::{Repo, parents};
use super::{GitError, Oid};

/// The largest pack that is made or taken in, in bytes.
pub const MAX_PACK: usize = 256 << 20;

/// The most objects of a pack: far beyond what the policy lets a change have.
const MAX_OBJECTS: usize = 200_000;

/// The pack of `commit`: itself, and what its tree has that its parent's has not.
pub fn pack(repo: &Repo, commit: Oid) -> Result<Vec<u8>, GitError> {
    let pack = push::pack(&repo.git()?, commit)?;
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
    let refused =
        |why: &str| GitError::Unacceptable(format!("the stored change is not valid: {why}"));
    if pack.len() > MAX_PACK {
        return Err(refused("it is too large"));
    }
    let announced = announced(pack).ok_or_else(|| refused("it is no git pack"))?;
    if announced > MAX_OBJECTS {
        return Err(refused("it has too many objects"));
    }
    let aside = tempfile::Builder::new().prefix("patchwright-pack-").tempdir()?;
    let place = Repo::create(&aside.path().join("aside.git"))?;
    let objects = fs_err::canonicalize(repo.path().join("objects"))?;
    fs_err::create_dir_all(place.path().join("objects/info"))?;
    fs_err::write(
        place.path().join("objects/info/alternates"),
        format!("{}\n", objects.display()),
    )?;
    let git = place.git()?;
    write(&git, pack).map_err(|_| refused("it cannot be unpacked"))?;
    let git = place.git()?;
    let found = git.find_commit(commit.0).map_err(|_| refused("its commit is not in it"))?;
    let [parent] = parents(&found)[..] else { return Err(refused("it has not one parent")) };
    let here = repo.git()?;
    let base = here.find_commit(parent).and_then(|commit| commit.tree());
    let base = base.map_err(|_| GitError::NotFound(parent.to_string()))?;
    let mut reached = vec![commit.0];
    let tree = found.tree().map_err(|_| refused("its tree is not in it"))?;
    push::differing(&git, Some(&base), &tree, &mut reached)
        .map_err(|_| refused("a folder of it is missing"))?;
    let known = git.odb()?;
    if reached.len() > MAX_OBJECTS || !reached.iter().all(|oid| known.exists(*oid)) {
        return Err(refused("a file of it is missing"));
    }
    // The same content may stand in several places, and be in the pack once.
    if announced > reached.into_iter().collect::<HashSet<_>>().len() {
        return Err(refused("it has more than its commit"));
    }
    write(&here, pack)?;
    Ok(Oid(parent))
}

fn write(git: &Repository, pack: &[u8]) -> Result<(), GitError> {
    let odb = git.odb()?;
    let mut writer = odb.packwriter()?;
    writer.write_all(pack)?;
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

/// SHA-256, in hex, of what a change does: paths, modes, and the lines that go and come, without their
/// positions and what stands around them. The same change on another base has the same one.
pub fn change_id(repo: &Repo, old: Oid, new: Oid) -> Result<String, GitError> {
    let git = repo.git()?;
    let (old, new) = (git.find_tree(old.0)?, git.find_tree(new.0)?);
    let mut options = DiffOptions::new();
    options.context_lines(0).interhunk_lines(0).id_abbrev(40).show_binary(true);
    let diff = git.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))?;
    let mut hash = Sha256::new();
    let mut part = |kind: u8, text: &[u8]| {
        hash.update([kind]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    for delta in diff.deltas() {
        for file in [delta.old_file(), delta.new_file()] {
            part(b'f', file.path_bytes().unwrap_or_default());
            part(b'm', &u32::from(file.mode()).to_be_bytes());
        }
    }
    diff.print(DiffFormat::Patch, |delta, _, line| {
        match line.origin() {
            '+' | '-' => {
                // Which file it is, so that a line that moves to another file is another change.
                part(b'p', delta.new_file().path_bytes().unwrap_or_default());
                part(u8::try_from(line.origin()).unwrap_or(b'?'), line.content());
            }
            // Binary files: what they become, whatever they were.
            'B' => part(b'b', delta.new_file().id().as_bytes()),
            _ => {}
        }
        true
    })?;
    Ok(hex::encode(hash.finalize()))
}
