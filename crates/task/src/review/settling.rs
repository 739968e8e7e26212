//! What becomes of the findings of earlier reviews and of this one: what is known of them, compared with the commit.
//!
//! It is done twice: before the reviewer is asked, who is told what stands without him ([`ahead`]), and when he has ended.

use std::collections::BTreeMap;

use super::code_search::{CodeSearch, Head};
use super::earlier::EarlierReviews;
use super::plan::Plan;
use super::publish::HeadView;
use patchwright_review::anchor::Anchored;
use patchwright_review::incremental::{
    CurrentPullRequest, FindingState, KnownFinding, SettledFindings, settle,
};
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::{Reviewed, SkippedBecause};

/// Findings that are remembered together with those that are handed over.
const MOST_HANDED_OVER: usize = 300;

/// What becomes of all findings. A file counts as read again unless it was left out; a review that broke off read nothing
/// for certain.
pub(super) fn settled(
    earlier: &EarlierReviews,
    reviewed: &Reviewed,
    seen: HeadView<'_>,
) -> SettledFindings {
    let ended = match reviewed.conclusion {
        Conclusion::Done | Conclusion::NothingToDo | Conclusion::Partial | Conclusion::Budget => {
            true
        }
        Conclusion::NeedsInput
        | Conclusion::Refused
        | Conclusion::Interrupted
        | Conclusion::Provider
        | Conclusion::Sandbox => false,
    };
    let left_out = |path: &str| {
        let skipped = reviewed.coverage.skipped.iter();
        // Whether code stands in a lock file can be told without a reader.
        let needs_no_reader = [
            SkippedBecause::NotText,
            SkippedBecause::Submodule,
            SkippedBecause::ByPackage,
            SkippedBecause::LockFile,
        ];
        skipped.filter(|file| !needs_no_reader.contains(&file.why)).any(|file| file.path == path)
    };
    let is_over = |known: &KnownFinding| {
        reviewed.conclusion == Conclusion::Done
            && seen.unplaced.contains(&known.fingerprint)
            && seen.changed.contains(&known.path)
            && !left_out(&known.path)
    };
    let facts = Facts {
        head: seen.head,
        commit: &reviewed.head,
        renamed: seen.renamed,
        reread: &|path| ended && !left_out(path),
        is_over: &is_over,
        taken_back: &|path| seen.taken_back.contains(path),
    };
    let mut settled = compared(earlier, reviewed.findings.clone(), &facts);
    if seen.is_full && patchwright_report::review::is_whole(reviewed) {
        // It has the last word about what nobody could look for.
        let before = &earlier.memory.forgotten;
        settled.forgotten.retain(|print| !before.contains(print));
    }
    settled
}

/// What becomes of earlier findings when the reviewer reads all that he is to read and reports none of them again.
pub(super) fn ahead(earlier: &EarlierReviews, plan: &Plan, head: Head<'_>) -> Vec<KnownFinding> {
    let skipped = &plan.scope.skipped;
    let left_out = |path: &str| skipped.iter().any(|file| file.path == path);
    let facts = Facts {
        head,
        commit: &head.workspace.base.to_string(),
        renamed: &plan.renamed,
        reread: &|path| !left_out(path),
        is_over: &|_| false,
        taken_back: &|path| plan.taken_back.contains(path),
    };
    compared(earlier, Vec::new(), &facts).findings
}

/// What is known of the commit.
struct Facts<'a> {
    head: Head<'a>,
    commit: &'a str,
    /// See [`HeadView::renamed`].
    renamed: &'a BTreeMap<String, String>,
    reread: &'a dyn Fn(&str) -> bool,
    is_over: &'a dyn Fn(&KnownFinding) -> bool,
    taken_back: &'a dyn Fn(&str) -> bool,
}

fn compared(earlier: &EarlierReviews, found: Vec<Anchored>, facts: &Facts<'_>) -> SettledFindings {
    let standing = CodeSearch::new(facts.head);
    // A file that the pull request renames had another name when it was reported, perhaps.
    let files = &facts.head.diff.files;
    let is_taken = |path: &String| files.iter().any(|file| file.path == *path);
    let mut renamed: BTreeMap<String, String> = files
        .iter()
        .filter_map(|file| Some((file.old_path.clone()?, file.path.clone())))
        .filter(|(old, _)| !is_taken(old))
        .collect();
    renamed.extend(facts.renamed.iter().map(|(then, now)| (then.clone(), now.clone())));
    let now = CurrentPullRequest {
        head: facts.commit,
        reread: facts.reread,
        times: &|known| standing.times(known),
        suggest: &|found| standing.suggestion(found),
        suggested: &|known| standing.suggested(known),
        taken_back: facts.taken_back,
        is_over: facts.is_over,
        renamed: &renamed,
    };
    let mut settled = settle(&earlier.memory, &earlier.seen, found, &now);
    for known in settled.findings.iter_mut().filter(|known| known.fate != FindingState::Fixed) {
        known.line = standing.line(known);
    }
    settled
}

/// What was handed over can add findings. It clears none: whoever wrote it may have left out or made up
/// what he liked.
pub(super) fn only_added(earlier: &EarlierReviews, reviewed: &Reviewed) -> SettledFindings {
    let now = CurrentPullRequest {
        head: &reviewed.head,
        reread: &|_| false,
        times: &|_| None,
        suggest: &|_| None,
        suggested: &|_| None,
        is_over: &|_| false,
        taken_back: &|_| false,
        renamed: &BTreeMap::new(),
    };
    // Nor does it push real ones out of the memory.
    let open = patchwright_report::review::open(&earlier.memory.findings).count();
    let mut found = reviewed.findings.clone();
    found.sort_by_key(|found| found.finding.priority);
    found.truncate(MOST_HANDED_OVER.saturating_sub(open));
    settle(&earlier.memory, &earlier.seen, found, &now)
}
