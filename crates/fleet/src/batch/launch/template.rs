//! The operator's template of pods, a `PodTemplate` of Kubernetes in a file: image, Secret, resources, nodes,
//! side-cars. It is passed on as it is, but for what makes the run's container hard to leave ([`harden`]): that
//! is added where it is absent, and a template that asks for the opposite is refused.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;

/// The container that the run is in.
pub(super) const CONTAINER: &str = "patchwright";
/// The longest template that is read.
const LONGEST: u64 = 1 << 20;
/// An annotation of the template: what may become of pods on their way in, as messages name it, apart by commas or
/// white space.
pub(super) const ACCEPTED: &str = "patchwright/accepted-changes";
/// Where a run keeps its state, unless the template says otherwise: an empty folder of the pod's own.
const STATE: &str = "/var/lib/patchwright";

/// A template that can be used.
#[derive(Debug)]
pub(super) struct PodTemplate {
    /// Where Jobs are made, when the template says so.
    pub(super) namespace: Option<String>,
    /// A `PodTemplateSpec`.
    pub(super) pod: Value,
    /// What may be different in the pods that the cluster makes of it.
    pub(super) accepted: BTreeSet<String>,
    /// What the operator should know.
    pub(super) warnings: Vec<String>,
}

impl PodTemplate {
    /// # Errors
    /// When the file cannot be read, is no template, has secrets in it, or asks for a weaker pod.
    pub(super) fn read(path: &Path) -> Result<PodTemplate> {
        let name = path.display();
        let unreadable = |err: std::io::Error| {
            Failure::usage(format!("the pod template `{name}` cannot be read")).caused_by(err)
        };
        let text = named_file::read_text(path, LONGEST).map_err(unreadable)?;
        PodTemplate::parse(&text).map_err(|why| {
            Failure::usage(format!("the pod template `{name}` cannot be used: {why}"))
                .hint("`docs/kubernetes/pod-template.yaml` is one to start from")
        })
    }

    pub(super) fn parse(text: &str) -> Result<PodTemplate, String> {
        let template: Value =
            serde_saphyr::from_str(text).map_err(|err| format!("it is no YAML: {err}"))?;
        if template["apiVersion"] != "v1" || template["kind"] != "PodTemplate" {
            return Err("it is no `kind: PodTemplate` of `apiVersion: v1`".to_owned());
        }
        let namespace = template["metadata"]["namespace"].as_str().map(str::to_owned);
        let accepted = match &template["metadata"]["annotations"][ACCEPTED] {
            Value::Null => "",
            Value::String(accepted) => accepted.as_str(),
            _ => return Err(format!("the annotation `{ACCEPTED}` is no text")),
        };
        let accepted = accepted.split(|c: char| c == ',' || c.is_whitespace());
        let accepted = accepted.filter(|one| !one.is_empty()).map(str::to_owned).collect();
        let mut pod = template["template"].clone();
        if !pod["spec"].is_object() {
            return Err("it has no `template.spec`".to_owned());
        }
        no_secrets(&pod["spec"])?;
        let warnings = harden(&mut pod)?;
        Ok(PodTemplate { namespace, pod, accepted, warnings })
    }
}

/// Secrets belong into a Secret: everybody who may look at pods can read their specification.
fn no_secrets(spec: &Value) -> Result<(), String> {
    for container in containers(spec) {
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap_or_default();
            let value = variable["value"].as_str().unwrap_or_default();
            if !Env::from_pairs([(name, value)]).secrets().is_empty() {
                return Err(format!(
                    "`{name}` stands in it as text; name a Secret instead (`valueFrom.secretKeyRef`, or \
                     `envFrom`)"
                ));
            }
        }
    }
    Ok(())
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["containers", "initContainers"];
    lists.into_iter().flat_map(|list| spec[list].as_array().into_iter().flatten())
}

