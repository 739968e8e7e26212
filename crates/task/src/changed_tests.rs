//! What a change did to tests themselves, taken out of what the checks say for it: a test that is gone, or that expects
//! something else now, was not repaired.

use patchwright_git::clone::Repo;
use patchwright_git::tree::FileChange;
use patchwright_policy::altered_tests::AlteredTests;
use patchwright_policy::removed_tests::RemovedTests;
use patchwright_types::evidence::{Evidence, EvidenceRow, Standing};

use super::settle::BlobsOf;

/// The evidence without what the change did to tests instead of code.
pub(super) fn without_changed_tests(
    repo: &Repo,
    files: &[FileChange],
    evidence: Evidence,
) -> Evidence {
    without_altered(repo, files, without_removed(repo, files, evidence))
}

/// A runner that names failures only says of a test that was taken out the same as of one that was repaired. The change
/// says which it was.
fn without_removed(repo: &Repo, files: &[FileChange], mut evidence: Evidence) -> Evidence {
    let mut unclear: Vec<_> =
        evidence.rows.iter_mut().filter_map(|row| row.tests.as_mut()).collect();
    unclear.retain(|tests| !tests.unnamed.is_empty());
    if !unclear.is_empty() {
        let removed = RemovedTests::of(files, &BlobsOf(repo));
        if !removed.is_empty() {
            for tests in unclear {
                tests.take_out(|name| removed.has(name), &removed.added);
            }
        }
    }
    evidence
}

/// A change of code often needs other expectations, and then the tests that fail no more speak for all of it. Where the
/// check still fails, or nothing but tests was changed, a test that was altered speaks for nothing.
fn without_altered(repo: &Repo, files: &[FileChange], mut evidence: Evidence) -> Evidence {
    let is_better = |row: &EvidenceRow| row.tests.as_ref().is_some_and(|it| !it.fixed.is_empty());
    if !evidence.rows.iter().any(is_better) {
        return evidence;
    }
    let altered = AlteredTests::of(files, &BlobsOf(repo));
    for row in &mut evidence.rows {
        let still_fails = matches!(row.standing(), Standing::Improved | Standing::Broken);
        if let Some(tests) = &mut row.tests
            && (still_fails || altered.has_nothing_else())
        {
            tests.set_altered_apart(|name| altered.has(name));
        }
    }
    evidence
}
