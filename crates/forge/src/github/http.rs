//! One request to GitHub and its answer: headers, redirects within the API, bounded bodies, rate
//! limits and the repetition of reads.
//!
//! Called by the other files of this folder. It does not know what the answers mean; what a refusal
//! means is in [`super::refusal`]. Writes are never repeated here once they may have taken effect:
//! they come back as [`Written::Lost`], and the caller looks before it writes again.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use http::header::{HeaderMap, LOCATION, USER_AGENT};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::gate::Gate;
use super::limits::{self, LIMIT_WAITS, Limit, Limiter, WriteTurn};
use super::refusal;
use super::token::{Scope, Token};
use crate::ForgeError;

/// Attempts at a read, or at a write that may be repeated.
const ATTEMPTS: u32 = 5;
/// The largest answer that is read.
const LARGEST_BODY: usize = 32 * 1024 * 1024;
pub(super) const API_VERSION: &str = "2022-11-28";
pub(super) const AGENT: &str = concat!("patchwright/", env!("CARGO_PKG_VERSION"));

/// The API of one GitHub, and who we are there.
#[derive(Clone)]
pub(super) struct Api {
    http: reqwest::Client,
    /// Ends in `/`, for example `https://ghe.example.com/api/v3/`.
    root: Url,
    /// `https://ghe.example.com/api/graphql`.
    pub(super) graphql: Url,
    pub(super) token: Token,
    pub(super) limiter: Arc<Limiter>,
    pub(super) gate: Gate,
}

/// One request, and the words for its failure.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Below the API root, without a leading slash, encoded, with the query.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    /// What is read or written, for people: "issue `acme/app#7`".
    pub(super) thing: String,
    /// What is being done, for people: "comment on `acme/app#7`".
    pub(super) action: String,
    /// The permission that it takes: `issues: write`.
    pub(super) need: &'static str,
    /// Only the last so many bytes of the answer are wanted, and a redirect is an answer.
    pub(super) tail: Option<usize>,
    /// What it is about, which decides about the token; the same on further pages.
    pub(super) scope: Scope,
}

impl Call {
    pub(super) fn get(path: impl Into<String>, thing: impl Into<String>) -> Call {
        let thing = thing.into();
        let action = format!("read {thing}");
        let path = path.into();
        let scope = Scope::of(&path, None);
        Call { method: Method::GET, path, body: None, thing, action, need: "", tail: None, scope }
    }

    pub(super) fn write(method: Method, path: impl Into<String>, thing: impl Into<String>) -> Call {
        Call { method, ..Call::get(path, thing) }
    }

    pub(super) fn json(mut self, body: Value) -> Call {
        self.scope = Scope::of(&self.path, Some(&body));
        self.body = Some(body);
        self
    }

    /// Words for the failure: what was being done, and the permission that it takes.
    pub(super) fn in_order_to(mut self, action: impl Into<String>, need: &'static str) -> Call {
        self.action = action.into();
        self.need = need;
        self
    }

    pub(super) fn needs(mut self, need: &'static str) -> Call {
        self.need = need;
        self
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The answer came from another place than asked: a renamed or transferred thing.
    pub(super) redirected: bool,
}

/// What became of a write.
pub(super) enum Written {
    Answered(Reply),
    /// No answer, or a 5xx: it may or may not have taken effect.
    Lost(ForgeError),
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    /// Nothing was sent: a limit that lasts too long, or the gate said no.
    NotSent(ForgeError),
    /// What went wrong on the way.
    Broken(String),
}

impl From<String> for NoAnswer {
    fn from(message: String) -> NoAnswer {
        NoAnswer::Broken(message)
    }
}

impl Api {
    pub(super) fn new(
        http: reqwest::Client,
        mut root: Url,
        graphql: Url,
        token: Token,
        limiter: Limiter,
    ) -> Api {
        let limiter = Arc::new(limiter);
        if !root.path().ends_with('/') {
            root.set_path(&format!("{}/", root.path()));
        }
        root.set_query(None);
        root.set_fragment(None);
        Api { http, root, graphql, token, limiter, gate: Gate::open() }
    }

