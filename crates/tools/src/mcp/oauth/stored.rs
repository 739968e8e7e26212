//! The operator's refresh token in a file. An authorization server may replace it with each use, and takes the old one
//! no more (some withdraw all tokens when it comes again), so it is read, used and replaced under a lock: two runs of
//! one machine never use the same one.
//!
//! The file holds the token and nothing else, or, where the login has registered a client, a JSON object with the token,
//! the client's id and the issuer: a token counts for the client only that it was issued to. With what the client was
//! registered stands there too, so that the next login can be the same client.

use std::fs::TryLockError;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err::os::unix::fs::OpenOptionsExt;
use fs_err::{File, OpenOptions};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::time::Instant;

use super::discovery::Why;
use super::token::PATIENCE;

/// How long others may hold it: several of them, of which one waits for a slow authorization server.
const LOCK_WAIT: Duration = Duration::from_secs(90);
const _: () = assert!(LOCK_WAIT.as_secs() > PATIENCE.as_secs());
const POLL: Duration = Duration::from_millis(50);
/// Room that is taken for the next token, above what the file has now.
const SPARE: u64 = 16 << 10;
/// Largest file.
const MAX_FILE: u64 = 64 << 10;

/// What is in the file.
pub(super) struct TokenContent {
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
    /// Where it comes back to, and the scopes that it may ask for. Versions that registered anew each time have not
    /// written them.
    pub(super) redirect: Option<String>,
    pub(super) scopes: Vec<String>,
}

/// The file of a registered client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClientContent {
    issuer: String,
    client_id: String,
    refresh_token: SecretString,
    #[serde(default)]
    redirect_uri: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

impl TokenContent {
    /// # Errors
    /// What is wrong with the text, to be said behind the name of the file.
    fn parse(text: &str) -> Result<TokenContent, String> {
        let text = text.trim();
        // A truncated JSON file must not be taken for a bare token and sent. Whatever else begins with a brace may be
        // one.
        if text == "{" || text.starts_with("{\"") {
            let damaged = "is damaged: `patchwright mcp login` writes another";
            let written: ClientContent =
                serde_json::from_str(text).map_err(|_| damaged.to_owned())?;
            let ClientContent {
                issuer,
                client_id: id,
                refresh_token,
                redirect_uri: redirect,
                scopes,
            } = written;
            let registered = Registered { issuer, id, redirect, scopes };
            return Ok(TokenContent { token: refresh_token, registered: Some(registered) });
        }
        if text.is_empty() || text.contains(char::is_whitespace) {
            let what =
                "does not hold one token and nothing else, nor what `patchwright mcp login` writes";
            return Err(what.to_owned());
        }
        Ok(TokenContent { token: SecretString::from(text), registered: None })
    }

    fn text(&self) -> String {
        let token = self.token.expose_secret();
        match &self.registered {
            None => format!("{token}\n"),
            Some(Registered { issuer, id, redirect, scopes }) => {
                let written = json!({
                    "issuer": issuer, "client-id": id, "refresh-token": token,
                    "redirect-uri": redirect, "scopes": scopes,
                });
                format!("{written}\n")
            }
        }
    }
}

/// A token that nobody else uses meanwhile.
pub(super) struct StoredToken {
    path: PathBuf,
    kept: TokenContent,
    /// Where its successor is written: made before the token is used, with room for it, so that one that was replaced is
    /// not lost for want of a place.
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
        let kept = read(&path).map_err(&unusable)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let next = with_room(folder, &kept.text()).map_err(|err| {
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
        let path = self.path;
        let kept = put(self.next, &self.kept, &path);
        kept.map_err(|err| {
            format!(
                "the refresh token was replaced, and the new one could not be written into `{}` ({}): log in anew",
                path.display(),
                err.kind()
            )
        })
    }
}

/// Where the token of a login will be: looked at before anybody logs in, so that none is got in vain.
pub(super) struct FutureToken {
    path: PathBuf,
    next: NamedTempFile,
}

impl FutureToken {
    /// # Errors
    /// In a sentence, why nothing can be written there.
    pub(super) fn open(path: &Path) -> Result<FutureToken, Why> {
        // A link stays one.
        let path = fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let unwritable =
            |what: String| format!("the token file `{}` cannot be written: {what}", path.display());
        if path.is_dir() {
            return Err(unwritable("it is a folder".to_owned()));
        }
        // A pipe or a device would be replaced: for root, `/dev/null` as well.
        if path.exists() && !path.is_file() {
            return Err(unwritable("it is no ordinary file".to_owned()));
        }
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let next = with_room(parent.unwrap_or(Path::new(".")), "");
        let next = next.map_err(|err| {
            unwritable(format!("nothing can be written into its folder ({})", err.kind()))
        })?;
        Ok(FutureToken { path, next })
    }

