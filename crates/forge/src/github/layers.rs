//! The layers between octocrab and the connection: resends and limits, redirects within the API, the
//! gate, and the token. From the outside in:
//!
//! [`Resends`] → [`Redirects`] → [`Admission`] → [`Authentication`] → [`Connection`]
//!
//! octocrab itself is built without a client, a retry policy, a cache or a token of its own, so that
//! these are all there is. A lost answer to a write is looked up above octocrab, by the caller, which
//! knows what it wrote; [`Resends`] never repeats a write that may have taken effect.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
use secrecy::{ExposeSecret, SecretString};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use super::connection::{Addresses, BufferedResponse, Connection, Request, Tail, TransportError};
use super::gate::Gate;
use super::limits::{self, LIMIT_WAITS, Limit, LimitedAccount, Limiter};
use super::token::{Scope, Token};
use super::waiting;
use crate::{Credential, ForgeError};
use patchwright_base::error;

/// Attempts at a read, or at a write that may be repeated.
pub(super) const ATTEMPTS: u32 = 5;

/// In a request's extensions: whether it may be sent again. Without it, the method decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Changes nothing, or nothing that matters when it happens twice.
    Read,
    /// Sent once. Only a refused write is sent again, because it had no effect.
    Write,
}

impl Effect {
    fn of(request: &Request) -> Effect {
        let by_method = || match *request.method() {
            Method::GET | Method::HEAD => Effect::Read,
            _ => Effect::Write,
        };
        request.extensions().get().copied().unwrap_or_else(by_method)
    }
}

/// In an answer's extensions: it came from another place than asked, a renamed or transferred thing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redirected;

/// octocrab over these layers and this connection.
pub(super) fn client(
    connection: Connection,
    token: Token,
    limiter: &Arc<Limiter>,
    gate: &Gate,
) -> Octocrab {
    let addresses = connection.addresses.clone();
    let scopes = RequestScopes { token, addresses: addresses.clone() };
    let admission = Admission { limiter: Arc::clone(limiter), gate: gate.clone() };
    let resends = Resends { admission: admission.clone(), scopes: scopes.clone() };
    // One stack, because each of octocrab's `with_layer` wants a service of its streaming bodies below.
    let service = ServiceBuilder::new()
        .layer(WholeBodyLayer)
        .layer(MiddlewareLayer(resends))
        .layer(MiddlewareLayer(Redirects { addresses }))
        .layer(MiddlewareLayer(AdmissionLayer { admission, scopes: scopes.clone() }))
        .layer(MiddlewareLayer(Authentication(scopes)))
        .service(connection);
    let built: Result<Octocrab, Infallible> = OctocrabBuilder::new_empty()
        .with_service(service)
        // The token differs by what a request is about, which only our layer knows.
        .with_auth(AuthState::None)
        .build();
    match built {
        Ok(client) => client,
        Err(never) => match never {},
    }
}

/// A service that takes and gives whole bodies.
trait InnerService:
    Service<Request, Response = BufferedResponse, Error = TransportError, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> InnerService for S where
    S: Service<Request, Response = BufferedResponse, Error = TransportError, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// What a layer does with a request and the service below it.
trait Middleware: Clone + Send + Sync + 'static {
    fn pass(
        self,
        request: Request,
        below: impl InnerService,
    ) -> impl Future<Output = Result<BufferedResponse, TransportError>> + Send;
}

/// A [`Middleware`] as a tower layer, and as the service that the layer makes.
#[derive(Clone)]
struct MiddlewareLayer<T>(T);

#[derive(Clone)]
struct MiddlewareService<T, S> {
    step: T,
    below: S,
}

impl<T: Middleware, S> Layer<S> for MiddlewareLayer<T> {
    type Service = MiddlewareService<T, S>;

    fn layer(&self, below: S) -> MiddlewareService<T, S> {
        MiddlewareService { step: self.0.clone(), below }
    }
}

impl<T: Middleware, S: InnerService> Service<Request> for MiddlewareService<T, S> {
    type Response = BufferedResponse;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<BufferedResponse, TransportError>>;

    /// Readiness is asked of the service below by each request that goes there.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(self.step.clone().pass(request, self.below.clone()))
    }
}

/// The outermost layer: octocrab's bodies are streams, ours are whole, so that they can be sent again.
struct WholeBodyLayer;

#[derive(Clone)]
struct WholeBodyService<S>(S);

impl<S> Layer<S> for WholeBodyLayer {
    type Service = WholeBodyService<S>;

