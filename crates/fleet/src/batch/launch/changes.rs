//! Whether the cluster has made of a pod what was asked for. Webhooks change Jobs and pods on their way in, each by
//! itself, so both are looked at: the Job's template in the answer to its creation, and the pod, which the Job controller
//! makes later, as the API server has it. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use patchwright_base::text;
use patchwright_sandbox::kubernetes::comparison::differences;

use super::template::{ACCEPTED, weaker};

/// The longest sentence about changes.
const LONGEST: usize = 400;
/// Lists of containers.
const CONTAINERS: &[&str] = &["containers", "initContainers"];

/// What of a pod (or of a Job's template) is not as it was asked for and not accepted either, as a sentence with what
/// to do about it; `None` when all is well.
pub(super) fn changes(asked: &Value, made: &Value, accepted: &BTreeSet<String>) -> Option<String> {
    let found = weaker(made).map_or_else(|| unaccepted(asked, made, accepted), |why| vec![why]);
    if found.is_empty() {
        return None;
    }
    let found = text::cut(&text::line(&found.join("; ")), LONGEST);
    Some(format!(
        "the cluster makes pods weaker than they were asked for (by an admission webhook?): {found}; exempt the \
         namespace, or say it in the pod template, where its annotation `{ACCEPTED}` names what may be added"
    ))
}

fn unaccepted(asked: &Value, made: &Value, accepted: &BTreeSet<String>) -> Vec<String> {
    let (asked, made) = (&asked["spec"], &made["spec"]);
    let found = differences(&compared(asked, asked), &compared(asked, made));
    let found = found.into_iter().filter(|one| !accepted.contains(&one.subject));
    let mut found: Vec<String> = found.map(|one| one.words).collect();
    // Its rights are in tokens that the template mounts, and in what a cloud gives its pods.
    let account = |spec: &Value| {
        let name = spec["serviceAccountName"].as_str().unwrap_or("default");
        text::line(if name.is_empty() { "default" } else { name })
    };
    let (of_asked, of_made) = (account(asked), account(made));
    if of_asked != of_made && !accepted.contains("serviceAccountName") {
        found.push(format!("`serviceAccountName` is `{of_made}` instead of `{of_asked}`"));
    }
    found
}

/// A specification without what does not make a run easier to leave: how much a container may use, which clusters say
/// for those that do not; containers that are put into pods that run already; and volumes that none of the containers
/// has that were asked for.
fn compared(asked: &Value, spec: &Value) -> Value {
    let mut spec = spec.clone();
    let names: BTreeSet<&str> = all(asked).filter_map(|one| one["name"].as_str()).collect();
    let ours = all(&spec).filter(|one| one["name"].as_str().is_some_and(|it| names.contains(it)));
    let mounts = ours.flat_map(|one| one["volumeMounts"].as_array().into_iter().flatten());
    let devices = all(&spec).flat_map(|one| one["volumeDevices"].as_array().into_iter().flatten());
    let mut kept: BTreeSet<String> = mounts
        .chain(devices)
        .filter_map(|mount| mount["name"].as_str().map(str::to_owned))
        .collect();
    let volumes = asked["volumes"].as_array().into_iter().flatten();
    kept.extend(volumes.filter_map(|volume| volume["name"].as_str().map(str::to_owned)));
    let Some(fields) = spec.as_object_mut() else { return spec };
    fields.remove("ephemeralContainers");
    fields.remove("resources");
    if let Some(Value::Array(volumes)) = fields.get_mut("volumes") {
        volumes.retain(|volume| volume["name"].as_str().is_none_or(|name| kept.contains(name)));
    }
    for list in CONTAINERS {
        for one in fields.get_mut(*list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(one) = one {
                one.remove("resources");
            }
        }
    }
    spec
}

