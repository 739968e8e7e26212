//! What the API server's no means to people who run this.

use serde_json::Value;

use super::api::ApiError;
use crate::{EngineTrouble, SandboxError};

/// The manifest that gives the rights.
pub(super) const MANIFEST: &str = "docs/kubernetes/sandboxes.yaml";

/// Words of those who judge the content of a pod. Which of them there are, and what they want, is the operator's.
const OF_POLICIES: &[&str] =
    &["admission webhook", "ValidatingAdmissionPolicy", "image policy webhook"];

/// An error for people: what was being done, the server's words, and what to do.
pub(super) fn refused(doing: &str, err: &ApiError) -> SandboxError {
    SandboxError::Kubernetes {
        message: format!("cannot {doing}: {err}"),
        hint: hint(err),
        trouble: trouble(err),
    }
}

/// [`refused`] of a pod that was to be made. What a policy says of an image may be because of what one repository names.
pub(super) fn refused_pod(err: &ApiError, pod: &Value) -> SandboxError {
    let ApiError::Answer { message, .. } = err else { return refused("make a sandbox pod", err) };
    let lists = ["initContainers", "containers"].into_iter();
    let mut all = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let is_image = all.any(|one| one["image"].as_str().is_some_and(|it| message.contains(it)));
    match refused("make a sandbox pod", err) {
        SandboxError::Kubernetes { message, .. } if is_image && is_by_policy(err) => {
            let hint = "a policy of the cluster refuses the image: name another one, or have its operator allow it";
            SandboxError::Kubernetes { message, hint: Some(hint.to_owned()), trouble: None }
        }
        failed => failed,
    }
}

fn is_by_policy(err: &ApiError) -> bool {
    matches!(err, ApiError::Answer { message, .. } if OF_POLICIES.iter().any(|words| message.contains(words)))
}

/// What of it is nothing of the run's.
pub(super) fn trouble(err: &ApiError) -> Option<EngineTrouble> {
    match err {
        ApiError::Unreachable(_) | ApiError::Answer { status: 429 | 500.., .. } => {
            Some(EngineTrouble::Away)
        }
        ApiError::Answer { status, message, .. } => {
            let refuses = match status {
                // Rights, quotas, limits, the level, the namespace's end and what the template names are those of all pods.
                401 | 403 => true,
                // It was tried again: too much is made there at once.
                409 => err.is_conflict(),
                404 => message.contains("namespaces"),
                // A webhook chooses the status of its refusal itself.
                _ => is_by_policy(err),
            };
            refuses.then_some(EngineTrouble::Refuses)
        }
        ApiError::Unidentified(_) => Some(EngineTrouble::Refuses),
        ApiError::Unreadable(_) => None,
    }
}

/// What to do about it.
pub(super) fn hint(err: &ApiError) -> Option<String> {
    let ApiError::Answer { status, message, .. } = err else {
        return match err {
            ApiError::Unidentified(_) => {
                Some("sign in anew, as for `kubectl`; nobody is asked here".to_owned())
            }
            ApiError::Unreachable(_) => {
                Some("`patchwright doctor --sandbox kubernetes` checks the connection".to_owned())
            }
            ApiError::Answer { .. } | ApiError::Unreadable(_) => None,
        };
    };
    // All of these are 403 (https://kubernetes.io/docs/reference/access-authn-authz/), so the words decide.
    let has = |words: &str| message.contains(words);
    Some(match status {
        401 => "the token of the service account, or of the kubeconfig, is not accepted any more".to_owned(),
        403 if has("exceeded quota") => {
            "raise the ResourceQuota of the namespace, or run less at once; `container.memory` and the requests of \
             the template decide what one sandbox counts for"
                .to_owned()
        }
        403 if has("status unknown for quota") => {
            "the cluster does not know yet what of the ResourceQuota is used: try again in a moment".to_owned()
        }
        403 if has(" usage per ") => {
            "a LimitRange of the namespace allows less, or wants more, than one sandbox has: `container.memory` and the \
             requests of the template decide about that"
                .to_owned()
        }
        403 if has("because it is being terminated") => {
            "the namespace is being removed: make it again, or name another one in the template".to_owned()
        }
        403 if has("RuntimeClass") => "make the RuntimeClass, or name another one in the template".to_owned(),
        403 if has("violates PodSecurity") => {
            "a sandbox keeps to the level `restricted`; what is said of it comes from the template or from a webhook"
                .to_owned()
        }
        403 if has("cannot ") => format!("give the right that is named, as the Role of `{MANIFEST}` does"),
        409 if has("resourcequotas") => {
            "too many change the ResourceQuota of the namespace at once: run less at once, or try again".to_owned()
        }
        404 if has("namespaces") => "make the namespace, or name another one in the template".to_owned(),
        _ if is_by_policy(err) => {
            "an admission webhook or policy of the cluster refuses it, which is its operator's: exempt the namespace, or \
             give the template what it asks for"
                .to_owned()
        }
        500.. if has("error dialing backend") => {
            "the API server does not reach the node of the pod: its kubelet, or the agent that leads there, is away; \
             the same command again may find it back"
                .to_owned()
        }
        400 | 422 => "is the template of sandbox pods as this cluster understands it?".to_owned(),
        _ => return None,
    })
}
