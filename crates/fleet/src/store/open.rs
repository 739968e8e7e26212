//! Opening: from an address to a database that is ours and of our version.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use secrecy::SecretString;
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, Connection};
use url::Url;

use super::connections::{File, OpenedFile, Pool};
use super::db::{Dialect, PATIENCE};
use super::migrate::{Migration, version};
use super::notifications::Notifications;
use super::pool::Server;
use super::{Inner, Store, StoreError, StoreResult, fault, parameters};

/// An SQLite file that is checked page by page at every opening; of a larger one only what is read.
const CHECKED: u64 = 64 << 20;

/// The database that an address names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DatabaseAddress {
    File(PathBuf),
    Server(Box<Url>),
}

impl DatabaseAddress {
    pub(super) fn parse(url: &str) -> StoreResult<DatabaseAddress> {
        if let Some(rest) = url.strip_prefix("sqlite:") {
            let rest = rest.strip_prefix("//").unwrap_or(rest);
            let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
            parameters::check_file(parameters)?;
            let path = decode(path);
            if path.is_empty() || path == ":memory:" {
                return Err(StoreError::Address(
                    "an SQLite address needs a file, such as `sqlite:/var/lib/fleet.db`".to_owned(),
                ));
            }
            return Ok(DatabaseAddress::File(PathBuf::from(path)));
        }
        if breaks_off_in_login(url) {
            return Err(StoreError::Address(
                "a `/`, `?`, `#` or `@` in the password of a database address is written as `%2F`, `%3F`, `%23` or \
                 `%40`; as it stands, the address ends there"
                    .to_owned(),
            ));
        }
        let parsed = Url::parse(url).ok();
        let parsed = parsed.filter(|url| matches!(url.scheme(), "postgres" | "postgresql"));
        let url = parsed.ok_or_else(|| {
            StoreError::Address(
                "a database address is `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/NAME`"
                    .to_owned(),
            )
        })?;
        parameters::check_server(url.query().unwrap_or_default())?;
        Ok(DatabaseAddress::Server(Box::new(url)))
    }

    /// For people: without password and parameters.
    pub(super) fn name(&self) -> String {
        match self {
            DatabaseAddress::File(path) => path.display().to_string(),
            DatabaseAddress::Server(url) => {
                let user = match url.username() {
                    "" => String::new(),
                    user => format!("{user}@"),
                };
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                let host = url.host_str().unwrap_or_default();
                format!("postgres://{user}{host}{port}{}", url.path())
            }
        }
    }
}

/// Whether user and password go on behind what the address says is its host. Read as it stands, parts of the password would
/// be host, port and database, and be printed as such.
fn breaks_off_in_login(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let Some(end) = rest.find(['/', '?', '#']) else { return false };
    let (path, query) = rest[end..].split_once('?').unwrap_or((&rest[end..], ""));
    // Some parameters may have an `@`: `?user=me@server`.
    let may = ["user", "password", "options", "application_name"];
    let is_text = |pair: &str| pair.split_once('=').is_some_and(|(name, _)| may.contains(&name));
    path.contains('@') || query.split('&').any(|pair| pair.contains('@') && !is_text(pair))
}

/// `%41` becomes `A`; what is no UTF-8 afterwards stays as it was.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Cow::into_owned)
}

/// What is escaped in the path of a file.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.');

pub(super) fn encode(path: &str) -> String {
    utf8_percent_encode(path, ESCAPED).to_string()
}

/// The file that an address names; `None` of one that names a server, or nothing.
pub fn file_of(url: &str) -> Option<PathBuf> {
    match DatabaseAddress::parse(url) {
        Ok(DatabaseAddress::File(path)) => Some(path),
        Ok(DatabaseAddress::Server(_)) | Err(_) => None,
    }
}

/// The address of an SQLite file, for [`Store::open`].
pub fn file_url(path: &Path) -> String {
    format!("sqlite:{}", encode(&path.to_string_lossy()))
}

impl Store {
    /// Opens `sqlite:PATH` (made when absent) or `postgres://…`, and brings the schema up to date (of an
    /// SQLite file, after a copy of it). Waits at most ten seconds for a lock.
    ///
    /// # Errors
    /// A newer schema, a damaged or read-only file, no connection: each with its own words; an existing
    /// database is never replaced by an empty one.
    pub async fn open(url: &str) -> StoreResult<Store> {
        Ok(Store::open_and_tell(url).await?.0)
    }

