//! Git's smart HTTP over our own HTTP client, as a libgit2 subtransport.
//!
//! So proxies, private CAs and TLS are the ones of the rest of the program, and a token is a request
//! header inside this process: never part of a URL, an argument, a file or an error text. Called by
//! [`super::clone`] and [`super::push`]. It does not retry and knows nothing of refs or objects.
//!
//! Everything here blocks: call it from [`super::blocking`] or a thread of a tokio runtime's
//! blocking pool, never from async code itself.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, Bytes};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Client, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;
use url::Url;

use super::{GitError, printable};

/// GitHub decides by this whether a URL without `.git` is meant for git.
const AGENT: &str = concat!("git/2.0 (patchwright/", env!("CARGO_PKG_VERSION"), ")");

/// Largest request body: a push is a bounded change, a negotiation is small.
const MAX_REQUEST: usize = 1 << 30;

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

    fn header(&self) -> Result<HeaderValue, GitError> {
        let pair = format!("{}:{}", self.username, self.token.expose_secret());
        let mut value =
            HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
                .map_err(|_| GitError::Unacceptable("the token cannot be sent".to_owned()))?;
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
    /// Longest silence.
    pub idle: Duration,
    /// Longest operation.
    pub total: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 4 << 30,
            objects: 10_000_000,
            idle: Duration::from_mins(1),
            total: Duration::from_mins(15),
        }
    }
}

/// A repository somewhere else, and how it is reached.
#[derive(Clone, Debug)]
pub struct Remote {
    reach: Reach,
    pub(super) limits: Limits,
}

#[derive(Clone, Debug)]
enum Reach {
    Http { base: Url, client: Client, credentials: Option<Credentials> },
    Local(PathBuf),
}

impl Remote {
    /// A repository behind `http://` or `https://`. The credentials go to exactly this scheme, host
    /// and port, with the first request. `client` must not follow redirects by itself.
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
        let reach = Reach::Http { base, client: client.clone(), credentials };
        Ok(Remote { reach, limits: Limits::default() })
    }

    /// A repository on this machine, bare or not. It is read and, if bare, pushed to.
    pub fn local(path: &Path) -> Remote {
        Remote { reach: Reach::Local(path.to_owned()), limits: Limits::default() }
    }

    /// The same remote under other limits.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Remote {
        Remote { limits, ..self }
    }

    /// What people know it as. Never contains credentials.
    pub fn name(&self) -> String {
        match &self.reach {
            Reach::Http { base, .. } => base.to_string(),
            Reach::Local(path) => path.display().to_string(),
        }
    }

    /// The folder, when the repository is on this machine.
    pub(super) fn local_path(&self) -> Option<&Path> {
        match &self.reach {
            Reach::Http { .. } => None,
            Reach::Local(path) => Some(path),
        }
    }

    /// Calls `work` with the URL for libgit2 while this thread's connections go to this remote. What
    /// the server answered (401, 403, 404, a cut) takes precedence over libgit2's words for it.
    pub(super) fn run<T>(
        &self,
        work: impl FnOnce(&str) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        prepare()?;
        let Reach::Http { base, client, credentials } = &self.reach else {
            return work(&self.name());
        };
        let runtime = Handle::try_current()
            .map_err(|_| GitError::Machine("git over HTTP needs a tokio runtime".to_owned()))?;
        let session = Arc::new(Session {
            client: client.clone(),
            runtime,
            base: Mutex::new(base.clone()),
            authorization: credentials.as_ref().map(Credentials::header).transpose()?,
            limits: self.limits,
            deadline: Instant::now() + self.limits.total,
            received: AtomicU64::new(0),
            failure: Mutex::new(None),
        });
        let previous = SESSION.replace(Some(session.clone()));
        let result = work(base.as_str());
        SESSION.replace(previous);
        let failure = session.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (result, failure) {
            (Err(GitError::Other(_)), Some(failure)) => Err(failure),
            (Err(GitError::Other(error)), None) => Err(connection_error(error)),
            (result, _) => result,
        }
    }
}

