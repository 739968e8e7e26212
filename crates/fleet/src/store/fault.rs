//! What a database's error means to us, and what a person can do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlx::Error;

use super::{Store, StoreError, StoreResult};
use patchwright_base::error::Failure;

impl From<Error> for StoreError {
    fn from(err: Error) -> StoreError {
        match &err {
            Error::Database(told) => {
                let code = told.code().unwrap_or_default().into_owned();
                let message = told.message().to_owned();
                code.parse::<u32>()
                    .ok()
                    .filter(|_| code.len() != 5)
                    .map_or_else(|| postgres(&code, &message), |code| sqlite(code, &message))
            }
            Error::PoolTimedOut => {
                StoreError::Unavailable("no connection was free in time".to_owned())
            }
            Error::Io(_)
            | Error::Tls(_)
            | Error::Protocol(_)
            | Error::PoolClosed
            | Error::WorkerCrashed => StoreError::Unavailable(err.to_string()),
            // A parameter of the address that has an impossible value.
            Error::Configuration(why) => {
                StoreError::Address(format!("the address of the database: {why}"))
            }
            _ => StoreError::Other(err.to_string()),
        }
    }
}

/// Primary result codes of <https://www.sqlite.org/rescode.html>; the extended ones have more above.
fn sqlite(code: u32, message: &str) -> StoreError {
    let message = message.to_owned();
    match code & 0xff {
        5 | 6 => StoreError::Locked(message),
        8 => not_ready(format!("the database can only be read: {message}"), MAY_WRITE),
        10 | 14 if let Some(files) = without_space() => StoreError::Full(files),
        10 => StoreError::Unusable(format!("the disk failed under the database: {message}")),
        11 => StoreError::Unusable(format!("the database is damaged: {message}")),
        13 => StoreError::Full(without_space().unwrap_or_else(|| quoted(&FILES.lock()))),
        14 => not_ready(format!("cannot open the database: {message}"), MAY_WRITE),
        26 => StoreError::Unusable(format!("this is no SQLite database: {message}")),
        _ => StoreError::Other(format!("{message} (SQLite code {code})")),
    }
}

/// What SQLite needs to have: it makes files of its own beside the database.
const MAY_WRITE: &str = "the user who runs this has to be able to read and write the file, those beside it whose names begin \
                         like its own, and their folder (`chown`, `chmod`); or name another database in `DATABASE_URL`";

/// What has to be done first, of a database with which nothing is wrong.
pub(super) fn not_ready(message: String, hint: impl Into<String>) -> StoreError {
    StoreError::NotReady { message, hint: hint.into() }
}

/// Why a file, or the folder that it is to be in, cannot be opened.
pub(super) fn cannot_open(path: &Path, err: &io::Error) -> StoreError {
    let message = format!("cannot open it: {err}");
    match err.kind() {
        io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path).display();
            not_ready(
                message,
                format!(
                    "make the folder `{folder}` first, or name another database in `DATABASE_URL`"
                ),
            )
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            not_ready(message, MAY_WRITE)
        }
        _ => StoreError::Unusable(message),
    }
}

/// Whether this user may use a file of SQLite, which says of every trouble that it cannot open it. The file is not opened
/// for that: closing it would take away the locks of other connections of this process (<https://www.sqlite.org/howtocorrupt.html>).
pub(super) fn check_access(path: &Path) -> StoreResult<()> {
    use rustix::fs::Access;
    let denied = |err: rustix::io::Errno| {
        let owner = std::os::unix::fs::MetadataExt::uid;
        let of = path.metadata().map_or_else(
            |_| String::new(),
            |data| format!("; it belongs to the user {}", owner(&data)),
        );
        not_ready(format!("cannot open it: {}{of}", io::Error::from(err)), MAY_WRITE)
    };
    rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK).map_err(denied)
}

/// The SQLite files that this process has opened. An error of SQLite does not say which file it is about, and
/// people with a full disk have to know which disk.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Bytes that a database cannot do without; with less, an error that could be anything is that.
const LEAST: u64 = 64 << 10;

/// An SQLite file is in use.
pub(super) fn opened(file: &Path) {
    let mut files = FILES.lock();
    if !files.iter().any(|known| known == file) {
        files.push(file.to_owned());
    }
}

