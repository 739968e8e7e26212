//! What becomes of findings from one review to the next.

use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::distinct::distinct;
use patchwright_review::finding::{Category, Finding, Priority};
use std::collections::BTreeMap;

use patchwright_review::incremental::{
    self, CodeLocation, CurrentPullRequest, FindingState, KnownFinding, Memory, SettledFindings,
};
use patchwright_review::threads::{FindingThread, FindingThreads, ThreadVerdict};
use patchwright_review::title;

use patchwright_git::hunks::{Diff, FileDiff, FileStatus, Hunk, Line};
use patchwright_review::anchor::Index;

use crate::support::quoted::finding;

const HEAD: &str = "1111111111111111111111111111111111111111";

/// Settles where the code of whatever is not found is gone.
fn settle(
    memory: &Memory,
    seen: &FindingThreads,
    found: Vec<Anchored>,
    head: &str,
    reread: &dyn Fn(&str) -> bool,
) -> SettledFindings {
    let renamed = BTreeMap::new();
    let now = CurrentPullRequest { head, reread, ..reviewed(&|_| Some(0), &renamed) };
    incremental::settle(memory, seen, found, &now)
}

/// Settles a review that read everything, where codes stand so often.
fn standing(
    memory: &Memory,
    found: Vec<Anchored>,
    times: &dyn Fn(&KnownFinding) -> Option<usize>,
) -> SettledFindings {
    standing_with(memory, &all_posted(memory), found, times)
}

/// The same, where this is on the pull request.
fn standing_with(
    memory: &Memory,
    seen: &FindingThreads,
    found: Vec<Anchored>,
    times: &dyn Fn(&KnownFinding) -> Option<usize>,
) -> SettledFindings {
    // A finding is new at the commit that it was found at, and only there.
    let head = if memory.findings.is_empty() { "2222" } else { "3333" };
    let renamed = BTreeMap::new();
    let now = CurrentPullRequest { head, ..reviewed(times, &renamed) };
    incremental::settle(memory, seen, found, &now)
}

/// A pull request whose files were all read, and in which nothing was suggested.
fn reviewed<'a>(
    times: &'a dyn Fn(&KnownFinding) -> Option<usize>,
    renamed: &'a BTreeMap<String, String>,
) -> CurrentPullRequest<'a> {
    CurrentPullRequest {
        head: "2222",
        reread: &|_| true,
        times,
        suggest: &|_| None,
        suggested: &|_| None,
        is_over: &|_| false,
        taken_back: &|_| false,
        renamed,
    }
}

/// One finding for each line of code, placed on a file that consists of them.
fn found(findings: &[(&str, &str)]) -> Vec<Anchored> {
    let line = |(at, text): (usize, &&str)| Line {
        old: None,
        new: Some(u32::try_from(at).unwrap() + 1),
        text: (*text).to_owned(),
    };
    let codes: Vec<&str> = findings.iter().map(|(code, _)| *code).collect();
    let diff = Diff {
        files: vec![FileDiff {
            path: "a.rs".to_owned(),
            old_path: None,
            status: FileStatus::Added,
            opaque: false,
            too_large: false,
            is_link: false,
            modes: None,
            hunks: vec![Hunk { lines: codes.iter().enumerate().map(line).collect() }],
            added: 0,
            deleted: 0,
        }],
    };
    let index = Index::new(&diff);
    let one = |(code, title): &(&str, &str)| {
        let title = (*title).to_owned();
        index.anchor(Finding { title, ..finding("a.rs", code, None) })
    };
    findings.iter().map(one).collect()
}

fn next(settled: SettledFindings) -> Memory {
    Memory { head: HEAD.to_owned(), findings: settled.findings, ..Memory::default() }
}

fn fates(settled: &SettledFindings) -> Vec<(&str, FindingState)> {
    settled.findings.iter().map(|known| (known.title.as_str(), known.fate)).collect()
}

fn posted(settled: &SettledFindings) -> Vec<&str> {
    settled.to_post.iter().map(|one| one.finding.title.as_str()).collect()
}

const ONE: (&str, &str) = ("let size = input.len() - 1;", "Empty input underflows");
const TWO: (&str, &str) = ("file.write_all(&bytes)?;", "The file is not synced");

/// A first review with both.
fn after_first() -> Memory {
    let settled =
        settle(&Memory::default(), &FindingThreads::default(), found(&[ONE, TWO]), HEAD, &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::New), (TWO.1, FindingState::New)]);
    assert_eq!(posted(&settled), [ONE.1, TWO.1]);
    next(settled)
}

