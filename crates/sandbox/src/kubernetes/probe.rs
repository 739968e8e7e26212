//! What `doctor` wants to know: whether the API server answers, what we may do there, and whether a policy closes the
//! network of sandbox pods. Only reads, but for reviews of access, which change nothing.

use http::Method;
use serde_json::json;

use super::manifest::COMPONENT;
use super::refusal::refused;
use super::{KubernetesSandbox, network};
use crate::SandboxError;

/// Something that we have to be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `create pods/exec`.
    pub name: String,
    pub is_given: bool,
}

/// Verbs, API group, resource, subresource. A WebSocket begins with a GET, which servers before 1.35 judge as `get`, and
/// later ones as `create`.
const RIGHTS: &[(&[&str], &str, &str, &str)] = &[
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
        let version = self.cluster.ask(Method::GET, "/version", None).await;
        let version =
            version.map_err(|err| refused("ask the Kubernetes API for its version", &err))?;
        let version = version["gitVersion"].as_str().unwrap_or_default();
        Ok(patchwright_base::text::cut(&patchwright_base::text::line(version), 40))
    }

    /// What we may do in the namespace.
    /// Source: `SelfSubjectAccessReview` of <https://kubernetes.io/docs/reference/access-authn-authz/authorization/>.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn rights(&self) -> Result<Vec<Right>, SandboxError> {
        let mut rights = Vec::new();
        for (verbs, group, resource, subresource) in RIGHTS {
            for verb in *verbs {
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": {
                        "namespace": self.cluster.namespace(),
                        "verb": verb,
                        "group": group,
                        "resource": resource,
                        "subresource": subresource,
                    }},
                });
                let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
                let asked = self.cluster.ask(Method::POST, path, Some(&review)).await;
                let answer = asked.map_err(|err| refused("ask what we may do", &err))?;
                let dash = if subresource.is_empty() { "" } else { "/" };
                let name = format!("{verb} {resource}{dash}{subresource}");
                rights.push(Right { name, is_given: answer["status"]["allowed"] == true });
            }
        }
        Ok(rights)
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
