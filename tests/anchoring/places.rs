//! A quote from anywhere in a diff stands at a place that a forge accepts and that holds the quote.

use patchwright_forge::Side;
use patchwright_git::hunks::Diff;
use patchwright_review::anchor::Index;

use super::hunks::compare;
use super::trees;
use crate::support::history;
use crate::support::quoted::{NOISES, Noise, Quoted, Random, quote, wrong};
use crate::support::real_diff::RealDiff;

fn check(real: &RealDiff, index: &Index<'_>, quoted: &Quoted, name: &str) {
    let anchored = index.anchor(quoted.finding.clone());
    if let Some(why) = wrong(real, quoted, &anchored) {
        panic!("{name}: {why}\n{quoted:#?}");
    }
    assert_eq!(anchored.note(), None);
    assert_eq!(anchored.fingerprint.len(), 16);
}

/// Every single line, and the ranges from it to all or some later lines.
fn everything(real: &RealDiff, diff: &Diff, name: &str, random: &mut Random) -> usize {
    let index = Index::new(diff);
    let mut checked = 0;
    for file in real.shown() {
        for hunk in &file.hunks {
            for side in [Side::Right, Side::Left] {
                for first in 0..hunk.len() {
                    let lengths = [1, 2, 3, 1 + random.below(hunk.len())];
                    for count in lengths {
                        let part = (first, count);
                        for noise in [Noise::None, *random.pick(&NOISES)] {
                            let Some(quoted) = quote(file, hunk, side, part, noise, random) else {
                                continue;
                            };
                            check(real, &index, &quoted, name);
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    checked
}

/// Quotes from anywhere.
fn some(real: &RealDiff, diff: &Diff, name: &str, count: usize, random: &mut Random) -> usize {
    let index = Index::new(diff);
    let files = real.shown();
    let mut checked = 0;
    for _ in 0..if files.is_empty() { 0 } else { count } {
        let file = random.pick(&files);
        let hunk = random.pick(&file.hunks);
        let side = if random.one_in(3) { Side::Left } else { Side::Right };
        let part = (random.below(hunk.len()), 1 + random.below(8));
        let noise = *random.pick(&NOISES);
        if let Some(quoted) = quote(file, hunk, side, part, noise, random) {
            check(real, &index, &quoted, name);
            checked += 1;
        }
    }
    checked
}

#[test]
fn every_line_of_random_diffs_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let random = &mut Random(3);
    let mut all = vec![trees::first(random)];
    for _ in 0..30 {
        let next = trees::next(all.last().unwrap(), random);
        all.push(next);
    }
    let (path, commits) = trees::repository(folder.path(), &all);
    let mut checked = 0;
    for (at, pair) in commits.windows(2).enumerate() {
        let name = format!("tree {at}");
        let (real, ours) = compare(&path, &pair[0], &pair[1], &name);
        checked += everything(&real, &ours, &name, random);
    }
    assert!(checked > 5000, "only {checked} quotes");
}

#[test]
fn quotes_from_anywhere_in_real_pull_requests_are_found() {
    let random = &mut Random(7);
    let mut checked = 0;
    let pulls = history::releases();
    for pull in &pulls {
        let (real, ours) = compare(&pull.repository, &pull.base, &pull.head, &pull.name);
        checked += some(&real, &ours, &pull.name, 300, random);
    }
    assert!(checked >= pulls.len() * 50, "only {checked} quotes in {} pull requests", pulls.len());
}
