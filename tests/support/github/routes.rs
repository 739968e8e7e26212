//! What GitHub does: one function per resource, from a request to an answer and a changed world.

use serde_json::{Value, json};

use super::git;
use super::server::message;
use super::shape::{self, Base};
use super::world::{Issue, Reaction, Repository, Token, TokenKind, World};

mod apps;
mod checks;
mod comments;
mod commits;
mod contents;
mod forks;
mod graphql;
mod hooks;
mod issues;
mod lists;
mod objects;
mod pulls;
mod reactions;
mod repositories;
mod reviews;
mod search;
mod search_issues;

/// A request that the description knows.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) segments: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Option<Value>,
    /// Whose token; empty without one.
    pub(crate) login: String,
    pub(crate) token: Token,
    /// The `Accept` header.
    pub(crate) accept: String,
    pub(crate) base: Base,
    /// A list leaves out its newest item.
    pub(crate) stale: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) text: Option<String>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: Value) -> Answer {
        Answer { status, body, text: None, headers: Vec::new() }
    }

    pub(crate) fn text(status: u16, text: &str) -> Answer {
        Answer { text: Some(text.to_owned()), ..Answer::new(status, Value::Null) }
    }

    pub(crate) fn problem(status: u16, text: &str) -> Answer {
        Answer::new(status, message(text, status))
    }

    /// GitHub's 422 with its list of errors.
    pub(crate) fn invalid(resource: &str, errors: &[Value]) -> Answer {
        let errors: Vec<Value> = errors
            .iter()
            .map(|error| {
                let mut error = error.clone();
                error["resource"] = json!(resource);
                error
            })
            .collect();
        let mut body = message("Validation Failed", 422);
        body["errors"] = json!(errors);
        Answer::new(422, body)
    }

    /// The other form of 422, whose errors are mere words.
    pub(crate) fn unprocessable(errors: &[&str]) -> Answer {
        let mut body = message("Unprocessable Entity", 422);
        body["errors"] = json!(errors);
        Answer::new(422, body)
    }

    /// 403 for a token that may not, by its kind.
    pub(crate) fn not_accessible(token: &Token) -> Answer {
        let by = match token.kind() {
            TokenKind::App | TokenKind::Actions => "integration",
            _ => "personal access token",
        };
        Answer::problem(403, &format!("Resource not accessible by {by}"))
    }

    /// The page with the unicorn, which is HTML.
    pub(crate) fn unicorn(status: u16) -> Answer {
        Answer::text(
            status,
            "<!DOCTYPE html>\n<html><title>Unicorn! &middot; GitHub</title></html>",
        )
    }

    pub(crate) fn primary(reset_in: u64) -> Answer {
        let now = chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::UNIX_EPOCH)
            + std::time::UNIX_EPOCH.elapsed().unwrap();
        let reset = now.timestamp().unsigned_abs() + reset_in;
        Answer::problem(403, "API rate limit exceeded for user ID 1.")
            .header("x-ratelimit-remaining", "0".to_owned())
            .header("x-ratelimit-reset", reset.to_string())
    }

    pub(crate) fn secondary(retry_after: Option<u64>) -> Answer {
        let answer = Answer::problem(
            403,
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        );
        match retry_after {
            Some(seconds) => answer.header("retry-after", seconds.to_string()),
            None => answer,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: String) -> Answer {
        self.headers.push((name, value));
        self
    }
}

impl Request {
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn field(&self, name: &str) -> &Value {
        self.body.as_ref().map_or(&Value::Null, |body| &body[name])
    }

    /// One page of a list that comes with its length.
    pub(crate) fn page_of(&self, repository: &Repository, key: &str, items: Vec<Value>) -> Answer {
        let count = items.len();
        let mut answer = self.page(Some(repository), items);
        if answer.status == 200 {
            answer.body = json!({"total_count": count, key: answer.body});
        }
        answer
    }

    /// A field that is text; empty without it.
    pub(crate) fn text(&self, name: &str) -> String {
        self.field(name).as_str().unwrap_or_default().to_owned()
    }

    /// One page of a list, with links that go by the repository's id.
    pub(crate) fn page(&self, repository: Option<&Repository>, items: Vec<Value>) -> Answer {
        let path = match repository {
            Some(repository) => {
                format!("repositories/{}/{}", repository.id, self.segments[3..].join("/"))
            }
            None => self.segments.join("/"),
        };
        self.page_at(&path, items)
    }