    fn layer(&self, below: S) -> WholeBodyService<S> {
        WholeBodyService(below)
    }
}

impl<S: InnerService> Service<http::Request<OctoBody>> for WholeBodyService<S> {
    type Response = http::Response<Full<Bytes>>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Self::Response, TransportError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<OctoBody>) -> Self::Future {
        let below = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|err| err.to_string())?.to_bytes();
            let answer = below.oneshot(Request::from_parts(parts, body)).await?;
            Ok(answer.map(Full::new))
        })
    }
}

/// Sends reads again after trouble, and everything again after a rate limit.
#[derive(Clone)]
struct Resends {
    admission: Admission,
    scopes: RequestScopes,
}

impl Middleware for Resends {
    async fn pass(
        self,
        request: Request,
        below: impl InnerService,
    ) -> Result<BufferedResponse, TransportError> {
        match Effect::of(&request) {
            Effect::Read => self.read(request, below).await,
            Effect::Write => self.write(request, below).await,
        }
    }
}

impl Resends {
    /// Sends until there is an answer that is neither a 5xx nor a rate limit; a 5xx to the last attempt
    /// is the answer.
    async fn read(
        &self,
        request: Request,
        below: impl InnerService,
    ) -> Result<BufferedResponse, TransportError> {
        let (mut failures, mut limits, since) = (0, 0, Instant::now());
        loop {
            let answer = below.clone().oneshot(request.clone()).await;
            match &answer {
                Ok(reply) if self.wait_for_limit(&request, reply).await? => {
                    limits += 1;
                    if limits >= LIMIT_WAITS {
                        return Err(TransportError::NotSent(still_limited()));
                    }
                    continue;
                }
                Ok(reply) if !reply.status().is_server_error() => {
                    waiting::api_answers(&self.scopes.addresses.host());
                    return answer;
                }
                Err(TransportError::NotSent(_)) => return answer,
                Ok(_) | Err(TransportError::Broken(_) | TransportError::ProxyAway(_)) => {}
            }
            failures += 1;
            if failures >= ATTEMPTS {
                return answer;
            }
            let host = self.scopes.addresses.host();
            waiting::for_api(&host, &answer, (failures, since), ATTEMPTS - failures);
            self.admission.limiter.back_off(failures).await;
        }
    }

    /// Sends one write at a time, with a gap to the last one.
    async fn write(
        &self,
        request: Request,
        below: impl InnerService,
    ) -> Result<BufferedResponse, TransportError> {
        let account = self.scopes.limited_account(&request)?;
        for _ in 0..LIMIT_WAITS {
            let turn = self.admission.limiter.write_turn(&account).await;
            let answer = below.clone().oneshot(request.clone()).await;
            Limiter::written(turn);
            let answer = answer?;
            if !self.wait_for_limit(&request, &answer).await? {
                return Ok(answer);
            }
        }
        Err(TransportError::NotSent(still_limited()))
    }

    /// True when the answer was a rate limit, after the wait was announced: the request is sent again.
    async fn wait_for_limit(
        &self,
        request: &Request,
        answer: &BufferedResponse,
    ) -> Result<bool, TransportError> {
        let Resends { admission, scopes } = self;
        let account = scopes.limited_account(request)?;
        let url = scopes.addresses.of_request(request.uri())?;
        let limit = if url == scopes.addresses.graphql {
            limits::limit_in_graphql(answer.status(), answer.headers(), answer.body())
        } else {
            limits::limit(answer.status(), answer.headers(), answer.body())
        };
        let Some(limit) = limit else {
            admission.limiter.answered(&account);
            waiting::limit_is_over(&scopes.addresses.host(), &account);
            if !answer.status().is_server_error() {
                admission.gate.works(error::Service::ForgeApi);
            }
            return Ok(false);
        };
        let wait = admission.report_limit(&account, limit).await;
        let wait = wait.map_err(TransportError::NotSent)?;
        waiting::for_limit(&scopes.addresses.host(), &account, wait);
        Ok(true)
    }
}

/// Follows one redirect, when it stays within the API.
#[derive(Clone)]
struct Redirects {
    addresses: Addresses,
}

