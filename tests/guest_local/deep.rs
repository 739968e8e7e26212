//! Folders nested deeper than there are file descriptors, stack or bytes in a path: sandboxes with such
//! trees are worked in, collected from and removed like any other.
#![expect(clippy::disallowed_methods, reason = "starts the program under test with little to open")]

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use patchwright_guest::folder::{Descent, Folder};
use patchwright_sandbox::client::CollectLimits;
use patchwright_sandbox::local::LocalSandbox;
use rustix::fs::Mode;
use serde_json::json;

use super::{output, start, state};
use crate::support::model::{call, custom, say};
use crate::support::world::{PATCH, TestWorld, github};

/// Nests folders below the working directory; every thousandth has a locked folder and a link beside it.
const DIG: &str = "
import os
os.mkdir('deep'); os.chdir('deep')
for depth in range(6000):
    if depth % 1000 == 500:
        os.mkdir('locked'); open('locked/file', 'w').close(); os.chmod('locked', 0)
        os.symlink('OUTSIDE', 'link')
    os.mkdir('d'); os.chdir('d')
";

fn dig(outside: &Path) -> String {
    format!("python3 -c \"{}\"", DIG.replace("OUTSIDE", outside.to_str().unwrap()))
}

/// A folder with something in it, which must stay.
fn make_outside(folder: &Path) {
    fs_err::create_dir_all(folder.join("kept")).unwrap();
    fs_err::write(folder.join("kept/file"), "kept").unwrap();
}

#[track_caller]
fn assert_outside_is_whole(folder: &Path) {
    assert_eq!(fs_err::read_to_string(folder.join("kept/file")).unwrap(), "kept");
}

#[tokio::test]
async fn local_sandbox_with_a_deep_tree_is_collected_from_and_removed() {
    let state = state();
    let outside = state.path().join("outside");
    make_outside(&outside);
    let sandbox = LocalSandbox::new(state.path().join("state"));
    let running = start(&sandbox).await;
    let script = format!("{} && echo made > made && echo fine", dig(&outside));
    assert_eq!(output(&running, &script).await, (0, "fine\n".to_owned()));
    let collected = running.client.collect(CollectLimits::default()).await.unwrap();
    let paths: Vec<&str> = collected.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["made"]);
    let refused = &collected.listing.refused;
    let [(path, why)] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(why, "folders nested too deeply");
    assert!(path.starts_with("deep/d/d/") && path.contains('…') && path.len() < 500, "{path}");
    // Where the tools do not go, they say so.
    for (tool, args) in [
        ("grep_files", json!({ "pattern": "made" })),
        ("glob", json!({ "pattern": "*" })),
        ("list_dir", json!({ "dir_path": ".", "depth": 1000 })),
    ] {
        let answer =
            running.client.tool(tool, args, 10_000, Duration::from_mins(2)).await.unwrap().text;
        assert!(answer.contains("made"), "{tool}: {answer}");
        assert!(answer.contains("1 folder") || tool == "list_dir", "{tool}: {answer}");
    }
    running.stop().await.unwrap();
    assert_eq!(fs_err::read_dir(state.path().join("state/sandboxes")).unwrap().count(), 0);
    assert_outside_is_whole(&outside);
}

/// What a killed process left: a sandbox with a deep tree.
fn plant(sandboxes: &Path, outside: &Path) {
    let left = sandboxes.join("r9-agent-1");
    fs_err::create_dir_all(left.join("workspace")).unwrap();
    fs_err::write(left.join("owner"), "1 999999999").unwrap();
    let workspace = Folder::open(&left.join("workspace")).unwrap();
    let mut at = Descent::new(workspace.top().as_fd()).unwrap();
    for depth in 0..6000 {
        let here = at.here().unwrap();
        if depth % 1000 == 500 {
            rustix::fs::mkdirat(here, "locked", Mode::RWXU).unwrap();
            rustix::fs::symlinkat(outside, here, "locked/link").unwrap();
            let locked =
                rustix::fs::openat(here, "locked", rustix::fs::OFlags::RDONLY, Mode::empty());
            rustix::fs::fchmod(locked.unwrap(), Mode::empty()).unwrap();
        }
        rustix::fs::mkdirat(here, "d", Mode::RWXU).unwrap();
        at.enter(OsStr::new("d")).unwrap();
    }
}

#[test]
fn a_run_with_few_open_files_and_deep_trees_keeps_its_work_and_leaves_nothing() {
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path();
    make_outside(outside);
    let turns = [
        call("shell_command", json!({ "command": dig(outside) })),
        custom("apply_patch", PATCH),
        call(
            "shell_command",
            json!({ "command": "sh test.sh && test -d deep/d/d && echo goes-''on-7f3" }),
        ),
        say("Add instead of subtracting"),
        // Asked about the deep folder, which can be part of no change.
        say("Add instead of subtracting"),
    ];
    let world = TestWorld::new(github(), turns);
    let sandboxes = world.path("state/sandboxes");
    plant(&sandboxes, outside);
    let ended = world.wait(with_few_files(&world, &["issue", "acme/app#7"]).spawn().unwrap());
    // Published without the deep folder, which cannot be part of a change.
    let ended = ended.expect(20);
    assert!(ended.stderr.contains("nested too deeply"), "{}", ended.text());
    assert!(world.told().contains("goes-on-7f3"), "commands do not go on after it");
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"), "the work is lost");
    assert_eq!(world.github.pulls().len(), 1);
    assert_eq!(fs_err::read_dir(&sandboxes).unwrap().count(), 0, "{}", ended.text());
    assert_outside_is_whole(outside);
}

/// The program with 256 open files at most.
fn with_few_files(world: &TestWorld, args: &[&str]) -> Command {
    let usual = world.command(args);
    let env = usual.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""])
        .arg(usual.get_program())
        .args(args)
        .current_dir(world.folder.path())
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