    /// [`Store::open`], and what that has changed about a database of an older version.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_and_tell(url: &str) -> StoreResult<(Store, Option<Migration>)> {
        sqlx::any::install_default_drivers();
        let place = DatabaseAddress::parse(url)?;
        let name = place.name();
        let opened = match &place {
            DatabaseAddress::File(path) => open_file(path, &name).await,
            DatabaseAddress::Server(url) => open_server(url, &name).await,
        };
        opened.map_err(|err| named(err, &name))
    }

    /// Closes every connection; of an SQLite file, everything is in the one file afterwards.
    pub async fn close(&self) {
        self.inner.pool.close().await;
    }

    /// Which database this is, for people: a path, or an address without its password.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// An SQLite file: for processes of one machine.
    pub fn is_file(&self) -> bool {
        self.inner.dialect.is_file()
    }
}

async fn open_file(path: &Path, name: &str) -> StoreResult<(Store, Option<Migration>)> {
    let inner = Inner {
        pool: Pool::File(file(path).await?),
        dialect: Dialect::Sqlite,
        name: name.to_owned(),
        notifications: Notifications::new(None),
        without_room: Mutex::default(),
    };
    let store = Store { inner: Arc::new(inner) };
    let found = version(&mut *store.connection().await?, Dialect::Sqlite).await?;
    let migrated = store.migrate(found, Some(path)).await?;
    Ok((store, migrated))
}

/// Opening uses a single connection, and gives it up afterwards where the server is not roomy: many workers that start
/// together need no more than one each.
async fn open_server(url: &Url, name: &str) -> StoreResult<(Store, Option<Migration>)> {
    let inner = Inner {
        pool: Pool::Server(Server::new(url)),
        dialect: Dialect::Postgres,
        name: name.to_owned(),
        notifications: Notifications::new(Some(SecretString::from(url.to_string()))),
        without_room: Mutex::default(),
    };
    let store = Store { inner: Arc::new(inner) };
    let found = version(&mut *store.connection().await?, Dialect::Postgres).await?;
    let migrated = store.migrate(found, None).await?;
    Ok((store, migrated))
}

/// Says which database it is about.
pub(super) fn named(err: StoreError, name: &str) -> StoreError {
    match err {
        StoreError::Locked(text) => StoreError::Locked(format!("`{name}`: {text}")),
        StoreError::Unusable(text) => StoreError::Unusable(format!("`{name}`: {text}")),
        StoreError::Unavailable(text) => StoreError::Unavailable(format!("`{name}`: {text}")),
        StoreError::Other(text) => StoreError::Other(format!("`{name}`: {text}")),
        StoreError::Newer(text) => StoreError::Newer(format!("`{name}`: {text}")),
        StoreError::NotReady { message, hint } => {
            StoreError::NotReady { message: format!("`{name}`: {message}"), hint }
        }
        other => other,
    }
}

async fn file(path: &Path) -> StoreResult<File> {
    let unusable = |err: std::io::Error| fault::cannot_open(path, &err);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs_err::canonicalize(folder.unwrap_or(Path::new("."))).map_err(unusable)?;
    let name = path.file_name().ok_or_else(|| {
        StoreError::Unusable("an SQLite address needs the name of a file".to_owned())
    })?;
    let file = folder.join(name);
    let mut options = fs_err::OpenOptions::new();
    // Created here and not by SQLite, which would make it readable for everybody.
    options.write(true).create_new(true);
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(&file) {
        Ok(_) => {}
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(err) => return Err(unusable(err)),
    }
    fault::opened(&file);
    let size = size_of(&file)?;
    fault::check_access(&file)?;
    let opened = OpenedFile::at(&file).map_err(unusable)?;
    let text = file.to_str().ok_or_else(|| {
        StoreError::Unusable("the path of an SQLite file has to be UTF-8".to_owned())
    })?;
    let address = format!("sqlite://{}?mode=rw", encode(text));
    // A pool retries until its timeout and then reports only that; a single connection reports the
    // cause.
    let mut probe = AnyConnection::connect(&address).await?;
    let file = match check(&mut probe, size).await {
        Ok(()) => pools(&address, opened).await,
        Err(err) => Err(err),
    };
    probe.close().await?;
    file
}

