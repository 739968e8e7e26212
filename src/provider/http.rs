//! Models over HTTP: the shared client, and [`HttpProvider`], which sends a request until there is
//! a complete reply or no retry can help.
//!
//! The key is a header of one request to one address and is nowhere else: redirects are not
//! followed, and what a server answers is cleaned of it before it becomes a message. What the bytes
//! mean is the wires' business ([`super::wire`]); when to try again is [`super::retry`]'s.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Certificate, Client, redirect};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{sleep, timeout};
use url::Url;

use super::catalogue::Model;
use super::hosted::{self, Secrets};
use super::item::{Content, Item, Usage, Wire};
use super::retry::Policy;
use super::wire;
use super::wire::fault::{Fault, FaultKind};
use super::{OnProgress, Progress, Provider, ProviderError, Reply, Request};
use crate::error::{Failure, Result};

mod answer;
mod anthropic;
mod clean;

/// How long to wait for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where distributions keep the system's roots in one file.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The one HTTP client of the process: rustls, the system's proxies, the system's roots (or those
/// of `SSL_CERT_FILE` and `SSL_CERT_DIR`) and the bundled Mozilla roots, so that it works in an image
/// without certificates. It follows no redirects, because a redirect would take credentials along.
pub fn client() -> Result<Client> {
    let mozilla = || {
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        roots.filter_map(|der| Certificate::from_der(der).ok())
    };
    // One file instead of a folder with the same certificates in 200 files, where there is one.
    if let Some(system) = system_bundle()
        && let Ok(client) = builder().tls_certs_only(system.into_iter().chain(mozilla())).build()
    {
        return Ok(client);
    }
    builder()
        .tls_certs_merge(mozilla())
        .build()
        .map_err(|err| Failure::machine("cannot set up the HTTP client").caused_by(err))
}

fn builder() -> reqwest::ClientBuilder {
    Client::builder()
        .user_agent(concat!("patchwright/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(90))
        .tcp_keepalive(Duration::from_secs(30))
}

/// The system's roots from their one file; `None` when there is none or the user names others.
fn system_bundle() -> Option<Vec<Certificate>> {
    if crate::config::env::names_certificates() {
        return None;
    }
    let bundle = BUNDLES.iter().find_map(|path| fs_err::read(path).ok())?;
    Certificate::from_pem_bundle(&bundle).ok().filter(|roots| !roots.is_empty())
}

/// Versions of Google's API as they stand in addresses.
const VERSIONS: &[&str] = &["v1", "v1beta", "v1beta1", "v1alpha"];

/// How long an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Between two pieces of the answer, and before the first.
    pub idle: Duration,
    /// For one turn with all its attempts, so that a drip of single bytes cannot go on for ever.
    pub turn: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { idle: Duration::from_mins(5), turn: Duration::from_mins(30) }
    }
}

/// A model endpoint.
#[derive(Debug)]
pub struct HttpProvider {
    base: Url,
    /// The base without credentials and query, for messages.
    shown: String,
    key: Option<SecretString>,
    /// What declarations of hosted tools refer to.
    secrets: Secrets,
    /// `anthropic-version`, on the Messages wire.
    anthropic_version: HeaderValue,
    client: Client,
    policy: Policy,
    deadlines: Deadlines,
    /// No request before this moment: one run's rate limit is every run's.
    not_before: std::sync::Mutex<Option<Instant>>,
}

