//! One conversation with a git server over HTTP: requests, redirects, statuses and limits. Driven by git's
//! helper ([`super::helper`]) and by [`super::push`]; waits for the asynchronous client on the calling
//! thread.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use git2::transport::Service;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Client, Response, StatusCode};
use tokio::runtime::Handle;
use url::Url;

use super::stop::Stop;
use super::transport::Limits;
use super::{Denial, GitError, printable, rate_limit, refusal};
use patchwright_base::error::chain;
use patchwright_base::proxies;

/// GitHub decides by this whether a URL without `.git` is meant for git.
const AGENT: &str = concat!("git/2.0 (patchwright/", env!("CARGO_PKG_VERSION"), ")");

/// Most bytes of a refusal that are read.
const MAX_EXPLANATION: usize = 8 << 10;

/// One operation on one remote.
pub(super) struct Session {
    client: Client,
    runtime: Handle,
    /// Where the repository is; changes when the server says that it was renamed.
    base: Mutex<Url>,
    authorization: Option<HeaderValue>,
    limits: Limits,
    /// Version 2 of the protocol is spoken; otherwise what servers take for the oldest.
    is_second_version: bool,
    deadline: Instant,
    stop: Stop,
    received: AtomicU64,
    has_answered: AtomicBool,
}

impl Session {
    pub(super) fn new(
        client: Client,
        runtime: Handle,
        base: Url,
        authorization: Option<HeaderValue>,
        limits: Limits,
        stop: Stop,
    ) -> Session {
        let latest = Instant::now() + limits.total;
        let deadline = stop.deadline.map_or(latest, |deadline| deadline.min(latest));
        Session {
            client,
            runtime,
            base: Mutex::new(base),
            authorization,
            limits,
            is_second_version: false,
            deadline,
            stop,
            received: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
        }
    }

    /// This session in version 2 of the protocol.
    pub(super) fn in_second_version(self) -> Session {
        Session { is_second_version: true, ..self }
    }

