//! The JSON of reviews, threads and checks, REST and GraphQL; as narrow and tolerant as [`super::wire`].

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::wire::{User, account, lenient};
use crate::{Account, CheckAnnotation, CheckRun, Comparison, Review, ReviewComment, ReviewState};

#[derive(Deserialize)]
pub(super) struct ReviewJson {
    id: u64,
    #[serde(default)]
    user: Option<User>,
    #[serde(default, deserialize_with = "lenient")]
    body: String,
    #[serde(default)]
    commit_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    state: ReviewState,
    #[serde(default, deserialize_with = "lenient")]
    html_url: String,
    #[serde(default)]
    submitted_at: Option<DateTime<Utc>>,
}

impl From<ReviewJson> for Review {
    fn from(json: ReviewJson) -> Review {
        Review {
            id: json.id,
            author: account(json.user),
            body: json.body,
            commit: json.commit_id,
            state: json.state,
            html_url: json.html_url,
            submitted_at: json.submitted_at,
            ours: false,
        }
    }
}

/// A comment on the diff, over REST.
#[derive(Deserialize)]
pub(super) struct DiffCommentJson {
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
    #[serde(default, deserialize_with = "lenient")]
    path: String,
    #[serde(default)]
    pub(super) line: Option<u32>,
    /// `file` for a comment on the file as a whole.
    #[serde(default)]
    pub(super) subject_type: Option<String>,
    #[serde(default)]
    in_reply_to_id: Option<u64>,
    #[serde(default)]
    pull_request_review_id: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    diff_hunk: String,
    #[serde(default)]
    pub(super) pull_request_url: Option<String>,
}

