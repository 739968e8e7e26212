//! Findings that are folded in a review's body have no thread: the next review is told of them all the same.

use super::{adds, finding, github, module, ours, review, reviewer, sticky, table, verdicts};
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
        "Finding at calc.py:14 (open, folded in the review): P3: Adds 5",
        "Finding at calc.py:20 (open, folded in the review): P3: Adds 7",
        "Finding at calc.py:8 (open):",
    ] {
        assert_eq!(told.matches(line).count(), 1, "{line}: {told}");
    }
    assert_eq!(table(&world).len(), 3);
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
