//! Runs the containers of a pod: first the one that makes and keeps its network, then the first containers, then the
//! others, one after the other, as the kubelet does. An image that is not there keeps only its own container waiting.
#![expect(clippy::disallowed_methods, reason = "pods are containers")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Shared, World, docker};
use crate::support::docker::socket;

/// The address of the host in Docker's own network.
const BRIDGE: &str = "172.17.0.1";
/// The container whose network the others share.
const PAUSE: &str = "pause";

/// The name of the container that is this one of a pod's.
pub(super) fn container(world: &World, pod: &str, name: &str) -> String {
    format!("{}-{pod}-{name}", world.id)
}

pub(super) fn container_status(name: &str, image_id: &str, state: &Value) -> Value {
    json!({"name": name, "image": "a", "imageID": image_id, "ready": true, "restartCount": 0, "state": state})
}

/// The arguments that remove what runs of a pod.
fn removal(world: &World, pod: &str) -> Vec<String> {
    let spec = &world.pods[pod]["spec"];
    let lists = [&spec["containers"], &spec["initContainers"]].map(|list| list.as_array().unwrap());
    let names = lists.into_iter().flatten().map(|one| one["name"].as_str().unwrap());
    let names = names.chain([PAUSE]).map(|name| container(world, pod, name));
    ["rm", "-fv"].map(str::to_owned).into_iter().chain(names).collect()
}

