//! A tree with one file of ours in it, for changes that no sandbox has made.

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, ObjectType};

use super::names::path_problem;
use super::repo::Repo;
use super::{GitError, Oid, display_path};

/// The tree of `commit` with an ordinary file of this content at `path`; what stood there is replaced. The same
/// arguments give the same tree.
///
/// # Errors
/// When git does not allow the path, or a part of it is a file and not a folder.
pub fn with_file(repo: &Repo, commit: Oid, path: &str, content: &[u8]) -> Result<Oid, GitError> {
    if let Some(why) = path_problem(path) {
        return Err(GitError::Unacceptable(format!("`{}` {why}", display_path(path))));
    }
    let git = repo.git()?;
    let base = git.find_commit(commit.0)?.tree()?;
    let mut folder = String::new();
    for part in path.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev() {
        folder.push_str(part);
        // A link there would be replaced by a folder, and what it leads to would be gone.
        let entry = base.get_path(std::path::Path::new(&folder));
        if entry.is_ok_and(|entry| entry.kind() != Some(ObjectType::Tree)) {
            return Err(GitError::Unacceptable(format!(
                "`{}` is not a folder",
                display_path(&folder)
            )));
        }
        folder.push('/');
    }
    let blob = git.blob(content)?;
    let mut update = TreeUpdateBuilder::new();
    update.upsert(path, blob, FileMode::Blob);
    Ok(Oid(update.create_updated(&git, &base)?))
}
