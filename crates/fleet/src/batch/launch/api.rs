//! The few requests of the Kubernetes API that a launcher needs. `kube` knows where the server is, who we
//! are there (kubeconfig, service account, credential plugins) and speaks TLS; answers are read here, because
//! whatever comes from outside is bounded, and because a limit's `Retry-After` counts.
//!
//! The API is <https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.33/>; which answers mean what
//! is in <https://kubernetes.io/docs/reference/using-api/api-concepts/>.

use std::fmt;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

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
pub(super) enum ApiError {
    #[error("the Kubernetes API says no ({status}): {message}")]
    Answer { status: u16, message: String, retry_after: Option<Duration> },
    #[error("the Kubernetes API does not answer: {0}")]
    Unreachable(String),
    #[error("the Kubernetes API answers what cannot be read: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// The same request may succeed in a moment.
    fn is_transient(&self) -> bool {
        match self {
            ApiError::Answer { status, .. } => *status == 429 || *status >= 500,
            ApiError::Unreachable(_) => true,
            ApiError::Unreadable(_) => false,
        }
    }

    pub(super) fn is(&self, expected: StatusCode) -> bool {
        matches!(self, ApiError::Answer { status, .. } if *status == expected.as_u16())
    }
}

/// A namespace of a cluster.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
    namespace: String,
    server: String,
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the namespace `{}` of {}", self.namespace, self.server)
    }
}

impl Cluster {
    /// The cluster of the kubeconfig, else the one that this process is a pod of.
    ///
    /// # Errors
    /// When there is neither, or it cannot be used.
    pub(super) async fn find(namespace: Option<&str>) -> Result<Cluster> {
        let missing = "there is no Kubernetes cluster to launch pods in";
        let mut config = Config::infer().await.map_err(|err| {
            Failure::usage(missing).caused_by(anyhow::anyhow!(chain(&err))).hint(
                "set `KUBECONFIG`, or run this in a pod with a service account (docs/kubernetes/launcher.yaml)",
            )
        })?;
        // Sent again here, where the server's own wait counts.
        config.default_retry = false;
        let server =
            config.cluster_url.authority().map_or("", http::uri::Authority::as_str).to_owned();
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let client = Client::try_from(config).map_err(|err| {
            Failure::usage(format!("the Kubernetes cluster at {server} cannot be used"))
                .caused_by(anyhow::anyhow!(chain(&err)))
        })?;
        Ok(Cluster { client, namespace, server })
    }

    /// Makes a Job; the answer is the Job as the server has it. `None` when one of its name is there already.
    pub(super) async fn create_job(&self, job: &Value) -> Result<Option<Value>, ApiError> {
        // Strict: a field that is misspelt in the template would be dropped without a word.
        let path = format!("{}?fieldManager=patchwright&fieldValidation=Strict", self.jobs());
        match self.ask(Method::POST, &path, Some(job)).await {
            Ok(made) => Ok(Some(made)),
            Err(err) if err.is(StatusCode::CONFLICT) => Ok(None),
            Err(err) => Err(err),
        }
    }

