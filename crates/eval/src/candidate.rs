//! What people did between two commits, as far as it can be a task: code and its tests, as two patches.

use patchwright_base::error::{Failure, Result};
use patchwright_git::clone::Repo;
use patchwright_git::diff::{DiffSpec, tree_of, unified};
use patchwright_git::tree::{self, FileChange, Mode};
use patchwright_git::{GitError, Oid, blocking, commit};
use patchwright_policy::content::is_test;

use crate::collection::Refusal;
use crate::statement::{Message, Statement};

/// Files that nothing is executed of.
const NO_CODE: &[&str] = &[".md", ".rst", ".txt", ".adoc", ".png", ".svg", ".gif", ".jpg", ".lock"];
/// Folders of what tests read.
const TEST_DATA: &[&str] = &[
    "testdata",
    "test_data",
    "test-data",
    "fixtures",
    "__fixtures__",
    "__snapshots__",
    "__mocks__",
];
/// Files that tests expect, and tests of Perl.
const TEST_ENDINGS: &[&str] = &[".snap", ".golden", ".t"];
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
    Message(Message),
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
) -> Result<std::result::Result<Patches, Refusal>> {
    let repo = repo.clone();
    let found = blocking(move || {
        let refused = |why: &str| Ok(Err(Refusal::Change(why.to_owned())));
        let Ok(before) = tree_of(&repo, from) else {
            return refused("its parent is not here");
        };
        let after = commit::read(&repo, to)?.tree;
        let change = tree::between(&repo, from, after)?;
        let (tests, code): (Vec<&FileChange>, Vec<&FileChange>) =
            change.files.iter().partition(|file| is_of_tests(&file.path));
        if tests.iter().all(|file| file.new.is_none()) {
            return refused("it adds no test and changes none");
        }
        if !code.iter().any(|file| is_code(&file.path)) {
            return refused("it changes no code");
        }
        let modes = change.files.iter().flat_map(|file| [&file.old, &file.new]).flatten();
        if modes.map(|entry| entry.mode).any(|mode| mode == Mode::Gitlink) {
            return refused("it changes a submodule");
        }
        let lines = change.files.iter().map(|file| file.added_lines + file.removed_lines);
        let lines: u64 = lines.sum();
        if lines > max_lines {
            return refused(&format!("it changes {lines} lines"));
        }
        Ok(match (patch(&repo, before, after, &code)?, patch(&repo, before, after, &tests)?) {
            (Ok(code), Ok(tests)) => Ok(Patches { code, tests }),
            (Err(why), _) | (_, Err(why)) => Err(Refusal::Change(why.to_owned())),
        })
    });
    found.await.map_err(|err| {
        Failure::machine(format!("the commit {} cannot be read", to.short())).caused_by(err)
    })
}

/// The difference in these files; why it can be no field of an instance.
fn patch(
    repo: &Repo,
    before: Oid,
    after: Oid,
    files: &[&FileChange],
) -> Result<std::result::Result<String, &'static str>, GitError> {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let spec = DiffSpec { paths: &paths, max_bytes: MAX_PATCH };
    let patch = unified(repo, before, after, spec)?;
    if !patch.left_out.is_empty() {
        return Ok(Err("its difference is too large"));
    }
    Ok(String::from_utf8(patch.bytes).map_err(|_| "it changes text that is not UTF-8"))
}

/// A test, or what tests need and nobody can guess: data that they read, what they expect, how they are set up.
pub(crate) fn is_of_tests(path: &str) -> bool {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let is_in_data = path.split('/').rev().skip(1).any(|folder| TEST_DATA.contains(&folder));
    let is_data = name == "conftest.py" || TEST_ENDINGS.iter().any(|it| name.ends_with(it));
    is_test(&path) || is_in_data || is_data || path.starts_with("t/")
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

    #[test]
    fn what_tests_need_belongs_to_them() {
        for path in [
            "sum_test.go",
            "testdata/sum.golden",
            "src/fixtures/one.json",
            "src/sum/__snapshots__/sum.js.snap",
            "src/snapshots/sum__one.snap",
            "conftest.py",
            "t/basic.t",
            "t/lib/Helper.pm",
        ] {
            assert!(is_of_tests(path), "{path}");
        }
        for path in ["src/sum.py", "t.py", "src/t/sum.c", "testdata.go", "src/golden.py"] {
            assert!(!is_of_tests(path), "{path}");
        }
    }
}
