//! What a database's error means to us, and what a person can do about it.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use sqlx::Error;

use super::StoreError;
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
            _ => StoreError::Other(err.to_string()),
        }
    }
}

/// Primary result codes of <https://www.sqlite.org/rescode.html>; the extended ones have more above.
fn sqlite(code: u32, message: &str) -> StoreError {
    let message = message.to_owned();
    match code & 0xff {
        5 | 6 => StoreError::Locked(message),
        8 => StoreError::Unusable(format!("the database can only be read: {message}")),
        10 | 14 if let Some(files) = without_space() => StoreError::Full(files),
        10 => StoreError::Unusable(format!("the disk failed under the database: {message}")),
        11 => StoreError::Unusable(format!("the database is damaged: {message}")),
        13 => StoreError::Full(without_space().unwrap_or_else(|| quoted(&FILES.lock()))),
        14 => StoreError::Unusable(format!("cannot open the database: {message}")),
        26 => StoreError::Unusable(format!("this is no SQLite database: {message}")),
        _ => StoreError::Other(format!("{message} (SQLite code {code})")),
    }
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
        "3D" | "3F" | "42" | "25" => {
            StoreError::Unusable(format!("PostgreSQL says: {message} (code {code})"))
        }
        "55" => StoreError::Locked(message.to_owned()),
        _ => StoreError::Other(format!("{message} (PostgreSQL code {code})")),
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
