//! The process that holds the keys, seen by another process of the same user while it works.

#![expect(clippy::disallowed_methods, reason = "starts programs and looks at processes")]

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::arena::{Arena, LLM_KEY, Place};
use crate::support::model::{ModelServer, stall};

/// An account without rights, when the tests run as root; else the tests' own.
const NOBODY: u32 = 10_321;

fn account() -> u32 {
    let mine = rustix::process::getuid();
    if mine.is_root() { NOBODY } else { mine.as_raw() }
}

/// A program under that account.
fn as_user(program: &Path, arena: &Arena) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.env_clear().envs(arena.environment()).stdin(Stdio::null()).kill_on_drop(true);
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// What another process of the same user reads of a file of `/proc`.
async fn read_by_the_same_user(arena: &Arena, file: &str) -> String {
    let mut cat = as_user(Path::new("/bin/cat"), arena);
    let output = cat.arg(file).output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_nobody_reads_the_memory_of_the_process_with_the_keys() {
    let arena = Arena::new_in(&std::env::temp_dir());
    let program = arena.folder.path().join("patchwright");
    fs_err::copy(env!("CARGO_BIN_EXE_patchwright"), &program).unwrap();
    fs_err::create_dir(arena.state()).unwrap();
    for path in [arena.folder.path(), &arena.state(), &arena.home()] {
        chown(path, Some(account()), Some(account())).unwrap();
        fs_err::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let model = ModelServer::start([stall()]);
    let prepared = arena.command(Place::Local, &model);
    let env = prepared.as_std().get_envs();
    let env: Vec<_> = env.filter_map(|(name, value)| Some((name, value?))).collect();
    // Core dumps are on, as far as may be, before the program starts.
    let mut command = as_user(Path::new("/bin/sh"), &arena);
    command.args(["-c", "ulimit -c unlimited 2>/dev/null; exec \"$0\" \"$@\""]).arg(&program);
    command.args(["issue", "acme/app#1"]).envs(env).current_dir(arena.folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..600 {
        if !model.requests().is_empty() {
            break;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it asked the model");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(model.requests().len(), 1, "the model was not asked");
    let process = format!("/proc/{}", child.id().unwrap());
    let limits = fs_err::read_to_string(format!("{process}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    // What may not be dumped belongs to root in `/proc`, and its owner may not read it.
    assert_eq!(fs_err::metadata(format!("{process}/environ")).unwrap().uid(), 0);
    let stolen = read_by_the_same_user(&arena, &format!("{process}/environ")).await;
    assert_eq!(stolen, "", "the environment can be read");
    // The twin: an ordinary process of that user with the same environment gives it all away.
    let mut sleep = as_user(Path::new("/bin/sleep"), &arena);
    let twin = sleep.arg("60").spawn().unwrap();
    let file = format!("/proc/{}/environ", twin.id().unwrap());
    let read = read_by_the_same_user(&arena, &file).await;
    assert!(arena.oracle.search(read.as_bytes()).join("\n").contains(LLM_KEY), "{read}");
    assert_eq!(fs_err::metadata(&file).unwrap().uid(), account());
    assert_private(&arena.state());
    for entry in fs_err::read_dir(arena.run_folder()).unwrap() {
        assert_private(&entry.unwrap().path());
    }
    assert_private(&arena.run_folder());
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait()).await;
    assert_eq!(ended.expect("it does not end").unwrap().code(), Some(143));
    arena.assert_nothing_left(Place::Local).await;
}

/// Only its owner may read it.
fn assert_private(path: &Path) {
    let mode = fs_err::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
}
