//! The one comment on the pull request that is edited in place. It never costs the review: trouble
//! with it is said.

use super::earlier::{SEARCHED, links};
use super::outbox::Outbox;
use super::post::{self, PostedReview};
use super::publish::{Doubt, Origin, Work};
use patchwright_base::error::Result;
use patchwright_forge::{Comment, ForgeError, ReviewEvent};
use patchwright_report::review::kept_words::KeptWords;
use patchwright_report::review::sticky::{self, Sticky};
use patchwright_report::{self as report, review, review::state};
use patchwright_review::incremental::Memory;
use patchwright_review::unread::{UnreadFiles, UnreadPaths};
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::{Reviewed, SkippedBecause};

/// What became of the comment.
pub(super) enum StickyOutcome {
    /// It says how the review ended; its address.
    Written(Option<String>),
    /// We may not write it, and what is in it is handed over.
    MayNot(String),
    /// We may not write it, and the review has what is in it.
    Without,
    /// It did not work this time: what is to be remembered is not written down.
    Failed(String),
}

/// Writes it.
pub(super) async fn write(work: &Work<'_>, posted: &PostedReview) -> Result<StickyOutcome> {
    if let Some(why) = &posted.may_not {
        return Ok(StickyOutcome::MayNot(why.clone()));
    }
    let outbox = &work.outbox;
    if outbox.recorded::<u64>("sticky")?.is_some() {
        return Ok(StickyOutcome::Written(work.comment_url().map(str::to_owned)));
    }
    let newest = new_links(work, posted).await;
    let link = |fingerprint: &str| {
        let new = newest.iter().rev().find(|(other, _)| other == fingerprint);
        new.map(|(_, url)| url.clone()).or_else(|| work.earlier.link(fingerprint))
    };
    let latest = work.reviews.iter().rev().find(|review| review.ours);
    let memory = memory(work, posted);
    let remarks = remarks(work, posted, &memory);
    let body = sticky::comment(&Sticky {
        reviewed: work.reviewed,
        known: &work.settled.findings,
        links: &link,
        review_url: posted.url.as_deref().or(latest.map(|review| review.html_url.as_str())),
        kept: kept_words(work).as_ref(),
        remarks: &remarks,
        memory: &memory,
        mention: &outbox.config.respond.mention,
    });
    let marker = report::marker(review::PURPOSE, &work.reviewed.run);
    let body = outbox.redactor.redact(&body);
    let known = work.earlier.sticky.as_ref().map(|sticky| sticky.id);
    let known = known.or(work.claim.map(|claim| claim.comment));
    outbox.intends("sticky", &known)?;
    let comment =
        outbox.forge.upsert_comment(outbox.repository, outbox.number, &marker, known, &body).await;
    match comment {
        Ok(comment) => {
            if let Some(claim) = work.claim {
                claim.done();
            }
            let is_new = known != Some(comment.id);
            let kept = if is_new { oldest(work, comment, &marker, &body).await } else { comment };
            // Without the review it is written once more.
            if posted.unsubmitted.is_none() {
                outbox.did("sticky", &kept.id)?;
            }
            tidy(work, kept.id).await?;
            Ok(StickyOutcome::Written(Some(kept.html_url)))
        }
        Err(err @ (ForgeError::Forbidden { .. } | ForgeError::State { .. })) => {
            // With the review posted, there is nothing to hand over.
            if posted.review.is_none() {
                return Ok(StickyOutcome::MayNot(err.to_string()));
            }
            outbox.ui.say(&format!("no sticky comment: {err}"));
            Ok(StickyOutcome::Without)
        }
        Err(err) => {
            outbox.ui.warn(&format!("the sticky comment was not brought up to date: {err}"));
            Ok(StickyOutcome::Failed(err.to_string()))
        }
    }
}

/// What the model said at an earlier commit, by the comment as it was.
pub(super) fn kept_words(work: &Work<'_>) -> Option<KeptWords> {
    KeptWords::of(&work.earlier.sticky.as_ref()?.body)
}

/// Where the threads are, by fingerprint: the new comments have addresses now.
async fn new_links(work: &Work<'_>, posted: &PostedReview) -> Vec<(String, String)> {
    let outbox = &work.outbox;
    let threads = match posted.inline {
        0 => None,
        _ => outbox.forge.threads(outbox.repository, outbox.number).await.ok(),
    };
    threads.map(|threads| links(&threads)).unwrap_or_default()
}

/// What the comment says beside the findings; and that some are known by their fingerprints only, which is a warning as well.
fn remarks(work: &Work<'_>, posted: &PostedReview, memory: &Memory) -> Vec<String> {
    let mut remarks = posted.remarks.clone();
    if !memory.forgotten.is_empty() {
        let said = state::forgotten_sentence(memory.forgotten.len());
        work.outbox.ui.warn(&said);
        remarks.push(said);
    }
    remarks
}

/// Looks again after the comment was created: another run may have created one at the same time. The
/// older one stays, with these words. Returns the one that stays.
async fn oldest(work: &Work<'_>, created: Comment, marker: &str, body: &str) -> Comment {
    let Outbox { forge, repository, number, .. } = work.outbox;
    let Ok(comments) = forge.comments(repository, number, SEARCHED).await else {
        return created;
    };
    let ours = comments.iter().filter(|it| report::marked(&it.body, review::PURPOSE).is_some());
    // The list may lack ours yet.
    let first = Comment::newest(ours.chain([&created]));
    let Some(first) = first.filter(|first| first.id != created.id) else { return created };
    match forge.upsert_comment(repository, number, marker, Some(first.id), body).await {
        Ok(first) => {
            let _ = forge.delete_comment(repository, created.id).await;
            first
        }
        Err(_) => created,
    }
}

