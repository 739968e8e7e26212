//! What surrounds the local guest besides its own confinement: namespaces, and the user's toolchains,
//! which commands may read.
//!
//! Namespaces are made by the `unshare` program of util-linux; making them from here would need
//! unsafe code.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::SandboxError;
use patchwright_guest::enforced::Enforced;

/// From most to least. The first that works is used. Each has mounts of its own, which nothing replaces:
/// without them commands could change modes, owners and times of whatever belongs to this user.
const LEVELS: &[Isolation] = &[
    Isolation::STRONGEST,
    // For root, where users may make none.
    Isolation { options: &["--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"] },
    // In a container, where `/proc` is covered in part and a fresh one would show what is covered.
    Isolation { options: &["--user", "--map-current-user", "--keep-caps", "--net", "--ipc"] },
    Isolation { options: &["--net", "--ipc"] },
];

/// How long a level may take. Milliseconds, unless the machine is overloaded: then it is waited for,
/// because giving up would mean a weaker sandbox.
const PATIENCE: Duration = Duration::from_mins(1);

/// Times to wait before each attempt. A program that was written a moment ago may still be open in a process that
/// another thread is just starting, and cannot be run until that is gone.
pub(super) const WAITS: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(500)];

/// Namespaces that this machine allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Isolation {
    options: &'static [&'static str],
}

/// Runs a command that only shows whether something can be started here.
///
/// # Errors
/// Why it did not end with 0, or not in time.
pub(super) async fn succeeds(argv: &[OsString]) -> io::Result<()> {
    let (program, arguments) = argv.split_first().ok_or(ErrorKind::InvalidInput)?;
    #[expect(clippy::disallowed_methods, reason = "asks what the sandbox can be made of")]
    let tried = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    let ended = tokio::time::timeout(PATIENCE, tried).await.map_err(io::Error::other)??;
    if ended.success() { Ok(()) } else { Err(io::Error::other(ended.to_string())) }
}

impl Isolation {
    /// The namespaces of a machine that allows everything.
    pub(super) const STRONGEST: Isolation = Isolation {
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
    };

    /// Tries every level with the guest's `--version`.
    pub(super) async fn find(guest: &Path) -> Option<Isolation> {
        for wait in WAITS {
            tokio::time::sleep(wait).await;
            if let Some(found) = Isolation::find_now(guest).await {
                return Some(found);
            }
        }
        None
    }

    async fn find_now(guest: &Path) -> Option<Isolation> {
        for level in LEVELS {
            let mut argv = level.wrap(guest);
            argv.push("--version".into());
            if succeeds(&argv).await.is_ok() {
                return Some(*level);
            }
        }
        None
    }

    /// The beginning of the guest's command line.
    pub(super) fn wrap(&self, guest: &Path) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec!["unshare".into()];
        argv.extend(self.options.iter().map(OsString::from));
        argv.extend(["--".into(), guest.into()]);
        argv
    }

    pub(super) fn report(&self) -> Enforced {
        let has = |option| self.options.contains(&option);
        Enforced::Namespaces { user: has("--user"), processes: has("--pid") }
    }

    /// Whether the kernel counts the sandbox's processes by themselves: those of a user namespace,
    /// unless the user is root, whom the bound does not hold.
    pub(super) fn counts_processes(&self) -> bool {
        self.options.contains(&"--user") && !rustix::process::geteuid().is_root()
    }
}

/// Why there is no local sandbox where there are no namespaces.
pub(super) fn refused() -> SandboxError {
    SandboxError::Other(
        "the local sandbox does not start: this machine gives this user no namespaces for mounts and \
         network, without which commands could change modes, owners and times of files outside; install \
         `unshare` (util-linux) and allow user namespaces (`sysctl \
         kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, `kernel.unprivileged_userns_clone=1` \
         on Debian; in a container its engine decides), or use `--sandbox docker`"
            .to_owned(),
    )
}

/// Folders of the home folder in which compilers and interpreters are installed.
const VERSION_MANAGERS: &[&str] =
    &[".asdf", ".bun", ".deno", ".nodenv", ".nvm", ".pyenv", ".rbenv", ".rye", ".sdkman", ".volta"];

/// What pyenv runs after each `pip install`, below its own folder. It writes the new names into that folder, which is
/// read-only here, and would make a failure of every installation that has succeeded.
const REHASH_HOOK: &str = "pyenv.d/exec/pip-rehash.bash";

