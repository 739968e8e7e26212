//! A forge in a folder: a bare repository, issues, comments and pull requests as files that people
//! can open. Used by `demo`, by tests, and by whoever wants to try things without GitHub.
//!
//! ```text
//! repository.json     its name and default branch, who may what
//! repository.git/     bare
//! issues/7.json       the issue;        issues/7.md  the same with its comments, to read
//! comments/7.json     its comments, oldest first;  reactions/7.json
//! pull-requests/8.json                  pull-requests/8.md, with all that was said about it
//! reviews/8.json, threads/8.json        its reviews and their threads
//! checks/<sha>.json                     checks/<sha>.md
//! ```
//! Issues and pull requests share their numbers, as on GitHub. There is no access control beyond the
//! table in `repository.json`: whoever can write to the folder can do everything.

mod checks;
mod history;
mod pulls;
mod reviews;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use self::store::{RepositoryFile, Store};
use super::{
    Account, CheckDraft, CheckRun, Comment, CommentPlace, Comparison, Edits, Forge, ForgeError,
    Issue, Operation, PullRequest, PullRequestDraft, Repository, RepositoryId, Review, ReviewDraft,
    ReviewPosted, Role, Thread, transfer,
};
use patchwright_base::clock::Clock;
use patchwright_git::push::NewCommits;
use patchwright_git::transport::Remote;
use patchwright_git::{Oid, PushOutcome};

/// The account that we are here.
const OURSELVES: &str = "patchwright[bot]";

/// What a new folder starts with.
#[derive(Clone, Debug)]
pub struct Seed {
    pub id: RepositoryId,
    /// Path and content of the files of the first commit.
    pub files: Vec<(String, Vec<u8>)>,
    /// Number, title and body.
    pub issues: Vec<(u64, String, String)>,
    /// Who wrote the issues; may do everything.
    pub owner: String,
}

/// A forge in a folder.
#[derive(Debug)]
pub struct LocalForge {
    store: Store,
    dir: PathBuf,
}

impl LocalForge {
    /// Makes the folder with one commit on `main` and the issues.
    pub fn create(dir: &Path, seed: &Seed, clock: Clock) -> Result<LocalForge, ForgeError> {
        let about = RepositoryFile {
            id: seed.id.clone(),
            default_branch: "main".to_owned(),
            archived: false,
            roles: BTreeMap::from([(seed.owner.clone(), Role::Admin)]),
        };
        let store = Store::create(dir, &about, clock)?;
        store::first_commit(&dir.join("repository.git"), &seed.files, clock.now())?;
        let now = clock.now();
        for (number, title, body) in &seed.issues {
            store.write_issue(&Issue {
                number: *number,
                title: title.clone(),
                body: body.clone(),
                author: Account { login: seed.owner.clone(), is_bot: false },
                open: true,
                locked: false,
                is_pull_request: false,
                labels: Vec::new(),
                comments: 0,
                html_url: store.page("issues", *number),
                created_at: now,
                updated_at: now,
            })?;
        }
        Ok(LocalForge { store, dir: dir.to_owned() })
    }

    /// Opens a folder that [`LocalForge::create`] made.
    pub fn open(dir: &Path, clock: Clock) -> Result<LocalForge, ForgeError> {
        Ok(LocalForge { store: Store::open(dir, clock)?, dir: dir.to_owned() })
    }

    /// The bare repository.
    pub fn repository_path(&self) -> PathBuf {
        self.dir.join("repository.git")
    }

    fn about(&self, id: &RepositoryId) -> Result<RepositoryFile, ForgeError> {
        match self.store.about()? {
            about if about.id == *id => Ok(about),
            _ => Err(ForgeError::NotFound { what: format!("repository `{id}`") }),
        }
    }

    fn writable(&self, id: &RepositoryId, action: &str) -> Result<RepositoryFile, ForgeError> {
        let about = self.about(id)?;
        if about.archived {
            let message = format!("cannot {action}: the repository is archived and read-only");
            return Err(ForgeError::state(message));
        }
        Ok(about)
    }
}

