//! GitHub, github.com and Enterprise Server, over its REST API, its GraphQL API for what REST lacks,
//! and git's smart HTTP.
//!
//! [`GitHubForge`] is made once per process from [`GitHubOptions`] and shared. One file per
//! resource; [`http`] is the only one that sends, through octocrab. What a client library would hide is
//! in layers of our own below it ([`layers`]): which request may be sent twice, whose limit everybody
//! waits for, where a page link may lead, which token goes out. [`wire`] and [`wire_reviews`] know the
//! JSON shapes.

mod answers;
mod app;
mod app_search;
mod body;
mod builder;
mod check_runs;
mod checks;
mod comments;
mod connection;
mod deliveries;
mod discovery;
mod drafts;
mod forks;
mod gate;
mod git;
mod graphql;
mod history;
mod housekeeping;
mod http;
mod installations;
mod installed_app;
mod issue_search;
mod issues;
mod layers;
mod lfs;
mod limits;
mod lookups;
mod names;
mod off_diff;
mod pages;
mod people;
mod pictures;
mod preflight;
mod preflight_pulls;
mod preflight_rest;
mod pull_metadata;
mod pulls;
mod refusal;
mod review_edits;
mod review_refusal;
mod reviews;
mod rules;
mod sealed;
mod signing;
mod slots;
mod staging;
mod threads;
mod token;
mod waiting;
mod wire;
mod wire_reviews;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::sync::OnceCell;
use url::Url;

pub use self::app::Key as AppKey;
pub use self::deliveries::{HookDelivery, HookSource};
pub use self::discovery::{
    HeadFacts, MergeFacts, PreflightQuery, PullFacts, RepositoryFacts, RepositoryList,
};
pub use self::gate::Gate;
pub use self::housekeeping::{BranchRemoval, PullReference, PullState};
pub use self::installed_app::InstalledApp;
pub use self::limits::{LimitedAccount, Pace};
pub use self::lookups::ChangedFiles;
pub use self::names::{DigestSet, RepositoryNames};
pub use self::preflight::Preflight;

use self::http::{Api, Call, segment};
use super::seal::Seal;
use super::{
    Account, CheckDraft, CheckRun, Comment, CommentPlace, Comparison, Edits, Forge, ForgeError,
    Issue, Operation, PullRequest, PullRequestDraft, RenderedBody, Repository, RepositoryId,
    Review, ReviewDraft, ReviewEdits, ReviewPosted, Role, Thread, transfer::PushSpec,
};
use patchwright_git::push::NewCommits;
use patchwright_git::{Oid, PushOutcome};

const ISSUES_WRITE: &str = "issues: write";
const PULLS_WRITE: &str = "pull-requests: write";

/// Which GitHub, as whom, and how fast.
pub struct GitHubOptions {
    /// `https://api.github.com`, or `https://HOST/api/v3` on Enterprise Server.
    pub api_url: Url,
    /// `https://api.github.com/graphql`, or `https://HOST/api/graphql`.
    pub graphql_url: Url,
    /// `https://github.com`: where people look and git clones.
    pub server_url: Url,
    pub token: SecretString,
    /// The client that everything shares. It should not follow redirects by itself.
    pub http: reqwest::Client,
    pub pace: Pace,
    /// By which our comments are told from those of others.
    pub seal: Seal,
}

impl fmt::Debug for GitHubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHubOptions")
            .field("api_url", &self.api_url.as_str())
            .field("graphql_url", &self.graphql_url.as_str())
            .field("server_url", &self.server_url.as_str())
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// GitHub.
pub struct GitHubForge {
    api: Api,
    server_url: Url,
    http: reqwest::Client,
    viewer: Arc<OnceCell<Option<Account>>>,
    seal: Seal,
}

/// A path below `repos/OWNER/NAME`; `rest` is already encoded.
fn route(repository: &RepositoryId, rest: &str) -> String {
    let slash = if rest.is_empty() { "" } else { "/" };
    format!("repos/{}/{}{slash}{rest}", segment(&repository.owner), segment(&repository.name))
}

#[async_trait]
impl Forge for GitHubForge {
    async fn viewer(&self) -> Result<Option<Account>, ForgeError> {
        self.own_account().await
    }

    async fn repository(&self, id: &RepositoryId) -> Result<Repository, ForgeError> {
        let call = Call::get(route(id, ""), format!("repository `{id}`"));
        self.repository_from(self.api.read_json(&call).await?)
    }

    async fn role(&self, repository: &RepositoryId, login: &str) -> Result<Role, ForgeError> {
        self.permission_of(repository, login).await
    }

    async fn issue(&self, repository: &RepositoryId, number: u64) -> Result<Issue, ForgeError> {
        self.read_issue(repository, number).await
    }

    async fn pictures(
        &self,
        repository: &RepositoryId,
        number: u64,
        count: usize,
        bytes: usize,
    ) -> Result<RenderedBody, ForgeError> {
        self.read_pictures(repository, number, count, bytes).await
    }

    async fn comments(
        &self,
        repository: &RepositoryId,
        issue: u64,
        limit: usize,
    ) -> Result<Vec<Comment>, ForgeError> {
        self.list_comments(repository, issue, limit).await
    }

    async fn react(
        &self,
        repository: &RepositoryId,
        issue: u64,
        content: &str,
    ) -> Result<u64, ForgeError> {
        self.add_reaction(repository, issue, content).await
    }

    async fn remove_label(
        &self,
        repository: &RepositoryId,
        issue: u64,
        label: &str,
    ) -> Result<bool, ForgeError> {
        self.take_label_off(repository, issue, label).await
    }

