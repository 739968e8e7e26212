//! Reviews: all or nothing, one pending one for each person, and never on one's own.

use serde_json::{Value, json};

use super::{Answer, Request, World};
use crate::support::github::conversation::{Misplaced, Placed, Wanted, without_html_comments};
use crate::support::github::git;
use crate::support::github::shape_review as shape;
use crate::support::github::world::{Review, TokenKind};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    let number: u64 = rest[1].parse().ok()?;
    world.repositories[place].pulls.get(&number)?;
    let method = request.method.as_str();
    if let ["pulls", _, "reviews"] = rest {
        return Some(match method {
            "GET" => list(world, request, place, number),
            _ => create(world, request, place, number),
        });
    }
    let id: u64 = rest.get(3)?.parse().ok()?;
    let reviews = &world.pull(place, number).reviews;
    let review = reviews.iter().find(|review| review.id == id)?.clone();
    if !world.is_visible(place, number, id, &request.login) {
        return None;
    }
    let mine = review.author.as_deref() == Some(&request.login);
    match (method, &rest[4..]) {
        ("GET", []) => Some(shown(world, request, place, number, id)),
        ("PUT", []) if !mine => Some(Answer::problem(403, "Forbidden")),
        ("PUT", []) => {
            let body = request.text("body");
            let keeps = world.repositories[place].keeps_html_comments;
            change(world, place, number, id, |review| {
                review.body = if keeps { body } else { without_html_comments(&body) };
            });
            Some(shown(world, request, place, number, id))
        }
        ("DELETE", []) if review.state != "PENDING" => {
            Some(Answer::unprocessable(&["Can not delete a non-pending pull request review"]))
        }
        ("DELETE", []) => {
            let answer = shown(world, request, place, number, id);
            let pull = world.pull_mut(place, number);
            pull.reviews.retain(|review| review.id != id);
            pull.threads.retain(|thread| thread.comments.iter().all(|c| c.review != id));
            Some(answer)
        }
        ("GET", ["comments"]) => Some(comments_of(world, request, place, number, id)),
        ("POST", ["events"]) => Some(submit(world, request, place, number, &review)),
        ("PUT", ["dismissals"]) => Some(dismiss(world, request, place, number, &review)),
        _ => None,
    }
}

/// The comments of a review, without line numbers.
fn comments_of(world: &World, request: &Request, place: usize, number: u64, id: u64) -> Answer {
    let threads = world.pull(place, number).threads.iter();
    let comments =
        threads.flat_map(|thread| thread.comments.iter().map(move |comment| (thread, comment)));
    let own = comments.filter(|(_, comment)| comment.review == id);
    let items = own.map(|(thread, comment)| {
        shape::review_comment(world, &request.base, place, number, thread, comment, false)
    });
    request.page(Some(&world.repositories[place]), items.collect())
}

fn shown(world: &World, request: &Request, place: usize, number: u64, id: u64) -> Answer {
    let reviews = &world.pull(place, number).reviews;
    let review = reviews.iter().find(|review| review.id == id).unwrap();
    Answer::new(200, shape::review(world, &request.base, place, number, review))
}

fn change(world: &mut World, place: usize, number: u64, id: u64, change: impl FnOnce(&mut Review)) {
    let reviews = &mut world.pull_mut(place, number).reviews;
    change(reviews.iter_mut().find(|review| review.id == id).unwrap());
}

fn list(world: &World, request: &Request, place: usize, number: u64) -> Answer {
    let reviews = world.pull(place, number).reviews.iter();
    let visible =
        reviews.filter(|review| world.is_visible(place, number, review.id, &request.login));
    let items =
        visible.map(|review| shape::review(world, &request.base, place, number, review)).collect();
    request.page(Some(&world.repositories[place]), items)
}

/// What keeps this event from happening, whatever is in the review.
fn forbidden(
    world: &World,
    request: &Request,
    place: usize,
    number: u64,
    event: &str,
) -> Option<Answer> {
    let repository = &world.repositories[place];
    let issue = &repository.issues[&number];
    if issue.locked {
        return Some(Answer::unprocessable(&["lock prevents review"]));
    }
    let own = issue.author.as_deref() == Some(&request.login);
    if event == "APPROVE" && own {
        return Some(Answer::unprocessable(&["Can not approve your own pull request"]));
    }
    if event == "REQUEST_CHANGES" && own {
        return Some(Answer::unprocessable(&["Can not request changes on your own pull request"]));
    }
    let robot = request.token.kind() == TokenKind::Actions;
    if event == "APPROVE" && robot && !repository.actions_may_approve {
        let text = "GitHub Actions is not permitted to approve pull requests.";
        return Some(Answer::unprocessable(&[text]));
    }
    None
}

fn state_of(event: &str) -> &'static str {
    match event {
        "APPROVE" => "APPROVED",
        "REQUEST_CHANGES" => "CHANGES_REQUESTED",
        "COMMENT" => "COMMENTED",
        _ => "PENDING",
    }
}

