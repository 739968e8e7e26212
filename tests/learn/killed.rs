//! Runs of `learn` that are killed, and begun again: one proposal, and no answer is paid for twice.

use super::{
    BRANCH, FILE, LESSON, WISH, file, learn, lesson, lessons, project, run, with_proposal,
};
use crate::resume::{signalled, wait_for};
use crate::support::model::{Turn, say, stall};
use crate::support::world::{TestWorld, fix};

/// The journal of the only run of `learn`; the other one worked on the issue.
fn journal(world: &TestWorld) -> String {
    let path = run(world).map(|run| run.join("journal.jsonl"));
    let text = path.and_then(|path| fs_err::read_to_string(path).ok()).unwrap_or_default();
    text.rsplit_once('\n').map_or(String::new(), |(whole, _)| format!("{whole}\n"))
}

fn lines(world: &TestWorld) -> usize {
    journal(world).lines().count()
}

/// Answers that the journal has.
fn replies(world: &TestWorld) -> usize {
    journal(world).matches("\"is\":\"replied\"").count()
}

/// A world in which the model answers once so that nobody can use it, and then with a lesson.
fn world() -> (TestWorld, Vec<Turn>) {
    let (world, pull) = with_proposal(project(), Vec::new());
    let comment = world.github.post_comment(pull, "rita", WISH);
    let lesson = lessons(&[lesson(LESSON, &[format!("c{comment}")], WISH)]);
    (world, vec![say("I have one."), lesson])
}

#[track_caller]
fn proposed_once(world: &TestWorld, at: &str) {
    let pulls = world.github.pulls();
    assert_eq!(pulls.iter().filter(|pull| pull.head == BRANCH).count(), 1, "{at}");
    let text = file(world, BRANCH);
    assert_eq!(text.matches(LESSON).count(), 1, "{at}: {text}");
    let tree = crate::support::git_repo::git(
        &world.github.repository_path(),
        &["diff", "--name-only", "main", BRANCH],
    );
    assert_eq!(tree.trim(), FILE, "{at}");
}

#[test]
fn killed_after_any_line_of_the_journal_it_proposes_once_and_asks_no_more_than_it_must() {
    let (golden, turns) = world();
    golden.model.add(turns);
    learn(&golden, &[]).expect(0);
    let all = lines(&golden);
    assert!(all >= 10, "{all} lines: {}", journal(&golden));
    std::thread::scope(|scope| {
        let points: Vec<usize> = (1..all).collect();
        for half in points.chunks(points.len().div_ceil(2)) {
            let half = half.to_vec();
            scope.spawn(move || half.into_iter().for_each(killed_after));
        }
    });
}

fn killed_after(line: usize) {
    let (world, turns) = world();
    world.model.add(turns.clone());
    let mut child = world.spawn(&["learn", "acme/app"]);
    wait_for(|| lines(&world) >= line || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    let was = world.wait(child);
    world.model.settle();
    if was.code == 0 {
        return proposed_once(&world, &format!("line {line}, done before"));
    }
    // What is on record is not asked for again.
    world.model.replace(turns.into_iter().skip(replies(&world)));
    let at = format!("line {line}: {}", journal(&world));
    let learned = learn(&world, &[]);
    assert!([0, 10].contains(&learned.code), "{at}: {}", learned.text());
    proposed_once(&world, &at);
    assert_eq!(world.model.unused(), 0, "{at}");
    // Once it is proposed there is nothing more to do.
    let asked = world.model.requests().len();
    learn(&world, &[]).expect(10);
    assert_eq!(world.model.requests().len(), asked, "{at}");
}

#[test]
fn told_to_stop_while_the_model_thinks_it_ends_and_goes_on_later() {
    let (world, turns) = world();
    world.model.add([stall()]);
    let child = world.spawn(&["learn", "acme/app"]);
    wait_for(|| world.model.requests().len() > fix().len());
    let output = signalled(&world, child, "TERM");
    assert_eq!(output.code, 143, "{}", output.text());
    assert!(world.github.branches().iter().all(|(name, _)| name != BRANCH));
    world.model.replace(turns);
    learn(&world, &[]).expect(0);
    proposed_once(&world, "after a signal");
    assert_eq!(world.runs().len(), 2, "the same run is resumed");
}
