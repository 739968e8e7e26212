//! The review itself: what goes on lines, what goes into the body, and posting it once.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::approval;
use super::publish::{Origin, Work};
use super::sticky;
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_forge::{
    Comparison, ForgeError, InlineComment, Review, ReviewDraft, ReviewEvent, ReviewPosted,
    ReviewState,
};
use patchwright_report::review::body::{self, Body, Listed, OffDiffReason};
use patchwright_report::review::inline;
use patchwright_report::{self as report, review};
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::Priority;
use patchwright_review::incremental::{FindingState, KnownFinding};
use patchwright_types::outcome::Conclusion;
use patchwright_types::reviewed::SkippedBecause;

/// More comments than this in one review are noise, and GitHub grows slow.
const MOST_COMMENTS: usize = 30;
/// How often a review is posted anew after it was refused; the last time without comments on lines.
const ATTEMPTS: usize = 6;

/// What became of the review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PostedReview {
    pub(super) review: Option<u64>,
    pub(super) url: Option<String>,
    pub(super) inline: usize,
    pub(super) in_body: usize,
    /// Fingerprints of the findings that are comments on lines.
    #[serde(default)]
    pub(super) on_lines: Vec<String>,
    /// Why we may not write here.
    pub(super) may_not: Option<String>,
    /// What is in the way of the review until somebody takes it away.
    #[serde(default)]
    pub(super) unsubmitted: Option<String>,
    /// Sentences for the sticky comment.
    pub(super) remarks: Vec<String>,
}

/// Posts the new findings; nothing when there are none.
pub(super) async fn post(work: &Work<'_>) -> Result<PostedReview> {
    if let Some(posted) = work.outbox.recorded::<PostedReview>("review")? {
        return Ok(posted);
    }
    if let Some(own) = work.own {
        return found(work, own);
    }
    let event = event(work);
    if work.settled.to_post.is_empty() && event != ReviewEvent::Approve {
        return Ok(PostedReview { remarks: remarks(work), ..PostedReview::default() });
    }
    let mut plan = Plan::new(work, event);
    plan.follow(work).await;
    work.outbox.intends(
        "review",
        &json!({ "commit": plan.commit, "event": plan.event, "inline": plan.inline.len(),
                 "in_body": plan.listed.len() }),
    )?;
    let posted = plan.post(work).await?;
    // What was refused is tried again by the next attempt, perhaps with another token.
    if posted.unsubmitted.is_none() && posted.may_not.is_none() {
        work.outbox.did("review", &posted)?;
    }
    Ok(posted)
}

/// An attempt that was killed posted it and could not record it.
fn found(work: &Work<'_>, own: &Review) -> Result<PostedReview> {
    let threads = work.earlier.ours().filter(|(thread, _)| {
        thread.comments.first().is_some_and(|root| root.review == Some(own.id))
    });
    let on_lines: Vec<String> = threads.map(|(_, fingerprint)| fingerprint.to_owned()).collect();
    let posted = PostedReview {
        review: Some(own.id),
        url: Some(own.html_url.clone()),
        inline: on_lines.len(),
        in_body: work.settled.to_post.len().saturating_sub(on_lines.len()),
        on_lines,
        remarks: remarks(work),
        ..PostedReview::default()
    };
    work.outbox.did("review", &posted)?;
    Ok(posted)
}

/// How far the findings can be trusted: said beside them and beside the table.
fn caution(work: &Work<'_>) -> Option<String> {
    let words = "This review was made by a workflow run that the pull request could change, and handed over.";
    (work.origin == Origin::HandedOver).then(|| words.to_owned())
}

/// What people should know before all else.
fn remarks(work: &Work<'_>) -> Vec<String> {
    let mut remarks: Vec<String> = caution(work).into_iter().collect();
    if let (Conclusion::NothingToDo, Some(why)) = (work.reviewed.conclusion, &work.reviewed.reason)
    {
        remarks.push(format!("No model was asked: {why}.", why = text::inline(why)));
    }
    if !work.withheld.is_empty() {
        remarks.push(format!(
            "{} finding(s) were withheld because they contained one of Patchwright's own secrets.",
            work.withheld.len()
        ));
    }
    for note in work.earlier.notes.iter().take(5) {
        remarks.push(format!("Note: {}.", text::inline(note)));
    }
    remarks
}

