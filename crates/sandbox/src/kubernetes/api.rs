//! Requests to a Kubernetes API server, of sandboxes and of the fleet's launcher. `kube` knows where the server is, who
//! we are there (kubeconfig, service account, credential plugins) and speaks TLS; answers are read here, because
//! whatever comes from outside is bounded, and because a limit's `Retry-After` counts.
//!
//! The API is <https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.33/>; which answers mean what
//! is in <https://kubernetes.io/docs/reference/using-api/api-concepts/>.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config;
use super::login::{self, Login};
use patchwright_base::error::{Failure, Result, chain};
use patchwright_base::text;

/// The longest answer that is read: a page of lists, or one object.
const LONGEST: usize = 16 << 20;
/// How many objects are asked for at once.
const PAGE: usize = 250;
/// Before a request counts as lost. A watch has its own end.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a request is sent again, the wait before the first time (doubled each time), and the longest
/// wait that the server may ask for.
const AGAIN: u32 = 4;
const FIRST: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// What came back instead of what was asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("the Kubernetes API says no ({status}): {message}")]
    Answer {
        status: u16,
        /// One word of the API's own (`AlreadyExists`, `Conflict`); empty when it was not the API server that answered.
        reason: String,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("the Kubernetes API does not answer: {0}")]
    Unreachable(String),
    /// Nothing was sent, because there are no credentials: the login program of the kubeconfig failed.
    #[error("the Kubernetes API cannot be asked: {0}")]
    Unidentified(String),
    #[error("the Kubernetes API answers what cannot be read: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// A request that failed like this may succeed in a moment.
    fn is_transient(&self) -> bool {
        match self {
            ApiError::Answer { status, .. } => {
                *status == 429 || *status >= 500 || self.is_conflict()
            }
            ApiError::Unreachable(_) | ApiError::Unidentified(_) => true,
            ApiError::Unreadable(_) => false,
        }
    }

    /// How long to wait before the request is sent again that has failed so often before; `None` when that helps no more.
    pub(super) fn wait_before(&self, failed: u32) -> Option<Duration> {
        if !self.is_transient() || failed >= AGAIN {
            return None;
        }
        let asked = match self {
            ApiError::Answer { retry_after, .. } => *retry_after,
            ApiError::Unreachable(_) | ApiError::Unidentified(_) | ApiError::Unreadable(_) => None,
        };
        Some(asked.unwrap_or(FIRST * (1 << failed)).min(LONGEST_WAIT))
    }

    /// Why there is no answer.
    pub(super) fn of_client(err: &kube::Error) -> ApiError {
        match login::unidentified(err) {
            Some(why) => ApiError::Unidentified(why),
            None => ApiError::Unreachable(text::line(&chain(err))),
        }
    }

    /// The object that was to be made is there.
    pub fn is_there_already(&self) -> bool {
        matches!(self, ApiError::Answer { status: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// Others wrote at the same time, to the object or to what counts it: a quota answers so. Nothing was done.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, ApiError::Answer { status: 409, .. }) && !self.is_there_already()
    }

    /// The server answered with this status.
    pub fn is(&self, expected: StatusCode) -> bool {
        matches!(self, ApiError::Answer { status, .. } if *status == expected.as_u16())
    }
}

/// A namespace of a cluster. Clones share the connection.
#[derive(Clone)]
pub struct Cluster {
    pub(super) login: Arc<Login>,
    namespace: String,
    server: String,
    /// Seconds by which the server's clock is ahead of ours, as its last answer said.
    ahead: Arc<AtomicI64>,
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the namespace `{}` of {}", self.namespace, self.server)
    }
}

impl Cluster {
    /// The cluster of these files (a value of `KUBECONFIG`, in which a colon stands between two of them); without, that
    /// of the environment's kubeconfig (`KUBECONFIG`, `~/.kube/config`), else the one that this process is a pod of.
    /// The namespace is this one, else that of the kubeconfig's context, or of the pod. `manifest` is the file of the
    /// documentation that shows which rights are needed.
    ///
    /// # Errors
    /// When there is neither, or it cannot be used.
    pub async fn find(
        kubeconfig: Option<&str>,
        namespace: Option<&str>,
        manifest: &str,
    ) -> Result<Cluster> {
        let missing = "there is no Kubernetes cluster to launch pods in";
        let hint = match kubeconfig {
            Some(files) => format!("check the file that `KUBECONFIG` names: `{files}`"),
            None => format!(
                "set `KUBECONFIG`, or run this in a pod with a service account ({manifest})"
            ),
        };
        let mut config = config::find(kubeconfig)
            .await
            .map_err(|err| Failure::usage(missing).caused_by(anyhow::anyhow!(err)).hint(hint))?;
        // Sent again here, where the server's own wait counts.
        config.default_retry = false;
        let server = config::address(&config.cluster_url);
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let login = Login::new(config).map_err(|err| {
            Failure::usage(format!("the Kubernetes cluster at {server} cannot be used"))
                .caused_by(anyhow::anyhow!(config::unusable(&err)))
        })?;
        let login = Arc::new(login);
        Ok(Cluster { login, namespace, server, ahead: Arc::default() })
    }

    /// Where objects are made.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Seconds since 1970 by the server's clock, as far as it has answered.
    pub fn now(&self) -> i64 {
        now() + self.ahead.load(Ordering::Relaxed)
    }

    /// The version of the server.
    ///
    /// # Errors
    /// When it does not answer, or says no.
    pub async fn version(&self) -> Result<String, ApiError> {
        let version = self.ask(Method::GET, "/version", None).await?;
        let version = version["gitVersion"].as_str().unwrap_or_default();
        Ok(text::cut(&text::line(version), 40))
    }

