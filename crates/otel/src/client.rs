//! Carries the exporters' requests. They are made on threads of the SDK, and carried out on the program's runtime by
//! an HTTP client with its proxies and certificates, which follows no redirects: headers may be keys.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::http::Uri;
use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use patchwright_base::error::Result;
use patchwright_base::proxies;
use patchwright_provider::http;

/// The longest that one request takes, whatever the environment says.
const LONGEST: Duration = Duration::from_secs(30);

/// The most that is read of an answer, in bytes. It holds a count of what was refused and a sentence.
const MAX_ANSWER: usize = 64 << 10;

/// Clones share client and trouble.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    shared: Arc<Inner>,
    /// For one request. The exporters leave that to the client that they are given.
    limit: Duration,
}

#[derive(Debug)]
struct Inner {
    client: reqwest::Client,
    runtime: OnceLock<Handle>,
    trouble: Mutex<ExportErrors>,
}

/// What went wrong until now.
#[derive(Debug, Default)]
struct ExportErrors {
    failed: u32,
    /// Where the last one was to go, without user and password.
    at: String,
    last: String,
}

impl Sender {
    pub(crate) fn new() -> Result<Sender> {
        let (runtime, trouble) = (OnceLock::new(), Mutex::default());
        let shared = Arc::new(Inner { client: http::client()?, runtime, trouble });
        Ok(Sender { shared, limit: LONGEST })
    }

    /// This sender with a time limit for each of its requests.
    pub(crate) fn within(&self, limit: Duration) -> Sender {
        Sender { limit: limit.min(LONGEST), ..self.clone() }
    }

    pub(crate) fn run_on(&self, runtime: &Handle) {
        // A second start keeps the first.
        let _ = self.shared.runtime.set(runtime.clone());
    }

    /// What did not arrive, in words; `None` when everything did.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.shared.trouble.lock();
        let times = if trouble.failed == 1 { "request" } else { "requests" };
        (trouble.failed > 0).then(|| {
            let (failed, ExportErrors { at, last, .. }) = (trouble.failed, &*trouble);
            format!(
                "{failed} {times} to the collector at {at} failed, the last one because: {last}"
            )
        })
    }

    fn failed(&self, at: &Uri, why: &str) {
        let mut trouble = self.shared.trouble.lock();
        trouble.failed += 1;
        trouble.at = place(at);
        trouble.last = patchwright_base::text::line(why);
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let Some(runtime) = self.shared.runtime.get() else {
            return Err("the program has not started yet".into());
        };
        let client = self.shared.client.clone();
        let (limit, at) = (self.limit, request.uri().clone());
        let sent = runtime.spawn(async move { send(&client, request, limit).await }).await;
        let answer = sent.map_err(HttpError::from).and_then(|answer| answer);
        match &answer {
            Err(err) => self.failed(&at, &patchwright_base::error::chain(err.as_ref())),
            Ok(response) if !response.status().is_success() => {
                self.failed(&at, &format!("it answers {}", response.status()));
            }
            Ok(_) => {}
        }
        answer
    }
}

/// Scheme, host and port of an address. The path may have a key in it, and what is before the host a password.
fn place(at: &Uri) -> String {
    let scheme = at.scheme_str().unwrap_or("http");
    let port = at.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("`{scheme}://{}{port}`", at.host().unwrap_or_default())
}

async fn send(
    client: &reqwest::Client,
    request: Request<Bytes>,
    limit: Duration,
) -> Result<Response<Bytes>, HttpError> {
    let mut request = reqwest::Request::try_from(request)?;
    *request.timeout_mut() = Some(limit);
    // The address may have a password in it.
    let mut response = client.execute(request).await.map_err(why)?;
    let mut answer = Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        *headers = std::mem::take(response.headers_mut());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(why)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER {
            return Err("the answer is too long".into());
        }
    }
    Ok(answer.body(Bytes::from(body))?)
}

fn why(err: reqwest::Error) -> HttpError {
    match proxies::of_error(&err) {
        Some(_) => proxies::told(err).into(),
        None => err.without_url().into(),
    }
}
