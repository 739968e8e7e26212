//! The labels of a repository, and its issues by their words.

use async_trait::async_trait;
use serde::Deserialize;

use super::http::{Call, segment};
use super::wire::{IssueJson, lenient};
use super::{GitHubForge, route};
use crate::{ForgeError, Issue, Label, RepositoryId, Tracker, WordMatch};

/// Characters of a query; GitHub refuses longer ones.
const LONGEST_QUERY: usize = 256;
/// Words of a query: GitHub takes five operators between them.
const MOST_WORDS: usize = 6;
/// Letters of a word.
const LONGEST_WORD: usize = 40;
/// Results of one page.
const MOST_RESULTS: usize = 100;

#[derive(Deserialize)]
struct LabelJson {
    #[serde(default, deserialize_with = "lenient")]
    name: String,
    #[serde(default, deserialize_with = "lenient")]
    description: String,
}

#[derive(Deserialize)]
struct IssueSearchPage {
    #[serde(default, deserialize_with = "lenient")]
    items: Vec<IssueJson>,
}

#[async_trait]
impl Tracker for GitHubForge {
    async fn labels(
        &self,
        repository: &RepositoryId,
        limit: usize,
    ) -> Result<Vec<Label>, ForgeError> {
        let call = Call::get(
            route(repository, "labels?per_page=100"),
            format!("the labels of `{repository}`"),
        );
        let found: Vec<LabelJson> = self.api.list(&call, limit).await?;
        let named = found.into_iter().filter(|label| !label.name.is_empty());
        Ok(named.map(|LabelJson { name, description }| Label { name, description }).collect())
    }

    async fn issues_about(
        &self,
        repository: &RepositoryId,
        words: &[String],
        least: WordMatch,
        limit: usize,
    ) -> Result<Vec<Issue>, ForgeError> {
        let Some(query) = query(repository, words, least) else { return Ok(Vec::new()) };
        let count = limit.clamp(1, MOST_RESULTS);
        let path =
            format!("search/issues?q={}&advanced_search=true&per_page={count}", segment(&query));
        let call = Call::get(path, format!("the issues of `{repository}`"))
            .for_action(format!("search the issues of `{repository}`"), "")
            .needs("issues: read");
        let found: IssueSearchPage = self.api.read_json(&call).await?;
        // What is of another repository was not asked for, whatever the query was taken for.
        let here = format!("/repos/{repository}").to_lowercase();
        let is_here = |issue: &IssueJson| {
            let place = issue.repository_url.as_deref().unwrap_or_default();
            place.to_lowercase().ends_with(&here)
        };
        let issues = found.items.into_iter().filter(is_here).map(Issue::from);
        Ok(issues.filter(|issue| !issue.is_pull_request).take(limit).collect())
    }
}

/// The query; `None` without a word to search for.
fn query(repository: &RepositoryId, words: &[String], least: WordMatch) -> Option<String> {
    // Letters, digits and underscores in lower case are neither operator nor qualifier.
    let plain = |word: &String| -> String {
        let letters = word.chars().filter(|c| c.is_alphanumeric() || *c == '_').take(LONGEST_WORD);
        letters.flat_map(char::to_lowercase).collect()
    };
    let mut words: Vec<String> =
        words.iter().map(plain).filter(|word| !word.is_empty()).take(MOST_WORDS).collect();
    let between = match least {
        WordMatch::All => " ",
        WordMatch::Any => " OR ",
    };
    while !words.is_empty() {
        let asked = words.join(between);
        let asked =
            if least == WordMatch::Any && words.len() > 1 { format!("({asked})") } else { asked };
        let query = format!("repo:{repository} is:issue {asked}");
        if query.chars().count() <= LONGEST_QUERY {
            return Some(query);
        }
        words.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::query;
    use crate::WordMatch;

    #[test]
    fn a_query_has_words_and_nothing_that_a_search_would_obey() {
        let id = "acme/app".parse().unwrap();
        let of = |words: &[&str], least| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            query(&id, &words, least)
        };
        let all = of(&["Crash", "repo:other/private", "OR", "\"x\")"], WordMatch::All);
        assert_eq!(all.unwrap(), "repo:acme/app is:issue crash repootherprivate or x");
        let any = of(&["a", "b", "c", "d", "e", "f", "g"], WordMatch::Any).unwrap();
        assert_eq!(any, "repo:acme/app is:issue (a OR b OR c OR d OR e OR f)");
        assert_eq!(of(&["a", "!"], WordMatch::Any).unwrap(), "repo:acme/app is:issue a");
        assert_eq!(of(&["--", ""], WordMatch::All), None);
        let long = "x".repeat(100);
        let long = of(&[&long, &long, &long, &long, &long, &long], WordMatch::Any).unwrap();
        assert!(long.chars().count() <= 256 && long.contains(" OR "), "{long}");
    }
}
