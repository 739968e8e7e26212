//! Remotes, and git's smart HTTP over our own HTTP client.
//!
//! What a server says is read by git's helper ([`super::helper`]), which has this process ask for it. So
//! proxies, private CAs and TLS are the ones of the rest of the program, and a token is a request
//! header inside this process: never part of a URL, an argument, a file or an error text. Called by
//! [`super::clone`] and [`super::push`]. It does not retry and knows nothing of refs or objects.
//!
//! Everything here blocks: call it from [`super::blocking`] or a thread of a tokio runtime's
//! blocking pool, never from async code itself.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use git2::Direction;
use git2::transport::{Service, Transport};
use reqwest::Client;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;
use url::Url;

use super::http::{Exchange, Session};
use super::stop::Stop;
use super::{GitError, Oid, helper, incoming, printable};

/// Who we are to a git server.
#[derive(Clone, Debug)]
pub struct Credentials {
    username: String,
    token: SecretString,
}

impl Credentials {
    /// A GitHub token of any kind.
    pub fn token(token: SecretString) -> Credentials {
        Credentials { username: "x-access-token".to_owned(), token }
    }

    /// The token itself, to tell whether it has ended.
    pub fn secret(&self) -> &SecretString {
        &self.token
    }

    fn header(&self) -> Result<HeaderValue, GitError> {
        let pair = format!("{}:{}", self.username, self.token.expose_secret());
        let mut value =
            HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
                .map_err(|_| GitError::Unacceptable("the token cannot be sent".to_owned()))?;
        // Keeps the token out of debug output and of HTTP/2 header compression.
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Bounds of one exchange with a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that a server may send in one operation.
    pub bytes: u64,
    /// Objects in one pack.
    pub objects: usize,
    /// Bytes of one file in it, unpacked.
    pub object: usize,
    /// Bytes of memory for reading it.
    pub memory: u64,
    /// Longest silence.
    pub idle: Duration,
    /// Longest operation.
    pub total: Duration,
    /// How often a fetch or push is tried within a few seconds when the connection breaks. Whoever
    /// waits out longer trouble tries once at a time.
    pub tries: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 4 << 30,
            objects: 10_000_000,
            object: 1 << 30,
            memory: 2 << 30,
            idle: Duration::from_mins(1),
            total: Duration::from_mins(15),
            tries: 3,
        }
    }
}

/// A repository somewhere else, and how it is reached.
#[derive(Clone, Debug)]
pub struct Remote {
    reach: Location,
    pub(super) limits: Limits,
    stop: Stop,
    is_second_version: bool,
    is_asked_always: bool,
}

#[derive(Clone, Debug)]
enum Location {
    Http { base: Url, client: Client, credentials: Option<Credentials> },
    Local(PathBuf),
}

impl Remote {
    /// A repository behind `http://` or `https://`. The credentials go to exactly this scheme, host
    /// and port, with the first request. A client that follows redirects by itself is fine: what does not end at
    /// the same scheme, host and port is refused.
    pub fn http(
        client: &Client,
        url: &str,
        credentials: Option<Credentials>,
    ) -> Result<Remote, GitError> {
        let unusable = |why: &str| GitError::Unacceptable(format!("the clone URL {why}"));
        let base = Url::parse(url).map_err(|error| unusable(&format!("is not a URL: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(unusable("must start with `https://`"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(unusable("must not contain credentials"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(unusable("must not have a query or fragment"));
        }
        let reach = Location::Http { base, client: client.clone(), credentials };
        let (limits, stop) = (Limits::default(), Stop::default());
        Ok(Remote { reach, limits, stop, is_second_version: false, is_asked_always: false })
    }

    /// A repository on this machine, bare or not. It is read and, if bare, pushed to.
    pub fn local(path: &Path) -> Remote {
        let reach = Location::Local(path.to_owned());
        let (limits, stop) = (Limits::default(), Stop::default());
        Remote { reach, limits, stop, is_second_version: false, is_asked_always: false }
    }

    /// The remote with other limits.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Remote {
        Remote { limits, ..self }
    }

    /// The remote without retries of broken connections.
    #[must_use]
    pub fn tried_once(mut self) -> Remote {
        self.limits.tries = 1;
        self
    }

    /// What people know it as. Never contains credentials.
    pub fn name(&self) -> String {
        match &self.reach {
            Location::Http { base, .. } => base.to_string(),
            Location::Local(path) => path.display().to_string(),
        }
    }

    /// The folder, when the repository is on this machine.
    pub(super) fn local_path(&self) -> Option<&Path> {
        match &self.reach {
            Location::Http { .. } => None,
            Location::Local(path) => Some(path),
        }
    }

    /// The remote with a stop: operations under way end when it says so.
    #[must_use]
    pub fn until(self, stop: Stop) -> Remote {
        Remote { stop, ..self }
    }

    /// The remote, asked also for commits that are here already: nobody else has asked the server whether these
    /// credentials may have them.
    #[must_use]
    pub fn asked_always(self) -> Remote {
        Remote { is_asked_always: true, ..self }
    }

    pub(super) fn is_asked_always(&self) -> bool {
        self.is_asked_always
    }

    /// The remote in version 2 of the protocol.
    pub(super) fn second_version(&self) -> Remote {
        Remote { is_second_version: true, ..self.clone() }
    }

    /// A way to it, for one operation.
    pub(super) fn line(&self) -> Result<Line<'_>, GitError> {
        let (base, client, credentials) = match &self.reach {
            Location::Http { base, client, credentials } => (base, client, credentials),
            Location::Local(path) => return Ok(Line::Local(path)),
        };
        let runtime = Handle::try_current()
            .map_err(|_| GitError::Machine("git over HTTP needs a tokio runtime".to_owned()))?;
        let authorization = credentials.as_ref().map(Credentials::header).transpose()?;
        let (client, limits, stop) = (client.clone(), self.limits, self.stop.clone());
        let session = Session::new(client, runtime, base.clone(), authorization, limits, stop);
        let session = if self.is_second_version { session.in_second_version() } else { session };
        Ok(Line::Http(Arc::new(session)))
    }
}

