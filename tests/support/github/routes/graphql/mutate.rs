//! Mutations: who may, and what happens.

use serde_json::{Value, json};

use super::super::reviews::wanted;
use super::super::{Request, TokenKind, World};
use super::committing;
use super::resolve::{Node, by_id, may_resolve};
use super::{Trouble, trouble};

pub(super) type Done = Result<Node, Trouble>;

pub(super) fn mutate(world: &mut World, request: &Request, name: &str, input: &Value) -> Done {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    let payload = |field, node: Option<Node>| {
        Ok(Node::Payload(field, node.map(Box::new), input["clientMutationId"].clone()))
    };
    if request.token.read_only {
        return Err(forbidden(request));
    }
    match name {
        "resolveReviewThread" | "unresolveReviewThread" => {
            let node = by_id(world, request, text("threadId"))?;
            let Node::Thread(place, number, id) = node else { return Err(wrong(text("threadId"))) };
            if !may_resolve(world, request, place, number) {
                return Err(forbidden(request));
            }
            let by = (name == "resolveReviewThread").then(|| request.login.clone());
            let threads = &mut world.pull_mut(place, number).threads;
            let thread = threads.iter_mut().find(|thread| thread.id == id).unwrap();
            // Who resolved it first stays.
            thread.resolved_by = by.map(|login| thread.resolved_by.take().unwrap_or(login));
            payload("thread", Some(node))
        }
        "convertPullRequestToDraft" | "markPullRequestReadyForReview" => {
            let node = by_id(world, request, text("pullRequestId"))?;
            let Node::Pull(place, number) = node else { return Err(wrong(text("pullRequestId"))) };
            if !may_resolve(world, request, place, number) {
                return Err(forbidden(request));
            }
            let draft = name == "convertPullRequestToDraft";
            let (has_drafts, now) = (world.repositories[place].has_drafts, world.tick());
            let issue = world.repositories[place].issues.get_mut(&number).unwrap();
            if draft && !has_drafts {
                let message = "Draft pull requests are not supported in this repository.";
                return Err(trouble("UNPROCESSABLE", message));
            }
            if !issue.open {
                return Err(trouble("UNPROCESSABLE", "Pull request is closed"));
            }
            issue.updated = now;
            world.pull_mut(place, number).draft = draft;
            payload("pullRequest", Some(node))
        }
        "createCommitOnBranch" => committing::commit_on_branch(world, request, input),
        "enablePullRequestAutoMerge" => committing::auto_merge(world, request, input),
        "disablePullRequestAutoMerge" => committing::no_auto_merge(world, request, input),
        "minimizeComment" => minimize(world, request, input),
        "addPullRequestReviewThread" => add_thread(world, request, input),
        _ => {
            let node = by_id(world, request, text("pullRequestReviewThreadId"))?;
            let Node::Thread(place, number, id) = node else {
                return Err(wrong(text("pullRequestReviewThreadId")));
            };
            may_write(request, "pull_requests")?;
            let login = request.login.clone();
            let comment = world.add_reply(place, number, id, &login, text("body"));
            payload("comment", Some(Node::ReviewComment(place, comment)))
        }
    }
}

pub(super) fn forbidden(request: &Request) -> Trouble {
    let message = match request.token.kind() {
        TokenKind::App | TokenKind::Actions => "Resource not accessible by integration",
        _ => "Resource not accessible by personal access token",
    };
    trouble("FORBIDDEN", message)
}

pub(super) fn may_write(request: &Request, need: &str) -> Result<(), Trouble> {
    if request.token.lacks.contains(need) { Err(forbidden(request)) } else { Ok(()) }
}

pub(super) fn wrong(id: &str) -> Trouble {
    trouble("NOT_FOUND", format!("Could not resolve to a node with the global id of '{id}'"))
}

fn minimize(world: &mut World, request: &Request, input: &Value) -> Done {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    let classifier = text("classifier");
    let known = ["SPAM", "ABUSE", "OFF_TOPIC", "OUTDATED", "DUPLICATE", "RESOLVED", "LOW_QUALITY"];
    if !known.contains(&classifier) {
        let message =
            format!("Could not coerce value \"{classifier}\" to ReportedContentClassifiers");
        return Err(trouble("UNPROCESSABLE", message));
    }
    let id = text("subjectId");
    let node = by_id(world, request, id)?;
    let reason = Some(classifier.to_lowercase().replace('_', "-"));
    match node {
        Node::IssueComment(place, id) => {
            may_write(request, "issues").or_else(|_| may_write(request, "pull_requests"))?;
            let comments = &mut world.repositories[place].comments;
            comments.iter_mut().find(|comment| comment.id == id).unwrap().minimized = reason;
        }
        Node::ReviewComment(place, id) => {
            may_write(request, "pull_requests")?;
            world.review_comment_mut(place, id).unwrap().minimized = reason;
        }
        Node::Review(place, number, id) => {
            may_write(request, "pull_requests")?;
            let reviews = &mut world.pull_mut(place, number).reviews;
            reviews.iter_mut().find(|review| review.id == id).unwrap().minimized = reason;
        }
        _ => return Err(wrong(id)),
    }
    let shown = json!({
        "isMinimized": true, "viewerCanMinimize": true,
        "minimizedReason": classifier.to_lowercase().replace('_', "-"),
    });
    let shown = Node::Minimizable(shown);
    let mutation = input["clientMutationId"].clone();
    Ok(Node::Payload("minimizedComment", Some(Box::new(shown)), mutation))
}

/// Adds to the pending review of the one who asks, and begins one when there is none. Off the diff
/// nothing is added, and nothing is said.
fn add_thread(world: &mut World, request: &Request, input: &Value) -> Done {
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    may_write(request, "pull_requests")?;
    let id = [text("pullRequestReviewId"), text("pullRequestId")];
    let id = id.into_iter().find(|id| !id.is_empty()).unwrap_or_default();
    let (Node::Review(place, number, _) | Node::Pull(place, number)) = by_id(world, request, id)?
    else {
        return Err(wrong(id));
    };
    let sent = json!({
        "path": input["path"], "line": input["line"], "side": input["side"], "body": input["body"],
        "start_line": input["startLine"], "start_side": input["startSide"],
        "subject_type": if input["subjectType"] == "FILE" { "file" } else { "line" },
    });
    let (wanted, head) = (wanted(&sent), world.pull(place, number).last_head.clone());
    let mutation = input["clientMutationId"].clone();
    let Ok(placed) = world.placed(place, number, &head, &wanted) else {
        return Ok(Node::Payload("thread", None, mutation));
    };
    let login = request.login.clone();
    let pending =
        world.pull(place, number).reviews.iter().position(|review| {
            review.state == "PENDING" && review.author.as_deref() == Some(&login)
        });
    // A new review with the thread is joined to the pending one.
    let new = world.add_review(place, number, &login, "PENDING", &head, "", vec![(wanted, placed)]);
    let pull = world.pull_mut(place, number);
    let thread = pull.threads.last_mut().unwrap();
    if let Some(pending) = pending {
        thread.comments[0].review = pull.reviews[pending].id;
        pull.reviews.retain(|review| review.id != new);
    }
    let id = pull.threads.last().unwrap().id;
    Ok(Node::Payload("thread", Some(Box::new(Node::Thread(place, number, id))), mutation))
}
