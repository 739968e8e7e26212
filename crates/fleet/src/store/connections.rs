//! A connection that is taken out for some statements, and a transaction: of a file from sqlx's pools, of a server from
//! ours ([`super::pool`]).

use std::path::{Path, PathBuf};

use either::Either;
use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, Transaction};

use super::db::PATIENCE;
use super::pool::{self, Server};
use super::{Store, StoreError, StoreResult, fault};

/// Where connections come from.
pub(super) enum Pool {
    File(File),
    Server(Server),
}

/// An SQLite file, which has a single writer.
///
/// Writers of one process queue for one connection, which serves them in turn: SQLite itself answers `SQLITE_BUSY` to
/// those that wait, in no fair order. What a connection has cached of the file is invalid as soon as another one has
/// written, so a claim looks for its job on the connection that writes.
#[derive(Clone)]
pub(super) struct File {
    pub(super) readers: AnyPool,
    /// A pool of one connection.
    pub(super) writer: AnyPool,
    pub(super) opened: OpenedFile,
}

/// The file that a path led to when it was opened.
///
/// A file that is removed or replaced while it is open takes whatever is written, and nobody ever finds it again: a
/// delivery that is stored there would be acknowledged and lost. So its path is checked before each use.
#[derive(Clone, Debug)]
pub(super) struct OpenedFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl OpenedFile {
    pub(super) fn at(path: &Path) -> std::io::Result<OpenedFile> {
        Ok(OpenedFile { path: path.to_owned(), id: OpenedFile::id(path)? })
    }

    fn id(path: &Path) -> std::io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let data = fs_err::metadata(path)?;
        Ok((data.dev(), data.ino()))
    }

    /// # Errors
    /// When its path leads to another one by now, or nowhere.
    pub(super) fn is_there(&self) -> StoreResult<()> {
        match OpenedFile::id(&self.path) {
            Ok(id) if id == self.id => Ok(()),
            found => Err(fault::not_ready(
                format!(
                    "the database `{}` was {} while it was open; nothing is stored any more",
                    self.path.display(),
                    if found.is_ok() { "replaced by another file" } else { "removed or moved" }
                ),
                "stop what uses it, put the file back (and the one beside it that ends in `-wal`, where there is one), and \
                 start it again",
            )),
        }
    }
}

/// The files that this process has opened, for [`close_files`].
static FILES: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Closes the SQLite files that this process still has open: everything is in the one file afterwards, and nothing beside
/// it that would be taken for a part of another file in its place. For the end of a command, however it ended.
pub async fn close_files() {
    let files = std::mem::take(&mut *FILES.lock());
    for file in files.iter().filter(|file| !file.writer.is_closed()) {
        // A statement that does not end must not keep the process.
        let _ = tokio::time::timeout(PATIENCE, file.close()).await;
    }
}

impl File {
    /// Remembers it until it is closed.
    pub(super) fn remembered(self) -> File {
        let mut files = FILES.lock();
        files.retain(|file| !file.writer.is_closed());
        files.push(self.clone());
        self
    }

    async fn close(&self) {
        // Whoever reads an old state keeps the log.
        self.readers.close().await;
        let emptied = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await;
        if let Err(err) = emptied {
            tracing::warn!(%err, "the write-ahead log could not be emptied");
        }
        self.writer.close().await;
    }
}

/// A connection, of a file or a server. Dropping it gives it back.
pub(super) type Connection = Either<PoolConnection<Any>, pool::PooledConnection>;

/// A transaction. Dropped without [`commit`], nothing was written.
pub(super) type Tx = Either<Transaction<'static, Any>, pool::PooledConnection>;

impl Pool {
    /// Brings what was written to a file from its write-ahead log into the file itself, as far as nobody who reads an old
    /// state is in the way: who carries away the one file of a process that was killed has all that had ended by then.
    pub(super) async fn keep_whole(&self) {
        let Pool::File(file) = self else { return };
        let kept = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&file.writer).await;
        if let Err(err) = kept {
            tracing::warn!(%err, "the write-ahead log stays beside the database");
        }
    }

    /// Closes every connection; of an SQLite file, everything is in the one file afterwards.
    pub(super) async fn close(&self) {
        match self {
            Pool::File(file) => file.close().await,
            Pool::Server(server) => server.close().await,
        }
    }
}

impl Store {
    /// How full a server is now, in percent; a file always has room.
    pub(super) async fn fullness(&self) -> StoreResult<u8> {
        let Pool::Server(server) = &self.inner.pool else { return Ok(0) };
        server.load().look(&mut *server.acquire().await?).await?;
        Ok(server.load().percent())
    }

    /// A connection for statements that read, with whatever wait its server needs.
    pub(super) async fn connection(&self) -> StoreResult<Connection> {
        Ok(match &self.inner.pool {
            Pool::File(file) => {
                file.opened.is_there()?;
                Either::Left(file.readers.acquire().await?)
            }
            Pool::Server(server) => Either::Right(server.acquire().await?),
        })
    }

    /// A connection for a single statement that writes, and is a transaction of its own.
    pub(super) async fn writer(&self) -> StoreResult<Connection> {
        Ok(match &self.inner.pool {
            Pool::File(file) => {
                file.opened.is_there()?;
                let writer = file.writer.acquire().await;
                Either::Left(writer.map_err(|err| self.no_writer(err))?)
            }
            Pool::Server(server) => Either::Right(server.acquire().await?),
        })
    }

    /// Whoever waits in vain for a file's writer waits for a lock.
    pub(super) fn no_writer(&self, err: sqlx::Error) -> StoreError {
        match err {
            sqlx::Error::PoolTimedOut => StoreError::Locked(self.inner.name.clone()),
            err => err.into(),
        }
    }
}

pub(super) async fn commit(tx: Tx) -> StoreResult<()> {
    match tx {
        Either::Left(tx) => tx.commit().await?,
        Either::Right(connection) => connection.end("COMMIT").await?,
    }
    Ok(())
}

pub(super) async fn roll_back(tx: Tx) -> StoreResult<()> {
    match tx {
        Either::Left(tx) => tx.rollback().await?,
        Either::Right(connection) => connection.end("ROLLBACK").await?,
    }
    Ok(())
}
