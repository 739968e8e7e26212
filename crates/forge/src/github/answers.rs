//! Comments wherever they are: read, answered once, reacted to.

use http::Method;
use serde_json::json;

use super::super::marker::carries_exactly;
use super::super::seal::Kind;
use super::body::fit_comment;
use super::comments::{LOOKS, WRITES};
use super::http::{Call, WriteOutcome};
use super::wire::CommentJson;
use super::wire_reviews::{DiffCommentJson, ReviewJson};
use super::{GitHubForge, ISSUES_WRITE, PULLS_WRITE, route};
use crate::{Comment, CommentPlace, ForgeError, RepositoryId, Review, ReviewComment};

impl GitHubForge {
    pub(super) async fn read_comment(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
    ) -> Result<Comment, ForgeError> {
        let (id, path) = match place {
            CommentPlace::Conversation { comment } => (comment, "issues/comments".to_owned()),
            CommentPlace::Thread { comment, .. } => (comment, "pulls/comments".to_owned()),
            CommentPlace::Review { review } => (review, format!("pulls/{number}/reviews")),
        };
        let thing = format!("comment {id} on `{repository}#{number}`");
        let call = Call::get(route(repository, &format!("{path}/{id}")), &thing);
        let (mut comment, home) = match place {
            CommentPlace::Conversation { .. } => {
                let json: CommentJson = self.api.read_json(&call).await?;
                let home = json.issue_url.clone();
                (Comment::from(json), home)
            }
            CommentPlace::Thread { .. } => {
                let json: DiffCommentJson = self.api.read_json(&call).await?;
                let home = json.pull_request_url.clone();
                (ReviewComment::from(json).into_comment(), home)
            }
            CommentPlace::Review { .. } => {
                let json: ReviewJson = self.api.read_json(&call).await?;
                (Review::from(json).into_comment(), None)
            }
        };
        // Ids are the repository's, so one of another conversation would be found too.
        let here = number.to_string();
        match home.as_deref().and_then(|home| home.rsplit('/').next()) {
            Some(other) if other != here => Err(ForgeError::NotFound { what: thing }),
            _ => {
                let kind = match place {
                    CommentPlace::Conversation { .. } => Kind::Conversation,
                    CommentPlace::Thread { .. } => Kind::Diff,
                    CommentPlace::Review { .. } => Kind::Review,
                };
                self.know_ours(kind, repository, number, std::slice::from_mut(&mut comment))
                    .await?;
                Ok(comment)
            }
        }
    }

    /// Answers once. Looks for our answer first, so that a run that is repeated finds it.
    pub(super) async fn answer(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
        marker: &str,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        if let Some(found) = self.find_answer(repository, number, place, marker).await? {
            return Ok(found);
        }
        let body = fit_comment(body, marker);
        let mut root = match place {
            CommentPlace::Thread { root, .. } => Some(root),
            CommentPlace::Conversation { .. } | CommentPlace::Review { .. } => None,
        };
        let (mut lost, mut looked_up) = (None, false);
        for _ in 0..WRITES {
            let kind = if root.is_some() { Kind::Diff } else { Kind::Conversation };
            let sealed = self.seal.sealed(&body, &self.place(kind, repository, number), None, 1);
            let call = answer_call(repository, number, root, &sealed);
            let reply = match self.api.write(&call).await? {
                WriteOutcome::Answered(reply) => reply,
                WriteOutcome::Lost(err) => {
                    lost = Some(err);
                    for pause in LOOKS {
                        self.api.limiter.sleep(pause).await;
                        let found = self.find_answer(repository, number, place, marker).await?;
                        if let Some(found) = found {
                            return Ok(found);
                        }
                    }
                    continue;
                }
            };
            let refused = matches!(reply.status.as_u16(), 404 | 422);
            // Only the first comment of a thread takes answers.
            if let Some(asked) = root.filter(|_| refused && !looked_up) {
                looked_up = true;
                match self.root_of(repository, asked).await {
                    Ok(first) if first == asked => {}
                    Ok(first) => {
                        root = Some(first);
                        continue;
                    }
                    // The thread was deleted meanwhile. Whoever asked is still there to be told.
                    Err(ForgeError::NotFound { .. }) => {
                        root = None;
                        continue;
                    }
                    Err(err) => return Err(err),
                }
            }
            let reply = self.api.good(&call, reply)?;
            return if root.is_some() {
                let json: DiffCommentJson = self.api.parse(&call, &reply)?;
                Ok(Comment { ours: true, revision: 1, ..ReviewComment::from(json).into_comment() })
            } else {
                let comment: Comment = self.api.parse::<CommentJson>(&call, &reply)?.into();
                Ok(Comment { ours: true, revision: 1, ..comment })
            };
        }
        Err(lost.unwrap_or_else(|| self.api.unavailable("the answer was not written")))
    }