fn all_posted(memory: &Memory) -> FindingThreads {
    let thread = |known: &KnownFinding| match known.fate {
        FindingState::Dismissed => thread(known, ThreadVerdict::Resolved),
        FindingState::New | FindingState::Still | FindingState::Fixed => {
            thread(known, ThreadVerdict::Open)
        }
    };
    FindingThreads { threads: memory.findings.iter().map(thread).collect() }
}

fn thread(known: &KnownFinding, verdict: ThreadVerdict) -> FindingThread {
    FindingThread { fingerprint: known.fingerprint.clone(), verdict, outdated: false }
}

#[test]
fn known_findings_are_still_there_or_fixed_and_never_posted_twice() {
    let memory = after_first();
    let seen = all_posted(&memory);
    let third = ("third(call);", "A third thing");
    let settled = settle(&memory, &seen, found(&[third, ONE]), "2222", &|_| true);
    assert_eq!(
        fates(&settled),
        [(third.1, FindingState::New), (ONE.1, FindingState::Still), (TWO.1, FindingState::Fixed)]
    );
    assert_eq!(posted(&settled), [third.1]);
    assert_eq!(settled.findings[0].since, "2222");
    assert_eq!(settled.findings[1].since, HEAD);
    // Looked at again without a change.
    let memory = next(settled);
    let settled = settle(&memory, &seen, found(&[third, ONE]), "3333", &|_| true);
    assert_eq!(
        fates(&settled),
        [
            (third.1, FindingState::Still),
            (ONE.1, FindingState::Still),
            (TWO.1, FindingState::Fixed)
        ]
    );
    assert!(settled.to_post.is_empty());
}

#[test]
fn what_was_not_read_again_is_not_fixed() {
    let memory = after_first();
    let settled = settle(&memory, &all_posted(&memory), Vec::new(), "2222", &|_| false);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::Still), (TWO.1, FindingState::Still)]);
    let settled = settle(&memory, &all_posted(&memory), Vec::new(), "2222", &|path| path == "a.rs");
    assert_eq!(fates(&settled), [(ONE.1, FindingState::Fixed), (TWO.1, FindingState::Fixed)]);
}

#[test]
fn the_same_thing_in_other_words_is_the_same() {
    let memory = after_first();
    let seen = all_posted(&memory);
    let mut again = found(&[(ONE.0, "Possible underflow for an empty input slice")]);
    again[0].finding.category = Category::Security;
    again[0].fingerprint = "another".to_owned();
    let settled = settle(&memory, &seen, again, "2222", &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::Still), (TWO.1, FindingState::Fixed)]);
    assert!(settled.to_post.is_empty());
    // The same code, and another thing.
    let mut other = found(&[(ONE.0, "Name says nothing about the unit")]);
    other[0].fingerprint = "another".to_owned();
    let settled = settle(&memory, &seen, other, "2222", &|_| true);
    assert_eq!(posted(&settled), ["Name says nothing about the unit"]);
    // The same words, and other code.
    let settled = settle(&memory, &seen, found(&[("other.len() - 1", ONE.1)]), "2222", &|_| true);
    assert_eq!(posted(&settled), [ONE.1]);
}

#[test]
fn dismissed_findings_stay_dismissed() {
    let memory = after_first();
    let mut seen = all_posted(&memory);
    seen.threads[0].verdict = ThreadVerdict::Resolved;
    let settled = settle(&memory, &seen, found(&[ONE, TWO]), "2222", &|_| true);
    assert_eq!(fates(&settled), [(TWO.1, FindingState::Still), (ONE.1, FindingState::Dismissed)]);
    // It is remembered without the thread, and whether it is found or not.
    let memory = next(settled);
    for again in [found(&[ONE]), Vec::new()] {
        let settled = settle(&memory, &FindingThreads::default(), again, "3333", &|_| true);
        assert!(settled.to_post.is_empty());
        assert_eq!(settled.findings.last().unwrap().fate, FindingState::Dismissed);
    }
    let mut reworded = found(&[(ONE.0, "Underflows when the input is empty")]);
    reworded[0].fingerprint = "another".to_owned();
    let settled = settle(&memory, &FindingThreads::default(), reworded, "3333", &|_| true);
    assert!(settled.to_post.is_empty());
}

/// A memory after a review in which this was made of the first finding's thread, and both were found.
fn after_verdict(verdict: ThreadVerdict) -> (Memory, FindingThreads) {
    let memory = after_first();
    let mut seen = all_posted(&memory);
    seen.threads[0].verdict = verdict;
    (next(settle(&memory, &seen, found(&[ONE, TWO]), "2222", &|_| true)), seen)
}

fn fate_of(settled: &SettledFindings, title: &str) -> FindingState {
    settled.findings.iter().find(|known| known.title == title).unwrap().fate
}

