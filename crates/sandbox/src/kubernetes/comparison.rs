//! Compares the specification of a pod as the API server has it with the one that was asked for, field by field. What a
//! server fills in, leaves out because it means nothing, or makes stricter is no difference; everything else is one.
//! Pure; used for the pods of sandboxes, and by the fleet's launcher for those of runs.

use patchwright_base::text;
use serde_json::{Map, Value};

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
pub(super) const ALWAYS: &str = "Always";
/// Lists whose entries are told apart by this field.
const NAMED: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("volumeMounts", "mountPath"),
    ("env", "name"),
];
/// Objects that hold restrictions. They are compared field by field even if the request has none of them, so that a
/// restriction which the cluster adds is no difference.
const CONTEXT: &[&str] = &["securityContext", "capabilities"];
/// Fields that default to true: if the server drops one that was requested as false, the restriction is lost.
const YES_BY_DEFAULT: &[&str] = &[
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "hostUsers",
];

/// Something that is not as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What came in addition (a container, volume, variable, or the place of a mount), else the path of the field.
    pub subject: String,
    /// The same as a sentence.
    pub words: String,
}

/// What is not as it was asked for; empty when all is well.
pub fn differences(asked: &Value, made: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    object("", asked, made, &mut found);
    found
}

/// Compares two objects field by field.
fn object(path: &str, asked: &Value, made: &Value, found: &mut Vec<Difference>) {
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
        let (asked, made) = (asked.get(name).unwrap_or(&Value::Null), made.get(name));
        field(&path, name, asked, made.unwrap_or(&Value::Null), found);
    }
}

fn field(path: &str, name: &str, asked: &Value, made: &Value, found: &mut Vec<Difference>) {
    let is_filled_in =
        asked.is_null() && (is_nothing(made) || is_default(name, made) || is_stricter(name, made));
    let is_left_out = made.is_null() && is_nothing(asked) && !YES_BY_DEFAULT.contains(&name);
    if same(name, asked, made) || is_filled_in || is_left_out {
        return;
    }
    if let Some((_, key)) = NAMED.iter().find(|(list, _)| *list == name) {
        return entries(path, key, asked, made, found);
    }
    if made.is_object() && (asked.is_object() || CONTEXT.contains(&name)) {
        return object(path, asked, made, found);
    }
    if let (Some(asked), Some(made)) = (objects(asked), objects(made))
        && asked.len() == made.len()
    {
        for (at, (asked, made)) in asked.iter().zip(made).enumerate() {
            object(&format!("{path}[{at}]"), asked, made, found);
        }
        return;
    }
    // What a variable says may be a secret.
    let words = if name == "value" {
        format!("`{path}` was changed")
    } else {
        format!("`{path}` is {} instead of {}", shown(made), shown(asked))
    };
    found.push(Difference { subject: text::line(path), words });
}

fn objects(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().filter(|list| list.iter().all(Value::is_object))
}

fn entries(path: &str, key: &str, asked: &Value, made: &Value, found: &mut Vec<Difference>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (asked, mut made) = (list(asked), list(made));
    for wanted in &asked {
        let name = shown(&wanted[key]);
        match made.iter().position(|one| one[key] == wanted[key]) {
            Some(at) => object(&format!("{path}[{name}]"), wanted, &made.remove(at), found),
            None => found.push(Difference {
                subject: text::line(path),
                words: format!("`{path}` has no {name}"),
            }),
        }
    }
    for more in made {
        let words = format!("`{path}` has {} besides", shown(&more[key]));
        let subject = text::line(more[key].as_str().unwrap_or_default());
        found.push(Difference { subject, words });
    }
}

/// Whether two values mean the same: a server writes quantities in its own way.
fn same(name: &str, asked: &Value, made: &Value) -> bool {
    let is_quantity =
        matches!(name, "cpu" | "memory" | "ephemeral-storage" | "sizeLimit" | "storage");
    // Clusters may ask for this of all pods, and it takes nothing away.
    let is_stricter = name == "imagePullPolicy" && made == ALWAYS;
    let drops_more = || {
        let (asked, made) = (asked.as_array(), made.as_array());
        asked.zip(made).is_some_and(|(asked, made)| asked.iter().all(|one| made.contains(one)))
    };
    asked == made
        || is_stricter
        || (name == "drop" && drops_more())
        || (is_quantity
            && milli(asked).is_some_and(|asked| milli(made).is_some_and(|made| made == asked)))
}

