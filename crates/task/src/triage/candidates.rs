//! Issues that may be about the same: found by the host, with a few searches for words of the issue. The model
//! may name these as duplicates and no others.

use std::cmp::Reverse;
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
/// Characters of a name in code, and of the code of a message.
const LONGEST_NAME: usize = 40;
const LONGEST_CODE: usize = 10;
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
    longest.sort_by_key(|word| Reverse(word.chars().count()));
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

/// Words of a text that look like names in code or in a message, those of errors first: they tell most. What a log has
/// of one occasion (hashes, addresses, ids, times) no other issue has.
fn names(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut names = once(words.map(|word| word.trim_matches('_')).filter(|word| is_name(word)));
    let is_error = |word: &str| ["error", "exception", "panic"].iter().any(|it| word.ends_with(it));
    names.sort_by_key(|word| (!is_error(word), Reverse(word.chars().count())));
    names
}

/// `HttpClient`, `parse_url`, or the code of a message: `E0308`.
fn is_name(word: &str) -> bool {
    let length = word.chars().count();
    let behind_letters = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let is_code = word.starts_with(|c: char| c.is_ascii_uppercase())
        && (1..=6).contains(&behind_letters.len())
        && behind_letters.chars().all(|c| c.is_ascii_digit());
    if is_code && (4..=LONGEST_CODE).contains(&length) {
        return true;
    }
    let digits = word.chars().filter(|c| c.is_numeric()).count();
    let is_mixed =
        word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    (6..=LONGEST_NAME).contains(&length) && 3 * digits <= length && (is_mixed || word.contains('_'))
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
            names("It throws NullPointerException (E0308) in the loop.\n```\nHttpClient\n```"),
            ["nullpointerexception", "httpclient", "e0308"]
        );
    }

    #[test]
    fn what_a_log_has_of_one_occasion_is_no_name() {
        let log = "2026-11-28T10:15:00.123Z request 7f3c9a1e-22ab-4c1d-9e55-0a1b2c3d4e5f of 3f4e5d6c7b8a9f0e1d2c3b4a5f6e7d8c9b0a1f2e\n\
            panic at 0x00007ffd2c3b4a10, pod web-7d9f8c6b5-x2x4z, trace 4bf92f3577b34da6a3ce929d0e0e4736\n\
            File \"net.py\", line 12, in parse_host_port\nValueError: port\nerror[E0308]; HTTP2 __init__ deadbeef";
        assert_eq!(names(log), ["valueerror", "parse_host_port", "e0308", "http2"]);
    }
}
