//! Open findings of earlier reviews that have no thread, because they are folded in a review's body: minor ones, and those
//! that stand on no line of the difference.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::code_search::{CodeSearch, Head};
use super::earlier::EarlierReviews;
use super::plan::Plan;
use crate::context::answers;
use patchwright_review::incremental::{CodeLocation, KnownFinding};

/// Findings that a model is told of.
const MOST: usize = 100;

/// What a model is told of them.
#[derive(Clone, Debug, Default)]
pub(super) struct FoldedFindings {
    /// A line each.
    pub(super) text: String,
    /// Fingerprints of those whose code was found nowhere: the model is asked to report them again while they last.
    pub(super) unplaced: BTreeSet<String>,
}

/// The gravest first; nothing where no model is asked.
pub(super) fn folded(earlier: &EarlierReviews, plan: &Plan, head: Head<'_>) -> FoldedFindings {
    let (standing, mut told) = (CodeSearch::new(head), FoldedFindings::default());
    if plan.scope.order.is_empty() {
        return told;
    }
    let with_threads: BTreeSet<&str> = earlier.ours().map(|(_, fingerprint)| fingerprint).collect();
    let open = patchwright_report::review::open(&earlier.memory.findings);
    let mut open: Vec<&KnownFinding> =
        open.filter(|known| !with_threads.contains(known.fingerprint.as_str())).collect();
    open.sort_by_key(|known| known.priority);
    for known in open.iter().take(MOST) {
        let path = plan.renamed.get(&known.path).unwrap_or(&known.path).clone();
        let known = KnownFinding { path, ..(*known).clone() };
        let place = answers::place(&known.path, standing.line(&known));
        let state = if known.code == CodeLocation::Nowhere {
            told.unplaced.insert(known.fingerprint.clone());
            "open, without a line, folded in the review"
        } else {
            "open, folded in the review"
        };
        let (priority, title) = (known.priority, answers::title(&known.title));
        let _ = writeln!(told.text, "Finding at {place} ({state}): {priority}: {title}");
    }
    if let Some(left) = open.len().checked_sub(MOST).filter(|left| *left > 0) {
        let _ = writeln!(told.text, "{left} more findings were left out.");
    }
    told
}
