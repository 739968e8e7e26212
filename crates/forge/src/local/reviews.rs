//! Reviews, threads and answers in the folder, with GitHub's rules: a review is taken as a whole or
//! not at all, nobody reviews their own pull request, and each marker exists once.

use super::super::marker::{carries_exactly, has_visible_text, marked, marked_twice};
use super::store::StoredThread;
use super::{LocalForge, OURSELVES, history, ourselves};
use crate::{
    Comment, CommentPlace, ForgeError, PullRequest, RepositoryId, Review, ReviewComment,
    ReviewDraft, ReviewEvent, ReviewPosted, ReviewState, Thread,
};
use patchwright_base::redact::keys::without_keys;
use patchwright_git::hunks::Diff;

/// Ids of one conversation are the number times this, counted up.
const IDS: u64 = 1_000_000;

impl LocalForge {
    pub(super) fn threads_now(&self, number: u64) -> Result<Vec<Thread>, ForgeError> {
        let pull = self.store.pull(number)?;
        let kept = self.store.threads(number)?.into_iter();
        let path = self.repository_path();
        let now = kept.map(|kept| {
            let line = history::line_now(&path, &kept, &pull.head_sha)?;
            Ok(Thread { line, outdated: line.is_none(), ..kept.thread })
        });
        now.collect()
    }