    /// The same API behind a gate.
    pub(super) fn gated(&self, gate: Gate) -> Api {
        Api { gate, ..self.clone() }
    }

    /// The same API with another token.
    pub(super) fn as_other(&self, token: Token) -> Api {
        Api { token, ..self.clone() }
    }

    pub(super) fn host(&self) -> String {
        let host = self.root.host_str().unwrap_or("GitHub");
        self.root.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Reads, with repetitions; an answer other than 2xx is an error.
    pub(super) async fn read(&self, call: &Call) -> Result<Reply, ForgeError> {
        let reply = self.repeat(call).await?;
        self.good(call, reply)
    }

    /// Writes something that may be written twice without harm, so it is repeated like a read. The
    /// second value says that an earlier attempt may have taken effect.
    pub(super) async fn write_repeatable(&self, call: &Call) -> Result<(Reply, bool), ForgeError> {
        let mut lost = None;
        for attempt in 1..=ATTEMPTS {
            match self.write(call).await? {
                Written::Answered(reply) => return Ok((reply, lost.is_some())),
                Written::Lost(err) => lost = Some(err),
            }
            if attempt < ATTEMPTS {
                self.limiter.back_off(attempt).await;
            }
        }
        Err(lost.unwrap_or_else(|| self.unavailable("no attempt was made")))
    }

    /// Writes once. Rate limits are waited for, because a refused write had no effect.
    pub(super) async fn write(&self, call: &Call) -> Result<Written, ForgeError> {
        for _ in 0..LIMIT_WAITS {
            let turn = self.limiter.write_turn().await;
            let answer = self.send(call, true).await;
            Limiter::written(turn);
            let reply = match answer {
                Ok(reply) => reply,
                Err(NoAnswer::NotSent(err)) => return Err(err),
                Err(NoAnswer::Broken(message)) => {
                    return Ok(Written::Lost(self.unavailable(message)));
                }
            };
            if self.wait_for_limit(call, &reply).await? {
                continue;
            }
            return Ok(if reply.status.is_server_error() {
                Written::Lost(self.broken(&reply))
            } else {
                Written::Answered(reply)
            });
        }
        Err(still_limited())
    }

    /// The reply when it is 2xx, the refusal otherwise.
    pub(super) fn good(&self, call: &Call, reply: Reply) -> Result<Reply, ForgeError> {
        if reply.status.is_success() {
            Ok(reply)
        } else {
            Err(refusal::explain(&self.host(), call, &reply, &self.secrets()))
        }
    }

    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        call: &Call,
        reply: &Reply,
    ) -> Result<T, ForgeError> {
        serde_json::from_slice(&reply.body).map_err(|err| ForgeError::Malformed {
            host: self.host(),
            message: format!(
                "{} could not be read: {}",
                call.thing,
                refusal::clean(&err.to_string(), &self.secrets())
            ),
        })
    }

    pub(super) async fn read_json<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<T, ForgeError> {
        let reply = self.read(call).await?;
        self.parse(call, &reply)
    }