impl Middleware for Redirects {
    async fn pass(
        self,
        mut request: Request,
        below: impl InnerService,
    ) -> Result<BufferedResponse, TransportError> {
        let answer = below.clone().oneshot(request.clone()).await?;
        let wants_tail = request.extensions().get::<Tail>().is_some();
        let moved = !wants_tail && matches!(answer.status().as_u16(), 301 | 302 | 307 | 308);
        let target = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let Some(Ok(path)) = target.filter(|_| moved).map(|to| self.addresses.below_root(to))
        else {
            return Ok(answer);
        };
        let url = self.addresses.of(&path)?;
        *request.uri_mut() =
            url.as_str().parse().map_err(|_| "it redirected to nowhere".to_owned())?;
        let mut answer = below.oneshot(request).await?;
        answer.extensions_mut().insert(Redirected);
        Ok(answer)
    }
}

/// Whose requests these are: what each is about, and the token for that.
#[derive(Clone)]
struct RequestScopes {
    token: Token,
    addresses: Addresses,
}

impl RequestScopes {
    /// What a request is about: as its maker says, else what its address says.
    fn of(&self, request: &Request) -> Result<Scope, String> {
        if let Some(scope) = request.extensions().get::<Scope>() {
            return Ok(scope.clone());
        }
        let url = self.addresses.of_request(request.uri())?;
        let path = self.addresses.below_root(url.as_str());
        Ok(path.map_or(Scope::Anywhere, |path| Scope::of(&path)))
    }

    fn limited_account(&self, request: &Request) -> Result<LimitedAccount, String> {
        Ok(self.token.limited_account(&self.of(request)?))
    }
}

/// Lets a request through when nobody was told to wait and the gate agrees.
#[derive(Clone)]
pub(super) struct Admission {
    pub(super) limiter: Arc<Limiter>,
    pub(super) gate: Gate,
}

/// [`Admission`] for each request.
#[derive(Clone)]
struct AdmissionLayer {
    admission: Admission,
    scopes: RequestScopes,
}

impl Middleware for AdmissionLayer {
    async fn pass(
        self,
        request: Request,
        below: impl InnerService,
    ) -> Result<BufferedResponse, TransportError> {
        let account = self.scopes.limited_account(&request)?;
        let admitted = self.admission.admit(Effect::of(&request), &account).await;
        admitted.map_err(TransportError::NotSent)?;
        below.oneshot(request).await
    }
}

impl Admission {
    /// Returns when the request may be sent at once.
    pub(super) async fn admit(
        &self,
        effect: Effect,
        account: &LimitedAccount,
    ) -> Result<(), ForgeError> {
        loop {
            self.open(account).await?;
            match effect {
                Effect::Write => self.gate.ask(account).await?,
                Effect::Read => self.gate.read(account).await?,
            }
            // Somebody may have been told to wait while the gate let us wait.
            if self.limiter.closed_for(account).is_none() {
                return Ok(());
            }
        }
    }

    /// Returns when nobody has been told to wait for the account any more.
    ///
    /// # Errors
    /// When it lasts longer than anybody waits.
    pub(super) async fn open(&self, account: &LimitedAccount) -> Result<(), ForgeError> {
        let Err(left) = self.limiter.open(account).await else { return Ok(()) };
        // This gate may be another one than that which heard of the limit.
        self.gate.tell(account, self.limiter.scaled(left)).await;
        Err(limits::limited(left))
    }

    /// A rate limit: everybody waits for the account now, in other processes too. How long.
    ///
    /// # Errors
    /// When it lasts longer than anybody waits.
    pub(super) async fn report_limit(
        &self,
        account: &LimitedAccount,
        limit: Limit,
    ) -> Result<Duration, ForgeError> {
        let wait = match limit {
            Limit::For(wait) => wait,
            Limit::Unexplained => self.limiter.unexplained_wait(account),
        };
        self.limiter.close_for(account, wait);
        self.gate.tell(account, self.limiter.scaled(wait)).await;
        if wait > self.limiter.pace().patience {
            return Err(limits::limited(wait));
        }
        Ok(wait)
    }
}

/// Adds the token for what the request is about, and another one when that was refused, which had no
/// effect.
#[derive(Clone)]
struct Authentication(RequestScopes);

impl Middleware for Authentication {
    async fn pass(
        self,
        mut request: Request,
        below: impl InnerService,
    ) -> Result<BufferedResponse, TransportError> {
        let scope = self.0.of(&request)?;
        let tokens = &self.0.token;
        let token = tokens.for_scope(&scope).await.map_err(TransportError::NotSent)?;
        authorize(&mut request, &token, tokens.credential())?;
        let answer = below.clone().oneshot(request.clone()).await?;
        let renew = answer.status() == StatusCode::UNAUTHORIZED
            && tokens.refused(&token, Some(answer.headers()));
        if !renew {
            return Ok(answer);
        }
        let token = tokens.for_scope(&scope).await.map_err(TransportError::NotSent)?;
        authorize(&mut request, &token, tokens.credential())?;
        below.oneshot(request).await
    }
}

