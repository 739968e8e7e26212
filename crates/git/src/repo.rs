//! A bare repository of ours on disk: made complete or not at all, and checked for damage. Filled by
//! [`super::clone`], read by everything else here.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git2::Repository;

use super::clone::{is_commit_id, kept_as};
use super::transport::prepare;
use super::{GitError, Oid};

/// Our whole configuration of a bare repository. Packs that are made from it live for minutes, so
/// no time goes into finding deltas: with this little memory libgit2 tries none.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfilemode = true\n\
    [pack]\n\twindowMemory = 1\n";

/// A bare repository of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    path: PathBuf,
}

impl Repo {
    /// Names a repository without opening it, because it may be damaged.
    pub(super) fn at(path: PathBuf) -> Repo {
        Repo { path }
    }

    /// Opens a bare repository that exists.
    pub fn open(path: &Path) -> Result<Repo, GitError> {
        let repo = Repo { path: path.to_owned() };
        repo.git()?;
        Ok(repo)
    }

    /// Creates an empty one; it appears complete or not at all.
    pub fn create(path: &Path) -> Result<Repo, GitError> {
        let parent = path.parent().unwrap_or(Path::new("."));
        fs_err::create_dir_all(parent)?;
        // Nobody else may read it.
        let private = Permissions::from_mode(0o700);
        let mut fresh = tempfile::Builder::new();
        let fresh = fresh.prefix(".new-").permissions(private).tempdir_in(parent)?;
        lay_out(fresh.path())?;
        let fresh = fresh.keep();
        match fs_err::rename(&fresh, path) {
            Ok(()) => {}
            // Another run was faster; its repository is as good as ours.
            Err(_) if path.join("objects").is_dir() => fs_err::remove_dir_all(&fresh)?,
            Err(error) => {
                fs_err::remove_dir_all(&fresh)?;
                return Err(error.into());
            }
        }
        Repo::open(path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The commit that a fetched ref, a full ref name or a commit id stands for.
    pub fn resolve(&self, reference: &str) -> Result<Oid, GitError> {
        let git = self.git()?;
        let missing = || GitError::NotFound(reference.to_owned());
        let found = if is_commit_id(reference) {
            git.find_commit(git2::Oid::from_str(reference)?).map_err(|_| missing())?
        } else {
            let name = kept_as(reference)?;
            git.find_reference(&name)
                .and_then(|found| found.peel_to_commit())
                .map_err(|_| missing())?
        };
        Ok(Oid(found.id()))
    }

    /// A libgit2 handle. Cheap; one per operation and thread.
    pub(super) fn git(&self) -> Result<Repository, GitError> {
        prepare()?;
        let git = Repository::open_bare(&self.path)?;
        Ok(git)
    }

    /// Moves a broken repository out of the way and puts an empty one in its place. The broken one
    /// stays beside it until the next time this happens.
    pub fn set_aside(&self) -> Result<(), GitError> {
        let broken = self.path.with_extension("broken");
        if broken.exists() {
            fs_err::remove_dir_all(&broken)?;
        }
        if self.path.exists() {
            fs_err::rename(&self.path, &broken)?;
        }
        Repo::create(&self.path).map(|_| ())
    }

    /// Removes an object that was stored since the last fetch, for contents that must not stay on the
    /// disk. Objects in packs came from the forge and are left alone.
    pub fn forget(&self, object: Oid) -> Result<(), GitError> {
        let id = object.to_string();
        let path = self.path.join("objects").join(&id[..2]).join(&id[2..]);
        match fs_err::remove_file(&path) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(err.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether refs point to objects that can be read and every pack is as long as its index says.
    pub(super) fn is_healthy(&self) -> bool {
        let Ok(git) = self.git() else { return false };
        let packs = self.path.join("objects/pack");
        let Ok(entries) = fs_err::read_dir(&packs) else { return false };
        for entry in entries.flatten() {
            let path = entry.path();
            // A truncated pack still opens; only its checksum shows that bytes are missing.
            if path.extension().is_some_and(|extension| extension == "idx")
                && !pack_matches_index(&path)
            {
                return false;
            }
        }
        let Ok(references) = git.references() else { return false };
        references.into_iter().all(|reference| {
            reference.is_ok_and(|reference| {
                reference.peel_to_commit().and_then(|commit| commit.tree()).is_ok()
            })
        })
    }
}

/// Makes what git takes for an empty bare repository in a folder that is there: nothing that is not needed, so no
/// hooks. `git init` and libgit2 copy a template of some twenty files, which would have to be removed again.
pub(super) fn lay_out(folder: &Path) -> std::io::Result<()> {
    for part in ["objects", "objects/info", "objects/pack", "refs"] {
        fs_err::create_dir(folder.join(part))?;
    }
    fs_err::write(folder.join("config"), CONFIG)?;
    fs_err::write(folder.join("HEAD"), "ref: refs/heads/main\n")
}

/// The parents as the commit itself names them, whatever the list of shallow commits says.
pub(super) fn parents(commit: &git2::Commit<'_>) -> Vec<git2::Oid> {
    commit
        .raw_header_bytes()
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"parent "))
        .filter_map(|id| git2::Oid::from_str(std::str::from_utf8(id).ok()?).ok())
        .collect()
}

/// Compares the checksum at the end of a pack with the one that its index recorded.
pub(super) fn pack_matches_index(index: &Path) -> bool {
    let tail = |path: &Path, from_end: i64| -> std::io::Result<[u8; 20]> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-from_end))?;
        let mut checksum = [0; 20];
        file.read_exact(&mut checksum)?;
        Ok(checksum)
    };
    match (tail(index, 40), tail(&index.with_extension("pack"), 20)) {
        (Ok(recorded), Ok(actual)) => recorded == actual,
        _ => false,
    }
}