    /// The path below the API root of an address that the API gave us. It has to be the API's own:
    /// the token goes nowhere else.
    pub(super) fn below_root(&self, address: &str) -> Result<String, ForgeError> {
        let foreign = |why: &str| ForgeError::Malformed {
            host: self.host(),
            message: format!("it points {why}"),
        };
        let url = self.root.join(address).map_err(|_| foreign("to an address that is none"))?;
        if url.origin() != self.root.origin() {
            return Err(foreign("to another host; the token is not sent there"));
        }
        let path = url.path().strip_prefix(self.root.path());
        let path = path.ok_or_else(|| foreign("outside its own API"))?;
        Ok(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
    }

    /// Sends until there is an answer that is neither a 5xx nor a rate limit.
    pub(super) async fn repeat(&self, call: &Call) -> Result<Reply, ForgeError> {
        let mut failures = 0;
        let mut limits = 0;
        loop {
            let err = match self.send(call, false).await {
                Ok(reply) if self.wait_for_limit(call, &reply).await? => {
                    limits += 1;
                    if limits >= LIMIT_WAITS {
                        return Err(still_limited());
                    }
                    continue;
                }
                Ok(reply) if !reply.status.is_server_error() => return Ok(reply),
                Ok(reply) => self.broken(&reply),
                Err(NoAnswer::NotSent(err)) => return Err(err),
                Err(NoAnswer::Broken(message)) => self.unavailable(message),
            };
            failures += 1;
            if failures >= ATTEMPTS {
                return Err(err);
            }
            self.limiter.back_off(failures).await;
        }
    }

    /// True when the answer was a rate limit: everybody waits now, and the caller asks again.
    async fn wait_for_limit(&self, call: &Call, reply: &Reply) -> Result<bool, ForgeError> {
        let limit = if call.path == self.graphql.as_str() {
            limits::limit_in_graphql(reply.status, &reply.headers, &reply.body)
        } else {
            limits::limit(reply.status, &reply.headers, &reply.body)
        };
        let Some(limit) = limit else {
            self.limiter.answered();
            return Ok(false);
        };
        self.told_to_wait(limit).await.map(|()| true)
    }

    /// A rate limit: everybody waits now, in other processes too.
    ///
    /// # Errors
    /// When it lasts longer than anybody waits.
    pub(super) async fn told_to_wait(&self, limit: Limit) -> Result<(), ForgeError> {
        let wait = match limit {
            Limit::For(wait) => wait,
            Limit::Unexplained => self.limiter.unexplained_wait(),
        };
        self.limiter.close_for(wait);
        self.gate.tell(self.limiter.scaled(wait)).await;
        if wait > self.limiter.pace().patience {
            return Err(limited(wait));
        }
        Ok(())
    }

    /// The turn to write, let through by the gate. For writes that are not a [`Call`].
    pub(super) async fn admitted(&self) -> Result<WriteTurn<'_>, ForgeError> {
        let turn = self.limiter.write_turn().await;
        self.pass(true).await?;
        Ok(turn)
    }

    /// Returns when the request may be sent at once.
    pub(super) async fn pass(&self, write: bool) -> Result<(), ForgeError> {
        loop {
            self.limiter.open().await.map_err(limited)?;
            if write {
                self.gate.ask().await?;
            } else {
                self.gate.read().await?;
            }
            // Somebody may have been told to wait while the gate let us wait.
            if self.limiter.closed_for().is_none() {
                return Ok(());
            }
        }
    }

    /// One request and, within the API, one redirect. The gate is asked before each.
    async fn send(&self, call: &Call, write: bool) -> Result<Reply, NoAnswer> {
        self.pass(write).await.map_err(NoAnswer::NotSent)?;
        let reply = self.exchange(call, &call.path).await?;
        let moved = call.tail.is_none() && matches!(reply.status.as_u16(), 301 | 302 | 307 | 308);
        let target = reply.headers.get(LOCATION).and_then(|to| to.to_str().ok());
        match target.map(|to| self.below_root(to)) {
            Some(Ok(path)) if moved => {
                self.pass(write).await.map_err(NoAnswer::NotSent)?;
                let reply = self.exchange(call, &path).await?;
                Ok(Reply { redirected: true, ..reply })
            }
            _ => Ok(reply),
        }
    }

