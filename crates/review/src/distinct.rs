//! Findings of one review that are one, and those that only look like it.
//!
//! Findings at one place with similar titles are one finding. Every other finding is kept, with its own
//! fingerprint, even if it is about the same code: nothing that was reported is lost.

use std::collections::{HashMap, HashSet};

use super::anchor::Anchored;
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
/// place of the first. What the other one says in other words stands below it.
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
        let is_better = new.priority < old.priority
            || (new.priority == old.priority && new.confidence > old.confidence);
        if is_better {
            std::mem::swap(other, &mut one);
        }
        add(other, &one);
    }
    merged
}

fn add(kept: &mut Anchored, other: &Anchored) {
    let (title, body) = (&other.finding.title, other.finding.body.trim());
    let says_more = kept.finding.title != *title || !kept.finding.body.contains(body);
    let more = format!("\n\n{title}\n\n{body}");
    if says_more && kept.finding.body.len() + more.len() <= MAX_BODY {
        kept.finding.body.push_str(&more);
    }
}