    /// The client that was registered for the token that is there. What cannot be read, or may have been written by
    /// others, is passed over: another one is registered then.
    pub(super) fn registered(&self) -> Option<Registered> {
        read(&self.path).ok()?.registered
    }

    /// Puts a first token into the file, or another one in the place of one that counts no more.
    ///
    /// # Errors
    /// In a sentence, why it is not there.
    pub(super) async fn keep(self, kept: &TokenContent) -> Result<(), Why> {
        let unusable = |what: String| format!("the token file `{}` {what}", self.path.display());
        let _lock = lock(&self.path).await.map_err(&unusable)?;
        put(self.next, kept, &self.path)
            .map_err(|err| unusable(format!("cannot be written: {}", err.kind())))
    }
}

/// What is in the file of a path that is no link.
///
/// # Errors
/// What is wrong with it, to be said behind its name.
fn read(path: &Path) -> Result<TokenContent, String> {
    let unreadable = |err: std::io::Error| format!("cannot be read: {}", err.kind());
    let meta = fs_err::metadata(path).map_err(unreadable)?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "may be read by others (mode {mode:o}); `chmod 600` makes it yours alone"
        ));
    }
    if !meta.is_file() {
        return Err("is no file".to_owned());
    }
    if meta.len() > MAX_FILE {
        return Err(format!("has more than {MAX_FILE} bytes"));
    }
    TokenContent::parse(&fs_err::read_to_string(path).map_err(unreadable)?)
}

/// A new file that takes up as much of the disk as the next token may need.
fn with_room(folder: &Path, now: &str) -> std::io::Result<NamedTempFile> {
    let mut next = NamedTempFile::new_in(folder)?;
    let room = SPARE.saturating_add(now.len() as u64);
    // Not zeros, which some file systems keep as a hole.
    std::io::copy(&mut std::io::repeat(b'\n').take(room), &mut next)?;
    next.as_file().sync_all()?;
    next.rewind()?;
    Ok(next)
}

/// Writes the text and gives it its name, so that a crash leaves the old or the new one.
fn put(mut next: NamedTempFile, kept: &TokenContent, path: &Path) -> std::io::Result<()> {
    let text = kept.text();
    // Over what is there, which is cut off only then: the room would be anybody's in between.
    next.write_all(text.as_bytes())?;
    next.as_file().set_len(text.len() as u64)?;
    next.as_file().sync_all()?;
    next.persist(path).map_err(|err| err.error)?;
    // The name is on the disk only with its folder. Not every file system can do that.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
    Ok(())
}

async fn lock(path: &Path) -> Result<File, String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    // Whoever may open it can hold it, and with it every run.
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(PathBuf::from(name));
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use crate::mcp::oauth::stored::*;

    #[tokio::test]
    async fn there_is_room_for_the_next_token_before_the_old_one_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs_err::write(&path, "the-first\n").unwrap();
        fs_err::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let stored = StoredToken::open(&path).await.unwrap();
        let on_disk = stored.next.as_file().metadata().unwrap().blocks() * 512;
        assert!(on_disk >= SPARE, "{on_disk} bytes");
        stored.replace(&SecretString::from("the-second")).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "the-second\n");
    }
}
