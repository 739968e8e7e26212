//! What operators copy: Kubernetes manifests against the schema of their kinds, systemd units against systemd.
#![expect(clippy::disallowed_methods, reason = "asks systemd")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::kubernetes::schema;

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
        assert_eq!(object["metadata"]["namespace"], "patchwright", "{name}");
        kinds.insert(object["kind"].as_str().unwrap());
    }
    let all = ["Deployment", "PodTemplate", "Role", "RoleBinding", "Service", "ServiceAccount"];
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
        // The launcher is the one that talks to the API server.
        if name == "launcher.yaml" {
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
    assert_eq!(seen, 3);
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
