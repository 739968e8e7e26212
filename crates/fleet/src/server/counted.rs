//! What of a run's cost is in the sums already: a run that was given up with its delivery is resumed when that is delivered
//! again, and knows then what it has cost from its beginning.

use std::path::{Path, PathBuf};

use fs_err as fs;

use patchwright_task::folder::write_atomically;

/// In a run's folder: the dollars of it that are in the sums.
const FILE: &str = "counted-usd.txt";

/// What a run has cost since it was counted last; `cost_usd` is all of it.
pub(super) fn since_counted(state: &Path, run: Option<&str>, cost_usd: f64) -> f64 {
    let counted = run.and_then(|run| fs::read_to_string(file(state, run)).ok());
    let counted = counted.and_then(|text| text.trim().parse::<f64>().ok());
    counted.map_or(cost_usd, |counted| (cost_usd - counted).max(0.0))
}

/// All that a run has cost is in the sums.
pub(super) fn is_counted(state: &Path, run: Option<&str>, cost_usd: f64) {
    let Some(run) = run else { return };
    if let Err(failure) = write_atomically(&file(state, run), cost_usd.to_string().as_bytes()) {
        tracing::warn!(run, %failure, "what the run has cost may be counted again");
    }
}

fn file(state: &Path, run: &str) -> PathBuf {
    state.join("runs").join(run).join(FILE)
}
