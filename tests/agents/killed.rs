//! A run with agents that is killed at any moment is resumed with all of them, and comes to the same end.

use super::{configured, of, run, send, spawn, wait};
use crate::resume::{kill_when, replies};
use crate::support::git_quick::object;
use crate::support::model::{ModelServer, Turn, say};
use crate::support::world::{TestWorld, github};

fn scripts() -> Vec<(&'static str, Vec<Turn>)> {
    vec![
        (
            "first-part",
            vec![run("echo 1 >> one"), run("echo 11 >> one"), say("First"), say("More")],
        ),
        ("second-part", vec![run("echo 2 >> two"), say("Second")]),
        (
            "add subtracts",
            vec![
                spawn("the first-part of it").and(spawn("the second-part of it")),
                wait(&["agent-1"]),
                run("sed 's/-/+/' calc.sh > x && mv x calc.sh"),
                wait(&["agent-2"]),
                of("close_agent", "agent-2"),
                send("agent-1", "once more", false),
                wait(&["agent-1"]),
                say("Add instead of subtracting"),
                // Where the call that repairs was interrupted, the failing check is given back.
                say("Something is missing"),
                say("Something is missing"),
            ],
        ),
    ]
}

fn world() -> TestWorld {
    let world = TestWorld::asking(github(), ModelServer::by_word(scripts()));
    configured(world, "tools: {agents: 2}\n")
}

/// What the branch has of every file that was written.
#[track_caller]
fn ends_well(world: &TestWorld, at: usize) {
    let show = |path: &str| {
        let place = format!("patchwright/issue-7:{path}");
        object(&world.github.repository_path(), &place)
            .map_or(String::new(), |it| String::from_utf8(it.content).unwrap())
    };
    let (one, two, calc) = (show("one"), show("two"), show("calc.sh"));
    if world.result("journal.jsonl").contains("interrupted, result unknown") {
        // What a call did that was interrupted may be missing; nothing is there twice.
        assert!(["1\n11\n", "11\n", "1\n", ""].contains(&one.as_str()), "line {at}: {one}");
        assert!(["2\n", ""].contains(&two.as_str()), "line {at}: {two}");
    } else {
        assert_eq!((one.as_str(), two.as_str()), ("1\n11\n", "2\n"), "line {at}");
        assert!(calc.contains("$1 + $2"), "line {at}");
    }
    assert_eq!(world.github.pulls().len(), 1, "line {at}");
}

#[test]
fn after_any_line_of_the_journal() {
    let golden = world();
    golden.issue().expect(0);
    ends_well(&golden, 0);
    let asked = golden.model.requests().len();
    assert_eq!(replies(&golden), asked);
    let lines = golden.result("journal.jsonl").lines().count();
    let points: Vec<usize> = (3..lines).step_by(3).collect();
    std::thread::scope(|scope| {
        for half in points.chunks(points.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|line| killed_after(*line, asked)));
        }
    });
}

fn killed_after(line: usize, golden: usize) {
    let world = world();
    kill_when(&world, |journal| journal.matches('\n').count() >= line);
    if world.result("journal.jsonl").contains("\"is\":\"run_ended\"") {
        return;
    }
    let output = world.issue();
    let is_interrupted = world.result("journal.jsonl").contains("interrupted, result unknown");
    let is_partial = is_interrupted && output.code == 20;
    assert!(output.code == 0 || is_partial, "killed after line {line}: {}", output.text());
    ends_well(&world, line);
    // What was answered is not asked again, but for what was on its way: one request of each agent.
    let (asked, told) = (world.model.requests().len(), if is_partial { 2 } else { 0 });
    assert!(asked <= golden + 3 + told, "killed after line {line}: {asked} requests");
    let replay = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    // An interrupted command is run to its end in a replay.
    let is_whole = !world.result("journal.jsonl").contains("interrupted, result unknown");
    if line.is_multiple_of(4) && is_whole {
        world.run(&["replay", &replay]).expect(0);
    }
}