/// What must hold for the pod, and for the run's container, by the path of each field.
const POD: &[(&[&str], RequiredValue)] = &[
    (&["restartPolicy"], RequiredValue::Word("Never")),
    (&["automountServiceAccountToken"], RequiredValue::No),
    (&["enableServiceLinks"], RequiredValue::No),
    (&["hostNetwork"], RequiredValue::Absent),
    (&["hostPID"], RequiredValue::Absent),
    (&["hostIPC"], RequiredValue::Absent),
    (&["shareProcessNamespace"], RequiredValue::Absent),
];
const RUN: &[(&[&str], RequiredValue)] = &[
    (&["securityContext", "runAsNonRoot"], RequiredValue::Yes),
    (&["securityContext", "readOnlyRootFilesystem"], RequiredValue::Yes),
    (&["securityContext", "allowPrivilegeEscalation"], RequiredValue::No),
    (&["securityContext", "privileged"], RequiredValue::Absent),
    (&["securityContext", "capabilities", "add"], RequiredValue::Nothing),
];

#[derive(Clone, Copy)]
enum RequiredValue {
    Word(&'static str),
    Yes,
    No,
    /// Not there, or false.
    Absent,
    /// Not there, or empty.
    Nothing,
}

impl RequiredValue {
    fn value(self) -> Option<Value> {
        match self {
            RequiredValue::Word(word) => Some(json!(word)),
            RequiredValue::Yes => Some(json!(true)),
            RequiredValue::No => Some(json!(false)),
            RequiredValue::Absent | RequiredValue::Nothing => None,
        }
    }

    fn holds(self, found: Option<&Value>) -> bool {
        match self {
            RequiredValue::Word(_) | RequiredValue::Yes | RequiredValue::No => {
                found == self.value().as_ref()
            }
            RequiredValue::Absent => found.is_none_or(|found| found.is_null() || *found == false),
            RequiredValue::Nothing => {
                found.is_none_or(|found| found.as_array().is_none_or(Vec::is_empty))
            }
        }
    }
}

/// Adds what is absent; a list of warnings.
fn harden(pod: &mut Value) -> Result<Vec<String>, String> {
    let spec = pod["spec"].as_object_mut().ok_or("it has no `template.spec`")?;
    for (path, wanted) in POD {
        put(spec, path, *wanted, "the pod")?;
    }
    for volume in spec.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        if volume.get("hostPath").is_some() {
            return Err(
                "a volume is a `hostPath`: a run must not have files of its node".to_owned()
            );
        }
    }
    let mut volumes = Vec::new();
    let run = run_container(spec)?;
    if run.contains_key("args") {
        return Err(format!("`args` of the container `{CONTAINER}` is for the launcher to say"));
    }
    for (path, wanted) in RUN {
        put(run, path, *wanted, "the container `patchwright`")?;
    }
    let context = object_of(run, "securityContext")?;
    object_of(context, "capabilities")?.insert("drop".to_owned(), json!(["ALL"]));
    let seccomp = context.entry("seccompProfile").or_insert(json!({"type": "RuntimeDefault"}));
    let unconfined = seccomp["type"] == "Unconfined";
    let resources = object_of(run, "resources")?;
    resources.entry("requests").or_insert(json!({"cpu": "1", "memory": "2Gi"}));
    resources.entry("limits").or_insert(json!({"memory": "4Gi"}));
    run.entry("terminationMessagePolicy").or_insert(json!("FallbackToLogsOnError"));
    // The root is read-only, so a run needs places to write.
    mounted(run, &mut volumes, "/tmp", "patchwright-tmp")?;
    if !names(run, "PATCHWRIGHT_STATE_DIR") {
        mounted(run, &mut volumes, STATE, "patchwright-state")?;
        let variable = json!({"name": "PATCHWRIGHT_STATE_DIR", "value": STATE});
        list_of(run, "env")?.push(variable);
    }
    list_of(spec, "volumes")?.extend(volumes);
    let mut warnings = Vec::new();
    if unconfined {
        warnings.push(format!(
            "the pod template runs the container `{CONTAINER}` without a seccomp profile, as the local sandbox \
             needs it: commands of the model have the sandbox's own filter, Patchwright itself has none"
        ));
    }
    Ok(warnings)
}

