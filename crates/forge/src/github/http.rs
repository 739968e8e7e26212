//! One call of GitHub's API through octocrab, its answer, and what may be done again.
//!
//! Called by the other files of this folder. It does not know what the answers mean; what a refusal
//! means is in [`super::refusal`], how a request gets to GitHub in [`super::layers`]. Writes are never
//! repeated here once they may have taken effect: they come back as [`WriteOutcome::Lost`], and the caller
//! looks before it writes again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use http::header::{ACCEPT, HeaderMap};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use octocrab::Octocrab;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::connection::{Addresses, Connection, Tail, TransportError};
use super::gate::Gate;
use super::layers::{self, ATTEMPTS, Admission, Effect, Redirected};
use super::limits::Limiter;
use super::refusal;
use super::token::{Scope, Token};
use crate::{ForgeError, WayThere};
use patchwright_base::error::Service;
use patchwright_base::github;

/// The API of one GitHub, and who we are there.
#[derive(Clone)]
pub(super) struct Api {
    connection: Connection,
    pub(super) token: Token,
    pub(super) limiter: Arc<Limiter>,
    pub(super) gate: Gate,
    /// Made by the first request: octocrab starts a task for its queue, which takes a runtime, and who
    /// makes an API need not be in one.
    octocrab: Arc<OnceLock<Octocrab>>,
    /// It has answered as the API does: its address is right, and a page is what something before it says.
    has_answered: Arc<AtomicBool>,
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
    /// Only the last bytes of the answer, this many, are wanted, and a redirect is an answer.
    pub(super) tail: Option<usize>,
    /// The form of the answer, where it is not the usual one.
    pub(super) accept: Option<&'static str>,
    /// What it is about, which decides about the token; the same on further pages.
    pub(super) scope: Scope,
}

impl Call {
    pub(super) fn get(path: impl Into<String>, thing: impl Into<String>) -> Call {
        let thing = thing.into();
        let action = format!("read {thing}");
        let path = path.into();
        let scope = Scope::of(&path);
        Call {
            method: Method::GET,
            path,
            body: None,
            thing,
            action,
            need: "",
            tail: None,
            accept: None,
            scope,
        }
    }

    pub(super) fn write(method: Method, path: impl Into<String>, thing: impl Into<String>) -> Call {
        Call { method, ..Call::get(path, thing) }
    }

    /// Asks for another form of the answer.
    pub(super) fn accept(mut self, form: &'static str) -> Call {
        self.accept = Some(form);
        self
    }

    pub(super) fn json(mut self, body: Value) -> Call {
        self.body = Some(body);
        self
    }

    /// Words for the failure: what was being done, and the permission that it takes.
    pub(super) fn for_action(mut self, action: impl Into<String>, need: &'static str) -> Call {
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
pub(super) enum WriteOutcome {
    Answered(Reply),
    /// No answer, or a 5xx: it may or may not have taken effect.
    Lost(ForgeError),
}

impl Api {
    pub(super) fn new(
        http: reqwest::Client,
        root: Url,
        graphql: Url,
        token: Token,
        limiter: Limiter,
    ) -> Api {
        let timeout = limiter.pace().timeout;
        let connection = Connection { http, addresses: Addresses::new(root, graphql), timeout };
        let limiter = Arc::new(limiter);
        Api {
            connection,
            token,
            limiter,
            gate: Gate::open(),
            octocrab: Arc::default(),
            has_answered: Arc::default(),
        }
    }

    /// This API behind a gate.
    pub(super) fn gated(&self, gate: Gate) -> Api {
        Api { gate, octocrab: Arc::default(), ..self.clone() }
    }

    /// This API with another token.
    pub(super) fn as_other(&self, token: Token) -> Api {
        Api { token, octocrab: Arc::default(), ..self.clone() }
    }

    /// The client, over our layers.
    fn octocrab(&self) -> &Octocrab {
        self.octocrab.get_or_init(|| {
            let connection = self.connection.clone();
            layers::client(connection, self.token.clone(), &self.limiter, &self.gate)
        })
    }

    /// Lets requests and pushes through.
    pub(super) fn admission(&self) -> Admission {
        Admission { limiter: Arc::clone(&self.limiter), gate: self.gate.clone() }
    }

    pub(super) fn host(&self) -> String {
        self.connection.addresses.host()
    }

    pub(super) fn graphql_url(&self) -> &Url {
        &self.connection.addresses.graphql
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
                WriteOutcome::Answered(reply) => return Ok((reply, lost.is_some())),
                WriteOutcome::Lost(err) => lost = Some(err),
            }
            if attempt < ATTEMPTS {
                self.limiter.back_off(attempt).await;
            }
        }
        Err(lost.unwrap_or_else(|| self.unavailable("no attempt was made")))
    }

    /// Writes once. Rate limits are waited for, because a refused write had no effect.
    pub(super) async fn write(&self, call: &Call) -> Result<WriteOutcome, ForgeError> {
        match self.send(call, Effect::Write).await {
            Ok(reply) if reply.status.is_server_error() => {
                Ok(WriteOutcome::Lost(self.broken(&reply)))
            }
            Ok(reply) => Ok(WriteOutcome::Answered(reply)),
            Err(TransportError::NotSent(err)) => Err(err),
            Err(TransportError::Broken(message)) => {
                Ok(WriteOutcome::Lost(self.unavailable(message)))
            }
            Err(TransportError::ProxyAway(message)) => {
                Ok(WriteOutcome::Lost(self.behind_proxy(message)))
            }
        }
    }