/// Where programs look for the certificates of authorities, which companies add their own to: openssl and uv, Node.js,
/// requests, curl, pip, cargo, git.
const CERTIFICATES: &[&str] = &[
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Folders with certificates that commands see.
const CERTIFICATE_FOLDERS: &[&str] = &["/etc/ssl/certs", "/usr/"];

/// Compilers and interpreters that the user installed below the home folder. The home folder itself
/// stays closed; these parts of it can be read.
#[derive(Debug, Default)]
pub(super) struct Toolchains {
    /// What `rustup` and cargo alone write to, and where nobody keeps credentials.
    pub(super) read: Vec<PathBuf>,
    /// Folders of the search path, and version managers: people keep scripts and settings of their own in them, so that
    /// what they have closed to others there is closed to commands.
    pub(super) programs: Vec<PathBuf>,
    /// Files that commands find empty.
    pub(super) emptied: Vec<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
}

impl Toolchains {
    #[expect(clippy::disallowed_methods, reason = "the search path decides which toolchains exist")]
    pub(super) fn of_this_user() -> Toolchains {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let variable = |name: &str| std::env::var(name).ok().map(PathBuf::from);
        // A relative one would be a folder of whatever is worked on.
        let home = variable("HOME").filter(|home| home.is_absolute());
        let in_home = |name: &str| home.as_ref().map(|home| home.join(name));
        let (mut read, mut programs) = (Vec::new(), Vec::new());
        let mut env = BTreeMap::from([("PATH".to_owned(), path.clone())]);
        for folder in path.split(':').map(Path::new) {
            let Some(home) = &home else { break };
            let Ok(below) = folder.strip_prefix(home) else { continue };
            let Some(first) = below.components().next() else { continue };
            let is_manager = VERSION_MANAGERS.iter().any(|name| first.as_os_str() == *name);
            programs.extend(is_manager.then(|| home.join(first)));
            programs.push(folder.to_owned());
        }
        let rustup = variable("RUSTUP_HOME").or_else(|| in_home(".rustup"));
        if let Some(rustup) = rustup.filter(|rustup| rustup.is_dir()) {
            env.insert("RUSTUP_HOME".to_owned(), rustup.display().to_string());
            read.push(rustup);
        }
        // The download cache only: the folder above it holds the registry token.
        let cargo = variable("CARGO_HOME").or_else(|| in_home(".cargo"));
        let part = |name: &str| cargo.iter().map(|cargo| cargo.join(name)).find(|dir| dir.is_dir());
        read.extend(part("registry"));
        programs.extend(part("bin"));
        env.extend(certificates(|name| std::env::var(name).ok()));
        Toolchains { read, programs, emptied: rehash_hooks(&path), env }
    }

    /// The search path.
    pub(super) fn path(&self) -> &str {
        self.env.get("PATH").map(String::as_str).unwrap_or_default()
    }
}

/// The caller's [`CERTIFICATES`] that commands see as well.
fn certificates(variable: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let is_seen = |value: &String| {
        let path = Path::new(value);
        let is_plain = !path.components().any(|part| part == Component::ParentDir);
        is_plain && CERTIFICATE_FOLDERS.iter().any(|folder| path.starts_with(folder))
    };
    let found =
        CERTIFICATES.iter().map(|name| ((*name).to_owned(), variable(name).filter(is_seen)));
    let mut found: BTreeMap<String, String> =
        found.filter_map(|(name, value)| Some((name, value?))).collect();
    // Programs with authorities of their own do not look at it, though it is meant for all.
    if let Some(file) = found.get("SSL_CERT_FILE").cloned() {
        for name in ["NODE_EXTRA_CA_CERTS", "PIP_CERT"] {
            found.entry(name.to_owned()).or_insert_with(|| file.clone());
        }
    }
    found
}

/// Those of every pyenv on this search path: beside the folder of its shims, and where its own program is.
fn rehash_hooks(path: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in path.split(':').map(Path::new).filter(|folder| folder.is_absolute()) {
        let program = fs_err::canonicalize(folder.join("pyenv")).ok();
        let installed = program.as_deref().and_then(Path::parent).and_then(Path::parent);
        for root in folder.parent().into_iter().chain(installed) {
            let hook = fs_err::canonicalize(root.join(REHASH_HOOK)).ok();
            found.extend(hook.filter(|hook| !found.contains(hook)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_commands_see_are_named_to_them() {
        let found = certificates(|name| {
            let value = match name {
                "SSL_CERT_FILE" => "/etc/ssl/certs/ca-certificates.crt",
                "NODE_EXTRA_CA_CERTS" => "/usr/local/share/ca-certificates/company.crt",
                "REQUESTS_CA_BUNDLE" => "/home/ann/company.pem",
                "CURL_CA_BUNDLE" => "/usr/../home/ann/company.pem",
                _ => return None,
            };
            Some(value.to_owned())
        });
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE"]);
        assert_eq!(found["PIP_CERT"], found["SSL_CERT_FILE"]);
    }
}
