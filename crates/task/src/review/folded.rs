//! What is known of earlier findings before the reviewer is asked: which of them stand without him, and those that have no
//! thread, because they are folded in a review's body: minor ones, and those that stand on no line of the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::code_search::Head;
use super::earlier::EarlierReviews;
use super::plan::Plan;
use super::settling;
use crate::context::answers::{self, CodeNow};
use patchwright_review::finding::Priority;
use patchwright_review::incremental::{CodeLocation, FindingState, KnownFinding};

/// Findings that a model is told of.
const MOST: usize = 100;

/// What a model is told of earlier findings.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownBefore {
    /// Those without a thread, a line each.
    pub(super) folded: String,
    /// Fingerprints of those whose code was found nowhere: the model is asked to report them again while they last.
    pub(super) unplaced: BTreeSet<String>,
    /// What became of the code of each, by fingerprint.
    pub(super) code: BTreeMap<String, CodeNow>,
    /// How many are open whatever the model says.
    pub(super) open: usize,
}

impl KnownBefore {
    /// The gravest first; nothing where no model is asked.
    pub(super) fn of(earlier: &EarlierReviews, plan: &Plan, head: Head<'_>) -> KnownBefore {
        let mut told = KnownBefore::default();
        if plan.scope.order.is_empty() {
            return told;
        }
        let mut findings = settling::ahead(earlier, plan, head);
        findings.sort_by_key(|known| known.priority);
        told.open = patchwright_report::review::open(&findings).count();
        let code = findings.iter().filter_map(|it| Some((it.fingerprint.clone(), code(it)?)));
        told.code = code.collect();
        let was_open: BTreeSet<&str> = patchwright_report::review::open(&earlier.memory.findings)
            .map(|known| known.fingerprint.as_str())
            .collect();
        let with_threads: BTreeSet<&str> =
            earlier.ours().map(|(_, fingerprint)| fingerprint).collect();
        let folded: Vec<&KnownFinding> = findings
            .iter()
            .filter(|it| was_open.contains(it.fingerprint.as_str()))
            .filter(|it| !with_threads.contains(it.fingerprint.as_str()))
            .collect();
        for known in folded.iter().take(MOST) {
            told.add(known);
        }
        if let Some(left) = folded.len().checked_sub(MOST).filter(|left| *left > 0) {
            let _ = writeln!(told.folded, "{left} more findings were left out.");
        }
        told
    }

    fn add(&mut self, known: &KnownFinding) {
        let place = answers::place(&known.path, known.line);
        let mut states = vec!["open"];
        if known.code == CodeLocation::Nowhere && known.fate != FindingState::Fixed {
            self.unplaced.insert(known.fingerprint.clone());
            states.push("without a line");
        }
        states.extend(self.code.get(&known.fingerprint).map(CodeNow::words));
        states.push("folded in the review");
        let (priority, title, state) =
            (known.priority, answers::title(&known.title), states.join(", "));
        let _ = writeln!(self.folded, "Finding at {place} ({state}): {priority}: {title}");
    }
}

/// `None` where nothing can be looked for.
fn code(known: &KnownFinding) -> Option<CodeNow> {
    let is_found = known.times > 0;
    match known.fate {
        FindingState::Fixed => Some(CodeNow::Gone),
        FindingState::New | FindingState::Still | FindingState::Dismissed => {
            is_found.then(|| CodeNow::There { path: known.path.clone(), line: known.line })
        }
    }
}

/// Some of these keep a change from being merged, or should be fixed in it.
pub(super) fn is_grave(known: &[KnownFinding]) -> bool {
    patchwright_report::review::open(known).any(|known| known.priority <= Priority::P1)
}
