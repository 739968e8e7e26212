//! Walls of the local sandbox that a container has by its image: private files of the system, older kernels,
//! state folders at odd places. And what happens where there is no wall to be had.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use patchwright_sandbox::client::Client;
use patchwright_sandbox::local::LocalSandbox;

use super::{output, start, state};
use crate::dependencies::{exec, project, result, sh as shell};
use crate::support::guest::{guest_binary, sh};
use crate::support::model::say;
use crate::support::world::TestWorld;

/// A folder below `/opt` with what people keep there; removed at the end.
struct Opt(PathBuf);

impl Opt {
    /// `None` for users who have no place there.
    fn make() -> Option<Opt> {
        let path = PathBuf::from(format!("/opt/patchwright-walls-{}", std::process::id()));
        fs_err::create_dir(&path).ok()?;
        for (name, mode) in [("open", 0o644), (".credentials", 0o600), ("group", 0o640)] {
            let file = path.join(name);
            fs_err::write(&file, "content\n").unwrap();
            fs_err::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap();
        }
        let vault = path.join("deep/vault");
        fs_err::create_dir_all(&vault).unwrap();
        fs_err::write(vault.join("open"), "content\n").unwrap();
        fs_err::set_permissions(vault, PermissionsExt::from_mode(0o700)).unwrap();
        fs_err::write(path.join("deep/open"), "content\n").unwrap();
        Some(Opt(path))
    }
}