/// What the review says as a whole.
fn event(work: &Work<'_>) -> ReviewEvent {
    let wanted = work.outbox.config.review.event;
    let threshold = work.outbox.config.review.requests_changes_on();
    let open: Vec<Priority> =
        review::open(&work.settled.findings).map(|known| known.priority).collect();
    let fails = open.iter().chain(&work.withheld).any(|priority| *priority <= threshold);
    let standing = work.reviews.iter().rev().find_map(|review| {
        let decides = review.state.is_verdict() || review.state == ReviewState::Dismissed;
        (decides && review.ours).then_some(review.state)
    });
    match wanted {
        ReviewEvent::RequestChanges if fails => ReviewEvent::RequestChanges,
        ReviewEvent::Comment | ReviewEvent::RequestChanges => ReviewEvent::Comment,
        // A comment would leave the approval standing.
        ReviewEvent::Approve if fails && standing == Some(ReviewState::Approved) => {
            ReviewEvent::RequestChanges
        }
        ReviewEvent::Approve => {
            let is_new = standing != Some(ReviewState::Approved);
            if is_new && approval::is_due(work) {
                ReviewEvent::Approve
            } else {
                ReviewEvent::Comment
            }
        }
    }
}

/// Takes back our request for changes when nothing that asked for it is open any more, and this review
/// asked for none: nobody else would.
pub(super) async fn take_back(work: &Work<'_>, posted: &PostedReview) -> Result<()> {
    let outbox = &work.outbox;
    let last = standing_request(work);
    let Some(last) = last.filter(|last| posted.review != Some(last.id)) else { return Ok(()) };
    let is_settled = event(work) != ReviewEvent::RequestChanges
        && work.outbox.config.review.event != ReviewEvent::Comment
        && work.origin == Origin::Here
        && work.pull.head_sha == work.reviewed.head
        && review::is_whole(work.reviewed)
        && work.reviewed.dropped == 0
        && sticky::forgotten(work) == 0;
    if !is_settled || posted.may_not.is_some() {
        return Ok(());
    }
    if kept_request(work) == Some(last.id) {
        outbox.ui.say(
            "our request for changes stands, because nothing says any more what it was about; dismiss it by hand",
        );
        return Ok(());
    }
    outbox.intends("dismiss", &last.id)?;
    let message =
        format!("What this asked for is no longer open at {}.", plain(&work.reviewed.head));
    let dismissed =
        outbox.forge.dismiss_review(outbox.repository, outbox.number, last.id, &message).await;
    match dismissed {
        Ok(true) => outbox.did("dismiss", &last.id),
        Ok(false) => {
            outbox.ui.warn("our request for changes could not be taken back; dismiss it by hand");
            Ok(())
        }
        Err(err) => {
            outbox.ui.warn(&format!("our request for changes could not be taken back: {err}"));
            Ok(())
        }
    }
}

/// The newest request for changes of ours.
fn standing_request<'a>(work: &'a Work<'_>) -> Option<&'a Review> {
    let is_request =
        |review: &&Review| review.ours && review.state == ReviewState::ChangesRequested;
    work.reviews.iter().rev().find(is_request)
}

/// Our request for changes when nobody knows what it was about: what was found with it was never written down, or
/// that is lost, and nothing that would be a reason for it is known to be settled.
pub(super) fn kept_request(work: &Work<'_>) -> Option<u64> {
    let last = standing_request(work)?.id;
    if work.own.is_some_and(|own| own.id == last) {
        return None;
    }
    if work.earlier.memory.kept_request == Some(last) {
        return Some(last);
    }
    let threshold = work.outbox.config.review.requests_changes_on();
    let is_settled = |known: &KnownFinding| {
        known.priority <= threshold
            && matches!(known.fate, FindingState::Fixed | FindingState::Dismissed)
    };
    let is_known = work.earlier.remembers(last) || work.settled.findings.iter().any(is_settled);
    (!is_known).then_some(last)
}

/// A review on its way: attempts move findings from lines to the body.
struct Plan {
    commit: String,
    event: ReviewEvent,
    inline: Vec<Anchored>,
    listed: Vec<Listed>,
    /// Sentences for the review's body; what is not about its findings is in the sticky comment.
    remarks: Vec<String>,
}

