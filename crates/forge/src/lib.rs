//! Where issues and pull requests live.
//!
//! [`Forge`] is a seam with two shipping implementations: GitHub ([`github`]) and a local folder
//! ([`local`], for the demo and `exec`). Reads are retried inside the implementation; a write whose
//! answer was lost is looked up by its marker before it is repeated, so no write happens twice.

mod edits;
mod error;
mod failure;
pub mod github;
mod governance;
mod identity;
pub mod local;
pub mod marker;
mod review;
pub mod seal;
mod tracker;
mod transfer;
mod verification;

use std::path::Path;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use patchwright_git::push::NewCommits;
use patchwright_git::{Oid, PushOutcome};

pub use self::edits::{Edits, PURPOSE as WRITTEN, revised};
pub use self::error::{Credential, ForgeError, Requirement, StateProblem, WayThere};
pub use self::identity::{PullRequestDraft, same_repository};
pub use self::review::{
    BegunCheck, CheckAnnotation, CheckConclusion, CheckDraft, CheckRun, CommentPlace, Comparison,
    InlineComment, Review, ReviewComment, ReviewDraft, ReviewEdits, ReviewEvent, ReviewPosted,
    ReviewState, RunningCheck, RunningChecks, Side, Thread,
};

pub use self::governance::{Governance, MissingContent, PullCommit};
pub use self::tracker::{Label, Tracker, WordMatch};
pub use self::verification::{
    BranchRule, Operator, RuleKind, STAGING, Staged, TextRule, Verification, staging_branch,
};

/// `owner/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RepositoryId {
    pub owner: String,
    pub name: String,
}

impl RepositoryId {
    /// Both are one repository: names do not differ by case.
    pub fn is_same(&self, other: &RepositoryId) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }
}

impl std::str::FromStr for RepositoryId {
    type Err = String;

    /// Accepts what GitHub accepts as owner and name, and nothing that could be a path trick.
    fn from_str(text: &str) -> Result<RepositoryId, String> {
        let mistake = || format!("`{text}` is not a repository; write it as `OWNER/REPO`");
        let (owner, name) = text.split_once('/').ok_or_else(mistake)?;
        let is_plain = |part: &str| {
            !part.is_empty()
                && part.len() <= 100
                && part != "."
                && part != ".."
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if !is_plain(owner) || !is_plain(name) || owner.starts_with('.') {
            return Err(mistake());
        }
        Ok(RepositoryId { owner: owner.to_owned(), name: name.to_owned() })
    }
}

/// What we need to know of a repository.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as the forge tells them")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repository {
    /// As the forge spells it now (after renames).
    pub id: RepositoryId,
    /// What it is, whatever it is called and whoever owns it; empty where the forge does not say.
    #[serde(default)]
    pub node_id: String,
    pub default_branch: String,
    pub archived: bool,
    /// Pull requests are turned off there.
    #[serde(default)]
    pub refuses_pulls: bool,
    /// Pull requests are taken from nobody but those who may push.
    #[serde(default)]
    pub pulls_by_collaborators_only: bool,
    /// Whether we may push to it, as far as the forge says; it tells nothing of the tokens of apps.
    #[serde(default)]
    pub can_push: Option<bool>,
    pub private: bool,
    /// Where git clones it from; never with credentials in it.
    pub clone_url: String,
    pub html_url: String,
}

/// An account, as far as trust is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub login: String,
    pub is_bot: bool,
}

impl Account {
    /// An account of which only the login is known.
    pub fn of(login: &str) -> Account {
        Account { login: login.to_owned(), is_bot: login.ends_with("[bot]") }
    }

    /// An app or another machine account.
    pub fn is_machine(&self) -> bool {
        self.is_bot || self.login.ends_with("[bot]")
    }

    /// Both are one account: GitHub's REST API calls an app `name[bot]`, GraphQL `name` and says that it is a bot.
    pub fn is_same(&self, other: &Account) -> bool {
        self.is_machine() == other.is_machine() && self.has_login(&other.login)
    }

    /// The login is this account's, whichever way an app's is written.
    pub fn has_login(&self, login: &str) -> bool {
        let bare = |login: &str| login.trim_end_matches("[bot]").to_ascii_lowercase();
        bare(&self.login) == bare(login)
    }
}

