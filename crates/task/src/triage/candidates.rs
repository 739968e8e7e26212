//! Issues that may be about the same: found by the host, with a few searches for words of the issue. The model
//! may name these as duplicates and no others.

use std::collections::BTreeSet;

use super::admit::AdmittedTriage;
use super::choices::Candidate;
use crate::context::hidden;
use crate::run::Run;
use patchwright_base::text;
use patchwright_forge::{Forge, Issue, WordMatch};

/// Results of one search, and of all together.
const MAX_RESULTS: usize = 10;
const MAX_CANDIDATES: usize = 15;
/// Words of one search.
const MAX_WORDS: usize = 6;
/// Bytes of the body that words are taken from.
const MAX_BODY: usize = 8 << 10;
/// Bytes that are shown of a candidate's body, and characters of its title.
const MAX_SHOWN: usize = 1_500;
const MAX_TITLE: usize = 200;
/// Words that nearly every issue has.
const COMMON: &[&str] = &[
    "about", "after", "all", "and", "any", "are", "because", "been", "before", "but", "can",
    "cannot", "could", "does", "doesn", "don", "error", "for", "from", "get", "has", "have", "how",
    "into", "isn", "issue", "its", "not", "off", "only", "out", "please", "problem", "should",
    "some", "that", "the", "then", "there", "this", "use", "using", "was", "were", "when", "where",
    "which", "while", "why", "will", "with", "without", "won", "work", "working", "works", "would",
    "wrong", "you", "your",
];

/// Searches. Without an answer of the forge nothing is known of duplicates, which is noted and ends nothing.
pub(super) async fn find(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    notes: &mut Vec<String>,
) -> Vec<Candidate> {
    let Ok(forge) = run.world.forge() else { return Vec::new() };
    let forge: &dyn Forge = forge.as_ref();
    let title = title_words(&admitted.issue.title);
    let mut longest = title.clone();
    longest.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    let names = names(hidden::head(&admitted.issue.body, MAX_BODY));
    let searches = [(title, WordMatch::All), (longest, WordMatch::Any), (names, WordMatch::Any)];
    let mut found: Vec<Issue> = Vec::new();
    for (words, least) in searches.into_iter().filter(|(words, _)| !words.is_empty()) {
        let id = &admitted.repository.id;
        match forge.issues_about(id, &words[..words.len().min(MAX_WORDS)], least, MAX_RESULTS).await
        {
            Ok(issues) => found.extend(issues),
            Err(err) => {
                let why = text::line(&err.to_string());
                notes.push(format!("duplicates were not searched for everywhere: {why}"));
                break;
            }
        }
    }
    let mut seen = BTreeSet::from([admitted.issue.number]);
    found.retain(|issue| seen.insert(issue.number));
    found.truncate(MAX_CANDIDATES);
    found.iter().map(shown).collect()
}

fn shown(issue: &Issue) -> Candidate {
    let title = hidden::clean(hidden::head(&issue.title, 4 * MAX_TITLE)).text;
    let body = hidden::clean(hidden::head(&issue.body, 4 * MAX_SHOWN)).text;
    Candidate {
        number: issue.number,
        open: issue.open,
        title: text::cut(&text::line(&title), MAX_TITLE),
        body: text::head(body.trim(), MAX_SHOWN).trim().to_owned(),
    }
}

/// The words of a title, in their order, without those that say nothing.
fn title_words(title: &str) -> Vec<String> {
    let words = title.split(|c: char| !c.is_alphanumeric());
    once(words.filter(|word| word.chars().count() > 2 || !word.is_ascii()))
}

/// Words of a text that look like names in code or in a message: they tell most.
fn names(text: &str) -> Vec<String> {
    let is_name = |word: &&str| {
        let inside = word.chars().skip(1);
        let is_mixed =
            inside.clone().any(char::is_uppercase) && word.chars().any(char::is_lowercase);
        let has_digit = word.chars().any(char::is_alphabetic) && word.chars().any(char::is_numeric);
        (6..=40).contains(&word.chars().count()) && (is_mixed || has_digit)
    };
    let mut names = once(text.split(|c: char| !c.is_alphanumeric()).filter(is_name));
    names.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    names
}

fn once<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let lower = words.map(str::to_lowercase);
    lower.filter(|word| !COMMON.contains(&word.as_str()) && seen.insert(word.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::{names, title_words};

    #[test]
    fn the_words_of_an_issue_are_those_that_tell_it_from_others() {
        assert_eq!(
            title_words("The parser doesn't work: crash in `parse_url()` when url is URL"),
            ["parser", "crash", "parse", "url"]
        );
        assert_eq!(title_words("!!! ?"), Vec::<String>::new());
        assert_eq!(
            names("It throws NullPointerException (E0308x) in the loop.\n```\nHttpClient\n```"),
            ["nullpointerexception", "httpclient", "e0308x"]
        );
    }
}