/// How one operation reaches its remote.
pub(super) enum Line<'a> {
    Http(Arc<Session>),
    Local(&'a Path),
}

impl Line<'_> {
    /// The refs of the remote, as it advertises them for fetching or for pushing.
    pub(super) fn heads(&self, direction: Direction) -> Result<Vec<(String, Oid)>, GitError> {
        match self {
            Line::Http(session) => helper::heads(session, direction),
            Line::Local(path) => {
                prepare()?;
                incoming::heads(&path.display().to_string(), direction)
            }
        }
    }
}

/// Posts to `git-receive-pack` and returns the whole answer.
pub(super) fn receive_pack(session: &Arc<Session>, body: Vec<u8>) -> Result<Vec<u8>, GitError> {
    const MAX_ANSWER: usize = 4 << 20;
    let mut answer = Vec::new();
    let mut exchange = Exchange::new(session.clone(), Service::ReceivePack, body);
    while let Some(piece) = exchange.more()? {
        answer.extend_from_slice(&piece);
        if answer.len() > MAX_ANSWER {
            break;
        }
    }
    Ok(answer)
}

/// libgit2's own words for a connection that broke without an HTTP error.
pub(super) fn connection_error(error: git2::Error) -> GitError {
    match error.class() {
        git2::ErrorClass::Net if error.message().contains("not our ref") => {
            GitError::NotFound(printable(error.message(), 200))
        }
        git2::ErrorClass::Net | git2::ErrorClass::Http => {
            GitError::Transport(printable(error.message(), 500))
        }
        _ if error.code() == git2::ErrorCode::Eof => {
            GitError::Transport(printable(error.message(), 500))
        }
        _ => GitError::Other(error),
    }
}

/// Makes libgit2 ours: no configuration from outside the repositories that we create, no ownership check
/// (it guards against configuration that starts programs, and libgit2 starts none), and no HTTP: that is
/// the helper's. Everything that opens a repository calls this first.
pub(super) fn prepare() -> Result<(), GitError> {
    prepare_with(|_| Err(git2::Error::from_str("git's helper talks to servers, nobody else")))
}

/// [`prepare`] with a transport for HTTP; the first one that is given stays.
#[expect(unsafe_code, reason = "libgit2 is configured through process-wide state")]
pub(super) fn prepare_with<F>(transport: F) -> Result<(), GitError>
where
    F: Fn(&git2::Remote<'_>) -> Result<Transport, git2::Error> + Clone + Send + Sync + 'static,
{
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    let configure = || -> Result<(), git2::Error> {
        use git2::ConfigLevel::{Global, ProgramData, System, XDG};
        // SAFETY: these calls change process-wide state of libgit2 without a lock, so nothing else
        // may use libgit2 meanwhile. `OnceLock` runs this once and makes every other caller wait
        // for it, and no function of `crate` touches libgit2 before calling `prepare`.
        unsafe {
            for level in [System, Global, XDG, ProgramData] {
                git2::opts::set_search_path(level, "/nonexistent")?;
            }
            git2::opts::set_verify_owner_validation(false)?;
            for scheme in ["http", "https"] {
                git2::transport::register(scheme, transport.clone())?;
            }
        }
        git2::opts::strict_object_creation(true);
        git2::opts::strict_hash_verification(true);
        Ok(())
    };
    PREPARED
        .get_or_init(|| configure().map_err(|error| error.message().to_owned()))
        .clone()
        .map_err(GitError::Machine)
}
