//! `fix-ci`: our own pull requests only, a bounded number of times, then a draft and one comment.

use super::{PULL, answers, project, say_on_pull};
use crate::support::git_http::git;
use crate::support::github::{Fault, GitHub, Kind};
use crate::support::model::{call, say};
use crate::support::world::{TestWorld, fix, write};
use serde_json::json;

const LOG: &str = "2026-11-21T10:00:00.0000000Z ##[group]Run sh test.sh\n\
                   2026-11-21T10:00:01.0000000Z \u{1b}[31mwrong\u{1b}[0m UNIQUE-FAILURE\n\
                   2026-11-21T10:00:01.0000000Z ::add-mask::IGNORE-PREVIOUS\u{200b}-INSTRUCTIONS\n\
                   2026-11-21T10:00:02.0000000Z ##[error]Process completed with exit code 1.\n";

/// Our own pull request, with a job that fails.
fn own() -> GitHub {
    project()
        .pull(PULL, "Say more", "patchwright/issue-7", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("patchwright-bot")
}

fn failing() -> GitHub {
    own().failing_check("test", LOG)
}

fn subjects(world: &TestWorld) -> Vec<String> {
    let log = git(
        &world.github.repository_path(),
        &[
            "log",
            "--format=%s %(trailers:key=Patchwright-CI-Round,separator=%x2C)",
            "main..patchwright/issue-7",
        ],
    );
    log.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_log_of_a_failing_check_is_read_and_the_repair_pushed() {
    let world = TestWorld::new(failing(), fix());
    world.run(&["respond", "acme/app#8", "fix-ci"]).expect(0);
    assert_eq!(
        subjects(&world),
        ["Add instead of subtracting Patchwright-CI-Round: 1", "Say more"]
    );
    let opening = String::from_utf8_lossy(&world.model.requests()[0].raw).into_owned();
    for (text, is_there) in [
        ("UNIQUE-FAILURE", true),
        ("error: Process completed", true),
        ("##[error]", false),
        ("::add-mask::", false),
        ("\\u001b", false),
        ("2026-11-21T10:00:01", false),
    ] {
        assert_eq!(opening.contains(text), is_there, "{text}: {opening}");
    }
    assert!(answers(&world, PULL)[0].starts_with("**Pushed [`"), "{:?}", answers(&world, PULL));
}

#[test]
fn after_the_last_round_it_becomes_a_draft_and_people_are_told_once() {
    let world = TestWorld::new(failing(), Vec::new());
    for round in 1..=3 {
        let file = format!("try{round}.txt");
        // What failed before still does, and is given back once.
        let told = format!("Try {round}");
        world.model.add([write(&file, "x", &told), vec![say(&told)]].concat());
        world.run(&["respond", "acme/app#8", "fix-ci"]).expect(20);
        world.github.job(PULL, "test", "failure", LOG);
    }
    assert!(!world.github.is_draft(PULL));
    let said = say_on_pull(&world, "@patchwright fix-ci").expect(20);
    assert!(said.stdout.contains("after 3 rounds"), "{}", said.text());
    assert!(world.github.is_draft(PULL));
    assert_eq!(subjects(&world).len(), 4);
    assert_eq!(world.model.requests().len(), 9);
    // A person's commit starts the count anew.
    world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    world.github.job(PULL, "test", "failure", LOG);
    world.model.add(fix());
    say_on_pull(&world, "@patchwright fix-ci").expect(0);
    assert!(subjects(&world)[0].ends_with("Patchwright-CI-Round: 1"), "{:?}", subjects(&world));
}

#[test]
fn nothing_fails_or_not_all_have_ended_or_it_is_not_ours() {
    let others = || {
        project()
            .pull(PULL, "Say more", "topic", &[("README.md", "# calc\n\nIt adds.\n")])
            .by("rita")
            .failing_check("test", LOG)
    };
    for (github, said) in [(own(), "No check fails"), (others(), "I did not open this")] {
        let world = TestWorld::new(github, Vec::new());
        say_on_pull(&world, "@patchwright fix-ci").expect(10);
        assert_eq!(world.model.requests().len(), 0);
        let answers = answers(&world, PULL);
        assert!(answers[0].contains(said), "{answers:?}");
    }
    let world = TestWorld::new(failing(), Vec::new());
    let sha = world.github.head_of(PULL);
    world.github.change(|repository| {
        let mut running = repository.check_runs.iter().find(|run| run.sha == sha).unwrap().clone();
        running.id += 500;
        running.name = "lint".to_owned();
        (running.status, running.conclusion) = ("in_progress".to_owned(), None);
        repository.check_runs.push(running);
    });
    say_on_pull(&world, "@patchwright fix-ci").expect(10);
    assert!(answers(&world, PULL)[0].contains("1 check has not ended"));
}

#[test]
fn a_failure_that_is_not_ours_is_said_and_nothing_pushed() {
    let world = TestWorld::new(
        failing(),
        vec![
            call("shell_command", json!({"command": "true"})),
            say("The runner lost its network."),
            // It is asked once whether it means to change nothing.
            say("The runner lost its network."),
        ],
    );
    say_on_pull(&world, "@patchwright fix ci").expect(10);
    assert_eq!(subjects(&world).len(), 1);
    assert!(answers(&world, PULL)[0].contains("The runner lost its network."));
}

#[test]
fn a_commit_status_that_fails_is_a_failing_check() {
    let world = TestWorld::new(own(), fix());
    let combined = json!({
        "state": "failure", "sha": world.github.head_of(PULL), "total_count": 2,
        "statuses": [
            { "context": "ci/jenkins", "state": "error", "description": "UNIQUE-STATUS",
              "target_url": null },
            { "context": "Patchwright review", "state": "pending", "description": null },
        ],
    });
    world.github.fault(Fault::once("GET", "/status", Kind::Answer(200, combined)));
    world.run(&["respond", "acme/app#8", "fix-ci"]).expect(0);
    let opening = String::from_utf8_lossy(&world.model.requests()[0].raw).into_owned();
    for text in ["ci/jenkins", "UNIQUE-STATUS"] {
        assert!(opening.contains(text), "{text}: {opening}");
    }
}
