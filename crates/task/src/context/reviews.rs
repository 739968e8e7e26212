//! What reviewers say in their reviews, beside the comments on lines, as text for the model: as it stood at the trigger,
//! and clean, as [`super::thread`] has comments.

use chrono::{DateTime, Utc};

use super::thread::{self, MAX_COMMENT, MAX_COMMENTS_BYTES, ThreadContext, Writer};
use patchwright_base::gfm;
use patchwright_base::text;
use patchwright_forge::{Review, ReviewState};
use patchwright_types::task::Trigger;

/// Reviews that are shown, the newest.
const MAX_REVIEWS: usize = 20;
/// Digits of a commit.
const SHORT: usize = 10;

/// A review that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidInReview {
    pub review: Review,
    /// When its text was edited last, if ever; `None` where the forge does not tell.
    pub edited: Option<Option<DateTime<Utc>>>,
}

/// The reviews of people that say something and still count: none that was dismissed, and of each reviewer none from
/// before their last approval. Oldest first, as they come.
pub fn that_count(reviews: Vec<Review>) -> Vec<Review> {
    let approvals: Vec<(usize, String)> = reviews
        .iter()
        .enumerate()
        .filter(|(_, review)| review.state == ReviewState::Approved)
        .map(|(at, review)| (at, review.author.login.clone()))
        .collect();
    let is_settled = |at: usize, review: &Review| {
        approvals.iter().any(|(later, who)| *later > at && *who == review.author.login)
    };
    let counts = |(at, review): &(usize, Review)| {
        !review.ours
            && !matches!(review.state, ReviewState::Dismissed | ReviewState::Pending)
            && !review.body.trim().is_empty()
            && !is_settled(*at, review)
    };
    reviews.into_iter().enumerate().filter(counts).map(|(_, review)| review).collect()
}

/// The text is a mention with the words of the request, which the model is told anyway.
pub fn is_only(body: &str, words: &str) -> bool {
    let before = body.trim().strip_suffix(words.trim());
    before.is_some_and(|before| before.split_whitespace().count() <= 1)
}

/// Builds the block. `head` is the commit that the model works on.
pub fn reviews(
    said: &[SaidInReview],
    head: &str,
    trigger: Option<&Trigger>,
    is_over: &dyn Fn() -> bool,
    nonce: &mut dyn FnMut() -> u64,
) -> ThreadContext {
    gfm::apart(|| {
        let mut writer = Writer::new(is_over);
        let skipped = said.len().saturating_sub(MAX_REVIEWS);
        if skipped > 0 {
            writer.line(&format!("[{skipped} older reviews were left out]"));
            writer.notes.push(format!("{skipped} older reviews left out"));
        }
        let mut room = MAX_COMMENTS_BYTES;
        let shown: Vec<String> = said[skipped..]
            .iter()
            .filter_map(|said| block(&mut writer, said, head, trigger, &mut room))
            .collect();
        match shown.as_slice() {
            [] => ThreadContext { text: String::new(), notes: writer.notes },
            shown => {
                for block in shown {
                    writer.line(block);
                }
                writer.finish("review", nonce)
            }
        }
    })
}

/// One review; `None` where it is left out, which a note says.
fn block(
    writer: &mut Writer<'_>,
    said: &SaidInReview,
    head: &str,
    trigger: Option<&Trigger>,
    room: &mut usize,
) -> Option<String> {
    let review = &said.review;
    let who = thread::login(&review.author.login);
    if let Some(why) =
        left_out(said, trigger).or_else(|| writer.has_to_end(&review.body).map(str::to_owned))
    {
        writer.notes.push(format!("review by {who} left out: {why}"));
        return None;
    }
    let body = writer.clean(&review.body);
    let body = writer.cut("a review", body.trim(), MAX_COMMENT);
    // What only a machine reads is hidden text.
    if body.trim().is_empty() {
        return None;
    }
    if body.len() > *room {
        writer.notes.push(format!("review by {who} left out: 128 KB are the limit"));
        return None;
    }
    *room -= body.len();
    let when = review.submitted_at.map(|at| format!(" at {}", thread::stamp(at)));
    let commit = review.commit.as_deref().filter(|commit| *commit != head);
    let commit = commit.and_then(|commit| commit.get(..SHORT)).map(|commit| {
        format!(" (of commit {}; the head is another one by now)", text::line(commit))
    });
    Some(format!(
        "Review by {who}{}, {}{}:\n{body}\n",
        when.unwrap_or_default(),
        review.state.words(),
        commit.unwrap_or_default()
    ))
}

/// Why a review is not shown, as with comments. One of which nobody knows whether it was edited is shown to whoever wrote it,
/// and where nobody has to have agreed to it.
fn left_out(said: &SaidInReview, trigger: Option<&Trigger>) -> Option<String> {
    let mut comment = said.review.clone().into_comment();
    match (said.edited, trigger) {
        (Some(edited), _) => comment.updated_at = edited.unwrap_or(comment.updated_at),
        (None, Some(trigger))
            if trigger.at.is_some()
                && !trigger.actor.eq_ignore_ascii_case(&said.review.author.login) =>
        {
            return Some("nobody knows whether it was edited after the trigger".to_owned());
        }
        (None, _) => {}
    }
    thread::left_out(&comment, trigger)
}
