//! A job that is cancelled: its runner interrupts the process, terminates it after 7.5 seconds, and kills it after
//! another 2.5. How soon GitHub answers meanwhile decides what is told there, and nothing else.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use patchwright_forge::Role;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::action::{labeled, outputs};
use crate::resume::until;
use crate::support::github::Trouble;
use crate::support::model::call;
use crate::support::world::{Output, TestWorld, fix, github};

/// Cancels the job in the middle of a command, with a GitHub that takes so long for each answer from then on.
fn cancelled(world: &TestWorld, latency: Duration) -> Output {
    let mut turns = fix();
    turns[2] = call("shell_command", json!({"command": "sleep 300"}));
    world.model.replace(turns);
    let child = world.spawn(&["action"]);
    until(world, |journal| journal.matches("\"is\":\"call_started\"").count() == 4);
    world.github.fault_times("acme/app", Trouble::Slow(latency), 1_000);
    let (ended, waits) = mpsc::channel::<()>();
    let pid = Pid::from_child(&child);
    let runner = std::thread::spawn(move || {
        for (signal, patience) in [(Signal::INT, 7_500), (Signal::TERM, 2_500), (Signal::KILL, 0)] {
            kill_process(pid, signal).unwrap();
            let waited = waits.recv_timeout(Duration::from_millis(patience));
            if waited != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    let output = world.wait(child);
    drop(ended);
    runner.join().unwrap();
    output
}

fn world() -> TestWorld {
    labeled(github().user("ann", Role::Write), "ann", "patchwright")
}

#[test]
fn a_cancelled_job_says_how_it_ended_at_the_usual_pace_of_github() {
    for latency in [150, 400] {
        let world = world();
        let output = cancelled(&world, Duration::from_millis(latency));
        assert_eq!(output.code, 130, "{}", output.text());
        let outputs = outputs(&world);
        assert!(outputs.contains("conclusion = interrupted"), "{latency}: {outputs}");
        let comment = world.github.comments(7)[0].body.clone();
        assert!(comment.starts_with("**Patchwright was interrupted**"), "{latency}: {comment}");
        // The runner's folders are in its log only.
        let summary = fs_err::read_to_string(world.path("summary")).unwrap();
        let state = world.path("state").display().to_string();
        assert!(summary.contains("interrupted; the work so far is kept"), "{latency}: {summary}");
        assert!(!summary.contains(&state), "{latency}: {summary}");
        assert!(output.stderr.contains(&state), "{latency}: {}", output.text());
    }
}

#[test]
fn a_cancelled_job_has_its_outputs_when_github_does_not_answer() {
    let world = world();
    let output = cancelled(&world, Duration::from_mins(1));
    assert_eq!(output.code, 130, "{}", output.text());
    let outputs = outputs(&world);
    assert!(outputs.contains("conclusion = interrupted"), "{outputs}");
}