/// Those whose disk is full, for people.
fn without_space() -> Option<String> {
    let mut files = FILES.lock().clone();
    files.retain(|file| {
        let folder = file.parent().unwrap_or(Path::new("/"));
        rustix::fs::statvfs(folder)
            .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST)
    });
    (!files.is_empty()).then(|| quoted(&files))
}

fn quoted(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    names.join(" or ")
}

/// Classes of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn postgres(code: &str, message: &str) -> StoreError {
    // The database has failed over to a standby that is not promoted yet.
    if code == "25006" {
        return StoreError::Unavailable(format!("the server only reads just now: {message}"));
    }
    match code.get(..2).unwrap_or_default() {
        _ if code == "53300" => StoreError::Unavailable(format!(
            "{message}; it needs a larger `max_connections`, PgBouncer before it, or fewer workers"
        )),
        // Connection, not admitted, no more connections, stopped by the operator, another transaction.
        "08" | "28" | "53" | "57" | "40" => StoreError::Unavailable(message.to_owned()),
        "3D" => not_ready(
            format!("PostgreSQL says: {message} (code {code})"),
            "create it first (`createdb NAME`, as a user who may), or name another database in `DATABASE_URL`",
        ),
        _ if code == "42501" => not_ready(
            format!("PostgreSQL says: {message} (code {code})"),
            "give the user in `DATABASE_URL` the right to make and change tables there (`GRANT`, or make it the owner), or \
             name another user",
        ),
        "3F" | "42" | "25" => {
            StoreError::Unusable(format!("PostgreSQL says: {message} (code {code})"))
        }
        "55" => StoreError::Locked(message.to_owned()),
        _ => StoreError::Other(format!("{message} (PostgreSQL code {code})")),
    }
}

impl Store {
    /// Whether the disks of the SQLite files that this process uses have room; true where it uses none.
    pub(crate) fn has_room(&self) -> bool {
        !self.inner.dialect.is_file() || without_space().is_none()
    }

    /// For how long something has waited to be stored because the disk is full, as the error that it waits with.
    pub(crate) fn waits_for_room(&self) -> Option<(Duration, StoreError)> {
        let waits = self.inner.without_room.lock();
        let (since, files) = waits.as_ref()?;
        Some((since.elapsed(), StoreError::Full(files.clone())))
    }

    /// Notes that something waits for room, or that it waits no longer.
    pub(crate) fn note_room<T>(&self, written: &StoreResult<T>) {
        let mut waits = self.inner.without_room.lock();
        match written {
            Err(StoreError::Full(files)) => {
                waits.get_or_insert_with(|| (Instant::now(), files.clone()));
            }
            _ => *waits = None,
        }
    }
}

impl StoreError {
    /// Trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Locked(_) | StoreError::Unavailable(_))
    }
}

impl From<StoreError> for Failure {
    fn from(err: StoreError) -> Failure {
        let message = err.to_string();
        match err {
            StoreError::LeaseLost { .. } => Failure::machine(message)
                .hint("another worker has the job now, or it has ended; nothing was written"),
            StoreError::Locked(_) => Failure::machine(message).hint(
                "see which process has it open; SQLite has one writer at a time, PostgreSQL many",
            ),
            StoreError::Newer(_) => Failure::machine(message).hint(
                "nothing was changed; use that version of Patchwright or a newer one, or another database in `DATABASE_URL`",
            ),
            StoreError::Unusable(_) => Failure::machine(message).hint(
                "nothing was changed; restore it from a copy, or name another database in `DATABASE_URL`",
            ),
            StoreError::NotReady { hint, .. } => Failure::machine(message).hint(hint),
            StoreError::Full(_) => Failure::machine(message).hint(
                "make room on that disk and run the same command again: it continues from what was stored",
            ),
            StoreError::Unavailable(_) => Failure::machine(message)
                .hint("check host, user, password and database name in `DATABASE_URL`, and that the server runs"),
            StoreError::Address(_) => Failure::usage(message).hint("correct the address: `DATABASE_URL`, or the file of `--database`"),
            StoreError::NotFound(_) => Failure::usage(message),
            StoreError::Other(_) => Failure::machine(message),
        }
    }
}
