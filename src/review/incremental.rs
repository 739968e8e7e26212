//! What became of earlier findings: new, still there, fixed, dismissed by a person.
//!
//! The same finding is the one with the same fingerprint, or one about the same code of the same file
//! with a similar title, because models word and categorise the same thing differently.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::anchor::{Anchor, Anchored};
use super::finding::Priority;
use super::fingerprint;

/// Findings that are remembered; of more the oldest fixed ones are forgotten first.
const MAX_KNOWN: usize = 500;
/// Characters of a title that are remembered.
const MAX_TITLE: usize = 160;
/// Characters of a word that count, so that forms of a word are the same.
const STEM: usize = 5;
/// The share of the smaller title's words that must be in the other one.
const SIMILAR_TITLE: f64 = 0.5;
/// The share of the smaller code's lines that must be in the other one.
const SIMILAR_CODE: f64 = 0.6;
/// Words that say nothing about what is wrong.
const FILLERS: &[&str] = &[
    "the", "and", "for", "with", "not", "can", "may", "when", "from", "that", "this", "into",
    "should", "are", "was", "will", "does", "but", "has", "have", "its", "all", "any", "could",
    "would", "must",
];

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    New,
    Still,
    Fixed,
    /// A person resolved its thread or said no to it; it is not brought up again.
    Dismissed,
}

/// A finding of this or an earlier review, as the sticky comment remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub fingerprint: String,
    pub path: String,
    pub title: String,
    pub priority: Priority,
    pub fate: Fate,
    /// The commit at which it was reported first.
    pub since: String,
    /// A short form of its code (at most 48 hexadecimal digits), to see how much of it another finding
    /// is about.
    #[serde(default)]
    pub sketch: String,
}

/// What an earlier review left behind, kept in the sticky comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The commit that was reviewed completely.
    pub head: String,
    /// The merge base that it was compared with.
    pub base: String,
    pub findings: Vec<Known>,
    /// A person said `stop`.
    #[serde(default)]
    pub paused: bool,
}

/// What is already on the pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Fingerprints in our own inline comments; these are never posted again. Leave out those of
    /// threads that were resolved as fixed, when the finding is to be posted once more if it returns.
    pub posted: Vec<String>,
    /// Those of threads that a person resolved or rejected.
    pub dismissed: Vec<String>,
}

/// The next memory, and which of the new findings are to be posted.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// New first, then still there, fixed, dismissed; at most 500.
    pub findings: Vec<Known>,
    /// In the order in which they were found; of those with the same fingerprint the most important.
    pub to_post: Vec<Anchored>,
}

/// Compares. `reread(path)` says whether this review looked at a file again; what it did not look at
/// stays as it was. A fixed finding that is found again is new; a dismissed one stays dismissed.
pub fn settle(
    memory: &Memory,
    seen: &Seen,
    found: Vec<Anchored>,
    head: &str,
    reread: &dyn Fn(&str) -> bool,
) -> Settled {
    let posted: HashSet<&str> = seen.posted.iter().map(String::as_str).collect();
    let dismissed: HashSet<&str> = seen.dismissed.iter().map(String::as_str).collect();
    let mut settled =
        Settling { earlier: Earlier::new(memory), found: Vec::new(), post: Vec::new() };
    for one in merged(found) {
        let is_dismissed = dismissed.contains(one.fingerprint.as_str());
        let is_posted = posted.contains(one.fingerprint.as_str());
        if let Some(at) = settled.earlier.same_as(&one) {
            let known = &mut settled.earlier.known[at];
            let is_dismissed = is_dismissed
                || known.fate == Fate::Dismissed
                || dismissed.contains(known.fingerprint.as_str());
            let is_back = known.fate == Fate::Fixed && !settled.earlier.found.contains(&at);
            settled.earlier.found.insert(at);
            let known = &mut settled.earlier.known[at];
            path_of(&one).clone_into(&mut known.path);
            if is_dismissed {
                known.fate = Fate::Dismissed;
            } else if is_back {
                let was_posted = is_posted || posted.contains(known.fingerprint.as_str());
                *known = Known { fate: Fate::New, ..known_from(&one, head) };
                if !was_posted {
                    settled.post.push(one);
                }
            } else if known.fate != Fate::New || known.since != head {
                known.fate = Fate::Still;
            }
        } else {
            let fate = match (is_dismissed, is_posted) {
                (true, _) => Fate::Dismissed,
                (false, true) => Fate::Still,
                (false, false) => Fate::New,
            };
            settled.found.push(Known { fate, ..known_from(&one, head) });
            if fate == Fate::New {
                settled.post.push(one);
            }
        }
    }
    settled.finish(&dismissed, reread)
}

/// The state of a comparison.
struct Settling {
    earlier: Earlier,
    /// What nobody knew of before.
    found: Vec<Known>,
    post: Vec<Anchored>,
}

