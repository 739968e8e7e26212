//! Where requests go and the connection at the bottom of the client: one request over the shared
//! [`reqwest::Client`], its answer read to its end and bounded.
//!
//! Everything above it is in [`super::layers`]. The token goes to the API and to GraphQL only, so
//! anything else is refused here, at the last place before the network.

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_LENGTH, HeaderValue, USER_AGENT};
use http::{StatusCode, Uri};
use patchwright_base::{proxies, roots};
use tower::Service;
use url::Url;

use super::refusal;
use crate::ForgeError;

/// The largest answer that is read.
const LARGEST_BODY: usize = 32 * 1024 * 1024;
const API_VERSION: &str = "2022-11-28";
const AGENT: &str = concat!("patchwright/", env!("CARGO_PKG_VERSION"));

/// A request with its whole body, so that it can be sent again.
pub(super) type Request = http::Request<Bytes>;
/// An answer, read to its end.
pub(super) type BufferedResponse = http::Response<Bytes>;

/// In a request's extensions: only the last bytes of the answer, this many, are wanted, and a redirect
/// is an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail(pub(super) usize);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    /// Nothing was sent: a limit that lasts too long, or the gate said no.
    #[error(transparent)]
    NotSent(ForgeError),
    /// What went wrong on the way.
    #[error("{0}")]
    Broken(String),
    /// The proxy that requests go by cannot be connected to.
    #[error("{0}")]
    ProxyAway(String),
}

impl From<String> for TransportError {
    fn from(message: String) -> TransportError {
        TransportError::Broken(message)
    }
}

/// The addresses of one GitHub.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    /// Ends in `/`, for example `https://ghe.example.com/api/v3/`.
    pub(super) root: Url,
    /// `https://ghe.example.com/api/graphql`, which is not below the root.
    pub(super) graphql: Url,
}

impl Addresses {
    pub(super) fn new(mut root: Url, graphql: Url) -> Addresses {
        if !root.path().ends_with('/') {
            root.set_path(&format!("{}/", root.path()));
        }
        root.set_query(None);
        root.set_fragment(None);
        Addresses { root, graphql }
    }

    pub(super) fn host(&self) -> String {
        let host = self.root.host_str().unwrap_or("GitHub");
        self.root.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The address of a path below the root, or of the GraphQL API.
    ///
    /// # Errors
    /// When it is anybody else's.
    pub(super) fn of(&self, path: &str) -> Result<Url, String> {
        let url = self.root.join(path).map_err(|err| err.to_string())?;
        if url.origin() == self.root.origin() || url == self.graphql {
            Ok(url)
        } else {
            Err("the way leads to another host".to_owned())
        }
    }

    /// The address that a request is for. The client's own endpoints give a path alone, which is meant
    /// below the root.
    pub(super) fn of_request(&self, uri: &Uri) -> Result<Url, String> {
        let whole = uri.to_string();
        let path = if uri.authority().is_none() {
            whole.strip_prefix('/').unwrap_or(&whole)
        } else {
            whole.as_str()
        };
        self.of(path)
    }

    /// The path below the API root of an address that the API gave us.
    ///
    /// # Errors
    /// When it is not the API's own: the token goes nowhere else.
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
}

/// The service at the bottom: sends once, follows nothing, repeats nothing.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) http: reqwest::Client,
    pub(super) addresses: Addresses,
    /// The longest that one request may take, its answer's body included.
    pub(super) timeout: Duration,
}

impl Service<Request> for Connection {
    type Response = BufferedResponse;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<BufferedResponse, TransportError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let connection = self.clone();
        Box::pin(async move { connection.send(request).await })
    }
}

impl Connection {
    async fn send(&self, request: Request) -> Result<BufferedResponse, TransportError> {
        let (parts, body) = request.into_parts();
        let url = self.addresses.of_request(&parts.uri)?;
        let mut headers = parts.headers;
        // The client of this crate says who it is; octocrab's endpoints may ask for a media type.
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert("x-github-api-version", HeaderValue::from_static(API_VERSION));
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/vnd.github+json"));
        // reqwest counts by itself.
        headers.remove(CONTENT_LENGTH);
        let mut request =
            self.http.request(parts.method, url.clone()).headers(headers).timeout(self.timeout);
        if !body.is_empty() {
            request = request.body(body);
        }
        let response = request.send().await.map_err(|err| self.unanswered(err))?;
        // A shared client may follow redirects by itself; the answer still has to be the API's.
        if response.url().origin() != url.origin() {
            return Err("it redirected to another host".to_owned().into());
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = match parts.extensions.get::<Tail>() {
            Some(Tail(most)) => tail_of(response, *most).await?,
            None => body_of(response).await?,
        };
        let mut answer = BufferedResponse::new(body.into());
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    /// The end of what is at an address of somebody else's, for example the storage that GitHub sends
    /// us to for logs: asked once, without the token, without following redirects. At most `most`
    /// bytes are held at any time. The address may be a secret, so no error repeats it.
    ///
    /// Not through octocrab, whose requests all pass the layer that adds the token.
    pub(super) async fn download_tail(
        &self,
        address: &str,
        most: usize,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let root = &self.addresses.root;
        let url = root.join(address).map_err(|_| "its address is none".to_owned())?;
        if url.scheme() != "https" && url.scheme() != root.scheme() {
            return Err("it is at an address that is not https".to_owned());
        }
        let request = self.http.get(url.clone()).header(USER_AGENT, AGENT).timeout(self.timeout);
        let response = request.send().await.map_err(transport_words)?;
        if response.url().origin() != url.origin() {
            return Err("it redirected to another host".to_owned());
        }
        let status = response.status();
        Ok((status, tail_of(response, most).await?))
    }

    /// Why a request brought no answer. One whose server's certificate is not trusted was not sent.
    fn unanswered(&self, err: reqwest::Error) -> TransportError {
        let (is_refused, proxy) = (roots::is_refused(&err), proxies::of_error(&err));
        let message = transport_words(err);
        match proxy {
            _ if is_refused => TransportError::NotSent(ForgeError::Untrusted {
                host: self.addresses.host(),
                message,
            }),
            Some(_) => TransportError::ProxyAway(message),
            None => TransportError::Broken(message),
        }
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
fn transport_words(err: reqwest::Error) -> String {
    let word = if err.is_timeout() {
        "no answer in time"
    } else if err.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let proxy = proxies::of_error(&err);
    let word = proxy.map_or_else(|| word.to_owned(), |proxy| format!("{word} {proxy}"));
    let err = err.without_url();
    let mut cause = std::error::Error::source(&err);
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    match cause {
        Some(cause) => format!("{word}: {}", refusal::clean(&cause.to_string(), &[])),
        None => word,
    }
}