impl HttpProvider {
    /// An endpoint by its base URL (`https://api.openai.com/v1`; for Anthropic and Google without
    /// the version). Servers on the own machine may need no key.
    pub fn new(base_url: &str, key: Option<SecretString>, client: Client) -> Result<HttpProvider> {
        let invalid = |why: &str| {
            Failure::usage(format!("the base URL of the model is not usable: {why}"))
                .hint("give it like `https://api.openai.com/v1`, in `--base-url` or the provider's variable")
        };
        let base = Url::parse(base_url.trim()).map_err(|err| invalid(&err.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(invalid("it must start with `http://` or `https://`"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(invalid("it contains a user name or password"));
        }
        let mut shown = base.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        if let Some(key) = &key {
            bearer(key).map_err(|()| {
                Failure::usage("the model key contains characters that no key has")
                    .hint("check the variable for a line break or quotation marks")
            })?;
        }
        Ok(HttpProvider {
            shown: shown.as_str().trim_end_matches('/').to_owned(),
            base,
            key,
            secrets: Secrets::new(),
            anthropic_version: HeaderValue::from_static(anthropic::DEFAULT_VERSION),
            client,
            policy: Policy::default(),
            deadlines: Deadlines::default(),
            not_before: std::sync::Mutex::new(None),
        })
    }

    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> HttpProvider {
        self.policy = policy;
        self
    }

    /// Secrets that declarations of hosted tools refer to.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> HttpProvider {
        self.secrets = secrets;
        self
    }

    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> HttpProvider {
        self.deadlines = deadlines;
        self
    }

    /// The version of Anthropic's API that is asked for, instead of `2023-06-01`.
    ///
    /// # Errors
    /// When it is not a date.
    pub fn with_anthropic_version(mut self, version: &str) -> Result<HttpProvider> {
        self.anthropic_version = anthropic::version(version)?;
        Ok(self)
    }

    /// The address of the endpoint as it may be shown.
    pub fn endpoint(&self) -> &str {
        &self.shown
    }

    fn url(&self, wire: Wire, model: &str) -> Url {
        let mut url = self.base.clone();
        let mut path = wire::path(wire, model);
        // Vertex AI has the version before the publisher, and some write it into the base URL.
        let has_version =
            |mut parts: std::str::Split<'_, char>| parts.any(|it| VERSIONS.contains(&it));
        if wire == Wire::Gemini && url.path_segments().is_some_and(has_version) {
            path = path.trim_start_matches("v1beta/").to_owned();
        }
        let path = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        if wire == Wire::Gemini {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }

    fn headers(&self, model: &Model) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        // A compressed answer can be a bomb, and a stream of small events gains nothing.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let key = self.key.as_ref();
        let credential = match model.wire {
            Wire::Responses | Wire::Chat => key.map(|key| (header::AUTHORIZATION, bearer(key))),
            Wire::Messages => {
                anthropic::add(&mut headers, model, &self.anthropic_version, key);
                key.map(anthropic::credential)
            }
            Wire::Gemini => key.map(|key| (HeaderName::from_static("x-goog-api-key"), bare(key))),
        };
        if let Some((name, Ok(value))) = credential {
            headers.insert(name, value);
        }
        headers
    }

    /// One request and its answer. `spent` learns what a broken attempt may have cost.
    async fn attempt(
        &self,
        wire: Wire,
        prepared: &Prepared,
        progress: OnProgress<'_>,
        spent: &mut Usage,
    ) -> Result<Reply, Fault> {
        let sending = self
            .client
            .post(prepared.url.clone())
            .headers(prepared.headers.clone())
            .body(prepared.body.clone())
            .send();
        let response = match timeout(self.deadlines.idle, sending).await {
            Ok(answered) => answered.map_err(|err| answer::transport_fault(&err))?,
            Err(_) => return Err(self.silence()),
        };
        if !response.status().is_success() {
            return Err(answer::error_fault(wire, response, self.deadlines.idle).await);
        }
        let mut incoming = answer::Reading::new(wire, response, self.deadlines.idle);
        let outcome = incoming.run(progress).await;
        if outcome.is_err() && incoming.has_started() {
            spent.input += tokens(prepared.body.len());
            spent.output += tokens(incoming.received());
            spent.estimated = true;
        }
        outcome
    }

    fn silence(&self) -> Fault {
        let seconds = self.deadlines.idle.as_secs_f64();
        Fault::new(FaultKind::Unavailable, format!("no answer within {seconds} s"))
    }

    /// Waits until no rate limit stands in the way.
    async fn wait_for_gate(&self) {
        loop {
            let gate = *self.not_before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match gate.map(|at| at.saturating_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }

    fn close_gate(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut gate = self.not_before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *gate = Some(gate.map_or(until, |earlier| earlier.max(until)));
    }

    /// The retry loop of one turn.
    async fn attempts(
        &self,
        wire: Wire,
        prepared: &Prepared,
        progress: OnProgress<'_>,
    ) -> Result<Reply, Fault> {
        let deadline = Instant::now() + self.deadlines.turn;
        let mut retries = self.policy.begin();
        let mut spent = Usage::default();
        loop {
            self.wait_for_gate().await;
            let began = Instant::now();
            let left = deadline.saturating_duration_since(began);
            let attempt = self.attempt(wire, prepared, progress, &mut spent);
            let fault = match timeout(left, attempt).await {
                Ok(Ok(mut reply)) => {
                    reply.usage += spent;
                    return Ok(reply);
                }
                Ok(Err(fault)) => self.clean(&fault),
                Err(_) => {
                    let seconds = self.deadlines.turn.as_secs_f64();
                    let message = format!("the turn was not finished within {seconds} s");
                    return Err(Fault::new(FaultKind::Unavailable, message));
                }
            };
            let Some(wait) = retries.next_wait(&fault, began.elapsed()) else { return Err(fault) };
            let real = self.policy.real(wait);
            if fault.kind == FaultKind::RateLimited {
                self.close_gate(real);
            }
            let attempt = retries.attempts();
            tracing::warn!(endpoint = %self.shown, attempt, ?wait, why = %fault.message, "retrying");
            progress(Progress::Retrying { attempt, wait, why: &fault.message });
            sleep(real.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// One request with its retries.
    async fn ask(&self, request: &Request<'_>, progress: OnProgress<'_>) -> Result<Reply, Fault> {
        let wire = request.model.wire;
        let Some(body) = wire::encode(wire, request) else {
            let word = wire::word(wire);
            let message = format!("this build does not speak the `{word}` wire");
            return Err(Fault::new(FaultKind::Rejected(0), message));
        };
        let prepared = Prepared {
            url: self.url(wire, &request.model.slug),
            headers: self.headers(request.model),
            body: Bytes::from(body),
        };
        let mut reply = self.attempts(wire, &prepared, progress).await?;
        estimate_missing(&mut reply, prepared.body.len());
        wire::settle(wire, &mut reply, request.history);
        Ok(reply)
    }

    /// The fault with a message that may be shown.
    fn clean(&self, fault: &Fault) -> Fault {
        let keys = self.key.iter().chain(self.secrets.values()).map(ExposeSecret::expose_secret);
        Fault { message: clean::message(&fault.message, keys), ..fault.clone() }
    }

    fn error(&self, fault: &Fault) -> ProviderError {
        let Fault { kind, message, wait, is_final: _ } = self.clean(fault);
        let endpoint = self.shown.clone();
        match kind {
            FaultKind::RateLimited => ProviderError::RateLimited { endpoint, message, wait },
            FaultKind::Unavailable | FaultKind::Cut => {
                ProviderError::Unavailable { endpoint, message }
            }
            FaultKind::Quota => ProviderError::Quota { endpoint, message },
            FaultKind::Authentication => ProviderError::Authentication { endpoint, message },
            FaultKind::ContextOverflow => ProviderError::ContextOverflow { message },
            FaultKind::Filtered => ProviderError::Filtered { endpoint, message },
            FaultKind::Forgotten => ProviderError::Rejected { endpoint, status: 400, message },
            FaultKind::Rejected(status) => ProviderError::Rejected { endpoint, status, message },
            FaultKind::Malformed => ProviderError::Malformed { endpoint, message },
        }
    }
}

/// What is the same for every attempt.
struct Prepared {
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

#[async_trait]
impl Provider for HttpProvider {
    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        let filled = if self.secrets.is_empty() {
            Vec::new()
        } else {
            hosted::filled(request.tools, &self.secrets)
        };
        let tools = if self.secrets.is_empty() { request.tools } else { &filled };
        let request = Request { tools, ..request.clone() };
        let asked = self.ask(&request, progress).await;
        let answered = match asked {
            // The stored reply has expired: the whole conversation says the same.
            Err(fault) if fault.kind == FaultKind::Forgotten && request.previous.is_some() => {
                tracing::warn!(endpoint = %self.shown, "the last reply is not stored any more");
                self.ask(&Request { previous: None, ..request }, progress).await
            }
            answered => answered,
        };
        answered.map_err(|fault| self.error(&fault))
    }
}

/// A server that counts no tokens gets our own count, on the high side.
fn estimate_missing(reply: &mut Reply, sent: usize) {
    if !reply.usage.estimated {
        return;
    }
    if reply.usage.input == 0 {
        reply.usage.input = tokens(sent);
    }
    if reply.usage.output == 0 {
        reply.usage.output = tokens(reply.items.iter().map(length).sum());
    }
}

fn length(item: &Item) -> usize {
    match item {
        Item::Message(message) => message
            .content
            .iter()
            .map(|part| match part {
                Content::Text { text } | Content::Refusal { text } => text.len(),
                Content::Image { data, .. } => data.len(),
            })
            .sum(),
        Item::Reasoning(thought) => thought.summary.iter().map(String::len).sum(),
        Item::Call(call) => call.payload.as_str().len(),
        Item::Output(_) | Item::Opaque(_) => 0,
    }
}

/// An upper estimate of the tokens in so many bytes of JSON: English and code have about four
/// bytes a token.
fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3)
}

fn bearer(key: &SecretString) -> Result<HeaderValue, ()> {
    sensitive(format!("Bearer {}", key.expose_secret()))
}

fn bare(key: &SecretString) -> Result<HeaderValue, ()> {
    sensitive(key.expose_secret().to_owned())
}

/// A header value that is left out of debug output.
fn sensitive(text: String) -> Result<HeaderValue, ()> {
    let mut value = HeaderValue::try_from(text).map_err(|_| ())?;
    value.set_sensitive(true);
    Ok(value)
}
