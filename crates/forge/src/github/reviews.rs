//! Reviews: all of them, and ours, posted exactly once.
//!
//! A review is refused as a whole when one of its comments is not on the diff, when the reviewer has
//! a pending review, and for half a dozen reasons more, nearly all of them with status 422. What a
//! refusal means is in [`super::review_refusal`].

use http::Method;
use serde_json::{Map, Value, json};

use super::super::marker::{carries_exactly, has_visible_text};
use super::super::seal::{Kind, is_sealed};
use super::body::fit_review;
use super::comments::LOOKS;
use super::http::{Call, WriteOutcome};
use super::review_refusal::{Refusal, why};
use super::wire_reviews::ReviewJson;
use super::{GitHubForge, PULLS_WRITE, route};
use crate::{
    ForgeError, InlineComment, RepositoryId, Review, ReviewDraft, ReviewEvent, ReviewPosted,
    ReviewState, Side,
};
use patchwright_base::redact::keys::without_keys;

/// Reviews of one pull request that are read, the newest.
const MOST_REVIEWS: usize = 10_000;
/// How often we try in all, whatever comes between.
const TRIES: u32 = 6;

/// How one attempt to post ended.
enum PostOutcome {
    Posted(Review),
    Refused(Refusal, ForgeError),
    Lost(ForgeError),
}

/// What became of a pending review that was in the way.
enum PendingReview {
    /// It is there no more, or was none of ours.
    Gone,
    /// Ours is submitted already.
    Submitted(Review),
    /// A person has begun it, and what that person should do.
    NotOurs(String),
}

impl GitHubForge {
    pub(super) async fn list_reviews(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Review>, ForgeError> {
        let call = Call::get(
            route(repository, &format!("pulls/{number}/reviews?per_page=100")),
            format!("the reviews of `{repository}#{number}`"),
        )
        .needs("pull-requests: read");
        let reviews: Vec<ReviewJson> = self.api.list(&call, MOST_REVIEWS).await?;
        let mut reviews: Vec<Review> = reviews.into_iter().map(Review::from).collect();
        // A review added between two pages moves the others over the edge. Pending ones come last.
        reviews
            .sort_by_key(|review| (review.submitted_at.is_none(), review.submitted_at, review.id));
        reviews.dedup_by_key(|review| review.id);
        self.know_ours(Kind::Review, repository, number, &mut reviews).await?;
        Ok(reviews)
    }

    /// Dismissing twice does no harm: the second time there is nothing to dismiss.
    pub(super) async fn take_back(
        &self,
        repository: &RepositoryId,
        number: u64,
        review: u64,
        message: &str,
    ) -> Result<bool, ForgeError> {
        let path = route(repository, &format!("pulls/{number}/reviews/{review}/dismissals"));
        let call = Call::write(Method::PUT, path, format!("review {review}"))
            .json(json!({ "message": without_keys(message), "event": "DISMISS" }))
            .for_action(format!("dismiss a review of `{repository}#{number}`"), PULLS_WRITE);
        let (reply, again) = self.api.write_repeatable(&call).await?;
        match self.api.good(&call, reply) {
            Ok(_) => Ok(true),
            Err(ForgeError::Invalid { .. }) => Ok(again),
            Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => Ok(false),
            Err(err) => Err(err),
        }
    }

    pub(super) async fn submit_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
        marker: &str,
    ) -> Result<ReviewPosted, ForgeError> {
        let says = has_visible_text(&draft.body) || !draft.comments.is_empty();
        if !says && draft.event != ReviewEvent::Approve {
            return Err(ForgeError::Invalid {
                action: format!("the review of `{repository}#{number}`"),
                message: "it says nothing".to_owned(),
            });
        }
        let reviews = self.list_reviews(repository, number).await?;
        if let Some(review) = self.marked_review(&reviews, marker).await? {
            return Ok(posted(draft.event, review, None));
        }
        let (mut event, mut weaker, mut problem) = (draft.event, None, None);
        for _ in 0..TRIES {
            let (refusal, err) = match self
                .try_review(repository, number, draft, event, marker)
                .await?
            {
                PostOutcome::Posted(review) => return Ok(posted(draft.event, review, weaker)),
                PostOutcome::Lost(err) => {
                    if let Some(review) = self.appearing_review(repository, number, marker).await? {
                        return Ok(posted(draft.event, review, weaker));
                    }
                    problem = Some(err);
                    continue;
                }
                PostOutcome::Refused(refusal, err) => (refusal, err),
            };
            match refusal {
                Refusal::Pending => match self.clear_the_way(repository, number, marker).await? {
                    PendingReview::Submitted(review) => {
                        return Ok(posted(draft.event, review, weaker));
                    }
                    PendingReview::NotOurs(message) => {
                        return Ok(ReviewPosted::Unsubmitted { message });
                    }
                    PendingReview::Gone => problem = Some(err),
                },
                Refusal::OnlyComment(message) if says => {
                    event = ReviewEvent::Comment;
                    weaker = Some(message);
                    problem = Some(err);
                }
                Refusal::OnlyComment(message) | Refusal::MayNot(message) => {
                    return Ok(ReviewPosted::MayNot { message });
                }
                Refusal::Comments { comments, message } => {
                    let comments = match comments.as_slice() {
                        [] => self.off_the_diff(repository, number, draft).await,
                        _ => comments,
                    };
                    return Ok(ReviewPosted::Refused { comments, message });
                }
                Refusal::HeadMoved => return Ok(ReviewPosted::HeadMoved),
                Refusal::Other => return Err(err),
            }
        }
        Err(problem.unwrap_or_else(|| self.api.unavailable("the review was not posted")))
    }

