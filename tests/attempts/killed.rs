//! Runs with attempts that are killed and begun again: what has ended is not done again, what was cut is resumed, the
//! choice is made once, and one change is published.

use serde_json::json;

use super::{FIXED, attempts, in_turn, kept, published, right, wrong};
use crate::resume::{signalled, until, wait_for};
use crate::support::model::{Turn, custom, say, stall};
use crate::support::world::{TestWorld, github, github_with};

/// Replies that the journals of all attempts have.
fn replied(world: &TestWorld) -> usize {
    let run = &world.runs()[0];
    (1..=3)
        .map(|number| run.join(format!("attempts/{number}/journal.jsonl")))
        .filter_map(|path| fs_err::read_to_string(path).ok())
        .map(|journal| journal.lines().filter(|line| line.contains("\"is\":\"replied\"")).count())
        .sum()
}

/// Kills the run when its journals together have so many lines; `false` when it was done before.
fn killed_at(world: &TestWorld, lines: usize) -> bool {
    let mut child = world.spawn(&["issue", "acme/app#7"]);
    let count = |path: std::path::PathBuf| {
        fs_err::read_to_string(path).map_or(0, |journal| journal.matches('\n').count())
    };
    wait_for(|| {
        let Some(run) = world.runs().first().cloned() else { return false };
        let own = count(run.join("journal.jsonl"));
        let theirs: usize =
            (1..=2).map(|it| count(run.join(format!("attempts/{it}/journal.jsonl")))).sum();
        own + theirs >= lines || child.try_wait().unwrap().is_some()
    });
    child.kill().unwrap();
    world.wait(child);
    world.model.settle();
    !world.result("journal.jsonl").contains("\"is\":\"run_ended\"")
}

fn both() -> Vec<Turn> {
    [wrong(), right()].concat()
}

#[test]
fn a_run_that_was_killed_anywhere_comes_to_the_same_choice() {
    let golden = in_turn(2, vec![both()]);
    golden.issue().expect(0);
    let lines = ["journal.jsonl", "attempts/1/journal.jsonl", "attempts/2/journal.jsonl"]
        .map(|name| golden.result(name).lines().count())
        .iter()
        .sum::<usize>();
    assert!(lines > 30, "{lines} lines");
    let points: Vec<usize> = (4..lines).step_by(3).collect();
    std::thread::scope(|scope| {
        for half in points.chunks(points.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|point| goes_on(*point)));
        }
    });
}

/// A call of this attempt was begun and has no end.
fn is_cut(world: &TestWorld, attempt: u32) -> bool {
    let journal = world.result(&format!("attempts/{attempt}/journal.jsonl"));
    let count = |word: &str| journal.matches(word).count();
    count("\"is\":\"call_started\"") > count("\"is\":\"call_ended\"")
}

fn goes_on(point: usize) {
    let world = in_turn(2, vec![both()]);
    let mut replies = both().len();
    if killed_at(&world, point) {
        let (known, asked) = (replied(&world), world.model.requests().len());
        assert!(asked - known <= 1, "line {point}: {asked} requests, {known} replies");
        // A call that was cut is answered as one whose result nobody knows, and its attempt does it again.
        let rest = match (is_cut(&world, 1), is_cut(&world, 2)) {
            (true, _) => both(),
            (_, true) => right(),
            _ => both().into_iter().skip(known).collect(),
        };
        replies = known + rest.len();
        world.model.replace(rest);
        let output = world.issue();
        assert_eq!(output.code, 0, "killed at line {point}: {}", output.text());
    }
    assert_eq!(published(&world), FIXED, "line {point}");
    assert_eq!(world.github.pulls().len(), 1, "line {point}");
    assert_eq!((world.runs().len(), replied(&world)), (1, replies), "line {point}");
    let journal = world.result("journal.jsonl");
    assert_eq!(journal.matches("\"is\":\"selected\"").count(), 1, "line {point}");
}

#[test]
fn a_choice_that_a_judge_has_made_is_not_asked_for_again() {
    let note = |text: &str| {
        let patch = format!("*** Begin Patch\n*** Add File: NOTE.md\n+{text}\n*** End Patch\n");
        vec![custom("apply_patch", &patch), say(format!("Write {text} down"))]
    };
    let judged = say(json!({"attempt": 2, "reason": "It is better."}).to_string());
    let files = [("README.md", "# notes\n")];
    let turns = [note("one"), note("two"), vec![judged]].concat();
    let world = attempts(TestWorld::new(github_with(&files), turns), 2, 1);
    let mut child = world.spawn(&["issue", "acme/app#7"]);
    until(&world, |journal| journal.contains("\"is\":\"selected\""));
    child.kill().unwrap();
    world.wait(child);
    world.model.replace(Vec::new());
    let asked = world.model.requests().len();
    let output = world.issue();
    if output.code == 0 {
        kept(&world, &output, 2);
    } else {
        // It was faster than the signal.
        assert_eq!(world.github.pulls().len(), 1, "{}", output.text());
    }
    assert_eq!(world.model.requests().len(), asked);
}

#[test]
fn a_signal_ends_all_attempts_and_the_next_run_goes_on_with_them() {
    let turns = [wrong(), vec![right().remove(0), stall()]].concat();
    let world = attempts(TestWorld::new(github(), turns), 2, 1);
    let child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| world.model.requests().len() == 4);
    let output = signalled(&world, child, "TERM");
    assert_eq!(output.code, 143, "{}", output.text());
    assert_eq!(fs_err::read_dir(world.path("state/sandboxes")).unwrap().count(), 0);
    assert!(!world.result("journal.jsonl").contains("\"is\":\"selected\""));
    world.model.replace(right().into_iter().skip(1));
    let output = world.issue().expect(0);
    kept(&world, &output, 2);
    assert_eq!(published(&world), FIXED);
    assert_eq!(world.model.requests().len(), 5, "the first attempt is not made again");
}