    pub(super) async fn job(&self, name: &str) -> Result<Option<Value>, ApiError> {
        match self.ask(Method::GET, &format!("{}/{name}", self.jobs()), None).await {
            Ok(job) => Ok(Some(job)),
            Err(err) if err.is(StatusCode::NOT_FOUND) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Removes a Job with its pods. One that is gone is removed.
    pub(super) async fn delete_job(&self, name: &str) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        });
        match self.ask(Method::DELETE, &format!("{}/{name}", self.jobs()), Some(&options)).await {
            Ok(_) => Ok(()),
            Err(err) if err.is(StatusCode::NOT_FOUND) => Ok(()),
            Err(err) => Err(err),
        }
    }

    /// All Jobs with a label.
    pub(super) async fn jobs_of(&self, label: &str) -> Result<Vec<Value>, ApiError> {
        Ok(self.list(&self.jobs(), label).await?.0)
    }

    /// All pods with a label, and the version from which changes can be watched.
    pub(super) async fn pods_of(&self, label: &str) -> Result<(Vec<Value>, String), ApiError> {
        self.list(&self.pods(), label).await
    }

    /// What was said about an object, newest last.
    pub(super) async fn events_about(&self, name: &str) -> Result<Vec<Value>, ApiError> {
        let selector = encoded(&format!("involvedObject.name={name}"));
        let path = format!(
            "/api/v1/namespaces/{}/events?fieldSelector={selector}&limit=50",
            self.namespace
        );
        Ok(items(self.ask(Method::GET, &path, None).await?))
    }

    /// Changes of pods with a label since a version, as lines of JSON, until the server ends it.
    pub(super) async fn watch_pods(&self, label: &str, since: &str) -> Result<Body, ApiError> {
        let (label, since) = (encoded(label), encoded(since));
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds=240&labelSelector={label}&resourceVersion={since}",
            self.pods()
        );
        let response = self.send(Method::GET, &path, None).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(self.refused(response).await)
    }

    fn jobs(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.namespace)
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// A whole list, page by page. A list that changed too much in between is begun again by the server's
    /// 410, which is the caller's to repeat.
    async fn list(&self, path: &str, label: &str) -> Result<(Vec<Value>, String), ApiError> {
        let label = encoded(label);
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

    /// Asks, and asks again when that may help.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let mut failed = 0;
        loop {
            let err = match self.ask_once(method.clone(), path, body).await {
                Ok(answer) => return Ok(answer),
                Err(err) => err,
            };
            if !err.is_transient() || failed == AGAIN {
                return Err(err);
            }
            let asked = match &err {
                ApiError::Answer { retry_after, .. } => *retry_after,
                ApiError::Unreachable(_) | ApiError::Unreadable(_) => None,
            };
            let wait = asked.unwrap_or(FIRST * (1 << failed)).min(LONGEST_WAIT);
            tracing::debug!(%err, ?wait, "a request to Kubernetes is sent again");
            tokio::time::sleep(wait).await;
            failed += 1;
        }
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

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<http::Response<Body>, ApiError> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(bytes))
            .map_err(|err| ApiError::Unreadable(err.to_string()))?;
        let sent = tokio::time::timeout(TIMEOUT, self.client.send(request)).await;
        let sent = sent.map_err(|_| ApiError::Unreachable("it takes too long".to_owned()))?;
        sent.map_err(|err| ApiError::Unreachable(text::line(&chain(&err))))
    }

    /// A refusal is a `Status` object, or plain words when a limit or a proxy made it.
    async fn refused(&self, response: http::Response<Body>) -> ApiError {
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let bytes = read(response.into_body()).await.unwrap_or_default();
        let said: Option<Value> = serde_json::from_slice(&bytes).ok();
        let said = said.as_ref().and_then(|said| said["message"].as_str());
        let words = said.map_or_else(|| String::from_utf8_lossy(&bytes), Into::into);
        let words = text::line(&words);
        let known = status.canonical_reason().unwrap_or("no reason given");
        let message = if words.is_empty() { known.to_owned() } else { words };
        let retry_after = retry_after.map(Duration::from_secs);
        ApiError::Answer { status: status.as_u16(), message, retry_after }
    }
}

async fn read(body: Body) -> Result<Vec<u8>, ApiError> {
    let whole = tokio::time::timeout(TIMEOUT, Limited::new(body, LONGEST).collect()).await;
    let whole = whole.map_err(|_| ApiError::Unreachable("the answer does not end".to_owned()))?;
    match whole {
        Ok(whole) => Ok(whole.to_bytes().to_vec()),
        Err(err) => Err(ApiError::Unreachable(text::line(&err.to_string()))),
    }
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|err| ApiError::Unreadable(text::line(&err.to_string())))
}

fn items(mut page: Value) -> Vec<Value> {
    match page["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// As a value in the query of an address.
fn encoded(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