/// What makes a pod weaker than any run's may be, whatever was asked for or is accepted; `None` when nothing does.
pub(super) fn weaker(pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    let run = spec["containers"].as_array().into_iter().flatten();
    let run = run.into_iter().find(|one| one["name"] == CONTAINER);
    let Some(run) = run else { return Some(format!("it has no container `{CONTAINER}`")) };
    for (of, fields) in [(spec, POD), (run, RUN)] {
        for (path, wanted) in fields {
            let found = path.iter().try_fold(of, |value, name| value.get(name));
            if !wanted.holds(found) {
                let found = found.map_or("absent".to_owned(), Value::to_string);
                return Some(format!("`{}` is {found}", path.join(".")));
            }
        }
    }
    let drops = run["securityContext"]["capabilities"]["drop"].as_array();
    if !drops.is_some_and(|drops| drops.contains(&json!("ALL"))) {
        return Some("not all capabilities are dropped".to_owned());
    }
    let mounts = |volume: &Value| {
        let mut mounts = run["volumeMounts"].as_array().into_iter().flatten();
        mounts.any(|mount| mount["name"] == volume["name"])
    };
    let mut volumes = spec["volumes"].as_array().into_iter().flatten();
    let of_node = volumes.find(|volume| !volume["hostPath"].is_null() && mounts(volume))?;
    Some(format!("it has files of its node (`{}`)", of_node["hostPath"]["path"]))
}

fn put(
    map: &mut Map<String, Value>,
    path: &[&str],
    wanted: RequiredValue,
    of: &str,
) -> Result<(), String> {
    let Some((last, above)) = path.split_last() else { return Ok(()) };
    let map = above.iter().try_fold(map, |map, name| object_of(map, name))?;
    match (map.get(*last), wanted.value()) {
        (None, Some(value)) => {
            map.insert((*last).to_owned(), value);
        }
        (found, _) if wanted.holds(found) => {}
        (found, _) => {
            let found = found.map(Value::to_string).unwrap_or_default();
            return Err(format!(
                "`{}: {found}` of {of} would make it weaker than a run may be; leave it out",
                path.join(".")
            ));
        }
    }
    Ok(())
}

fn run_container(spec: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, String> {
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    let run = containers.into_iter().flatten().find(|one| one["name"] == CONTAINER);
    let run = run.and_then(Value::as_object_mut);
    let run = run.ok_or_else(|| format!("it has no container of the name `{CONTAINER}`"))?;
    if !run.get("image").is_some_and(Value::is_string) {
        return Err(format!("the container `{CONTAINER}` has no `image`"));
    }
    Ok(run)
}

/// Mounts an empty folder of the pod's own at a place where nothing is mounted.
fn mounted(
    run: &mut Map<String, Value>,
    volumes: &mut Vec<Value>,
    at: &str,
    name: &str,
) -> Result<(), String> {
    let mounts = list_of(run, "volumeMounts")?;
    if !mounts.iter().any(|mount| mount["mountPath"] == at) {
        mounts.push(json!({"name": name, "mountPath": at}));
        volumes.push(json!({"name": name, "emptyDir": {}}));
    }
    Ok(())
}

fn names(run: &Map<String, Value>, variable: &str) -> bool {
    let variables = run.get("env").and_then(Value::as_array);
    variables.into_iter().flatten().any(|one| one["name"] == variable)
}

fn object_of<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    let value = map.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().ok_or_else(|| format!("`{name}` is no mapping"))
}