#[test]
fn a_dismissal_holds_as_long_as_what_people_said_does() {
    for verdict in [ThreadVerdict::Resolved, ThreadVerdict::Rejected] {
        let (memory, mut seen) = after_verdict(verdict);
        // Nobody can tell now, so it is as it was.
        seen.threads[0].verdict = ThreadVerdict::Unknown;
        let settled = settle(&memory, &seen, found(&[ONE, TWO]), "3333", &|_| true);
        assert_eq!(fate_of(&settled, ONE.1), FindingState::Dismissed, "{verdict:?}");
        // The thread is opened again, or the answer is deleted.
        for now in [ThreadVerdict::Open, ThreadVerdict::ResolvedByOthers] {
            seen.threads[0].verdict = now;
            for again in [found(&[ONE, TWO]), Vec::new()] {
                let settled = standing_with(&memory, &seen, again, &|_| Some(1));
                assert_eq!(fate_of(&settled, ONE.1), FindingState::Still, "{verdict:?} {now:?}");
                assert!(settled.to_post.is_empty(), "its comment is there");
            }
        }
    }
}

#[test]
fn resolving_the_thread_of_what_was_fixed_dismisses_nothing() {
    let verdicts = [ThreadVerdict::Resolved, ThreadVerdict::ResolvedByOthers];
    for verdict in verdicts {
        let memory = after_first();
        let mut seen = all_posted(&memory);
        seen.threads[0].verdict = verdict;
        let settled = settle(&memory, &seen, found(&[TWO]), "2222", &|_| true);
        assert_eq!(fate_of(&settled, ONE.1), FindingState::Fixed, "{verdict:?}");
        let fixed = next(settled);
        let back = settle(&fixed, &seen, found(&[ONE, TWO]), "3333", &|_| true);
        assert_eq!(fate_of(&back, ONE.1), FindingState::New, "{verdict:?}");
        assert_eq!(posted(&back), [ONE.1], "{verdict:?}");
        // The old thread says nothing about the finding that came back; the new one does.
        let back = next(back);
        let settled = standing_with(&back, &seen, Vec::new(), &|_| Some(1));
        assert_eq!(fate_of(&settled, ONE.1), FindingState::Still, "{verdict:?}");
        let first = back.findings.iter().find(|known| known.title == ONE.1).unwrap();
        let mut both = seen.clone();
        both.threads.push(thread(first, ThreadVerdict::Resolved));
        let settled = standing_with(&back, &both, Vec::new(), &|_| Some(1));
        assert_eq!(fate_of(&settled, ONE.1), FindingState::Dismissed, "{verdict:?}");
    }
}

#[test]
fn a_finding_that_came_back_unreported_is_open_until_its_thread_is_resolved_anew() {
    let (memory, mut seen) = after_verdict(ThreadVerdict::Resolved);
    let gone = next(settle(&memory, &seen, found(&[TWO]), "3333", &|_| true));
    assert_eq!(gone.findings[1].fate, FindingState::Fixed);
    let state = |memory: &Memory, seen: &FindingThreads| {
        let settled = standing_with(memory, seen, Vec::new(), &|_| Some(1));
        (fate_of(&settled, ONE.1), next(settled))
    };
    let (fate, back) = state(&gone, &seen);
    assert_eq!(fate, FindingState::Still);
    let (fate, back) = state(&back, &seen);
    assert_eq!(fate, FindingState::Still, "its thread was resolved before it came back");
    seen.threads[0].verdict = ThreadVerdict::Open;
    let (_, back) = state(&back, &seen);
    seen.threads[0].verdict = ThreadVerdict::Resolved;
    assert_eq!(state(&back, &seen).0, FindingState::Dismissed);
}

#[test]
fn what_was_rejected_in_words_stays_rejected_when_its_code_comes_back() {
    let (memory, seen) = after_verdict(ThreadVerdict::Rejected);
    let gone = next(settle(&memory, &seen, found(&[TWO]), "3333", &|_| true));
    assert_eq!(gone.findings[1].fate, FindingState::Fixed);
    for again in [found(&[ONE, TWO]), Vec::new()] {
        let settled = standing_with(&gone, &seen, again, &|_| Some(1));
        assert_eq!(fate_of(&settled, ONE.1), FindingState::Dismissed);
        assert!(settled.to_post.is_empty());
    }
}

