//! The places in a file that have the code of findings, and which of the findings still have one.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::finding::Priority;
use super::incremental::{CodeLocation, CurrentPullRequest, FindingState, KnownFinding};
use super::threads::FindingThreads;

/// How often the code of findings occurs, shared among the findings about the same code: when one of two
/// occurrences was repaired, one finding stays open.
pub(super) struct CodeOccurrences<'a> {
    now: &'a CurrentPullRequest<'a>,
    /// What of each code is open: which place, and whether that finding stands.
    taken: HashMap<(String, String, CodeLocation), BTreeMap<usize, OpenPlace>>,
    /// How many findings about it are dismissed.
    dismissed: HashMap<(String, String, CodeLocation), usize>,
}

/// One of the places that have the same code.
#[derive(Clone, Copy)]
struct OpenPlace {
    stands: bool,
    /// The forge says that its lines have changed, for each of its findings.
    is_outdated: bool,
    /// Of its gravest finding.
    priority: Priority,
    /// How often the code stood there at the last look.
    times: usize,
}

impl<'a> CodeOccurrences<'a> {
    pub(super) fn count(
        known: &[KnownFinding],
        found: &HashSet<usize>,
        seen: &FindingThreads,
        now: &'a CurrentPullRequest<'a>,
    ) -> CodeOccurrences<'a> {
        let mut open: HashMap<_, BTreeMap<usize, OpenPlace>> = HashMap::new();
        let mut dismissed: HashMap<_, usize> = HashMap::new();
        for (at, one) in known.iter().enumerate() {
            if matches!(one.fate, FindingState::New | FindingState::Still) {
                let is_outdated = seen.is_outdated(&one.fingerprint);
                let (stands, priority, times) = (false, one.priority, one.times);
                let new = OpenPlace { stands, is_outdated, priority, times };
                let place = open.entry(code_of(one)).or_default().entry(one.nth).or_insert(new);
                place.stands |= found.contains(&at);
                place.is_outdated &= is_outdated;
                place.priority = place.priority.min(one.priority);
                place.times = place.times.max(one.times);
            } else if one.fate == FindingState::Dismissed {
                *dismissed.entry(code_of(one)).or_default() += 1;
            }
        }
        let mut places = CodeOccurrences { now, taken: open, dismissed };
        for one in known.iter().filter(|one| one.fate == FindingState::Still) {
            places.share(one);
        }
        places
    }

    /// Gives the places that there are to those who were found again, then to those whose lines have not changed for all
    /// that the forge says, the gravest first. The code may always have stood elsewhere in the file: where it stands less
    /// often than at the last look, a place whose lines have changed is one of those that went.
    fn share(&mut self, one: &KnownFinding) {
        let times = (self.now.times)(one);
        let Some(open) = self.taken.get_mut(&code_of(one)) else { return };
        let before = open.values().map(|place| place.times).max().unwrap_or_default();
        let found = open.values().filter(|place| place.stands).count();
        let mut others: Vec<&mut OpenPlace> =
            open.values_mut().filter(|place| !place.stands).collect();
        let outdated = others.iter().filter(|place| place.is_outdated).count();
        let gone = times.map_or(0, |times| before.saturating_sub(times)).min(outdated);
        let left = times.unwrap_or(usize::MAX).saturating_sub(found).min(others.len() - gone);
        others.sort_by_key(|place| (place.is_outdated, place.priority));
        for place in others.into_iter().take(left) {
            place.stands = true;
        }
    }

    /// The code of an open finding that was not reported again is still there, as far as is known.
    pub(super) fn stands(&self, one: &KnownFinding) -> bool {
        let is_out_of_sight = match one.code {
            CodeLocation::InHead | CodeLocation::Deleted => false,
            CodeLocation::Nowhere => (self.now.times)(one) != Some(0),
            CodeLocation::NoFile => true,
        };
        if is_out_of_sight {
            return true;
        }
        let place = self.taken.get(&code_of(one)).and_then(|open| open.get(&one.nth));
        place.is_none_or(|place| place.stands) || !(self.now.reread)(&one.path)
    }

    /// The code of a fixed finding occurs where no open or dismissed finding claims it.
    pub(super) fn is_back(&mut self, one: &KnownFinding) -> bool {
        if matches!(one.code, CodeLocation::Nowhere | CodeLocation::NoFile) {
            return false;
        }
        // The suggestion may hold the code, and whoever took it may change it later.
        if one.suggestion.as_ref().is_some_and(|suggestion| suggestion.is_taken) {
            return (self.now.suggested)(one).is_some_and(|counts| counts.originals > 0);
        }
        let open = self.taken.entry(code_of(one)).or_default();
        let dismissed = self.dismissed.get(&code_of(one)).copied().unwrap_or_default();
        let is_back = (self.now.times)(one).is_some_and(|times| times > open.len() + dismissed);
        if is_back {
            let nth = open.keys().next_back().map_or(0, |last| last.saturating_add(1));
            let (stands, is_outdated, priority, times) = (true, false, one.priority, 0);
            open.insert(nth, OpenPlace { stands, is_outdated, priority, times });
        }
        is_back
    }
}

fn code_of(one: &KnownFinding) -> (String, String, CodeLocation) {
    (one.path.clone(), one.sketch.clone(), one.code)
}
