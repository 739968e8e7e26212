//! Models over HTTP: the shared client, and [`HttpProvider`], which sends a request until there is
//! a complete reply or no retry can help.
//!
//! The key is a header of one request to one address and is nowhere else: redirects are not
//! followed, and what a server answers is cleaned of it before it becomes a message. What the bytes
//! mean is the wires' business ([`super::wire`]); when to try again is [`super::retry`]'s.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::HeaderValue;
use reqwest::{Client, redirect};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{sleep, timeout};
use url::Url;

use self::accounts::{Account, Accounts};
use self::counting::{broken, estimate_missing};
use super::catalogue::Model;
use super::endpoint::{Endpoint, Key, KeyHeader, Route};
use super::explain;
use super::hosted::{self, Secrets};
use super::identity::IssuedCredential;
use super::item::{Item, carried_over};
use super::retry::{self, Policy};
use super::shared_limits::SharedLimits;
use super::wire;
use super::wire::fault::{Fault, FaultKind};
use super::{OnProgress, Progress, Provider, ProviderError, Reply, Request};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::proxies;
use patchwright_base::redact::Redactor;
use patchwright_base::roots;

mod accounts;
mod answer;
pub(super) mod anthropic;
mod authorized;
mod clean;
mod counting;
mod socket;

pub(super) use self::answer::{direct_fault, transport_fault};

/// How long to wait for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The one HTTP client of the process: rustls, the system's proxies, the system's roots (or those
/// of `SSL_CERT_FILE` and `SSL_CERT_DIR`) and the bundled Mozilla roots, so that it works in an image
/// without certificates. It follows no redirects, because a redirect would take credentials along.
///
/// # Errors
/// When a variable for a proxy names none, or there is no client to be had.
pub fn client() -> Result<Client> {
    let env = Env::from_process();
    proxies::check(&env)?;
    if proxies::are_off(&env) {
        return direct_client();
    }
    roots::build(builder)
        .map_err(|err| Failure::machine("cannot set up the HTTP client").caused_by(err))
}

/// A client that does not use the system's proxies, for services of the own machine.
pub(super) fn direct_client() -> Result<Client> {
    roots::build(|| builder().no_proxy())
        .map_err(|err| Failure::machine("cannot set up the HTTP client").caused_by(err))
}

/// A client for connections that are upgraded, which servers do not do in the second version of HTTP.
fn upgrading_client() -> Result<Client> {
    let env = Env::from_process();
    proxies::check(&env)?;
    let builder = || if proxies::are_off(&env) { builder().no_proxy() } else { builder() };
    roots::build(|| builder().http1_only())
        .map_err(|err| Failure::machine("cannot set up the HTTP client").caused_by(err))
}

fn builder() -> reqwest::ClientBuilder {
    Client::builder()
        .user_agent(concat!("patchwright/", env!("CARGO_PKG_VERSION")))
        // A redirect would send the key and the conversation to another address.
        .redirect(redirect::Policy::none())
        // Retries cost money and are counted and bounded by `retry`; hidden ones would be neither.
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(90))
        .tcp_keepalive(Duration::from_secs(30))
}

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
    endpoint: Endpoint,
    /// The base without credentials and query, for messages.
    shown: String,
    /// What declarations of hosted tools refer to.
    secrets: Secrets,
    /// `anthropic-version`, on the Messages wire.
    anthropic_version: HeaderValue,
    client: Client,
    policy: Policy,
    deadlines: Deadlines,
    accounts: Accounts,
    /// With other processes, where they have the same keys.
    limits: OnceLock<SharedLimits>,
    /// How many items of each conversation, by its key, the provider has sealed for another account.
    sealed: parking_lot::Mutex<HashMap<String, usize>>,
}

