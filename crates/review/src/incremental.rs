//! The state of findings across reviews: new, still there, fixed, dismissed by a person.
//!
//! Two findings are one if they have one fingerprint, or are about the same code of one file
//! with a similar title, because models word and categorise the same thing differently.
//!
//! A finding is fixed when its code is gone or its own suggestion was taken: that a reviewer, who was told not to repeat
//! himself, does not report it again says nothing. Only one whose code was never found, so that nothing can be looked for,
//! is fixed when the reviewer was asked for it, has read its file as it has changed since, and does not report it. What was
//! found in a file that the pull request no longer changes is fixed, too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::anchor::{Anchor, Anchored};
use super::distinct::distinct;
use super::finding::Priority;
use super::fingerprint;
use super::most_known::{MAX_KNOWN, bounded};
use super::occurrences::CodeOccurrences;
use super::suggested::{KnownSuggestion, SuggestionCounts};
use super::threads::FindingThreads;
use super::title::{is_similar, words};
use super::unread::UnreadFiles;
use patchwright_forge::Side;

/// Characters of a title that are remembered.
const MAX_TITLE: usize = 160;
/// The share of the smaller code's lines that must be in the other one.
const SIMILAR_CODE: f64 = 0.6;

/// The state of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    New,
    Still,
    Fixed,
    /// A person resolved its thread or said no to it; while that holds and its code is there, it is not
    /// brought up again.
    Dismissed,
}

/// Where to look for the code of a finding to see whether it is still there.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CodeLocation {
    /// In its file, as the head has it.
    #[default]
    InHead,
    /// Among the lines that the pull request deletes from its file.
    Deleted,
    /// It was in neither when it was reported, so nothing can be read from its absence; only its file
    /// can go.
    Nowhere,
    /// There was no such file either.
    NoFile,
}

/// A finding of this or an earlier review, as the sticky comment remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KnownFinding {
    pub fingerprint: String,
    pub path: String,
    pub title: String,
    pub priority: Priority,
    pub fate: FindingState,
    /// The commit at which it was reported first.
    pub since: String,
    /// A short form of its code (at most 48 hexadecimal digits), to see how much of it another finding
    /// is about.
    #[serde(default)]
    pub sketch: String,
    #[serde(default)]
    pub code: CodeLocation,
    /// Which one it is of the places of its file that have this code, from 0 on.
    #[serde(default)]
    pub nth: usize,
    /// How many threads it had when it came back after a fix: that these are resolved is about the time
    /// before.
    #[serde(default)]
    pub old_threads: usize,
    /// How often its code stood where it was at the last look, its own place included; 0 when that is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: usize,
    /// The line on which its code ends now, where it stands at one place; looked for anew in each review.
    #[serde(skip)]
    pub line: Option<u32>,
    /// What was offered to stand in place of its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<KnownSuggestion>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(times: &usize) -> bool {
    *times == 0
}

/// What an earlier review left behind, kept in the sticky comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The commit that was reviewed completely.
    pub head: String,
    /// The merge base that it was compared with.
    pub base: String,
    pub findings: Vec<KnownFinding>,
    /// A person said `stop`.
    #[serde(default)]
    pub paused: bool,
    /// The commit that was reviewed last, completely or not.
    #[serde(default)]
    pub looked_at: String,
    /// The merge base that it was compared with; empty when an older version has written this.
    #[serde(default)]
    pub looked_at_base: String,
    /// When that was not all of it: what to go on from.
    #[serde(default)]
    pub rest: Option<UnreadFiles>,
    /// The newest of our reviews whose findings are among these, by its number on the forge; `None` when there was
    /// none, or when an older version has written this.
    #[serde(default)]
    pub last_review: Option<u64>,
    /// A request for changes of ours about findings that nobody knows any more: only a person takes it back.
    #[serde(default)]
    pub kept_request: Option<u64>,
    /// Fingerprints of open findings of which nothing else is known any more, because there were too many. They count as
    /// open until they are found again.
    #[serde(default)]
    pub forgotten: Vec<String>,
}

impl Memory {
    /// The commit was reviewed before as what it is now: once its pull request goes to another branch, the
    /// same commit is another change.
    pub fn has_looked_at(&self, head: &str, base: &str) -> bool {
        let is_same_base = self.looked_at_base.is_empty() || self.looked_at_base == base;
        self.looked_at == head && is_same_base
    }
}