#[test]
fn a_fixed_finding_is_not_back_because_a_dismissed_one_has_the_same_code() {
    let (mut memory, mut seen) = after_verdict(ThreadVerdict::Resolved);
    memory.findings.retain(|known| known.title == ONE.1);
    let fixed = KnownFinding {
        fingerprint: "another".to_owned(),
        title: "The same elsewhere".to_owned(),
        fate: FindingState::Fixed,
        nth: 1,
        ..memory.findings[0].clone()
    };
    seen.threads.push(thread(&fixed, ThreadVerdict::ResolvedAsFixed));
    memory.findings.push(fixed);
    for (times, expected) in [(1, FindingState::Fixed), (2, FindingState::Still)] {
        let settled = standing_with(&memory, &seen, Vec::new(), &|_| Some(times));
        assert_eq!(fate_of(&settled, ONE.1), FindingState::Dismissed);
        assert_eq!(fate_of(&settled, "The same elsewhere"), expected, "{times}");
    }
}

#[test]
fn a_lost_memory_posts_nothing_twice() {
    let memory = after_first();
    let mut seen = all_posted(&memory);
    seen.threads[1].verdict = ThreadVerdict::Resolved;
    let settled = settle(&Memory::default(), &seen, found(&[ONE, TWO]), "2222", &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::Still), (TWO.1, FindingState::Dismissed)]);
    assert!(settled.to_post.is_empty());
}

#[test]
fn a_fixed_finding_that_comes_back_is_new() {
    let memory = after_first();
    let memory = next(settle(&memory, &all_posted(&memory), found(&[TWO]), "2222", &|_| true));
    assert_eq!(memory.findings[1].fate, FindingState::Fixed);
    // Its old thread was resolved, so it is not among those that are posted.
    let settled =
        settle(&memory, &FindingThreads::default(), found(&[ONE, TWO]), "3333", &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::New), (TWO.1, FindingState::Still)]);
    assert_eq!(posted(&settled), [ONE.1]);
    assert_eq!(settled.findings[0].since, "3333");
    // Its old comment is still open.
    let settled = settle(&memory, &all_posted(&memory), found(&[ONE, TWO]), "3333", &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::New), (TWO.1, FindingState::Still)]);
    assert!(settled.to_post.is_empty());
}

#[test]
fn the_same_finding_twice_in_a_review_is_one() {
    let mut twice = found(&[ONE, TWO, ONE]);
    twice[2].finding.priority = Priority::P0;
    twice[2].finding.title = "Empty input panics".to_owned();
    let settled = settle(&Memory::default(), &FindingThreads::default(), twice, HEAD, &|_| true);
    assert_eq!(posted(&settled), ["Empty input panics", TWO.1]);
    assert_eq!(settled.findings.len(), 2);
}

#[test]
fn memory_is_bounded_and_the_oldest_fixed_go_first() {
    let known = |at: usize, fate: FindingState| KnownFinding {
        fingerprint: format!("{at:016}"),
        path: "a.rs".to_owned(),
        title: format!("Finding {at}"),
        priority: Priority::P2,
        fate,
        since: HEAD.to_owned(),
        sketch: String::new(),
        code: CodeLocation::InHead,
        nth: 0,
        old_threads: 0,
        times: 0,
        line: None,
        suggestion: None,
    };
    let mut findings: Vec<KnownFinding> =
        (0..300).map(|at| known(at, FindingState::Still)).collect();
    findings.extend((300..600).map(|at| known(at, FindingState::Fixed)));
    findings.extend((600..650).map(|at| known(at, FindingState::Dismissed)));
    let memory = Memory { findings, ..Memory::default() };
    let settled = settle(&memory, &FindingThreads::default(), found(&[ONE]), HEAD, &|_| false);
    let count =
        |fate: FindingState| settled.findings.iter().filter(|known| known.fate == fate).count();
    assert_eq!(settled.findings.len(), 500);
    assert_eq!(
        (count(FindingState::New), count(FindingState::Still), count(FindingState::Dismissed)),
        (1, 300, 50)
    );
    assert_eq!(settled.findings[301].title, "Finding 300", "the newest fixed ones stay");
    assert_eq!(settled.forgotten, [] as [String; 0], "what is fixed can be forgotten");
    // Of what is open and has no room the fingerprint stays, until it is found again or a person dismisses it.
    let findings: Vec<KnownFinding> = (0..600).map(|at| known(at, FindingState::Still)).collect();
    let memory = Memory { findings: findings.clone(), ..Memory::default() };
    let settled = settle(&memory, &FindingThreads::default(), Vec::new(), HEAD, &|_| false);
    assert_eq!((settled.findings.len(), settled.forgotten.len()), (500, 100));
    let memory =
        Memory { findings: settled.findings, forgotten: settled.forgotten, ..Memory::default() };
    let rejected = FindingThread {
        fingerprint: memory.forgotten[0].clone(),
        verdict: ThreadVerdict::Rejected,
        outdated: false,
    };
    let seen = FindingThreads { threads: vec![rejected] };
    let settled = settle(&memory, &seen, Vec::new(), HEAD, &|_| false);
    assert_eq!(settled.forgotten, memory.forgotten[1..]);
    let mut again = found(&[ONE]);
    let memory = Memory { forgotten: vec![again[0].fingerprint.clone()], ..Memory::default() };
    again.truncate(1);
    let settled = settle(&memory, &FindingThreads::default(), again, HEAD, &|_| true);
    assert_eq!((settled.to_post.len(), settled.forgotten.len()), (0, 0));
    assert_eq!(settled.findings[0].fate, FindingState::Still);
    let long = format!("{} {}", "x".repeat(1000), "y".repeat(1 << 20));
    let settled = settle(
        &Memory::default(),
        &FindingThreads::default(),
        found(&[(ONE.0, &long)]),
        HEAD,
        &|_| true,
    );
    assert!(settled.findings[0].title.len() <= 160);
}

