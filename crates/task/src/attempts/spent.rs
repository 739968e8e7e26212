//! What a run has used with all its attempts, as their journals have it.

use std::path::Path;

use super::super::folder::attempt_folders;
use patchwright_agent::budget;
use patchwright_agent::state::State;
use patchwright_base::error::Result;
use patchwright_journal as journal;
use patchwright_types::outcome::Spending;

/// By the journals in a run's folder: its own, and those of its attempts.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn spent(run: &Path) -> Result<Spending> {
    let mut spending = read(&run.join(journal::FILE))?;
    for attempt in attempt_folders(run) {
        budget::add(&mut spending, &used(&attempt)?);
    }
    Ok(spending)
}

/// By the journal of one attempt; nothing where it has not begun.
///
/// # Errors
/// When it cannot be read.
pub(super) fn used(attempt: &Path) -> Result<Spending> {
    let journal = attempt.join(journal::FILE);
    if journal.exists() { read(&journal) } else { Ok(Spending::default()) }
}

fn read(journal: &Path) -> Result<Spending> {
    let mut state = State::default();
    for line in journal::read(journal)? {
        state.apply(&line.entry);
    }
    Ok(state.total())
}
