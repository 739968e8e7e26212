//! The parts of GitHub's JSON that we read, as narrow as possible and tolerant of nulls, so that
//! older servers and sparse answers work. Field names are those of the REST API 2022-11-28.
//!
//! Not octocrab's models: those ask for dozens of fields that we never read, and one of them that is
//! null or new fails the whole answer. An issue's `user` may not be null there (GitHub's schema allows
//! it), a `state_reason` may only be one of four words, an installation's account may not be an
//! enterprise, and its permissions lack `pull_requests` and `workflows`, by which tokens are cut.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};

use crate::{Account, Comment, Issue, PullRequest, RepositoryId, Role};

/// A null is the default, like an absent field.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
pub(super) struct User {
    pub(super) login: String,
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    kind: String,
}

/// The account; `ghost`, as GitHub shows it, when it has been deleted.
pub(super) fn account(user: Option<User>) -> Account {
    let Some(user) = user else {
        return Account { login: "ghost".to_owned(), is_bot: false };
    };
    let is_bot = user.kind == "Bot" || user.login.ends_with("[bot]");
    Account { login: user.login, is_bot }
}

#[derive(Deserialize)]
pub(super) struct Repository {
    pub(super) full_name: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) node_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) default_branch: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) archived: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) disabled: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) private: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) has_pull_requests: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) pull_request_creation_policy: String,
    #[serde(default)]
    pub(super) html_url: Option<String>,
    #[serde(default)]
    pub(super) permissions: Option<Permissions>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Permissions {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) push: bool,
}

#[derive(Deserialize)]
/// The answer about a collaborator.
pub(super) struct Permission {
    #[serde(default, rename = "permission")]
    legacy: Option<String>,
    #[serde(default)]
    role_name: Option<String>,
    #[serde(default)]
    pub(super) user: Option<User>,
}

impl Permission {
    /// The exact role where it has a name that GitHub itself gives; a custom role counts as the
    /// built-in one it is based on, which is what the older field says.
    pub(super) fn role(&self) -> Option<Role> {
        let exact = self.role_name.as_deref().and_then(role_named);
        exact.or_else(|| self.legacy.as_deref().and_then(role_named))
    }

    pub(super) fn login(&self) -> Option<&str> {
        self.user.as_ref().map(|user| user.login.as_str())
    }
}