/// Why a finding is not to be a comment on lines, however few of them there are.
pub(super) fn off_lines(work: &Work<'_>, anchored: &Anchored) -> Option<OffDiffReason> {
    let Anchor::Lines { path, .. } = &anchored.anchor else { return Some(OffDiffReason::NoLine) };
    let mut skipped = work.reviewed.coverage.skipped.iter();
    if skipped.any(|file| file.path == *path && file.why == SkippedBecause::Filtered) {
        return Some(OffDiffReason::Filtered);
    }
    let (rules, finding) = (&work.outbox.config.review, &anchored.finding);
    let is_minor =
        finding.priority > rules.inline_priority || finding.confidence < rules.inline_confidence;
    is_minor.then_some(OffDiffReason::Minor)
}

impl Plan {
    fn new(work: &Work<'_>, event: ReviewEvent) -> Plan {
        let mut found = work.settled.to_post.clone();
        found.sort_by_key(|found| found.finding.rank());
        let most = work.outbox.config.review.max_comments.min(MOST_COMMENTS);
        let mut plan = Plan {
            commit: work.reviewed.head.clone(),
            event,
            inline: Vec::new(),
            listed: Vec::new(),
            remarks: match work.comment_url() {
                Some(_) => caution(work).into_iter().collect(),
                None => remarks(work),
            },
        };
        for anchored in found {
            match off_lines(work, &anchored) {
                None if plan.inline.len() < most => plan.inline.push(anchored),
                None => plan.listed.push(Listed { anchored, why: OffDiffReason::Overflow }),
                Some(why) => plan.listed.push(Listed { anchored, why }),
            }
        }
        plan
    }

    /// The head may have moved while the model read. Comments on a commit that is still part of the
    /// pull request are fine; others are not.
    async fn follow(&mut self, work: &Work<'_>) {
        let (read, now) = (&work.reviewed.head, &work.pull.head_sha);
        if read == now {
            return;
        }
        if let Some(placed_at) = work.placed_at {
            self.remarks.push(format!(
                "The branch was rewritten while this review ran: it read `{}`, and what it found was \
                 looked for again in `{}`.",
                plain(read),
                plain(placed_at)
            ));
            placed_at.clone_into(&mut self.commit);
            return;
        }
        let forge = work.outbox.forge;
        match forge.compare(work.outbox.repository, read, now).await {
            Ok(Comparison::Ahead | Comparison::Identical) => self.remarks.push(format!(
                "Commits were pushed while this review ran; it read `{}`, not what came after.",
                plain(read)
            )),
            Ok(Comparison::Behind | Comparison::Diverged | Comparison::Unknown) | Err(_) => {
                self.moved(work, now);
            }
        }
    }

    /// The commit that was read is gone: nothing can stand on its lines.
    fn moved(&mut self, work: &Work<'_>, now: &str) {
        self.remarks.push(format!(
            "The branch was rewritten while this review ran: it read `{}`, which is no longer part of \
             the pull request, so its findings are listed here instead of on lines.",
            plain(&work.reviewed.head)
        ));
        now.clone_into(&mut self.commit);
        self.list_all(OffDiffReason::Moved);
    }

    fn list_all(&mut self, why: OffDiffReason) {
        let all = 0..self.inline.len();
        self.list(&all.collect::<Vec<_>>(), why);
    }

    /// Moves comments into the body, in their order.
    fn list(&mut self, which: &[usize], why: OffDiffReason) {
        let inline = std::mem::take(&mut self.inline);
        for (at, anchored) in inline.into_iter().enumerate() {
            if which.contains(&at) {
                self.listed.push(Listed { anchored, why });
            } else {
                self.inline.push(anchored);
            }
        }
        self.listed.sort_by_key(|listed| listed.anchored.finding.rank());
    }

