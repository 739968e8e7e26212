//! Comments on the diff, one at a time, and replies to them.

use serde_json::{Value, json};

use super::reviews::{is_part, wanted};
use super::{Answer, Request, World, too_long};
use crate::support::github::conversation::Misplaced;
use crate::support::github::shape_review as shape;

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    match (request.method.as_str(), rest) {
        ("GET", ["pulls", "comments", id]) => shown(world, request, place, id.parse().ok()?, 200),
        ("PATCH", ["pulls", "comments", id]) => {
            let (id, now) = (id.parse().ok()?, world.tick());
            if too_long(request.field("body")) {
                return Some(invalid(
                    "body",
                    "custom",
                    "body is too long (maximum is 65536 characters)",
                ));
            }
            let comment = world.review_comment_mut(place, id)?;
            (comment.body, comment.updated) = (request.text("body"), now);
            shown(world, request, place, id, 200)
        }
        ("DELETE", ["pulls", "comments", id]) => {
            let id = id.parse().ok()?;
            let number = world.find_review_comment(place, id)?.0;
            let pull = world.pull_mut(place, number);
            for thread in &mut pull.threads {
                thread.comments.retain(|comment| comment.id != id);
            }
            pull.threads.retain(|thread| !thread.comments.is_empty());
            Some(Answer::new(204, Value::Null))
        }
        (method, ["pulls", number, "comments", rest @ ..]) => {
            let number: u64 = number.parse().ok()?;
            world.repositories[place].pulls.get(&number)?;
            match (method, rest) {
                ("GET", []) => Some(list(world, request, place, number)),
                ("POST", []) => create(world, request, place, number),
                ("POST", [id, "replies"]) => reply(world, request, place, number, id.parse().ok()?),
                _ => None,
            }
        }
        _ => None,
    }
}

fn shown(world: &World, request: &Request, place: usize, id: u64, status: u16) -> Option<Answer> {
    let (number, thread, at) = world.find_review_comment(place, id)?;
    let comment = &thread.comments[at];
    if !world.is_visible(place, number, comment.review, &request.login) {
        return None;
    }
    let shape = shape::review_comment(world, &request.base, place, number, thread, comment, true);
    Some(Answer::new(status, shape))
}

fn list(world: &World, request: &Request, place: usize, number: u64) -> Answer {
    let pull = world.pull(place, number);
    let mut comments: Vec<_> = pull
        .threads
        .iter()
        .flat_map(|thread| thread.comments.iter().map(move |comment| (thread, comment)))
        .filter(|(_, comment)| world.is_visible(place, number, comment.review, ""))
        .collect();
    comments.sort_by_key(|(_, comment)| comment.id);
    if request.query("direction") == Some("desc") && !request.stale {
        comments.reverse();
    }
    let items = comments.into_iter().map(|(thread, comment)| {
        shape::review_comment(world, &request.base, place, number, thread, comment, true)
    });
    request.page(Some(&world.repositories[place]), items.collect())
}

fn invalid(field: &str, code: &str, message: &str) -> Answer {
    Answer::invalid(
        "PullRequestReviewComment",
        &[json!({"code": code, "field": field, "message": message})],
    )
}

/// In the words of this address, which are others than those of reviews.
fn misplaced(why: Misplaced) -> Answer {
    let thread = |field: &str| format!("pull_request_review_thread.{field}");
    let hunk = json!({"code": "missing_field", "field": thread("diff_hunk")});
    let first = match why {
        Misplaced::Path => json!({"code": "invalid", "field": thread("path")}),
        Misplaced::Line => {
            let message = format!("{} must be part of the diff", thread("line"));
            json!({"code": "custom", "field": thread("line"), "message": message})
        }
        Misplaced::StartNotBefore => {
            let message = format!("{} must precede the end line.", thread("start_line"));
            json!({"code": "custom", "field": thread("start_line"), "message": message})
        }
        Misplaced::StartLine | Misplaced::OtherHunk => {
            let message =
                format!("{} must be part of the same hunk as the line.", thread("start_line"));
            json!({"code": "custom", "field": thread("start_line"), "message": message})
        }
    };
    Answer::invalid("PullRequestReviewComment", &[first, hunk])
}

fn locked(world: &World, place: usize, number: u64) -> Option<Answer> {
    let text = "Unable to create comment because issue is locked.";
    world.repositories[place].issues[&number].locked.then(|| Answer::problem(403, text))
}

fn create(world: &mut World, request: &Request, place: usize, number: u64) -> Option<Answer> {
    if let Some(answer) = locked(world, place, number) {
        return Some(answer);
    }
    if let Some(id) = request.field("in_reply_to").as_u64() {
        return reply(world, request, place, number, id);
    }
    if too_long(request.field("body")) {
        return Some(invalid("body", "custom", "body is too long (maximum is 65536 characters)"));
    }
    let pending = world.pull(place, number).reviews.iter().any(|review| {
        review.state == "PENDING" && review.author.as_deref() == Some(&request.login)
    });
    if pending {
        let text = "user_id can only have one pending review per pull request";
        return Some(invalid("user_id", "custom", text));
    }
    let commit = request.text("commit_id");
    if !is_part(world, place, number, &commit) {
        let field = "pull_request_review_thread.end_commit_oid";
        let text = format!("{field} is not part of the pull request");
        return Some(invalid(field, "custom", &text));
    }
    let wanted = wanted(request.body.as_ref()?);
    let placed = match world.placed(place, number, &commit, &wanted) {
        Ok(placed) => placed,
        Err(why) => return Some(misplaced(why)),
    };
    let login = request.login.clone();
    world.add_review(place, number, &login, "COMMENTED", &commit, "", vec![(wanted, placed)]);
    let id = world.pull(place, number).threads.last()?.comments[0].id;
    shown(world, request, place, id, 201)
}

/// Only roots take replies.
fn reply(
    world: &mut World,
    request: &Request,
    place: usize,
    number: u64,
    id: u64,
) -> Option<Answer> {
    if let Some(answer) = locked(world, place, number) {
        return Some(answer);
    }
    let (of, thread, at) = world.find_review_comment(place, id)?;
    if of != number || !world.is_visible(place, number, thread.comments[at].review, "") {
        return None;
    }
    if at > 0 {
        return Some(invalid("in_reply_to", "invalid", "in_reply_to is not a top-level comment"));
    }
    if too_long(request.field("body")) {
        return Some(invalid("body", "custom", "body is too long (maximum is 65536 characters)"));
    }
    if request.text("body").trim().is_empty() {
        return Some(invalid("body", "missing_field", "body can't be blank"));
    }
    let (thread, login) = (thread.id, request.login.clone());
    let id = world.add_reply(place, number, thread, &login, &request.text("body"));
    shown(world, request, place, id, 201)
}