#[test]
fn findings_without_lines_are_known_again_too() {
    let off = |path: &str, title: &str| Anchored {
        anchor: Anchor::File { path: path.to_owned(), why: "not shown".to_owned() },
        ..index_free(path, title)
    };
    let first = settle(
        &Memory::default(),
        &FindingThreads::default(),
        vec![off("b.rs", "T")],
        HEAD,
        &|_| true,
    );
    let again =
        settle(&next(first), &FindingThreads::default(), vec![off("b.rs", "T")], "2222", &|_| true);
    assert_eq!(fates(&again), [("T", FindingState::Still)]);
    assert!(again.to_post.is_empty());
}

fn index_free(path: &str, title: &str) -> Anchored {
    let title = title.to_owned();
    Index::new(&Diff::default()).anchor(Finding { title, ..finding(path, "somewhere();", None) })
}

#[test]
fn a_memory_without_sketches_is_understood() {
    let stored = serde_json::json!({
        "head": HEAD, "base": HEAD,
        "findings": [{ "fingerprint": "f", "path": "a.rs", "title": "T", "priority": 1,
                       "fate": "still", "since": HEAD }],
    });
    let memory: Memory = serde_json::from_value(stored).unwrap();
    let settled = settle(&memory, &FindingThreads::default(), found(&[ONE]), "2222", &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::New), ("T", FindingState::Fixed)]);
}

#[test]
fn a_finding_that_is_not_reported_again_stands_as_long_as_its_code_does() {
    let memory = after_first();
    for (times, fate) in [
        (Some(1), FindingState::Still),
        (Some(3), FindingState::Still),
        (None, FindingState::Still),
        (Some(0), FindingState::Fixed),
    ] {
        let settled = standing(&memory, Vec::new(), &|_| times);
        assert_eq!(fates(&settled), [(ONE.1, fate), (TWO.1, fate)], "{times:?}");
    }
}

#[test]
fn a_fixed_finding_stands_again_when_its_code_comes_back() {
    let memory = after_first();
    let fixed = next(standing(&memory, Vec::new(), &|_| Some(0)));
    let back = standing(&fixed, Vec::new(), &|_| Some(1));
    assert_eq!(fates(&back), [(ONE.1, FindingState::Still), (TWO.1, FindingState::Still)]);
    assert!(back.to_post.is_empty());
}

#[test]
fn a_finding_whose_quote_was_never_there_stands_as_long_as_its_file() {
    let off = Anchored {
        anchor: Anchor::File { path: "b.rs".to_owned(), why: "not shown".to_owned() },
        ..index_free("b.rs", "T")
    };
    let in_file = |known: &KnownFinding| (known.code == CodeLocation::InHead).then_some(0);
    let memory = next(standing(&Memory::default(), vec![off], &in_file));
    assert_eq!(memory.findings[0].code, CodeLocation::Nowhere);
    assert_eq!(fates(&standing(&memory, Vec::new(), &in_file)), [("T", FindingState::Still)]);
    let gone = |_: &KnownFinding| Some(0);
    assert_eq!(fates(&standing(&memory, Vec::new(), &gone)), [("T", FindingState::Fixed)]);
    // Of a file that never was, nothing is ever heard again.
    let no_file = next(standing(&Memory::default(), vec![index_free("x.rs", "T")], &gone));
    assert_eq!(no_file.findings[0].code, CodeLocation::NoFile);
    assert_eq!(fates(&standing(&no_file, Vec::new(), &gone)), [("T", FindingState::Still)]);
}