    /// The reply when it is 2xx, the refusal otherwise.
    pub(super) fn good(&self, call: &Call, reply: Reply) -> Result<Reply, ForgeError> {
        if reply.status.is_success() {
            return Ok(reply);
        }
        if let Some(meant) = self.meant_instead(&reply) {
            let message = format!("status {}; {meant}", reply.status.as_u16());
            return Err(ForgeError::Malformed { host: self.host(), message });
        }
        let mut err = refusal::explain(&self.host(), call, &reply, &self.secrets());
        if let ForgeError::Authentication { credential, .. } = &mut err {
            *credential = self.token.credential();
        }
        Err(err)
    }

    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        call: &Call,
        reply: &Reply,
    ) -> Result<T, ForgeError> {
        let read = serde_json::from_slice(&reply.body);
        if read.is_ok() {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        read.map_err(|err| {
            let meant = self.meant_instead(reply).map(|meant| format!("; {meant}"));
            let message = format!(
                "{} could not be read: {}{}",
                call.thing,
                refusal::clean(&err.to_string(), &self.secrets()),
                meant.unwrap_or_default()
            );
            ForgeError::Malformed { host: self.host(), message }
        })
    }

    /// Where GitHub's API most likely is, when the first answers are not JSON: the API answers in JSON whatever it says, the
    /// pages of the same server do not.
    fn meant_instead(&self, reply: &Reply) -> Option<String> {
        let is_json = reply.body.is_empty() || serde_json::from_slice::<Value>(&reply.body).is_ok();
        let is_known = is_json || self.has_answered.load(Ordering::Relaxed);
        let root = self.connection.addresses.root.as_str().trim_end_matches('/');
        let meant = Some(root).filter(|_| !is_known).and_then(github::meant_api)?;
        Some(format!(
            "this is no answer of GitHub's API, and `{root}` does not look like its address: set `GITHUB_API_URL` to \
             `{meant}`"
        ))
    }

    pub(super) async fn read_json<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<T, ForgeError> {
        let reply = self.read(call).await?;
        self.parse(call, &reply)
    }

    /// The path below the API root of an address that the API gave us.
    ///
    /// # Errors
    /// When it is not the API's own: the token goes nowhere else.
    pub(super) fn below_root(&self, address: &str) -> Result<String, ForgeError> {
        self.connection.addresses.below_root(address)
    }

    /// Sends until there is an answer that is neither a 5xx nor a rate limit.
    pub(super) async fn repeat(&self, call: &Call) -> Result<Reply, ForgeError> {
        match self.send(call, Effect::Read).await {
            Ok(reply) if reply.status.is_server_error() => Err(self.broken(&reply)),
            Ok(reply) => Ok(reply),
            Err(TransportError::NotSent(err)) => Err(err),
            Err(TransportError::Broken(message)) => Err(self.unavailable(message)),
            Err(TransportError::ProxyAway(message)) => Err(self.behind_proxy(message)),
        }
    }

    /// One call through octocrab. Its own `get` and `post` would turn an answer that is no success into
    /// an error without the body, from which people are told what GitHub refused and why.
    async fn send(&self, call: &Call, effect: Effect) -> Result<Reply, TransportError> {
        let url = self.connection.addresses.of(&call.path)?;
        let mut request = http::Request::builder()
            .method(call.method.clone())
            .uri(url.as_str())
            .extension(effect)
            .extension(call.scope.clone());
        if let Some(most) = call.tail {
            request = request.extension(Tail(most));
        }
        if let Some(form) = call.accept {
            request = request.header(ACCEPT, form);
        }
        let octocrab = self.octocrab();
        let request = octocrab.build_request(request, call.body.as_ref()).map_err(no_answer)?;
        // On the heap: every caller's future would hold the client's own otherwise, several kilobytes.
        let answer = Box::pin(octocrab.execute(request)).await.map_err(no_answer)?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(no_answer)?.to_bytes();
        let redirected = parts.extensions.get::<Redirected>().is_some();
        Ok(Reply { status: parts.status, headers: parts.headers, body: body.into(), redirected })
    }

    /// The end of what is at an address of somebody else's; see [`Connection::download_tail`].
    pub(super) async fn download_tail(
        &self,
        address: &str,
        most: usize,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        self.connection.download_tail(address, most).await
    }

    pub(super) fn unavailable(&self, message: impl Into<String>) -> ForgeError {
        ForgeError::Unavailable {
            service: Service::ForgeApi,
            host: self.host(),
            message: message.into(),
            way: WayThere::Open,
        }
    }

    fn behind_proxy(&self, message: String) -> ForgeError {
        ForgeError::Unavailable {
            service: Service::ForgeApi,
            host: self.host(),
            message,
            way: WayThere::ProxyAway,
        }
    }

    /// What an answer says, in one line fit for people.
    pub(super) fn words(&self, reply: &Reply) -> String {
        refusal::message(reply, &self.secrets())
    }

    fn broken(&self, reply: &Reply) -> ForgeError {
        self.unavailable(format!("{}: {}", reply.status.as_u16(), self.words(reply)))
    }
}

/// What our layers said, out of the client's error.
fn no_answer(err: octocrab::Error) -> TransportError {
    match err {
        octocrab::Error::Service { source, .. } => match source.downcast::<TransportError>() {
            Ok(ours) => *ours,
            Err(other) => TransportError::Broken(refusal::clean(&other.to_string(), &[])),
        },
        other => TransportError::Broken(refusal::clean(&other.to_string(), &[])),
    }
}

/// Everything but what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One path segment, everything but unreserved characters escaped.
pub(super) fn segment(text: &str) -> String {
    let escaped = utf8_percent_encode(text, ESCAPED).to_string();
    // `.` and `..` would be taken away by every URL parser on the way.
    match escaped.as_str() {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => escaped,
    }
}