/// What an account may do in a repository (`role_name`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    None,
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Issue {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub author: Account,
    pub open: bool,
    pub locked: bool,
    /// The number is a pull request's.
    pub is_pull_request: bool,
    pub labels: Vec<String>,
    /// Comments that there are, read or not.
    #[serde(default)]
    pub comments: usize,
    pub html_url: String,
    pub created_at: DateTime<Utc>,
    /// Last change of title, body, labels or state.
    pub updated_at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comment {
    pub id: u64,
    pub author: Account,
    pub body: String,
    pub html_url: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// We wrote it, here: the account is ours, and the [`seal`] fits. What it says of itself counts only
    /// then.
    #[serde(skip)]
    pub ours: bool,
    /// How often we wrote it, where that is told: of two that are ours, the higher one is the newer.
    #[serde(skip)]
    pub revision: u64,
    /// Its text was not kept, because all comments of the conversation together are too long. Never one
    /// of ours.
    #[serde(skip)]
    pub left_out: bool,
}

impl Comment {
    /// The one of ours that says how things are now: of the highest revision, and of those the oldest.
    pub fn newest<'a>(comments: impl IntoIterator<Item = &'a Comment>) -> Option<&'a Comment> {
        let ours = comments.into_iter().filter(|comment| comment.ours);
        ours.max_by_key(|comment| (comment.revision, std::cmp::Reverse(comment.id)))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as the forge tells them")]
pub struct PullRequest {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub html_url: String,
    pub open: bool,
    pub merged: bool,
    pub draft: bool,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub base_sha: String,
    pub author: Account,
    /// Where the head branch is; `None` when that fork has been deleted.
    pub head_repository: Option<RepositoryId>,
    /// The head is in another repository than the base.
    pub is_fork: bool,
    /// When somebody last pushed to the head's repository, to whichever branch, by the forge's clock.
    #[serde(default)]
    pub head_pushed_at: Option<DateTime<Utc>>,
    /// People with write access here may push to the fork's branch.
    pub maintainer_can_modify: bool,
    pub locked: bool,
    pub labels: Vec<String>,
    /// Comments of its conversation, read or not; 0 where a list does not tell.
    #[serde(default)]
    pub comments: usize,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// Whether `open_or_update` made the pull request or found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Created,
    Updated,
    Unchanged,
}

impl Operation {
    /// The word for outputs.
    pub fn word(self) -> &'static str {
        match self {
            Operation::Created => "created",
            Operation::Updated => "updated",
            Operation::Unchanged => "unchanged",
        }
    }
}

/// A text with the pictures that it shows.
#[derive(Clone, Debug, Default)]
pub struct RenderedBody {
    /// The text as it was when the pictures were read.
    pub body: String,
    pub pictures: Vec<Picture>,
}

/// A picture, or why it could not be had.
#[derive(Clone, Debug)]
pub struct Picture {
    /// For people: without what signs it.
    pub address: String,
    pub content: Result<Vec<u8>, String>,
}

/// The place where issues and pull requests live. All text that goes out has been redacted before.
#[async_trait]
pub trait Forge: Governance + RunningChecks + Tracker + Send + Sync {
    /// The account that we act as. Without it, nothing that is there counts as ours.
    async fn viewer(&self) -> Result<Option<Account>, ForgeError>;

    async fn repository(&self, id: &RepositoryId) -> Result<Repository, ForgeError>;

    /// What `login` may do. Any trouble is an error, and callers take errors as no.
    async fn role(&self, repository: &RepositoryId, login: &str) -> Result<Role, ForgeError>;

    async fn issue(&self, repository: &RepositoryId, number: u64) -> Result<Issue, ForgeError>;

    /// The pictures that the text of an issue or a pull request shows, of those that the forge itself keeps: the
    /// first `count`, each of at most `bytes` bytes.
    async fn pictures(
        &self,
        _repository: &RepositoryId,
        _number: u64,
        _count: usize,
        _bytes: usize,
    ) -> Result<RenderedBody, ForgeError> {
        Ok(RenderedBody::default())
    }

    /// All comments, oldest first; complete or an error. At most `limit` are fetched (newest kept), and of
    /// texts that are too long together the oldest are [left out](Comment::left_out).
    async fn comments(
        &self,
        repository: &RepositoryId,
        issue: u64,
        limit: usize,
    ) -> Result<Vec<Comment>, ForgeError>;

    /// Adds our 👀 (or another reaction content) to an issue; adding it again is fine. Returns its id.
    async fn react(
        &self,
        repository: &RepositoryId,
        issue: u64,
        content: &str,
    ) -> Result<u64, ForgeError>;

    /// Removes a label; true when it was there.
    async fn remove_label(
        &self,
        repository: &RepositoryId,
        issue: u64,
        label: &str,
    ) -> Result<bool, ForgeError>;

