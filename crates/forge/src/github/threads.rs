//! The conversations on a diff. Only GraphQL knows which comments make a thread, and which threads
//! are resolved; where it is refused, REST's list of comments has to do.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::graphql::{GraphqlResponse, Problem};
use super::http::Call;
use super::token::Scope;
use super::wire_reviews::{CommentNode, Connection, DiffCommentJson, ThreadNode};
use super::{GitHubForge, PULLS_WRITE, route};
use crate::seal::Kind;
use crate::{Account, ForgeError, RepositoryId, ReviewComment, Thread};

/// Pages of threads, and pages of comments in one.
const MOST_PAGES: usize = 200;
/// Comments on one diff that are read over REST.
const MOST_COMMENTS: usize = 20_000;

/// The fields that number comments and reviews. The first is exact and new, the second old and too
/// small for today's numbers; a server that lacks one of them refuses the whole question.
const IDS: [&str; 3] = ["fullDatabaseId databaseId", "databaseId", "fullDatabaseId"];

const THREADS: &str = "query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id isResolved isOutdated viewerCanResolve path line
          resolvedBy { __typename login }
          comments(first: 100) { COMMENTS }
        }
      }
    }
  }
}";

const MORE_COMMENTS: &str = "query($thread: ID!, $after: String) {
  node(id: $thread) {
    ... on PullRequestReviewThread { comments(first: 100, after: $after) { COMMENTS } }
  }
}";

const COMMENTS: &str = "pageInfo { hasNextPage endCursor }
  nodes {
    IDS body url createdAt publishedAt updatedAt path diffHunk
    author { __typename login }
    pullRequestReview { IDS }
  }";

const RESOLVE: &str = "mutation($thread: ID!) {
  resolveReviewThread(input: { threadId: $thread }) { thread { id isResolved } }
}";