/// Findings about the same line of code: at all its places, `(line, title)`.
fn repeated(lines: &[&str], findings: &[(u32, &str)]) -> Vec<Anchored> {
    let line = |(at, text): (usize, &&str)| Line {
        old: None,
        new: Some(u32::try_from(at).unwrap() + 1),
        text: (*text).to_owned(),
    };
    let file = FileDiff {
        path: "ci.yml".to_owned(),
        old_path: None,
        status: FileStatus::Added,
        opaque: false,
        too_large: false,
        is_link: false,
        modes: None,
        hunks: vec![Hunk { lines: lines.iter().enumerate().map(line).collect() }],
        added: 0,
        deleted: 0,
    };
    let diff = Diff { files: vec![file] };
    let index = Index::new(&diff);
    let one = |(line, title): &(u32, &str)| {
        let quote = lines[usize::try_from(*line).unwrap() - 1];
        let title = (*title).to_owned();
        index.anchor(Finding { title, ..finding("ci.yml", quote, Some(*line)) })
    };
    findings.iter().map(one).collect()
}

const STEPS: &[&str] = &["first:", "uses: x@v1", "run: one", "second:", "uses: x@v1", "run: two"];

#[test]
fn the_same_code_at_two_places_has_two_findings() {
    let found = repeated(STEPS, &[(2, "Not pinned"), (5, "Not pinned")]);
    assert_ne!(found[0].fingerprint, found[1].fingerprint);
    let first = standing(&Memory::default(), found.clone(), &|_| Some(2));
    assert_eq!(posted(&first), ["Not pinned", "Not pinned"]);
    // Both places, one of them, none of them.
    let memory = next(first);
    for (times, still) in [(2, 2), (1, 1), (0, 0), (5, 2)] {
        let settled = standing(&memory, Vec::new(), &|_| Some(times));
        let count = settled.findings.iter().filter(|one| one.fate == FindingState::Still).count();
        assert_eq!(count, still, "{times}");
    }
    // A place that is reported again is the one that stands.
    let settled = standing(&memory, vec![found[1].clone()], &|_| Some(1));
    let fate = |at: usize| {
        settled.findings.iter().find(|one| one.fingerprint == found[at].fingerprint).unwrap().fate
    };
    assert_eq!((fate(0), fate(1)), (FindingState::Fixed, FindingState::Still));
}

#[test]
fn another_place_of_known_code_is_new_whatever_its_title() {
    let found = repeated(STEPS, &[(2, "Not pinned"), (5, "Not pinned")]);
    let memory = next(standing(&Memory::default(), vec![found[0].clone()], &|_| Some(1)));
    let settled = standing(&memory, vec![found[1].clone()], &|_| Some(2));
    assert_eq!(posted(&settled), ["Not pinned"]);
    assert_eq!(settled.findings.len(), 2);
}

#[test]
fn different_findings_about_one_line_both_stand() {
    let titles = ["Not pinned", "Runs with write permissions"];
    let found = repeated(STEPS, &[(2, titles[0]), (2, titles[1])]);
    let first = standing(&Memory::default(), found.clone(), &|_| Some(2));
    assert_eq!(posted(&first), titles);
    assert_ne!(first.to_post[0].fingerprint, first.to_post[1].fingerprint);
    // In the other order, and one at a time, they are the same two.
    let memory = next(first);
    let turned = vec![found[1].clone(), found[0].clone()];
    for again in [turned, vec![found[1].clone()], vec![found[0].clone()], Vec::new()] {
        let settled = standing(&memory, again, &|_| Some(2));
        assert!(settled.to_post.is_empty(), "{:?}", posted(&settled));
        assert!(settled.findings.iter().all(|one| one.fate == FindingState::Still), "{settled:?}");
    }
}

#[test]
fn what_is_said_again_in_the_same_review_is_added_to_the_first() {
    let mut found = repeated(STEPS, &[(2, "Not pinned"), (2, "The action is not pinned")]);
    found[1].finding.body = "A tag moves.".to_owned();
    let settled = standing(&Memory::default(), found, &|_| Some(2));
    assert_eq!(posted(&settled), ["Not pinned"]);
    let body = &settled.to_post[0].finding.body;
    assert!(body.contains("The action is not pinned") && body.contains("A tag moves."), "{body}");
}

#[test]
fn a_finding_that_is_graver_now_counts_as_that() {
    let memory = after_first();
    let mut again = found(&[ONE]);
    again[0].finding.priority = Priority::P0;
    let settled = standing(&memory, again, &|_| Some(1));
    assert_eq!(settled.findings[0].priority, Priority::P0);
    let settled = standing(&next(settled), found(&[ONE]), &|_| Some(1));
    assert_eq!(settled.findings[0].priority, Priority::P0, "and does not become less");
}