    /// A whole list of what has a label, page by page, and the version from which changes can be watched. When what it
    /// began with is too long ago (410), it is begun again a few times.
    ///
    /// # Errors
    /// The server's last one.
    pub async fn list(&self, path: &str, label: &str) -> Result<(Vec<Value>, String), ApiError> {
        let label = encoded(label);
        let mut failed = 0;
        loop {
            let err = match self.list_once(path, &label).await {
                Err(err) if err.is(StatusCode::GONE) && failed < AGAIN => err,
                listed => return listed,
            };
            let wait = FIRST * (1 << failed);
            tracing::debug!(%err, ?wait, "a list of Kubernetes is begun again");
            tokio::time::sleep(wait).await;
            failed += 1;
        }
    }

    async fn list_once(&self, path: &str, label: &str) -> Result<(Vec<Value>, String), ApiError> {
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = format!("{path}?labelSelector={label}&limit={PAGE}&continue={token}");
            let page = self.ask(Method::GET, &page, None).await?;
            let metadata = &page["metadata"];
            let version = metadata["resourceVersion"].as_str().unwrap_or_default().to_owned();
            token = encoded(metadata["continue"].as_str().unwrap_or_default());
            all.extend(items(page));
            if token.is_empty() {
                return Ok((all, version));
            }
        }
    }

    /// Asks, and asks again when that may help. The body of a `PATCH` is a JSON merge patch (RFC 7386).
    ///
    /// # Errors
    /// The last one.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        // What is not as a request says that it has to be stays so.
        let is_conditional = body.is_some_and(|body| body["preconditions"].is_object());
        let mut failed = 0;
        loop {
            let err = match self.ask_once(method.clone(), path, body).await {
                Ok(answer) => return Ok(answer),
                Err(err) if is_conditional && err.is_conflict() => return Err(err),
                Err(err) => err,
            };
            let Some(wait) = err.wait_before(failed) else { return Err(err) };
            tracing::debug!(%err, ?wait, "a request to Kubernetes is sent again");
            tokio::time::sleep(wait).await;
            failed += 1;
        }
    }

    /// What a `GET` answers that is no object, up to so many bytes of its end.
    ///
    /// # Errors
    /// The server's; it is asked once.
    pub async fn text(&self, path: &str, most: usize) -> Result<String, ApiError> {
        let response = self.send(Method::GET, path, None).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let bytes = read(response.into_body()).await?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let start = text.ceil_char_boundary(text.len().saturating_sub(most));
        Ok(text.split_off(start))
    }

    async fn ask_once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let response = self.send(method, path, body).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let bytes = read(response.into_body()).await?;
        parse(&bytes)
    }

    /// Sends one request; what comes back is not judged, unless the server does not know who we are: then that is found
    /// out anew, and the request sent once more.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<http::Response<Body>, ApiError> {
        let (client, number) = self.login.client();
        let answer = self.send_by(&client, method.clone(), path, body).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        match self.login.renewed(number).await {
            Some(client) => self.send_by(&client, method, path, body).await,
            None => Ok(answer),
        }
    }

    async fn send_by(
        &self,
        client: &Client,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<http::Response<Body>, ApiError> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let is_patch = method == Method::PATCH;
        let content = if is_patch { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content)
            .body(Body::from(bytes))
            .map_err(|err| ApiError::Unreadable(err.to_string()))?;
        let sent = tokio::time::timeout(TIMEOUT, client.send(request)).await;
        let sent = sent.map_err(|_| ApiError::Unreachable("it takes too long".to_owned()))?;
        let answer = sent.map_err(|err| ApiError::of_client(&err))?;
        let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        // RFC 9110, 5.6.7: an HTTP date is one of RFC 5322 in GMT.
        if let Some(date) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) {
            self.ahead.store(date.timestamp() - now(), Ordering::Relaxed);
        }
        Ok(answer)
    }

    /// A refusal is a `Status` object, or plain words when a limit or a proxy made it.
    pub async fn refused(&self, response: http::Response<Body>) -> ApiError {
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let bytes = read(response.into_body()).await.unwrap_or_default();
        let said: Option<Value> = serde_json::from_slice(&bytes).ok();
        let word = |name: &str| said.as_ref().and_then(|said| said[name].as_str());
        let reason = word("reason").map(text::line).unwrap_or_default();
        let words = word("message").map_or_else(|| String::from_utf8_lossy(&bytes), Into::into);
        let words = text::line(&words);
        let known = status.canonical_reason().unwrap_or("no reason given");
        let message = if words.is_empty() { known.to_owned() } else { words };
        let in_body = said.as_ref().and_then(|said| said["details"]["retryAfterSeconds"].as_u64());
        let in_body = in_body.filter(|seconds| *seconds > 0);
        let retry_after = retry_after.or(in_body).map(Duration::from_secs);
        ApiError::Answer { status: status.as_u16(), reason, message, retry_after }
    }
}

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "compared with the server's clock, so a fixed clock must not change it"
)]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

async fn read(body: Body) -> Result<Vec<u8>, ApiError> {
    let whole = tokio::time::timeout(TIMEOUT, Limited::new(body, LONGEST).collect()).await;
    let whole = whole.map_err(|_| ApiError::Unreachable("the answer does not end".to_owned()))?;
    match whole {
        Ok(whole) => Ok(whole.to_bytes().to_vec()),
        Err(err) => Err(ApiError::Unreachable(text::line(&err.to_string()))),
    }
}

/// Reads what came as JSON.
///
/// # Errors
/// When it is not JSON, or lacks what `T` needs.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|err| ApiError::Unreadable(text::line(&err.to_string())))
}

/// The objects of a list.
pub fn items(mut page: Value) -> Vec<Value> {
    match page["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// As a value in the query of an address.
pub fn encoded(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
