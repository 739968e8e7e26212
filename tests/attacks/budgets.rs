//! Commands and models that use up what there is: output, time, processes, disk, calls.

use std::collections::BTreeMap;

use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::CommandOutput;
use patchwright_sandbox::client::{CollectLimits, GuestError};
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{ContainerLimits, PreparedImage, Running, Sandbox, SandboxSpec};
use serde_json::json;

use super::arena::{Arena, Place, WhatTheModelSaw, shell};
use crate::support::docker::{IMAGE, docker};
use crate::support::git_repo::{git, git_with_input};
use crate::support::model::{Turn, call, say};

fn bounded_shell(script: &str, timeout_ms: u64) -> Turn {
    call("shell_command", json!({ "command": script, "timeout_ms": timeout_ms }))
}

/// Peak memory that a run may have, whatever its commands print.
const PEAK_KIB: u64 = 200 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_commands_that_never_stop_are_stopped_and_the_run_goes_on() {
    let Some(docker) = docker().await else { return };
    let (arena, place) = (Arena::new(), Place::Docker(&docker));
    let turns = vec![
        bounded_shell("cat /dev/zero", 2000).and(bounded_shell("yes", 1000)),
        bounded_shell("trap '' TERM INT HUP; while :; do sleep 1; done", 500),
        shell("(setsid nohup sleep 9999 >/dev/null 2>&1 &) ; (sleep 9998 &) ; sleep 0.2"),
        bounded_shell("bomb() { bomb | bomb & }; bomb; sleep 1", 2000),
        shell("ps -e -o args | grep -c '[s]leep 999'; echo still works; cat"),
        shell("sed -i s/teh/the/ README.md"),
        say("Fixed the typo"),
    ];
    let ended = arena.run(place, turns).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(arena.pushed_file("README.md"), "the app\n");
    let told = ended.last_request();
    assert!(told.contains("2\\nstill works"), "daemons go on until the run ends:\n{told}");
    assert!(told.contains("In the background run `sleep 999"), "which is said:\n{told}");
    assert!(told.contains("ended with the command: at most 128 may go on"), "{told}");
    assert!(told.matches("124").count() >= 3, "three commands ran out of time:\n{told}");
    assert!(ended.peak_kib > 0 && ended.peak_kib < PEAK_KIB, "{} KiB at the peak", ended.peak_kib);
    arena.assert_nothing_leaked(&ended, WhatTheModelSaw::Counts);
    arena.assert_nothing_left(place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_model_that_loops_floods_and_shouts_is_ended_with_its_work() {
    let arena = Arena::new();
    let many = (1..500).fold(shell("echo x >> count"), |all, _| all.and(shell("echo x >> count")));
    let mut turns = vec![
        shell("sed -i s/teh/the/ README.md"),
        many,
        shell(&format!("echo {}", "x".repeat(1_100_000))),
    ];
    turns.extend(std::iter::repeat_n(shell("cat README.md"), 20));
    let ended = arena.run(Place::Local, turns).await;
    assert_eq!(ended.code, 40, "{}", ended.stderr);
    assert!(ended.asked.len() <= 10, "the model was asked {} times", ended.asked.len());
    let told = ended.last_request();
    assert_eq!(told.matches("not run: at most 64 calls").count(), 436);
    assert!(told.contains("and at most 1048576 are allowed"), "the argument was taken");
    let patch = arena.run_file("change.patch");
    assert!(patch.contains("+the app"), "the work is lost:\n{patch}");
    assert_eq!(patch.matches("\n+x").count(), 64, "{patch}");
    let [pull] = &arena.github.pulls()[..] else { panic!("a draft of the work") };
    assert!(pull.draft && pull.body.contains("stopped by a limit"), "{}", pull.body);
    assert!(ended.peak_kib < PEAK_KIB, "{} KiB at the peak", ended.peak_kib);
}

/// What git keeps once can be in a tree many times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_a_small_repository_with_a_large_tree_does_not_fill_the_memory() {
    let arena = Arena::new();
    let path = arena.github.repository_path();
    let blob = git_with_input(&path, &["hash-object", "-w", "--stdin"], &vec![0; 32 << 20]);
    let copies = (0..8).map(|number| format!("100644 blob {}\tzeros-{number}\n", blob.trim()));
    let entries = git(&path, &["ls-tree", "main"]) + &copies.collect::<String>();
    let tree = git_with_input(&path, &["mktree"], entries.as_bytes());
    let args = ["commit-tree", "-p", "main", "-m", "Zeros", tree.trim()];
    let commit = git(&path, &args);
    git(&path, &["update-ref", "refs/heads/main", commit.trim()]);
    let turns =
        vec![shell("cat zeros-* | wc -c; sed -i s/teh/the/ README.md"), say("Fixed the typo")];
    let ended = arena.run(Place::Local, turns).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = ended.last_request();
    assert!(told.contains(&(8_u64 * (32 << 20)).to_string()), "the files are not there: {told}");
    assert!(ended.peak_kib > 0 && ended.peak_kib < PEAK_KIB, "{} KiB at the peak", ended.peak_kib);
}

fn spec(run: &str, image: &str, limits: ContainerLimits) -> SandboxSpec {
    SandboxSpec {
        image: PreparedImage {
            reference: image.to_owned(),
            description: image.to_owned(),
            ..PreparedImage::default()
        },
        run: run.to_owned(),
        purpose: "agent",
        env: BTreeMap::new(),
        limits,
        egress: None,
        services: Vec::new(),
    }
}

async fn run(running: &Running, script: &str) -> Result<CommandOutput, GuestError> {
    let exec = Exec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: 30_000,
        output_cap: 10_000,
    };
    running.client.exec(exec).await
}

