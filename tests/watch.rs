//! `watch`: a run in the terminal by its journal, while it goes and afterwards.

use crate::support::github::GitHub;
use crate::support::model::{call, say};
use crate::support::world::{FILES, TestWorld, fix};
use serde_json::json;

fn world(turns: Vec<crate::support::model::Turn>) -> TestWorld {
    let github = GitHub::new()
        .repository("acme/app", FILES)
        .issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.")
        .by("rita");
    TestWorld::new(github, turns)
}

#[test]
fn a_run_that_is_over_is_shown_with_calls_costs_and_its_end() {
    let world = world(fix());
    world.issue().expect(0);
    let shown = world.run(&["watch"]).expect(0).stdout;
    for part in [
        ": acme/app#7\n",
        "  check on base: `sh ./test.sh` failed · ",
        "turn 1 · ",
        " so far\n",
        "  · apply_patch ",
        "apply_patch: ok · ",
        "check on loop: `sh ./test.sh` passed",
        "published pull request #",
        "  $ sh test.sh\n",
        "  done · < $0.01 · 5 turns · ",
    ] {
        assert!(shown.contains(part), "{part:?}: {shown}");
    }
    assert!(shown.lines().all(|line| line.trim_start().starts_with('+')), "{shown}");
    let run = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(world.run(&["watch", &run]).expect(0).stdout, shown);
    let folder = world.runs()[0].display().to_string();
    assert_eq!(world.run(&["watch", &folder, "--no-follow"]).expect(0).stdout, shown);
}

#[test]
fn a_run_that_goes_on_is_followed_to_its_end() {
    let slow = call("shell_command", json!({"command": "sleep 3; echo slept"}));
    let world = world([vec![slow], fix()].concat());
    let run = world.spawn(&["issue", "acme/app#7"]);
    let began = std::time::Instant::now();
    while world.runs().iter().all(|run| !run.join("journal.jsonl").exists()) {
        assert!(began.elapsed().as_secs() < 120, "no run begins");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let watched = world.run(&["watch"]).expect(0);
    world.wait(run).expect(0);
    assert!(watched.stdout.contains("shell_command: exit 0 · 3."), "{}", watched.stdout);
    assert!(watched.stdout.trim_end().lines().last().unwrap().contains("  done · "));
}

#[test]
fn what_a_model_says_stays_in_its_line_and_a_run_that_is_not_there_is_named() {
    let evil = "\u{1b}[2J\u{202e}evil\nPWNED line";
    let world = world(vec![say(evil), say(evil)]);
    let _ = world.issue();
    let shown = world.run(&["watch", "--no-follow"]).expect(0).stdout;
    assert!(shown.contains("evil"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    assert!(!shown.lines().any(|line| line.starts_with("PWNED")), "{shown}");
    let output = world.run(&["watch", "nothing"]).expect(2);
    assert!(output.stderr.contains("there is no run `nothing`"), "{}", output.stderr);
    let empty = TestWorld::local(Vec::new());
    let output = empty.run(&["watch"]).expect(2);
    assert!(output.stderr.contains("there are no runs in"), "{}", output.stderr);
}