impl From<DiffCommentJson> for ReviewComment {
    fn from(json: DiffCommentJson) -> ReviewComment {
        ReviewComment {
            id: json.id,
            author: account(json.user),
            body: json.body,
            html_url: json.html_url,
            created_at: json.created_at,
            updated_at: json.updated_at.unwrap_or(json.created_at),
            path: json.path,
            in_reply_to: json.in_reply_to_id,
            review: json.pull_request_review_id,
            diff_hunk: json.diff_hunk,
            ours: false,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ComparisonJson {
    #[serde(default, deserialize_with = "lenient")]
    status: String,
    #[serde(default)]
    pub(super) files: Option<Vec<ComparedFileJson>>,
}

#[derive(Deserialize)]
pub(super) struct ComparedFileJson {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) filename: String,
    #[serde(default)]
    pub(super) previous_filename: Option<String>,
}

impl From<ComparisonJson> for Comparison {
    fn from(json: ComparisonJson) -> Comparison {
        match json.status.as_str() {
            "identical" => Comparison::Identical,
            "ahead" => Comparison::Ahead,
            "behind" => Comparison::Behind,
            "diverged" => Comparison::Diverged,
            _ => Comparison::Unknown,
        }
    }
}

/// A page of a connection.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Connection<T> {
    #[serde(default)]
    pub(super) page_info: Option<PageInfo>,
    /// A null is something that we may not see.
    #[serde(default = "Option::default")]
    pub(super) nodes: Option<Vec<Option<T>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageInfo {
    #[serde(default)]
    has_next_page: bool,
    #[serde(default)]
    end_cursor: Option<String>,
}

impl<T> Connection<T> {
    /// Where it goes on.
    pub(super) fn next(&self) -> Option<String> {
        let page = self.page_info.as_ref()?;
        page.end_cursor.clone().filter(|_| page.has_next_page)
    }
}

/// A number that arrives as a number or, when it is too large for GraphQL's `Int`, as a string.
fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ids {
    #[serde(default)]
    full_database_id: Option<Value>,
    #[serde(default)]
    database_id: Option<Value>,
}

impl Ids {
    fn id(&self) -> Option<u64> {
        number(self.full_database_id.as_ref()).or_else(|| number(self.database_id.as_ref()))
    }
}

/// Somebody, as GraphQL names them: a bot's login lacks its suffix.
#[derive(Deserialize)]
pub(super) struct Actor {
    #[serde(default, deserialize_with = "lenient")]
    login: String,
    #[serde(rename = "__typename", default, deserialize_with = "lenient")]
    kind: String,
}

impl From<Actor> for Account {
    fn from(actor: Actor) -> Account {
        let has_suffix = actor.login.ends_with("[bot]");
        let is_bot = actor.kind == "Bot" || has_suffix;
        let suffix = if is_bot && !has_suffix { "[bot]" } else { "" };
        Account { login: format!("{}{suffix}", actor.login), is_bot }
    }
}

fn somebody(actor: Option<Actor>) -> Account {
    actor.map_or_else(|| account(None), Account::from)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadNode {
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_resolved: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_outdated: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) viewer_can_resolve: bool,
    #[serde(default)]
    pub(super) resolved_by: Option<Actor>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) path: String,
    #[serde(default)]
    pub(super) line: Option<u32>,
    #[serde(default)]
    pub(super) comments: Option<Connection<CommentNode>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommentNode {
    #[serde(flatten)]
    ids: Ids,
    #[serde(default)]
    author: Option<Actor>,
    #[serde(default, deserialize_with = "lenient")]
    body: String,
    #[serde(default, deserialize_with = "lenient")]
    url: String,
    created_at: DateTime<Utc>,
    /// Later than that for a draft, which nobody else sees before its review is submitted.
    #[serde(default)]
    published_at: Option<DateTime<Utc>>,
    #[serde(default)]
    updated_at: Option<DateTime<Utc>>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    diff_hunk: String,
    #[serde(default)]
    pull_request_review: Option<Ids>,
}

impl CommentNode {
    /// `None` when its number cannot be told.
    pub(super) fn comment(self, path: &str, root: Option<u64>) -> Option<ReviewComment> {
        let in_address = || {
            let (_, number) = self.url.rsplit_once("#discussion_r")?;
            number.parse().ok()
        };
        let id = self.ids.id().or_else(in_address)?;
        Some(ReviewComment {
            id,
            author: somebody(self.author),
            body: self.body,
            html_url: self.url,
            created_at: self.published_at.unwrap_or(self.created_at),
            updated_at: self.updated_at.unwrap_or(self.created_at),
            path: self.path.unwrap_or_else(|| path.to_owned()),
            in_reply_to: root,
            review: self.pull_request_review.as_ref().and_then(Ids::id),
            diff_hunk: self.diff_hunk,
            ours: false,
        })
    }
}

/// When a review was edited last.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReviewEditNode {
    #[serde(flatten)]
    ids: Ids,
    #[serde(default)]
    last_edited_at: Option<DateTime<Utc>>,
}

impl ReviewEditNode {
    /// The review's number, and when it was edited.
    pub(super) fn edited(self) -> Option<(u64, Option<DateTime<Utc>>)> {
        Some((self.ids.id()?, self.last_edited_at))
    }
}

#[derive(Deserialize)]
pub(super) struct CheckRunJson {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "lenient")]
    status: String,
    #[serde(default)]
    pub(super) conclusion: Option<String>,
    #[serde(default)]
    pub(super) external_id: Option<String>,
    #[serde(default)]
    pub(super) html_url: Option<String>,
    #[serde(default)]
    details_url: Option<String>,
    #[serde(default)]
    app: Option<AppJson>,
    #[serde(default)]
    pub(super) output: Option<OutputJson>,
}

#[derive(Deserialize)]
struct AppJson {
    #[serde(default, deserialize_with = "lenient")]
    slug: String,
}

#[derive(Deserialize)]
pub(super) struct OutputJson {
    #[serde(default, deserialize_with = "lenient")]
    title: String,
    #[serde(default, deserialize_with = "lenient")]
    summary: String,
    #[serde(default, deserialize_with = "lenient")]
    annotations_count: usize,
}