fn create(world: &mut World, request: &Request, place: usize, number: u64) -> Answer {
    let (event, body) = (request.text("event"), request.text("body"));
    if let Some(answer) = forbidden(world, request, place, number, &event) {
        return answer;
    }
    let pull = world.pull(place, number);
    let pending = |review: &Review| {
        review.state == "PENDING" && review.author.as_deref() == Some(&request.login)
    };
    if pull.reviews.iter().any(pending) {
        return Answer::unprocessable(&["User can only have one pending review per pull request"]);
    }
    if super::too_long(request.field("body")) {
        return Answer::unprocessable(&["Body is too long (maximum is 65536 characters)"]);
    }
    let commit = match request.field("commit_id").as_str() {
        None => pull.last_head.clone(),
        Some(commit) if world.commits(place, number).iter().any(|other| other == commit) => {
            commit.to_owned()
        }
        Some(_) => {
            return Answer::unprocessable(&["The commitOID is not part of the pull request"]);
        }
    };
    let comments = request.field("comments").as_array().cloned().unwrap_or_default();
    if comments.len() > world.limits.review_comments {
        return Answer::secondary(None);
    }
    let comments = match placed(world, place, number, &commit, &comments) {
        Ok(comments) => comments,
        Err(answer) => return answer,
    };
    let needs_words = event == "COMMENT" || event == "REQUEST_CHANGES";
    if needs_words && body.trim().is_empty() && (comments.is_empty() || event != "COMMENT") {
        return Answer::unprocessable(&["Review body can't be blank"]);
    }
    let login = request.login.clone();
    let id = world.add_review(place, number, &login, state_of(&event), &commit, &body, comments);
    shown(world, request, place, number, id)
}

/// All comments where they belong, or what GitHub says of the first that has no place. It does not
/// say which one that is.
fn placed(
    world: &World,
    place: usize,
    number: u64,
    commit: &str,
    comments: &[Value],
) -> Result<Vec<(Wanted, Placed)>, Answer> {
    let mut done = Vec::new();
    for comment in comments {
        for key in comment.as_object().into_iter().flatten().map(|(key, _)| key.as_str()) {
            let known = ["path", "position", "body", "line", "side", "start_line", "start_side"];
            if !known.contains(&key) {
                let text = format!("Invalid request.\n\n\"{key}\" is not a permitted key.");
                return Err(Answer::problem(422, &text));
            }
        }
        let wanted = wanted(comment);
        if super::too_long(&comment["body"]) {
            let text = "Body is too long (maximum is 65536 characters)";
            return Err(Answer::unprocessable(&[text]));
        }
        if wanted.body.trim().is_empty() {
            return Err(Answer::unprocessable(&["Body can't be blank"]));
        }
        let placed = world.placed(place, number, commit, &wanted).map_err(|why| {
            Answer::unprocessable(&[match why {
                Misplaced::Path => "Path could not be resolved",
                Misplaced::Line => "Line could not be resolved",
                Misplaced::StartLine => "Start line could not be resolved",
                Misplaced::StartNotBefore => {
                    "Pull request review thread start line must precede the end line."
                }
                Misplaced::OtherHunk => {
                    "Pull request review thread start line must be part of the same hunk as the line."
                }
            }])
        })?;
        done.push((wanted, placed));
    }
    Ok(done)
}

/// A comment as it was sent.
pub(super) fn wanted(comment: &Value) -> Wanted {
    let number = |name: &str| comment[name].as_u64().and_then(|n| u32::try_from(n).ok());
    let text = |name: &str| comment[name].as_str().map(str::to_owned);
    Wanted {
        path: text("path").unwrap_or_default(),
        line: number("line"),
        side: text("side"),
        start_line: number("start_line"),
        start_side: text("start_side"),
        position: comment["position"].as_u64().and_then(|n| usize::try_from(n).ok()),
        file: comment["subject_type"] == json!("file"),
        body: text("body").unwrap_or_default(),
    }
}

fn submit(
    world: &mut World,
    request: &Request,
    place: usize,
    number: u64,
    review: &Review,
) -> Answer {
    let event = request.text("event");
    if review.state != "PENDING" {
        return Answer::unprocessable(&["Can not submit a non-pending pull request review"]);
    }
    if let Some(answer) = forbidden(world, request, place, number, &event) {
        return answer;
    }
    let body = request.field("body").as_str().unwrap_or(&review.body).to_owned();
    let keeps = world.repositories[place].keeps_html_comments;
    let now = world.tick();
    change(world, place, number, review.id, |review| {
        review.body = if keeps { body } else { without_html_comments(&body) };
        (review.state, review.submitted) = (state_of(&event), Some(now));
    });
    shown(world, request, place, number, review.id)
}

fn dismiss(
    world: &mut World,
    request: &Request,
    place: usize,
    number: u64,
    review: &Review,
) -> Answer {
    if !["APPROVED", "CHANGES_REQUESTED"].contains(&review.state) {
        let state = review.state.to_lowercase();
        let text = format!("Can not dismiss a {state} pull request review");
        return Answer::unprocessable(&[&text]);
    }
    if request.text("message").trim().is_empty() {
        return Answer::unprocessable(&["Message can't be blank"]);
    }
    change(world, place, number, review.id, |review| review.state = "DISMISSED");
    shown(world, request, place, number, review.id)
}

/// Whether a commit is one of the pull request's.
pub(super) fn is_part(world: &World, place: usize, number: u64, commit: &str) -> bool {
    git::commit(&world.repositories[place].path, commit).is_some()
        && world.commits(place, number).iter().any(|other| other == commit)
}
