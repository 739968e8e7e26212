//! Search: repositories and code, by qualifiers and words.

use super::lists::is_seen;
use super::{Answer, Repository, Request, Value, World, contents, json, shape};
use crate::support::git_quick;

pub(super) fn answer(world: &World, request: &Request, what: &str) -> Option<Answer> {
    let text = request.query("q").unwrap_or_default();
    let query = match Query::read(text) {
        Ok(query) => query,
        Err(answer) => return Some(answer),
    };
    if what == "code" && request.login.is_empty() {
        return Some(Answer::problem(401, "Requires authentication"));
    }
    if let Some(answer) = query.unknown_owner(world, request) {
        return Some(answer);
    }
    let items = match what {
        "repositories" => repositories(world, request, &query),
        "issues" => match super::search_issues::found(world, request, &query) {
            Ok(items) => items,
            Err(answer) => return Some(answer),
        },
        "code" => match code(world, request, &query) {
            Ok(items) => items,
            Err(answer) => return Some(answer),
        },
        _ => return None,
    };
    Some(page(request, items))
}

/// No more than the first thousand are given, however many there are.
fn page(request: &Request, mut items: Vec<Value>) -> Answer {
    let total = items.len();
    let number = |name: &str| request.query(name).and_then(|text| text.parse::<usize>().ok());
    let size = number("per_page").unwrap_or(30).clamp(1, 100);
    let page = number("page").unwrap_or(1).max(1);
    if (page - 1) * size >= 1000 {
        return Answer::problem(422, "Only the first 1000 search results are available");
    }
    items.truncate(1000);
    let mut answer = request.page_at(&request.segments.join("/"), items);
    if answer.status == 200 {
        answer.body =
            json!({"total_count": total, "incomplete_results": false, "items": answer.body});
        if request.segments.last().is_some_and(|what| what == "issues") {
            answer.body["search_type"] = json!("lexical");
        }
    }
    answer
}

fn repositories(world: &World, request: &Request, query: &Query) -> Vec<Value> {
    let found = world
        .repositories
        .iter()
        .filter(|one| is_seen(one, request) && !one.disabled && query.fits(one));
    let shown = found.map(|one| {
        let mut item = shape::repository(world, &request.base, one, "repo-search-result-item");
        item["score"] = json!(1.0);
        item
    });
    shown.collect()
}

fn code(world: &World, request: &Request, query: &Query) -> Result<Vec<Value>, Answer> {
    let file_terms = ["filename", "path", "extension"];
    let has_term = !query.words.is_empty()
        || query.terms.iter().any(|term| file_terms.contains(&term.0.as_str()));
    if !has_term {
        let text = "ERROR_TYPE_QUERY_PARSING_FATAL unable to parse query!";
        return Err(invalid("invalid", Some(text)));
    }
    let mut items = Vec::new();
    let seen = world.repositories.iter().filter(|one| {
        is_seen(one, request) && one.parent.is_none() && !one.disabled && query.owner_fits(one)
    });
    for repository in seen {
        for (path, content) in git_quick::files(&repository.path, &repository.default_branch) {
            if query.file_fits(&path, &String::from_utf8_lossy(&content)) {
                items.push(code_item(world, request, repository, &path));
            }
        }
    }
    Ok(items)
}

fn code_item(world: &World, request: &Request, repository: &Repository, path: &str) -> Value {
    let entry = contents::file(request, repository, &repository.default_branch, path);
    let entry = entry.unwrap_or_default();
    let repository = shape::repository(world, &request.base, repository, "minimal-repository");
    json!({
        "name": entry["name"], "path": path, "sha": entry["sha"], "url": entry["url"],
        "git_url": entry["git_url"], "html_url": entry["html_url"], "score": 1.0,
        "repository": repository,
    })
}

pub(super) fn invalid(code: &str, text: Option<&str>) -> Answer {
    let mut error = json!({"field": "q", "code": code});
    if let Some(text) = text {
        error["message"] = json!(text);
    }
    Answer::invalid("Search", &[error])
}

/// A query: qualifiers with their values and whether they are denied, and words.
pub(super) struct Query {
    pub(super) terms: Vec<(String, String, bool)>,
    pub(super) words: Vec<String>,
    /// One of the words is enough.
    pub(super) any: bool,
}

/// What is a qualifier here; anything else with a colon is a word.
const QUALIFIERS: [&str; 14] = [
    "org",
    "user",
    "repo",
    "topic",
    "language",
    "archived",
    "fork",
    "is",
    "in",
    "template",
    "filename",
    "path",
    "extension",
    "mirror",
];

