//! The change that came out of the sandbox, kept in the run's folder: a run that is killed after that asks no model
//! again.

use std::collections::BTreeSet;

use super::agent_phase::Phase;
use super::checkpoint;
use super::run::Run;
use super::workspace::{self, Workspace};
use patchwright_agent::checkpoints;
use patchwright_base::error::{Failure, Result};
use patchwright_git::checkpoint::Store;
use patchwright_git::diff::{self, DiffSpec};
use patchwright_git::tree::{self, Change};
use patchwright_git::{GitError, Oid, blocking, display_path};
use patchwright_journal::{self as journal, Entry, NotRecorded};

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

/// Records the collected change in the run's folder and journal, with what its sandbox had `enforced`; `None` when nothing
/// was changed.
///
/// # Errors
/// When it cannot be written.
pub(super) fn remember(run: &Run<'_>, change: Option<&Change>, enforced: &[String]) -> Result<()> {
    let json = serde_json::to_vec(&change)
        .map_err(|err| Failure::internal("the change cannot be written down").caused_by(err))?;
    run.folder.write(FILE, &json)?;
    run.journal(&Entry::Collected {
        tree: change.map(|change| change.tree.to_string()).unwrap_or_default(),
        files: change.map_or(0, |change| change.files.len()),
        enforced: enforced.to_vec(),
    })
}

/// The change as the newest checkpoint has it that can be read, and where that was made, to go behind `as it was`.
pub(super) async fn of_checkpoint(phase: &Phase<'_>) -> Option<(Change, String)> {
    let (run, workspace) = (phase.run, phase.workspace);
    let base = workspace.base_tree().ok()?;
    let (lines, _) = journal::read_until_damage(run.folder.journal.path());
    let folder = run.folder.path.join(checkpoint::FOLDER);
    for found in checkpoints::latest_first(&lines) {
        let Ok(tree) = found.tree.parse::<Oid>() else { continue };
        let (folder, workspace) = (folder.clone(), workspace.clone());
        let made = blocking(move || {
            let changed = Store::open(&folder, &workspace.repo)?.changed(base, tree)?;
            tree::build_of(&workspace.repo, workspace.base, workspace.seen(), &changed)
        });
        match made.await {
            Ok(mut change) => {
                add_not_recorded(&mut change, found.not_recorded);
                return Some((change, found.place()));
            }
            Err(err) => {
                let place = found.place();
                run.environment.ui.warn(&format!("the checkpoint {place} cannot be read: {err}"));
            }
        }
    }
    None
}

/// Names what a resumed run had before it was interrupted and can be part of no change: it did not come into the fresh
/// sandbox, and would be lost without a word.
pub(super) fn add_from_before(run: &Run<'_>, change: &mut Change) {
    let (lines, _) = journal::read_until_damage(run.folder.journal.path());
    if let Some(restored) = checkpoints::restored(&lines) {
        add_not_recorded(change, restored.not_recorded);
    }
}

/// There are such files, or may be.
pub(super) fn has_lost(run: &Run<'_>) -> bool {
    let (lines, _) = journal::read_until_damage(run.folder.journal.path());
    let restored = checkpoints::restored(&lines);
    restored.is_some_and(|restored| !restored.not_recorded.refused.is_empty())
}

/// What the change has at these places now was made later.
fn add_not_recorded(change: &mut Change, not_recorded: &NotRecorded) {
    let files: BTreeSet<String> =
        change.files.iter().map(|file| display_path(&file.path)).collect();
    let is_known = |path: &String, change: &Change| {
        let mut refused = change.refused.iter();
        files.contains(path) || refused.any(|(it, _)| it == path) || change.ignored.contains(path)
    };
    for (path, reason) in &not_recorded.refused {
        if !is_known(path, change) {
            change.refused.push((path.clone(), reason.clone()));
        }
    }
    for path in &not_recorded.ignored {
        if !is_known(path, change) {
            change.ignored.push(path.clone());
        }
    }
    change.refused.sort();
}

/// The tree that would have been collected before the model had done anything, where it began with another one than that of
/// the base: less than that one, because not everything in it comes out of a sandbox. `None` when it was not recorded.
///
/// # Errors
/// When a checkpoint cannot be read.
pub(super) async fn at_start(run: &Run<'_>, workspace: &Workspace) -> Result<Option<Oid>> {
    let base = workspace.base_tree()?;
    let (lines, _) = journal::read_until_damage(run.folder.journal.path());
    let recorded = lines.iter().filter_map(|line| match &line.entry {
        Entry::Checkpoint { tree, after, .. } => Some(Ok((tree, after))),
        Entry::Unrecorded { .. } => Some(Err(())),
        _ => None,
    });
    // The first is the uploaded tree. Where nothing else came out of the sandbox there is no other before the first call.
    let tree = match recorded.into_iter().nth(1) {
        Some(Err(())) => return Ok(None),
        Some(Ok((tree, None))) => tree.parse().unwrap_or(base),
        Some(Ok((_, Some(_)))) | None => return Ok(Some(base)),
    };
    let (folder, workspace) = (run.folder.path.join(checkpoint::FOLDER), workspace.clone());
    let built = blocking(move || {
        let changed = Store::open(&folder, &workspace.repo)?.changed(base, tree)?;
        tree::build_of(&workspace.repo, workspace.base, workspace.seen(), &changed)
    });
    let built = built
        .await
        .map_err(|err| workspace::failure(err, "cannot read the tree that the agent began with"))?;
    Ok(Some(built.tree))
}

/// There is no such file.
pub(super) fn is_missing(err: &anyhow::Error) -> bool {
    let err = err.downcast_ref::<std::io::Error>();
    err.is_some_and(|err| err.kind() == std::io::ErrorKind::NotFound)
}