#[test]
fn a_renamed_file_keeps_its_findings_in_whatever_words() {
    let memory = after_first();
    let mut moved = found(&[(ONE.0, "Wraps around"), TWO]);
    for one in &mut moved {
        one.finding.path = "b.rs".to_owned();
        one.fingerprint = format!("{:0>16}", &one.fingerprint[..8]);
        if let Anchor::Lines { path, .. } = &mut one.anchor {
            *path = "b.rs".to_owned();
        }
    }
    let renamed = BTreeMap::from([("a.rs".to_owned(), "b.rs".to_owned())]);
    let in_new = |known: &KnownFinding| Some(usize::from(known.path == "b.rs"));
    let now = reviewed(&in_new, &renamed);
    for again in [moved, Vec::new()] {
        let settled = incremental::settle(&memory, &all_posted(&memory), again, &now);
        assert_eq!(fates(&settled), [(ONE.1, FindingState::Still), (TWO.1, FindingState::Still)]);
        assert!(settled.to_post.is_empty());
        assert!(settled.findings.iter().all(|known| known.path == "b.rs"));
    }
}

#[test]
fn what_must_not_be_merged_is_never_forgotten() {
    let known = |at: usize, priority: Priority| KnownFinding {
        fingerprint: format!("{at:016}"),
        path: "a.rs".to_owned(),
        title: format!("Finding {at}"),
        priority,
        fate: FindingState::Still,
        since: HEAD.to_owned(),
        sketch: String::new(),
        code: CodeLocation::InHead,
        nth: 0,
        old_threads: 0,
        times: 0,
        line: None,
        suggestion: None,
    };
    let mut findings = vec![known(0, Priority::P3), known(1, Priority::P0)];
    findings.extend((2..500).map(|at| known(at, Priority::P1)));
    let memory = Memory { findings, ..Memory::default() };
    let settled = standing(&memory, found(&[ONE, TWO]), &|_| Some(1));
    assert_eq!(settled.findings.len(), 500);
    let is_there = |print: &str| settled.findings.iter().any(|one| one.fingerprint == print);
    assert!(is_there("0000000000000001") && !is_there("0000000000000000"));
}

#[test]
fn a_finding_keeps_what_it_was_reported_for_unless_the_new_code_is_really_there() {
    let memory = after_first();
    let before = &memory.findings[0];
    let again = || {
        let mut again = found(&[ONE]);
        (again[0].sketch, again[0].nth) = ("0123".repeat(3), 1);
        again
    };
    for (times, is_there) in [(Some(2), true), (Some(1), true), (Some(0), false), (None, false)] {
        let new = again()[0].sketch.clone();
        // What it was reported for is gone.
        let settled = standing(&memory, again(), &|known| {
            if known.sketch == new { times } else { Some(0) }
        });
        let now = settled.findings.iter().find(|one| one.title == ONE.1).unwrap();
        let expected = if is_there { ("012301230123", 1) } else { (before.sketch.as_str(), 0) };
        assert_eq!((now.sketch.as_str(), now.nth), expected, "{times:?}");
    }
}

#[test]
fn a_review_of_the_same_commit_again_leaves_what_is_new_new() {
    let memory = after_first();
    let seen = all_posted(&memory);
    let settled = settle(&memory, &seen, found(&[ONE, TWO]), HEAD, &|_| true);
    assert_eq!(fates(&settled), [(ONE.1, FindingState::New), (TWO.1, FindingState::New)]);
    assert!(settled.to_post.is_empty());
}

#[test]
fn a_finding_that_comes_back_in_other_words_is_not_posted_beside_its_open_comment() {
    let memory = after_first();
    let seen = all_posted(&memory);
    let fixed = next(settle(&memory, &seen, found(&[TWO]), "2222", &|_| true));
    let mut again = found(&[(ONE.0, "Underflows when the input is empty")]);
    again[0].fingerprint = "another".to_owned();
    let settled = settle(&fixed, &seen, again.clone(), "3333", &|_| true);
    assert!(settled.to_post.is_empty(), "{:?}", posted(&settled));
    // The comment with its own words is open, and the first one is gone.
    let another = "another".to_owned();
    let own = FindingThread { fingerprint: another, verdict: ThreadVerdict::Open, outdated: false };
    let own = FindingThreads { threads: vec![own] };
    let settled = settle(&fixed, &own, again.clone(), "3333", &|_| true);
    assert!(settled.to_post.is_empty(), "{:?}", posted(&settled));
    let settled = settle(&fixed, &FindingThreads::default(), again, "3333", &|_| true);
    assert_eq!(posted(&settled), ["Underflows when the input is empty"]);
}

