//! What operators copy: Kubernetes manifests against the schema of their kinds, systemd units against systemd.
#![expect(clippy::disallowed_methods, reason = "asks systemd")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::cluster::schema;

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> =
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// All objects of `docs/kubernetes`, each with the name of its file.
fn objects() -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    for file in files("docs/kubernetes") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for document in fs_err::read_to_string(&file).unwrap().split("\n---\n") {
            let object = serde_saphyr::from_str(document);
            objects.push((name.clone(), object.unwrap_or_else(|err| panic!("{name}: {err}"))));
        }
    }
    objects
}

#[test]
fn manifests_are_what_kubernetes_knows() {
    let objects = objects();
    let mut kinds = BTreeSet::new();
    for (name, object) in &objects {
        let wrong = schema::check(object);
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        let kind = object["kind"].as_str().unwrap();
        // Sandboxes are alone in theirs.
        let is_of_sandboxes = ["sandboxes.yaml", "sandbox-template.yaml"].contains(&name.as_str());
        let namespace = if is_of_sandboxes { "patchwright-sandboxes" } else { "patchwright" };
        let place = if kind == "Namespace" { "name" } else { "namespace" };
        assert_eq!(object["metadata"][place], namespace, "{name}");
        kinds.insert(object["kind"].as_str().unwrap());
    }
    let all = [
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodTemplate",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ];
    assert_eq!(kinds, all.into());
    // The check itself: a field that Kubernetes does not know, a value of another type, a volume that is not there.
    let (_, serve) = objects.iter().find(|(name, _)| name == "serve.yaml").unwrap();
    for (pointer, value) in [
        ("/spec/template/spec/containers/0/image", Value::from(7)),
        ("/spec/template/spec/volumes/0/name", Value::from("other")),
        ("/spec/replicas", Value::from("two")),
        ("/metadata/name", Value::from("Serve_It")),
    ] {
        let mut broken = serve.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        assert!(!schema::check(&broken).is_empty(), "{pointer}");
    }
    let mut broken = serve.clone();
    broken["spec"]["template"]["spec"]["contaners"] = Value::from(Vec::<Value>::new());
    assert!(!schema::check(&broken).is_empty());
}

#[test]
fn containers_of_ours_are_hardened_and_have_no_secret_in_their_text() {
    let mut seen = 0;
    for (name, object) in objects() {
        let Some(spec) =
            object.pointer("/spec/template/spec").filter(|_| object["kind"] == "Deployment")
        else {
            continue;
        };
        let mut soft = schema::softness(spec);
        // These talk to the API server.
        if ["launcher.yaml", "sandbox-worker.yaml"].contains(&name.as_str()) {
            soft.retain(|what| what != "it has a service account's token");
        }
        assert!(soft.is_empty(), "{name}: {soft:?}");
        for container in spec["containers"].as_array().unwrap() {
            assert_eq!(container["envFrom"][0]["secretRef"]["name"], "patchwright", "{name}");
            for variable in container["env"].as_array().unwrap() {
                let variable = variable["name"].as_str().unwrap();
                let is_secret = ["TOKEN", "KEY", "SECRET", "DATABASE"]
                    .iter()
                    .any(|word| variable.contains(word));
                assert!(!is_secret, "{name}: {variable}");
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 4);
}

/// The templates of pods, each with the name of its file.
fn templates(objects: &[(String, Value)]) -> Vec<(&str, &Value)> {
    let of = |object: &Value| match object["kind"].as_str()? {
        "Deployment" => Some("/spec/template"),
        "PodTemplate" => Some("/template"),
        _ => None,
    };
    let named = objects.iter().map(|(name, object)| (name.as_str(), object));
    named.filter_map(|(name, object)| Some((name, object.pointer(of(object)?)?))).collect()
}

#[test]
fn what_selects_pods_finds_some_and_ports_have_the_names_that_are_asked_for() {
    let objects = objects();
    let templates = templates(&objects);
    let mut selected = 0;
    for (name, object) in &objects {
        let spec = &object["spec"];
        let selector = match object["kind"].as_str().unwrap() {
            "Deployment" | "PodDisruptionBudget" => &spec["selector"]["matchLabels"],
            "NetworkPolicy" => &spec["podSelector"]["matchLabels"],
            "Service" => &spec["selector"],
            _ => continue,
        };
        let wanted = selector.as_object().cloned().unwrap_or_default();
        let is_found = |pod: &&Value| {
            wanted.iter().all(|(key, value)| pod["metadata"]["labels"][key.as_str()] == *value)
        };
        let pods: Vec<&Value> = templates.iter().map(|(_, pod)| *pod).filter(is_found).collect();
        assert!(!pods.is_empty(), "{name}: {} selects nothing", object["kind"]);
        selected += 1;
        let ports = [&spec["ports"], &spec["ingress"][0]["ports"]].map(Value::as_array);
        for port in ports.into_iter().flatten().flatten() {
            let wanted = port.get("targetPort").unwrap_or(&port["port"]);
            let has = |pod: &&Value| {
                let containers = pod["spec"]["containers"].as_array().unwrap().iter();
                let mut ports = containers.filter_map(|one| one["ports"].as_array()).flatten();
                ports.any(|one| one["name"] == *wanted)
            };
            assert!(pods.iter().all(has), "{name}: no port {wanted}");
        }
    }
    assert_eq!(selected, 9);
}

#[test]
fn every_container_is_bounded_and_says_when_it_is_ready() {
    let objects = objects();
    let templates = templates(&objects);
    assert_eq!(templates.len(), 8);
    for (name, pod) in templates {
        // Its limits are settings of Patchwright.
        if name == "sandbox-template.yaml" {
            continue;
        }
        let spec = &pod["spec"];
        let ours = spec["containers"].as_array().unwrap();
        let beside = spec["initContainers"].as_array().map(Vec::as_slice).unwrap_or_default();
        for container in ours.iter().chain(beside) {
            let resources = &container["resources"];
            for (place, what) in [("requests", "cpu"), ("requests", "memory"), ("limits", "memory")]
            {
                assert!(resources[place][what].is_string(), "{name}: {place} of {what}");
            }
        }
        for container in beside {
            assert!(container["startupProbe"].is_object(), "{name}: what waits for it?");
        }
        if name == "serve.yaml" {
            let health = &ours[0]["readinessProbe"]["exec"]["command"];
            assert_eq!(*health, serde_json::json!(["/usr/local/bin/patchwright", "health"]));
            assert!(ours[0]["livenessProbe"]["tcpSocket"].is_object());
        }
        // Whoever has no profile says so, and has no privileged container beside it.
        if name == "pod-template-local.yaml" {
            assert_eq!(ours[0]["securityContext"]["seccompProfile"]["type"], "Unconfined");
            assert!(beside.is_empty() && !pod.to_string().contains("privileged"));
        }
    }
}

#[test]
fn what_breaks_out_reaches_no_metadata_service() {
    let objects = objects();
    let all = objects.iter().find(|(_, object)| {
        object["kind"] == "NetworkPolicy" && object["spec"]["podSelector"] == serde_json::json!({})
    });
    let (_, policy) = all.expect("a policy for every pod");
    assert_eq!(policy["spec"]["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"]["ingress"], serde_json::json!([]));
    for rule in policy["spec"]["egress"].as_array().unwrap() {
        let blocks = rule["to"].as_array();
        // A rule for every address is one for looking names up.
        let Some(blocks) = blocks else {
            let is_dns = |port: &Value| port["port"] == 53;
            assert!(rule["ports"].as_array().unwrap().iter().all(is_dns));
            continue;
        };
        for block in blocks {
            assert!(block["ipBlock"]["except"].to_string().contains(
                if block["ipBlock"]["cidr"] == "0.0.0.0/0" { "169.254." } else { "fd00:ec2::254" }
            ));
        }
    }
}

#[test]
fn sandboxes_are_closed_and_worker_and_role_fit_together() {
    let objects = objects();
    let of = |file: &str, kind: &str| {
        let found = objects.iter().find(|(name, one)| name == file && one["kind"] == kind);
        found.unwrap_or_else(|| panic!("{file}: no {kind}")).1.clone()
    };
    let policy = of("sandboxes.yaml", "NetworkPolicy");
    let closed = serde_json::json!({
        "podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": [],
    });
    assert_eq!(policy["spec"], closed);
    let level = &of("sandboxes.yaml", "Namespace")["metadata"]["labels"];
    assert_eq!(level["pod-security.kubernetes.io/enforce"], "restricted");
    let account = of("sandbox-worker.yaml", "ServiceAccount")["metadata"]["name"].clone();
    let binding = of("sandboxes.yaml", "RoleBinding");
    assert_eq!(binding["subjects"][0]["name"], account);
    let worker = of("sandbox-worker.yaml", "Deployment");
    assert_eq!(worker["spec"]["template"]["spec"]["serviceAccountName"], account);
    let launched = of("pod-template-sandboxes.yaml", "PodTemplate");
    assert_eq!(launched["template"]["spec"]["serviceAccountName"], account);
    // What a sandbox may never be given by who makes it.
    let rights = serde_json::to_string(&of("sandboxes.yaml", "Role")["rules"]).unwrap();
    for resource in ["secrets", "configmaps", "serviceaccounts", "nodes", "*"] {
        assert!(!rights.contains(resource), "{resource}");
    }
}

#[test]
fn systemd_knows_every_line_of_the_units() {
    let verify = Command::new("systemd-analyze").arg("--version").output();
    if !verify.is_ok_and(|output| output.status.success()) {
        eprintln!("systemd: not available, its units are not verified");
        return;
    }
    // Units are verified as if the program were where packages put it, and their services there.
    let folder = tempfile::tempdir().unwrap();
    for file in files("docs/systemd") {
        let text = fs_err::read_to_string(&file).unwrap();
        let text = text.replace("/usr/bin/patchwright", env!("CARGO_BIN_EXE_patchwright"));
        let text = text.replace("Requires=docker.service\n", "");
        let name = file.file_name().unwrap().to_string_lossy().replace("@.", "@1.");
        let unit = folder.path().join(name);
        fs_err::write(&unit, text).unwrap();
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&unit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // What is wrong in units of this machine is not ours to say.
        let ours = said.lines().filter(|line| line.contains("patchwright"));
        assert_eq!(ours.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", file.display());
    }
}