impl HttpProvider {
    /// A server by its base URL; see [`Endpoint::new`].
    ///
    /// # Errors
    /// When the URL or the key cannot be used.
    pub fn new(base_url: &str, key: Option<SecretString>, client: Client) -> Result<HttpProvider> {
        let key =
            key.map(|value| Key { value, name: "PATCHWRIGHT_API_KEY", sent: KeyHeader::AsWire });
        Ok(HttpProvider::at(Endpoint::new(base_url, Route::Wire, key)?, client))
    }

    /// A model at an endpoint.
    pub fn at(endpoint: Endpoint, client: Client) -> HttpProvider {
        HttpProvider {
            shown: endpoint.display_url(),
            accounts: Accounts::of(&endpoint),
            endpoint,
            secrets: Secrets::new(),
            anthropic_version: HeaderValue::from_static(anthropic::DEFAULT_VERSION),
            client,
            policy: Policy::default(),
            deadlines: Deadlines::default(),
            limits: OnceLock::new(),
            sealed: parking_lot::Mutex::default(),
        }
    }

    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> HttpProvider {
        self.policy = policy;
        self
    }

    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> HttpProvider {
        self.deadlines = deadlines;
        self
    }

    /// Secrets that declarations of hosted tools refer to.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Secrets) -> HttpProvider {
        self.secrets = secrets;
        self
    }

    /// The version of Anthropic's API to request, instead of `2023-06-01`.
    ///
    /// # Errors
    /// When it is not a date.
    pub fn with_anthropic_version(mut self, version: &str) -> Result<HttpProvider> {
        self.anthropic_version = anthropic::version(version)?;
        Ok(self)
    }

    /// One request and its answer. What a broken attempt may have cost is told to `progress`; `signed_in` learns when
    /// its credentials were fetched.
    async fn attempt(
        &self,
        account: &Account,
        prepared: &PreparedRequest<'_>,
        progress: OnProgress<'_>,
        signed_in: &mut Option<DateTime<Utc>>,
    ) -> Result<Reply, Fault> {
        if let Some(ended) = self.over_socket(account, prepared, progress).await {
            return ended;
        }
        let wire = prepared.model.wire;
        let (headers, asked) =
            self.headers(account, prepared.model, &prepared.url, &prepared.body).await?;
        *signed_in = asked;
        let sending = self
            .client
            .post(prepared.url.clone())
            .headers(headers)
            .body(prepared.body.clone())
            .send();
        let response = match timeout(self.deadlines.idle, sending).await {
            Ok(answered) => answered.map_err(|err| answer::transport_fault(&err))?,
            Err(_) => return Err(self.silence()),
        };
        if !response.status().is_success() {
            return answer::error_fault(wire, response, self.deadlines.idle).await.into_reply();
        }
        let mut incoming = answer::ResponseReader::new(wire, response, self.deadlines.idle);
        let outcome = incoming.run(progress).await.or_else(Fault::into_reply);
        if let Err(fault) = &outcome
            && incoming.has_started()
        {
            let guessed = || broken(prepared, prepared.body.len(), incoming.written());
            progress(Progress::Lost { usage: fault.usage.unwrap_or_else(guessed) });
        }
        outcome
    }

    fn silence(&self) -> Fault {
        let seconds = self.deadlines.idle.as_secs_f64();
        Fault::new(FaultKind::Unavailable, format!("no answer within {seconds} s"))
    }

    fn too_late(&self) -> Fault {
        let seconds = self.deadlines.turn.as_secs_f64();
        let message = format!("the turn was not finished within {seconds} s");
        Fault::new(FaultKind::Unavailable, message)
    }

    /// The retry loop of one turn.
    async fn attempts(
        &self,
        prepared: &PreparedRequest<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, Fault> {
        let deadline = Instant::now() + self.deadlines.turn;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut retries = prepared.policy.begin();
        let mut moves = 1;
        let mut has_renewed = false;
        loop {
            let Some(account) = self.accounts.next() else { return Err(self.too_late()) };
            // Other runs may close the gate again and again.
            let opening = async {
                account.open().await;
                account.open_to_all(self.limits.get()).await;
            };
            if timeout(left(), opening).await.is_err() {
                return Err(self.too_late());
            }
            let began = Instant::now();
            let mut signed_in = None;
            let attempt = self.attempt(account, prepared, progress, &mut signed_in);
            let fault = match timeout(left(), attempt).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(fault)) => self.clean(&fault),
                Err(_) => return Err(self.too_late()),
            };
            // Tokens are revoked, and roles change, before their time.
            if fault.kind == FaultKind::Authentication
                && !has_renewed
                && account.renew(signed_in).await
            {
                has_renewed = true;
                let why = format!("{}; credentials are fetched anew", fault.message);
                progress(Progress::Retrying { attempt: 2, wait: Duration::ZERO, why: &why });
                continue;
            }
            if self.accounts.can_move_on(account, &fault, self.policy.scale)
                && moves < self.accounts.count()
            {
                moves += 1;
                let (attempt, wait) = (moves.try_into().unwrap_or(u32::MAX), Duration::ZERO);
                let why = format!("{}; the next key is used", fault.message);
                progress(Progress::Retrying { attempt, wait, why: &why });
                continue;
            }
            // The wait includes the time of the failed attempt, so slow failures use up the budget
            // too.
            let Some(wait) = retries.next_wait(&fault, began.elapsed()) else { return Err(fault) };
            let real = self.policy.real(wait);
            // The limit belongs to the account, so other runs of this process wait as well.
            if fault.kind == FaultKind::RateLimited {
                account.close(real);
                account.close_to_all(self.limits.get(), real).await;
            }
            let attempt = retries.attempts();
            tracing::warn!(endpoint = %self.shown, attempt, ?wait, why = %fault.message, "retrying");
            progress(Progress::Retrying { attempt, wait, why: &fault.message });
            sleep(real.min(left())).await;
        }
    }

    /// One request with its retries.
    async fn ask(&self, request: &Request<'_>, progress: OnProgress<'_>) -> Result<Reply, Fault> {
        let wire = request.model.wire;
        let body = wire::encode(wire, request);
        let prepared = PreparedRequest {
            request,
            model: request.model,
            url: self.endpoint.url(wire, &request.model.slug),
            body: Bytes::from(self.endpoint.body(wire, body)),
            policy: if request.has_alternative { self.policy.brief() } else { self.policy.clone() },
        };
        let mut reply = self.attempts(&prepared, progress).await?;
        estimate_missing(&mut reply, request, prepared.body.len());
        wire::settle(wire, &mut reply, request.history);
        Ok(reply)
    }

    /// The history without what is known to be sealed for another account.
    fn readable<'h>(&self, request: &Request<'h>) -> Cow<'h, [Item]> {
        let sealed = self.sealed.lock().get(request.cache_key).copied().unwrap_or_default();
        match request.history.split_at_checked(sealed) {
            Some((sealed, open)) if !sealed.is_empty() => {
                Cow::Owned([&carried_over(sealed), open].concat())
            }
            // A history that is shorter was put together anew.
            Some(_) | None => Cow::Borrowed(request.history),
        }
    }

    /// The fault with a message that may be shown.
    fn clean(&self, fault: &Fault) -> Fault {
        let keys = self.endpoint.keys().map(|key| &key.value);
        let keys = keys.chain(self.secrets.values()).map(ExposeSecret::expose_secret);
        // Keys that were fetched, and what the operator adds, are known to every redactor.
        let message = Redactor::default().redact(&fault.message);
        Fault { message: clean::message(&message, keys), ..fault.clone() }
    }

    /// Fetches credentials, where the endpoint has no key of a variable, and says when they end.
    ///
    /// # Errors
    /// When there are none to be had, as a request would fail with.
    pub async fn sign_in(&self, model: &Model) -> Result<Option<IssuedCredential>, ProviderError> {
        let Some(identity) = self.endpoint.identity() else { return Ok(None) };
        match identity.current(&self.client).await {
            Ok(minted) => Ok(Some(minted)),
            Err(fault) => Err(self.error(model, &fault)),
        }
    }

    fn error(&self, model: &Model, fault: &Fault) -> ProviderError {
        let fault = self.clean(fault);
        let hint = explain::hint(&self.endpoint, model, &fault);
        let Fault { kind, message, wait, is_final: _, usage: _ } = fault;
        let message = match wait.filter(|wait| *wait > self.policy.total).map(retry::spoken) {
            Some(wait) => format!(
                "{message} (the provider asks for a wait of {wait}, longer than a run waits)"
            ),
            None => message,
        };
        let endpoint = self.shown.clone();
        match kind {
            FaultKind::RateLimited => ProviderError::RateLimited { endpoint, message, wait },
            FaultKind::Unavailable
            | FaultKind::Unreachable
            | FaultKind::ProxyUnreachable
            | FaultKind::Cut
            | FaultKind::Untrusted => ProviderError::Unavailable { endpoint, message, hint },
            FaultKind::Quota => ProviderError::Quota { endpoint, message },
            FaultKind::Authentication => ProviderError::Authentication { endpoint, message, hint },
            FaultKind::SignIn => ProviderError::SignIn { endpoint, message, hint },
            FaultKind::ContextOverflow => ProviderError::ContextOverflow { message },
            FaultKind::Filtered => ProviderError::Filtered { endpoint, message },
            FaultKind::Pictures => ProviderError::PicturesRefused { endpoint, message },
            FaultKind::Rejected(status) => {
                ProviderError::Rejected { endpoint, status, message, hint }
            }
            FaultKind::Forgotten | FaultKind::Sealed | FaultKind::UnreadableCall => {
                ProviderError::Rejected { endpoint, status: 400, message, hint }
            }
            FaultKind::Malformed => ProviderError::Malformed { endpoint, message, hint },
        }
    }
}