fn all(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINERS.iter().flat_map(|list| spec[*list].as_array().into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use crate::batch::launch::changes::changes;
    use crate::batch::launch::template::PodTemplate;

    /// What API servers, limit ranges and security context constraints make of a template.
    fn completed(pod: &Value) -> Value {
        let mut pod = pod.clone();
        let spec = &mut pod["spec"];
        spec["dnsPolicy"] = json!("ClusterFirst");
        spec["schedulerName"] = json!("default-scheduler");
        spec["terminationGracePeriodSeconds"] = json!(30);
        spec["nodeName"] = json!("node-1");
        spec["priority"] = json!(0);
        spec["preemptionPolicy"] = json!("PreemptLowerPriority");
        spec["tolerations"] =
            json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]);
        spec["imagePullSecrets"] = json!([{"name": "of-the-service-account"}]);
        spec["securityContext"] =
            json!({"seLinuxOptions": {"level": "s0:c26,c5"}, "fsGroup": 1_000_660_000});
        if spec["serviceAccountName"].is_null() {
            spec["serviceAccountName"] = json!("default");
        }
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
        for list in ["containers", "initContainers"] {
            for one in spec[list].as_array_mut().into_iter().flatten() {
                one["terminationMessagePath"] = json!("/dev/termination-log");
                one["imagePullPolicy"] = json!("IfNotPresent");
                one["resources"]["limits"]["cpu"] = json!("4");
                if let Some(probe) = one.get_mut("startupProbe") {
                    probe["timeoutSeconds"] = json!(1);
                    probe["successThreshold"] = json!(1);
                }
            }
        }
        for volume in spec["volumes"].as_array_mut().unwrap() {
            for source in ["configMap", "projected"] {
                if let Some(source) = volume.get_mut(source) {
                    source["defaultMode"] = json!(420);
                }
            }
            let sources = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut);
            for source in sources.into_iter().flatten() {
                if let Some(item) = source.pointer_mut("/downwardAPI/items/0") {
                    item["fieldRef"]["apiVersion"] = json!("v1");
                }
            }
        }
        pod
    }

    fn templates() -> Vec<PodTemplate> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kubernetes");
        let names = ["pod-template", "pod-template-local", "pod-template-sandboxes"];
        let read = |name: &&str| {
            let text = fs_err::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
            PodTemplate::parse(&text).unwrap()
        };
        names.iter().map(read).collect()
    }

    #[test]
    fn what_clusters_do_to_all_pods_is_no_change() {
        for template in templates() {
            let made = completed(&template.pod);
            assert_eq!(changes(&template.pod, &made, &BTreeSet::new()), None);
        }
    }

    fn template() -> PodTemplate {
        templates().remove(2)
    }

    /// The pod as a cluster completes it, with a change to its specification.
    fn made(change: impl Fn(&mut Value)) -> Value {
        let mut made = completed(&template().pod);
        change(&mut made["spec"]);
        made
    }

    /// Each is named with these words, and is accepted where the template has the name, if there is one.
    fn are_named<const N: usize>(cases: [(Value, &str, &str); N]) {
        let template = template();
        for (made, expected, name) in cases {
            let found = changes(&template.pod, &made, &BTreeSet::new()).unwrap();
            assert!(found.contains(expected), "{found}");
            assert!(!found.contains("arn:of-somebody"), "{found}");
            let accepted = BTreeSet::from([name.to_owned(), "other".to_owned()]);
            let is_accepted = changes(&template.pod, &made, &accepted).is_none();
            assert_eq!(is_accepted, !name.is_empty(), "{found}");
        }
    }

    #[test]
    fn what_a_webhook_has_changed_is_named_unless_it_is_accepted() {
        let of_node = made(|spec| {
            let volume = json!({"name": "node", "hostPath": {"path": "/", "type": ""}});
            spec["volumes"].as_array_mut().unwrap().push(volume);
            let mounts = spec["containers"][0]["volumeMounts"].as_array_mut().unwrap();
            mounts.push(json!({"name": "node", "mountPath": "/node"}));
        });
        let unconfined = |spec: &mut Value| {
            let kind = &mut spec["containers"][0]["securityContext"]["seccompProfile"]["type"];
            *kind = json!("Unconfined");
        };
        are_named([
            (made(|spec| spec["hostPID"] = json!(true)), "`hostPID` is true", ""),
            (
                made(|spec| spec["automountServiceAccountToken"] = json!(true)),
                "`automountServiceAccountToken`",
                "",
            ),
            (of_node, "it has files of its node (`\"/\"`)", ""),
            (
                made(|spec| spec["containers"][0]["image"] = json!("evil.example/x:1")),
                "`containers[\"patchwright\"].image` is \"evil.example/x:1\" instead of",
                "containers[\"patchwright\"].image",
            ),
            (
                made(|spec| spec["containers"][0]["securityContext"]["runAsUser"] = json!(0)),
                "securityContext.runAsUser` is 0 instead of 10001",
                "containers[\"patchwright\"].securityContext.runAsUser",
            ),
            (
                made(unconfined),
                "seccompProfile.type` is \"Unconfined\"",
                "containers[\"patchwright\"].securityContext.seccompProfile.type",
            ),
        ]);
    }

    #[test]
    fn what_a_webhook_has_added_is_named_unless_it_is_accepted() {
        let side_car = made(|spec| {
            let list = spec["containers"].as_array_mut().unwrap();
            list.push(json!({"name": "istio-proxy", "image": "proxy", "resources": {},
                "volumeMounts": [{"name": "istio-data", "mountPath": "/data"}]}));
            let volumes = spec["volumes"].as_array_mut().unwrap();
            volumes.push(json!({"name": "istio-data", "emptyDir": {}}));
        });
        let secrets = made(|spec| {
            let secrets = spec["containers"][0]["envFrom"].as_array_mut().unwrap();
            secrets.push(json!({"secretRef": {"name": "more"}}));
        });
        let role = made(|spec| {
            let env = spec["containers"][0]["env"].as_array_mut().unwrap();
            env.push(json!({"name": "AWS_ROLE_ARN", "value": "arn:of-somebody"}));
        });
        are_named([
            (
                secrets,
                "`containers[\"patchwright\"].envFrom`",
                "containers[\"patchwright\"].envFrom",
            ),
            (
                role,
                "`containers[\"patchwright\"].env` has \"AWS_ROLE_ARN\" besides",
                "AWS_ROLE_ARN",
            ),
            (
                made(|spec| spec["serviceAccountName"] = json!("admin")),
                "`serviceAccountName` is `admin` instead of `patchwright-sandbox-worker`",
                "serviceAccountName",
            ),
            (side_car, "`containers` has \"istio-proxy\" besides", "istio-proxy"),
        ]);
    }

    #[test]
    fn a_template_says_what_may_be_added() {
        let text = "apiVersion: v1\nkind: PodTemplate\nmetadata:\n  annotations:\n    patchwright/accepted-changes: a, b\n\
                    template:\n  spec:\n    containers: [{name: patchwright, image: a}]\n";
        let accepted: Vec<String> =
            PodTemplate::parse(text).unwrap().accepted.into_iter().collect();
        assert_eq!(accepted, ["a", "b"]);
        assert!(
            PodTemplate::parse(&text.replace("a, b", "[a]")).unwrap_err().contains("is no text")
        );
    }
}
