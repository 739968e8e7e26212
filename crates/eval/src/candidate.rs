//! What people did between two commits, as far as it can be a task: code and its tests, as two patches.

use patchwright_base::error::{Failure, Result};
use patchwright_git::clone::Repo;
use patchwright_git::diff::{DiffSpec, tree_of, unified};
use patchwright_git::tree::{self, FileChange};
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_policy::content::is_test;

use crate::statement::Statement;

/// Files that nothing is executed of.
const NO_CODE: &[&str] = &[".md", ".rst", ".txt", ".adoc", ".png", ".svg", ".gif", ".jpg", ".lock"];
/// Bytes of one of the two patches.
const MAX_PATCH: usize = 1 << 20;

/// What may become an instance.
pub(crate) struct Candidate {
    pub before: Oid,
    pub after: Oid,
    /// For people.
    pub title: String,
    /// The pull request that it belongs to.
    pub number: Option<u64>,
    pub task: Task,
    /// The code, and its tests.
    pub patch: String,
    pub tests: String,
}

/// Where the words of a task come from.
pub(crate) enum Task {
    /// To be looked up by the message of the commit.
    Message(String),
    /// A review.
    Known(Statement),
}

/// The patches between two commits.
pub(crate) struct Patches {
    pub code: String,
    pub tests: String,
}

/// The patches from one commit to another; why there are none, where that is no task for a model.
///
/// # Errors
/// When a commit cannot be read.
pub(crate) async fn patches(
    repo: &Repo,
    from: Oid,
    to: Oid,
    max_lines: u64,
) -> Result<std::result::Result<Patches, String>> {
    let repo = repo.clone();
    let found = blocking(move || {
        let Ok(before) = tree_of(&repo, from) else {
            return Ok(Err("its parent is not here".to_owned()));
        };
        let after = commit::read(&repo, to)?.tree;
        let change = tree::between(&repo, from, after)?;
        let (tests, code): (Vec<&FileChange>, Vec<&FileChange>) =
            change.files.iter().partition(|file| is_test(&file.path.to_lowercase()));
        if tests.iter().all(|file| file.new.is_none()) {
            return Ok(Err("it adds no test and changes none".to_owned()));
        }
        if !code.iter().any(|file| is_code(&file.path)) {
            return Ok(Err("it changes no code".to_owned()));
        }
        let lines = change.files.iter().map(|file| file.added_lines + file.removed_lines);
        let lines: u64 = lines.sum();
        if lines > max_lines {
            return Ok(Err(format!("it changes {lines} lines")));
        }
        let patch = |files: &[&FileChange]| -> Result<Option<String>, GitError> {
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            let spec = DiffSpec { paths: &paths, max_bytes: MAX_PATCH };
            let patch = unified(&repo, before, after, spec)?;
            Ok(String::from_utf8(patch.bytes).ok().filter(|_| patch.left_out.is_empty()))
        };
        let (Some(code), Some(tests)) = (patch(&code)?, patch(&tests)?) else {
            return Ok(Err("its difference is too large, or not UTF-8".to_owned()));
        };
        Ok(Ok(Patches { code, tests }))
    });
    found.await.map_err(|err| {
        Failure::machine(format!("the commit {} cannot be read", to.short())).caused_by(err)
    })
}

fn is_code(path: &str) -> bool {
    let path = path.to_lowercase();
    !path.starts_with(".github/") && !NO_CODE.iter().any(|ending| path.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_workflows_are_no_code() {
        assert!(is_code("src/sum.py"));
        assert!(!is_code("README.md") && !is_code(".github/workflows/ci.yml"));
    }
}