/// What is the same for every attempt.
struct PreparedRequest<'a> {
    request: &'a Request<'a>,
    model: &'a Model,
    url: Url,
    body: Bytes,
    policy: Policy,
}

#[async_trait]
impl Provider for HttpProvider {
    fn endpoint(&self) -> Option<&str> {
        Some(&self.shown)
    }

    fn share_limits(&self, limits: &SharedLimits) {
        // Who shares them already goes on as before.
        let _ = self.limits.set(limits.clone());
    }

    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        // Secrets are filled in here, on a copy: the declarations that are journalled keep their
        // names only.
        let filled = if self.secrets.is_empty() {
            Vec::new()
        } else {
            hosted::filled(request.tools, &self.secrets)
        };
        let tools = if self.secrets.is_empty() { request.tools } else { &filled };
        let history = self.readable(request);
        let request = Request { tools, history: &history, ..request.clone() };
        let asked = self.ask(&request, progress).await;
        let answered = match asked {
            // `previous_response_id` refers to a reply that the provider no longer stores. Sending
            // the whole conversation is equivalent.
            Err(fault) if fault.kind == FaultKind::Forgotten && request.previous.is_some() => {
                tracing::warn!(endpoint = %self.shown, "the last reply is not stored any more");
                self.ask(&Request { previous: None, ..request }, progress).await
            }
            // Thoughts are sealed for the account that had them, and the key is one of another.
            Err(fault) if fault.kind == FaultKind::Sealed && !is_open(request.history) => {
                tracing::warn!(endpoint = %self.shown, "earlier thoughts belong to another account");
                self.sealed.lock().insert(request.cache_key.to_owned(), request.history.len());
                let history = self.readable(&request);
                self.ask(&Request { history: &history, previous: None, ..request }, progress).await
            }
            answered => answered,
        };
        answered.map_err(|fault| self.error(request.model, &fault))
    }
}

/// Nothing in the history is sealed for anybody.
fn is_open(history: &[Item]) -> bool {
    carried_over(history).as_slice() == history
}
