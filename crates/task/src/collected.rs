//! The change that came out of the sandbox, kept in the run's folder: a run that is killed after that asks no model
//! again.

use super::run::Run;
use super::workspace::Workspace;
use patchwright_base::error::{Failure, Result};
use patchwright_git::GitError;
use patchwright_git::diff::{self, DiffSpec};
use patchwright_git::tree::Change;
use patchwright_journal::Entry;

/// The collected change, for a run that is resumed after a crash. The objects are in the mirror.
pub(super) const FILE: &str = "change.json";

/// The change that a killed run had collected, as its folder has it.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read(run: &Run<'_>) -> anyhow::Result<Option<Change>> {
    let text = fs_err::read_to_string(run.folder.path.join(FILE))?;
    Ok(serde_json::from_str(&text)?)
}

/// Reads all of the change that a killed run had collected. The clone is a cache, and may be another one by now.
///
/// # Errors
/// What cannot be read of it.
pub(super) fn check(run: &Run<'_>, workspace: &Workspace) -> Result<(), GitError> {
    let Ok(Some(change)) = read(run) else { return Ok(()) };
    let from = diff::tree_of(&workspace.repo, change.base)?;
    diff::unified(&workspace.repo, from, change.tree, DiffSpec::all()).map(drop)
}

/// Records the collected change in the run's folder and journal; `None` when nothing was changed.
///
/// # Errors
/// When it cannot be written.
pub(super) fn remember(run: &Run<'_>, change: Option<&Change>) -> Result<()> {
    let json = serde_json::to_vec(&change)
        .map_err(|err| Failure::internal("the change cannot be written down").caused_by(err))?;
    run.folder.write(FILE, &json)?;
    run.journal(&Entry::Collected {
        tree: change.map(|change| change.tree.to_string()).unwrap_or_default(),
        files: change.map_or(0, |change| change.files.len()),
    })
}

/// There is no such file.
pub(super) fn is_missing(err: &anyhow::Error) -> bool {
    let err = err.downcast_ref::<std::io::Error>();
    err.is_some_and(|err| err.kind() == std::io::ErrorKind::NotFound)
}
