//! Titles of findings, which models word differently each time.

use std::collections::BTreeSet;

use super::fingerprint;

/// Characters of a word that count, so that forms of a word are the same.
const STEM: usize = 5;
/// The share of the smaller title's words that must be in the other one.
const SIMILAR_TITLE: f64 = 0.5;
/// Words that say nothing about what is wrong.
const FILLERS: &[&str] = &[
    "the", "and", "for", "with", "not", "can", "may", "when", "from", "that", "this", "into",
    "should", "are", "was", "will", "does", "but", "has", "have", "its", "all", "any", "could",
    "would", "must",
];

/// Titles that say the same.
pub fn is_same_title(one: &str, other: &str) -> bool {
    is_similar(&words(one), &words(other))
}

pub(super) fn is_similar(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    let shared = one.intersection(other).count();
    fingerprint::share(shared, one.len().min(other.len())) >= SIMILAR_TITLE
}

pub(super) fn words(title: &str) -> BTreeSet<String> {
    title
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 2 && !FILLERS.contains(word))
        .map(|word| word.chars().take(STEM).collect())
        .collect()
}
