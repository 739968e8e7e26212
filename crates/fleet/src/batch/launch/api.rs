//! Requests of a launcher, about its Jobs and their pods.

use http::{Method, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use patchwright_base::error::Result;
use patchwright_sandbox::kubernetes::api::{self, encoded};
pub(super) use patchwright_sandbox::kubernetes::api::{ApiError, parse};
use patchwright_sandbox::kubernetes::events;
use patchwright_sandbox::kubernetes::pod::PodTrouble;
use patchwright_sandbox::kubernetes::rights::{self, NeededRights, Right};

/// The namespace in which pods are launched.
#[derive(Clone)]
pub(super) struct Cluster(api::Cluster);

impl std::fmt::Display for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Cluster {
    /// See [`api::Cluster::find`].
    pub(super) async fn find(namespace: Option<&str>) -> Result<Cluster> {
        api::Cluster::find(None, namespace, super::MANIFEST).await.map(Cluster)
    }

    /// See [`api::Cluster::now`].
    pub(super) fn now(&self) -> i64 {
        self.0.now()
    }

    /// See [`api::Cluster::version`].
    pub(super) async fn version(&self) -> Result<String, ApiError> {
        self.0.version().await
    }

    /// See [`rights::ask`].
    pub(super) async fn rights(&self, needed: &[NeededRights]) -> Result<Vec<Right>, ApiError> {
        rights::ask(&self.0, needed).await
    }

    /// Makes a Job; the answer is the Job as the server has it. `None` when one of its name is there already.
    pub(super) async fn create_job(&self, job: &Value) -> Result<Option<Value>, ApiError> {
        // Strict: a field that is misspelt in the template would be dropped without a word.
        let path = format!("{}?fieldManager=patchwright&fieldValidation=Strict", self.jobs());
        match self.0.ask(Method::POST, &path, Some(job)).await {
            Ok(made) => Ok(Some(made)),
            Err(err) if err.is_there_already() => Ok(None),
            Err(err) => Err(err),
        }
    }

    pub(super) async fn job(&self, name: &str) -> Result<Option<Value>, ApiError> {
        match self.0.ask(Method::GET, &format!("{}/{name}", self.jobs()), None).await {
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
        match self.0.ask(Method::DELETE, &format!("{}/{name}", self.jobs()), Some(&options)).await {
            Ok(_) => Ok(()),
            Err(err) if err.is(StatusCode::NOT_FOUND) => Ok(()),
            Err(err) => Err(err),
        }
    }

    /// All Jobs with a label.
    pub(super) async fn jobs_of(&self, label: &str) -> Result<Vec<Value>, ApiError> {
        Ok(self.0.list(&self.jobs(), label).await?.0)
    }

    /// All pods with a label, and the version from which changes can be watched.
    pub(super) async fn pods_of(&self, label: &str) -> Result<(Vec<Value>, String), ApiError> {
        self.0.list(&self.pods(), label).await
    }

    /// The last thing told of these objects, in words, when it is a warning.
    pub(super) async fn last_warning(&self, objects: &[&str]) -> Result<Option<String>, ApiError> {
        let told = events::last_warning(&self.0, objects).await?;
        Ok(told.map(|(_, words)| words))
    }

    /// What keeps a pod from beginning of which its status says nothing.
    pub(super) async fn trouble_of(&self, pod: &str) -> Result<Option<PodTrouble>, ApiError> {
        events::trouble(&self.0, pod).await
    }

    /// Changes of pods with a label since a version, as lines of JSON, until the server ends it.
    pub(super) async fn watch_pods(&self, label: &str, since: &str) -> Result<Body, ApiError> {
        let (label, since) = (encoded(label), encoded(since));
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds=240&labelSelector={label}&resourceVersion={since}",
            self.pods()
        );
        let response = self.0.send(Method::GET, &path, None).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(self.0.refused(response).await)
    }

    fn jobs(&self) -> String {
        format!("/apis/batch/v1/namespaces/{}/jobs", self.0.namespace())
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.0.namespace())
    }
}
