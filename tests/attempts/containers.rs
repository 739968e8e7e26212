//! Attempts in containers: what setup has made is there for all of them, and a container that dies takes one attempt
//! with it.
#![expect(clippy::disallowed_methods, reason = "asks Docker, and ends a container of an attempt")]

use std::process::Command;

use patchwright_journal::{self as journal, Entry};
use patchwright_provider::item::Content;
use serde_json::{Value, json};

use super::{FIXED, at_once, ends, in_turn, kept, published, result, right, wrong};
use crate::issue::docker_answers;
use crate::resume::wait_for;
use crate::support::model::{Turn, call};
use crate::support::world::TestWorld;

fn command(command: &str) -> Turn {
    call("shell_command", json!({"command": command}))
}

/// What the first command of an attempt printed.
fn printed(world: &TestWorld, attempt: u32) -> String {
    let path = world.runs()[0].join(format!("attempts/{attempt}/journal.jsonl"));
    let lines = journal::read(&path).unwrap();
    let output = lines.iter().find_map(|line| match &line.entry {
        Entry::CallEnded { output, .. } => Some(Content::texts(&output.content)),
        _ => None,
    });
    output.unwrap_or_default()
}

fn configured(world: &TestWorld, more: &str) {
    let text = format!("limits: {{verify-rounds: 0}}\n{more}");
    fs_err::write(world.path("operator.yml"), text).unwrap();
}

#[test]
fn what_setup_has_made_once_is_in_the_container_of_each_attempt() {
    if !docker_answers() {
        return;
    }
    let look = || command("cat ~/stamp build/stamp");
    let turns = vec![[vec![look()], wrong()].concat(), [vec![look()], right()].concat()];
    let world = in_turn(2, turns).in_docker();
    let setup = "mkdir build && cat /proc/sys/kernel/random/uuid | tee ~/stamp > build/stamp";
    configured(&world, &format!("setup: ['{setup}']\n"));
    let output = world.issue().expect(0);
    kept(&world, &output, 2);
    let (first, second) = (printed(&world, 1), printed(&world, 2));
    let stamps: Vec<&str> = first.lines().filter(|line| line.matches('-').count() == 4).collect();
    assert_eq!(stamps.len(), 2, "{first}");
    assert_eq!((stamps[0], first.as_str()), (stamps[1], second.as_str()));
    let steps = &result(&world)["provenance"]["setup"]["steps"];
    assert_eq!(steps.as_array().map(Vec::len), Some(1), "{steps}");
    // What it left is no change of any attempt.
    assert_eq!(published(&world), FIXED);
    for attempt in ["", "attempts/1/", "attempts/2/"] {
        let patch = world.result(&format!("{attempt}change.patch"));
        assert!(patch.contains("calc.sh") && !patch.contains("stamp"), "{attempt}: {patch}");
    }
}

/// The container of an attempt.
fn container(world: &TestWorld, attempt: u32) -> String {
    let run = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    let label = format!("label=patchwright.run={run}-attempt-{attempt}");
    docker(&["ps", "--quiet", "--no-trunc", "--filter", &label]).trim().to_owned()
}

fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_container_that_dies_takes_its_attempt_with_it_and_no_other() {
    if !docker_answers() {
        return;
    }
    let world = at_once(2, |number| match number {
        1 => vec![command("sleep 600")],
        // Until the other one is dead.
        _ => [vec![command("until rm go; do sleep 0.1; done 2> /dev/null")], right()].concat(),
    });
    let world = world.in_docker();
    let child = world.spawn(&["issue", "acme/app#7"]);
    let says = |name: &str, what: &str| {
        let run = world.runs().first().cloned();
        let text = run.and_then(|run| fs_err::read_to_string(run.join(name)).ok());
        text.is_some_and(|text| text.contains(what))
    };
    let started = |attempt: u32| {
        says(&format!("attempts/{attempt}/journal.jsonl"), "\"is\":\"call_started\"")
    };
    wait_for(|| started(1) && started(2));
    docker(&["kill", &container(&world, 1)]);
    wait_for(|| says("journal.jsonl", "\"is\":\"attempt_ended\""));
    docker(&["exec", &container(&world, 2), "touch", "/pw/workspace/go"]);
    let output = world.wait(child).expect(0);
    let result = kept(&world, &output, 2);
    assert_eq!(ends(&world), ["ended none", "ended passed"]);
    assert_eq!(published(&world), FIXED);
    // It says what has become of it, and what it had used counts.
    let first = &result["attempts"]["all"][0];
    assert!(first["cost_usd"].as_f64().unwrap() > 0.0, "{result}");
    let own: Value = serde_json::from_str(&world.result("attempts/1/result.json")).unwrap();
    assert!(own["reason"].as_str().unwrap_or_default().contains("sandbox"), "{own}");
    assert!(world.github.pulls()[0].body.contains("Attempt 2 was kept"), "{}", output.text());
}