    /// Removes a pending review of ours, which nobody sees and which blocks the next one. A person whose token
    /// we have may have begun one, too: what does not end with a seal is theirs.
    async fn clear_the_way(
        &self,
        repository: &RepositoryId,
        number: u64,
        marker: &str,
    ) -> Result<PendingReview, ForgeError> {
        let reviews = self.list_reviews(repository, number).await?;
        if let Some(review) = self.marked_review(&reviews, marker).await? {
            return Ok(PendingReview::Submitted(review));
        }
        for review in reviews.iter().filter(|review| review.state == ReviewState::Pending) {
            if !self.is_ours(&review.author).await? {
                continue;
            }
            if !is_sealed(&review.body) {
                return Ok(PendingReview::NotOurs(format!(
                    "you have an unsubmitted review on #{number}; submit or discard it, then run again"
                )));
            }
            let call = Call::write(
                Method::DELETE,
                route(repository, &format!("pulls/{number}/reviews/{}", review.id)),
                format!("our pending review of `{repository}#{number}`"),
            )
            .for_action(
                format!("remove our pending review of `{repository}#{number}`"),
                PULLS_WRITE,
            );
            let (reply, _) = self.api.write_repeatable(&call).await?;
            // Gone, or submitted meanwhile: the next attempt shows which.
            if !matches!(reply.status.as_u16(), 404 | 422) {
                self.api.good(&call, reply)?;
            }
        }
        Ok(PendingReview::Gone)
    }

    /// The submitted review of ours that carries the marker of this run. Nobody else knows the run
    /// before its review is there, so the account and the marker do.
    async fn marked_review(
        &self,
        reviews: &[Review],
        marker: &str,
    ) -> Result<Option<Review>, ForgeError> {
        for review in reviews.iter().filter(|review| review.state != ReviewState::Pending) {
            if carries_exactly(&review.body, marker) && self.is_ours(&review.author).await? {
                return Ok(Some(review.clone()));
            }
        }
        Ok(None)
    }

    /// Looks for a review that was perhaps posted.
    async fn appearing_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        marker: &str,
    ) -> Result<Option<Review>, ForgeError> {
        for pause in LOOKS {
            self.api.limiter.sleep(pause).await;
            let reviews = self.list_reviews(repository, number).await?;
            if let Some(review) = self.marked_review(&reviews, marker).await? {
                return Ok(Some(review));
            }
        }
        Ok(None)
    }

    async fn try_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
        event: ReviewEvent,
        marker: &str,
    ) -> Result<PostOutcome, ForgeError> {
        let place = self.place(Kind::Review, repository, number);
        let text = self.seal.sealed(&fit_review(&draft.body, marker), &place, None, 1);
        let mut body = json!({
            "commit_id": draft.commit,
            "body": text,
            "event": word(event),
        });
        if !draft.comments.is_empty() {
            let place = self.place(Kind::Diff, repository, number);
            let sealed = |comment: &InlineComment| {
                on_the_diff(
                    comment,
                    &self.seal.sealed(&without_keys(&comment.body), &place, None, 1),
                )
            };
            body["comments"] = draft.comments.iter().map(sealed).collect();
        }
        let call = Call::write(
            Method::POST,
            route(repository, &format!("pulls/{number}/reviews")),
            format!("pull request `{repository}#{number}`"),
        )
        .for_action(format!("review `{repository}#{number}`"), PULLS_WRITE)
        .json(body);
        let reply = match self.api.write(&call).await? {
            WriteOutcome::Answered(reply) => reply,
            WriteOutcome::Lost(err) => return Ok(PostOutcome::Lost(err)),
        };
        if reply.status.is_success() {
            return Ok(match self.api.parse::<ReviewJson>(&call, &reply) {
                Ok(review) => PostOutcome::Posted(Review { ours: true, ..review.into() }),
                // It is there; the list may be easier to read.
                Err(err) => PostOutcome::Lost(err),
            });
        }
        let asks_more = event != ReviewEvent::Comment;
        let message = self.api.words(&reply);
        let refusal = why(&reply, &message, draft.comments.len(), asks_more);
        match self.api.good(&call, reply) {
            Err(err @ ForgeError::Authentication { .. }) => Err(err),
            Err(err) => Ok(PostOutcome::Refused(refusal, err)),
            Ok(_) => Err(self.api.unavailable("the review was neither taken nor refused")),
        }
    }
}

/// `weaker` says why it is only a comment; a review found again shows that much by its state.
fn posted(asked: ReviewEvent, review: Review, weaker: Option<String>) -> ReviewPosted {
    let is_weaker = asked != ReviewEvent::Comment && review.state == ReviewState::Commented;
    let weaker = weaker
        .or_else(|| is_weaker.then(|| "GitHub took it as a comment without a verdict".to_owned()));
    ReviewPosted::Yes { review, weaker }
}

fn word(event: ReviewEvent) -> &'static str {
    match event {
        ReviewEvent::Comment => "COMMENT",
        ReviewEvent::RequestChanges => "REQUEST_CHANGES",
        ReviewEvent::Approve => "APPROVE",
    }
}

fn on_the_diff(comment: &InlineComment, body: &str) -> Value {
    let side = match comment.side {
        Side::Left => "LEFT",
        Side::Right => "RIGHT",
    };
    let mut json = Map::new();
    json.insert("path".into(), comment.path.as_str().into());
    json.insert("body".into(), body.into());
    json.insert("line".into(), comment.line.into());
    json.insert("side".into(), side.into());
    // A range of one line is refused.
    if let Some(start) = comment.start_line.filter(|start| *start < comment.line) {
        json.insert("start_line".into(), start.into());
        json.insert("start_side".into(), side.into());
    }
    Value::Object(json)
}
