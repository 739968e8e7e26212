//! The shape of our pods: what the API server is asked for. `docs/sandbox.md` lists it for people;
//! [`super::hardening`] checks that the server did as asked. Pure.

use serde_json::{Map, Value, json};

use super::services;
use super::template::{CONTAINER, Template};
use crate::ContainerLimits;
use crate::docker::USER;
use crate::services::Service;
use patchwright_guest::enforced::{self, Bound, Enforced, Home};

/// Brings the guest in, before the work begins. Another user's, so that commands cannot replace it.
pub(super) const BRINGER: &str = "guest";
const BRINGER_USER: u32 = 10_001;
/// The folder of the guest. Only [`BRINGER`] can write to it.
pub(super) const GUEST_FOLDER: &str = "/pw-guest";
/// The volume that has the workspace as a folder in it: the root of a volume is root's, and git does not work in
/// somebody else's folder.
pub(super) const VOLUME: &str = "/pw";
/// The workspace in the container.
pub(super) const WORKSPACE: &str = "/pw/workspace";
/// The volume of the home folder, and the folder, which is in it for the same reason.
const HOME_VOLUME: &str = "/pw-home";
pub(super) const HOME: &str = "/pw-home/agent";
/// What the first container does: it waits until [`super::bring_up`] has brought the guest and seen that the pod reaches
/// nothing. Then it finds [`GO`].
const WAIT: &str = "until [ -e /pw-guest/go ]; do sleep 0.2 2>/dev/null || sleep 1; done";
pub(super) const GO: &str = "/pw-guest/go";

/// The component that network policies select our pods by.
pub(super) const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "sandbox");
/// The run's id, as far as a label can have it.
pub(super) const RUN: &str = "patchwright/run";
const PURPOSE: &str = "patchwright/purpose";
/// The process that made it.
pub(super) const OWNER: &str = "patchwright/owner";
/// An annotation: seconds since 1970, by the server's clock, when its owner last showed that it lives.
pub(super) const BEAT: &str = "patchwright/alive";
/// An annotation: for how many seconds that counts.
pub(super) const COUNTS: &str = "patchwright/alive-for";

/// The cluster ends a pod itself after so many seconds, should nobody be there to do it.
const DEADLINE: u64 = 24 * 3600;
/// Bytes for the guest and its links.
const GUEST_BYTES: u64 = 256 << 20;
/// Memory that is reserved, and processors in thousandths, when the template does not say.
const RESERVED_MEMORY: u64 = 1 << 30;
const RESERVED_CPU: u64 = 500;
/// Bytes of the node's disk that are reserved. Without a word the limit would be.
const RESERVED_DISK: u64 = 1 << 30;

/// The pod that this process runs in; the sandboxes of one that is gone are removed by the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    pub name: String,
    pub uid: String,
    pub namespace: String,
}

/// Everything that decides the shape.
pub(super) struct Shape<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) image: &'a str,
    /// The registry has to give the image to anybody: what a node has of it may be somebody else's.
    pub(super) is_public: bool,
    /// Setup left files in the home folder, maybe more than memory has room for.
    pub(super) has_home: bool,
    /// Servers beside it, as [`services::chosen`] lets them be.
    pub(super) services: &'a [Service],
    pub(super) run: &'a str,
    pub(super) purpose: &'a str,
    pub(super) limits: &'a ContainerLimits,
    pub(super) template: &'a Template,
    pub(super) owner: &'a str,
    pub(super) own_pod: Option<&'a OwnPod>,
    /// Now, by the server's clock, and for how many seconds a sign of life counts.
    pub(super) heartbeat: (i64, u64),
}

