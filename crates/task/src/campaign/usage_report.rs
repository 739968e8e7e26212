//! How much of a run's cost the store has counted already. A run may be tried several times, and a process
//! may die right before or after it recorded a result; each dollar is counted once all the same.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::folder::RunFolder;
use patchwright_types::outcome::Spending;

const FILE: &str = "accounted.json";

/// What was last reported to the store, and how to see whether the report arrived.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct UsageReport {
    /// What the store had counted before that report.
    before: ReportedUsage,
    /// What it has counted if the report arrived.
    after: ReportedUsage,
    /// Tokens that the store has for the target if the report arrived.
    target_tokens: i64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct ReportedUsage {
    cost_usd: f64,
    tokens: i64,
}

/// The last report. When it cannot be read all of the run counts, some of it perhaps twice: a budget may end
/// early, but is never exceeded.
fn read(path: &Path) -> UsageReport {
    let text = match fs_err::read(path) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return UsageReport::default(),
        text => text.map_err(anyhow::Error::from),
    };
    text.and_then(|text| Ok(serde_json::from_slice(&text)?)).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "what was accounted for cannot be read");
        UsageReport::default()
    })
}

/// The store, which has `known` tokens for the target, does not have what was reported to it.
pub(super) fn is_lost(folder: &Path, known: i64) -> bool {
    known < read(&folder.join(FILE)).target_tokens
}

/// The part of `spending` that the store, which has `known` tokens for the target, has not counted.
pub(super) fn unaccounted(folder: &RunFolder, spending: &Spending, known: i64) -> (f64, i64) {
    let book = read(&folder.path.join(FILE));
    let before = if known >= book.target_tokens { book.after } else { book.before };
    let tokens = i64::try_from(spending.usage.total()).unwrap_or(i64::MAX);
    let after = ReportedUsage { cost_usd: spending.cost_usd, tokens };
    let cost_usd = (after.cost_usd - before.cost_usd).max(0.0);
    let tokens = (after.tokens - before.tokens).max(0);
    let book = UsageReport { before, after, target_tokens: known.saturating_add(tokens) };
    if let Ok(text) = serde_json::to_vec(&book)
        && let Err(failure) = folder.write(FILE, &text)
    {
        tracing::warn!(%failure, "what was accounted for could not be written down");
    }
    (cost_usd, tokens)
}

#[cfg(test)]
mod tests {
    use crate::campaign::usage_report::{FILE, ReportedUsage, UsageReport, read};

    #[test]
    fn a_book_that_cannot_be_read_counts_everything_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let after = ReportedUsage { cost_usd: 2.5, tokens: 7 };
        let book = UsageReport { after, target_tokens: 7, ..UsageReport::default() };
        fs_err::write(&path, serde_json::to_vec(&book).unwrap()).unwrap();
        assert_eq!(read(&path).after.tokens, 7);
        for damaged in ["", "{", "[]", r#"{"before": 1}"#] {
            fs_err::write(&path, damaged).unwrap();
            assert_eq!((read(&path).after.tokens, read(&path).target_tokens), (0, 0), "{damaged}");
        }
    }
}
