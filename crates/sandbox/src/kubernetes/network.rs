//! Whether a sandbox reaches nothing. Pods have a network unless a policy takes it away, and a policy is only words
//! where the cluster's network plug-in does not enforce it. So both are looked at: the policies that select the pod,
//! and, from inside, whether a connection comes about.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use super::api::{ApiError, Cluster, items};
use super::exec::{self, RunError};
use super::manifest::{BRINGER, GUEST_FOLDER};
use patchwright_base::text;
use patchwright_guest::enforced::Network;

/// Addresses outside that answer from nearly everywhere: a public resolver, and the place where clouds give the
/// credentials of a node.
const OUTSIDE: &[&str] = &["1.1.1.1:443", "169.254.169.254:80"];
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(30);
/// Between two looks.
const AGAIN: Duration = Duration::from_secs(1);

/// Why the policies of the namespace do not close these pods; `None` when they do.
///
/// # Errors
/// When they cannot be listed.
pub(super) async fn unclosed(cluster: &Cluster, pod: &Value) -> Result<Option<String>, ApiError> {
    let path = format!(
        "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies?limit=500",
        cluster.namespace()
    );
    let policies = items(cluster.ask(Method::GET, &path, None).await?);
    Ok(judge(&policies, &pod["metadata"]["labels"]))
}

/// Policies add up: one has to take all traffic away, and none may allow any.
/// Source: <https://kubernetes.io/docs/concepts/services-networking/network-policies/>.
fn judge(policies: &[Value], labels: &Value) -> Option<String> {
    let selecting: Vec<&Value> =
        policies.iter().filter(|policy| selects(&policy["spec"]["podSelector"], labels)).collect();
    for (direction, field) in [("Egress", "egress"), ("Ingress", "ingress")] {
        let about = selecting.iter().filter(|policy| is_about(policy, direction));
        let allows = |policy: &&&&Value| {
            policy["spec"][field].as_array().is_some_and(|rules| !rules.is_empty())
        };
        let about: Vec<&&Value> = about.collect();
        if about.is_empty() {
            return Some(format!("no NetworkPolicy of the namespace takes away their {field}"));
        }
        if let Some(policy) = about.iter().find(allows) {
            let name = text::line(policy["metadata"]["name"].as_str().unwrap_or_default());
            return Some(format!(
                "the NetworkPolicy `{name}` selects them too, and allows {field}"
            ));
        }
    }
    None
}

/// Without types a policy is about ingress, and about egress only when it has such rules.
fn is_about(policy: &Value, direction: &str) -> bool {
    match policy["spec"]["policyTypes"].as_array() {
        Some(types) => types.iter().any(|one| one == direction),
        None => direction == "Ingress" || policy["spec"]["egress"].is_array(),
    }
}

/// Whether a label selector is about an object with these labels; one that is not understood is about none.
/// Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors>.
fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.into_iter().all(|(name, value)| labels[name] == *value)
        && expressions.all(|one| {
            let label = &labels[one["key"].as_str().unwrap_or_default()];
            let is_in = one["values"].as_array().is_some_and(|values| values.contains(label));
            match one["operator"].as_str().unwrap_or_default() {
                "In" => is_in,
                "NotIn" => !is_in,
                "Exists" => !label.is_null(),
                "DoesNotExist" => label.is_null(),
                _ => false,
            }
        })
}

/// Looks from inside, for as long as a plug-in may need to put a policy into force: from the first container, so that
/// neither commands nor services have begun. `environment` is what its variables say, among them where the API server
/// is.
///
/// # Errors
/// When nobody can look.
pub(super) async fn reached(
    cluster: &Cluster,
    pod: &str,
    environment: &[(String, String)],
    patience: Duration,
) -> Result<Vec<String>, RunError> {
    let guest = format!("{GUEST_FOLDER}/patchwright-guest");
    let mut argv = vec![guest.as_str(), "probe"];
    let own = api_server(environment);
    argv.extend(own.as_deref());
    argv.extend(OUTSIDE);
    let began = Instant::now();
    loop {
        let output = exec::run(cluster, (pod, BRINGER), &argv, &[], (LOOK, 4096)).await?;
        let reached: Vec<String> =
            String::from_utf8_lossy(&output).lines().map(text::line).collect();
        if reached.is_empty() || began.elapsed() >= patience {
            return Ok(reached);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Where containers are told that the API server is.
fn api_server(environment: &[(String, String)]) -> Option<String> {
    let value = |name: &str| {
        environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    let (host, port) = (value("KUBERNETES_SERVICE_HOST")?, value("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Some(format!("{host}:{port}"))
}

/// For the report.
pub(super) fn report(reached: &[String]) -> Network {
    if reached.is_empty() { Network::None } else { Network::Present }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kubernetes::network::*;

    fn policy(spec: &Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    #[test]
    fn policies_add_up() {
        let labels = json!({"app.kubernetes.io/component": "sandbox", "a": "b"});
        let both = json!(["Ingress", "Egress"]);
        let ours = json!({"matchLabels": {"app.kubernetes.io/component": "sandbox"}});
        let closed = policy(&json!({"podSelector": ours, "policyTypes": both}));
        let all = policy(&json!({"podSelector": {}, "policyTypes": both, "egress": [{}]}));
        let others = policy(&json!({"podSelector": {"matchExpressions": [
            {"key": "app.kubernetes.io/component", "operator": "NotIn", "values": ["sandbox"]}]},
            "policyTypes": both, "egress": [{}]}));
        let ingress = policy(&json!({"podSelector": {}}));
        let only_egress = policy(&json!({"podSelector": {}, "egress": []}));
        for (policies, expected) in [
            (vec![closed.clone()], None),
            (vec![others, closed.clone()], None),
            (vec![ingress.clone(), only_egress], None),
            (vec![], Some("no NetworkPolicy of the namespace takes away their egress")),
            (vec![ingress], Some("no NetworkPolicy of the namespace takes away their egress")),
            (vec![closed, all], Some("the NetworkPolicy `p` selects them too, and allows egress")),
        ] {
            assert_eq!(judge(&policies, &labels).as_deref(), expected, "{policies:?}");
        }
    }

    #[test]
    fn selectors_are_read_as_kubernetes_does() {
        let labels = json!({"a": "b"});
        let expression = |operator: &str, key: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "b"}}), true),
            (json!({"matchLabels": {"a": "c"}}), false),
            (expression("In", "a", json!(["b"])), true),
            (expression("In", "x", json!(["b"])), false),
            (expression("NotIn", "x", json!(["b"])), true),
            (expression("NotIn", "a", json!(["b"])), false),
            (expression("Exists", "a", Value::Null), true),
            (expression("DoesNotExist", "a", Value::Null), false),
            (expression("Like", "a", Value::Null), false),
        ] {
            assert_eq!(selects(&selector, &labels), expected, "{selector}");
        }
    }
}
