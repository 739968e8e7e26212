//! Compares the pod that the API server has with the one that was asked for. Whoever may change pods on their way in
//! (admission webhooks: service meshes, registries' mirrors, agents of observability) adds containers, volumes,
//! variables and tokens, and an old server drops fields that it does not know; a run does not start in a pod that is
//! looser than documented. Pure.

use serde_json::{Map, Value};

use super::manifest::{COMPONENT, OWNER};

/// Fields of a pod's specification that only say where, when and how urgently it runs, or that the server fills in
/// and that loosen nothing. All others have to be as they were asked for.
const PLACE: &[&str] = &[
    "affinity",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "schedulerName",
    "schedulingGates",
    "serviceAccount",
    "serviceAccountName",
    "tolerations",
    "topologySpreadConstraints",
];
/// Fields of a container that loosen nothing, as [`PLACE`] has those of a pod.
const OF_CONTAINER: &[&str] =
    &["resizePolicy", "terminationMessagePath", "terminationMessagePolicy"];
/// The policy by which the registry is asked each time.
const ALWAYS: &str = "Always";
/// Lists whose entries are told apart by this field.
const NAMED: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("volumeMounts", "mountPath"),
];

/// What is not as it was asked for, one sentence each; empty when all is well.
pub(super) fn differences(asked: &Value, made: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for name in [COMPONENT.0, OWNER] {
        let label = |pod: &Value| pod["metadata"]["labels"][name].clone();
        if label(asked) != label(made) {
            found.push(format!("the label `{name}` is {}", shown(&label(made))));
        }
    }
    object("", &asked["spec"], &made["spec"], &mut found);
    // A service account gives its pull secrets to pods that have none. An image that everybody may have needs none, and
    // with them a repository would get what is somebody else's.
    let containers = asked["spec"]["containers"].as_array().into_iter().flatten();
    let is_public = containers.into_iter().any(|one| one["imagePullPolicy"] == ALWAYS);
    if is_public && !is_nothing(&made["spec"]["imagePullSecrets"]) {
        found.push("`imagePullSecrets` are given to an image that has to be public".to_owned());
    }
    found
}

/// Compares two objects field by field.
fn object(path: &str, asked: &Value, made: &Value, found: &mut Vec<String>) {
    let empty = Map::new();
    let (asked, made) = (asked.as_object().unwrap_or(&empty), made.as_object().unwrap_or(&empty));
    let mut names: Vec<&String> = asked.keys().chain(made.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let may_differ = (path.is_empty() && PLACE.contains(&name.as_str()))
            || OF_CONTAINER.contains(&name.as_str());
        // A template says what is kept free for us; somebody may keep less or more.
        if may_differ || name == "requests" {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let (asked, made) = (&asked.get(name).cloned(), &made.get(name).cloned());
        field(&path, name, asked.as_ref(), made.as_ref(), found);
    }
}

fn field(
    path: &str,
    name: &str,
    asked: Option<&Value>,
    made: Option<&Value>,
    found: &mut Vec<String>,
) {
    let (asked, made) = (asked.unwrap_or(&Value::Null), made.unwrap_or(&Value::Null));
    if same(name, asked, made) || (asked.is_null() && is_nothing(made)) {
        return;
    }
    if let Some((_, key)) = NAMED.iter().find(|(list, _)| *list == name) {
        return entries(path, key, asked, made, found);
    }
    if asked.is_object() && made.is_object() {
        return object(path, asked, made, found);
    }
    found.push(format!("`{path}` is {} instead of {}", shown(made), shown(asked)));
}

fn entries(path: &str, key: &str, asked: &Value, made: &Value, found: &mut Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (asked, mut made) = (list(asked), list(made));
    for wanted in &asked {
        let name = shown(&wanted[key]);
        match made.iter().position(|one| one[key] == wanted[key]) {
            Some(at) => object(&format!("{path}[{name}]"), wanted, &made.remove(at), found),
            None => found.push(format!("`{path}` has no {name}")),
        }
    }
    for more in made {
        found.push(format!("`{path}` has {} besides", shown(&more[key])));
    }
}

/// Whether two values mean the same: a server writes quantities in its own way.
fn same(name: &str, asked: &Value, made: &Value) -> bool {
    let is_quantity = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "sizeLimit");
    // Clusters may ask for this of all pods, and it takes nothing away.
    let is_stricter = name == "imagePullPolicy" && made == ALWAYS;
    asked == made
        || is_stricter
        || (is_quantity
            && milli(asked).is_some_and(|asked| milli(made).is_some_and(|made| made == asked)))
}

