//! Reviews, their threads, checks and comparisons, as plain data.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Account, Comment, ForgeError, RepositoryId};

/// Which version of a file a line number counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The old one, of deleted lines.
    Left,
    /// The new one, of added lines and context.
    Right,
}

/// A comment on lines of the diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineComment {
    pub path: String,
    pub side: Side,
    /// The last line.
    pub line: u32,
    /// The first line, strictly before `line`, in the same hunk.
    pub start_line: Option<u32>,
    pub body: String,
}

/// What a review says about the pull request as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewEvent {
    #[default]
    Comment,
    RequestChanges,
    Approve,
}

/// A review as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewDraft {
    /// The commit that was read.
    pub commit: String,
    /// Carries the marker in both forms.
    pub body: String,
    pub event: ReviewEvent,
    pub comments: Vec<InlineComment>,
}

/// What a review stands for, as GitHub has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReviewState {
    Approved,
    ChangesRequested,
    Commented,
    Dismissed,
    /// Not submitted yet.
    Pending,
    /// One that GitHub has and this version does not know: it decides nothing.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ReviewState {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            ReviewState::Approved => "approved",
            ReviewState::ChangesRequested => "changes requested",
            ReviewState::Commented => "commented",
            ReviewState::Dismissed => "dismissed",
            ReviewState::Pending => "pending",
            ReviewState::Unknown => "unknown",
        }
    }

    /// It says yes or no to the pull request.
    pub fn is_verdict(self) -> bool {
        matches!(self, ReviewState::Approved | ReviewState::ChangesRequested)
    }
}

/// A submitted review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub id: u64,
    pub author: Account,
    pub body: String,
    pub commit: Option<String>,
    pub state: ReviewState,
    pub html_url: String,
    pub submitted_at: Option<DateTime<Utc>>,
    /// As [`Comment::ours`].
    #[serde(skip)]
    pub ours: bool,
}

impl Review {
    /// Its body as a comment. When it was edited is not known.
    pub fn into_comment(self) -> Comment {
        let when = self.submitted_at.unwrap_or_default();
        Comment {
            id: self.id,
            author: self.author,
            body: self.body,
            html_url: self.html_url,
            created_at: when,
            updated_at: when,
            ours: self.ours,
            revision: 0,
            left_out: false,
        }
    }
}

/// When the text of a review was edited last, by its number; `None` is never. Of one that is not here it is not known.
pub type ReviewEdits = HashMap<u64, Option<DateTime<Utc>>>;

/// What became of an attempt to post a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewPosted {
    /// It is there, exactly once. `event` may be weaker than asked for, and why.
    Yes { review: Review, weaker: Option<String> },
    /// The forge does not take these comments (indices into the draft's; all of them when it does not
    /// say which). Nothing was posted.
    Refused { comments: Vec<usize>, message: String },
    /// The commit is no longer part of the pull request. Nothing was posted.
    HeadMoved,
    /// A review that was begun as our account and not submitted is in the way, and it is not ours to
    /// delete. Nothing was posted.
    Unsubmitted { message: String },
    /// We may not write here (a fork's token, a locked conversation). Nothing was posted.
    MayNot { message: String },
}

/// A conversation on the diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// What resolves it; absent when the forge gave the comments only.
    pub id: Option<String>,
    pub resolved: bool,
    /// Login of who resolved it.
    pub resolved_by: Option<String>,
    /// The lines have changed since.
    pub outdated: bool,
    pub may_resolve: bool,
    pub path: String,
    /// Where it is now; absent when outdated.
    pub line: Option<u32>,
    /// Oldest first; the first is the root, to which replies go.
    pub comments: Vec<ReviewComment>,
}

/// A comment in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    pub id: u64,
    pub author: Account,
    pub body: String,
    pub html_url: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub path: String,
    /// The root of its thread, when it is a reply.
    pub in_reply_to: Option<u64>,
    /// The review that it came with.
    pub review: Option<u64>,
    pub diff_hunk: String,
    /// As [`Comment::ours`].
    #[serde(skip)]
    pub ours: bool,
}

impl ReviewComment {
    /// This comment without its place on the diff.
    pub fn into_comment(self) -> Comment {
        Comment {
            id: self.id,
            author: self.author,
            body: self.body,
            html_url: self.html_url,
            created_at: self.created_at,
            updated_at: self.updated_at,
            ours: self.ours,
            revision: 0,
            left_out: false,
        }
    }
}

/// How one commit relates to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    Identical,
    /// The second has the first in its history.
    Ahead,
    Behind,
    Diverged,
    /// One of them is gone (a force-push, garbage collection).
    Unknown,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckConclusion {
    Success,
    /// Passes where the check is required, as GitHub counts it.
    Neutral,
    Failure,
    /// Somebody has to look: where the check is required, it keeps the change from being merged.
    ActionRequired,
}

/// Checks that say that something works, until it has come to its end.
#[async_trait]
pub trait RunningChecks {
    /// Says on the commit that this check runs, where the token may write check runs; one of ours that runs already is
    /// left as it is.
    async fn begin_check(
        &self,
        repository: &RepositoryId,
        check: &RunningCheck,
    ) -> Result<BegunCheck, ForgeError>;

    /// Ends our check of this name on this commit if it still runs; one that has ended says what it says.
    async fn end_running_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<(), ForgeError>;
}

/// What became of a check that was to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BegunCheck {
    /// It runs; false where the token may not write check runs.
    pub runs: bool,
    /// The newest of ours of this name on this commit that has come to a verdict failed.
    pub failed_before: bool,
}

/// A check that has begun and says nothing yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCheck {
    /// As [`CheckDraft::name`].
    pub name: String,
    pub head_sha: String,
    pub title: String,
    pub summary: String,
    pub details_url: Option<String>,
}

/// A check run as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDraft {
    /// What people see in the list of checks, and by which it is found again on the same commit.
    pub name: String,
    pub head_sha: String,
    pub conclusion: CheckConclusion,
    pub title: String,
    pub summary: String,
    pub annotations: Vec<CheckAnnotation>,
    pub details_url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnnotation {
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub is_failure: bool,
    pub title: String,
    pub message: String,
}

/// A check that ran on a commit, of whatever app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    pub id: u64,
    pub name: String,
    /// Slug of the app: `github-actions`; of a commit status words that are no slug.
    pub app: String,
    pub completed: bool,
    /// `success`, `failure`, `timed_out`, …
    pub conclusion: Option<String>,
    pub html_url: String,
    pub summary: String,
    /// Path, line and message of its annotations.
    pub annotations: Vec<CheckAnnotation>,
}

/// What a reaction or an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "snake_case")]
pub enum CommentPlace {
    /// The conversation of an issue or pull request.
    Conversation { comment: u64 },
    /// A thread on the diff; `root` is its first comment.
    Thread { comment: u64, root: u64 },
    /// The body of a review.
    Review { review: u64 },
}