/// What to ask the API server for.
pub(super) fn pod(shape: &Shape<'_>) -> Value {
    let mut spec = shape.template.fields.clone();
    if shape.is_public || shape.services.iter().any(services::is_public) {
        spec.remove("imagePullSecrets");
    }
    if !shape.services.is_empty() {
        spec.insert("hostAliases".to_owned(), services::aliases(shape.services));
    }
    let mut containers = vec![work(shape)];
    containers.extend(shape.services.iter().map(|service| services::container(shape, service)));
    let fixed = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "hostname": "sandbox",
        // Nobody answers at this address: names are the relay's business.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": DEADLINE,
        "securityContext": of_all(shape),
        "initContainers": [bringer(shape)],
        "containers": containers,
        "volumes": volumes(shape),
    });
    spec.extend(fixed.as_object().cloned().unwrap_or_default());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(shape), "spec": spec})
}

/// What holds for containers that say nothing else. A user that is said here could not be the image's.
fn of_all(shape: &Shape<'_>) -> Value {
    let profile = json!({"type": "RuntimeDefault"});
    if shape.template.users_of_image && !shape.services.is_empty() {
        return json!({"seccompProfile": profile});
    }
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "seccompProfile": profile,
    })
}

fn metadata(shape: &Shape<'_>) -> Value {
    let mut labels = shape.template.labels.clone();
    for (name, value) in [
        ("app.kubernetes.io/name", "patchwright"),
        ("app.kubernetes.io/managed-by", "patchwright"),
        COMPONENT,
        (RUN, &label(shape.run)),
        (PURPOSE, &label(shape.purpose)),
        (OWNER, shape.owner),
    ] {
        labels.insert(name.to_owned(), json!(value));
    }
    let mut annotations = shape.template.annotations.clone();
    let (now, counts) = shape.heartbeat;
    annotations.insert(BEAT.to_owned(), json!(now.to_string()));
    annotations.insert(COUNTS.to_owned(), json!(counts.to_string()));
    let mut metadata = json!({
        "name": shape.name,
        "namespace": shape.namespace,
        "labels": labels,
        "annotations": annotations,
    });
    // An owner of another namespace would count as gone.
    if let Some(own) = shape.own_pod.filter(|own| own.namespace == shape.namespace) {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": own.name, "uid": own.uid,
        }]);
    }
    metadata
}

fn bringer(shape: &Shape<'_>) -> Value {
    json!({
        "name": BRINGER,
        "image": shape.image,
        "imagePullPolicy": pull_policy(shape),
        "command": ["sh", "-c", WAIT],
        "resources": {
            "requests": {"cpu": "50m", "memory": "67108864"},
            "limits": {"cpu": "1", "memory": "268435456", "ephemeral-storage": "536870912"},
        },
        "securityContext": security(BRINGER_USER),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "guest", "mountPath": GUEST_FOLDER}],
    })
}

