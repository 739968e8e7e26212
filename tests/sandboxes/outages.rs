//! Engines that go away, or stand still, in the middle of a run: its work is kept, and nothing of it stays for good.

use std::process::Command;

use patchwright_sandbox::docker::DockerSandbox;
use patchwright_sandbox::{EngineTrouble, Sandbox};
use serde_json::json;

use super::{assert_nothing_left, spec};
use crate::exec::project;
use crate::resume::{signalled, wait_for};
use crate::support::docker::{IMAGE, docker};
use crate::support::engine_proxy::EngineProxy;
use crate::support::engines::{Kind, OtherEngine};
use crate::support::model::{Turn, call, say};
use crate::support::world::{Output, TestWorld, fix};

/// What repairs the project and then runs for long.
fn turns() -> Vec<Turn> {
    let long = call("shell_command", json!({"command": "sleep 300", "timeout_ms": 300_000}));
    fix().into_iter().take(2).chain([long, say("Done.")]).collect()
}

fn world(host: &str) -> TestWorld {
    let world = TestWorld::local(turns()).in_docker().set("DOCKER_HOST", host);
    project(&world);
    world
}

const EXEC: [&str; 6] = ["exec", "Make add add", "--repo", "project", "--out", "out"];

/// Begins the run, and returns when the model's last command runs.
fn begun(world: &TestWorld, more: &[&str]) -> std::process::Child {
    let child = world.spawn(&[&EXEC, more].concat());
    let journal = world.path("out/journal.jsonl");
    wait_for(|| {
        let text = fs_err::read_to_string(&journal).unwrap_or_default();
        text.matches("\"is\":\"call_started\"").count() == 4
    });
    child
}

#[track_caller]
fn has_the_change(world: &TestWorld, output: &Output) {
    let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap_or_default();
    assert!(patch.contains("+  echo $(($1 + $2))"), "{patch}\n{}", output.text());
    let result = fs_err::read_to_string(world.path("out/result.json")).unwrap_or_default();
    let salvaged = "the change is the workspace as it was after the call";
    assert!(result.contains(salvaged) || output.code >= 128, "{result}\n{}", output.text());
    assert!(output.stderr.contains(salvaged), "{}", output.text());
}

#[expect(clippy::disallowed_methods, reason = "asks the real Docker")]
fn docker_says(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The containers of the run: name and state.
fn left(world: &TestWorld) -> String {
    let journal = fs_err::read_to_string(world.path("out/journal.jsonl")).unwrap();
    let Some((first, _)) = journal.split_once('\n') else { return String::new() };
    let first: serde_json::Value = serde_json::from_str(first).unwrap();
    let run = first["run"].as_str().unwrap();
    let filter = format!("label=patchwright.run={run}");
    docker_says(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}} {{.State}}"])
}

fn locks(world: &TestWorld) -> usize {
    fs_err::read_dir(world.path("state/owners")).map_or(0, Iterator::count)
}

fn docker_answers() -> bool {
    tokio::runtime::Runtime::new().unwrap().block_on(docker()).is_some()
}

#[test]
fn what_an_engine_that_went_away_left_running_is_gone_when_the_run_is_resumed() {
    if !docker_answers() {
        return;
    }
    let proxy = EngineProxy::start();
    let world = world(&proxy.host);
    let child = begun(&world, &[]);
    proxy.end();
    let output = world.wait(child).expect(70);
    has_the_change(&world, &output);
    assert!(output.stderr.contains("the sandbox was not removed: "), "{}", output.text());
    proxy.work();
    let before = left(&world);
    assert!(before.contains("-agent running"), "{before}");
    assert_eq!(locks(&world), 1, "nothing says that its owner has ended");
    world.model.replace([say("Done.")]);
    let output = world.run(&[&EXEC[..], &["--verbose"]].concat()).expect(0);
    assert!(output.stderr.contains("resuming run"), "{}", output.text());
    let name = before.split(' ').next().unwrap();
    assert!(output.stderr.contains(&format!("removed {name},")), "{}", output.text());
    assert_eq!((left(&world).as_str(), locks(&world)), ("", 0));
}

