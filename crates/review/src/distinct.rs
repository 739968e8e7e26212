//! Findings of one review that are one, and those that only look like it.
//!
//! Findings at one place with similar titles are one finding. Every other finding is kept, with its own
//! fingerprint, even if it is about the same code: nothing that was reported is lost.

use std::collections::{HashMap, HashSet};

use super::anchor::Anchored;
use super::finding::Finding;
use super::fingerprint;
use super::incremental::KnownFinding;
use super::title::is_same_title;

/// Bytes of a body to which another one is added.
const MAX_BODY: usize = 16 << 10;

/// What was found, each once. Of findings about the same code the one that is among the earlier ones
/// keeps the fingerprint that it had.
pub fn distinct(found: Vec<Anchored>, earlier: &[KnownFinding]) -> Vec<Anchored> {
    let mut all = merged(found);
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, one) in all.iter().enumerate() {
        alike.entry(one.fingerprint.clone()).or_default().push(at);
    }
    let mut taken: HashSet<String> = alike.keys().cloned().collect();
    for (print, mut group) in alike {
        if group.len() < 2 {
            continue;
        }
        let known = earlier.iter().find(|known| known.fingerprint == print);
        let is_known = |at: &usize| {
            known.is_some_and(|known| is_same_title(&known.title, &all[*at].finding.title))
        };
        // A stable sort: among the others the order in which they were found decides.
        group.sort_by_key(|at| !is_known(at));
        for (nth, at) in group.into_iter().enumerate().skip(1) {
            let free = (nth..).map(|nth| fingerprint::another(&print, nth));
            let Some(free) = free.into_iter().find(|one| !taken.contains(one)) else { continue };
            taken.insert(free.clone());
            all[at].fingerprint = free;
        }
    }
    all
}

/// Those about the same place with similar titles as one: the most important, then the surest, in the
/// place of the first. What the other one says in other words stands below it. With the very same title, the text of
/// the later one is kept alone, unless the earlier one has the higher priority.
fn merged(found: Vec<Anchored>) -> Vec<Anchored> {
    let mut merged: Vec<Anchored> = Vec::with_capacity(found.len());
    for mut one in found {
        let same = merged.iter_mut().find(|other| {
            other.anchor == one.anchor
                && other.path() == one.path()
                && other.sketch == one.sketch
                && is_same_title(&other.finding.title, &one.finding.title)
        });
        let Some(other) = same else {
            merged.push(one);
            continue;
        };
        let (new, old) = (&one.finding, &other.finding);
        let is_again = has_same_title(new, old);
        let is_better = new.priority < old.priority
            || (new.priority == old.priority && (is_again || new.confidence > old.confidence));
        if is_better {
            std::mem::swap(other, &mut one);
        }
        if !(is_again && is_better) {
            add(other, &one);
        }
    }
    merged
}

fn add(kept: &mut Anchored, other: &Anchored) {
    let (title, body) = (&other.finding.title, other.finding.body.trim());
    let is_other = !has_same_title(&kept.finding, &other.finding);
    let says_more = is_other || !kept.finding.body.contains(body);
    let title = if is_other { format!("\n\n{title}") } else { String::new() };
    let more = format!("{title}\n\n{body}");
    if kept.finding.reproduction.is_none() {
        kept.finding.reproduction.clone_from(&other.finding.reproduction);
    }
    if says_more && kept.finding.body.len() + more.len() <= MAX_BODY {
        kept.finding.body.push_str(&more);
    }
}

/// The titles are the same word for word.
pub fn has_same_title(one: &Finding, other: &Finding) -> bool {
    let words = |title: &str| title.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    words(&one.title) == words(&other.title)
}
