//! What surrounds the local guest besides its own confinement: namespaces, as far as the kernel
//! lets an ordinary user make them, and the user's toolchains, which commands may read.
//!
//! Namespaces are made by the `unshare` program of util-linux; making them from here would need
//! unsafe code.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// From most to least. The first that works is used.
const LEVELS: &[Level] = &[
    Level {
        options: &[
            "--user",
            "--map-current-user",
            "--keep-caps",
            "--net",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ],
        report: "namespaces: user, network, processes, mounts",
        own_mounts: true,
        has_rights: true,
    },
    Level {
        options: &["--user", "--map-current-user", "--net"],
        report: "namespaces: user, network",
        own_mounts: false,
        has_rights: false,
    },
    Level {
        options: &["--user", "--map-root-user", "--net"],
        report: "namespaces: user, network",
        own_mounts: false,
        has_rights: true,
    },
];

#[derive(Clone, Copy, Debug)]
struct Level {
    options: &'static [&'static str],
    report: &'static str,
    own_mounts: bool,
    /// The guest comes into the network namespace with the rights to raise its loopback.
    has_rights: bool,
}

/// How long a level may take. Milliseconds, unless the machine is overloaded: then it is waited for,
/// because giving up would mean a weaker sandbox.
const PATIENCE: Duration = Duration::from_mins(1);

/// The namespaces that this machine allows.
#[derive(Debug)]
pub(super) struct Isolation {
    level: Option<Level>,
    /// The one for sandboxes with a relay.
    relaying: Option<Level>,
}

impl Isolation {
    /// Tries every level with the guest's `--version`.
    pub(super) async fn find(guest: &Path) -> Isolation {
        let mut found = Isolation { level: None, relaying: None };
        for level in LEVELS {
            #[expect(clippy::disallowed_methods, reason = "asks what the sandbox can be made of")]
            let tried = Command::new("unshare")
                .args(level.options)
                .arg("--")
                .arg(guest)
                .arg("--version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .status();
            let tried = tokio::time::timeout(PATIENCE, tried).await;
            if tried.is_ok_and(|status| status.is_ok_and(|status| status.success())) {
                found.level.get_or_insert(*level);
                if level.has_rights {
                    found.relaying = Some(*level);
                    break;
                }
            }
        }
        found
    }

    /// What a sandbox gets. With a relay, the guest refuses to start without a network namespace.
    pub(super) fn of(&self, has_relay: bool) -> Applied {
        Applied(if has_relay { self.relaying } else { self.level })
    }
}

/// The namespaces of one sandbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applied(Option<Level>);

impl Applied {
    /// The beginning of the guest's command line.
    pub(super) fn wrap(&self, guest: &Path) -> Vec<OsString> {
        let mut argv = Vec::new();
        if let Some(level) = self.0 {
            argv.push("unshare".into());
            argv.extend(level.options.iter().map(OsString::from));
            argv.push("--".into());
        }
        argv.push(guest.into());
        argv
    }

    pub(super) fn has_own_mounts(&self) -> bool {
        self.0.is_some_and(|level| level.own_mounts)
    }

    /// Whether the kernel counts the sandbox's processes by themselves: those of a user namespace,
    /// unless the user is root, whom the bound does not hold.
    pub(super) fn counts_processes(&self) -> bool {
        self.0.is_some() && !rustix::process::geteuid().is_root()
    }

    pub(super) fn report(&self) -> Option<&'static str> {
        self.0.map(|level| level.report)
    }
}

/// Folders of the home folder with nothing but installed compilers and interpreters.
const VERSION_MANAGERS: &[&str] =
    &[".asdf", ".bun", ".deno", ".nodenv", ".nvm", ".pyenv", ".rbenv", ".rye", ".sdkman", ".volta"];

/// Compilers and interpreters that the user installed below the home folder. The home folder itself
/// stays closed; these parts of it can be read, and hold no credentials.
#[derive(Debug, Default)]
pub(super) struct Toolchains {
    pub(super) read: Vec<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
}

impl Toolchains {
    #[expect(clippy::disallowed_methods, reason = "the search path decides which toolchains exist")]
    pub(super) fn of_this_user() -> Toolchains {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let home = std::env::var("HOME").map(PathBuf::from).unwrap_or_default();
        let variable = |name: &str| std::env::var(name).ok().map(PathBuf::from);
        let mut read = Vec::new();
        let mut env = BTreeMap::from([("PATH".to_owned(), path.clone())]);
        for folder in path.split(':').map(Path::new) {
            let Ok(below) = folder.strip_prefix(&home) else { continue };
            let Some(first) = below.components().next() else { continue };
            let is_manager = VERSION_MANAGERS.iter().any(|name| first.as_os_str() == *name);
            read.push(if is_manager { home.join(first) } else { folder.to_owned() });
        }
        let rustup = variable("RUSTUP_HOME").unwrap_or_else(|| home.join(".rustup"));
        if rustup.is_dir() {
            env.insert("RUSTUP_HOME".to_owned(), rustup.display().to_string());
            read.push(rustup);
        }
        // The download cache only: the folder above it holds the registry token.
        let cargo = variable("CARGO_HOME").unwrap_or_else(|| home.join(".cargo"));
        read.extend(
            [cargo.join("registry"), cargo.join("bin")].into_iter().filter(|dir| dir.is_dir()),
        );
        Toolchains { read, env }
    }
}
