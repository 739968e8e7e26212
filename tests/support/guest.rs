//! A real guest in a folder of its own, with the real client on its standard streams.
#![expect(clippy::disallowed_methods, reason = "starts the guest")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use patchwright_guest::descendants;
use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::CommandOutput;
use patchwright_sandbox::GUEST_VERSION;
use patchwright_sandbox::client::{Client, CollectLimits, CollectedTree};
use patchwright_sandbox::packed::Packed;
use rustix::process::Pid;

/// A serving guest in a folder of its own.
pub(crate) struct Guest {
    pub(crate) client: Client,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) process: tokio::process::Child,
    /// Its children before the first command: what forks launchers.
    pub(crate) helpers: Vec<Pid>,
}

impl Guest {
    pub(crate) async fn start() -> Guest {
        Guest::start_with(&[]).await
    }

    pub(crate) async fn start_with(options: &[&str]) -> Guest {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        let mut process = tokio::process::Command::new(guest_binary())
            .arg("serve")
            .arg("--workspace")
            .arg(&workspace)
            .arg("--home")
            .arg(folder.path().join("home"))
            .args(options)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("CANARY_TOKEN", "must not be passed on")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
        let client = Client::connect(stdout, stdin, Duration::from_secs(20)).await.unwrap();
        let pid = i32::try_from(process.id().unwrap()).ok().and_then(Pid::from_raw);
        let helpers = descendants::children(pid.unwrap());
        Guest { client, folder, process, helpers }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    pub(crate) async fn sh(&self, script: &str) -> CommandOutput {
        self.client.exec(sh(script)).await.unwrap()
    }

    pub(crate) async fn collect(&self) -> CollectedTree {
        self.client.collect(LIMITS).await.unwrap()
    }
}

pub(crate) const LIMITS: CollectLimits =
    CollectLimits { files: 1000, bytes: 64 << 20, timeout: Duration::from_mins(1) };

pub(crate) fn sh(script: &str) -> Exec {
    Exec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: 20_000,
        output_cap: 10_000,
    }
}

/// A tar as sandboxes take it.
pub(crate) fn packed(tar: &[u8]) -> Packed {
    use std::io::Write;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(tar).unwrap();
    Packed::from(file)
}

/// The embedded guest as a file, written once.
pub(crate) fn guest_binary() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guest-{GUEST_VERSION}"));
    if !path.exists() {
        let mut fresh = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let guest = patchwright_sandbox::guest_binary();
        std::io::Write::write_all(&mut fresh, &guest).unwrap();
        std::fs::set_permissions(fresh.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let fresh = fresh.into_temp_path();
        std::fs::rename(&fresh, &path).unwrap();
        let _ = fresh.keep();
    }
    path
}
