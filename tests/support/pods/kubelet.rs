//! Runs the containers of a pod.
#![expect(clippy::disallowed_methods, reason = "pods are containers")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Shared, World, docker};
use crate::support::docker::socket;

/// The address of the host in Docker's own network.
const BRIDGE: &str = "172.17.0.1";

/// The name of the container that is this one of a pod's.
pub(super) fn container(world: &World, pod: &str, name: &str) -> String {
    format!("{}-{pod}-{name}", world.id)
}

pub(super) fn container_status(name: &str, image_id: &str, state: &Value) -> Value {
    json!({"name": name, "image": "a", "imageID": image_id, "ready": true, "restartCount": 0, "state": state})
}

/// Removes what runs of a pod.
pub(super) fn remove_containers(world: &World, pod: &str) {
    for name in ["guest", "sandbox"] {
        let args = ["rm", "-fv", &container(world, pod, name)].map(str::to_owned);
        let mut command = Command::new("docker");
        command.args(["--host", &format!("unix://{}", socket())]).args(args);
        // One that is not there needs no removal.
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Runs a pod to its end.
pub(super) async fn run(shared: Shared, name: String) {
    let pod = shared.lock().pods[&name].clone();
    let first = &pod["spec"]["initContainers"][0];
    let work = &pod["spec"]["containers"][0];
    let running = json!({"running": {"startedAt": "2026-11-20T12:00:00Z"}});
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    let ended = |code: i32| json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}});
    let say = |phase: &str, first: &Value, work: &Value, image: &str| {
        let status = json!({
            "phase": phase,
            "initContainerStatuses": [container_status("guest", image, first)],
            "containerStatuses": [container_status("sandbox", image, work)],
        });
        shared.lock().put_status(&name, status);
    };
    if let Err(why) = start(&shared, &name, &pod, first).await {
        let waiting = json!({"waiting": {"reason": "CreateContainerError", "message": why}});
        return say("Pending", &waiting, &waiting, "");
    }
    say("Pending", &running, &waiting, "");
    let code = wait(&shared, &name, "guest").await;
    if code != 0 {
        return say("Failed", &ended(code), &waiting, "");
    }
    if let Err(why) = start(&shared, &name, &pod, work).await {
        let waiting = json!({"waiting": {"reason": "CreateContainerError", "message": why}});
        return say("Pending", &ended(0), &waiting, "");
    }
    let image = image_id(work["image"].as_str().unwrap()).await;
    say("Running", &ended(0), &running, &image);
    let code = wait(&shared, &name, "sandbox").await;
    say(if code == 0 { "Succeeded" } else { "Failed" }, &ended(0), &ended(code), &image);
}

async fn wait(shared: &Shared, pod: &str, container_name: &str) -> i32 {
    let name = container(&shared.lock(), pod, container_name);
    let output = docker(&["wait".to_owned(), name]).output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(137)
}

async fn image_id(image: &str) -> String {
    let args = ["image", "inspect", "--format", "{{.Id}}", image].map(str::to_owned);
    let output = docker(&args).output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Starts one container.
///
/// # Errors
/// Docker's words.
async fn start(shared: &Shared, pod: &str, object: &Value, spec: &Value) -> Result<(), String> {
    let args = arguments(&shared.lock(), pod, object, spec);
    let output = docker(&args).output().await.unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn arguments(world: &World, pod: &str, object: &Value, spec: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let context = &spec["securityContext"];
    let limits = &spec["resources"]["limits"];
    let mut args =
        ["run", "--detach", "--pull", "never", "--cap-drop", "ALL"].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("--name", container(world, pod, &text(&spec["name"])));
    add("--hostname", text(&object["spec"]["hostname"]));
    add("--user", format!("{}:{}", context["runAsUser"], context["runAsGroup"]));
    add("--security-opt", "no-new-privileges".to_owned());
    add("--memory", text(&limits["memory"]));
    add("--memory-swap", text(&limits["memory"]));
    let is_closed = world.enforces && !world.policies.is_empty();
    add("--network", if is_closed { "none" } else { "bridge" }.to_owned());
    add("--env", format!("KUBERNETES_SERVICE_HOST={BRIDGE}"));
    add("--env", format!("KUBERNETES_SERVICE_PORT={}", world.port));
    for mount in spec["volumeMounts"].as_array().unwrap() {
        let volumes = object["spec"]["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|one| one["name"] == mount["name"]).unwrap();
        let (at, empty) = (text(&mount["mountPath"]), &volume["emptyDir"]);
        if empty["medium"] == "Memory" {
            add("--tmpfs", format!("{at}:rw,exec,mode=0777,size={}", text(&empty["sizeLimit"])));
            continue;
        }
        let folder = world.folder.join(pod).join(text(&volume["name"]));
        fs_err::create_dir_all(&folder).unwrap();
        // An empty folder of a pod is everybody's to write to.
        fs_err::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let ro = if mount["readOnly"] == true { ":ro" } else { "" };
        add("--volume", format!("{}:{at}{ro}", folder.display()));
    }
    if context["readOnlyRootFilesystem"] == true {
        args.push("--read-only".to_owned());
    }
    let command: Vec<String> = spec["command"].as_array().unwrap().iter().map(text).collect();
    args.extend(["--entrypoint".to_owned(), command[0].clone(), text(&spec["image"])]);
    args.extend_from_slice(&command[1..]);
    args
}

/// Removes a pod a moment after somebody has asked for it.
pub(super) fn remove(shared: &Shared, world: &World, name: &str) {
    let shared = Arc::clone(shared);
    let (name, containers) =
        (name.to_owned(), ["guest", "sandbox"].map(|one| container(world, name, one)));
    tokio::spawn(async move {
        for container in containers {
            let args = ["rm", "-fv", &container].map(str::to_owned);
            let _ = docker(&args).output().await;
        }
        shared.lock().pods.remove(&name);
    });
}