    pub(super) fn submit_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
        marker: &str,
    ) -> Result<ReviewPosted, ForgeError> {
        let _guard = self.store.lock();
        let says = has_visible_text(&draft.body) || !draft.comments.is_empty();
        if !says && draft.event != ReviewEvent::Approve {
            return Err(ForgeError::Invalid {
                action: format!("the review of #{number}"),
                message: "it says nothing".to_owned(),
            });
        }
        let pull = self.store.pull(number)?;
        match self.open_conversation(repository, number, "review") {
            Ok(_) => {}
            Err(ForgeError::State { message, .. }) => return Ok(ReviewPosted::MayNot { message }),
            Err(err) => return Err(err),
        }
        let mut reviews = self.store.reviews(number)?;
        let is_own = pull.author.login == OURSELVES;
        let weaker = (is_own && draft.event != ReviewEvent::Comment)
            .then(|| "nobody judges their own pull request".to_owned());
        let ours = |review: &&Review| {
            review.author.login == OURSELVES && carries_exactly(&review.body, marker)
        };
        if let Some(review) = reviews.iter().find(ours) {
            return Ok(ReviewPosted::Yes { review: review.clone(), weaker });
        }
        let path = self.repository_path();
        if !history::is_part(&path, &pull, &draft.commit)? {
            return Ok(ReviewPosted::HeadMoved);
        }
        let diff = history::changes(&path, &pull, &draft.commit)?;
        let comments = history::off_the_diff(&diff, &draft.comments);
        if !comments.is_empty() {
            let message = "these lines are not on the diff".to_owned();
            return Ok(ReviewPosted::Refused { comments, message });
        }
        let event = if is_own { ReviewEvent::Comment } else { draft.event };
        let review = self.new_review(&pull, draft, event, marker, &reviews);
        let mut threads = self.store.threads(number)?;
        // Left by a process that ended between the two files.
        let is_known = |id: u64| reviews.iter().any(|review| review.id == id);
        threads.retain(|kept| {
            kept.thread.comments.first().and_then(|root| root.review).is_none_or(is_known)
        });
        self.begin_threads(&mut threads, &pull, draft, &diff, review.id);
        reviews.push(review.clone());
        self.store.write_reviews(number, &reviews, &threads)?;
        Ok(ReviewPosted::Yes { review, weaker })
    }

    fn new_review(
        &self,
        pull: &PullRequest,
        draft: &ReviewDraft,
        event: ReviewEvent,
        marker: &str,
        others: &[Review],
    ) -> Review {
        let last = others.iter().map(|review| review.id).max();
        let id = last.unwrap_or(pull.number * IDS) + 1;
        let state = match event {
            ReviewEvent::Comment => ReviewState::Commented,
            ReviewEvent::RequestChanges => ReviewState::ChangesRequested,
            ReviewEvent::Approve => ReviewState::Approved,
        };
        Review {
            id,
            author: ourselves(),
            body: marked_twice(&draft.body, marker),
            commit: Some(draft.commit.clone()),
            state,
            html_url: format!("{}#review-{id}", pull.html_url),
            submitted_at: Some(self.store.now()),
            ours: true,
        }
    }

    fn begin_threads(
        &self,
        threads: &mut Vec<StoredThread>,
        pull: &PullRequest,
        draft: &ReviewDraft,
        diff: &Diff,
        review: u64,
    ) {
        for comment in &draft.comments {
            let id = next_comment(threads, pull.number);
            let now = self.store.now();
            let root = ReviewComment {
                id,
                author: ourselves(),
                body: without_keys(&comment.body),
                html_url: format!("{}#discussion-{id}", pull.html_url),
                created_at: now,
                updated_at: now,
                path: comment.path.clone(),
                in_reply_to: None,
                review: Some(review),
                diff_hunk: history::shown(diff, comment),
                ours: true,
            };
            let thread = Thread {
                id: Some(format!("{}-{id}", pull.number)),
                resolved: false,
                resolved_by: None,
                outdated: false,
                may_resolve: true,
                path: comment.path.clone(),
                line: Some(comment.line),
                comments: vec![root],
            };
            let (commit, side) = (draft.commit.clone(), comment.side);
            threads.push(StoredThread { thread, commit, side, start_line: comment.start_line });
        }
    }

    pub(super) fn mark_resolved(&self, thread: &str) -> Result<bool, ForgeError> {
        let _guard = self.store.lock();
        let number = thread.split('-').next().and_then(|number| number.parse().ok());
        let Some(number) = number else { return Ok(false) };
        if self.store.about()?.archived {
            return Ok(false);
        }
        let mut threads = self.store.threads(number)?;
        let found = threads.iter_mut().find(|kept| kept.thread.id.as_deref() == Some(thread));
        let Some(kept) = found else { return Ok(false) };
        if !kept.thread.resolved {
            kept.thread.resolved = true;
            kept.thread.resolved_by = Some(OURSELVES.to_owned());
            self.store.write_reviews(number, &self.store.reviews(number)?, &threads)?;
        }
        Ok(true)
    }

    pub(super) fn take_back(&self, number: u64, review: u64) -> Result<bool, ForgeError> {
        let _guard = self.store.lock();
        let mut reviews = self.store.reviews(number)?;
        let found = reviews.iter_mut().find(|kept| kept.id == review && kept.state.is_verdict());
        let Some(found) = found else { return Ok(false) };
        found.state = ReviewState::Dismissed;
        self.store.write_reviews(number, &reviews, &self.store.threads(number)?)?;
        Ok(true)
    }

    pub(super) fn read_comment(
        &self,
        number: u64,
        place: CommentPlace,
    ) -> Result<Comment, ForgeError> {
        let found = match place {
            CommentPlace::Conversation { comment } => {
                self.store.comments(number)?.into_iter().find(|other| other.id == comment)
            }
            CommentPlace::Thread { comment, .. } => {
                let threads = self.store.threads(number)?.into_iter();
                let mut comments = threads.flat_map(|kept| kept.thread.comments);
                comments.find(|other| other.id == comment).map(ReviewComment::into_comment)
            }
            CommentPlace::Review { review } => {
                let mut reviews = self.store.reviews(number)?.into_iter();
                reviews.find(|other| other.id == review).map(Review::into_comment)
            }
        };
        found.ok_or_else(|| ForgeError::NotFound { what: format!("a comment on #{number}") })
    }

    pub(super) fn answer(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let _guard = self.store.lock();
        self.open_conversation(repository, number, "answer")?;
        let ours = |login: &str, body: &str| login == OURSELVES && carries_exactly(body, marker);
        let body = marked(body, marker);
        let CommentPlace::Thread { comment, root } = place else {
            let mut comments = self.store.comments(number)?;
            let answered = comments.iter().find(|other| ours(&other.author.login, &other.body));
            if let Some(answer) = answered {
                return Ok(answer.clone());
            }
            let answer = self.store.new_comment(number, ourselves(), body)?;
            comments.push(answer.clone());
            self.store.write_comments(number, &comments)?;
            return Ok(answer);
        };
        let mut threads = self.store.threads(number)?;
        let id = next_comment(&threads, number);
        let has = |kept: &StoredThread, id| kept.thread.comments.iter().any(|other| other.id == id);
        let found = threads.iter_mut().find(|kept| has(kept, root) || has(kept, comment));
        let Some(kept) = found else {
            return Err(ForgeError::NotFound { what: format!("a thread on #{number}") });
        };
        let comments = &mut kept.thread.comments;
        if let Some(answer) = comments.iter().find(|one| ours(&one.author.login, &one.body)) {
            return Ok(answer.clone().into_comment());
        }
        let now = self.store.now();
        let answer = ReviewComment {
            id,
            author: ourselves(),
            body,
            html_url: format!("{}#discussion-{id}", self.store.page("pull-requests", number)),
            created_at: now,
            updated_at: now,
            path: kept.thread.path.clone(),
            in_reply_to: comments.first().map(|root| root.id),
            review: None,
            diff_hunk: comments.first().map(|root| root.diff_hunk.clone()).unwrap_or_default(),
            ours: true,
        };
        comments.push(answer.clone());
        self.store.write_reviews(number, &self.store.reviews(number)?, &threads)?;
        Ok(answer.into_comment())
    }

    pub(super) fn react_at(
        &self,
        repository: &RepositoryId,
        place: CommentPlace,
        content: &str,
    ) -> Result<(), ForgeError> {
        let (kind, comment) = match place {
            CommentPlace::Conversation { comment } => ("comment", comment),
            CommentPlace::Thread { comment, .. } => ("discussion", comment),
            CommentPlace::Review { .. } => return Ok(()),
        };
        let _guard = self.store.lock();
        let number = comment / IDS;
        self.open_conversation(repository, number, "react")?;
        self.read_comment(number, place)?;
        self.store.react(number, &format!("{kind}-{comment}"), content).map(|_| ())
    }
}

/// The id of the next comment on the diff.
fn next_comment(threads: &[StoredThread], number: u64) -> u64 {
    let comments = threads.iter().flat_map(|kept| &kept.thread.comments);
    comments.map(|comment| comment.id).max().unwrap_or(number * IDS) + 1
}