fn work(shape: &Shape<'_>) -> Value {
    let limits = shape.limits;
    json!({
        "name": CONTAINER,
        "image": shape.image,
        "imagePullPolicy": pull_policy(shape),
        "command": [format!("{GUEST_FOLDER}/patchwright-guest"), "idle"],
        "workingDir": "/",
        "resources": {
            "requests": requests(shape),
            "limits": {
                "cpu": format!("{}m", milli_cpus(limits)),
                "memory": limits.memory_bytes.to_string(),
                "ephemeral-storage": disk(shape).to_string(),
            },
        },
        "securityContext": security(USER),
        "volumeMounts": [
            {"name": "guest", "mountPath": GUEST_FOLDER, "readOnly": true},
            {"name": "work", "mountPath": VOLUME},
            {"name": "home", "mountPath": HOME_VOLUME},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    })
}

fn pull_policy(shape: &Shape<'_>) -> &'static str {
    if shape.is_public { "Always" } else { "IfNotPresent" }
}

fn security(user: u32) -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": user,
        "runAsGroup": user,
        "privileged": false,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// What is reserved; less than the limits, as most commands need little of them.
fn requests(shape: &Shape<'_>) -> Map<String, Value> {
    let cpu = milli_cpus(shape.limits).min(RESERVED_CPU);
    let memory = shape.limits.memory_bytes.min(RESERVED_MEMORY);
    let mut requests = Map::new();
    requests.insert("cpu".to_owned(), json!(format!("{cpu}m")));
    requests.insert("memory".to_owned(), json!(memory.to_string()));
    let disk = disk(shape).min(RESERVED_DISK);
    requests.insert("ephemeral-storage".to_owned(), json!(disk.to_string()));
    requests.extend(shape.template.requests.clone());
    requests
}

fn volumes(shape: &Shape<'_>) -> Value {
    let limits = shape.limits;
    let in_memory = |bytes: u64| json!({"medium": "Memory", "sizeLimit": bytes.to_string()});
    let on_disk = |bytes: u64| json!({"sizeLimit": bytes.to_string()});
    let home = if shape.has_home {
        on_disk(above(limits.workspace_bytes))
    } else {
        in_memory(limits.tmp_bytes)
    };
    json!([
        {"name": "guest", "emptyDir": on_disk(GUEST_BYTES)},
        {"name": "work", "emptyDir": on_disk(above(limits.workspace_bytes))},
        {"name": "home", "emptyDir": home},
        {"name": "tmp", "emptyDir": in_memory(limits.tmp_bytes)},
    ])
}

/// The guest ends commands at the limit, which only costs the command; the cluster ends the whole pod at this.
pub(super) fn above(bytes: u64) -> u64 {
    bytes + bytes / 4
}

/// All that the pod may have on its node's disk.
fn disk(shape: &Shape<'_>) -> u64 {
    let work = above(shape.limits.workspace_bytes);
    GUEST_BYTES + if shape.has_home { 2 * work } else { work }
}

/// Processors in the unit of Kubernetes.
pub(super) fn milli_cpus(limits: &ContainerLimits) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few processors")]
    let milli = (limits.cpus * 1e3) as u64;
    milli.max(1)
}

/// As the value of a label: what Kubernetes does not allow becomes `-`.
pub(super) fn label(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let plain: String = text.chars().map(|c| if is_plain(c) { c } else { '-' }).take(63).collect();
    plain.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// The name of a pod of this run. No other one has it.
pub(super) fn name(run: &str, purpose: &str) -> String {
    let plain = |text: &str, most: usize| -> String {
        let text = label(text).to_ascii_lowercase().replace(['_', '.'], "-");
        let text: String = text.chars().take(most).collect();
        text.trim_matches('-').to_owned()
    };
    let random = hex::encode(rand::random::<[u8; 4]>());
    format!("patchwright-{}-{}-{random}", plain(run, 24), plain(purpose, 12))
}

/// What such a pod enforces, for the report. `network` is what was found out about it.
pub(super) fn enforced(shape: &Shape<'_>, network: enforced::Network) -> Vec<Enforced> {
    let limits = shape.limits;
    let home = if shape.has_home { Home::OnDisk } else { Home::InMemory };
    vec![
        Enforced::Network(network),
        Enforced::User { id: USER, seccomp: "the runtime's default seccomp".to_owned() },
        Enforced::ReadOnlyRoot,
        Enforced::Memory(Bound::AtMost(limits.memory_bytes >> 20)),
        Enforced::Cpus(Bound::AtMost(limits.cpus)),
        // A pod has no such limit: the kubelet's (`podPidsLimit`) counts, and is not to be seen from here.
        Enforced::Processes(Bound::Unbounded),
        Enforced::TemporaryFiles { mib: limits.tmp_bytes >> 20, home },
        limits.workspace_report(),
    ]
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::manifest::*;

    #[test]
    fn names_and_labels_are_such() {
        for (run, purpose) in [
            ("01K9ABC", "agent"),
            ("_.x.Y/ü-", "baseline"),
            (&"a".repeat(200), "evidence-of-something-long"),
            ("", ""),
        ] {
            let name = name(run, purpose);
            assert!(name.len() <= 63 && name.starts_with("patchwright-"), "{name}");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(is_plain), "{name}");
            let label = label(run);
            assert!(label.len() <= 63 && !label.starts_with(['-', '.', '_']), "{label}");
            assert!(!label.ends_with(['-', '.', '_']), "{label}");
        }
    }
}