    /// Creates the one comment of ours that ends with `marker`, or edits it. `known` is its id when we
    /// have it. A comment that we cannot tell for our own is left alone. Returns the comment as it is
    /// now.
    async fn upsert_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        known: Option<u64>,
        body: &str,
    ) -> Result<Comment, ForgeError>;

    /// Creates a comment that ends with `marker`, whatever other comments of ours there are. A lost answer
    /// is resolved by looking for this very marker.
    async fn post_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let place = CommentPlace::Conversation { comment: 0 };
        self.reply(repository, issue, place, marker, body).await
    }

    /// Deletes a comment of ours; one that is gone already is fine.
    async fn delete_comment(
        &self,
        repository: &RepositoryId,
        comment: u64,
    ) -> Result<(), ForgeError>;

    /// Pull requests from a branch of the repository itself or of a fork, open ones first, newest first.
    async fn pull_requests_from(
        &self,
        repository: &RepositoryId,
        head_repository: &RepositoryId,
        head_branch: &str,
    ) -> Result<Vec<PullRequest>, ForgeError>;

    /// Creates the pull request, or brings the open one from the same branch up to date, but for what people have
    /// edited of it. The body carries `marker`; a lost answer is resolved by looking for it.
    async fn open_or_update(
        &self,
        repository: &RepositoryId,
        draft: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError>;

    /// Adds labels; labels that the forge drops silently are fine.
    async fn add_labels(
        &self,
        repository: &RepositoryId,
        number: u64,
        labels: &[String],
    ) -> Result<(), ForgeError>;

    /// Asks for reviews; returns those who could not be asked.
    async fn request_reviewers(
        &self,
        repository: &RepositoryId,
        number: u64,
        reviewers: &[String],
    ) -> Result<Vec<String>, ForgeError>;

    /// The commit that a branch points to now, asked of the forge itself.
    async fn branch_tip(
        &self,
        repository: &RepositoryId,
        branch: &str,
    ) -> Result<Option<Oid>, ForgeError>;

    /// The branches that have one of these names, or beside which no branch of such a name can be:
    /// `a` and `a/b` exclude each other.
    async fn branches_beside(
        &self,
        repository: &Repository,
        names: &[String],
    ) -> Result<Vec<String>, ForgeError>;

    /// Brings `refs` (branch names or commit ids) of the repository into the bare repository at
    /// `into`, `depth` commits deep.
    async fn fetch(
        &self,
        repository: &Repository,
        into: &Path,
        refs: &[String],
        depth: u32,
    ) -> Result<(), ForgeError>;

    /// Pushes exactly these commits to exactly one branch; `expected` is what the branch must point to
    /// for the push to happen (`None`: must not exist). A push whose answer was lost is looked up.
    async fn push(
        &self,
        repository: &Repository,
        from: &Path,
        commits: NewCommits,
        branch: &str,
        expected: Option<Oid>,
    ) -> Result<PushOutcome, ForgeError>;

    async fn pull_request(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<PullRequest, ForgeError>;

    /// Replaces title and description.
    async fn describe_pull_request(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError>;

    /// Open pull requests that have this commit as their head, whatever repository it is in.
    async fn pull_requests_at(
        &self,
        repository: &RepositoryId,
        head_sha: &str,
    ) -> Result<Vec<PullRequest>, ForgeError>;

    /// Converts to a draft, or marks as ready.
    async fn set_draft(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: bool,
    ) -> Result<(), ForgeError>;

    /// How `head` relates to `base`.
    async fn compare(
        &self,
        repository: &RepositoryId,
        base: &str,
        head: &str,
    ) -> Result<Comparison, ForgeError>;

    /// All submitted reviews and our own pending one, oldest first.
    async fn reviews(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Review>, ForgeError>;

    /// When the texts of the newest reviews were edited; never, where nobody can edit them.
    async fn review_edits(&self, of: &RepositoryId, pull: u64) -> Result<ReviewEdits, ForgeError> {
        let reviews = self.reviews(of, pull).await?;
        Ok(reviews.into_iter().map(|review| (review.id, None)).collect())
    }

    /// All threads on the diff with all their comments.
    async fn threads(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Thread>, ForgeError>;

    /// Posts a review whose body carries `marker`, exactly once: a lost answer is resolved by looking
    /// for the marker. A pending review that we left is removed when it is in the way; one that somebody
    /// else began as the same account is left alone.
    async fn post_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
        marker: &str,
    ) -> Result<ReviewPosted, ForgeError>;

    /// Resolves a thread of a pull request of this repository; false when we may not.
    async fn resolve_thread(&self, of: &RepositoryId, thread: &str) -> Result<bool, ForgeError>;

    /// Takes back what a review of ours said as a whole; its comments stay. False when we may not, or
    /// when there is nothing to take back.
    async fn dismiss_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        review: u64,
        message: &str,
    ) -> Result<bool, ForgeError>;

    /// The comment behind a place: author, text, when.
    async fn comment_at(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
    ) -> Result<Comment, ForgeError>;

    /// Answers where it was asked, once: the body carries `marker`. What was asked in a review's body
    /// is answered in the conversation.
    async fn reply(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError>;

    /// A reaction to a comment; adding it again is fine. A review's body takes none, which is fine too.
    async fn react_to(
        &self,
        repository: &RepositoryId,
        place: CommentPlace,
        content: &str,
    ) -> Result<(), ForgeError>;

    /// Creates or replaces our check run of this name on this commit; a commit status where the token
    /// may not write check runs. Returns its page.
    async fn put_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<Option<String>, ForgeError>;

    /// The latest check runs on a commit, with their annotations, and its commit statuses.
    async fn check_runs(
        &self,
        repository: &RepositoryId,
        sha: &str,
    ) -> Result<Vec<CheckRun>, ForgeError>;

    /// The end of the log of a check run, at most `limit` bytes; `None` when it has none.
    async fn check_log(
        &self,
        repository: &RepositoryId,
        check: &CheckRun,
        limit: usize,
    ) -> Result<Option<String>, ForgeError>;

    /// The page that compares base and branch, for people who open the pull request by hand. The branch of a
    /// fork is named with its owner: `owner:branch`.
    fn compare_url(&self, repository: &Repository, base: &str, branch: &str) -> String;
}