/// A quantity in thousandths (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>);
/// `None` when it is not a quantity, or not a whole number of thousandths.
fn milli(quantity: &Value) -> Option<i128> {
    const UNITS: &[(&str, i128)] = &[
        ("Ki", 1000 << 10),
        ("Mi", 1000 << 20),
        ("Gi", 1000 << 30),
        ("Ti", 1000 << 40),
        ("m", 1),
        ("k", 1_000_000),
        ("M", 1_000_000_000),
        ("G", 1_000_000_000_000),
        ("T", 1_000_000_000_000_000),
        ("", 1000),
    ];
    let text = match quantity {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (number, unit) = UNITS.iter().find_map(|(suffix, unit)| {
        text.strip_suffix(suffix).map(|number| (number.to_owned(), *unit))
    })?;
    number.parse::<i128>().ok()?.checked_mul(unit)
}

/// Absent, as far as Kubernetes is concerned.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

fn shown(value: &Value) -> String {
    if value.is_null() {
        return "absent".to_owned();
    }
    patchwright_base::text::cut(&patchwright_base::text::line(&value.to_string()), 200)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::ContainerLimits;
    use crate::kubernetes::hardening::*;
    use crate::kubernetes::manifest::{Shape, pod};
    use crate::kubernetes::template::Template;
    use crate::services::Service;

    fn asked() -> Value {
        pod(&Shape {
            name: "patchwright-r1-agent-00",
            namespace: "agents",
            image: "python:3.13",
            is_public: false,
            has_home: false,
            services: &[Service {
                name: "db".to_owned(),
                image: "postgres:16".to_owned(),
                env: [("POSTGRES_PASSWORD".to_owned(), "x".to_owned())].into(),
                ..Service::default()
            }],
            run: "r1",
            purpose: "agent",
            limits: &ContainerLimits::default(),
            template: &Template::default(),
            owner: "0123456789abcdef0123456789abcdef",
            own_pod: None,
            heartbeat: (0, 300),
        })
    }

    fn after(change: impl FnOnce(&mut Value)) -> String {
        let (asked, mut made) = (asked(), asked());
        // As a server completes it.
        made["spec"]["schedulerName"] = json!("default-scheduler");
        made["spec"]["serviceAccountName"] = json!("default");
        made["spec"]["serviceAccount"] = json!("default");
        made["spec"]["priority"] = json!(0);
        made["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready"}]);
        made["spec"]["imagePullSecrets"] = json!([{"name": "of-the-service-account"}]);
        made["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        made["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
        made["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("4Gi");
        made["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("2");
        change(&mut made);
        differences(&asked, &made).join("; ")
    }

    #[test]
    fn what_a_server_completes_is_fine() {
        assert_eq!(after(|_| ()), "");
    }

    #[test]
    fn an_image_for_everybody_is_pulled_without_secrets() {
        let mut asked = asked();
        asked["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        let mut made = asked.clone();
        assert!(differences(&asked, &made).is_empty());
        made["spec"]["imagePullSecrets"] = json!([{"name": "of-the-service-account"}]);
        assert_eq!(
            differences(&asked, &made),
            ["`imagePullSecrets` are given to an image that has to be public"]
        );
    }

    fn set(pointer: &str, value: Value) -> String {
        after(|pod| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[name] = value;
        })
    }

    #[test]
    fn sees_what_became_looser_of_a_service() {
        for (found, expected) in [
            (
                set("/spec/containers/1/command", json!(["sh"])),
                "`containers[\"service-db\"].command`",
            ),
            (
                set("/spec/containers/1/securityContext/runAsUser", json!(0)),
                "`containers[\"service-db\"].securityContext.runAsUser` is 0",
            ),
            (
                set("/spec/containers/1/env", json!([{"name": "A", "value": "b"}])),
                "`containers[\"service-db\"].env`",
            ),
            (
                set(
                    "/spec/containers/1/volumeMounts",
                    json!([{"name": "work", "mountPath": "/x"}]),
                ),
                "`containers[\"service-db\"].volumeMounts` has \"/x\" besides",
            ),
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn sees_what_became_looser() {
        for (found, expected) in [
            (set("/spec/hostNetwork", json!(true)), "`hostNetwork` is true instead of absent"),
            (
                set("/spec/automountServiceAccountToken", json!(true)),
                "`automountServiceAccountToken`",
            ),
            (set("/spec/shareProcessNamespace", json!(true)), "`shareProcessNamespace`"),
            (set("/spec/dnsPolicy", json!("ClusterFirst")), "`dnsPolicy` is \"ClusterFirst\""),
            (set("/spec/hostAliases", json!([{"ip": "10.0.0.1"}])), "`hostAliases`"),
            (set("/spec/securityContext/runAsUser", json!(0)), "`securityContext.runAsUser` is 0"),
            (set("/spec/securityContext/sysctls", json!([{}])), "`securityContext.sysctls`"),
            (set("/spec/ephemeralContainers", json!([{"name": "debug"}])), "`ephemeralContainers`"),
            (
                set("/spec/containers/0/image", json!("mirror/python")),
                "`containers[\"sandbox\"].image`",
            ),
            (
                set("/spec/containers/0/env", json!([{"name": "A"}])),
                "`containers[\"sandbox\"].env`",
            ),
            (set("/spec/containers/0/envFrom", json!([{}])), "envFrom"),
            (set("/spec/containers/0/lifecycle", json!({"postStart": {}})), "lifecycle"),
            (
                set("/spec/containers/0/securityContext/privileged", json!(true)),
                "privileged` is true",
            ),
            (
                set(
                    "/spec/containers/0/securityContext/capabilities",
                    json!({"drop": ["ALL"], "add": ["NET_RAW"]}),
                ),
                "capabilities.add",
            ),
            (set("/spec/containers/0/securityContext/procMount", json!("Unmasked")), "procMount"),
            (
                set("/spec/containers/0/resources/limits/memory", json!("8Gi")),
                "limits.memory` is \"8Gi\"",
            ),
            (set("/spec/containers/0/volumeMounts/0/readOnly", json!(false)), "readOnly` is false"),
            (set("/spec/volumes/1/emptyDir/sizeLimit", json!("99Ti")), "sizeLimit"),
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }

    #[test]
    fn sees_what_was_added_and_taken_away() {
        let found = after(|pod| {
            let list = pod["spec"]["containers"].as_array_mut().unwrap();
            list.push(json!({"name": "istio-proxy"}));
            let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
            mounts.push(json!({"name": "token", "mountPath": "/var/run/secrets"}));
            let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
            volumes.remove(0);
            volumes.push(json!({"name": "token"}));
            pod["metadata"]["labels"][COMPONENT.0] = json!("other");
        });
        for part in [
            "`containers` has \"istio-proxy\" besides",
            "volumeMounts` has \"/var/run/secrets\" besides",
            "`volumes` has no \"guest\"",
            "`volumes` has \"token\" besides",
            "the label `app.kubernetes.io/component` is \"other\"",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
    }

    #[test]
    fn quantities_are_compared_by_what_they_mean() {
        for (one, other, expected) in [
            ("4294967296", "4Gi", true),
            ("2000m", "2", true),
            ("4000000000", "4G", true),
            ("1500m", "1500m", true),
            ("1", "2", false),
            ("1Gi", "1G", false),
        ] {
            assert_eq!(same("memory", &json!(one), &json!(other)), expected, "{one} {other}");
        }
        assert!(!same("memory", &json!("x"), &json!("y")));
    }
}