fn authorize(
    request: &mut Request,
    token: &SecretString,
    credential: Credential,
) -> Result<(), TransportError> {
    if !token.expose_secret().is_empty() {
        // No outage, although nothing was sent: it will not do later either.
        let value = bearer(token, credential).map_err(TransportError::NotSent)?;
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(())
}

/// What a request says about who sends it.
///
/// # Errors
/// When the token has what no header can carry, such as a line break.
pub(super) fn bearer(
    token: &SecretString,
    credential: Credential,
) -> Result<HeaderValue, ForgeError> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
    let mut value = value.map_err(|_| ForgeError::Authentication {
        credential,
        message: "it has a line break, or another character that no token has".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn still_limited() -> ForgeError {
    ForgeError::RateLimited { until: format!("later; {LIMIT_WAITS} waits were not enough") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use octocrab::Octocrab;
    use parking_lot::Mutex;
    use secrecy::SecretString;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use url::Url;

    use crate::ForgeError;
    use crate::github::connection::{Addresses, Connection};
    use crate::github::gate::Gate;
    use crate::github::layers::{ATTEMPTS, client};
    use crate::github::limits::{Limiter, Pace};
    use crate::github::token::Token;

    type Seen = Arc<Mutex<Vec<String>>>;

    /// Answers everything with this status, and keeps the heads of the requests.
    async fn server(status: &'static str) -> (Url, Seen) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/v3/", listener.local_addr().unwrap()).parse().unwrap();
        let seen = Seen::default();
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                kept.lock().push(String::from_utf8(head).unwrap().to_lowercase());
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (url, seen)
    }

    fn octocrab(root: Url, gate: &Gate) -> Octocrab {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let graphql = root.join("../graphql").unwrap();
        let addresses = Addresses::new(root, graphql);
        let pace = Pace { scale: 0.0, ..Pace::default() };
        let connection = Connection { http, addresses, timeout: Duration::from_secs(30) };
        let token = Token::Fixed(SecretString::from("of-a-test"));
        client(connection, token, &Arc::new(Limiter::new(pace)), gate)
    }

    #[tokio::test]
    async fn an_endpoint_of_the_client_itself_passes_all_layers() {
        let (root, seen) = server("204 No Content").await;
        octocrab(root, &Gate::open()).issues("acme", "app").delete_comment(7.into()).await.unwrap();
        let seen = seen.lock();
        let [head] = seen.as_slice() else { panic!("{seen:?}") };
        for line in [
            "delete /api/v3/repos/acme/app/issues/comments/7 http/1.1\r\n",
            "\r\nauthorization: bearer of-a-test\r\n",
            concat!("\r\nuser-agent: patchwright/", env!("CARGO_PKG_VERSION"), "\r\n"),
            "\r\nx-github-api-version: 2022-11-28\r\n",
        ] {
            assert_eq!(head.matches(line).count(), 1, "{line} in {head}");
        }
    }

    #[tokio::test]
    async fn the_client_repeats_nothing_that_the_layers_do_not_repeat() {
        let (root, seen) = server("502 Bad Gateway").await;
        let octocrab = octocrab(root, &Gate::open());
        octocrab.issues("acme", "app").delete_comment(7.into()).await.unwrap_err();
        assert_eq!(seen.lock().len(), 1);
        octocrab.issues("acme", "app").get(7).await.unwrap_err();
        assert_eq!(seen.lock().len(), 1 + usize::try_from(ATTEMPTS).unwrap());
    }

    #[tokio::test]
    async fn the_gate_stops_a_write_and_the_token_goes_to_no_other_host() {
        let (root, seen) = server("204 No Content").await;
        let closed = Gate::new(
            |_| Box::pin(async { Err(ForgeError::state("the lease is lost".to_owned())) }),
            |_, _| Box::pin(async {}),
        );
        let closed = octocrab(root.clone(), &closed);
        closed.issues("acme", "app").delete_comment(7.into()).await.unwrap_err();
        let (other, elsewhere) = server("204 No Content").await;
        let open = octocrab(root, &Gate::open());
        open._get(other.as_str()).await.map(|_| ()).unwrap_err();
        assert!(seen.lock().is_empty() && elsewhere.lock().is_empty());
    }
}