/// Fills the workspace slowly, so that a look in between finds it, and never ends by itself.
const FILL: &str = "while :; do head -c 2000000 /dev/zero >> big; sleep 0.02; done";
const CROWD: &str = "mkdir -p d; i=0; while :; do i=$((i+1)); : > d/$i; : > d/x$i; done";
const FILL_AND_END: &str = "head -c 80000000 /dev/zero > big";

/// In a sandbox whose workspace may hold 64 MiB and 5,000 files.
async fn check_budget(running: Running) {
    let refused = |result: Result<CommandOutput, GuestError>| match result {
        Err(GuestError::Failed(why)) => why,
        other => panic!("not refused: {other:?}"),
    };
    let collect = async || running.client.collect(CollectLimits::default()).await;
    for script in [FILL, CROWD] {
        let why = refused(run(&running, script).await);
        assert!(why.contains("was ended: the workspace holds"), "{why}");
        assert!(why.contains("may hold 64 MiB in 5000"), "{why}");
        assert!(collect().await.is_err(), "too much was collected");
        let cleaned = run(&running, "rm -rf big d; echo clean").await.unwrap();
        assert_eq!((cleaned.exit_code, cleaned.output.as_str()), (0, "clean\n"));
    }
    let why = refused(run(&running, FILL_AND_END).await);
    assert!(why.contains("the workspace holds"), "{why}");
    assert!(run(&running, "rm big").await.is_ok());
    run(&running, "echo fine > fine").await.unwrap();
    let collected = collect().await.unwrap();
    assert_eq!(collected.files.len(), 1);
    running.stop().await.unwrap();
}

fn small() -> ContainerLimits {
    ContainerLimits { workspace_bytes: 64 << 20, workspace_files: 5000, ..Default::default() }
}

#[tokio::test]
async fn attacks_a_container_cannot_fill_the_disk() {
    let Some(docker) = docker().await else { return };
    check_budget(docker.sandbox.start(&spec(&docker.run, IMAGE, small())).await.unwrap()).await;
    // The twin: with more room nothing ends the same command.
    let large = spec(&docker.run, IMAGE, ContainerLimits::default());
    let running = docker.sandbox.start(&large).await.unwrap();
    assert_eq!(run(&running, FILL_AND_END).await.unwrap().exit_code, 0);
    let crowd = CROWD.replace("while :", "while [ $i -lt 4000 ]");
    assert_eq!(run(&running, &crowd).await.unwrap().exit_code, 0);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn attacks_a_local_command_cannot_fill_the_disk() {
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    check_budget(sandbox.start(&spec("run-1", "", small())).await.unwrap()).await;
}

/// Space that is in no file's name any more is not seen by looking at names; the bound per file and
/// the time limit hold all the same, and it comes back with the command's end.
#[tokio::test]
async fn attacks_deleted_files_give_their_space_back_with_the_command() {
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let running = sandbox.start(&spec("run-1", "", small())).await.unwrap();
    // A length of its own, where the sandbox sees the processes of others.
    let nap = format!("60.{}", std::process::id());
    let hidden =
        format!("exec 9> hidden; rm hidden; head -c 50000000 /dev/zero >&9; (sleep {nap} &); true");
    run(&running, &hidden).await.unwrap();
    let look = format!("cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}'");
    let left = run(&running, &look).await.unwrap();
    assert_eq!(left.output.trim(), "0", "the holder of the space lives on");
    running.stop().await.unwrap();
}