    async fn post(mut self, work: &Work<'_>) -> Result<PostedReview> {
        let outbox = &work.outbox;
        let marker = report::marker(review::PURPOSE, &work.reviewed.run);
        let mut moves = 0;
        for attempt in 1..=ATTEMPTS {
            if attempt == ATTEMPTS {
                self.list_all(OffDiffReason::Refused);
            }
            let draft = self.draft(work);
            let answer =
                outbox.forge.post_review(outbox.repository, outbox.number, &draft, &marker).await;
            match answer {
                Ok(ReviewPosted::Yes { review, weaker }) => {
                    return Ok(self.done(work, review, weaker));
                }
                Ok(ReviewPosted::MayNot { message }) => return Ok(may_not(work, message)),
                Ok(ReviewPosted::Unsubmitted { message }) => {
                    return Ok(unsubmitted(work, message));
                }
                Err(err @ (ForgeError::Forbidden { .. } | ForgeError::State { .. })) => {
                    return Ok(may_not(work, err.to_string()));
                }
                Ok(ReviewPosted::Refused { comments, message }) => {
                    outbox.ui.say(&format!("GitHub refused comments of the review: {message}"));
                    if self.inline.is_empty() {
                        return Err(Failure::forge(format!("the review was refused: {message}"))
                            .hint("the findings are in `findings.json` in the run's folder"));
                    }
                    let all = comments.is_empty() || attempt + 2 >= ATTEMPTS;
                    if all {
                        self.list_all(OffDiffReason::Refused);
                    } else {
                        self.list(&comments, OffDiffReason::Refused);
                    }
                }
                Ok(ReviewPosted::HeadMoved) => {
                    moves += 1;
                    let pull = outbox.forge.pull_request(outbox.repository, outbox.number).await;
                    let now = pull.map_err(Failure::from)?.head_sha;
                    if moves > 1 {
                        now.clone_into(&mut self.commit);
                    } else {
                        self.moved(work, &now);
                    }
                }
                Err(err) => return Err(Failure::from(err)),
            }
        }
        Err(Failure::forge("the review could not be posted: the pull request keeps changing")
            .hint("run the command again; the findings are in `findings.json` in the run's folder"))
    }

    fn draft(&self, work: &Work<'_>) -> ReviewDraft {
        let redactor = work.outbox.redactor;
        let body = body::body(&Body {
            reviewed: work.reviewed,
            known: &work.settled.findings,
            inline: &self.inline,
            listed: &self.listed,
            remarks: &self.remarks,
            comment_url: work.comment_url(),
        });
        let suggestions = work.outbox.config.review.suggestions;
        let read = work.reviewed.head.as_str();
        let comment = |anchored: &Anchored| match &anchored.anchor {
            Anchor::Lines { path, side, line, start_line } => Some(InlineComment {
                path: path.clone(),
                side: *side,
                line: *line,
                start_line: *start_line,
                body: redactor.redact(&inline::comment(anchored, suggestions, read)),
            }),
            Anchor::File { .. } | Anchor::Nowhere { .. } => None,
        };
        ReviewDraft {
            commit: self.commit.clone(),
            body: redactor.redact(&body),
            event: self.event,
            comments: self.inline.iter().filter_map(comment).collect(),
        }
    }

    fn done(self, work: &Work<'_>, review: Review, weaker: Option<String>) -> PostedReview {
        let mut remarks = remarks(work);
        if let Some(why) = weaker {
            remarks.push(format!("The review is a comment only: {}.", text::inline(&why)));
        }
        PostedReview {
            review: Some(review.id),
            url: Some(review.html_url),
            inline: self.inline.len(),
            in_body: self.listed.len(),
            on_lines: self.inline.into_iter().map(|anchored| anchored.fingerprint).collect(),
            remarks,
            ..PostedReview::default()
        }
    }
}

fn may_not(work: &Work<'_>, message: String) -> PostedReview {
    PostedReview { may_not: Some(message), remarks: remarks(work), ..PostedReview::default() }
}

/// The comment and the check say what was found; the review follows when the way is free.
fn unsubmitted(work: &Work<'_>, message: String) -> PostedReview {
    let mut remarks = remarks(work);
    remarks.push(
        "What is new is not on its lines yet: the account that posts it has an unsubmitted review here."
            .to_owned(),
    );
    PostedReview { unsubmitted: Some(message), remarks, ..PostedReview::default() }
}

fn plain(sha: &str) -> String {
    review::short(sha).chars().filter(char::is_ascii_alphanumeric).collect()
}