    /// Our answer with this run's marker, where it would be: in its thread, or in the conversation when that is
    /// gone.
    async fn find_answer(
        &self,
        repository: &RepositoryId,
        number: u64,
        place: CommentPlace,
        marker: &str,
    ) -> Result<Option<Comment>, ForgeError> {
        let candidates: Vec<Comment> = match place {
            CommentPlace::Thread { root, .. } => {
                let comments = self.diff_comments(repository, number).await?.into_iter();
                let comments: Vec<ReviewComment> = comments.map(ReviewComment::from).collect();
                let is_gone = !comments.iter().any(|comment| comment.id == root);
                let comments = comments.into_iter();
                let answers = comments.filter(|comment| comment.in_reply_to.is_some());
                let mut answers: Vec<Comment> = answers.map(ReviewComment::into_comment).collect();
                self.know_ours(Kind::Diff, repository, number, &mut answers).await?;
                if is_gone {
                    answers.extend(self.list_comments(repository, number, usize::MAX).await?);
                }
                answers
            }
            CommentPlace::Conversation { .. } | CommentPlace::Review { .. } => {
                self.list_comments(repository, number, usize::MAX).await?
            }
        };
        let is_it = |comment: &Comment| comment.ours && carries_exactly(&comment.body, marker);
        Ok(candidates.into_iter().find(is_it))
    }

    /// The first comment of the thread that this one is in.
    async fn root_of(&self, repository: &RepositoryId, comment: u64) -> Result<u64, ForgeError> {
        let call = Call::get(
            route(repository, &format!("pulls/comments/{comment}")),
            format!("comment {comment} of `{repository}`"),
        );
        let json: DiffCommentJson = self.api.read_json(&call).await?;
        Ok(ReviewComment::from(json).in_reply_to.unwrap_or(comment))
    }

    pub(super) async fn react_at(
        &self,
        repository: &RepositoryId,
        place: CommentPlace,
        content: &str,
    ) -> Result<(), ForgeError> {
        let (path, comment, need) = match place {
            CommentPlace::Conversation { comment } => ("issues/comments", comment, ISSUES_WRITE),
            CommentPlace::Thread { comment, .. } => ("pulls/comments", comment, PULLS_WRITE),
            CommentPlace::Review { .. } => return Ok(()),
        };
        let call = Call::write(
            Method::POST,
            route(repository, &format!("{path}/{comment}/reactions")),
            format!("comment {comment} of `{repository}`"),
        )
        .for_action(format!("react to a comment of `{repository}`"), need)
        .json(json!({ "content": content }));
        // The same reaction again is answered with the one that is there.
        let (reply, _) = self.api.write_repeatable(&call).await?;
        self.api.good(&call, reply).map(|_| ())
    }
}

/// In the thread below `root`, or in the conversation.
fn answer_call(repository: &RepositoryId, number: u64, root: Option<u64>, body: &str) -> Call {
    let (path, need) = match root {
        Some(root) => (format!("pulls/{number}/comments/{root}/replies"), PULLS_WRITE),
        None => (format!("issues/{number}/comments"), ISSUES_WRITE),
    };
    let thing = format!("`{repository}#{number}`");
    Call::write(Method::POST, route(repository, &path), &thing)
        .for_action(format!("answer on {thing}"), need)
        .json(json!({ "body": body }))
}