    async fn upsert_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        known: Option<u64>,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        self.write_comment(repository, issue, marker, known, body).await
    }

    async fn post_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        self.write_new_comment(repository, issue, marker, body).await
    }

    async fn delete_comment(
        &self,
        repository: &RepositoryId,
        comment: u64,
    ) -> Result<(), ForgeError> {
        self.remove_comment(repository, comment).await
    }

    async fn pull_requests_from(
        &self,
        repository: &RepositoryId,
        head_repository: &RepositoryId,
        head_branch: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        self.pulls_from(repository, head_repository, head_branch, "all").await
    }

    async fn open_or_update(
        &self,
        repository: &RepositoryId,
        draft: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError> {
        self.publish_pull(repository, draft, marker).await
    }

    async fn add_labels(
        &self,
        repository: &RepositoryId,
        number: u64,
        labels: &[String],
    ) -> Result<(), ForgeError> {
        self.put_labels_on(repository, number, labels).await
    }

    async fn request_reviewers(
        &self,
        repository: &RepositoryId,
        number: u64,
        reviewers: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        self.ask_reviewers(repository, number, reviewers).await
    }

    async fn branch_tip(
        &self,
        repository: &RepositoryId,
        branch: &str,
    ) -> Result<Option<Oid>, ForgeError> {
        let branch_path: Vec<String> = branch.split('/').map(segment).collect();
        let call = Call::get(
            route(repository, &format!("git/ref/heads/{}", branch_path.join("/"))),
            format!("branch `{branch}` of `{repository}`"),
        );
        match self.api.read_json::<wire::Reference>(&call).await {
            Ok(reference) => {
                let oid = reference.object.sha.parse().map_err(|_| ForgeError::Malformed {
                    host: self.api.host(),
                    message: format!("branch `{branch}` points to something that is no commit id"),
                })?;
                Ok(Some(oid))
            }
            // An empty repository has no branches either.
            Err(ForgeError::NotFound { .. } | ForgeError::State { .. }) => Ok(None),
            Err(err) => Err(err),
        }
    }

    async fn branches_beside(
        &self,
        repository: &Repository,
        names: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        self.look_beside(repository, names).await
    }

    async fn fetch(
        &self,
        repository: &Repository,
        into: &Path,
        refs: &[String],
        depth: u32,
    ) -> Result<(), ForgeError> {
        self.fetch_patiently(repository, into, refs, depth).await
    }

    async fn push(
        &self,
        repository: &Repository,
        from: &Path,
        commits: NewCommits,
        branch: &str,
        expected: Option<Oid>,
    ) -> Result<PushOutcome, ForgeError> {
        self.push_patiently(repository, PushSpec { from, commits, branch, expected }).await
    }

    async fn pull_request(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<PullRequest, ForgeError> {
        self.read_pull(repository, number).await
    }

    async fn pull_requests_at(
        &self,
        repository: &RepositoryId,
        head_sha: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        self.pulls_at(repository, head_sha).await
    }

    async fn describe_pull_request(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        self.describe(repository, number, title, body).await
    }

    async fn set_draft(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: bool,
    ) -> Result<(), ForgeError> {
        self.turn_draft(repository, number, draft).await
    }

    async fn compare(
        &self,
        repository: &RepositoryId,
        base: &str,
        head: &str,
    ) -> Result<Comparison, ForgeError> {
        self.compare_commits(repository, base, head).await
    }

    async fn reviews(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Review>, ForgeError> {
        self.list_reviews(repository, number).await
    }

    async fn review_edits(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<ReviewEdits, ForgeError> {
        self.edits_of_reviews(repository, number).await
    }

    async fn threads(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Thread>, ForgeError> {
        self.threads_of(repository, number).await
    }

    async fn post_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
        marker: &str,
    ) -> Result<ReviewPosted, ForgeError> {
        self.submit_review(repository, number, draft, marker).await
    }

    async fn resolve_thread(&self, of: &RepositoryId, thread: &str) -> Result<bool, ForgeError> {
        self.mark_resolved(of, thread).await
    }

    async fn dismiss_review(
        &self,
        repository: &RepositoryId,
        number: u64,
        review: u64,
        message: &str,
    ) -> Result<bool, ForgeError> {
        self.take_back(repository, number, review, message).await
    }

    async fn comment_at(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
    ) -> Result<Comment, ForgeError> {
        self.read_comment(repository, number, place).await
    }

    async fn reply(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        self.answer(repository, number, place, marker, body).await
    }

    async fn react_to(
        &self,
        repository: &RepositoryId,
        place: CommentPlace,
        content: &str,
    ) -> Result<(), ForgeError> {
        self.react_at(repository, place, content).await
    }

    async fn put_check(
        &self,
        repository: &RepositoryId,
        check: &CheckDraft,
    ) -> Result<Option<String>, ForgeError> {
        self.write_check(repository, check).await
    }

    async fn check_runs(
        &self,
        repository: &RepositoryId,
        sha: &str,
    ) -> Result<Vec<CheckRun>, ForgeError> {
        self.list_check_runs(repository, sha).await
    }

    async fn check_log(
        &self,
        repository: &RepositoryId,
        check: &CheckRun,
        limit: usize,
    ) -> Result<Option<String>, ForgeError> {
        self.log_tail(repository, check, limit).await
    }

    fn compare_url(&self, repository: &Repository, base: &str, branch: &str) -> String {
        let path = |name: &str| name.split('/').map(segment).collect::<Vec<_>>().join("/");
        let page = repository.html_url.trim_end_matches('/');
        format!("{page}/compare/{}...{}?expand=1", path(base), path(branch))
    }
}