/// Deletes the others of ours: one comment stays.
async fn tidy(work: &Work<'_>, kept: u64) -> Result<()> {
    let outbox = &work.outbox;
    let mut doubles = work.earlier.doubles.clone();
    doubles.extend(work.claim.map(|claim| claim.comment));
    doubles.retain(|double| *double != kept);
    if doubles.is_empty() {
        return Ok(());
    }
    outbox.intends("tidy", &doubles)?;
    for double in &doubles {
        if let Err(err) = outbox.forge.delete_comment(outbox.repository, *double).await {
            outbox.ui.warn(&format!("a second comment of ours could not be deleted: {err}"));
        }
    }
    outbox.did("tidy", &doubles)
}

/// Open findings of which the next review knows only that they are open.
pub(super) fn forgotten(work: &Work<'_>) -> usize {
    memory(work, &PostedReview::default()).forgotten.len()
}

/// What the next review starts from, as far as there is room for it. What has no room is to be found again,
/// wherever it stands, so the next review reads everything.
fn memory(work: &Work<'_>, posted: &PostedReview) -> Memory {
    let memory = state::fitting(&whole_memory(work, posted));
    if memory.forgotten.is_empty() {
        return memory;
    }
    Memory { head: String::new(), base: String::new(), rest: None, ..memory }
}

/// What the next review starts from. Only what we read ourselves, and read completely, need not be
/// read again.
fn whole_memory(work: &Work<'_>, posted: &PostedReview) -> Memory {
    let earlier = &work.earlier.memory;
    if posted.unsubmitted.is_some() {
        // What could not be posted is new to the run that can.
        let is_new = |fp: &str| work.settled.to_post.iter().any(|new| new.fingerprint == fp);
        let mut findings = work.settled.findings.clone();
        findings.retain(|known| !is_new(&known.fingerprint));
        return Memory { findings, paused: false, ..earlier.clone() };
    }
    let (findings, forgotten) = (work.settled.findings.clone(), work.settled.forgotten.clone());
    let covers = work.reviews.iter().filter(|review| review.ours).map(|review| review.id);
    let last_review = covers.chain(posted.review).max().or(earlier.last_review);
    let reviewed = work.reviewed;
    let kept_request = post::kept_request(work);
    if work.origin == Origin::HandedOver || !has_looked(reviewed) {
        let before = earlier.clone();
        return Memory { findings, forgotten, paused: false, last_review, kept_request, ..before };
    }
    // What was withheld or dropped, or has failed the check before, is remembered nowhere, so the next review has to find
    // it again.
    let is_shown = work.withheld.is_empty()
        && reviewed.dropped == 0
        && work.doubt != Some(Doubt::FailedBefore);
    let is_read = review::is_whole(reviewed) && review::is_anything(reviewed) && is_shown;
    let (head, base) = if is_read {
        (reviewed.head.clone(), reviewed.base.clone())
    } else {
        (earlier.head.clone(), earlier.base.clone())
    };
    Memory {
        head,
        base,
        findings,
        // Whether reviews are paused is read where people said so, every time.
        paused: false,
        looked_at: reviewed.head.clone(),
        looked_at_base: reviewed.base.clone(),
        rest: unread(work).filter(|_| is_shown),
        last_review,
        kept_request,
        forgotten,
    }
}

/// Whether the commit counts as looked at. One at which a limit or a signal ended the review before the model came to an
/// end with anything can be reviewed again, and what was read before it stays read.
fn has_looked(reviewed: &Reviewed) -> bool {
    !matches!(reviewed.conclusion, Conclusion::Interrupted | Conclusion::Budget)
        || (reviewed.is_partly_done && reviewed.coverage.read_files > 0)
}

/// What is left for the next review, when this one has read something that counts: what it should have read, and what the
/// rules left out, which other rules may not.
fn unread(work: &Work<'_>) -> Option<UnreadFiles> {
    let reviewed = work.reviewed;
    let is_nothing = reviewed.conclusion == Conclusion::NothingToDo;
    if !reviewed.is_partly_done || !(is_nothing || review::is_anything(reviewed)) {
        return None;
    }
    // Where a review can approve, no later one may take for read what this one was not told of.
    let approves = work.outbox.config.review.event == ReviewEvent::Approve;
    let is_left = |why: SkippedBecause| {
        why.is_shortfall()
            || why == SkippedBecause::Filtered
            || (approves && why == SkippedBecause::LockFile)
    };
    let left = reviewed.coverage.skipped.iter().filter(|file| is_left(file.why));
    let left: Vec<String> = left.map(|file| file.path.clone()).collect();
    if left.is_empty() && review::is_whole(reviewed) && review::is_anything(reviewed) {
        return None;
    }
    let all = work.diff.iter().flat_map(|diff| &diff.files).map(|file| file.path.as_str());
    Some(UnreadFiles { base: reviewed.base.clone(), which: UnreadPaths::new(left, all)? })
}
