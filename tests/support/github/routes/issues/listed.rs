//! The list of issues, and new ones.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::super::Repository;
use super::{Answer, Issue, Request, Value, World, json, shape, too_long};

/// Pull requests are in it, too. Its pages have a cursor, and the last one is not named.
pub(super) fn list(world: &World, request: &Request, place: usize) -> Answer {
    let repository = &world.repositories[place];
    let wanted = request.query("state").unwrap_or("open");
    let labels: Vec<&str> =
        request.query("labels").into_iter().flat_map(|all| all.split(',')).collect();
    let has = |issue: &Issue, label: &str| {
        issue.labels.iter().any(|other| other.eq_ignore_ascii_case(label))
    };
    let creator = request.query("creator");
    let mut shown: Vec<&Issue> = repository
        .issues
        .values()
        .filter(|issue| !issue.deleted && issue.transferred_to.is_none())
        .filter(|issue| wanted == "all" || issue.open == (wanted == "open"))
        .filter(|issue| {
            let author = issue.author.as_deref().unwrap_or("ghost");
            creator.is_none_or(|creator| creator.eq_ignore_ascii_case(author))
        })
        .filter(|issue| labels.iter().all(|label| has(issue, label)))
        .collect();
    if request.query("sort") == Some("updated") {
        shown.sort_by_key(|issue| issue.updated);
    }
    if request.query("direction") != Some("asc") {
        shown.reverse();
    }
    page(world, request, repository, &shown)
}

fn page(world: &World, request: &Request, repository: &Repository, issues: &[&Issue]) -> Answer {
    let issues =
        if request.stale { issues.split_first().map_or(issues, |(_, rest)| rest) } else { issues };
    let number = |name: &str| request.query(name).and_then(|text| text.parse::<usize>().ok());
    let size = number("per_page").unwrap_or(30).clamp(1, 100);
    let page = number("page").unwrap_or(1).max(1);
    if page * size > 10_000 {
        let text = "In order to keep the API fast, pagination is limited for this resource.";
        return Answer::problem(422, text);
    }
    let after = request.query("after").map(|cursor| {
        let decoded = BASE64_STANDARD.decode(cursor).unwrap_or_default();
        let last: Option<u64> =
            String::from_utf8_lossy(&decoded).rsplit(':').next().and_then(|n| n.parse().ok());
        issues.iter().position(|issue| Some(issue.number) == last).map_or(issues.len(), |at| at + 1)
    });
    let start = after.unwrap_or((page - 1) * size).min(issues.len());
    let end = (start + size).min(issues.len());
    let items = issues[start..end]
        .iter()
        .map(|issue| shape::issue(world, &request.base, repository, issue));
    let answer = Answer::new(200, items.collect());
    if end == issues.len() {
        return answer;
    }
    let cursor = BASE64_STANDARD.encode(format!("cursor:v2:{}", issues[end - 1].number));
    let mut query: Vec<(String, String)> =
        request.query.iter().filter(|(key, _)| key != "page" && key != "after").cloned().collect();
    query.push(("after".to_owned(), cursor));
    query.push(("page".to_owned(), (page + 1).to_string()));
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    let to = request.base.api(&format!("repositories/{}/issues?{query}", repository.id));
    answer.header("link", format!("<{to}>; rel=\"next\""))
}

/// What is too long, or missing.
pub(super) fn refusal(request: &Request) -> Option<Answer> {
    let title = request.field("title").as_str();
    let problem = if title.is_some_and(|title| title.trim().is_empty()) {
        json!({"code": "missing_field", "field": "title"})
    } else if title.is_some_and(|title| title.chars().count() > 256) {
        let text = "title is too long (maximum is 256 characters)";
        json!({"code": "custom", "field": "title", "message": text})
    } else if too_long(request.field("body")) {
        let text = "body is too long (maximum is 65536 characters)";
        json!({"code": "custom", "field": "body", "message": text})
    } else {
        return None;
    };
    Some(Answer::invalid("Issue", &[problem]))
}

/// The labels of a request, if it has some.
pub(super) fn labels(request: &Request) -> Option<Vec<String>> {
    let labels = request.field("labels").as_array()?;
    let name = |label: &Value| label.as_str().or(label["name"].as_str()).map(str::to_owned);
    Some(labels.iter().filter_map(name).collect())
}

/// Labels that are not there yet are made.
pub(super) fn set_labels(repository: &mut Repository, number: u64, names: &[String]) {
    let known = |name: &String| {
        let found = repository.labels.iter().find(|other| other.eq_ignore_ascii_case(name));
        found.unwrap_or(name).clone()
    };
    let names: Vec<String> = names.iter().map(known).collect();
    repository.labels.extend(names.iter().cloned());
    if let Some(issue) = repository.issues.get_mut(&number) {
        issue.labels = names;
    }
}

pub(super) fn create(world: &mut World, request: &Request, place: usize) -> Answer {
    if let Some(answer) = refusal(request) {
        return answer;
    }
    let repository = &world.repositories[place];
    let number = repository.issues.keys().max().unwrap_or(&0) + 1;
    let (name, may) = (repository.full_name(), repository.writable(&request.token));
    let body = request.field("body").as_str().map(str::to_owned);
    world.add_issue(&name, number, &request.text("title"), body.as_deref(), Some(&request.login));
    // Those who may not label are not told.
    if let Some(labels) = labels(request).filter(|_| may) {
        set_labels(&mut world.repositories[place], number, &labels);
    }
    let repository = &world.repositories[place];
    let issue = &repository.issues[&number];
    let shown = shape::issue(world, &request.base, repository, issue);
    let location = shown["url"].as_str().unwrap_or_default().to_owned();
    Answer::new(201, shown).header("location", location)
}