    /// A page of a list with links to this path.
    pub(crate) fn page_at(&self, path: &str, mut items: Vec<Value>) -> Answer {
        if self.stale {
            items.pop();
        }
        let number = |name: &str| self.query(name).and_then(|text| text.parse::<usize>().ok());
        let size = number("per_page").unwrap_or(30).clamp(1, 100);
        let page = number("page").unwrap_or(1).max(1);
        if page * size > 10_000 {
            return Answer::problem(
                422,
                "In order to keep the API fast, pagination is limited for this resource.",
            );
        }
        let last = items.len().div_ceil(size).max(1);
        let link = |to: usize, rel: &str| {
            let mut query: Vec<(String, String)> =
                self.query.iter().filter(|(key, _)| key != "page").cloned().collect();
            query.push(("page".to_owned(), to.to_string()));
            let query =
                url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            format!("<{}?{query}>; rel=\"{rel}\"", self.base.api(path))
        };
        let mut links = Vec::new();
        if page > 1 {
            links.extend([link(page - 1, "prev"), link(1, "first")]);
        }
        if page < last {
            links.extend([link(page + 1, "next"), link(last, "last")]);
        }
        let shown = items.into_iter().skip((page - 1) * size).take(size).collect();
        let answer = Answer::new(200, Value::Array(shown));
        if links.is_empty() { answer } else { answer.header("link", links.join(", ")) }
    }
}

/// `repositories/{id}/…` as `repos/{owner}/{name}/…`, which is how it is described.
pub(crate) fn by_name(world: &World, segments: &[String]) -> Vec<String> {
    let id = segments.get(1).and_then(|id| id.parse::<u64>().ok());
    let account = world.users.values().find(|user| Some(user.id) == id);
    if let (Some(account), [kind, _, _, ..]) = (account, segments) {
        let described = match kind.as_str() {
            "organizations" => "orgs",
            "user" => "users",
            other => other,
        };
        let mut named = vec![described.to_owned(), account.login.clone()];
        named.extend(segments[2..].iter().cloned());
        return named;
    }
    let found = world.repositories.iter().find(|repository| Some(repository.id) == id);
    match found {
        Some(repository) if segments[0] == "repositories" => {
            let mut named =
                vec!["repos".to_owned(), repository.owner.clone(), repository.name.clone()];
            named.extend(segments[2..].iter().cloned());
            named
        }
        _ => segments.to_vec(),
    }
}

/// Does what the request asks.
pub(crate) fn answer(world: &mut World, request: &Request) -> Answer {
    let parts: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["user"]) => own_account(world, request),
        ("GET", ["users", login]) => {
            let login = (*login).to_owned();
            match shape::user(world, Some(&login)) {
                Value::Null => Answer::problem(404, "Not Found"),
                user => Answer::new(200, shape::made_of("public-user", user)),
            }
        }
        ("GET", ["rate_limit"]) => {
            Answer::new(200, shape::made_of("rate-limit-overview", json!({})))
        }
        (_, ["app", ..])
        | ("DELETE", ["installation", "token"])
        | ("GET", ["orgs" | "users", _, "installation"] | ["repos", _, _, "installation"]) => {
            let answer = apps::answer(world, request, &parts);
            answer.unwrap_or_else(|| Answer::problem(404, "Not Found"))
        }
        ("GET", ["orgs" | "users" | "user" | "installation", ..]) => {
            let answer = lists::answer(world, request, &parts);
            answer.unwrap_or_else(|| Answer::problem(404, "Not Found"))
        }
        ("GET", ["search", what]) => {
            let answer = search::answer(world, request, what);
            answer.unwrap_or_else(|| Answer::problem(404, "Not Found"))
        }
        ("POST", ["graphql"]) => graphql::answer(world, request),
        (_, ["repos", owner, name, rest @ ..]) => {
            let full_name = format!("{owner}/{name}");
            in_repository(world, request, &full_name, rest)
        }
        _ => Answer::problem(404, "Not Found"),
    }
}

fn own_account(world: &World, request: &Request) -> Answer {
    if request.login.is_empty() {
        return Answer::problem(401, "Requires authentication");
    }
    if request.login.ends_with("[bot]") {
        return Answer::problem(403, "Resource not accessible by integration");
    }
    Answer::new(200, shape::made_of("public-user", shape::user(world, Some(&request.login))))
}

