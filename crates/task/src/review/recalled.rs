//! Findings that our own threads tell of and the sticky comment does not: it is gone, or it could not be brought
//! up to date when they were posted.

use patchwright_forge::Thread;
use patchwright_report::review::inline;
use patchwright_review::incremental::{FindingState, KnownFinding, Memory};
use patchwright_review::threads::ThreadVerdict;
use patchwright_review::title::is_same_title;

/// A finding that is open by its thread.
#[derive(Clone, Debug)]
pub(super) struct RecalledFinding {
    /// The review that it came with.
    review: Option<u64>,
    known: KnownFinding,
}

impl RecalledFinding {
    /// The commit at which it was reported, where its comment says so.
    pub(super) fn since(&self) -> &str {
        &self.known.since
    }
}

/// What is open by `ours`, our threads with what became of them, and is no part of what was `written` down.
pub(super) fn recalled<'a>(
    written: &Memory,
    ours: impl Iterator<Item = (&'a Thread, ThreadVerdict)>,
) -> Vec<RecalledFinding> {
    let mut all: Vec<RecalledFinding> = Vec::new();
    for (thread, _) in ours.filter(|(_, verdict)| is_open(*verdict)) {
        let Some(root) = thread.comments.first() else { continue };
        let Some(known) = inline::known(&root.body, &thread.path) else { continue };
        if is_missing(written, root.review, &known) {
            all.retain(|other| other.known.fingerprint != known.fingerprint);
            all.push(RecalledFinding { review: root.review, known });
        }
    }
    all
}

/// What was written down together with what is recalled, but for what came with the review `except`.
pub(super) fn merged(
    written: &Memory,
    recalled: &[RecalledFinding],
    except: Option<u64>,
) -> Memory {
    let mut memory = written.clone();
    for RecalledFinding { review, known } in recalled {
        if except.is_some() && *review == except {
            continue;
        }
        let is_same = |other: &&mut KnownFinding| other.fingerprint == known.fingerprint;
        match memory.findings.iter_mut().find(is_same) {
            Some(other) => *other = known.clone(),
            None => memory.findings.push(known.clone()),
        }
    }
    memory
}

/// Nobody whose word counts has said that it is not wanted, and we have not said that it is fixed.
fn is_open(verdict: ThreadVerdict) -> bool {
    match verdict {
        ThreadVerdict::Open | ThreadVerdict::ResolvedByOthers | ThreadVerdict::Unknown => true,
        ThreadVerdict::ResolvedAsFixed | ThreadVerdict::Resolved | ThreadVerdict::Rejected => false,
    }
}

fn is_missing(written: &Memory, review: Option<u64>, thread: &KnownFinding) -> bool {
    let is_newer = written.last_review.is_some() && review > written.last_review;
    let same = written.findings.iter().find(|known| known.fingerprint == thread.fingerprint);
    match (same, written.last_review) {
        // It was fixed, and came back.
        (Some(known), _) => known.fate == FindingState::Fixed && is_newer,
        // What was written down after its review left it out on purpose, unless there was no room for it.
        (None, Some(_)) => is_newer || written.forgotten.contains(&thread.fingerprint),
        // Older versions did not say which reviews they had seen.
        (None, None) => !written
            .findings
            .iter()
            .any(|known| known.path == thread.path && is_same_title(&known.title, &thread.title)),
    }
}
