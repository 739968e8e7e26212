//! Issue comments: all of them, and the one of ours that carries a marker.
//!
//! A comment is ours when our account wrote it *and* our seal fits: anybody can copy a marker, and other
//! workflows may share the account. What is not ours is never edited.

use std::collections::VecDeque;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::super::marker::{carries, carries_exactly};
use super::super::seal::{self, Kind};
use super::body::{LONGEST_BODY, fit_comment, same};
use super::http::{Call, WriteOutcome};
use super::wire::CommentJson;
use super::{GitHubForge, ISSUES_WRITE, route};
use crate::{Comment, ForgeError, RepositoryId};

/// Pauses between looks for something that was perhaps written: lists lag behind writes.
pub(super) const LOOKS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];
/// How often a lost write is made again, each time after looking for it in vain.
pub(super) const WRITES: u32 = 5;
/// Comments that are searched for ours.
const SEARCHED: usize = 10_000;
/// Bytes of text that are kept of the comments of one conversation, those of ours left aside.
const MOST_BYTES: usize = 8 << 20;
/// Whether a comment has a marker: of its purpose, or this very one.
type MarkerMatcher = fn(&str, &str) -> bool;

impl GitHubForge {
    pub(super) async fn list_comments(
        &self,
        repository: &RepositoryId,
        issue: u64,
        limit: usize,
    ) -> Result<Vec<Comment>, ForgeError> {
        let call = Call::get(
            route(repository, &format!("issues/{issue}/comments?per_page=100")),
            format!("the comments of `{repository}#{issue}`"),
        );
        let place = self.place(Kind::Conversation, repository, issue);
        // Whatever else is left out: nobody without our key can make one that stays.
        let is_sealed = |comment: &Comment| {
            seal::is_sealed(&comment.body)
                && self.seal.revision(&comment.body, &place, comment.id).is_some()
        };
        let items = |page: Vec<CommentJson>| page.into_iter().map(Comment::from).collect();
        let bound = |kept: &mut VecDeque<Comment>| leave_out(kept, MOST_BYTES, is_sealed);
        let kept = self.api.list_bounded(&call, limit.min(SEARCHED), items, bound);
        let mut comments: Vec<Comment> = kept.await?;
        // A comment deleted or added between two pages moves the others over the edge.
        comments.sort_by_key(|comment| (comment.created_at, comment.id));
        comments.dedup_by_key(|comment| comment.id);
        let left_out = comments.iter().filter(|comment| comment.left_out).count();
        if left_out > 0 {
            tracing::warn!(%repository, issue, left_out, "the oldest comments were not kept");
        }
        self.know_ours(Kind::Conversation, repository, issue, &mut comments).await?;
        Ok(comments)
    }