async fn check(probe: &mut AnyConnection, size: u64) -> StoreResult<()> {
    set_up(probe).await?;
    check_pages(probe, size).await
}

/// Refuses a file with damaged pages. `quick_check` reads every page, which takes seconds for a large file.
pub(super) async fn check_pages(file: &mut AnyConnection, size: u64) -> StoreResult<()> {
    if size > CHECKED {
        return Ok(());
    }
    let check = sqlx::query_scalar("PRAGMA quick_check(1)");
    let checked: String = check.fetch_one(file).await?;
    match checked.as_str() {
        "ok" => Ok(()),
        damage => Err(StoreError::Unusable(format!("the database is damaged: {damage}"))),
    }
}

/// The size of a database's file. SQLite says of a folder that the disk failed.
pub(super) fn size_of(path: &Path) -> StoreResult<u64> {
    let found = fs_err::metadata(path).map_err(|err| fault::cannot_open(path, &err))?;
    if found.is_file() {
        return Ok(found.len());
    }
    Err(StoreError::Unusable("this is a folder or device, and no file".to_owned()))
}

async fn pools(address: &str, opened: OpenedFile) -> StoreResult<File> {
    // A file does not go away as a server does.
    let options = AnyPoolOptions::new().test_before_acquire(false);
    let options = options.after_connect(|connection, _| Box::pin(set_up(connection)));
    // When a statement fails because the disk is full, SQLite rolls back by itself; sqlx does not know, and
    // such a connection would refuse to begin another transaction for ever.
    let options = options.before_acquire(|connection, _| {
        let is_idle = !connection.is_in_transaction();
        Box::pin(std::future::ready(Ok(is_idle)))
    });
    let readers = options.clone().max_connections(5).acquire_timeout(PATIENCE * 2);
    // A claim makes two dozen small tables on the way to its answer: kept in memory, they take half the time. What is
    // sorted for people may be large, and is not sorted on this connection.
    let options = options.after_connect(|connection, _| {
        Box::pin(async {
            set_up(connection).await?;
            sqlx::query("PRAGMA temp_store = MEMORY").execute(connection).await.map(|_| ())
        })
    });
    let writer = options.max_connections(1).acquire_timeout(PATIENCE);
    // A wait for one's turn is nothing to warn of.
    let writer = writer.acquire_slow_threshold(PATIENCE).connect(address).await?;
    Ok(File { readers: readers.connect_lazy(address)?, writer, opened }.remembered())
}

/// Every connection to a file: how long it waits, and that what was committed stays.
async fn set_up(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    for pragma in [
        "PRAGMA busy_timeout = 10000",
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
    ] {
        sqlx::query(pragma).execute(&mut *connection).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{DatabaseAddress, decode, encode};

    #[test]
    fn a_path_comes_out_of_an_address_as_it_went_in() {
        for path in ["/var/lib/fleet.db", "/tmp/a b/100%/ü?#.db", "%41"] {
            assert_eq!(decode(&encode(path)), path);
        }
        // Neither an escape nor text.
        for text in ["/a%4", "/a%+1", "/a%zz", "/a%ff"] {
            assert_eq!(decode(text), text);
        }
    }

    #[test]
    fn a_password_that_breaks_the_address_off_is_said_and_not_printed() {
        for password in ["12/34", "ab/cd", "12?34", "12?a=34", "12#34", "p@ss/12", "12/34#5?6"] {
            let address = format!("postgres://patchwright:{password}@postgres/patchwright");
            let said = DatabaseAddress::parse(&address).unwrap_err().to_string();
            assert!(said.contains("`%2F`") && !said.contains(password), "{password}: {said}");
            assert!(!said.contains("12"), "{password}: {said}");
        }
    }

    #[test]
    fn addresses_are_named_without_password_and_parameters() {
        for (address, name) in [
            ("postgres://me:p%2Fq%40r@db/fleet", "postgres://me@db/fleet"),
            ("postgres://me:pass@db:5433/fleet?sslmode=require", "postgres://me@db:5433/fleet"),
            ("postgres://db/fleet?user=me@server&password=a@b", "postgres://db/fleet"),
            ("postgres://me:p@ss@db/fleet", "postgres://me@db/fleet"),
            ("sqlite:/var/a@b/fleet.db", "/var/a@b/fleet.db"),
        ] {
            assert_eq!(DatabaseAddress::parse(address).unwrap().name(), name);
        }
    }
}
