//! Why GitHub refused a review: its words differ between endpoints, versions and years, so several
//! forms of each are known, and what is unknown falls on the comments, which can be left out.

use serde::Deserialize;
use serde_json::Value;

use super::http::Reply;

/// What a refusal means for the next attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A pending review of ours is in the way.
    Pending,
    /// No verdict from us here, only a comment.
    OnlyComment(String),
    /// The commit is not, or no longer, part of the pull request.
    HeadMoved,
    /// We may not write here.
    MayNot(String),
    /// Comments that are not on the diff, by their place in the request; none when GitHub does not say which.
    Comments {
        comments: Vec<usize>,
        message: String,
    },
    Other,
}

#[derive(Default, Deserialize)]
struct Problems {
    #[serde(default)]
    message: Option<String>,
    /// A list of strings or of objects, or one string.
    #[serde(default)]
    errors: Value,
}

/// Reads an answer that is not 2xx. `message` is the answer in words; `comments` is how many the
/// review had; `asks_more` says that it asked for more than a comment.
pub(super) fn why(reply: &Reply, message: &str, comments: usize, asks_more: bool) -> Refusal {
    let problems: Problems = serde_json::from_slice(&reply.body).unwrap_or_default();
    let texts = texts(&problems);
    let says =
        |words: &[&str]| texts.iter().any(|text| words.iter().all(|word| text.contains(word)));
    let message = message.to_owned();
    let no_verdict = says(&["your own pull request"])
        || says(&["not permitted to approve"])
        || says(&["not permitted to create or approve"]);
    if says(&["one pending review"]) {
        return Refusal::Pending;
    }
    if asks_more && no_verdict {
        return Refusal::OnlyComment(message);
    }
    if says(&["commit", "not part of the pull request"]) || says(&["no commit found"]) {
        return Refusal::HeadMoved;
    }
    if says(&["lock prevents"]) || says(&["is locked"]) || says(&["locked", "conversation"]) {
        return Refusal::MayNot(message);
    }
    match reply.status.as_u16() {
        403 | 404 | 410 => Refusal::MayNot(message),
        422 | 400 if comments > 0 => {
            let mut named: Vec<usize> = texts.iter().flat_map(|text| places(text)).collect();
            named.retain(|place| *place < comments);
            named.sort_unstable();
            named.dedup();
            Refusal::Comments { comments: named, message }
        }
        422 if asks_more => Refusal::OnlyComment(message),
        _ => Refusal::Other,
    }
}

/// The message and each error, with everything that it says, in lower case.
fn texts(problems: &Problems) -> Vec<String> {
    let mut texts = Vec::new();
    texts.extend(problems.message.as_ref().map(|message| message.to_lowercase()));
    match &problems.errors {
        Value::Array(errors) => texts.extend(errors.iter().map(text)),
        Value::Null => {}
        one => texts.push(text(one)),
    }
    texts
}

fn text(error: &Value) -> String {
    match error {
        Value::String(text) => text.to_lowercase(),
        Value::Object(fields) => {
            let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let index = fields.get("index").and_then(Value::as_u64);
            let index = index.map(|index| format!("comments[{index}]")).unwrap_or_default();
            let words = [field("field"), field("path"), &index, field("code"), field("message")];
            words.join(" ").to_lowercase()
        }
        other => other.to_string(),
    }
}

/// The numbers in `comments[3].line`, `comments.3.line` and `comments/3/line`.
fn places(text: &str) -> Vec<usize> {
    let after = text.split("comments").skip(1);
    let number = |rest: &str| {
        let rest = rest.strip_prefix(['[', '.', '/'])?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits)?.parse().ok()
    };
    after.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use serde_json::{Value, json};

    use crate::github::http::Reply;
    use crate::github::review_refusal::{Refusal, why};

    fn comments(list: &[usize]) -> Refusal {
        Refusal::Comments { comments: list.to_vec(), message: "m".to_owned() }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn refusals_are_told_apart_in_every_form_that_they_come_in() {
        let only_comment = || Refusal::OnlyComment("m".to_owned());
        let may_not = || Refusal::MayNot("m".to_owned());
        let plain = |text: &str| json!({"message": "Unprocessable Entity", "errors": [text]});
        let object = |field: &str, text: &str| {
            json!({"message": "Validation Failed", "errors": [
                {"resource": "PullRequestReview", "code": "custom", "field": field, "message": text}]})
        };
        let table: Vec<(u16, Value, usize, bool, Refusal)> = vec![
            (422, plain("Line could not be resolved"), 3, false, comments(&[])),
            (422, plain("Path could not be resolved"), 1, true, comments(&[])),
            (
                422,
                json!({"message": "Unprocessable Entity",
                    "errors": ["Path could not be resolved", "comments[2]: Line could not be resolved"]}),
                3,
                false,
                comments(&[2]),
            ),
            (
                422,
                object(
                    "comments[1].line",
                    "pull_request_review_thread.line must be part of the diff",
                ),
                3,
                false,
                comments(&[1]),
            ),
            (
                422,
                object("comments.0.start_line", "start_line must precede"),
                2,
                false,
                comments(&[0]),
            ),
            (422, object("comments[9].line", "must be part of the diff"), 2, false, comments(&[])),
            (422, json!({"message": "x", "errors": [{"index": 1}]}), 2, false, comments(&[1])),
            (422, json!({"message": "x", "errors": "all wrong"}), 2, false, comments(&[])),
            (422, json!("no object"), 1, false, comments(&[])),
            (422, plain("something new"), 0, false, Refusal::Other),
            (422, plain("something new"), 0, true, only_comment()),
            (422, plain("Can not approve your own pull request"), 2, true, only_comment()),
            (
                422,
                object("", "Review Can not request changes on your own pull request"),
                2,
                true,
                only_comment(),
            ),
            (
                422,
                plain("GitHub Actions is not permitted to approve pull requests."),
                0,
                true,
                only_comment(),
            ),
            (
                422,
                plain("User can only have one pending review per pull request"),
                2,
                true,
                Refusal::Pending,
            ),
            (
                422,
                plain("The commitOID is not part of the pull request"),
                2,
                true,
                Refusal::HeadMoved,
            ),
            (
                422,
                object("commit_id", "commit_id is not part of the pull request"),
                0,
                false,
                Refusal::HeadMoved,
            ),
            (422, json!({"message": "No commit found for SHA: abc"}), 1, false, Refusal::HeadMoved),
            (422, plain("lock prevents review"), 1, false, may_not()),
            (403, json!({"message": "Resource not accessible by integration"}), 1, true, may_not()),
            (404, json!({"message": "Not Found"}), 0, false, may_not()),
        ];
        for (status, body, count, asks_more, expected) in table {
            let reply = Reply {
                status: StatusCode::from_u16(status).unwrap(),
                headers: HeaderMap::new(),
                body: body.to_string().into_bytes(),
                redirected: false,
            };
            assert_eq!(why(&reply, "m", count, asks_more), expected, "{body}");
        }
    }
}
