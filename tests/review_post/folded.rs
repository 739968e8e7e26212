//! Findings that are folded in a review's body have no thread: the next review is told of them all the same.

use super::{adds, finding, github, module, ours, review, reviewer, sticky, table, verdicts};
use crate::support::git_repo::{deleted, file};
use crate::support::world::TestWorld;

/// The task of the newest review.
fn task(world: &TestWorld) -> String {
    let requests = world.model.requests();
    let told = requests.iter().rev().map(|request| request.body["input"].to_string());
    told.into_iter().find(|told| told.contains("Review pull request #3")).unwrap()
}

#[test]
fn minor_findings_are_told_to_the_next_review() {
    let turns = [reviewer([adds(3, 1), adds(5, 3), adds(7, 3)]), reviewer([])].concat();
    let world = TestWorld::new(github(), turns);
    review(&world).expect(0);
    world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
    review(&world).expect(0);
    let told = task(&world);
    for line in [
        "Finding at calc.py:14 (open, its code is still there, folded in the review): P3: Adds 5",
        "Finding at calc.py:20 (open, its code is still there, folded in the review): P3: Adds 7",
        "Finding at calc.py:8 (open, its code is still there):",
    ] {
        assert_eq!(told.matches(line).count(), 1, "{line}: {told}");
    }
    assert_eq!(table(&world).len(), 3);
}

/// The harness compares before it asks.
#[test]
fn a_reviewer_is_told_what_became_of_the_code_of_earlier_findings() {
    let turns = [reviewer([adds(3, 1), adds(5, 3), adds(7, 1)]), reviewer([])].concat();
    let world = TestWorld::new(github(), turns);
    review(&world).expect(0);
    let fixed = module(1..11).replace("return x + 3\n", "return 3 + x\n");
    let fixed = format!("import os\n{}", fixed.replace("return x + 5\n", "return 5 + x\n"));
    let renamed = [deleted("calc.py"), file("sums.py", fixed)];
    world.github.push_entries_to_pull(3, &renamed);
    review(&world).expect(0);
    let told = task(&world);
    for line in [
        "Finding at calc.py (open, its code is gone):",
        "(open, its code is gone, folded in the review): P3: Adds 5",
        "Finding at sums.py:21 (open, its code is still there):",
    ] {
        assert_eq!(told.matches(line).count(), 1, "{line}: {told}");
    }
    assert_eq!(table(&world), ["still there: Adds 7", "fixed: Adds 3", "fixed: Adds 5"]);
}

/// Their numbers are those of the old file.
#[test]
fn a_place_on_deleted_lines_says_so() {
    let minor = finding("old.py", "import os", "Callers import it", 3);
    let world = TestWorld::new(github(), reviewer([minor]));
    world.github.push_to_pull(3, &[("old.py", "import sys\n")]);
    let output = review(&world).expect(0);
    let place = "`old.py:1` (deleted)";
    assert!(sticky(&world).contains(place), "{}", sticky(&world));
    assert!(ours(&world)[0].body.contains(place), "{}", ours(&world)[0].body);
    assert!(output.stderr.contains("P3 old.py:1 (deleted): Callers"), "{}", output.stderr);
}

/// A misquote of a model is not in the way for good: what could never be looked for is asked for.
#[test]
fn a_finding_without_a_line_is_over_when_its_file_has_changed_and_it_is_not_reported_again() {
    let misquoted = || finding("calc.py", "    return x +% 3", "Is no Python", 0);
    let twice = [misquoted(), misquoted()];
    for (last, expected, verdict) in [
        (vec![], "fixed: Is no Python", "success"),
        (twice.to_vec(), "still there: Is no Python", "failure"),
    ] {
        let turns = [reviewer(twice.clone()), reviewer([]), reviewer(last)];
        let world = TestWorld::new(github(), turns.concat());
        review(&world).expect(0);
        assert_eq!(table(&world), ["new: Is no Python"]);
        // Another file says nothing about it.
        world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
        review(&world).expect(0);
        let told = task(&world);
        let line = "(open, without a line, folded in the review): P0: Is no Python";
        assert!(told.contains(line), "{told}");
        assert!(told.contains("it counts as fixed"), "{told}");
        assert_eq!(table(&world), ["still there: Is no Python"]);
        let fixed = module(1..11).replace("return x + 3\n", "return 3 + x\n");
        world.github.push_to_pull(3, &[("calc.py", &fixed)]);
        review(&world).expect(0);
        assert_eq!(table(&world), [expected], "{}", sticky(&world));
        assert_eq!(verdicts(&world).pop().as_deref(), Some(verdict));
        assert_eq!(ours(&world).len(), 1, "it is posted once");
    }
    // Nor does a review that has not read the file again say anything.
    let turns = [reviewer(twice.clone()), reviewer([]), reviewer([])];
    let world = TestWorld::new(github(), turns.concat());
    review(&world).expect(0);
    let large = "x = 1\n".repeat(21_000);
    world.github.push_to_pull(3, &[("calc.py", &large)]);
    review(&world);
    assert_eq!(table(&world), ["still there: Is no Python"]);
}
