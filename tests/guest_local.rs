//! The local sandbox: what it lets commands do, and that the same things work without it. Each
//! denial has its positive control, so a missing program cannot pass for a wall.
#![expect(clippy::disallowed_methods, reason = "looks at the sandbox's files")]

mod deep;
mod walls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use patchwright_guest::enforced::Enforced;
use patchwright_guest::protocol::Exec;
use patchwright_sandbox::client::GuestError;
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{
    ContainerLimits, ImageSpec, PreparedImage, Running, Sandbox, SandboxError, SandboxSpec,
};

use crate::support::guest::{packed, sh};

fn spec(run: &str, image: PreparedImage) -> SandboxSpec {
    SandboxSpec {
        image,
        run: run.to_owned(),
        purpose: "agent",
        env: BTreeMap::from([("FROM_SPEC".to_owned(), "yes".to_owned())]),
        limits: ContainerLimits::default(),
        egress: None,
        services: Vec::new(),
    }
}

fn image_spec<'a>(setup: &'a [String], tree: Option<&'a Packed>) -> ImageSpec<'a> {
    let plain = ImageSpec::plain("acme/app".to_owned(), None, "r1");
    ImageSpec { setup, setup_timeout: Duration::from_mins(1), tree, ..plain }
}

/// A state folder.
fn state() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

async fn start(sandbox: &LocalSandbox) -> Running {
    let image = sandbox.prepare(&image_spec(&[], None)).await.unwrap();
    sandbox.start(&spec("r1", image)).await.unwrap()
}

async fn output(running: &Running, script: &str) -> (i32, String) {
    // The kernel looks at all folders above a deep one, which takes its time on a busy machine.
    let exec = Exec { timeout_ms: 120_000, ..sh(script) };
    let out = running.client.exec(exec).await.unwrap();
    (out.exit_code, out.output)
}

#[tokio::test]
async fn local_sandbox_lets_commands_work() {
    let state = state();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let running = start(&sandbox).await;
    let script = "set -e; echo $FROM_SPEC; pwd; echo x > a; cat a; mkdir -p d/e; mv a d/e/; \
                  echo t > $TMPDIR/t; echo h > ~/h; cat /etc/passwd | head -c 4; echo; \
                  echo x | grep -c x; : > /dev/null; git init -q g; \
                  python3 -c 'import socket; socket.socketpair()' && echo pair";
    let workspace = running.workspace.clone();
    let expected = format!("yes\n{workspace}\nx\nroot\n1\npair\n");
    assert_eq!(output(&running, script).await, (0, expected));
    assert!(running.enforced.contains(&Enforced::Landlock));
    running.stop().await.unwrap();
    assert_eq!(std::fs::read_dir(state.path().join("sandboxes")).unwrap().count(), 0);
}

