//! Search of issues and pull requests, by their words.

use std::collections::BTreeSet;

use super::lists::is_seen;
use super::search::{Query, invalid};
use super::{Answer, Issue, Repository, Request, Value, World, json, shape};

pub(super) fn found(world: &World, request: &Request, query: &Query) -> Result<Vec<Value>, Answer> {
    // Tokens of apps have to say which of the two they want.
    let kinds = query.values("is", false);
    let is_about = |kind: &str| kinds.contains(&kind);
    if !is_about("issue") && !is_about("pull-request") {
        let text = "Query must include 'is:issue' or 'is:pull-request'";
        return Err(invalid("invalid", Some(text)));
    }
    let advanced = request.query("advanced_search") == Some("true");
    let words: Vec<String> = query.words.iter().map(|word| plain(word, advanced)).collect();
    let mut found: Vec<(usize, &Repository, &Issue)> = Vec::new();
    let seen = world.repositories.iter().filter(|one| is_seen(one, request) && !one.disabled);
    for repository in seen.filter(|one| query.owner_fits(one) && one.has_issues) {
        for issue in
            repository.issues.values().filter(|it| !it.deleted && it.transferred_to.is_none())
        {
            let is_pull = repository.pulls.contains_key(&issue.number);
            let fitting = fitting(repository, issue, &words);
            let is_enough = if query.any { fitting > 0 } else { fitting == words.len() };
            if is_pull == is_about("pull-request") && is_enough {
                found.push((fitting, repository, issue));
            }
        }
    }
    found.sort_by_key(|(fitting, _, issue)| std::cmp::Reverse((*fitting, issue.updated)));
    Ok(found
        .into_iter()
        .map(|(fitting, repository, issue)| {
            let mut item = shape::issue(world, &request.base, repository, issue);
            item["score"] = json!(fitting);
            item
        })
        .collect())
}

/// Parentheses group words in the advanced search, and are part of them in the old one.
fn plain(word: &str, advanced: bool) -> String {
    if advanced { word.trim_matches(['(', ')']).to_owned() } else { word.to_owned() }
}

/// How many of the words stand in title, text or comments.
fn fitting(repository: &Repository, issue: &Issue, words: &[String]) -> usize {
    let comments = repository.comments.iter().filter(|comment| comment.issue == issue.number);
    let body = issue.body.clone().unwrap_or_default();
    let texts = [issue.title.clone(), body].into_iter().chain(comments.map(|it| it.body.clone()));
    let text = texts.collect::<Vec<_>>().join(" ").to_lowercase();
    let text: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    words.iter().filter(|word| text.contains(word.as_str())).count()
}
