//! What `doctor` wants to know: whether the API server answers, what we may do there, and whether a policy closes the
//! network of sandbox pods. Only reads, but for reviews of access, which change nothing.

use serde_json::json;

use super::manifest::COMPONENT;
use super::refusal::refused;
use super::rights::{self, NeededRights, Right};
use super::{KubernetesSandbox, network};
use crate::SandboxError;

/// A WebSocket begins with a GET, which servers before 1.35 judge as `get`, and
/// later ones as `create`.
const RIGHTS: &[NeededRights] = &[
    (&["create", "get", "list", "patch", "delete"], "", "pods", ""),
    (&["create", "get"], "", "pods", "exec"),
    (&["get"], "", "pods", "log"),
    (&["list"], "networking.k8s.io", "networkpolicies", ""),
];

impl KubernetesSandbox {
    /// The version of the server.
    ///
    /// # Errors
    /// When it does not answer, or says no.
    pub async fn version(&self) -> Result<String, SandboxError> {
        let version = self.cluster.version().await;
        version.map_err(|err| refused("ask the Kubernetes API for its version", &err))
    }

    /// What we may do in the namespace.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn rights(&self) -> Result<Vec<Right>, SandboxError> {
        let rights = rights::ask(&self.cluster, RIGHTS).await;
        rights.map_err(|err| refused("ask what we may do", &err))
    }

    /// Why sandbox pods would have a network; `None` when a policy takes it away. Whether the plug-in enforces it, every
    /// sandbox finds out for itself.
    ///
    /// # Errors
    /// When the policies cannot be listed.
    pub async fn unclosed(&self) -> Result<Option<String>, SandboxError> {
        let mut labels = self.template.labels.clone();
        labels.insert("app.kubernetes.io/name".to_owned(), json!("patchwright"));
        labels.insert(COMPONENT.0.to_owned(), json!(COMPONENT.1));
        let pod = json!({"metadata": {"labels": labels}});
        let unclosed = network::unclosed(&self.cluster, &pod).await;
        unclosed.map_err(|err| refused("list network policies", &err))
    }
}