fn role_named(name: &str) -> Option<Role> {
    Some(match name {
        "none" => Role::None,
        "read" | "pull" => Role::Read,
        "triage" => Role::Triage,
        "write" | "push" => Role::Write,
        "maintain" => Role::Maintain,
        "admin" => Role::Admin,
        _ => return None,
    })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Label {
    Object { name: Option<String> },
    Name(String),
}

#[derive(Deserialize)]
pub(super) struct IssueJson {
    pub(super) number: u64,
    #[serde(default, deserialize_with = "lenient")]
    title: String,
    #[serde(default, deserialize_with = "lenient")]
    body: String,
    #[serde(default)]
    user: Option<User>,
    #[serde(default, deserialize_with = "lenient")]
    state: String,
    #[serde(default, deserialize_with = "lenient")]
    locked: bool,
    #[serde(default)]
    pull_request: Option<serde::de::IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    labels: Vec<Label>,
    #[serde(default, deserialize_with = "lenient")]
    comments: usize,
    #[serde(default, deserialize_with = "lenient")]
    html_url: String,
    created_at: DateTime<Utc>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
    /// The API address of the repository that has it now.
    #[serde(default)]
    pub(super) repository_url: Option<String>,
}

impl From<IssueJson> for Issue {
    fn from(json: IssueJson) -> Issue {
        let labels = json.labels.into_iter().filter_map(|label| match label {
            Label::Object { name } => name,
            Label::Name(name) => Some(name),
        });
        Issue {
            number: json.number,
            title: json.title,
            body: json.body,
            author: account(json.user),
            open: json.state == "open",
            locked: json.locked,
            is_pull_request: json.pull_request.is_some(),
            labels: labels.collect(),
            comments: json.comments,
            html_url: json.html_url,
            created_at: json.created_at,
            updated_at: json.updated_at.unwrap_or(json.created_at),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct CommentJson {
    pub(super) id: u64,
    #[serde(default)]
    user: Option<User>,
    #[serde(default, deserialize_with = "lenient")]
    body: String,
    #[serde(default, deserialize_with = "lenient")]
    html_url: String,
    created_at: DateTime<Utc>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub(super) issue_url: Option<String>,
}

impl From<CommentJson> for Comment {
    fn from(json: CommentJson) -> Comment {
        Comment {
            id: json.id,
            author: account(json.user),
            body: json.body,
            html_url: json.html_url,
            created_at: json.created_at,
            updated_at: json.updated_at.unwrap_or(json.created_at),
            ours: false,
            revision: 0,
            left_out: false,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct PullBranchJson {
    #[serde(rename = "ref", default, deserialize_with = "lenient")]
    pub(super) branch: String,
    #[serde(default, deserialize_with = "lenient")]
    sha: String,
    /// Null when the fork has been deleted.
    #[serde(default)]
    pub(super) repo: Option<PullBranchRepository>,
}

#[derive(Deserialize)]
pub(super) struct PullBranchRepository {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) full_name: String,
    #[serde(default)]
    pushed_at: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
pub(super) struct PullJson {
    pub(super) number: u64,
    #[serde(default, deserialize_with = "lenient")]
    title: String,
    #[serde(default, deserialize_with = "lenient")]
    body: String,
    #[serde(default, deserialize_with = "lenient")]
    html_url: String,
    #[serde(default, deserialize_with = "lenient")]
    state: String,
    #[serde(default)]
    merged_at: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    draft: bool,
    pub(super) head: PullBranchJson,
    pub(super) base: PullBranchJson,
    #[serde(default)]
    user: Option<User>,
    #[serde(default, deserialize_with = "lenient")]
    maintainer_can_modify: bool,
    #[serde(default, deserialize_with = "lenient")]
    locked: bool,
    #[serde(default, deserialize_with = "lenient")]
    labels: Vec<Label>,
    #[serde(default, deserialize_with = "lenient")]
    comments: usize,
    #[serde(default)]
    created_at: DateTime<Utc>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
}

impl PullJson {
    /// The head is this branch of the repository that is named, or of the one that was asked, by whatever name.
    pub(super) fn is_from(&self, head: Option<&RepositoryId>, branch: &str) -> bool {
        let name =
            |side: &PullBranchJson| side.repo.as_ref().map(|repo| repo.full_name.to_lowercase());
        let wanted = match head {
            Some(head) => Some(head.to_string().to_lowercase()),
            None => name(&self.base),
        };
        self.head.branch == branch && name(&self.head).is_some() && name(&self.head) == wanted
    }
}

impl From<PullJson> for PullRequest {
    fn from(json: PullJson) -> PullRequest {
        let name =
            |side: &PullBranchJson| side.repo.as_ref().map(|repo| repo.full_name.to_lowercase());
        let is_fork = name(&json.head) != name(&json.base);
        let labels = json.labels.into_iter().filter_map(|label| match label {
            Label::Object { name } => name,
            Label::Name(name) => Some(name),
        });
        PullRequest {
            head_pushed_at: json.head.repo.as_ref().and_then(|repo| repo.pushed_at),
            head_repository: json.head.repo.and_then(|repo| repo.full_name.parse().ok()),
            is_fork,
            base_sha: json.base.sha,
            maintainer_can_modify: json.maintainer_can_modify,
            locked: json.locked,
            labels: labels.collect(),
            comments: json.comments,
            created_at: json.created_at,
            updated_at: json.updated_at.unwrap_or(json.created_at),
            number: json.number,
            title: json.title,
            body: json.body,
            html_url: json.html_url,
            open: json.state == "open",
            merged: json.merged_at.is_some(),
            draft: json.draft,
            head_branch: json.head.branch,
            head_sha: json.head.sha,
            base_branch: json.base.branch,
            author: account(json.user),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Reaction {
    pub(super) id: u64,
}

#[derive(Deserialize)]
pub(super) struct Reference {
    pub(super) object: Object,
}

#[derive(Deserialize)]
pub(super) struct Object {
    pub(super) sha: String,
}
