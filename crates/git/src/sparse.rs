//! A commit as a sparse checkout in git's cone mode has it: some folders whole, and of the folders on the way to them the
//! files that lie there. What is left out is in no tree here, so nothing that reads this commit can meet it.

use std::collections::BTreeMap;

use git2::{Repository, Signature, Tree};

use super::names::path_problem;
use super::repo::Repo;
use super::{GitError, Oid};

/// Folders that are there whatever is asked for: what decides about a run lies in them.
const ALWAYS: [&str; 1] = [".github"];
/// Folders that can be asked for.
pub const MOST: usize = 200;

/// A folder, and what is wanted of it.
#[derive(Default)]
struct Cone {
    whole: bool,
    inside: BTreeMap<String, Cone>,
}

impl Cone {
    fn of(folders: &[String]) -> Result<Cone, GitError> {
        let mut root = Cone::default();
        for folder in folders.iter().map(String::as_str).chain(ALWAYS) {
            let path = folder.trim_matches('/');
            if let Some(problem) = path_problem(path) {
                return Err(GitError::Unacceptable(format!("`{folder}` has {problem}")));
            }
            let mut at = &mut root;
            for name in path.split('/') {
                at = at.inside.entry(name.to_owned()).or_default();
            }
            at.whole = true;
        }
        Ok(root)
    }
}

/// The commit of these folders of a commit, without parents. The same ones give the same commit.
///
/// # Errors
/// When a folder cannot be one, or the commit cannot be read.
pub fn commit_of(repo: &Repo, commit: Oid, folders: &[String]) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let cone = Cone::of(folders)?;
    let original = git.find_commit(commit.0)?;
    let tree = git.find_tree(restricted(&git, &original.tree()?, &cone)?)?;
    let who = Signature::new("Patchwright", "patchwright@localhost", &original.time())?;
    let message = original.summary_bytes().map(String::from_utf8_lossy).unwrap_or_default();
    let message = format!("{message}\n\nA part of {commit}\n");
    Ok(Oid(git.commit(None, &who, &who, &message, &tree, &[])?))
}

/// Those of the folders that the commit has not.
///
/// # Errors
/// When the commit cannot be read.
pub fn absent(repo: &Repo, commit: Oid, folders: &[String]) -> Result<Vec<String>, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let is_absent = |folder: &&String| {
        let entry = tree.get_path(std::path::Path::new(folder.trim_matches('/')));
        entry.map_or(true, |entry| entry.filemode() != 0o040_000)
    };
    Ok(folders.iter().filter(is_absent).cloned().collect())
}

fn restricted(git: &Repository, tree: &Tree<'_>, cone: &Cone) -> Result<git2::Oid, GitError> {
    // What stays is copied, because what is inserted has to be here, and of a partial clone the files are not yet.
    let mut builder = git.treebuilder(Some(tree))?;
    for entry in tree.iter().filter(|entry| entry.filemode() == 0o040_000) {
        let name = entry.name_bytes();
        let inner = std::str::from_utf8(name).ok().and_then(|name| cone.inside.get(name));
        match inner {
            Some(inner) if inner.whole => {}
            Some(inner) => {
                let part = restricted(git, &git.find_tree(entry.id())?, inner)?;
                // git has no empty folders.
                if git.find_tree(part)?.is_empty() {
                    builder.remove(name)?;
                } else {
                    builder.insert(name, part, 0o040_000)?;
                }
            }
            None => builder.remove(name)?,
        }
    }
    Ok(builder.write()?)
}