fn in_repository(world: &mut World, request: &Request, full_name: &str, rest: &[&str]) -> Answer {
    // Who has a name now comes before whoever had it once.
    let moved = world
        .repositories
        .iter()
        .find(|r| r.former_names.iter().any(|old| old.eq_ignore_ascii_case(full_name)))
        .filter(|_| world.place(full_name).is_none());
    if let Some(moved) = moved {
        let rest = if rest.is_empty() { String::new() } else { format!("/{}", rest.join("/")) };
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&request.query)
            .finish();
        let query = if query.is_empty() { query } else { format!("?{query}") };
        let to = request.base.api(&format!("repositories/{}{rest}{query}", moved.id));
        let status = if request.method == "GET" { 301 } else { 307 };
        return Answer::problem(status, "Moved Permanently").header("location", to);
    }
    let Some(place) = world.place(full_name) else { return Answer::problem(404, "Not Found") };
    forks::go_on(world, place);
    let repository = &world.repositories[place];
    if !lists::is_seen(repository, request) || !forks::is_visible(repository) {
        return Answer::problem(404, "Not Found");
    }
    if let Some(blocked) = repository.blocked {
        return blocked.answer();
    }
    if repository.disabled {
        let mut answer = Answer::problem(403, "Repository access blocked");
        answer.body["block"] = json!({"reason": "tos", "created_at": shape::time(0)});
        return answer;
    }
    let writes = request.method != "GET";
    if writes && request.login.is_empty() {
        return Answer::problem(401, "Requires authentication");
    }
    if writes && request.token.read_only {
        return Answer::not_accessible(&request.token);
    }
    let needs = needs(&world.repositories[place], rest);
    if writes && needs.iter().all(|need| request.token.lacks.contains(need)) {
        return Answer::not_accessible(&request.token)
            .header("x-accepted-github-permissions", format!("{}=write", needs[0]));
    }
    if writes && world.repositories[place].archived {
        return Answer::problem(403, "Repository was archived so is read-only.");
    }
    resource(world, request, place, rest)
}

/// By the resource.
fn resource(world: &mut World, request: &Request, place: usize, rest: &[&str]) -> Answer {
    let own = |answer: Option<Answer>| answer.unwrap_or_else(|| Answer::problem(404, "Not Found"));
    match rest {
        ["issues" | "pulls", "comments", _, "reactions", ..] => {
            own(reactions::answer(world, request, place, rest))
        }
        ["issues" | "labels", ..] => own(issues::answer(world, request, place, rest)),
        ["pulls", _, "reviews", ..] => own(reviews::answer(world, request, place, rest)),
        ["pulls", "comments", ..] | ["pulls", _, "comments", ..] => {
            own(comments::answer(world, request, place, rest))
        }
        ["pulls", ..] => own(pulls::answer(world, request, place, rest)),
        ["check-runs" | "statuses" | "actions", ..] | ["commits", _, "check-runs" | "status"] => {
            own(checks::answer(world, request, place, rest))
        }
        ["hooks", rest @ ..] => own(hooks::answer(world, request, Some(place), rest)),
        ["git", "blobs" | "trees" | "commits", ..] | ["rules" | "rulesets" | "milestones", ..] => {
            own(objects::answer(world, request, place, rest))
        }
        ["git", "refs", ..] if ["POST", "PATCH"].contains(&request.method.as_str()) => {
            own(objects::answer(world, request, place, rest))
        }
        ["commits" | "compare", ..] => own(commits::answer(world, request, place, rest)),
        ["forks" | "merge-upstream"] => own(forks::answer(world, request, place, rest)),
        _ => own(repositories::answer(world, request, place, rest)),
    }
}

/// The permissions of which one is needed to write here.
fn needs(repository: &Repository, rest: &[&str]) -> &'static [&'static str] {
    let number = match rest {
        ["issues", "comments", id, ..] => {
            let id = id.parse::<u64>().ok();
            let comment = repository.comments.iter().find(|comment| Some(comment.id) == id);
            comment.map(|comment| comment.issue)
        }
        ["issues", number, ..] => number.parse().ok(),
        _ => None,
    };
    match rest.first() {
        Some(&"issues") if number.is_some_and(|n| repository.pulls.contains_key(&n)) => {
            &["pull_requests", "issues"]
        }
        Some(&("issues" | "labels")) => &["issues"],
        Some(&"pulls") => &["pull_requests"],
        Some(&"statuses") => &["statuses"],
        Some(&"check-runs") => &["checks"],
        Some(&"actions") => &["actions"],
        Some(&"forks") => &["administration"],
        _ => &["contents"],
    }
}

fn too_long(body: &Value) -> bool {
    body.as_str().is_some_and(|body| body.chars().count() > 65_536)
}
