//! Objects against what Kubernetes says about them (`tests/fixtures/kubernetes/schema.json`), and rules of the API
//! server that no schema tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Value, json};

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        serde_json::from_str(include_str!("../../fixtures/kubernetes/schema.json")).unwrap()
    })
}

/// What is wrong with an object of the API; empty when nothing is.
pub(crate) fn check(object: &Value) -> Vec<String> {
    static VALIDATORS: Mutex<BTreeMap<String, &'static Validator>> = Mutex::new(BTreeMap::new());
    let of = |name: &str| object[name].as_str().unwrap_or_default();
    let kind = format!("{} {}", of("apiVersion"), of("kind"));
    let Some(definition) = schema()["kinds"].get(&kind) else {
        return vec![format!("there is no `{kind}` in the schema")];
    };
    let validator = *VALIDATORS.lock().entry(kind.clone()).or_insert_with(|| {
        let mut whole = definition.clone();
        whole["$defs"] = schema()["$defs"].clone();
        Box::leak(Box::new(jsonschema::validator_for(&whole).unwrap()))
    });
    let mut wrong: Vec<String> = validator
        .iter_errors(object)
        .map(|error| format!("{kind} {}: {error}", error.instance_path()))
        .collect();
    wrong.extend(names(object).map(|why| format!("{kind}: {why}")));
    for pod in pods(object) {
        wrong.extend(pod_rules(&pod).into_iter().map(|why| format!("{kind}: {why}")));
    }
    if of("kind") == "Job" {
        let policy = &object["spec"]["template"]["spec"]["restartPolicy"];
        if *policy != "Never" && *policy != "OnFailure" {
            wrong.push(format!("Job: restartPolicy {policy} is not supported"));
        }
    }
    wrong
}

/// Specifications of pods in an object.
fn pods(object: &Value) -> Vec<Value> {
    let places = match object["kind"].as_str().unwrap_or_default() {
        "Pod" => "/spec",
        "PodTemplate" => "/template/spec",
        "Job" | "Deployment" => "/spec/template/spec",
        _ => return Vec::new(),
    };
    object.pointer(places).cloned().into_iter().collect()
}

/// Names and labels: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>.
fn names(object: &Value) -> impl Iterator<Item = String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let is_label = |text: &str| {
        let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        text.len() <= 63
            && text.chars().all(inside)
            && !text.starts_with(['-', '_', '.'])
            && !text.ends_with(['-', '_', '.'])
    };
    let mut wrong = Vec::new();
    let dns =
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.');
    if !dns || name.len() > 63 {
        wrong.push(format!("the name `{name}` is none"));
    }
    for place in ["/metadata/labels", "/spec/template/metadata/labels", "/template/metadata/labels"]
    {
        for (key, value) in object.pointer(place).and_then(Value::as_object).into_iter().flatten() {
            let bare = key.split_once('/').map_or(key.as_str(), |(_, bare)| bare);
            if !is_label(bare) || !is_label(value.as_str().unwrap_or("?!")) {
                wrong.push(format!("the label `{key}: {value}` is none"));
            }
        }
    }
    wrong.into_iter()
}

fn pod_rules(spec: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let volumes: Vec<Value> = list(&spec["volumes"]);
    let mut names = BTreeSet::new();
    for volume in &volumes {
        if !names.insert(volume["name"].to_string()) {
            wrong.push(format!("two volumes are called {}", volume["name"]));
        }
    }
    for container in list(&spec["containers"]).iter().chain(&list(&spec["initContainers"])) {
        let mut places = BTreeSet::new();
        for mount in list(&container["volumeMounts"]) {
            if !names.contains(&mount["name"].to_string()) {
                wrong.push(format!("there is no volume {}", mount["name"]));
            }
            if !places.insert(mount["mountPath"].to_string()) {
                wrong.push(format!("{} is mounted twice", mount["mountPath"]));
            }
        }
    }
    wrong
}

/// Capabilities that the level `baseline` lets a container add.
const BASELINE: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// How far a pod is from this level of <https://kubernetes.io/docs/concepts/security/pod-security-standards/>, its first
/// containers, too, and from what we promise besides.
pub(crate) fn softness_at(level: &str, spec: &Value) -> Vec<String> {
    let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
    let all = [list("initContainers"), list("containers")].concat();
    let is_service = |one: &Value| one["name"].as_str().unwrap().starts_with("service-");
    let (services, ours): (Vec<Value>, Vec<Value>) = all.into_iter().partition(is_service);
    let mut of_ours = spec.clone();
    of_ours["containers"] = json!(ours);
    let mut wrong = softness(&of_ours);
    for service in services {
        let context = &service["securityContext"];
        let added = context["capabilities"]["add"].as_array().cloned().unwrap_or_default();
        let mut expect = |is_so: bool, what: &str| {
            if !is_so {
                wrong.push(format!("{what} of {}", service["name"]));
            }
        };
        expect(context["privileged"] == false, "privileged");
        expect(context["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
        expect(context["capabilities"]["drop"] == json!(["ALL"]), "capabilities");
        expect(added.iter().all(|one| BASELINE.iter().any(|known| one == known)), "capabilities");
        expect(context["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile");
        expect(service["resources"]["limits"]["memory"].is_string(), "limits of memory");
        expect(service["volumeMounts"].is_null(), "volumes");
        if level == "restricted" {
            expect(added.is_empty(), "capabilities");
            expect(context["runAsNonRoot"] == true, "runAsNonRoot");
            expect(context["runAsUser"] != 0, "runAsUser");
        }
    }
    wrong
}

/// How far a pod is from the level `restricted`, and from what we promise besides.
pub(crate) fn softness(spec: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |is_so: bool, what: &str| {
        if !is_so {
            wrong.push(what.to_owned());
        }
    };
    expect(spec["automountServiceAccountToken"] == false, "it has a service account's token");
    for name in ["hostNetwork", "hostPID", "hostIPC"] {
        expect(spec.get(name).is_none_or(|value| *value == false), name);
    }
    let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    expect(volumes.iter().all(|volume| volume.get("hostPath").is_none()), "hostPath");
    for container in spec["containers"].as_array().into_iter().flatten() {
        let context = &container["securityContext"];
        expect(context["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
        expect(context["capabilities"] == json!({"drop": ["ALL"]}), "capabilities");
        expect(context["runAsNonRoot"] == true, "runAsNonRoot");
        expect(context["readOnlyRootFilesystem"] == true, "readOnlyRootFilesystem");
        expect(context["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile");
        expect(container["resources"]["limits"]["memory"].is_string(), "limits of memory");
    }
    wrong
}