/// What is known about the pull request as it is now.
pub struct CurrentPullRequest<'a> {
    /// The commit.
    pub head: &'a str,
    /// This review read the file again.
    pub reread: &'a dyn Fn(&str) -> bool,
    /// How often the code of a finding occurs where its [`CodeLocation`] says; `None` when that is unknown.
    pub times: &'a dyn Fn(&KnownFinding) -> Option<usize>,
    /// The suggestion of a finding as it is remembered; `None` when it has none, or its file cannot be read.
    pub suggest: &'a dyn Fn(&Anchored) -> Option<KnownSuggestion>,
    /// What of the suggestion of a finding stands in its file; `None` when that is unknown.
    pub suggested: &'a dyn Fn(&KnownFinding) -> Option<SuggestionCounts>,
    /// The reviewer was asked whether this finding, whose code was never found, is still there, and has read its file again,
    /// which has changed since: that it is not reported says that it is not.
    pub is_over: &'a dyn Fn(&KnownFinding) -> bool,
    /// The pull request changed this file at the last review and leaves it as it is now.
    pub taken_back: &'a dyn Fn(&str) -> bool,
    /// Files that have been renamed since the last review: their path now, by the one of that time.
    pub renamed: &'a BTreeMap<String, String>,
}

/// The next memory, and which of the new findings are to be posted.
#[derive(Clone, Debug, PartialEq)]
pub struct SettledFindings {
    /// New first, then still there, fixed, dismissed; at most 500.
    pub findings: Vec<KnownFinding>,
    /// In the order in which they were found; of those with the same fingerprint the most important.
    pub to_post: Vec<Anchored>,
    /// See [`Memory::forgotten`].
    pub forgotten: Vec<String>,
}

/// Compares. What this review did not look at stays as it was. A fixed finding that is found again is
/// new, but for one that a person rejected in words.
pub fn settle(
    memory: &Memory,
    seen: &FindingThreads,
    found: Vec<Anchored>,
    now: &CurrentPullRequest<'_>,
) -> SettledFindings {
    let found = distinct(found, &memory.findings);
    let mut settling = Comparison {
        earlier: TrackedFindings::new(memory, now),
        forgotten: &memory.forgotten,
        seen,
        found: Vec::new(),
        post: Vec::new(),
        now,
    };
    let known = settling.earlier.all_of(&found);
    for (one, known) in found.into_iter().zip(known) {
        match known {
            Some(at) => settling.again(at, one),
            None => settling.first(one),
        }
    }
    settling.finish()
}

/// The findings of a memory as people judge them by now, when nothing is read.
pub fn judged(memory: &Memory, seen: &FindingThreads) -> Vec<KnownFinding> {
    let mut findings = memory.findings.clone();
    for known in findings.iter_mut().filter(|known| known.fate != FindingState::Fixed) {
        set_fate(known, seen);
    }
    findings
}

/// The state of a comparison.
struct Comparison<'a> {
    earlier: TrackedFindings,
    forgotten: &'a [String],
    seen: &'a FindingThreads,
    /// What nobody knew of before.
    found: Vec<KnownFinding>,
    post: Vec<Anchored>,
    now: &'a CurrentPullRequest<'a>,
}

