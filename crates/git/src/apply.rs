//! A change into somebody's working folder, for `exec --apply`. The folder belongs to the person who
//! asked for it; if they edited one of the changed files since the base commit, nothing is written.

use std::path::Path;

use super::clone::Repo;
use super::tree::{self, Change, FileChange, Mode};
use patchwright_guest::patch::plan::FileOp;
use patchwright_guest::tools::root::Root;

/// Bytes of one file.
const CAP: usize = 100 << 20;

/// Writes all files of the change, or none.
pub fn to_working_folder(folder: &Path, repo: &Repo, change: &Change) -> anyhow::Result<()> {
    let root = Root::open(folder)?;
    let mut ops = Vec::new();
    for file in &change.files {
        check_untouched(&root, repo, file)?;
        // Every file is checked before the first one is written, so a refusal changes nothing.
        ops.push(op(repo, file)?);
    }
    root.commit(&ops)?;
    Ok(())
}

/// The folder has these files as the change leaves them.
pub fn is_in_working_folder(folder: &Path, repo: &Repo, files: &[FileChange]) -> bool {
    let Ok(root) = Root::open(folder) else { return false };
    files.iter().all(|file| {
        let now = root.read(&file.path, CAP as u64).ok();
        let then = file.new.as_ref().map(|entry| tree::read_blob(repo, entry.oid, CAP));
        match (now, then) {
            (Some(now), Some(Ok(then))) => now == then,
            (None, None) => true,
            _ => false,
        }
    })
}

/// The file is what it was in the base commit.
fn check_untouched(root: &Root, repo: &Repo, file: &FileChange) -> anyhow::Result<()> {
    let now = match root.read(&file.path, CAP as u64) {
        Ok(content) => Some(content),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
        Err(err) => return Err(anyhow::Error::new(err).context(format!("`{}`", file.path))),
    };
    let before = match &file.old {
        Some(entry) => Some(tree::read_blob(repo, entry.oid, CAP)?),
        None => None,
    };
    anyhow::ensure!(now == before, "`{}` was edited since the base commit", file.path);
    Ok(())
}

fn op(repo: &Repo, file: &FileChange) -> anyhow::Result<FileOp> {
    let path = file.path.clone();
    let Some(entry) = &file.new else { return Ok(FileOp::Remove { path }) };
    let mode = match entry.mode {
        Mode::File => 0o644,
        Mode::Executable => 0o755,
        Mode::Symlink | Mode::Gitlink => {
            anyhow::bail!("`{path}` is a link; apply `change.patch` with `git apply` instead")
        }
    };
    let content = tree::read_blob(repo, entry.oid, CAP)?;
    Ok(FileOp::Write { path, content, mode: Some(mode) })
}