    /// One request with these headers.
    pub(super) async fn exchange_as(
        &self,
        call: &Call,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Reply, NoAnswer> {
        let url = self.address(path)?;
        let mut request = self
            .http
            .request(call.method.clone(), url.clone())
            .headers(headers)
            .timeout(self.limiter.pace().timeout);
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|err| self.unanswered(err))?;
        // A shared client may follow redirects by itself; the answer still has to be the API's.
        if response.url().origin() != url.origin() {
            return Err("it redirected to another host".to_owned().into());
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = match call.tail {
            Some(most) => tail_of(response, most).await?,
            None => body_of(response).await?,
        };
        Ok(Reply { status, headers, body, redirected: false })
    }

    /// The address of a path below the root, or of the GraphQL API. Nothing else is sent the token.
    fn address(&self, path: &str) -> Result<Url, String> {
        let url = self.root.join(path).map_err(|err| err.to_string())?;
        if url.origin() == self.root.origin() || url == self.graphql {
            Ok(url)
        } else {
            Err("the way leads to another host".to_owned())
        }
    }

    /// The end of what is at an address of somebody else's, for example the storage that GitHub sends
    /// us to for logs: asked once, without the token, without following redirects. At most `most`
    /// bytes are held at any time. The address may be a secret, so no error repeats it.
    pub(super) async fn download_tail(
        &self,
        address: &str,
        most: usize,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let url = self.root.join(address).map_err(|_| "its address is none".to_owned())?;
        if url.scheme() != "https" && url.scheme() != self.root.scheme() {
            return Err("it is at an address that is not https".to_owned());
        }
        let timeout = self.limiter.pace().timeout;
        let request = self.http.get(url.clone()).header(USER_AGENT, AGENT).timeout(timeout);
        let response = request.send().await.map_err(transport_words)?;
        if response.url().origin() != url.origin() {
            return Err("it redirected to another host".to_owned());
        }
        let status = response.status();
        Ok((status, tail_of(response, most).await?))
    }

    pub(super) fn unavailable(&self, message: impl Into<String>) -> ForgeError {
        ForgeError::Unavailable { host: self.host(), message: message.into() }
    }

    /// What an answer says, in one line fit for people.
    pub(super) fn words(&self, reply: &Reply) -> String {
        refusal::message(reply, &self.secrets())
    }

    fn broken(&self, reply: &Reply) -> ForgeError {
        self.unavailable(format!("{}: {}", reply.status.as_u16(), self.words(reply)))
    }
}

/// The whole body, bounded.
async fn body_of(response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(transport_words)?);
        if body.len() > LARGEST_BODY {
            return Err(format!("its answer has more than {LARGEST_BODY} bytes"));
        }
    }
    Ok(body)
}

/// The last `most` bytes of the body, and one more when there was more, so that callers can tell.
async fn tail_of(response: reqwest::Response, most: usize) -> Result<Vec<u8>, String> {
    let most = most.saturating_add(1);
    let mut tail = VecDeque::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        tail.extend(chunk.map_err(transport_words)?);
        tail.drain(..tail.len().saturating_sub(most));
    }
    Ok(tail.into())
}

/// The error without the address, with its deepest cause.
pub(super) fn transport_words(err: reqwest::Error) -> String {
    let word = if err.is_timeout() {
        "no answer in time"
    } else if err.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let err = err.without_url();
    let mut cause = std::error::Error::source(&err);
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    match cause {
        Some(cause) => format!("{word}: {}", refusal::clean(&cause.to_string(), &[])),
        None => word.to_owned(),
    }
}

fn still_limited() -> ForgeError {
    ForgeError::RateLimited { until: format!("later; {LIMIT_WAITS} waits were not enough") }
}

pub(super) fn limited(wait: Duration) -> ForgeError {
    let minutes = wait.as_secs().div_ceil(60);
    ForgeError::RateLimited { until: format!("{minutes} minutes from now") }
}

/// One path segment, everything but unreserved characters escaped.
pub(super) fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    // `.` and `..` would be taken away by every URL parser on the way.
    match escaped.as_str() {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => escaped,
    }
}