impl Comparison<'_> {
    /// A finding that was known.
    fn again(&mut self, at: usize, one: Anchored) {
        let (seen, known) = (self.seen, &mut self.earlier.known[at]);
        let prints = [known.fingerprint.clone(), one.fingerprint.clone()];
        let is_back = known.fate == FindingState::Fixed;
        let new = known_from(&one, self.now);
        if is_back && !prints.iter().any(|print| seen.is_rejected(print)) {
            let old_threads = seen.closed_threads(&new.fingerprint);
            *known = KnownFinding { old_threads, ..new };
            if !prints.iter().any(|print| seen.is_open(print)) {
                self.post.push(one);
            }
            return;
        }
        let is_dismissed = prints.iter().any(|print| seen.is_dismissed(print, known.old_threads));
        set_fate(known, seen);
        if is_dismissed {
            known.fate = FindingState::Dismissed;
        }
        let is_raised = new.priority < known.priority;
        if is_taken(known, self.now) {
            // What was suggested is not enough, or so its reviewer says.
            known.suggestion.clone_from(&new.suggestion);
        }
        if (self.now.times)(&new).is_some_and(|times| times > 0) {
            if known.sketch == new.sketch && known.code == new.code {
                (known.path, known.nth) = (new.path, new.nth);
            } else if !keeps_code(known, &new, self.now) {
                known.path = new.path;
                (known.sketch, known.code, known.nth) = (new.sketch, new.code, new.nth);
                (known.suggestion, known.times) = (new.suggestion, new.times);
            }
        }
        // A repeated report can raise the priority, never lower it.
        if is_raised {
            (known.priority, known.title) = (new.priority, new.title);
        }
        let is_still_new = known.fate == FindingState::New && known.since == self.now.head;
        if known.fate != FindingState::Dismissed && !is_still_new {
            known.fate = FindingState::Still;
        }
    }

    /// One that was not.
    fn first(&mut self, one: Anchored) {
        let print = one.fingerprint.as_str();
        let is_posted =
            self.seen.is_posted(print) || self.forgotten.iter().any(|other| other == print);
        let fate = match (self.seen.is_dismissed(print, 0), is_posted) {
            (true, _) => FindingState::Dismissed,
            (false, true) => FindingState::Still,
            (false, false) => FindingState::New,
        };
        self.found.push(KnownFinding { fate, ..known_from(&one, self.now) });
        if fate == FindingState::New {
            self.post.push(one);
        }
    }

    fn finish(self) -> SettledFindings {
        let Comparison { earlier, forgotten, seen, found: mut findings, post, now } = self;
        let TrackedFindings { mut known, found, .. } = earlier;
        for (at, one) in known.iter_mut().enumerate() {
            if found.contains(&at) || one.fate == FindingState::Fixed {
                continue;
            }
            set_fate(one, seen);
            // Whoever fixes something resolves its thread, and that is no word against the finding.
            let may_be_fixed = one.fate == FindingState::New
                || (seen.is_known(&one.fingerprint) && (is_gone(one, now) || is_taken(one, now)));
            if may_be_fixed {
                one.fate = FindingState::Still;
            }
        }
        let mut places = CodeOccurrences::count(&known, &found, seen, now);
        // Silence alone is no fix: the reviewer was told not to repeat himself. The code must be gone, or the reviewer was
        // asked to repeat himself, or all of the file is as it was before the change.
        let is_over = |places: &mut CodeOccurrences<'_>, one: &KnownFinding| {
            !places.stands(one) || is_answered(one, now) || (now.taken_back)(&one.path)
        };
        let mut fixed_now = Vec::new();
        for (at, mut one) in known.into_iter().enumerate() {
            let is_silent = !found.contains(&at);
            match one.fate {
                FindingState::Still if is_silent && is_taken(&one, now) => {
                    one.fate = FindingState::Fixed;
                    one.suggestion.iter_mut().for_each(|it| it.is_taken = true);
                    fixed_now.push(one);
                    continue;
                }
                FindingState::Still if is_silent && is_over(&mut places, &one) => {
                    one.fate = FindingState::Fixed;
                    fixed_now.push(one);
                    continue;
                }
                // The code came back, for example by a revert, and no finding reported it.
                FindingState::Fixed if is_silent && places.is_back(&one) => {
                    one.fate = FindingState::Still;
                    one.old_threads = seen.closed_threads(&one.fingerprint);
                    one.suggestion.iter_mut().for_each(|it| it.is_taken = false);
                    if seen.is_rejected(&one.fingerprint) {
                        one.fate = FindingState::Dismissed;
                    }
                }
                FindingState::New
                | FindingState::Still
                | FindingState::Fixed
                | FindingState::Dismissed => {}
            }
            findings.push(one);
        }
        for one in findings.iter_mut().filter(|one| one.fate != FindingState::Fixed) {
            one.times = (now.times)(one).unwrap_or(one.times);
        }
        // What was fixed last comes first, so that the oldest is at the end.
        let at = findings
            .iter()
            .position(|one| one.fate == FindingState::Fixed)
            .unwrap_or(findings.len());
        findings.splice(at..at, fixed_now);
        findings.sort_by_key(|one| order(one.fate));
        let forgotten = forgotten.iter().filter(|print| !seen.is_dismissed(print, 0));
        let (findings, forgotten) = bounded(findings, forgotten.cloned());
        SettledFindings { findings, to_post: post, forgotten }
    }
}

/// Dismisses what people say no to now, and opens again what nobody says no to any more. Without a thread
/// that can be read, it is as it was.
fn set_fate(known: &mut KnownFinding, seen: &FindingThreads) {
    let print = known.fingerprint.as_str();
    if seen.is_dismissed(print, known.old_threads) {
        known.fate = FindingState::Dismissed;
    } else if seen.is_wanted(print) {
        if known.fate == FindingState::Dismissed {
            known.fate = FindingState::Still;
        }
        if seen.is_open(print) {
            known.old_threads = 0;
        }
    }
}

/// Its code is nowhere any more, in a file that was read again.
fn is_gone(one: &KnownFinding, now: &CurrentPullRequest<'_>) -> bool {
    one.code != CodeLocation::NoFile && (now.times)(one) == Some(0) && (now.reread)(&one.path)
}

/// Nothing else could ever close it: its code was nowhere to be found.
fn is_answered(one: &KnownFinding, now: &CurrentPullRequest<'_>) -> bool {
    one.code == CodeLocation::Nowhere && (now.is_over)(one)
}

/// Its own suggestion stands where its code stood, in a file that was read again.
fn is_taken(one: &KnownFinding, now: &CurrentPullRequest<'_>) -> bool {
    let Some(suggestion) = &one.suggestion else { return false };
    !suggestion.is_taken
        && (now.suggested)(one).is_some_and(|counts| suggestion.is_taken_by(&counts))
        && (now.reread)(&one.path)
}