    pub(super) async fn write_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        known: Option<u64>,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let body = fit_comment(body, marker);
        debug_assert!(body.chars().count() + seal::ROOM <= LONGEST_BODY);
        let existing = match known {
            Some(id) => self.known_comment(repository, issue, id, marker).await?,
            None => None,
        };
        let existing = match existing {
            Some(comment) => Some(comment),
            None => self.find_comment(repository, issue, (marker, carries)).await?,
        };
        let Some(existing) = existing else {
            return self.create_comment(repository, issue, (marker, carries), &body).await;
        };
        if same(&seal::without(&existing.body), &body) {
            return Ok(existing);
        }
        let place = self.place(Kind::Conversation, repository, issue);
        let revision = existing.revision.saturating_add(1);
        let sealed = self.seal.sealed(&body, &place, Some(existing.id), revision);
        match self.edit_comment(repository, issue, existing.id, &sealed).await {
            Ok(comment) => Ok(Comment { revision, ..comment }),
            // Deleted since we looked.
            Err(ForgeError::NotFound { .. }) => {
                self.create_comment(repository, issue, (marker, carries), &body).await
            }
            result => result,
        }
    }

    /// Creates a comment beside all others of ours.
    pub(super) async fn write_new_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let body = fit_comment(body, marker);
        self.create_comment(repository, issue, (marker, carries_exactly), &body).await
    }

    /// The comment with this id when it is still there, on this issue and ours.
    async fn known_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        id: u64,
        marker: &str,
    ) -> Result<Option<Comment>, ForgeError> {
        let call = Call::get(
            route(repository, &format!("issues/comments/{id}")),
            format!("comment {id} of `{repository}`"),
        );
        let found: CommentJson = match self.api.read_json(&call).await {
            Ok(found) => found,
            Err(ForgeError::NotFound { .. }) => return Ok(None),
            Err(err) => return Err(err),
        };
        let elsewhere = found
            .issue_url
            .as_deref()
            .is_some_and(|url| url.rsplit('/').next() != Some(issue.to_string().as_str()));
        let mut found = [Comment::from(found)];
        self.know_ours(Kind::Conversation, repository, issue, &mut found).await?;
        let [comment] = found;
        let is_it = !elsewhere && comment.ours && carries(&comment.body, marker);
        Ok(is_it.then_some(comment))
    }

    /// The comment of ours with the marker: the newest revision, and of those the oldest comment.
    async fn find_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        (marker, carries): (&str, MarkerMatcher),
    ) -> Result<Option<Comment>, ForgeError> {
        let comments = self.list_comments(repository, issue, SEARCHED).await?;
        let carrying = comments.iter().filter(|comment| carries(&comment.body, marker));
        Ok(Comment::newest(carrying).cloned())
    }

    /// Creates the comment. When the answer is lost, looks for it before writing it again.
    async fn create_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        known_by: (&str, MarkerMatcher),
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let call = Call::write(
            Method::POST,
            route(repository, &format!("issues/{issue}/comments")),
            format!("issue `{repository}#{issue}`"),
        )
        .for_action(format!("comment on `{repository}#{issue}`"), ISSUES_WRITE)
        .json(json!({ "body": self.seal.sealed(
            body,
            &self.place(Kind::Conversation, repository, issue),
            None,
            1,
        ) }));
        let mut lost = None;
        for _ in 0..WRITES {
            match self.api.write(&call).await? {
                WriteOutcome::Answered(reply) => {
                    let reply = self.api.good(&call, reply)?;
                    let comment: Comment = self.api.parse::<CommentJson>(&call, &reply)?.into();
                    return Ok(Comment { ours: true, revision: 1, ..comment });
                }
                WriteOutcome::Lost(err) => lost = Some(err),
            }
            for pause in LOOKS {
                self.api.limiter.sleep(pause).await;
                if let Some(found) = self.find_comment(repository, issue, known_by).await? {
                    return Ok(found);
                }
            }
        }
        Err(lost.unwrap_or_else(|| self.api.unavailable("the comment was not written")))
    }

    pub(super) async fn remove_comment(
        &self,
        repository: &RepositoryId,
        id: u64,
    ) -> Result<(), ForgeError> {
        let call = Call::write(
            Method::DELETE,
            route(repository, &format!("issues/comments/{id}")),
            format!("comment {id} of `{repository}`"),
        )
        .for_action(format!("delete our comment in `{repository}`"), ISSUES_WRITE);
        let (reply, _) = self.api.write_repeatable(&call).await?;
        match self.api.good(&call, reply) {
            Ok(_) | Err(ForgeError::NotFound { .. }) => Ok(()),
            Err(err) => Err(err),
        }
    }

    async fn edit_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        id: u64,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let call = Call::write(
            Method::PATCH,
            route(repository, &format!("issues/comments/{id}")),
            format!("comment {id} of `{repository}`"),
        )
        .for_action(format!("edit our comment on `{repository}#{issue}`"), ISSUES_WRITE)
        .json(json!({ "body": body }));
        let (reply, _) = self.api.write_repeatable(&call).await?;
        let reply = self.api.good(&call, reply)?;
        let comment: Comment = self.api.parse::<CommentJson>(&call, &reply)?.into();
        Ok(Comment { ours: true, ..comment })
    }
}

/// Leaves out the oldest texts until at most `most` bytes are left. What `stays` says is kept.
fn leave_out(comments: &mut VecDeque<Comment>, most: usize, stays: impl Fn(&Comment) -> bool) {
    let mut bytes: usize = comments.iter().map(|comment| comment.body.len()).sum();
    for comment in comments {
        if bytes <= most {
            return;
        }
        if !comment.body.is_empty() && !stays(comment) {
            bytes -= comment.body.len();
            comment.body = String::new();
            comment.left_out = true;
        }
    }
}