impl Settling {
    fn finish(self, dismissed: &HashSet<&str>, reread: &dyn Fn(&str) -> bool) -> Settled {
        let Earlier { known, found, .. } = self.earlier;
        let mut fixed_now = Vec::new();
        let mut findings = self.found;
        for (at, mut one) in known.into_iter().enumerate() {
            if !found.contains(&at) && one.fate != Fate::Fixed && one.fate != Fate::Dismissed {
                one.fate = if dismissed.contains(one.fingerprint.as_str()) {
                    Fate::Dismissed
                } else if reread(&one.path) {
                    Fate::Fixed
                } else {
                    Fate::Still
                };
                if one.fate == Fate::Fixed {
                    fixed_now.push(one);
                    continue;
                }
            }
            findings.push(one);
        }
        // What was fixed last comes first, so that the oldest is at the end.
        let at = findings.iter().position(|one| one.fate == Fate::Fixed).unwrap_or(findings.len());
        findings.splice(at..at, fixed_now);
        findings.sort_by_key(|one| order(one.fate));
        Settled { findings: bounded(findings), to_post: self.post }
    }
}

fn order(fate: Fate) -> u8 {
    match fate {
        Fate::New => 0,
        Fate::Still => 1,
        Fate::Fixed => 2,
        Fate::Dismissed => 3,
    }
}

/// The oldest fixed ones go first, then the least important of what is still there, new ones last.
fn bounded(mut findings: Vec<Known>) -> Vec<Known> {
    while findings.len() > MAX_KNOWN {
        let last_of = |fate: Fate| findings.iter().rposition(|one| one.fate == fate);
        let least = |fate: Fate| {
            let of_fate = findings.iter().enumerate().filter(|(_, one)| one.fate == fate);
            of_fate.max_by_key(|(_, one)| one.priority).map(|(at, _)| at)
        };
        let victim = last_of(Fate::Fixed)
            .or_else(|| least(Fate::Still))
            .or_else(|| least(Fate::New))
            .or_else(|| last_of(Fate::Dismissed));
        let Some(victim) = victim else { break };
        findings.remove(victim);
    }
    findings
}

/// What is remembered, and what of it has been found again.
struct Earlier {
    known: Vec<Known>,
    by_print: HashMap<String, usize>,
    by_path: HashMap<String, Vec<usize>>,
    words: Vec<BTreeSet<String>>,
    found: HashSet<usize>,
}

impl Earlier {
    fn new(memory: &Memory) -> Earlier {
        let known: Vec<Known> = memory.findings.iter().take(2 * MAX_KNOWN).cloned().collect();
        let mut earlier = Earlier {
            by_print: HashMap::new(),
            by_path: HashMap::new(),
            words: known.iter().map(|one| words(&one.title)).collect(),
            known: Vec::new(),
            found: HashSet::new(),
        };
        for (at, one) in known.iter().enumerate() {
            earlier.by_print.entry(one.fingerprint.clone()).or_insert(at);
            earlier.by_path.entry(one.path.clone()).or_default().push(at);
        }
        earlier.known = known;
        earlier
    }

    /// The finding that this one was before.
    fn same_as(&self, one: &Anchored) -> Option<usize> {
        if let Some(at) = self.by_print.get(&one.fingerprint) {
            return Some(*at);
        }
        let title = words(&one.finding.title);
        let similar = |at: &&usize| {
            let words = &self.words[**at];
            let shared = words.intersection(&title).count();
            fingerprint::share(shared, words.len().min(title.len())) >= SIMILAR_TITLE
                && fingerprint::overlap(&self.known[**at].sketch, &one.sketch) >= SIMILAR_CODE
        };
        self.by_path.get(path_of(one))?.iter().find(similar).copied()
    }
}

fn words(title: &str) -> BTreeSet<String> {
    title
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 2 && !FILLERS.contains(word))
        .map(|word| word.chars().take(STEM).collect())
        .collect()
}

/// One of each fingerprint: the most important, then the surest, in the place of the first.
fn merged(found: Vec<Anchored>) -> Vec<Anchored> {
    let mut merged: Vec<Anchored> = Vec::with_capacity(found.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for one in found {
        match places.get(&one.fingerprint) {
            None => {
                places.insert(one.fingerprint.clone(), merged.len());
                merged.push(one);
            }
            Some(at) => {
                let (new, old) = (&one.finding, &merged[*at].finding);
                let is_better = new.priority < old.priority
                    || (new.priority == old.priority && new.confidence > old.confidence);
                if is_better {
                    merged[*at] = one;
                }
            }
        }
    }
    merged
}

fn path_of(one: &Anchored) -> &str {
    match &one.anchor {
        Anchor::Lines { path, .. } | Anchor::File { path, .. } => path,
        Anchor::Nowhere { .. } => &one.finding.path,
    }
}

fn known_from(one: &Anchored, head: &str) -> Known {
    Known {
        fingerprint: one.fingerprint.clone(),
        path: path_of(one).to_owned(),
        title: one.finding.title.chars().take(MAX_TITLE).collect(),
        priority: one.finding.priority,
        fate: Fate::New,
        since: head.to_owned(),
        sketch: one.sketch.clone(),
    }
}
