//! Which journal is replayed of a run with several attempts.

use std::path::{Path, PathBuf};

use super::super::folder::attempt_folder;
use patchwright_base::error::{Failure, Result};
use patchwright_journal::{self as journal, Entry};

/// The journal of the attempt that was kept; of a run with one, and of an attempt, the journal itself.
///
/// # Errors
/// When nothing was chosen yet, or the journal cannot be read.
pub fn conversation(path: &Path) -> Result<PathBuf> {
    let lines = journal::read(path)?;
    let folder = path.parent().unwrap_or(path);
    let chosen = lines.iter().rev().find_map(|line| match &line.entry {
        Entry::Selected { attempts, .. } => Some(attempts.chosen),
        _ => None,
    });
    if let Some(chosen) = chosen {
        return Ok(attempt_folder(folder, chosen).join(journal::FILE));
    }
    let has_several = lines.iter().any(|line| matches!(line.entry, Entry::AttemptStarted { .. }));
    if !has_several {
        return Ok(path.to_owned());
    }
    let first = attempt_folder(folder, 1);
    Err(Failure::usage(format!(
        "`{}` cannot be replayed: it has several attempts, and none was chosen",
        path.display()
    ))
    .hint(format!("replay one of them, such as `{}`", first.display())))
}
