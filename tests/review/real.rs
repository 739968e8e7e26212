//! Pull requests of real projects, reviewed by the program: GitHub takes every comment, and each stands
//! on the lines that hold what was quoted.

use std::collections::BTreeSet;

use patchwright_forge::Side;
use serde_json::json;

use crate::support::github::GitHub;
use crate::support::history::{self, Pull};
use crate::support::model::{Turn, call, say};
use crate::support::quoted::{Noise, Quoted, Random, quote, squeezed};
use crate::support::real_diff::RealDiff;
use crate::support::world::TestWorld;

/// As many as go into one review.
const MOST: usize = 30;

/// Quotes from anywhere in the diff, no two of the same code.
fn quotes(real: &RealDiff, random: &mut Random) -> Vec<Quoted> {
    let files = real.shown();
    let mut seen = BTreeSet::new();
    let mut quotes = Vec::new();
    for _ in 0..if files.is_empty() { 0 } else { 20 * MOST } {
        let file = random.pick(&files);
        let hunk = random.pick(&file.hunks);
        let side = if random.one_in(3) { Side::Left } else { Side::Right };
        let part = (random.below(hunk.len()), 1 + random.below(8));
        let noise = *random.pick(&[Noise::None, Noise::Dedented, Noise::Signs, Noise::Fence]);
        if let Some(quoted) = quote(file, hunk, side, part, noise, random)
            && seen.insert((file.path.clone(), quoted.parts.concat()))
        {
            quotes.push(quoted);
        }
        if quotes.len() == MOST {
            break;
        }
    }
    quotes
}

/// A reviewer that reports them all, ten at a time.
fn reviewer(quotes: &[Quoted]) -> Vec<Turn> {
    let report = |(at, quoted): (usize, &Quoted)| {
        call(
            "report_finding",
            json!({
                "path": quoted.finding.path, "quote": quoted.finding.quote,
                "line": quoted.finding.line, "title": format!("Finding {at}."),
                "body": "A body.", "priority": 1, "confidence": 0.9, "category": "bug",
            }),
        )
    };
    let calls: Vec<Turn> = quotes.iter().enumerate().map(report).collect();
    let mut turns: Vec<Turn> =
        calls.chunks(10).filter_map(|calls| calls.iter().cloned().reduce(Turn::and)).collect();
    turns.push(say("It is a release."));
    turns
}

/// The number in the title of a comment.
fn number(body: &str) -> usize {
    let digits = body.split("Finding ").nth(1).unwrap().split('.').next().unwrap();
    digits.parse().unwrap()
}

fn review(pull: &Pull, random: &mut Random) -> usize {
    let real = RealDiff::between(&pull.repository, &pull.base, &pull.head);
    let quotes = quotes(&real, random);
    if quotes.is_empty() {
        return 0;
    }
    let github = GitHub::new()
        .repository_from("acme/app", &pull.repository)
        .branch_at("before", &pull.base)
        .branch_at("after", &pull.head)
        .pull_onto("before", 8, &pull.name, "after", &[]);
    let world = TestWorld::new(github, reviewer(&quotes)).set("PATCHWRIGHT_VERIFY", "true");
    let output = world.run(&["review", "acme/app#8"]);
    assert!(matches!(output.code, 0 | 20), "{}: {}", pull.name, output.stderr);
    let refused: Vec<_> =
        world.github.requests().into_iter().filter(|asked| asked.status == 422).collect();
    assert!(refused.is_empty(), "{}: {refused:#?}", pull.name);
    let comments = world.github.review_comments(8);
    let mut placed = BTreeSet::new();
    for comment in &comments {
        let at = number(&comment.body);
        let held: String = comment.quoted.iter().map(|line| squeezed(line)).collect();
        for part in &quotes[at].parts {
            assert!(
                held.contains(part.as_str()),
                "{}: {}:{:?} does not hold {part:?}: {:#?}",
                pull.name,
                comment.path,
                comment.line,
                comment.quoted
            );
        }
        placed.insert(at);
    }
    assert_eq!(placed.len(), quotes.len(), "{}: some have no place: {}", pull.name, output.stderr);
    placed.len()
}

#[test]
fn every_comment_on_a_real_pull_request_is_taken_and_stands_on_its_quote() {
    let random = &mut Random(11);
    let releases = history::releases();
    let some: Vec<&Pull> = releases.iter().step_by(6).collect();
    let placed: usize = some.iter().map(|pull| review(pull, random)).sum();
    assert!(placed >= some.len() * 10, "only {placed} comments in {} pull requests", some.len());
}