/// Posts to `git-receive-pack` of the remote that this thread talks to and returns the whole answer.
/// Only inside [`Remote::run`].
pub(super) fn receive_pack(body: Vec<u8>) -> Result<Vec<u8>, GitError> {
    const MAX_ANSWER: u64 = 4 << 20;
    let session = SESSION.with_borrow(Clone::clone);
    let session = session.ok_or_else(|| GitError::Machine("no connection is open".to_owned()))?;
    let mut answer = Vec::new();
    let mut exchange = Exchange::new(session.clone(), Service::ReceivePack);
    exchange.write_all(&body)?;
    let read = exchange.take(MAX_ANSWER).read_to_end(&mut answer);
    match session.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(failure) => Err(failure),
        None => {
            read?;
            Ok(answer)
        }
    }
}

/// libgit2's own words for a connection that broke without an HTTP error.
fn connection_error(error: git2::Error) -> GitError {
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

/// Makes libgit2 ours: our transport for HTTP, no configuration from outside the repositories that
/// we create, no ownership check (it guards against configuration that starts programs, and libgit2
/// starts none). Everything that opens a repository calls this first.
#[expect(unsafe_code, reason = "libgit2 is configured through process-wide state")]
pub(super) fn prepare() -> Result<(), GitError> {
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    let configure = || -> Result<(), git2::Error> {
        use git2::ConfigLevel::{Global, ProgramData, System, XDG};
        // SAFETY: these calls change process-wide state of libgit2 without a lock, so nothing else
        // may use libgit2 meanwhile. `OnceLock` runs this once and makes every other caller wait
        // for it, and no function of `crate::git` touches libgit2 before calling `prepare`.
        unsafe {
            for level in [System, Global, XDG, ProgramData] {
                git2::opts::set_search_path(level, "/nonexistent")?;
            }
            git2::opts::set_verify_owner_validation(false)?;
            for scheme in ["http", "https"] {
                git2::transport::register(scheme, |remote| {
                    let session = SESSION.with_borrow(Clone::clone);
                    let session = session.ok_or_else(|| {
                        git2::Error::from_str("no connection was prepared for this thread")
                    })?;
                    Transport::smart(remote, true, Subtransport { session })
                })?;
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

thread_local! {
    /// The remote that this thread talks to; libgit2 makes connections on the calling thread.
    static SESSION: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// One operation on one remote.
struct Session {
    client: Client,
    runtime: Handle,
    /// Where the repository is; changes when the server says that it was renamed.
    base: Mutex<Url>,
    authorization: Option<HeaderValue>,
    limits: Limits,
    deadline: Instant,
    received: AtomicU64,
    /// The first thing that went wrong, in our terms.
    failure: Mutex<Option<GitError>>,
}

impl Session {
    fn base(&self) -> Url {
        self.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the failure for [`Remote::run`] and gives libgit2 something to fail with.
    fn fail(&self, failure: GitError) -> io::Error {
        let text = failure.to_string();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        io::Error::other(text.replace('\0', " "))
    }

    /// Waits for one step of the exchange, at most until the silence or the operation is too long.
    fn wait<T>(
        &self,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, GitError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let wait = left.min(self.limits.idle);
        match self.runtime.block_on(async { tokio::time::timeout(wait, step).await }) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(GitError::Transport(describe(error))),
            Err(_) => Err(GitError::Transport(format!(
                "`{}` did not answer within {} s",
                host(&self.base()),
                wait.as_secs()
            ))),
        }
    }

    fn send(&self, service: Service, body: Vec<u8>) -> Result<Response, GitError> {
        let response = self.request(service, body)?;
        if response.status().is_redirection() && is_advertisement(service) {
            self.follow(&response)?;
            return self.check(self.request(service, Vec::new())?, service);
        }
        self.check(response, service)
    }

    fn request(&self, service: Service, body: Vec<u8>) -> Result<Response, GitError> {
        let url = endpoint(&self.base(), service);
        let mut request = if is_advertisement(service) {
            self.client.get(url)
        } else {
            let kind = format!("application/x-{}-request", program(service));
            self.client.post(url).header(CONTENT_TYPE, kind).body(body)
        };
        request = request.header(USER_AGENT, AGENT).header(ACCEPT, content_type(service));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = self.wait(request.timeout(self.limits.total).send())?;
        if response.url().origin() != self.base().origin() {
            return Err(elsewhere(&self.base()));
        }
        Ok(response)
    }

    /// Moves to where a renamed repository is now: the same scheme, host and port, or nowhere.
    fn follow(&self, response: &Response) -> Result<(), GitError> {
        let base = self.base();
        let target = response
            .headers()
            .get(LOCATION)
            .and_then(|location| location.to_str().ok())
            .and_then(|location| response.url().join(location).ok())
            .ok_or_else(|| elsewhere(&base))?;
        let path = target.path().strip_suffix("/info/refs").unwrap_or_default().to_owned();
        if target.origin() != base.origin() || path.is_empty() {
            return Err(elsewhere(&base));
        }
        let mut moved = base;
        moved.set_path(&path);
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = moved;
        Ok(())
    }

    /// Turns a status that is not a success into what it means for us.
    fn check(&self, response: Response, service: Service) -> Result<Response, GitError> {
        let url = self.base().to_string();
        let status = response.status();
        if status.is_success() {
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind == Some(content_type(service).as_str()) {
                return Ok(response);
            }
            return Err(GitError::Unacceptable(format!("`{url}` does not answer as a git server")));
        }
        Err(match status {
            StatusCode::UNAUTHORIZED => GitError::Authentication { url },
            StatusCode::FORBIDDEN => {
                GitError::Forbidden { url, message: self.explanation(response) }
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => GitError::NotFound(url),
            _ if status.is_server_error()
                || status == StatusCode::TOO_MANY_REQUESTS
                || status == StatusCode::REQUEST_TIMEOUT =>
            {
                GitError::Transport(format!("`{url}` answered with status {}", status.as_u16()))
            }
            _ if status.is_redirection() => elsewhere(&self.base()),
            _ => {
                GitError::Unacceptable(format!("`{url}` answered with status {}", status.as_u16()))
            }
        })
    }

    /// The first words of an error body, for people.
    fn explanation(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        while body.len() < 2_000 {
            match self.wait(response.chunk()) {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        printable(&String::from_utf8_lossy(&body), 300)
    }
}

fn is_advertisement(service: Service) -> bool {
    matches!(service, Service::UploadPackLs | Service::ReceivePackLs)
}

fn program(service: Service) -> &'static str {
    match service {
        Service::UploadPackLs | Service::UploadPack => "git-upload-pack",
        Service::ReceivePackLs | Service::ReceivePack => "git-receive-pack",
    }
}

fn content_type(service: Service) -> String {
    let part = if is_advertisement(service) { "advertisement" } else { "result" };
    format!("application/x-{}-{part}", program(service))
}

fn endpoint(base: &Url, service: Service) -> Url {
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/');
    if is_advertisement(service) {
        url.set_path(&format!("{path}/info/refs"));
        url.set_query(Some(&format!("service={}", program(service))));
    } else {
        url.set_path(&format!("{path}/{}", program(service)));
    }
    url
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

fn elsewhere(base: &Url) -> GitError {
    GitError::Unacceptable(format!("`{base}` redirects to another place, which is not followed"))
}

/// The error with its causes, without the URL's query.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    printable(&text, 500)
}

struct Subtransport {
    session: Arc<Session>,
}

impl SmartSubtransport for Subtransport {
    fn action(
        &self,
        _url: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        Ok(Box::new(Exchange::new(self.session.clone(), service)))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// One request and its answer: what is written becomes the body, the first read sends it.
struct Exchange {
    session: Arc<Session>,
    service: Service,
    body: Vec<u8>,
    response: Option<Response>,
    chunk: Bytes,
}

impl Exchange {
    fn new(session: Arc<Session>, service: Service) -> Exchange {
        Exchange { session, service, body: Vec::new(), response: None, chunk: Bytes::new() }
    }

    fn more(&mut self) -> Result<Option<Bytes>, GitError> {
        let mut response = match self.response.take() {
            Some(response) => response,
            None => self.session.send(self.service, std::mem::take(&mut self.body))?,
        };
        let chunk = self.session.wait(response.chunk())?;
        self.response = Some(response);
        let size = chunk.as_ref().map_or(0, Bytes::len) as u64;
        let total = self.session.received.fetch_add(size, Ordering::Relaxed) + size;
        if total > self.session.limits.bytes {
            return Err(GitError::Unacceptable(format!(
                "the server sent more than {} bytes",
                self.session.limits.bytes
            )));
        }
        Ok(chunk)
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.more() {
                Ok(Some(chunk)) => self.chunk = chunk,
                Ok(None) => return Ok(0),
                Err(failure) => return Err(self.session.fail(failure)),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.body.len() + bytes.len() > MAX_REQUEST {
            let failure = GitError::Unacceptable("the push is larger than 1 GiB".to_owned());
            return Err(self.session.fail(failure));
        }
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