    /// Where the repository is, as far as we know.
    pub(super) fn url(&self) -> String {
        self.base().to_string()
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether what is there has answered as a git server, whatever it said.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// When this conversation is to end.
    pub(super) fn stop(&self) -> Stop {
        Stop { cancel: self.stop.cancel.clone(), deadline: Some(self.deadline) }
    }

    fn base(&self) -> Url {
        self.base.lock().clone()
    }

    /// Waits for one step of the exchange, at most until the silence or the operation is too long.
    fn wait<T>(
        &self,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, GitError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let wait = left.min(self.limits.idle);
        // The idle limit starts anew with every chunk; only the deadline bounds a server that drips
        // bytes.
        let stopped = self.stop.cancel.cancelled();
        let step = async {
            tokio::select! {
                result = tokio::time::timeout(wait, step) => Some(result),
                () = stopped => None,
            }
        };
        match self.runtime.block_on(step) {
            Some(Ok(Ok(value))) => Ok(value),
            Some(Ok(Err(error))) => {
                // reqwest puts the URL into its messages, and a URL may hold credentials that a
                // user typed.
                let proxy = proxies::of_error(&error);
                let why = chain(&error.without_url());
                Err(match proxy {
                    Some(proxy) => {
                        let why = format!("no connection {proxy}: {why}");
                        GitError::ProxyAway(printable(&why, 500))
                    }
                    None => GitError::Transport(printable(&why, 500)),
                })
            }
            None => self.stop.check().and(Err(GitError::Machine("it was stopped".to_owned()))),
            Some(Err(_)) => Err(GitError::Transport(format!(
                "`{}` did not answer within {} s",
                host(&self.base()),
                wait.as_secs()
            ))),
        }
    }

    fn send(&self, service: Service, body: Vec<u8>) -> Result<Response, GitError> {
        let response = self.request(service, body)?;
        // GitHub redirects `info/refs` of a renamed repository. A redirected POST is refused below:
        // by then the base is the new one, so another redirect means something else.
        if response.status().is_redirection() && is_advertisement(service) {
            self.follow(&response)?;
            return self.check(self.request(service, Vec::new())?, service);
        }
        self.check(response, service)
    }

    fn request(&self, service: Service, body: Vec<u8>) -> Result<Response, GitError> {
        let url = endpoint(&self.base(), service);
        let asked = url.clone();
        let mut request = if is_advertisement(service) {
            self.client.get(url)
        } else {
            let kind = format!("application/x-{}-request", program(service));
            self.client.post(url).header(CONTENT_TYPE, kind).body(body)
        };
        request = request.header(USER_AGENT, AGENT).header(ACCEPT, content_type(service));
        if self.is_second_version {
            request = request.header("Git-Protocol", "version=2");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = self.wait(request.timeout(self.limits.total).send())?;
        // The token was sent with this request, so an answer from another origin is not one to work
        // with.
        if response.url().origin() != self.base().origin() {
            return Err(elsewhere(&self.base()));
        }
        if is_advertisement(service) && response.url().path() != asked.path() {
            // The client followed a redirect itself.
            self.move_to(response.url())?;
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
        self.move_to(&target)
    }

    fn move_to(&self, target: &Url) -> Result<(), GitError> {
        let base = self.base();
        let path = target.path().strip_suffix("/info/refs").unwrap_or_default();
        if target.origin() != base.origin() || path.is_empty() {
            return Err(elsewhere(&base));
        }
        let mut moved = base;
        moved.set_path(path);
        *self.base.lock() = moved;
        Ok(())
    }

    /// Turns a status that is not a success into what it means for us.
    fn check(&self, response: Response, service: Service) -> Result<Response, GitError> {
        let url = self.base().to_string();
        let status = response.status();
        if status.is_success() {
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            // A login page answers with status 200 too.
            if kind == Some(content_type(service).as_str()) {
                self.has_answered.store(true, Ordering::Relaxed);
                return Ok(response);
            }
            return Err(GitError::Unacceptable(format!("`{url}` does not answer as a git server")));
        }
        let headers = response.headers().clone();
        let body = match status {
            // GitHub explains these two in the body: a rate limit, SSO, or a disabled repository.
            // Other bodies are pages for people.
            StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => self.explanation(response),
            _ => Vec::new(),
        };
        if let Some(limit) = rate_limit::limit(status, &headers, &body) {
            return Err(GitError::Limited { url, limit });
        }
        Err(match status {
            StatusCode::UNAUTHORIZED => GitError::Authentication { url },
            StatusCode::FORBIDDEN => {
                let message = refusal::explanation(&body);
                GitError::Forbidden { url, why: Denial::from_message(&message), message }
            }
            // GitHub also answers 404 for a private repository without access.
            StatusCode::NOT_FOUND | StatusCode::GONE => GitError::NotFound(url),
            StatusCode::PAYLOAD_TOO_LARGE => GitError::TooLarge { url },
            _ if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                GitError::Transport(format!("`{url}` answered with status {}", status.as_u16()))
            }
            _ if status.is_redirection() => elsewhere(&self.base()),
            _ => {
                GitError::Unacceptable(format!("`{url}` answered with status {}", status.as_u16()))
            }
        })
    }

    /// The beginning of an error body.
    fn explanation(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < MAX_EXPLANATION {
            match self.wait(response.chunk()) {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        body.truncate(MAX_EXPLANATION);
        body
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

/// One request and its answer. Reading the first piece sends the request.
pub(super) struct Exchange {
    session: Arc<Session>,
    service: Service,
    body: Vec<u8>,
    response: Option<Response>,
}

impl Exchange {
    pub(super) fn new(session: Arc<Session>, service: Service, body: Vec<u8>) -> Exchange {
        Exchange { session, service, body, response: None }
    }

    /// The next piece of the answer, which is not empty; `None` at the end.
    pub(super) fn more(&mut self) -> Result<Option<Bytes>, GitError> {
        let mut response = match self.response.take() {
            Some(response) => response,
            None => self.session.send(self.service, std::mem::take(&mut self.body))?,
        };
        let chunk = loop {
            match self.session.wait(response.chunk())? {
                // libgit2 takes an empty read for the end of the answer.
                Some(chunk) if chunk.is_empty() => {}
                chunk => break chunk,
            }
        };
        self.response = Some(response);
        let size = chunk.as_ref().map_or(0, Bytes::len) as u64;
        let total = self.session.received.fetch_add(size, Ordering::Relaxed) + size;
        let most = self.session.limits.bytes;
        if total > most {
            return Err(GitError::Unacceptable(format!(
                "the server sent more than {most} bytes; fetch less history, or look at what makes the \
                 repository so large"
            )));
        }
        Ok(chunk)
    }
}
