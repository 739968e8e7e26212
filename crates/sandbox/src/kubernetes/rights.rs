//! What we may do in a namespace, as the API server says it itself. Asking changes nothing, and every account may.
//! Source: `SelfSubjectAccessReview` of <https://kubernetes.io/docs/reference/access-authn-authz/authorization/>.

use http::Method;
use serde_json::json;

use super::api::{ApiError, Cluster};

/// Something that we have to be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `create pods/exec`.
    pub name: String,
    pub is_given: bool,
}

/// Verbs, API group, resource, subresource.
pub type NeededRights = (&'static [&'static str], &'static str, &'static str, &'static str);

/// Which of these rights we have.
///
/// # Errors
/// When the server does not say.
pub async fn ask(cluster: &Cluster, needed: &[NeededRights]) -> Result<Vec<Right>, ApiError> {
    let mut rights = Vec::new();
    for (verbs, group, resource, subresource) in needed {
        for verb in *verbs {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {
                    "namespace": cluster.namespace(),
                    "verb": verb,
                    "group": group,
                    "resource": resource,
                    "subresource": subresource,
                }},
            });
            let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let answer = cluster.ask(Method::POST, path, Some(&review)).await?;
            let dash = if subresource.is_empty() { "" } else { "/" };
            let name = format!("{verb} {resource}{dash}{subresource}");
            rights.push(Right { name, is_given: answer["status"]["allowed"] == true });
        }
    }
    Ok(rights)
}

/// Those that are not given, for people; `None` when all are.
pub fn missing(rights: &[Right]) -> Option<String> {
    let missing = rights.iter().filter(|right| !right.is_given);
    let names: Vec<String> = missing.map(|right| format!("`{}`", right.name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
