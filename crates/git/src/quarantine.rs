//! Where packs of strangers lie until they are known to be whole: a repository of its own inside of ours,
//! which reads our objects and writes none there. What goes wrong leaves nothing behind in ours.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use fs_err as fs;
use tempfile::TempDir;

use super::GitError;
use super::repo::{Repo, lay_out, pack_matches_index};

/// How these folders are named.
const PREFIX: &str = "incoming-";

/// Bytes of the list of commits without their parents.
const MAX_SHALLOW: u64 = 64 << 20;

/// One such place. It is gone when this is dropped.
pub(super) struct Quarantine {
    folder: TempDir,
}

impl Quarantine {
    /// Makes one inside of `repo`, which nobody else may be fetching into, with the same refs: a server is
    /// told what we have. Removes those that were left by processes that died.
    pub(super) fn new(repo: &Repo) -> Result<Quarantine, GitError> {
        for entry in fs::read_dir(repo.path())?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(repo.path())?;
        let path = folder.path();
        lay_out(path)?;
        let objects = fs::canonicalize(repo.path().join("objects"))?;
        fs::write(path.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
        // The refs are what negotiation offers as "have", so only new commits are downloaded.
        fs::write(path.join("packed-refs"), refs(repo)?)?;
        let shallow = repo.path().join("shallow");
        if shallow.exists() {
            fs::copy(shallow, path.join("shallow"))?;
        }
        Ok(Quarantine { folder })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Moves its packs into `repo`: files with the names and of the kind that packs have, nothing else.
    pub(super) fn keep_packs(&self, repo: &Repo) -> Result<(), GitError> {
        let mut packs: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(self.path().join("objects/pack"))?.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|data| data.is_file());
            let is_index = name.to_str().is_some_and(is_index_of_a_pack);
            let has_pack = is_index && is_file(&path) && is_file(&path.with_extension("pack"));
            if has_pack && pack_matches_index(&path) {
                packs.push(path);
            }
        }
        for index in packs {
            // git finds packs by their indexes. Moving the index last makes the pack appear
            // complete.
            for path in [index.with_extension("pack"), index] {
                let name = path.file_name().unwrap_or_default();
                fs::rename(&path, repo.path().join("objects/pack").join(name))?;
            }
        }
        Ok(())
    }

    /// Makes its list of commits without parents that of `repo`.
    pub(super) fn keep_shallow(&self, repo: &Repo) -> Result<(), GitError> {
        let (fresh, ours) = (self.path().join("shallow"), repo.path().join("shallow"));
        let size = match fs::symlink_metadata(&fresh) {
            Ok(data) if data.is_file() => data.len(),
            _ => 0,
        };
        if size > MAX_SHALLOW {
            return Err(GitError::Unacceptable("the history ends in too many places".to_owned()));
        }
        if size == 0 {
            match fs::remove_file(&ours) {
                Err(err) if err.kind() != std::io::ErrorKind::NotFound => return Err(err.into()),
                Ok(()) | Err(_) => return Ok(()),
            }
        }
        let text = fs::read_to_string(&fresh)?;
        // The helper wrote this file, so only lines that are commit ids are taken from it.
        let ids = text.lines().filter(|line| git2::Oid::from_str(line).is_ok());
        let mut file = tempfile::NamedTempFile::new_in(repo.path())?;
        for id in ids {
            writeln!(file, "{id}")?;
        }
        file.persist(ours).map_err(|err| err.error)?;
        Ok(())
    }
}

fn is_index_of_a_pack(name: &str) -> bool {
    let id = name.strip_prefix("pack-").and_then(|rest| rest.strip_suffix(".idx"));
    id.is_some_and(|id| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// All refs, as git packs them.
fn refs(repo: &Repo) -> Result<String, GitError> {
    let git = repo.git()?;
    let mut text = String::new();
    for reference in git.references()? {
        let reference = reference?;
        if let (Ok(name), Some(oid)) = (reference.name(), reference.target()) {
            let _ = writeln!(text, "{oid} {name}");
        }
    }
    Ok(text)
}
