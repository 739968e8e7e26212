//! When a pull request is approved, and when an approval of ours may stand.
//!
//! GitHub keeps an approval over later pushes unless the rules of the branch say otherwise, and a later comment of the same
//! account leaves it as it is. So whatever this run would not approve takes back what an earlier one has approved.

use super::admit::AdmittedReview;
use super::outbox::Outbox;
use super::publish::{Origin, Work};
use super::sticky;
use crate::run::Run;
use patchwright_base::error::Result;
use patchwright_forge::{Review, ReviewState};
use patchwright_report::review;
use patchwright_review::overall::{self, OverallVerdict};
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::SkippedBecause;

/// This run has read the change, and nothing is against it. What an earlier review read is not approved by one that read
/// nothing: that one may have had its reasons, or a person may have taken the approval back. A verdict that is no plain yes
/// approves nothing either.
pub(super) fn is_due(work: &Work<'_>) -> bool {
    is_sound(work)
        && work.reviewed.coverage.read_files > 0
        && overall::said(&work.reviewed.summary) == Some(OverallVerdict::Correct)
}

/// Nothing that is known of the commit is against it.
fn is_sound(work: &Work<'_>) -> bool {
    review::open(&work.settled.findings).next().is_none()
        && work.withheld.is_empty()
        && work.reviewed.below == 0
        && work.reviewed.dropped == 0
        && sticky::forgotten(work) == 0
        && work.origin == Origin::Here
        && work.doubt.is_none()
        && work.pull.head_sha == work.reviewed.head
        && review::is_whole(work.reviewed)
        && !has_unread_lock_file(work)
        && work.reviewed.evidence.is_clean()
}

/// What comes with a lock file that was told by package is known. Of another one nobody knows.
fn has_unread_lock_file(work: &Work<'_>) -> bool {
    let mut skipped = work.reviewed.coverage.skipped.iter();
    skipped.any(|file| file.why == SkippedBecause::LockFile)
}

/// An approval of `approved` may stand at the commit of this review.
fn may_stand(work: &Work<'_>, approved: &Review) -> bool {
    if !is_sound(work) {
        return false;
    }
    let has_read = work.reviewed.coverage.read_files > 0;
    let said = overall::said(&work.reviewed.summary);
    match (has_read, work.reviewed.conclusion) {
        (true, _) => said == Some(OverallVerdict::Correct),
        // No model was asked, because nothing that can be read has changed.
        (false, Conclusion::NothingToDo) => {
            approved.commit.as_deref() == Some(&work.reviewed.head) || !is_hidden_work(work)
        }
        (false, _) => false,
    }
}

/// Something that nobody can read here may have changed since the last review.
fn is_hidden_work(work: &Work<'_>) -> bool {
    let is_unreadable =
        |why: SkippedBecause| matches!(why, SkippedBecause::NotText | SkippedBecause::Submodule);
    let unreadable = work.reviewed.coverage.skipped.iter().filter(|file| is_unreadable(file.why));
    let changed = work.changed_since.as_ref();
    unreadable
        .map(|file| &file.path)
        .any(|path| changed.is_none_or(|changed| changed.paths.contains(path)))
}

/// Approvals of ours that stand.
fn standing(reviews: &[Review]) -> impl Iterator<Item = &Review> {
    reviews.iter().filter(|review| review.ours && review.state == ReviewState::Approved)
}

/// Takes back our approvals that may not stand at the commit of this review. Returns a sentence for people where one stands
/// all the same.
///
/// # Errors
/// When the run's folder cannot be written.
pub(super) async fn take_back(work: &Work<'_>, posted: Option<u64>) -> Result<Option<String>> {
    let of_another_run = |review: &Review| {
        let newest = work.pull.head_sha.as_str();
        newest != work.reviewed.head && review.commit.as_deref() == Some(newest)
    };
    let ours = standing(work.reviews).filter(|review| posted != Some(review.id));
    let over = ours.filter(|review| !of_another_run(review) && !may_stand(work, review));
    let over: Vec<&Review> = over.collect();
    dismiss(&work.outbox, &over, &work.reviewed.head, &why(work)).await
}

/// What keeps the commit from being approved.
fn why(work: &Work<'_>) -> String {
    let open = review::open(&work.settled.findings).count() + work.withheld.len();
    match open {
        0 if !review::is_whole(work.reviewed) || has_unread_lock_file(work) => {
            "not all of it was read".to_owned()
        }
        0 => "this review did not find that all is well".to_owned(),
        1 => "1 finding is open".to_owned(),
        several => format!("{several} findings are open"),
    }
}

/// Takes back our approvals of earlier commits when nobody has read the newest one: `why`, in a few words. It costs nothing
/// else when that does not work.
pub(super) async fn take_back_unread(run: &Run<'_>, admitted: &AdmittedReview, why: &str) {
    let Ok(outbox) = Outbox::of(run, admitted) else { return };
    let (forge, repository, number) = (outbox.forge, outbox.repository, outbox.number);
    let Ok(reviews) = forge.reviews(repository, number).await else { return };
    let is_of_head = |review: &&Review| review.commit.as_deref() == Some(&admitted.head);
    let over: Vec<&Review> = standing(&reviews).filter(|review| !is_of_head(review)).collect();
    if over.is_empty() {
        return;
    }
    // What was pushed meanwhile has a review of its own, which may have approved it.
    let newest = forge.pull_request(repository, number).await;
    if newest.is_ok_and(|pull| pull.head_sha == admitted.head)
        && let Err(failure) = dismiss(&outbox, &over, &admitted.head, why).await
    {
        outbox.ui.warn(&format!("our approval could not be taken back: {}", failure.message));
    }
}

async fn dismiss(
    outbox: &Outbox<'_>,
    approvals: &[&Review],
    head: &str,
    why: &str,
) -> Result<Option<String>> {
    let mut left = None;
    for approval in approvals {
        outbox.intends("dismiss-approval", &approval.id)?;
        let approved = plain(approval.commit.as_deref().unwrap_or_default());
        let message = format!("This approval was for {approved}, not for {}: {why}.", plain(head));
        let dismissed =
            outbox.forge.dismiss_review(outbox.repository, outbox.number, approval.id, &message);
        let trouble = match dismissed.await {
            Ok(true) => {
                outbox.did("dismiss-approval", &approval.id)?;
                outbox.ui.say(&format!("our approval of {approved} is taken back: {why}"));
                continue;
            }
            Ok(false) => String::new(),
            Err(err) => format!(" ({err})"),
        };
        outbox.ui.warn(&format!(
            "our approval of {approved} could not be taken back{trouble}; dismiss it by hand"
        ));
        left = Some(format!(
            "An approval of Patchwright's, of `{approved}`, still stands and is not for this commit: {why}. It \
             could not be taken back; dismiss it by hand."
        ));
    }
    Ok(left)
}

fn plain(sha: &str) -> String {
    review::short(sha).chars().filter(char::is_ascii_alphanumeric).collect()
}
