//! Submodules that a pull request moves. The code that it brings in with that is in another repository and in no
//! difference: nobody reads it in a review, which says so, and names what it does not read.

use std::fmt::Write as _;

use patchwright_base::text;
use patchwright_git::clone::Repo;
use patchwright_git::{GitError, Oid, modules};

/// Most of them that a model is told about.
const MAX_TOLD: usize = 50;
/// Most bytes of an address.
const MAX_ADDRESS: usize = 300;

/// A submodule that stands for another commit than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedSubmodule {
    pub path: String,
    /// The commits that it stood for and stands for now; `None` where it is no submodule on that side.
    old: Option<Oid>,
    new: Option<Oid>,
    /// As the base writes it: the head's may lead anywhere.
    address: Option<String>,
}

/// Those among `paths` that are submodules of the base or the head.
///
/// # Errors
/// When one of the two commits cannot be read.
pub(super) fn moved(
    repo: &Repo,
    (base, head): (Oid, Oid),
    paths: &[String],
) -> Result<Vec<MovedSubmodule>, GitError> {
    let mut found = Vec::new();
    for path in paths {
        let (old, new) =
            (modules::commit_at(repo, base, path)?, modules::commit_at(repo, head, path)?);
        if old.is_some() || new.is_some() {
            found.push(MovedSubmodule { path: path.clone(), old, new, address: None });
        }
    }
    if !found.is_empty() {
        // A file of a stranger's that is too large, or none at all, names no address.
        for known in modules::of_commit(repo, base).unwrap_or_default() {
            if let Some(module) = found.iter_mut().find(|module| module.path == known.path) {
                module.address = Some(known.url);
            }
        }
    }
    Ok(found)
}

/// One a line for the model: path, address, and the commits from and to.
pub(super) fn told(moved: &[MovedSubmodule]) -> String {
    let commit = |at: Option<Oid>| at.map_or_else(|| "none".to_owned(), |at| at.to_string());
    let mut out = String::new();
    for module in moved.iter().take(MAX_TOLD) {
        let address = module.address.as_deref().unwrap_or("an address that the base does not name");
        let address = text::cut(&text::line(address), MAX_ADDRESS);
        let (path, from, to) = (text::line(&module.path), commit(module.old), commit(module.new));
        let _ = writeln!(out, "{path} ({address}): {from}..{to}");
    }
    if moved.len() > MAX_TOLD {
        let _ = writeln!(out, "[{} more]", moved.len() - MAX_TOLD);
    }
    out
}