/// What a server writes into a field that was left to it.
/// Source: `SetDefaults_*` of `pkg/apis/core/v1/defaults.go` of Kubernetes.
fn is_default(name: &str, made: &Value) -> bool {
    match name {
        "apiVersion" => made == "v1",
        "defaultMode" => made == 0o644,
        "divisor" => made == "0",
        "dnsPolicy" => made == "ClusterFirst",
        "expirationSeconds" => made == 3600,
        "failureThreshold" => made == 3,
        "imagePullPolicy" => made == "IfNotPresent",
        "periodSeconds" => made == 10,
        "procMount" => made == "Default",
        "protocol" => made == "TCP",
        "scheme" => made == "HTTP",
        "successThreshold" | "timeoutSeconds" => made == 1,
        "terminationGracePeriodSeconds" => made.is_u64(),
        "volumeMode" => made == "Filesystem",
        _ => false,
    }
}

/// What takes rights away where nothing was asked for: clusters may do so for all pods, as those with security context
/// constraints do with users and labels.
fn is_stricter(name: &str, made: &Value) -> bool {
    match name {
        "drop" => true,
        "fsGroup" | "runAsGroup" | "runAsUser" => made.as_u64().is_some_and(|id| id > 0),
        "readOnlyRootFilesystem" | "runAsNonRoot" => made == true,
        "seLinuxOptions" => {
            made.as_object().is_some_and(|options| options.keys().all(|one| one == "level"))
        }
        "seccompProfile" => made == &serde_json::json!({"type": "RuntimeDefault"}),
        _ => false,
    }
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
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?.checked_mul(unit)?;
    (digits % scale == 0).then_some(digits / scale)
}

/// Absent, as far as Kubernetes is concerned.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(Value::is_null),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

pub(super) fn shown(value: &Value) -> String {
    if value.is_null() {
        return "absent".to_owned();
    }
    text::cut(&text::line(&value.to_string()), 200)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kubernetes::comparison::*;

    #[test]
    fn quantities_are_compared_by_what_they_mean() {
        for (one, other, expected) in [
            ("4294967296", "4Gi", true),
            ("2000m", "2", true),
            ("4000000000", "4G", true),
            ("1500m", "1500m", true),
            ("1.5Gi", "1536Mi", true),
            ("0.5", "500m", true),
            ("1", "2", false),
            ("1Gi", "1G", false),
        ] {
            assert_eq!(same("memory", &json!(one), &json!(other)), expected, "{one} {other}");
        }
        assert!(!same("memory", &json!("x"), &json!("y")));
    }

    fn asked() -> Value {
        json!({
            "hostNetwork": false,
            "containers": [{
                "name": "a",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
            "volumes": [{"name": "c", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}],
        })
    }

    /// With what a server fills in, and makes stricter.
    fn made() -> Value {
        json!({
            "dnsPolicy": "ClusterFirst",
            "nodeName": "n",
            "securityContext": {"fsGroup": 1_000_680_000, "seLinuxOptions": {"level": "s0:c26,c15"}},
            "containers": [{
                "name": "a",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "A"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}}],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL", "KILL"]},
                    "runAsUser": 1_000_680_000,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }],
            "volumes": [{"name": "c", "configMap": {"name": "c", "defaultMode": 420}}, {"name": "e", "emptyDir": {}}],
        })
    }

    #[test]
    fn what_is_left_to_the_server_and_what_it_makes_stricter_is_no_difference() {
        assert_eq!(differences(&asked(), &made()), []);
    }

    #[test]
    fn what_is_looser_is_named() {
        let looser = |pointer: &str, value: Value| {
            let mut made = made();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            match made.pointer_mut(parent).unwrap() {
                Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
                fields => fields[name] = value,
            }
            let found: Vec<String> =
                differences(&asked(), &made).into_iter().map(|one| one.subject).collect();
            found.join(" ")
        };
        for (pointer, value, expected) in [
            ("/hostNetwork", json!(true), "hostNetwork"),
            (
                "/securityContext/seLinuxOptions",
                json!({"type": "spc_t"}),
                "securityContext.seLinuxOptions",
            ),
            (
                "/containers/0/env/0",
                json!({"name": "A", "value": "b"}),
                "containers[\"a\"].env[\"A\"].value",
            ),
            (
                "/containers/0/env/0",
                json!({"name": "LD_PRELOAD", "value": "b"}),
                "containers[\"a\"].env LD_PRELOAD",
            ),
            ("/containers/0/ports/0/hostPort", json!(80), "containers[\"a\"].ports[0].hostPort"),
            (
                "/containers/0/securityContext/allowPrivilegeEscalation",
                Value::Null,
                "containers[\"a\"].securityContext.allowPrivilegeEscalation",
            ),
            (
                "/containers/0/securityContext/runAsUser",
                json!(0),
                "containers[\"a\"].securityContext.runAsUser",
            ),
            (
                "/volumes/1",
                json!({"name": "e", "hostPath": {"path": "/"}}),
                "volumes[\"e\"].hostPath",
            ),
        ] {
            assert_eq!(looser(pointer, value), expected);
        }
    }
}
