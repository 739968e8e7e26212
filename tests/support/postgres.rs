//! A real PostgreSQL of the test's own, from the distribution's programs, in a folder that is removed
//! afterwards. PostgreSQL refuses to run as root, so root starts it as another user.
#![expect(clippy::disallowed_methods, reason = "starts the real server")]
#![allow(dead_code, reason = "each test uses a part")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

pub(crate) const PASSWORD: &str = "correct-horse-battery";

/// A running server. Dropping it stops it.
pub(crate) struct Postgres {
    process: Mutex<Process>,
    installed: Installed,
    port: u16,
    next: AtomicU32,
}

struct Process {
    port: u16,
    child: Child,
}

/// What a server is started from.
struct Installed {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    settings: Vec<String>,
    folder: TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child is `setpriv`, which has become the server itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What tests do not need, and connections for many of them.
const QUICK: &[&str] = &["-c", "fsync=off", "-c", "max_connections=200"];

/// A server; `None` (and one line on standard error) when PostgreSQL is not installed and nobody
/// insists.
pub(crate) async fn postgres() -> Option<Postgres> {
    postgres_with(QUICK, "scram-sha-256").await
}

/// A server with the settings that PostgreSQL has by itself: a hundred connections, everything on disk, and no password
/// asked (an unoptimised test would be busy with nothing but passwords).
pub(crate) async fn postgres_as_it_comes() -> Option<Postgres> {
    postgres_with(&[], "trust").await
}

/// A server that also counts how long it plans and carries out each statement (`pg_stat_statements`).
pub(crate) async fn postgres_that_counts() -> Option<Postgres> {
    let settings = [
        "-c",
        "shared_preload_libraries=pg_stat_statements",
        "-c",
        "pg_stat_statements.track_planning=on",
    ];
    postgres_with(&settings, "trust").await
}

async fn postgres_with(settings: &[&str], asks: &str) -> Option<Postgres> {
    match start(settings, asks).await {
        Ok(server) => Some(server),
        Err(why) => {
            assert!(!is_required(), "this test needs PostgreSQL: {why}; `./test` installs it");
            eprintln!("postgres: not available, skipped: {why}");
            None
        }
    }
}

impl Postgres {
    /// The address of a new, empty database.
    pub(crate) async fn database(&self) -> String {
        let name = format!("fleet_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let pool = sqlx::PgPool::connect(&self.address("postgres", PASSWORD)).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create).execute(&pool).await.unwrap();
        pool.close().await;
        self.address(&name, PASSWORD)
    }

    /// A database owned by a user of its own who is nobody special: the server keeps some connections for superusers.
    /// For a server that asks for no password.
    pub(crate) async fn database_of_a_user(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let pool = sqlx::PgPool::connect(&self.address("postgres", PASSWORD)).await.unwrap();
        for statement in [
            format!("CREATE ROLE worker_{number} LOGIN"),
            format!("CREATE DATABASE fleet_{number} OWNER worker_{number}"),
        ] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await.unwrap();
        }
        pool.close().await;
        format!("postgres://worker_{number}@127.0.0.1:{}/fleet_{number}", self.port)
    }

    /// How many connections it has refused because it had no more of them, by its own log.
    pub(crate) fn refused(&self) -> usize {
        let log = self.log();
        ["too many clients already", "remaining connection slots are reserved"]
            .iter()
            .map(|words| log.matches(words).count())
            .sum()
    }

    /// Ends as in an accident, with all its connections, and comes back at the same address after a while.
    pub(crate) async fn crash(&self, away: Duration) {
        {
            let mut process = self.process.lock();
            let pid = rustix::process::Pid::from_child(&process.child);
            // Its immediate shutdown: <https://www.postgresql.org/docs/current/server-shutdown.html>.
            rustix::process::kill_process(pid, rustix::process::Signal::QUIT).unwrap();
            process.child.wait().unwrap();
        }
        tokio::time::sleep(away).await;
        *self.process.lock() = self.installed.serve(self.port).unwrap();
    }

    /// One of the programs that came with it.
    pub(crate) fn program(name: &str) -> PathBuf {
        programs().unwrap().join(name)
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        fs_err::read_to_string(self.installed.log()).unwrap_or_default()
    }

    /// The address of a database, with any password.
    pub(crate) fn address(&self, name: &str, password: &str) -> String {
        address(self.port, name, password)
    }
}

fn address(port: u16, name: &str, password: &str) -> String {
    format!("postgres://fleet:{password}@127.0.0.1:{port}/{name}")
}

impl Process {
    /// Waits until it answers; not when it has ended or is too slow.
    async fn answers(&mut self) -> bool {
        for _ in 0..300 {
            if let Ok(pool) = sqlx::PgPool::connect(&address(self.port, "postgres", PASSWORD)).await
            {
                pool.close().await;
                return true;
            }
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }
}

async fn start(settings: &[&str], asks: &str) -> Result<Postgres, String> {
    let programs = programs().ok_or("no `/usr/lib/postgresql/*/bin/initdb`")?;
    let folder = tempfile::Builder::new().prefix("pg-").tempdir().map_err(|err| err.to_string())?;
    fs_err::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let data = folder.path().join("data");
    let password = folder.path().join("password");
    fs_err::write(&password, PASSWORD).unwrap();
    fs_err::create_dir(&data).unwrap();
    let user = user();
    if let Some((uid, gid)) = user {
        std::os::unix::fs::chown(&data, Some(uid), Some(gid)).map_err(|err| err.to_string())?;
    }
    fs_err::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    let made = as_user(&programs.join("initdb"), user)
        .args(["--no-sync", "--username=fleet", "--encoding=UTF8"])
        .arg(format!("--auth={asks}"))
        .args(["--locale=C", "--pwfile"])
        .arg(&password)
        .arg("-D")
        .arg(&data)
        .output()
        .map_err(|err| err.to_string())?;
    if !made.status.success() {
        return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let installed = Installed { programs, user, settings, folder };
    for _ in 0..5 {
        // Free a moment ago: it takes no socket.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = installed.serve(port)?;
        if process.answers().await {
            let (process, next) = (Mutex::new(process), AtomicU32::new(0));
            return Ok(Postgres { process, installed, port, next });
        }
    }
    let log = fs_err::read_to_string(installed.log()).unwrap_or_default();
    Err(format!("the server does not answer: {log}"))
}

impl Installed {
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn serve(&self, port: u16) -> Result<Process, String> {
        let log = fs_err::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let child = as_user(&self.programs.join("postgres"), self.user)
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-p"])
            .arg(port.to_string())
            .args(&self.settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.into_file())
            .spawn()
            .map_err(|err| err.to_string())?;
        Ok(Process { port, child })
    }
}

/// Runs as that user, and dies with us however we die.
fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).current_dir("/");
    if let Some((uid, gid)) = user {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
    }
    command.arg(program);
    command
}

/// Whom root becomes: `postgres`, else `nobody`.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs_err::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).or(Some((65534, 65534)))
}

/// The folder with the newest version's programs.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = fs_err::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .collect();
    versions.sort();
    versions.pop()
}

fn is_required() -> bool {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable("PATCHWRIGHT_TEST_DOCKER").as_deref() == Some("require") || variable("CI").is_some()
}
