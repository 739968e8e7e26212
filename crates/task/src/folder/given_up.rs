//! The runs that were not resumed: a run that was begun in the place of another one names it in its folder, so that what
//! that one has cost is known wherever the new one is counted, however often that is resumed.

use std::path::Path;

use fs_err as fs;

use crate::attempts;
use patchwright_base::error::Result;
use patchwright_types::outcome::Spending;

/// Holds the id of the run that was not resumed.
pub(super) const FILE: &str = "instead-of.txt";
/// Runs that are followed back.
const MOST: usize = 100;

/// What the runs have used whose place the run in this folder has taken, the earliest included.
///
/// # Errors
/// When a journal cannot be read.
pub(crate) fn spent_before(folder: &Path) -> Result<Vec<Spending>> {
    let (mut all, mut at) = (Vec::new(), folder.to_path_buf());
    while all.len() < MOST
        && let Ok(run) = fs::read_to_string(at.join(FILE))
    {
        at.set_file_name(run.trim());
        // It may have been removed meanwhile.
        if !at.is_dir() {
            break;
        }
        all.push(attempts::spent(&at)?);
    }
    Ok(all)
}
