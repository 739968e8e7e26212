//! Checks whose container is taken away while they run.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{result, sides};
use crate::support::docker;
use crate::support::model::{call, say};
use crate::support::world::{Output, TestWorld, github_with};

#[expect(clippy::disallowed_methods, reason = "asks the real Docker")]
fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Works on the issue, while the first `most` containers in which checks run on the change are killed in the middle of it.
fn issue_with_killed_checks(world: &TestWorld, most: usize) -> Output {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut killed = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) && killed.len() < most {
                std::thread::sleep(Duration::from_millis(100));
                let Some(run) = world.runs().pop() else { continue };
                let run = format!("label=patchwright.run={}", run.file_name().unwrap().display());
                for purpose in ["loop", "head"] {
                    let purpose = format!("label=patchwright.purpose={purpose}");
                    let ids = docker(&["ps", "-q", "--filter", &run, "--filter", &purpose]);
                    for id in ids.lines().filter(|id| docker(&["top", id]).contains("sleep 4")) {
                        docker(&["kill", id]);
                        killed.insert(id.to_owned());
                    }
                }
            }
        });
        let output = world.issue();
        is_over.store(true, Ordering::Relaxed);
        output
    })
}

/// A check that passes, unless its container is killed.
fn world() -> TestWorld {
    let edit = call("shell_command", json!({ "command": "echo changed > README.md" }));
    let turns = [edit, say("Change the README"), say("I cannot tell."), say("I cannot tell.")];
    TestWorld::new(github_with(&[("README.md", "old\n")]), turns)
        .in_docker()
        .set("PATCHWRIGHT_VERIFY", "sleep 4")
}

#[test]
fn a_check_whose_container_is_lost_is_run_again_in_a_fresh_one() {
    if !docker::is_required() {
        return;
    }
    let world = world();
    let output = issue_with_killed_checks(&world, 1).expect(0);
    assert!(output.stderr.contains("is run again in a fresh one"), "{}", output.text());
    assert_eq!(sides(&world), ["base", "loop"]);
    assert_eq!(result(&world)["checks"], "passed");
    assert!(!world.github.pulls()[0].draft);
}

#[test]
fn a_check_that_ran_before_and_loses_each_container_now_is_against_the_change() {
    if !docker::is_required() {
        return;
    }
    let world = world();
    let output = issue_with_killed_checks(&world, usize::MAX).expect(20);
    let result = result(&world);
    assert_eq!((&result["conclusion"], &result["checks"]), (&json!("partial"), &json!("failed")));
    let reason = "`sleep 4` ran before the change, and its sandbox does not survive it now";
    assert_eq!(result["reason"], reason, "{}", output.text());
    let pull = &world.github.pulls()[0];
    assert!(pull.draft && pull.body.contains("❌ failed: its sandbox was lost"), "{}", pull.body);
}