fn ourselves() -> Account {
    Account { login: OURSELVES.to_owned(), is_bot: true }
}

impl crate::Governance for LocalForge {}

impl crate::Tracker for LocalForge {}

#[async_trait]
impl Forge for LocalForge {
    async fn viewer(&self) -> Result<Option<Account>, ForgeError> {
        Ok(Some(ourselves()))
    }

    async fn repository(&self, id: &RepositoryId) -> Result<Repository, ForgeError> {
        let about = self.about(id)?;
        Ok(Repository {
            id: about.id,
            node_id: String::new(),
            default_branch: about.default_branch,
            archived: about.archived,
            refuses_pulls: false,
            pulls_by_collaborators_only: false,
            can_push: Some(true),
            private: true,
            clone_url: self.repository_path().display().to_string(),
            html_url: self.dir.display().to_string(),
        })
    }

    async fn role(&self, repository: &RepositoryId, login: &str) -> Result<Role, ForgeError> {
        let about = self.about(repository)?;
        about
            .roles
            .get(login)
            .copied()
            .ok_or_else(|| ForgeError::NotFound { what: format!("account `{login}`") })
    }

    async fn issue(&self, repository: &RepositoryId, number: u64) -> Result<Issue, ForgeError> {
        self.about(repository)?;
        self.store.issue(number)
    }

    async fn comments(
        &self,
        repository: &RepositoryId,
        issue: u64,
        limit: usize,
    ) -> Result<Vec<Comment>, ForgeError> {
        self.about(repository)?;
        self.store.issue(issue)?;
        let mut comments = self.store.comments(issue)?;
        let surplus = comments.len().saturating_sub(limit);
        comments.drain(..surplus);
        Ok(comments)
    }

    async fn react(
        &self,
        repository: &RepositoryId,
        issue: u64,
        content: &str,
    ) -> Result<u64, ForgeError> {
        let _guard = self.store.lock();
        self.open_conversation(repository, issue, "react")?;
        self.store.react(issue, &issue.to_string(), content)
    }

    async fn remove_label(
        &self,
        repository: &RepositoryId,
        issue: u64,
        label: &str,
    ) -> Result<bool, ForgeError> {
        self.take_label(repository, issue, label)
    }

