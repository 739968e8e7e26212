//! Of too many findings, which are remembered. Of an open one at least its fingerprint is, so that it is not taken for
//! settled, and not posted as if it were new when it is found again.

use super::finding::Priority;
use super::incremental::{FindingState, KnownFinding};

/// Findings that are remembered; of more the oldest fixed ones are forgotten first.
pub(super) const MAX_KNOWN: usize = 500;
/// Fingerprints that are remembered of those beyond.
pub const MOST_FORGOTTEN: usize = 1000;

/// The oldest fixed ones go first, then the least important of what is open, and what was dismissed
/// last: a new finding never pushes out a graver one. Returns what is left, and the fingerprints of what was open, with
/// those that were `forgotten` before and are not among what is left.
pub(super) fn bounded(
    mut findings: Vec<KnownFinding>,
    forgotten: impl Iterator<Item = String>,
) -> (Vec<KnownFinding>, Vec<String>) {
    let mut gone = Vec::new();
    while findings.len() > MAX_KNOWN {
        let last_of = |fate: FindingState| findings.iter().rposition(|one| one.fate == fate);
        let open = findings
            .iter()
            .enumerate()
            .filter(|(_, one)| is_open(one) && one.priority > Priority::P0);
        let least = open.max_by_key(|(_, one)| (one.priority, one.fate == FindingState::New));
        let victim = last_of(FindingState::Fixed)
            .or(least.map(|(at, _)| at))
            .or_else(|| last_of(FindingState::Dismissed))
            .unwrap_or(findings.len() - 1);
        gone.push(findings.remove(victim));
    }
    let gone = gone.iter().filter(|one| is_open(one)).map(|one| one.fingerprint.clone());
    let forgotten = and_forgotten(&findings, forgotten.chain(gone));
    (findings, forgotten)
}

/// Those of `forgotten` that are none of the findings, each once, as many as are remembered.
pub fn and_forgotten(
    findings: &[KnownFinding],
    forgotten: impl Iterator<Item = String>,
) -> Vec<String> {
    let mut known: std::collections::HashSet<String> =
        findings.iter().map(|one| one.fingerprint.clone()).collect();
    forgotten.filter(|print| known.insert(print.clone())).take(MOST_FORGOTTEN).collect()
}

/// It is neither fixed nor dismissed.
pub fn is_open(one: &KnownFinding) -> bool {
    matches!(one.fate, FindingState::New | FindingState::Still)
}
