//! Runs of campaigns whose result is in the store. They have ended; for a while they are kept so that their result can
//! be taken once more: a database may fail over to a copy that lacks what happened last, and what it has lost need not
//! be paid for again. On another machine, or later, it is.

use std::path::Path;
use std::time::Duration;

use fs_err as fs;

use super::{RunFolder, create_private, drop_checkpoints, key, unfinished, write_atomically};
use crate::world::World;
use patchwright_base::error::Result;
use patchwright_journal as journal;
use patchwright_types::task::Task;

/// Where the pointers to these runs are, in the state folder.
pub(crate) const FOLDER: &str = "settled";

/// How long after its end a run's result can be taken again.
pub(crate) const KEPT: Duration = Duration::from_hours(1);

impl RunFolder {
    /// The run's result is stored. As [`RunFolder::finish`], but the result can be taken again.
    ///
    /// # Errors
    /// When the state folder cannot be written.
    pub fn settle(&self, world: &World) -> Result<()> {
        if let Some(name) = self.pointer.as_deref().and_then(Path::file_name) {
            let folder = world.state.join(FOLDER);
            create_private(&folder)?;
            write_atomically(&folder.join(name), self.id.as_bytes())?;
        } else {
            let _ = drop_checkpoints(&self.path);
        }
        if let Some(pointer) = &self.pointer {
            // A pointer that stays only leads to a finished journal, which `begin` ignores.
            let _ = fs::remove_file(pointer);
        }
        Ok(())
    }

    /// Before a task is begun whose last run has settled: makes that run one that was killed right before its end, if
    /// the store has lost its result (`is_lost` tells it by the run's folder). Otherwise somebody wants a new run.
    /// Returns the run whose result is taken again.
    ///
    /// # Errors
    /// When the state folder cannot be read or written.
    pub fn recover(
        world: &World,
        task: &Task,
        is_lost: impl FnOnce(&Path) -> bool,
    ) -> Result<Option<String>> {
        let key = key(task, None);
        let pointer = world.state.join(FOLDER).join(&key);
        let Some((id, path)) = unfinished(world, Some(&pointer), None)? else { return Ok(None) };
        let is_there = path.join(journal::FILE).exists();
        let recovered = if is_there && is_lost(&path) {
            journal::reopen(&path)?;
            let folder = world.state.join("unfinished");
            create_private(&folder)?;
            write_atomically(&folder.join(key), id.as_bytes())?;
            Some(id)
        } else {
            let _ = drop_checkpoints(&path);
            None
        };
        // What stays is removed when it is old.
        let _ = fs::remove_file(&pointer);
        Ok(recovered)
    }
}

/// Forgets a settled run: its result cannot be taken again from now on.
pub(crate) fn forget(state: &Path, pointer: &Path) -> std::io::Result<()> {
    let id = fs::read_to_string(pointer).unwrap_or_default();
    if !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        let _ = drop_checkpoints(&state.join("runs").join(id));
    }
    fs::remove_file(pointer)
}