    async fn upsert_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        known: Option<u64>,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        self.write_comment(repository, issue, marker, known, body)
    }

    async fn delete_comment(
        &self,
        repository: &RepositoryId,
        comment: u64,
    ) -> Result<(), ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "delete a comment")?;
        self.store.delete_comment(comment)
    }

    async fn pull_requests_from(
        &self,
        repository: &RepositoryId,
        // A folder has no forks.
        _head_repository: &RepositoryId,
        head_branch: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        self.pulls_from(repository, head_branch)
    }

    async fn open_or_update(
        &self,
        repository: &RepositoryId,
        draft: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError> {
        self.publish_pull(repository, draft, marker)
    }

    async fn add_labels(
        &self,
        repository: &RepositoryId,
        number: u64,
        labels: &[String],
    ) -> Result<(), ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "add labels")?;
        let mut issue = self.store.issue(number)?;
        for label in labels {
            if !issue.labels.iter().any(|other| other.eq_ignore_ascii_case(label)) {
                issue.labels.push(label.clone());
            }
        }
        self.store.write_issue(&issue)
    }

    async fn request_reviewers(
        &self,
        repository: &RepositoryId,
        number: u64,
        reviewers: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        let about = self.writable(repository, "ask for reviews")?;
        self.store.pull(number)?;
        let unknown = |login: &&String| !about.roles.contains_key(*login);
        Ok(reviewers.iter().filter(unknown).cloned().collect())
    }

    async fn branch_tip(
        &self,
        repository: &RepositoryId,
        branch: &str,
    ) -> Result<Option<Oid>, ForgeError> {
        self.about(repository)?;
        store::tip(&self.repository_path(), branch)
    }

    async fn branches_beside(
        &self,
        _repository: &Repository,
        names: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        let remote = Remote::local(&self.repository_path());
        let name = remote.name();
        let found = transfer::branches_beside(remote, names).await;
        found.map_err(|err| err.into_forge_error(&name, "read"))
    }

    async fn fetch(
        &self,
        _repository: &Repository,
        into: &Path,
        refs: &[String],
        depth: u32,
    ) -> Result<(), ForgeError> {
        let remote = Remote::local(&self.repository_path());
        let name = remote.name();
        let fetched = transfer::fetch(remote, into, refs, depth).await;
        fetched.map_err(|err| err.into_forge_error(&name, "read"))
    }

    async fn push(
        &self,
        repository: &Repository,
        from: &Path,
        commits: NewCommits,
        branch: &str,
        expected: Option<Oid>,
    ) -> Result<PushOutcome, ForgeError> {
        self.writable(&repository.id, "push")?;
        let remote = Remote::local(&self.repository_path());
        let name = remote.name();
        let what = transfer::PushSpec { from, commits, branch, expected };
        let pushed = transfer::push(remote, what, transfer::permitted).await;
        pushed.map_err(|err| err.into_forge_error(&name, "push to"))
    }

    async fn pull_request(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<PullRequest, ForgeError> {
        self.about(repository)?;
        self.store.pull(number)
    }

    async fn pull_requests_at(
        &self,
        repository: &RepositoryId,
        head_sha: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        self.about(repository)?;
        let mut pulls = self.store.pulls()?;
        pulls.retain(|pull| pull.open && pull.head_sha == head_sha);
        Ok(pulls)
    }

    async fn describe_pull_request(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        self.describe(repository, number, title, body)
    }

    async fn set_draft(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: bool,
    ) -> Result<(), ForgeError> {
        self.turn_draft(repository, number, draft)
    }

    async fn compare(
        &self,
        repository: &RepositoryId,
        base: &str,
        head: &str,
    ) -> Result<Comparison, ForgeError> {
        self.about(repository)?;
        history::compare(&self.repository_path(), base, head)
    }

    async fn reviews(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Review>, ForgeError> {
        self.about(repository)?;
        self.store.pull(number)?;
        self.store.reviews(number)
    }

    async fn threads(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Thread>, ForgeError> {
        self.about(repository)?;
        self.threads_now(number)
    }

    async fn post_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
        marker: &str,
    ) -> Result<ReviewPosted, ForgeError> {
        self.submit_review(repository, number, draft, marker)
    }

    async fn resolve_thread(
        &self,
        _repository: &RepositoryId,
        thread: &str,
    ) -> Result<bool, ForgeError> {
        self.mark_resolved(thread)
    }

    async fn dismiss_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        review: u64,
        _: &str,
    ) -> Result<bool, ForgeError> {
        self.writable(repository, "dismiss a review")?;
        self.take_back(number, review)
    }

    async fn comment_at(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
    ) -> Result<Comment, ForgeError> {
        self.about(repository)?;
        self.read_comment(number, place)
    }

    async fn reply(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        self.answer(repository, number, place, marker, body)
    }

    async fn react_to(
        &self,
        repository: &RepositoryId,
        place: CommentPlace,
        content: &str,
    ) -> Result<(), ForgeError> {
        self.react_at(repository, place, content)
    }

    async fn put_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<Option<String>, ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "write a check")?;
        self.write_check(check).map(Some)
    }

    async fn check_runs(
        &self,
        repository: &RepositoryId,
        sha: &str,
    ) -> Result<Vec<CheckRun>, ForgeError> {
        self.about(repository)?;
        self.checks_on(sha)
    }

    async fn check_log(
        &self,
        _repository: &RepositoryId,
        _check: &CheckRun,
        _limit: usize,
    ) -> Result<Option<String>, ForgeError> {
        Ok(None)
    }

    fn compare_url(&self, _repository: &Repository, base: &str, branch: &str) -> String {
        format!("git -C {} diff {base}...{branch}", self.repository_path().display())
    }
}