impl Drop for Opt {
    fn drop(&mut self) {
        let _ = fs_err::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn private_files_of_system_folders_are_closed_and_the_others_are_not() {
    let Some(opt) = Opt::make() else { return };
    let state = state();
    let running = start(&LocalSandbox::new(state.path().to_owned())).await;
    for (name, is_open) in [
        ("open", true),
        ("deep/open", true),
        (".credentials", false),
        ("group", false),
        ("deep/vault/open", false),
    ] {
        let path = opt.0.join(name);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "content\n", "control: {name}");
        let (code, text) = output(&running, &format!("cat {}", path.display())).await;
        assert_eq!((code == 0, text.contains("content")), (is_open, is_open), "{name}: {text}");
    }
    // Nor can it be opened by giving it rights.
    let script = format!("cd {}; chmod 644 .credentials; chmod 755 deep/vault", opt.0.display());
    let (code, text) = output(&running, &script).await;
    assert!(code != 0 && text.contains("Read-only file system"), "{text}");
    let mode = fs_err::metadata(opt.0.join(".credentials")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    running.stop().await.unwrap();
}

#[test]
fn private_files_beside_programs_in_the_home_folder_are_closed_and_programs_run() {
    // What it is, and whether commands have it.
    const FILES: [(&str, u32, bool); 11] = [
        (".local/bin/open", 0o755, true),
        (".local/bin/deploy", 0o700, false),
        (".local/bin/compiled", 0o700, true),
        ("bin/.hidden-token", 0o600, false),
        (".nvm/secret", 0o640, false),
        (".nvm/vault/open", 0o644, false),
        (".nvm/versions/bin/node", 0o755, true),
        (".nvm/versions/etc/npmrc", 0o600, false),
        (".nvm/versions/lib/deep/installed", 0o600, true),
        (".volta/auth.json", 0o600, true),
        (".volta/bin/shim", 0o755, true),
    ];
    let script = FILES.map(|(name, ..)| format!("cat $H/{name} >/dev/null && echo has {name}\n"));
    let script = script.concat();
    let run = "open && compiled && node && shim && echo all run";
    let world = TestWorld::local([]);
    let home = world.path("home");
    let mode = |name: &str, mode| {
        fs_err::set_permissions(home.join(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    for (name, mode_of_file, _) in FILES {
        let path = home.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        if name.ends_with("compiled") {
            fs_err::copy(guest_binary(), &path).unwrap();
        } else {
            fs_err::write(&path, "#!/bin/sh\n: TOKEN\n").unwrap();
        }
        mode(name, mode_of_file);
    }
    // A `umask` has closed all that this manager has installed.
    fs_err::create_dir(home.join(".volta/tools")).unwrap();
    for number in 0..600 {
        let name = format!(".volta/tools/{number}");
        fs_err::write(home.join(&name), "").unwrap();
        mode(&name, 0o600);
    }
    for folder in [".nvm/vault", ".nvm/versions", ".nvm", ".volta"] {
        mode(folder, 0o700);
    }
    let folders = [".local/bin", "bin", ".nvm/versions/bin", ".volta/bin"];
    let folders = folders.map(|name| home.join(name).display().to_string());
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folders.join(":"));
    let world = world.set("PATH", path);
    world.model.add([
        shell(&format!("H={}\n{script}", home.display())),
        shell(&run.replace("compiled", "compiled --version")),
        say("Done."),
        say("Done."),
    ]);
    project(&world, &[("own.txt", "own\n")]);
    exec(&world, &[]).expect(0);
    let told = world.told();
    for (name, _, is_open) in FILES {
        assert_eq!(told.contains(&format!("\\nhas {name}")), is_open, "{name}: {told}");
    }
    assert!(told.contains("all run\\n"), "{told}");
    let enforced = result(&world)["provenance"]["enforced"].to_string();
    let undecided = format!("open to commands: `{}`", home.join(".volta").display());
    assert!(enforced.contains(&undecided), "{enforced}");
}

#[tokio::test]
async fn only_a_list_of_etc_is_there() {
    let state = state();
    let running = start(&LocalSandbox::new(state.path().to_owned())).await;
    let script = "cat /etc/passwd /etc/nsswitch.conf > /dev/null && ls /etc/ssl/certs > /dev/null && \
                  ls -A /etc/ssl | grep -c private; ls -A /etc | grep -E '^(shadow|docker|ssh|sudoers|npmrc)'; \
                  echo end";
    assert_eq!(output(&running, script).await, (0, "0\nend\n".to_owned()));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_state_folder_below_tmp_leaves_tmp_to_commands() {
    let state = tempfile::tempdir_in("/tmp").unwrap();
    let running = start(&LocalSandbox::new(state.path().join("state"))).await;
    let script = "echo x > /tmp/f && cat /tmp/f && rm /tmp/f && ls -A /tmp | grep -vx names | wc -l; \
                  echo y > here && cat here; f=$(mktemp) && echo $f | cut -c1-5";
    assert_eq!(output(&running, script).await, (0, "x\n0\ny\n/tmp/\n".to_owned()));
    let kept = fs_err::read_to_string(Path::new(&running.id).join("workspace/here")).unwrap();
    assert_eq!(kept, "y\n");
    running.stop().await.unwrap();
}

/// The guest as the local sandbox starts it, on a kernel with an older Landlock.
async fn with_landlock(abi: &str, folder: &Path) -> (tokio::process::Child, Client) {
    for inner in ["workspace", "home", "root"] {
        fs_err::create_dir(folder.join(inner)).unwrap();
    }
    let mut process = tokio::process::Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "--net", "--ipc", "--pid", "--fork"])
        .args(["--kill-child", "--mount-proc", "--"])
        .arg(guest_binary())
        .args(["serve", "--confine", "--tmp-bytes", "1048576", "--landlock-abi", abi])
        .arg("--workspace")
        .arg(folder.join("workspace"))
        .arg("--home")
        .arg(folder.join("home"))
        .arg("--root")
        .arg(folder.join("root"))
        // A toolchain that belongs to the user, who could change it without a sandbox.
        .arg("--read")
        .arg(folder.join("toolchain"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let client = Client::connect(stdout, stdin, Duration::from_secs(20)).await.unwrap();
    (process, client)
}

#[tokio::test]
async fn older_kernels_do_not_let_files_outside_be_truncated_or_changed() {
    for abi in ["1", "2", "3"] {
        let folder = state();
        fs_err::create_dir(folder.path().join("toolchain")).unwrap();
        let file = folder.path().join("toolchain/file");
        fs_err::write(&file, "content").unwrap();
        let (_process, client) = with_landlock(abi, folder.path()).await;
        let change = "import os, sys\n\
            path = sys.argv[1]\n\
            for call in (lambda: os.truncate(path, 0), lambda: os.open(path, os.O_RDONLY | os.O_TRUNC), \
            lambda: open(path, 'w'), lambda: os.chmod(path, 0o777), lambda: os.utime(path), \
            lambda: os.fchmod(os.open(path, os.O_RDONLY), 0o777), lambda: os.unlink(path)):\n\
            \x20try: call(); print('changed')\n\
            \x20except OSError: print('held')";
        let script = format!("cat {0} && /usr/bin/python3 -c \"{change}\" {0}", file.display());
        let out = client.exec(sh(&script)).await.unwrap();
        assert_eq!(out.output, format!("content{}", "held\n".repeat(7)), "ABI {abi}");
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "content");
        let out = client.exec(sh("echo long > f; truncate -s 1 f; cat f")).await.unwrap();
        assert_eq!(out.output, "l", "ABI {abi}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_guest_that_may_not_mount_does_not_start() {
    let folder = state();
    for inner in ["workspace", "home", "root"] {
        fs_err::create_dir(folder.path().join(inner)).unwrap();
    }
    let path = |name: &str| folder.path().join(name).display().to_string();
    // As nobody in a user namespace, without any rights, as where the system forbids them.
    let out = std::process::Command::new("unshare")
        .args(["--user", "--net", "--"])
        .arg(guest_binary())
        .args(["serve", "--confine", "--tmp-bytes", "1048576"])
        .args(["--workspace", &path("workspace"), "--home", &path("home"), "--root", &path("root")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!out.status.success());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("cannot have mounts of its own"), "{said}");
}