impl Query {
    fn read(text: &str) -> Result<Query, Answer> {
        if text.trim().is_empty() {
            return Err(invalid("missing", None));
        }
        if text.chars().count() > 256 {
            return Err(invalid("invalid", Some("The search is longer than 256 characters.")));
        }
        let any = text.split_whitespace().any(|token| token == "OR");
        let mut query = Query { terms: Vec::new(), words: Vec::new(), any };
        let mut operators = 0;
        for token in tokens(text) {
            if ["AND", "OR", "NOT"].contains(&token.as_str()) {
                operators += 1;
                continue;
            }
            let (denied, plain) = match token.strip_prefix('-') {
                Some(plain) => (true, plain.to_owned()),
                None => (false, token),
            };
            match plain.split_once(':') {
                Some((name, value)) if QUALIFIERS.contains(&name) && !value.is_empty() => {
                    query.terms.push((name.to_owned(), value.to_lowercase(), denied));
                }
                _ => query.words.push(plain.to_lowercase()),
            }
        }
        if operators > 5 {
            let text = "More than five AND / OR / NOT operators were used.";
            return Err(invalid("invalid", Some(text)));
        }
        Ok(query)
    }

    pub(super) fn values(&self, name: &str, denied: bool) -> Vec<&str> {
        let terms = self.terms.iter().filter(|term| term.0 == name && term.2 == denied);
        terms.map(|term| term.1.as_str()).collect()
    }

    /// Owners and repositories that are all unknown are a mistake, not an empty result.
    fn unknown_owner(&self, world: &World, request: &Request) -> Option<Answer> {
        let owners: Vec<&str> =
            ["org", "user"].iter().flat_map(|name| self.values(name, false)).collect();
        let named = self.values("repo", false);
        if owners.is_empty() && named.is_empty() {
            return None;
        }
        let owner =
            |login: &&str| world.users.keys().any(|known| known.eq_ignore_ascii_case(login));
        let repository = |name: &&str| {
            world.repositories.iter().any(|one| one.is(name) && is_seen(one, request))
        };
        if owners.iter().any(owner) || named.iter().any(repository) {
            return None;
        }
        let text = "The listed users and repositories cannot be searched either because the resources do not exist or you do not have permission to view them.";
        Some(invalid("invalid", Some(text)))
    }

    /// Several owners or repositories are alternatives.
    pub(super) fn owner_fits(&self, one: &Repository) -> bool {
        let owner = one.owner.to_lowercase();
        let name = one.full_name().to_lowercase();
        let is = |term: &&(String, String, bool)| match term.0.as_str() {
            "org" | "user" => term.1 == owner,
            _ => term.1 == name,
        };
        let about =
            |term: &&(String, String, bool)| ["org", "user", "repo"].contains(&term.0.as_str());
        let mut asked = self.terms.iter().filter(|term| !term.2).filter(about).peekable();
        let fits = asked.peek().is_none() || asked.any(|term| is(&term));
        fits && !self.terms.iter().filter(|term| term.2).filter(about).any(|term| is(&term))
    }

    fn fits(&self, one: &Repository) -> bool {
        // Forks are left out unless they are asked for.
        let forks = self.values("fork", false);
        let is_fork = one.parent.is_some();
        let fork_fits = match forks.last() {
            Some(&"true") => true,
            Some(&"only") => is_fork,
            _ => !is_fork,
        };
        let topics: Vec<String> = one.topics.iter().map(|topic| topic.to_lowercase()).collect();
        let language = one.language.clone().unwrap_or_default().to_lowercase();
        let each = self.terms.iter().all(|(name, value, denied)| {
            let fits = match name.as_str() {
                "topic" => topics.contains(value),
                "archived" => value == if one.archived { "true" } else { "false" },
                "template" => value == if one.template { "true" } else { "false" },
                "is" => match value.as_str() {
                    "public" => !one.private,
                    "private" => one.private,
                    "archived" => one.archived,
                    "template" => one.template,
                    _ => true,
                },
                "language" if *denied => *value == language,
                _ => return true,
            };
            fits != *denied
        });
        let languages = self.values("language", false);
        let text = format!("{} {}", one.full_name(), one.topics.join(" ")).to_lowercase();
        self.owner_fits(one)
            && fork_fits
            && each
            && (languages.is_empty() || languages.contains(&language.as_str()))
            && self.words.iter().all(|word| text.contains(word.as_str()))
    }

    fn file_fits(&self, path: &str, content: &str) -> bool {
        let (path, content) = (path.to_lowercase(), content.to_lowercase());
        let name = path.rsplit('/').next().unwrap_or_default();
        let each = self.terms.iter().all(|(qualifier, value, denied)| {
            let fits = match qualifier.as_str() {
                "filename" => name.starts_with(value.as_str()),
                "path" => path.starts_with(value.trim_matches('/')),
                "extension" => path.ends_with(&format!(".{}", value.trim_start_matches('.'))),
                _ => return true,
            };
            fits != *denied
        });
        each && self
            .words
            .iter()
            .all(|word| content.contains(word.as_str()) || path.contains(word.as_str()))
    }
}

/// Words, where a quoted part has its spaces.
fn tokens(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' | '+' if !quoted => all.push(String::new()),
            _ => all.last_mut().unwrap().push(c),
        }
    }
    all.retain(|token| !token.is_empty());
    all
}