#[test]
fn what_is_said_again_with_the_same_title_is_said_once_and_in_the_later_words() {
    let place = || found(&[ONE]).remove(0);
    let one = |title: &str, body: &str, priority: Priority, confidence: f64| {
        let mut one = place();
        (one.finding.title, one.finding.body) = (title.to_owned(), body.to_owned());
        (one.finding.priority, one.finding.confidence) = (priority, confidence);
        one
    };
    let said = |both: [Anchored; 2]| {
        let merged = distinct(both.to_vec(), &[]);
        assert_eq!(merged.len(), 1, "{merged:?}");
        (merged[0].finding.priority, merged[0].finding.body.clone())
    };
    let (old, title) = (one(ONE.1, "Always.", Priority::P1, 0.9), "empty input  underflows");
    let new = |priority| one(title, "For no bytes.", priority, 0.5);
    assert_eq!(said([old.clone(), new(Priority::P1)]), (Priority::P1, "For no bytes.".to_owned()));
    assert_eq!(said([old.clone(), new(Priority::P0)]), (Priority::P0, "For no bytes.".to_owned()));
    let both = "Always.\n\nFor no bytes.".to_owned();
    assert_eq!(said([old.clone(), new(Priority::P2)]), (Priority::P1, both), "nothing graver goes");
    let other = one("An empty input underflows", "Seen.", Priority::P1, 0.5);
    let both = "Always.\n\nAn empty input underflows\n\nSeen.".to_owned();
    assert_eq!(said([old, other]), (Priority::P1, both));
}

#[test]
fn what_was_fixed_last_stands_before_what_was_fixed_earlier() {
    let memory = after_first();
    let fixed = next(settle(&memory, &all_posted(&memory), found(&[TWO]), "2222", &|_| true));
    assert_eq!(fixed.findings[1].title, ONE.1);
    let settled = settle(&fixed, &FindingThreads::default(), Vec::new(), "3333", &|_| true);
    assert_eq!(fates(&settled), [(TWO.1, FindingState::Fixed), (ONE.1, FindingState::Fixed)]);
}

#[test]
fn in_a_renamed_file_other_code_is_another_finding() {
    let memory = after_first();
    let mut other = found(&[("third(call);", "Wraps around")]);
    if let Anchor::Lines { path, .. } = &mut other[0].anchor {
        *path = "b.rs".to_owned();
    }
    let renamed = BTreeMap::from([("a.rs".to_owned(), "b.rs".to_owned())]);
    let now = reviewed(&|_| Some(1), &renamed);
    let settled = incremental::settle(&memory, &all_posted(&memory), other, &now);
    assert_eq!(posted(&settled), ["Wraps around"]);
    assert_eq!(settled.findings.len(), 3);
}

#[test]
fn titles_are_alike_by_the_words_that_say_something() {
    for (one, other, are_alike) in [
        ("The file is not synced", "Syncing of the file is missing", true),
        ("Should not have locks", "Should not have keys", false),
        ("It is in locks", "It is in keys", false),
        ("", "", false),
    ] {
        assert_eq!(title::is_same_title(one, other), are_alike, "{one} / {other}");
    }
}

/// A memory that is full: what goes to make room for one more.
#[test]
fn of_a_full_memory_the_least_important_open_finding_goes_before_a_refusal() {
    let known = |at: usize, priority: Priority, fate: FindingState| KnownFinding {
        fingerprint: format!("{at:016}"),
        path: "a.rs".to_owned(),
        title: format!("Finding {at}"),
        priority,
        fate,
        since: HEAD.to_owned(),
        sketch: String::new(),
        code: CodeLocation::InHead,
        nth: 0,
        old_threads: 0,
        times: 0,
        line: None,
        suggestion: None,
    };
    let full = |priority: Priority, last: KnownFinding| {
        let mut findings: Vec<KnownFinding> =
            (0..500).map(|at| known(at, priority, FindingState::Still)).collect();
        findings.push(last);
        let memory = Memory { findings, ..Memory::default() };
        let settled = standing(&memory, Vec::new(), &|_| Some(600));
        assert_eq!(settled.findings.len(), 500);
        let last = format!("{:016}", 500);
        settled.findings.iter().any(|one| one.fingerprint == last)
    };
    let dismissed = known(500, Priority::P3, FindingState::Dismissed);
    assert!(full(Priority::P1, dismissed.clone()), "it would be brought up again");
    assert!(!full(Priority::P0, dismissed), "what must not be merged stays");
    assert!(
        !full(Priority::P0, known(500, Priority::P0, FindingState::Still)),
        "the last of equals goes"
    );
    // Of findings that are as important the one that is new goes.
    let findings = (0..500).map(|at| known(at, Priority::P2, FindingState::Still)).collect();
    let memory = Memory { findings, ..Memory::default() };
    let mut new = found(&[ONE]);
    new[0].finding.priority = Priority::P2;
    let settled = standing(&memory, new, &|_| Some(600));
    assert_eq!(settled.findings.len(), 500);
    assert!(settled.findings.iter().all(|one| one.fate == FindingState::Still));
}
