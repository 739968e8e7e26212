//! The one comment on the pull request that is edited in place. It never costs the review: trouble
//! with it is said.

use super::earlier::{SEARCHED, links};
use super::outbox::Outbox;
use super::post::PostedReview;
use super::publish::{Origin, Work};
use patchwright_base::error::Result;
use patchwright_forge::{Comment, ForgeError};
use patchwright_report::review::sticky::{self, Sticky};
use patchwright_report::{self as report, review};
use patchwright_review::incremental::{Memory, UnreadFiles};
use patchwright_types::reviewed::Reviewed;

/// Writes it, and returns its address where it says how the review ended. The inner error says why we may
/// not.
pub(super) async fn write(
    work: &Work<'_>,
    posted: &PostedReview,
) -> Result<Result<Option<String>, String>> {
    if let Some(why) = &posted.may_not {
        return Ok(Err(why.clone()));
    }
    let outbox = &work.outbox;
    if outbox.recorded::<u64>("sticky")?.is_some() {
        return Ok(Ok(work.comment_url().map(str::to_owned)));
    }
    // The new comments have addresses now.
    let newest = match posted.inline {
        0 => None,
        _ => outbox.forge.threads(outbox.repository, outbox.number).await.ok(),
    };
    let newest = newest.map(|threads| links(&threads)).unwrap_or_default();
    let link = |fingerprint: &str| {
        let new = newest.iter().rev().find(|(other, _)| other == fingerprint);
        new.map(|(_, url)| url.clone()).or_else(|| work.earlier.link(fingerprint))
    };
    let memory = memory(work, posted);
    let latest = work.reviews.iter().rev().find(|review| review.ours);
    let body = sticky::comment(&Sticky {
        reviewed: work.reviewed,
        known: &work.settled.findings,
        links: &link,
        review_url: posted.url.as_deref().or(latest.map(|review| review.html_url.as_str())),
        remarks: &posted.remarks,
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
            return Ok(Ok(Some(kept.html_url)));
        }
        Err(err @ (ForgeError::Forbidden { .. } | ForgeError::State { .. })) => {
            // With the review posted, there is nothing to hand over.
            if posted.review.is_none() {
                return Ok(Err(err.to_string()));
            }
            outbox.ui.say(&format!("no sticky comment: {err}"));
        }
        Err(err) => outbox.ui.say(&format!("the sticky comment was not brought up to date: {err}")),
    }
    Ok(Ok(None))
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
            outbox.ui.say(&format!("a second comment of ours could not be deleted: {err}"));
        }
    }
    outbox.did("tidy", &doubles)
}

/// What the next review starts from. Only what we read ourselves, and read completely, need not be
/// read again.
fn memory(work: &Work<'_>, posted: &PostedReview) -> Memory {
    let earlier = &work.earlier.memory;
    if posted.unsubmitted.is_some() {
        // What could not be posted is new to the run that can.
        let is_new = |fp: &str| work.settled.to_post.iter().any(|new| new.fingerprint == fp);
        let mut findings = work.settled.findings.clone();
        findings.retain(|known| !is_new(&known.fingerprint));
        return Memory { findings, paused: false, ..earlier.clone() };
    }
    let is_read = work.origin == Origin::Here
        && review::is_whole(work.reviewed)
        && review::is_anything(work.reviewed);
    let (head, base) = if is_read {
        (work.reviewed.head.clone(), work.reviewed.base.clone())
    } else {
        (earlier.head.clone(), earlier.base.clone())
    };
    let (looked_at, looked_at_base) = match work.origin {
        Origin::Here => (work.reviewed.head.clone(), work.reviewed.base.clone()),
        Origin::HandedOver => (earlier.looked_at.clone(), earlier.looked_at_base.clone()),
    };
    let rest = match work.origin {
        Origin::Here if is_read => None,
        Origin::Here => unread(work.reviewed),
        Origin::HandedOver => earlier.rest.clone(),
    };
    let findings = work.settled.findings.clone();
    // Whether reviews are paused is read where people said so, every time.
    Memory { head, base, findings, paused: false, looked_at, looked_at_base, rest }
}

/// What is left for the next review, when this one has read something that counts.
fn unread(reviewed: &Reviewed) -> Option<UnreadFiles> {
    if !reviewed.is_partly_done || !review::is_anything(reviewed) {
        return None;
    }
    let left = reviewed.coverage.skipped.iter().filter(|file| file.why.is_shortfall());
    let paths = left.map(|file| file.path.clone()).collect();
    Some(UnreadFiles { base: reviewed.base.clone(), paths })
}