impl CheckRunJson {
    pub(super) fn is_completed(&self) -> bool {
        self.status == "completed"
    }

    pub(super) fn annotations_count(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.annotations_count)
    }
}

impl From<CheckRunJson> for CheckRun {
    fn from(json: CheckRunJson) -> CheckRun {
        let completed = json.is_completed();
        let summary = json.output.map(|output| {
            if output.summary.trim().is_empty() { output.title } else { output.summary }
        });
        CheckRun {
            id: json.id,
            name: json.name,
            app: json.app.map(|app| app.slug).unwrap_or_default(),
            completed,
            conclusion: json.conclusion,
            html_url: json.html_url.or(json.details_url).unwrap_or_default(),
            summary: summary.unwrap_or_default(),
            annotations: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct CheckRunsJson {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) check_runs: Vec<CheckRunJson>,
}

#[derive(Deserialize)]
pub(super) struct StatusesJson {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) statuses: Vec<StatusJson>,
}

#[derive(Deserialize)]
pub(super) struct StatusJson {
    #[serde(default, deserialize_with = "lenient")]
    context: String,
    #[serde(default, deserialize_with = "lenient")]
    state: String,
    #[serde(default, deserialize_with = "lenient")]
    description: String,
    #[serde(default, deserialize_with = "lenient")]
    target_url: String,
}

impl From<StatusJson> for CheckRun {
    fn from(json: StatusJson) -> CheckRun {
        let conclusion = match json.state.as_str() {
            "pending" => None,
            "error" => Some("failure".to_owned()),
            _ => Some(json.state),
        };
        CheckRun {
            id: 0,
            name: json.context,
            app: "a commit status".to_owned(),
            completed: conclusion.is_some(),
            conclusion,
            html_url: json.target_url,
            summary: json.description,
            annotations: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct AnnotationJson {
    #[serde(default, deserialize_with = "lenient")]
    path: String,
    #[serde(default, deserialize_with = "lenient")]
    start_line: u32,
    #[serde(default, deserialize_with = "lenient")]
    end_line: u32,
    #[serde(default, deserialize_with = "lenient")]
    annotation_level: String,
    #[serde(default, deserialize_with = "lenient")]
    title: String,
    #[serde(default, deserialize_with = "lenient")]
    message: String,
}

impl From<AnnotationJson> for CheckAnnotation {
    fn from(json: AnnotationJson) -> CheckAnnotation {
        CheckAnnotation {
            path: json.path,
            start_line: json.start_line,
            end_line: json.end_line,
            is_failure: json.annotation_level == "failure",
            title: json.title,
            message: json.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Account;
    use crate::github::wire_reviews::{Actor, CommentNode};

    #[test]
    fn bots_get_their_suffix_back() {
        for (json, login, is_bot) in [
            (json!({"login": "dependabot", "__typename": "Bot"}), "dependabot[bot]", true),
            (json!({"login": "dependabot[bot]", "__typename": "Bot"}), "dependabot[bot]", true),
            (json!({"login": "alice", "__typename": "User"}), "alice", false),
        ] {
            let actor: Actor = serde_json::from_value(json).unwrap();
            let account = Account { login: login.to_owned(), is_bot };
            assert_eq!(Account::from(actor), account);
        }
    }

    #[test]
    fn the_number_of_a_comment_is_found_wherever_it_is() {
        let when = "2026-01-01T00:00:00Z";
        for (json, id) in [
            (json!({"createdAt": when, "fullDatabaseId": "3000000000"}), Some(3_000_000_000)),
            (json!({"createdAt": when, "databaseId": 7, "fullDatabaseId": null}), Some(7)),
            (json!({"createdAt": when, "url": "https://x/pull/1#discussion_r12"}), Some(12)),
            (json!({"createdAt": when, "url": "https://x/pull/1"}), None),
        ] {
            let node: CommentNode = serde_json::from_value(json).unwrap();
            assert_eq!(node.comment("a", None).map(|comment| comment.id), id);
        }
    }
}