#[test]
fn an_engine_that_stands_still_holds_no_run_up_whose_time_is_up() {
    if !docker_answers() {
        return;
    }
    let proxy = EngineProxy::start();
    let world = world(&proxy.host);
    let child = begun(&world, &["--timeout", "30s"]);
    proxy.hang();
    let output = world.wait(child).expect(40);
    has_the_change(&world, &output);
    for says in [
        "waiting for the sandbox to hand over the change",
        "the sandbox did not hand over the changes in time",
        "the sandbox was not removed: its engine did not answer in time",
    ] {
        assert!(output.stderr.contains(says), "{}", output.text());
    }
    // As the message says.
    let (_, command) = output.stderr.split_once("by hand: `docker ").unwrap();
    let command: Vec<&str> = command.split_once('`').unwrap().0.split(' ').collect();
    docker_says(&command);
    assert_eq!(left(&world), "");
}

#[test]
fn an_engine_that_stands_still_holds_no_run_up_that_is_interrupted() {
    if !docker_answers() {
        return;
    }
    let proxy = EngineProxy::start();
    let world = world(&proxy.host);
    let child = begun(&world, &[]);
    proxy.hang();
    let output = signalled(&world, child, "TERM");
    assert_eq!(output.code, 143, "{}", output.text());
    has_the_change(&world, &output);
    proxy.work();
    world.model.replace([say("Done.")]);
    world.run(&EXEC).expect(0);
    assert_eq!((left(&world).as_str(), locks(&world)), ("", 0));
}

#[test]
fn a_signal_during_setup_leaves_no_container() {
    if !docker_answers() {
        return;
    }
    let world = TestWorld::local(turns()).in_docker();
    project(&world);
    let child = world.spawn(&[&EXEC[..], &["--setup", "sleep 300"]].concat());
    wait_for(|| {
        world.path("out/journal.jsonl").exists() && left(&world).contains("-setup running")
    });
    let output = signalled(&world, child, "TERM");
    assert_eq!(output.code, 143, "{}", output.text());
    assert_eq!((left(&world).as_str(), locks(&world)), ("", 0));
}

#[tokio::test]
async fn what_a_process_could_not_remove_its_next_sweep_removes() {
    let Some(docker) = docker().await else { return };
    let proxy = EngineProxy::start();
    let state = tempfile::tempdir().unwrap();
    let sandbox = DockerSandbox::connect(Some(&proxy.host)).await.unwrap().in_state(state.path());
    let spec = spec(&docker.run, IMAGE);
    let (one, two) = (sandbox.start(&spec).await.unwrap(), sandbox.start(&spec).await.unwrap());
    proxy.end();
    // It may answer again before anybody else asks.
    let reason = one.exit_reason().await.unwrap();
    assert!(reason.starts_with("Docker does not answer: "), "{reason}");
    assert_eq!(one.trouble(), Some(EngineTrouble::TookAway));
    let err = one.stop().await.unwrap_err();
    assert_eq!(err.trouble(), Some(EngineTrouble::TookAway), "{err}");
    proxy.work();
    let name = format!("patchwright-{}-agent", docker.run);
    assert_eq!(sandbox.sweep(None).await.unwrap(), [name], "and nothing that is in use");
    two.stop().await.unwrap();
    drop(sandbox);
    assert_eq!(fs_err::read_dir(state.path().join("owners")).unwrap().count(), 0);
    assert_nothing_left(&docker).await;
}

/// Podman's containers need no service: guests and commands go on without it, and it gives a taken name another answer.
#[test]
fn a_run_whose_podman_was_restarted_is_resumed() {
    let Some(mut engine) = OtherEngine::start(Kind::Podman) else { return };
    let world = world(&engine.host);
    let child = begun(&world, &[]);
    engine.kill();
    let output = world.wait(child).expect(70);
    engine.start_again();
    has_the_change(&world, &output);
    // Another installation on the same engine has to leave it alone for now.
    let other = TestWorld::local(fix()).in_docker().set("DOCKER_HOST", engine.host.as_str());
    project(&other);
    other.run(&EXEC).expect(0);
    let names = || {
        let listed = engine.docker(&["ps", "-a", "--format", "{{.Names}}"]);
        String::from_utf8(listed.stdout).unwrap()
    };
    assert!(names().contains("-agent"), "{}", names());
    world.model.replace([say("Done.")]);
    world.run(&EXEC).expect(0);
    assert_eq!(names(), "");
}