/// The code that a finding was reported for stays its code while it is there: with a wider quote, a change beside it would
/// count as its fix. A graver report brings its own, unless that is the wider one.
fn keeps_code(known: &KnownFinding, new: &KnownFinding, now: &CurrentPullRequest<'_>) -> bool {
    let is_there = (now.times)(known).is_some_and(|times| times > 0);
    let is_graver = new.priority < known.priority;
    is_there && (!is_graver || fingerprint::contains(&new.sketch, &known.sketch))
}

fn order(fate: FindingState) -> u8 {
    match fate {
        FindingState::New => 0,
        FindingState::Still => 1,
        FindingState::Fixed => 2,
        FindingState::Dismissed => 3,
    }
}

/// The findings that are remembered, and which of them were found again.
struct TrackedFindings {
    known: Vec<KnownFinding>,
    by_print: HashMap<String, usize>,
    by_path: HashMap<String, Vec<usize>>,
    words: Vec<BTreeSet<String>>,
    /// Those whose file has another path now.
    renamed: HashSet<usize>,
    found: HashSet<usize>,
}

impl TrackedFindings {
    fn new(memory: &Memory, now: &CurrentPullRequest<'_>) -> TrackedFindings {
        let mut earlier = TrackedFindings {
            // The memory comes from a comment, so its size is bounded here too.
            known: memory.findings.iter().take(2 * MAX_KNOWN).cloned().collect(),
            by_print: HashMap::new(),
            by_path: HashMap::new(),
            words: Vec::new(),
            renamed: HashSet::new(),
            found: HashSet::new(),
        };
        for (at, one) in earlier.known.iter_mut().enumerate() {
            if let Some(path) = now.renamed.get(&one.path) {
                one.path.clone_from(path);
                earlier.renamed.insert(at);
            }
            earlier.words.push(words(&one.title));
            // The first one wins, so that a memory with duplicates behaves the same each time.
            earlier.by_print.entry(one.fingerprint.clone()).or_insert(at);
            earlier.by_path.entry(one.path.clone()).or_default().push(at);
        }
        earlier
    }

    /// Which ones the findings were before: the exact ones first, so that none of them is taken for
    /// another that is merely alike.
    fn all_of(&mut self, found: &[Anchored]) -> Vec<Option<usize>> {
        let mut all: Vec<Option<usize>> =
            found.iter().map(|one| self.by_print.get(&one.fingerprint).copied()).collect();
        // An exact match takes its finding, so that no similar one is matched with it.
        self.found.extend(all.iter().flatten());
        for (one, known) in found.iter().zip(&mut all) {
            if known.is_none() {
                *known = self.alike(one);
                self.found.extend(*known);
            }
        }
        all
    }

    /// The finding that this one was before, by its words and its code; of a file that was renamed, by
    /// its code alone.
    fn alike(&self, one: &Anchored) -> Option<usize> {
        let title = words(&one.finding.title);
        let free = self.by_path.get(one.path())?.iter().copied().filter(|at| {
            !self.found.contains(at) && !one.twins.contains(&self.known[*at].fingerprint)
        });
        let similar = |at: &usize| {
            is_similar(&self.words[*at], &title)
                && fingerprint::overlap(&self.known[*at].sketch, &one.sketch) >= SIMILAR_CODE
        };
        let same_code = |at: &usize| {
            self.renamed.contains(at)
                && !one.sketch.is_empty()
                && self.known[*at].sketch == one.sketch
        };
        free.clone().find(similar).or_else(|| free.clone().find(same_code))
    }
}

fn known_from(one: &Anchored, now: &CurrentPullRequest<'_>) -> KnownFinding {
    let mut known = KnownFinding {
        fingerprint: one.fingerprint.clone(),
        path: one.path().to_owned(),
        title: one.finding.title.chars().take(MAX_TITLE).collect(),
        priority: one.finding.priority,
        fate: FindingState::New,
        since: now.head.to_owned(),
        sketch: one.sketch.clone(),
        code: CodeLocation::InHead,
        nth: one.nth,
        old_threads: 0,
        times: 0,
        line: None,
        suggestion: (now.suggest)(one),
    };
    match &one.anchor {
        Anchor::Lines { side: Side::Right, .. } => {}
        Anchor::Lines { side: Side::Left, .. } => known.code = CodeLocation::Deleted,
        // Perhaps it stands in a part of the file that has not changed.
        Anchor::File { .. } | Anchor::Nowhere { .. } => {
            if (now.times)(&known).is_none_or(|times| times == 0) {
                known.code = CodeLocation::Nowhere;
                if (now.times)(&known) == Some(0) {
                    known.code = CodeLocation::NoFile;
                }
            }
        }
    }
    known.times = (now.times)(&known).unwrap_or_default();
    known
}