/// What a script does without any sandbox.
fn without(script: &str, folder: &Path) -> (i32, String) {
    let folder = folder.join("work");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let mut command = std::process::Command::new("sh");
    let out = command.args(["-c", script]).current_dir(&folder).output().unwrap();
    (out.status.code().unwrap(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Nothing of the machine has a name inside but what commands may use.
const GONE: &str = "No such file|nonexistent";

/// What must not work inside, and does outside; and what the refusal says. `@` is a folder of the machine.
const DENIED: &[(&str, &str, &str)] = &[
    ("write elsewhere", "echo x > @/written", GONE),
    ("write to the home folder of the user", "echo x > @/home/written", GONE),
    ("read the home folder of the user", "cat @/home/secret", GONE),
    ("list it", "ls @/home", GONE),
    ("read through a link", "ln -s @/home/secret leak && cat leak", GONE),
    ("make a hard link to it", "ln @/home/secret hard", GONE),
    ("remove it", "rm @/home/doomed", GONE),
    ("read root's folder", "ls /root", "Permission denied"),
    ("read the shadow file", "cat /etc/shadow", GONE),
    (
        "hear what the kernel tells of devices",
        "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)'",
        "PermissionError",
    ),
    (
        "open a local socket",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
        "PermissionError",
    ),
    ("make a namespace", "unshare -r true", "Operation not permitted"),
    ("read another process", "head -c 1 /proc/@pid/environ", "Permission denied|No such file"),
    ("signal another process", "kill -0 @pid", "not permitted|No such process"),
];

#[tokio::test]
async fn local_sandbox_denies_what_works_without_it() {
    let state = state();
    let sandbox = LocalSandbox::new(state.path().join("state"));
    let outside = state.path().join("outside");
    std::fs::create_dir_all(outside.join("home")).unwrap();
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let running = start(&sandbox).await;
    for (name, script, why) in DENIED {
        std::fs::write(outside.join("home/secret"), "secret").unwrap();
        std::fs::write(outside.join("home/doomed"), "doomed").unwrap();
        let script =
            script.replace("@pid", &other.id().to_string()).replace('@', outside.to_str().unwrap());
        let (code, text) = output(&running, &script).await;
        assert_ne!(code, 0, "inside: {name}: {text}");
        assert!(
            why.split('|').any(|why| text.to_lowercase().contains(&why.to_lowercase())),
            "{name}: {text}"
        );
        assert!(!text.contains("secret\n") && !outside.join("written").exists(), "{name}");
        let control = without(&script, &outside);
        assert_eq!(control.0, 0, "control: {name}: {}", control.1);
        for written in ["written", "home/written"] {
            let _ = std::fs::remove_file(outside.join(written));
        }
    }
    other.kill().unwrap();
    other.wait().unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn local_sandbox_survives_a_command_that_kills_everything() {
    let state = state();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let running = start(&sandbox).await;
    // Without this it would end the test runner and more.
    assert!(running.enforced.contains(&Enforced::Signals));
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (code, _) = output(&running, "kill -9 -1; sleep 0.05; kill -9 $$").await;
    assert_eq!(code, 137);
    assert_eq!(output(&running, "echo alive").await, (0, "alive\n".to_owned()));
    assert_eq!(other.try_wait().unwrap(), None);
    other.kill().unwrap();
    other.wait().unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn local_sandbox_runs_setup_once() {
    let state = state();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let mut tree = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    header.set_mode(0o644);
    tree.append_data(&mut header, "lock", &b"lock\n"[..]).unwrap();
    let tree = packed(&tree.into_inner().unwrap());
    let setup = ["mkdir -p deps ~/.cache; date +%N > deps/made; cp lock ~/.cache/lock".to_owned()];
    let image = sandbox.prepare(&image_spec(&setup, Some(&tree))).await.unwrap();
    let again = sandbox.prepare(&image_spec(&setup, Some(&tree))).await.unwrap();
    assert_eq!((&again.reference, again.is_cached), (&image.reference, true));
    assert_eq!(image.description, "local, with 1 setup command");
    // Another repository's tree may make the same commands do anything.
    let other =
        ImageSpec { repository: "acme/other".to_owned(), ..image_spec(&setup, Some(&tree)) };
    assert_ne!(sandbox.prepare(&other).await.unwrap().reference, image.reference);
    let running = sandbox.start(&spec("r2", image)).await.unwrap();
    let found = output(&running, "find . -type f; cat ~/.cache/lock").await;
    assert_eq!(found, (0, "./deps/made\nlock\n".to_owned()));
    running.stop().await.unwrap();

    let setup = ["echo so far; exit 3".to_owned()];
    let required = ImageSpec { setup_required: true, ..image_spec(&setup, Some(&tree)) };
    let failed = sandbox.prepare(&required).await;
    let Err(SandboxError::Setup { command, exit_code: 3, output, .. }) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!((command, output), (setup[0].clone(), "so far\n".to_owned()));
    assert_eq!(std::fs::read_dir(state.path().join("sandboxes")).unwrap().count(), 0);
}

#[tokio::test]
async fn local_sandbox_sweeps_what_the_dead_left() {
    let state = state();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let running = start(&sandbox).await;
    let left = state.path().join("sandboxes/r9-agent-1");
    std::fs::create_dir_all(left.join("workspace")).unwrap();
    std::fs::write(left.join("owner"), "1 999999999").unwrap();
    assert_eq!(sandbox.sweep(None).await.unwrap(), ["r9-agent-1"]);
    assert_eq!(output(&running, "echo alive").await, (0, "alive\n".to_owned()));
    assert_eq!(sandbox.sweep(Some("r1")).await.unwrap(), ["r1-agent-1"]);
    let gone = running.client.exec(sh("true")).await;
    assert!(matches!(gone, Err(GuestError::Gone(_))), "{gone:?}");
    assert_eq!(sandbox.sweep(None).await.unwrap(), Vec::<String>::new());
    running.stop().await.unwrap();
}

#[tokio::test]
async fn local_sandbox_removes_folders_that_commands_locked() {
    let state = state();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let running = start(&sandbox).await;
    let folder = PathBuf::from(&running.id);
    output(&running, "mkdir -p a/b/c; touch a/b/c/d; chmod 000 a/b/c a/b a").await;
    running.stop().await.unwrap();
    assert!(!Path::new(&folder).exists());
}