#[derive(Deserialize)]
struct ThreadsData {
    repository: Option<RepositoryData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RepositoryData {
    pull_request: Option<PullData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullData {
    review_threads: Option<Connection<ThreadNode>>,
}

#[derive(Deserialize)]
struct CommentsData {
    node: Option<CommentsHolder>,
}

#[derive(Deserialize)]
struct CommentsHolder {
    comments: Option<Connection<CommentNode>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolveData {
    resolve_review_thread: Option<ResolvePayload>,
}

#[derive(Deserialize)]
struct ResolvePayload {
    thread: Option<ResolvedThread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResolvedThread {
    #[serde(default)]
    is_resolved: bool,
}

/// What GraphQL told.
struct ThreadList {
    threads: Vec<Thread>,
    /// It left something out that there is.
    incomplete: bool,
}

impl GitHubForge {
    /// All threads with all their comments, in GitHub's order.
    pub(super) async fn threads_of(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Thread>, ForgeError> {
        let mut threads = match self.ask_threads(repository, number).await {
            Ok(told) if !told.incomplete => told.threads,
            Ok(told) => {
                let all = self.threads_over_rest(repository, number).await?;
                completed(told.threads, all)
            }
            // No GraphQL here, or not with this token. REST says whether the pull request is there.
            Err(
                ForgeError::Forbidden { .. }
                | ForgeError::NotFound { .. }
                | ForgeError::Invalid { .. }
                | ForgeError::Malformed { .. },
            ) => self.threads_over_rest(repository, number).await?,
            Err(err) => return Err(err),
        };
        let comments = threads.iter_mut().flat_map(|thread| &mut thread.comments);
        self.know_ours(Kind::Diff, repository, number, comments).await?;
        Ok(threads)
    }

    async fn ask_threads(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<ThreadList, ForgeError> {
        let thing = format!("the threads of `{repository}#{number}`");
        let about = (repository, thing.as_str());
        let mut told = ThreadList { threads: Vec::new(), incomplete: false };
        let (mut after, mut ids) = (None, 0);
        for _ in 0..MOST_PAGES {
            let variables = json!({
                "owner": repository.owner, "name": repository.name,
                "number": number, "after": after,
            });
            let (call, answer) =
                self.ask_with_ids::<ThreadsData>(THREADS, &variables, about, &mut ids).await?;
            let pull = answer.data.and_then(|data| data.repository?.pull_request);
            let Some(page) = pull.and_then(|pull| pull.review_threads) else {
                return Err(self.api.refused(&call, &answer.errors));
            };
            after = page.next();
            for node in page.nodes.unwrap_or_default() {
                match node {
                    Some(node) => self.take_thread(&mut told, repository, node, &mut ids).await?,
                    None => told.incomplete = true,
                }
            }
            if after.is_none() {
                return Ok(told);
            }
        }
        Err(self.endless(&thing))
    }

    /// Asks with the fields that this server has; `ids` says which, and is remembered.
    pub(super) async fn ask_with_ids<T: serde::de::DeserializeOwned>(
        &self,
        query: &str,
        variables: &Value,
        (repository, thing): (&RepositoryId, &str),
        ids: &mut usize,
    ) -> Result<(Call, GraphqlResponse<T>), ForgeError> {
        loop {
            let fields = IDS.get(*ids).copied().unwrap_or(IDS[0]);
            let query = query.replace("COMMENTS", COMMENTS).replace("IDS", fields);
            let about = (Scope::of_repository(repository), thing.to_owned());
            let call = self.api.graphql_call(&query, variables, about);
            let call = call.for_action(format!("read {thing}"), "pull-requests: read");
            let answer = self.api.ask::<T>(&call).await?;
            let unknown = answer.errors.iter().any(Problem::is_unknown_field);
            if !unknown || *ids + 1 >= IDS.len() {
                return Ok((call, answer));
            }
            *ids += 1;
        }
    }

    /// Adds a thread with all its comments.
    async fn take_thread(
        &self,
        told: &mut ThreadList,
        repository: &RepositoryId,
        node: ThreadNode,
        ids: &mut usize,
    ) -> Result<(), ForgeError> {
        let mut nodes = Vec::new();
        let mut after = None;
        if let Some(first) = node.comments {
            after = first.next();
            nodes.extend(first.nodes.unwrap_or_default());
        }
        let thing = "the comments of a thread";
        let about = (repository, thing);
        let mut pages = 0;
        while let Some(cursor) = after {
            pages += 1;
            if pages > MOST_PAGES {
                return Err(self.endless(thing));
            }
            let variables = json!({ "thread": node.id, "after": cursor });
            let (call, answer) =
                self.ask_with_ids::<CommentsData>(MORE_COMMENTS, &variables, about, ids).await?;
            let page = answer.data.and_then(|data| data.node?.comments);
            let Some(page) = page else { return Err(self.api.refused(&call, &answer.errors)) };
            after = page.next();
            nodes.extend(page.nodes.unwrap_or_default());
        }
        let mut comments: Vec<ReviewComment> = Vec::new();
        for comment in nodes {
            let root = comments.first().map(|root| root.id);
            match comment.and_then(|comment| comment.comment(&node.path, root)) {
                Some(comment) => comments.push(comment),
                None => told.incomplete = true,
            }
        }
        if comments.is_empty() {
            return Ok(());
        }
        told.threads.push(Thread {
            id: Some(node.id),
            resolved: node.is_resolved,
            resolved_by: node.resolved_by.map(|actor| Account::from(actor).login),
            outdated: node.is_outdated,
            may_resolve: node.viewer_can_resolve,
            path: node.path,
            line: node.line.filter(|_| !node.is_outdated),
            comments,
        });
        Ok(())
    }

    fn endless(&self, thing: &str) -> ForgeError {
        ForgeError::Malformed {
            host: self.api.host(),
            message: format!("the list of {thing} does not end"),
        }
    }

    async fn threads_over_rest(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<Thread>, ForgeError> {
        Ok(grouped(self.diff_comments(repository, number).await?))
    }

    /// The comments on the diff, oldest first.
    pub(super) async fn diff_comments(
        &self,
        repository: &RepositoryId,
        number: u64,
    ) -> Result<Vec<DiffCommentJson>, ForgeError> {
        let call = Call::get(
            route(repository, &format!("pulls/{number}/comments?per_page=100")),
            format!("the comments on the diff of `{repository}#{number}`"),
        )
        .needs("pull-requests: read");
        let mut comments: Vec<DiffCommentJson> = self.api.list(&call, MOST_COMMENTS).await?;
        comments.sort_by_key(|comment| comment.id);
        comments.dedup_by_key(|comment| comment.id);
        Ok(comments)
    }

    /// False when we may not, or when the thread is gone.
    pub(super) async fn mark_resolved(
        &self,
        repository: &RepositoryId,
        thread: &str,
    ) -> Result<bool, ForgeError> {
        let variables = json!({ "thread": thread });
        let about = (Scope::of_repository(repository), format!("a thread of `{repository}`"));
        let call = self.api.graphql_call(RESOLVE, &variables, about);
        let call = call.for_action("resolve a thread", PULLS_WRITE);
        let answer = match self.api.mutate::<ResolveData>(&call).await {
            Ok(answer) => answer,
            Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => return Ok(false),
            Err(err) => return Err(err),
        };
        let thread = answer.data.and_then(|data| data.resolve_review_thread?.thread);
        if thread.is_some_and(|thread| thread.is_resolved) {
            return Ok(true);
        }
        match self.api.refused(&call, &answer.errors) {
            ForgeError::Forbidden { .. } | ForgeError::NotFound { .. } => Ok(false),
            err => Err(err),
        }
    }
}

/// Threads made of plain comments: a root and what answers it.
fn grouped(comments: Vec<DiffCommentJson>) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut place_of: HashMap<u64, usize> = HashMap::new();
    for json in comments {
        let is_line = json.subject_type.as_deref() != Some("file");
        let line = json.line;
        let comment = ReviewComment::from(json);
        let root = comment.in_reply_to.unwrap_or(comment.id);
        let place = place_of.get(&root).copied();
        if let Some(thread) = place.and_then(|place| threads.get_mut(place)) {
            thread.comments.push(comment);
            continue;
        }
        place_of.insert(root, threads.len());
        threads.push(Thread {
            id: None,
            resolved: false,
            resolved_by: None,
            outdated: is_line && line.is_none(),
            may_resolve: false,
            path: comment.path.clone(),
            line,
            comments: vec![comment],
        });
    }
    threads
}

/// What GraphQL told, and what it left out as REST tells it.
fn completed(mut told: Vec<Thread>, all: Vec<Thread>) -> Vec<Thread> {
    for thread in all {
        let has = |other: &Thread, id: u64| other.comments.iter().any(|comment| comment.id == id);
        let same = |other: &&mut Thread| thread.comments.iter().any(|one| has(other, one.id));
        match told.iter_mut().find(same) {
            Some(known) => {
                for comment in thread.comments {
                    if !has(known, comment.id) {
                        known.comments.push(comment);
                    }
                }
                known.comments.sort_by_key(|comment| comment.id);
            }
            None => told.push(thread),
        }
    }
    told
}