fn list_of<'a>(map: &'a mut Map<String, Value>, name: &str) -> Result<&'a mut Vec<Value>, String> {
    let value = map.entry(name).or_insert_with(|| json!([]));
    value.as_array_mut().ok_or_else(|| format!("`{name}` is no list"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::batch::launch::template::{PodTemplate, weaker};

    const HEAD: &str = "apiVersion: v1\nkind: PodTemplate\ntemplate:\n  spec:\n";
    const RUN: &str =
        "    containers:\n    - {name: patchwright, image: a, envFrom: [{secretRef: {name: s}}]}\n";

    fn why(text: &str) -> String {
        PodTemplate::parse(text).unwrap_err()
    }

    #[test]
    fn a_template_gets_what_makes_it_hard_and_keeps_the_rest() {
        let text = format!("{HEAD}{RUN}    nodeSelector: {{pool: agents}}\n");
        let template = PodTemplate::parse(&text).unwrap();
        let spec = &template.pod["spec"];
        assert_eq!(spec["nodeSelector"], json!({"pool": "agents"}));
        assert_eq!(spec["containers"][0]["envFrom"], json!([{"secretRef": {"name": "s"}}]));
        assert_eq!(
            spec["containers"][0]["securityContext"],
            json!({
                "runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
            })
        );
        assert_eq!(weaker(&template.pod), None);
        assert!(template.warnings.is_empty());
    }

    #[test]
    fn what_a_server_made_weaker_is_seen() {
        let template = PodTemplate::parse(&format!("{HEAD}{RUN}")).unwrap();
        let change = |pointer: &str, value: Value| {
            let mut pod = template.pod.clone();
            *pod.pointer_mut(pointer).unwrap() = value;
            weaker(&pod)
        };
        let context = "/spec/containers/0/securityContext";
        let found = [
            change("/spec/automountServiceAccountToken", json!(true)),
            change(&format!("{context}/readOnlyRootFilesystem"), json!(false)),
            change(
                &format!("{context}/capabilities"),
                json!({"drop": ["ALL"], "add": ["NET_ADMIN"]}),
            ),
            change(&format!("{context}/capabilities"), json!({})),
            change("/spec/containers/0/name", json!("other")),
            change(
                "/spec/volumes/0",
                json!({"name": "patchwright-tmp", "hostPath": {"path": "/"}}),
            ),
        ];
        assert!(found.iter().all(Option::is_some), "{found:?}");
    }

    #[test]
    fn a_template_that_is_weaker_or_tells_secrets_is_refused() {
        let cases = [
            ("", "no `kind: PodTemplate`"),
            ("kind: Pod\napiVersion: v1\n", "no `kind: PodTemplate`"),
            ("apiVersion: v1\nkind: PodTemplate\n", "no `template.spec`"),
            (
                &format!("{HEAD}    containers: [{{name: other, image: a}}]\n"),
                "no container of the name",
            ),
            (&format!("{HEAD}    containers: [{{name: patchwright}}]\n"), "no `image`"),
            (&format!("{HEAD}{RUN}    hostNetwork: true\n"), "`hostNetwork: true`"),
            (&format!("{HEAD}{RUN}    automountServiceAccountToken: true\n"), "weaker"),
            (
                &format!("{HEAD}{RUN}    volumes: [{{name: d, hostPath: {{path: /}}}}]\n"),
                "hostPath",
            ),
            (
                &format!("{HEAD}    containers: [{{name: patchwright, image: a, args: [x]}}]\n"),
                "`args`",
            ),
            (
                &format!(
                    "{HEAD}    containers: [{{name: patchwright, image: a, securityContext: {{privileged: true}}}}]\n"
                ),
                "securityContext.privileged",
            ),
            (
                &format!(
                    "{HEAD}    containers: [{{name: patchwright, image: a, env: [{{name: GITHUB_TOKEN, value: ghp_x}}]}}]\n"
                ),
                "`GITHUB_TOKEN` stands in it as text",
            ),
            (
                &format!(
                    "{HEAD}{RUN}    initContainers: [{{name: b, image: a, env: [{{name: DATABASE_URL, value: 'postgres://a:bcdefgh1@c/d'}}]}}]\n"
                ),
                "`DATABASE_URL` stands in it as text",
            ),
        ];
        for (text, expected) in cases {
            let why = why(text);
            assert!(why.contains(expected), "{text}\n{why}");
            assert!(!why.contains("ghp_x") && !why.contains("bcdefgh1"), "{why}");
        }
    }
}