/// Removes what runs of a pod.
pub(super) fn remove_containers(world: &World, pod: &str) {
    let mut command = Command::new("docker");
    command.args(["--host", &format!("unix://{}", socket())]).args(removal(world, pod));
    // Those that are not there need no removal.
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A pod that runs.
struct Runs {
    shared: Shared,
    name: String,
    pod: Value,
    /// State and image of its containers, by name.
    states: Mutex<BTreeMap<String, (Value, String)>>,
}

/// Runs a pod to its end.
pub(super) async fn run(shared: Shared, name: String) {
    let pod = shared.lock().pods[&name].clone();
    let runs = Arc::new(Runs { shared, name, pod, states: Mutex::default() });
    let first = &runs.pod["spec"]["initContainers"][0];
    if let Err(why) = runs.network().await {
        return runs.waits(first, &why);
    }
    if !runs.start(first).await || runs.wait("guest").await != 0 {
        return;
    }
    let mut waits = Vec::new();
    for one in runs.pod["spec"]["containers"].as_array().unwrap() {
        if runs.start(one).await {
            let (runs, name) = (Arc::clone(&runs), one["name"].as_str().unwrap().to_owned());
            waits.push(tokio::spawn(async move { runs.wait(&name).await }));
        }
    }
    for wait in waits {
        wait.await.unwrap();
    }
}

impl Runs {
    /// The container that has the network. The others share it, and what is in its `/etc/hosts`.
    async fn network(&self) -> Result<(), String> {
        let args = {
            let world = self.shared.lock();
            let spec = &self.pod["spec"];
            let is_closed = world.enforces && !world.policies.is_empty();
            let network = if is_closed { "none" } else { "bridge" };
            let name = container(&world, &self.name, PAUSE);
            let mut args = ["run", "--detach", "--pull", "never", "--network", network, "--name"]
                .map(str::to_owned)
                .to_vec();
            args.extend([name, "--hostname".to_owned(), text(&spec["hostname"])]);
            for alias in spec["hostAliases"].as_array().into_iter().flatten() {
                for host in alias["hostnames"].as_array().unwrap() {
                    let host = format!("{}:{}", text(host), text(&alias["ip"]));
                    args.extend(["--add-host".to_owned(), host]);
                }
            }
            let image = text(&spec["containers"][0]["image"]);
            args.extend([
                "--entrypoint".to_owned(),
                "sleep".to_owned(),
                image,
                "100000".to_owned(),
            ]);
            args
        };
        said(&args).await.map(drop)
    }

    /// Starts one container; whether it runs.
    async fn start(&self, spec: &Value) -> bool {
        let image = text(&spec["image"]);
        let found = inspect("image", "{{.Id}}|{{.Config.User}}", &image).await.unwrap_or_default();
        let (id, user) = found.split_once('|').unwrap_or_default();
        if id.is_empty() {
            self.waits(spec, "No such image");
            return false;
        }
        let context = &spec["securityContext"];
        let is_root = matches!(user, "" | "0" | "root");
        if context["runAsNonRoot"] == true && context["runAsUser"].is_null() && is_root {
            self.waits(spec, "container has runAsNonRoot and image will run as root");
            return false;
        }
        let args = arguments(&self.shared.lock(), &self.name, &self.pod, spec);
        match said(&args).await {
            Ok(_) => {
                let running = json!({"running": {"startedAt": "2026-11-20T12:00:00Z"}});
                self.is(&text(&spec["name"]), running, id);
                true
            }
            Err(why) => {
                self.waits(spec, &why);
                false
            }
        }
    }

    /// Waits for the end of a container; its exit code.
    async fn wait(&self, container_name: &str) -> i32 {
        let name = container(&self.shared.lock(), &self.name, container_name);
        let code = said(&["wait".to_owned(), name.clone()]).await.unwrap_or_default();
        let code = code.parse().unwrap_or(137);
        let killed = inspect("container", "{{.State.OOMKilled}}", &name).await;
        let reason = match (code, killed.as_deref()) {
            (_, Ok("true")) => "OOMKilled",
            (0, _) => "Completed",
            _ => "Error",
        };
        self.is(container_name, json!({"terminated": {"exitCode": code, "reason": reason}}), "");
        code
    }

    fn waits(&self, spec: &Value, why: &str) {
        let reason = match why {
            why if why.contains("runAsNonRoot") => "CreateContainerConfigError",
            why if why.contains("No such image") => "ImagePullBackOff",
            _ => "CreateContainerError",
        };
        let waiting = json!({"waiting": {"reason": reason, "message": why}});
        self.is(&text(&spec["name"]), waiting, "");
    }

    fn is(&self, container: &str, state: Value, image: &str) {
        let status = {
            let mut states = self.states.lock();
            let known = states.get(container).map(|(_, image)| image.clone()).unwrap_or_default();
            let image = if image.is_empty() { known } else { image.to_owned() };
            states.insert(container.to_owned(), (state, image));
            self.status(&states)
        };
        self.shared.lock().put_status(&self.name, status);
    }

    /// As `getPhase` of the kubelet has it for pods that never restart.
    fn status(&self, states: &BTreeMap<String, (Value, String)>) -> Value {
        let of = |list: &str| -> Vec<Value> {
            let all = self.pod["spec"][list].as_array().unwrap().iter();
            all.map(|one| {
                let name = text(&one["name"]);
                let waiting = json!({"waiting": {"reason": "PodInitializing"}});
                let (state, image) = states.get(&name).cloned().unwrap_or((waiting, String::new()));
                container_status(&name, &image, &state)
            })
            .collect()
        };
        let (first, others) = (of("initContainers"), of("containers"));
        let code = |one: &Value| one["state"]["terminated"]["exitCode"].as_i64();
        let any = |what: &str| others.iter().any(|one| one["state"][what].is_object());
        let phase = match code(&first[0]) {
            Some(0) if any("waiting") => "Pending",
            Some(0) if any("running") => "Running",
            Some(0) if others.iter().all(|one| code(one) == Some(0)) => "Succeeded",
            Some(_) => "Failed",
            None => "Pending",
        };
        json!({"phase": phase, "initContainerStatuses": first, "containerStatuses": others})
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What the command line of Docker says.
///
/// # Errors
/// What it says when it fails.
async fn said(args: &[String]) -> Result<String, String> {
    let output = docker(args).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

async fn inspect(kind: &str, format: &str, name: &str) -> Result<String, String> {
    said(&[kind, "inspect", "--format", format, name].map(str::to_owned)).await
}

/// The last lines that a container printed.
pub(super) async fn log(name: &str, lines: &str) -> String {
    let args = ["logs", "--tail", lines, name].map(str::to_owned);
    let output = docker(&args).output().await.unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn arguments(world: &World, pod: &str, object: &Value, spec: &Value) -> Vec<String> {
    let context = &spec["securityContext"];
    let limits = &spec["resources"]["limits"];
    let mut args =
        ["run", "--detach", "--pull", "never", "--cap-drop", "ALL"].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("--name", container(world, pod, &text(&spec["name"])));
    add("--network", format!("container:{}", container(world, pod, PAUSE)));
    if !context["runAsUser"].is_null() {
        add("--user", format!("{}:{}", context["runAsUser"], context["runAsGroup"]));
    }
    for capability in context["capabilities"]["add"].as_array().into_iter().flatten() {
        add("--cap-add", text(capability));
    }
    add("--security-opt", "no-new-privileges".to_owned());
    add("--memory", text(&limits["memory"]));
    add("--memory-swap", text(&limits["memory"]));
    add("--env", format!("KUBERNETES_SERVICE_HOST={BRIDGE}"));
    add("--env", format!("KUBERNETES_SERVICE_PORT={}", world.port));
    for variable in spec["env"].as_array().into_iter().flatten() {
        // What would be put in for `$(NAME)` is of nobody here.
        let value = text(&variable["value"]);
        assert!(!value.replace("$$", "").contains('$'), "{value}");
        add("--env", format!("{}={}", text(&variable["name"]), value.replace("$$", "$")));
    }
    for mount in spec["volumeMounts"].as_array().into_iter().flatten() {
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
    let command: Vec<String> = spec["command"].as_array().into_iter().flatten().map(text).collect();
    if let Some(program) = command.first() {
        args.extend(["--entrypoint".to_owned(), program.clone()]);
    }
    args.push(text(&spec["image"]));
    args.extend(command.into_iter().skip(1));
    args
}

/// Removes a pod a moment after somebody has asked for it.
pub(super) fn remove(shared: &Shared, world: &World, name: &str) {
    let (shared, name, args) = (Arc::clone(shared), name.to_owned(), removal(world, name));
    tokio::spawn(async move {
        let _ = docker(&args).output().await;
        shared.lock().pods.remove(&name);
    });
}
