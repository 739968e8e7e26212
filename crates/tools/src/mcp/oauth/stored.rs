//! The operator's refresh token in a file. An authorization server may replace it with each use, and takes the old one
//! no more (some withdraw all tokens when it comes again), so it is read, used and replaced under a lock: two runs of
//! one machine never use the same one.
//!
//! The file holds the token and nothing else, or, where the login has registered a client, a JSON object with the token,
//! the client's id and the issuer: a token counts for the client only that it was issued to.

use std::fs::TryLockError;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err::{File, OpenOptions};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::time::Instant;

use super::discovery::Why;

/// How long another run may hold it.
const LOCK_WAIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
/// Largest file.
const MAX_FILE: u64 = 64 << 10;

/// What is in the file.
pub(super) struct Kept {
    pub(super) token: SecretString,
    /// The client that was registered for it; `None` for one that the operator names.
    pub(super) registered: Option<Registered>,
}

/// A client that a login has registered.
#[derive(Clone)]
pub(super) struct Registered {
    /// The authorization server that knows it.
    pub(super) issuer: String,
    pub(super) id: String,
}

/// The file of a registered client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    issuer: String,
    client_id: String,
    refresh_token: SecretString,
}

impl Kept {
    /// # Errors
    /// What is wrong with the text, to be said behind the name of the file.
    fn parse(text: &str) -> Result<Kept, String> {
        let text = text.trim();
        // A token may begin so, too; it is no object then.
        if text.starts_with('{')
            && let Ok(written) = serde_json::from_str::<Written>(text)
        {
            let registered = Registered { issuer: written.issuer, id: written.client_id };
            return Ok(Kept { token: written.refresh_token, registered: Some(registered) });
        }
        if text.is_empty() || text.contains(char::is_whitespace) {
            let what =
                "does not hold one token and nothing else, nor what `patchwright mcp login` writes";
            return Err(what.to_owned());
        }
        Ok(Kept { token: SecretString::from(text), registered: None })
    }

    fn text(&self) -> String {
        let token = self.token.expose_secret();
        match &self.registered {
            None => format!("{token}\n"),
            Some(Registered { issuer, id }) => {
                let written = json!({"issuer": issuer, "client-id": id, "refresh-token": token});
                format!("{written}\n")
            }
        }
    }
}

/// A token that nobody else uses meanwhile.
pub(super) struct StoredToken {
    path: PathBuf,
    kept: Kept,
    /// Where its successor is written: made before the token is used, so that one that was replaced is not lost for
    /// want of a place.
    next: NamedTempFile,
    /// Held until the end.
    _lock: File,
}

impl StoredToken {
    /// Waits for the file and reads it.
    ///
    /// # Errors
    /// In a sentence, why it cannot be used.
    pub(super) async fn open(path: &Path) -> Result<StoredToken, Why> {
        let unusable = |what: String| format!("the token file `{}` {what}", path.display());
        // A link stays one: the file that it means is replaced.
        let path = fs_err::canonicalize(path)
            .map_err(|err| unusable(format!("cannot be read: {}", err.kind())))?;
        let lock = lock(&path).await.map_err(&unusable)?;
        let meta = fs_err::metadata(&path)
            .map_err(|err| unusable(format!("cannot be read: {}", err.kind())))?;
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(unusable(format!(
                "may be read by others (mode {mode:o}); `chmod 600` makes it yours alone"
            )));
        }
        if meta.len() > MAX_FILE {
            return Err(unusable(format!("has more than {MAX_FILE} bytes")));
        }
        let text = fs_err::read_to_string(&path)
            .map_err(|err| unusable(format!("cannot be read: {}", err.kind())))?;
        let kept = Kept::parse(&text).map_err(&unusable)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let next = NamedTempFile::new_in(folder).map_err(|err| {
            unusable(format!(
                "cannot be replaced ({}), and a token that the authorization server replaces would be lost",
                err.kind()
            ))
        })?;
        Ok(StoredToken { path, kept, next, _lock: lock })
    }

    pub(super) fn token(&self) -> &SecretString {
        &self.kept.token
    }

    /// The client that was registered for the token.
    pub(super) fn registered(&self) -> Option<&Registered> {
        self.kept.registered.as_ref()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the token that took its place into the file.
    ///
    /// # Errors
    /// In a sentence, why it is not there.
    pub(super) fn replace(mut self, token: &SecretString) -> Result<(), Why> {
        self.kept.token = token.clone();
        let written = self
            .next
            .write_all(self.kept.text().as_bytes())
            .and_then(|()| self.next.as_file().sync_all());
        let path = self.path;
        let kept =
            written.and_then(|()| self.next.persist(&path).map(drop).map_err(|err| err.error));
        kept.map_err(|err| {
            format!(
                "the refresh token was replaced, and the new one could not be written into `{}` ({}): log in anew",
                path.display(),
                err.kind()
            )
        })
    }
}

/// Puts a first token into a file, or another one in the place of one that counts no more.
///
/// # Errors
/// In a sentence, why it is not there.
pub(super) async fn keep(path: &Path, kept: &Kept) -> Result<(), Why> {
    let unusable = |what: String| format!("the token file `{}` {what}", path.display());
    // A link stays one.
    let path = fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _lock = lock(&path).await.map_err(&unusable)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(kept.text().as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path).map(drop).map_err(|err| err.error)
    });
    written.map_err(|err| unusable(format!("cannot be written: {}", err.kind())))
}

async fn lock(path: &Path) -> Result<File, String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(PathBuf::from(name));
    let file = file.map_err(|err| format!("cannot be locked: {}", err.kind()))?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.file().try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(POLL).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err("is held by another run for too long".to_owned());
            }
            Err(TryLockError::Error(err)) => {
                return Err(format!("cannot be locked: {}", err.kind()));
            }
        }
    }
}
