//! The process that holds the keys, seen by another process of the same user while it works.

#![expect(clippy::disallowed_methods, reason = "starts programs and looks at processes")]

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

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

/// Whether another process of the same user may open a file of `/proc`.
async fn opens_for_the_same_user(arena: &Arena, file: &str) -> bool {
    let mut shell = as_user(Path::new("/bin/sh"), arena);
    let opening = shell.args(["-c", "exec 3< \"$0\"", file]).stderr(Stdio::null());
    opening.status().await.unwrap().success()
}

/// The program at work: it has asked the model, for the `nth` time, and waits for the answer. Core dumps are
/// on, as far as may be, before it starts.
async fn at_work(arena: &Arena, program: &Path, model: &ModelServer, nth: usize) -> Child {
    let prepared = arena.command(Place::Local, model);
    let env = prepared.as_std().get_envs();
    let env: Vec<_> = env.filter_map(|(name, value)| Some((name, value?))).collect();
    let mut command = as_user(Path::new("/bin/sh"), arena);
    command.args(["-c", "ulimit -c unlimited 2>/dev/null; exec \"$0\" \"$@\""]).arg(program);
    command.args(["issue", "acme/app#1"]).envs(env).current_dir(arena.folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..600 {
        if model.requests().len() >= nth {
            break;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it asked the model");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(model.requests().len(), nth, "the model was not asked");
    child
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().unwrap().cast_signed()).unwrap()
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
    let model = ModelServer::start([stall(), stall()]);
    let mut child = at_work(&arena, &program, &model, 1).await;
    let process = format!("/proc/{}", child.id().unwrap());
    let limits = fs_err::read_to_string(format!("{process}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    // What may not be dumped belongs to root in `/proc`, and its owner may not read it.
    assert_eq!(fs_err::metadata(format!("{process}/environ")).unwrap().uid(), 0);
    let stolen = read_by_the_same_user(&arena, &format!("{process}/environ")).await;
    assert_eq!(stolen, "", "the environment can be read");
    let memory = opens_for_the_same_user(&arena, &format!("{process}/mem")).await;
    assert!(!memory, "the memory can be read");
    assert_a_twin_hides_nothing(&arena).await;
    assert_private(&arena.state());
    for entry in fs_err::read_dir(arena.run_folder()).unwrap() {
        assert_private(&entry.unwrap().path());
    }
    assert_private(&arena.run_folder());
    kill_process(pid(&child), Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait()).await;
    assert_eq!(ended.expect("it does not end").unwrap().code(), Some(143));
    arena.assert_nothing_left(Place::Local).await;
    assert_dies_without_a_core(at_work(&arena, &program, &model, 2).await).await;
}

/// An ordinary process of that user with the same environment gives it all away.
async fn assert_a_twin_hides_nothing(arena: &Arena) {
    let mut sleep = as_user(Path::new("/bin/sleep"), arena);
    let twin = sleep.arg("60").spawn().unwrap();
    let process = format!("/proc/{}", twin.id().unwrap());
    let file = format!("{process}/environ");
    let read = read_by_the_same_user(arena, &file).await;
    assert!(arena.oracle.search(read.as_bytes()).join("\n").contains(LLM_KEY), "{read}");
    assert_eq!(fs_err::metadata(&file).unwrap().uid(), account());
    // Where the kernel lets only parents look into a process, there is nothing to compare with.
    let scope = fs_err::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if matches!(scope.trim(), "" | "0") {
        assert!(opens_for_the_same_user(arena, &format!("{process}/mem")).await);
    }
}

/// A broken program's memory goes nowhere.
async fn assert_dies_without_a_core(mut child: Child) {
    let pid = pid(&child);
    let mut ended = None;
    // The first one only ends the runtime's own look at it: it waits for the same fault to come again.
    for _ in 0..600 {
        ended = child.try_wait().unwrap();
        if ended.is_some() {
            break;
        }
        let _ = kill_process(pid, Signal::SEGV);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = ended.expect("it does not end");
    assert_eq!(status.signal(), Some(Signal::SEGV.as_raw()), "{status}");
    assert!(!status.core_dumped(), "{status}");
}

/// Only its owner may read it.
fn assert_private(path: &Path) {
    let mode = fs_err::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
}
