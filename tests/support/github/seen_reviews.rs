//! What tests see of reviews, threads, checks and drafts, in the first repository.

use super::diff::Diff;
use super::server::Server;
use super::world::{CheckRun, ReviewComment, Status, Thread, World};

/// A review as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewSeen {
    pub(crate) id: u64,
    pub(crate) author: String,
    /// `PENDING`, `COMMENTED`, `APPROVED`, `CHANGES_REQUESTED`, `DISMISSED`.
    pub(crate) state: String,
    pub(crate) body: String,
    pub(crate) commit: String,
    pub(crate) comments: Vec<ReviewCommentSeen>,
}

/// A comment on the diff as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewCommentSeen {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) body: String,
    pub(crate) path: String,
    /// Where it was put; none for a comment on the whole file.
    pub(crate) line: Option<u32>,
    pub(crate) side: &'static str,
    pub(crate) start_line: Option<u32>,
    pub(crate) start_side: Option<&'static str>,
    /// The commit that it was put on.
    pub(crate) commit: String,
    /// Where it is now; none when outdated.
    pub(crate) line_now: Option<u32>,
    pub(crate) outdated: bool,
    pub(crate) resolved: bool,
    /// The root of its thread, when it is a reply.
    pub(crate) in_reply_to: Option<u64>,
    /// The lines of the diff on which it was put, as git has them.
    pub(crate) quoted: Vec<String>,
}

/// A thread as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadSeen {
    pub(crate) path: String,
    /// Where it is now; none when outdated.
    pub(crate) line: Option<u32>,
    pub(crate) outdated: bool,
    pub(crate) resolved_by: Option<String>,
    /// Number, author and text; the first is the root.
    pub(crate) comments: Vec<(u64, String, String)>,
}

fn name(login: Option<&String>) -> String {
    login.cloned().unwrap_or_else(|| "ghost".to_owned())
}

impl World {
    fn seen(&self, number: u64, thread: &Thread, comment: &ReviewComment) -> ReviewCommentSeen {
        let now = self.standing(0, number, thread);
        let root = thread.comments.first().map(|root| root.id).filter(|root| *root != comment.id);
        ReviewCommentSeen {
            id: comment.id,
            author: name(comment.author.as_ref()),
            body: comment.body.clone(),
            path: thread.path.clone(),
            line: thread.line,
            side: thread.side,
            start_line: thread.start.map(|(_, line)| line),
            start_side: thread.start.map(|(side, _)| side),
            commit: thread.commit.clone(),
            line_now: now.line,
            outdated: now.outdated,
            resolved: thread.resolved_by.is_some(),
            in_reply_to: root,
            quoted: self.quoted(thread),
        }
    }

    fn quoted(&self, thread: &Thread) -> Vec<String> {
        let Some(line) = thread.line else { return Vec::new() };
        let path = &self.repositories[0].path;
        let diff = super::diff::between(path, &thread.merge_base, &thread.commit, 3);
        let file = diff.file(&thread.path).expect("a comment is on a file of the diff");
        file.quoted(thread.start, thread.side, line)
    }
}

impl Server {
    /// All reviews with their comments, oldest first; pending ones and the empty ones of replies too.
    pub(crate) fn reviews(&self, number: u64) -> Vec<ReviewSeen> {
        let mut world = self.world();
        world.sync_pulls();
        let pull = world.pull(0, number);
        let comments = |review: u64| {
            let all = pull
                .threads
                .iter()
                .flat_map(|thread| thread.comments.iter().map(move |comment| (thread, comment)));
            all.filter(|(_, comment)| comment.review == review)
                .map(|(thread, comment)| world.seen(number, thread, comment))
                .collect()
        };
        let seen = pull.reviews.iter().map(|review| ReviewSeen {
            id: review.id,
            author: name(review.author.as_ref()),
            state: review.state.to_owned(),
            body: review.body.clone(),
            commit: review.commit.clone(),
            comments: comments(review.id),
        });
        seen.collect()
    }

    /// All comments on the diff, oldest first.
    pub(crate) fn review_comments(&self, number: u64) -> Vec<ReviewCommentSeen> {
        let mut all: Vec<ReviewCommentSeen> =
            self.reviews(number).into_iter().flat_map(|review| review.comments).collect();
        all.sort_by_key(|comment| comment.id);
        all
    }

    /// All threads, in the order in which they were begun.
    pub(crate) fn threads(&self, number: u64) -> Vec<ThreadSeen> {
        let mut world = self.world();
        world.sync_pulls();
        let seen = world.pull(0, number).threads.iter().map(|thread| {
            let now = world.standing(0, number, thread);
            let comments = thread.comments.iter();
            ThreadSeen {
                path: thread.path.clone(),
                line: now.line,
                outdated: now.outdated,
                resolved_by: thread.resolved_by.clone(),
                comments: comments
                    .map(|c| (c.id, name(c.author.as_ref()), c.body.clone()))
                    .collect(),
            }
        });
        seen.collect()
    }

    /// The text of the lines on which a comment was put, joined by newlines, as git has them.
    pub(crate) fn quoted(&self, comment: u64) -> String {
        let world = self.world();
        let (_, thread, _) = world.find_review_comment(0, comment).expect("a review comment");
        world.quoted(thread).join("\n")
    }

    /// Login and content of the reactions to a comment, in the conversation or on the diff.
    pub(crate) fn comment_reactions(&self, comment: u64) -> Vec<(String, String)> {
        let world = self.world();
        let conversation = world.repositories[0].comments.iter().find(|c| c.id == comment);
        let reactions = if let Some(found) = conversation {
            &found.reactions
        } else {
            let (_, thread, at) = world.find_review_comment(0, comment).expect("a comment");
            &thread.comments[at].reactions
        };
        reactions.iter().map(|r| (r.login.clone(), r.content.clone())).collect()
    }

    /// All check runs, oldest first.
    pub(crate) fn check_runs(&self) -> Vec<CheckRun> {
        self.change(|repository| repository.check_runs.clone())
    }

    /// All commit statuses, oldest first.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.change(|repository| repository.statuses.clone())
    }

    /// The head of a pull request.
    pub(crate) fn head_of(&self, number: u64) -> String {
        let mut world = self.world();
        world.sync_pulls();
        world.pull(0, number).last_head.clone()
    }

    /// Its commits, oldest first.
    pub(crate) fn commits_of(&self, number: u64) -> Vec<String> {
        let mut world = self.world();
        world.sync_pulls();
        world.commits(0, number)
    }

    /// The diff of a pull request, by the real git.
    pub(crate) fn diff_of(&self, number: u64) -> std::sync::Arc<Diff> {
        let mut world = self.world();
        world.sync_pulls();
        let head = world.pull(0, number).last_head.clone();
        world.diff(0, number, &head)
    }

    /// Whether the pull request is a draft.
    pub(crate) fn is_draft(&self, number: u64) -> bool {
        self.world().pull(0, number).draft
    }

    /// What was fetched from where logs are.
    pub(crate) fn logs_read(&self) -> Vec<String> {
        self.world().logs_read.clone()
    }
}
