//! A Kubernetes API server of our own, with a kubelet that runs pods as processes of this machine.
//!
//! Requests are checked: the token, the rights that `docs/kubernetes/launcher.yaml` gives, the schema of each
//! object, and that no secret stands in one. Answers and their order are as the API's documents describe:
//! 201, 409, 403, 429 with `Retry-After`, watches that end, 410, eviction.
#![expect(clippy::disallowed_methods, reason = "pods are processes")]
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::cluster::{self, answer, schema, status};
use super::listening::{Listening, Port};

pub(crate) const NAMESPACE: &str = "agents";
const TOKEN: &str = "service-account-token-9c2e4f";

/// What happens to a pod that is made.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// Its process runs.
    Runs,
    /// It is there and waits, with this status.
    Waits(Value),
    /// It is there and waits, and only an event says why: its reason, and its message.
    Told(&'static str, &'static str),
    /// The Job is there and no pod comes; an event says why.
    NoPod(String),
}

/// What a request meets instead of its answer.
#[derive(Clone, Debug)]
pub(crate) enum Meets {
    /// Status, a header, a body.
    Answer(u16, Option<(&'static str, &'static str)>, String),
    /// It is carried out, and its answer is lost.
    Lost,
}

/// What changes a pod on its way in, as admission webhooks do: when the Job controller makes it, not when the Job is made.
type PodWebhook = Box<dyn Fn(&mut Value) + Send>;

/// The server. Dropping it ends its pods, and fails the test on requests that were not as they should be.
pub(crate) struct Kubernetes {
    shared: Shared,
    listening: Listening,
    folder: tempfile::TempDir,
}

type Shared = Arc<Mutex<World>>;

pub(crate) struct World {
    pub(crate) jobs: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<String, Value>,
    processes: BTreeMap<String, Child>,
    /// Pods of nodes that are gone, which nobody ends.
    lost: BTreeSet<String>,
    events: Vec<Value>,
    /// Changes of pods: version, kind, object.
    changes: Vec<(u64, &'static str, Value)>,
    version: u64,
    /// Changes up to here are forgotten.
    compacted: u64,
    /// Each new number ends all watches.
    watches: u64,
    /// How many watches were begun, and up to which one they stay open and tell nothing.
    begun: u64,
    silent: u64,
    pub(crate) fate: Fate,
    /// What is changed in each Job on its way in.
    pub(crate) webhook: Option<(String, Value)>,
    pub(crate) pod_webhook: Option<PodWebhook>,
    meets: Vec<(Method, String, Meets)>,
    /// Rights that were used, as `verb resource`.
    pub(crate) used: BTreeSet<String>,
    rights: BTreeSet<String>,
    /// Who has it is known.
    token: String,
    /// Every Job that was ever made, as it was sent.
    pub(crate) made: Vec<Value>,
    pub(crate) requests: Vec<String>,
    violations: Vec<String>,
    /// How many pods ran at once, at most.
    pub(crate) most: usize,
    secret: BTreeMap<String, String>,
    hidden: Vec<String>,
    folder: std::path::PathBuf,
}

impl Kubernetes {
    /// Pods get `secret` from the Secret of any name. None of `hidden` may stand in an object.
    pub(crate) fn start(secret: &[(&str, &str)], hidden: &[&str]) -> Kubernetes {
        let folder = tempfile::tempdir().unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let shared = Arc::new(Mutex::new(World {
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            processes: BTreeMap::new(),
            lost: BTreeSet::new(),
            events: Vec::new(),
            changes: Vec::new(),
            version: 100,
            compacted: 0,
            watches: 0,
            begun: 0,
            silent: 0,
            fate: Fate::Runs,
            webhook: None,
            pod_webhook: None,
            meets: Vec::new(),
            used: BTreeSet::new(),
            rights: cluster::rights("launcher.yaml"),
            token: TOKEN.to_owned(),
            made: Vec::new(),
            requests: Vec::new(),
            violations: Vec::new(),
            most: 0,
            secret: secret.iter().map(owned).collect(),
            hidden: hidden.iter().map(|text| (*text).to_owned()).collect(),
            folder: folder.path().to_owned(),
        }));
        let state = Arc::clone(&shared);
        let listening = Port::take().serve_by(2, async move |listener| {
            let app = Router::new().fallback(serve).with_state(Arc::clone(&state));
            let kubelet = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    state.lock().look_after_pods();
                }
            };
            tokio::select! {
                served = async { axum::serve(listener, app).await } => served.unwrap(),
                () = kubelet => {}
            }
        });
        Kubernetes { shared, listening, folder }
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> String {
        let port = self.listening.address.port();
        cluster::kubeconfig(self.folder.path(), port, &self.world().token, "elsewhere")
    }

    /// Another token counts from now on, and is in the file.
    pub(crate) fn rotate_token(&self) {
        let mut world = self.world();
        world.token.push_str("-next");
        cluster::write_token(self.folder.path(), &world.token);
    }

    /// Takes a right away from the launcher, as `verb resource`.
    pub(crate) fn forbid(&self, right: &str) {
        assert!(self.world().rights.remove(right), "{right}");
    }

    /// Whatever version a watch begins with is too old.
    pub(crate) fn expire_all_watches(&self) {
        self.world().compacted = u64::MAX;
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.lock()
    }

    /// The next requests of this method whose path has this text meet something else.
    pub(crate) fn meets(&self, method: &Method, path: &str, meets: &Meets, times: usize) {
        let mut world = self.world();
        for _ in 0..times {
            world.meets.push((method.clone(), path.to_owned(), meets.clone()));
        }
    }

    /// Ends all watches; those that begin again from before now get 410.
    pub(crate) fn compact(&self) {
        let mut world = self.world();
        world.version += 10;
        world.compacted = world.version;
        world.watches += 1;
    }

    pub(crate) fn end_watches(&self) {
        self.world().watches += 1;
    }

    /// Watches that are open tell nothing any more, as behind a proxy that has lost the server.
    pub(crate) fn silence_watches(&self) {
        let mut world = self.world();
        world.silent = world.begun;
    }

    /// No watch tells anything.
    pub(crate) fn silence_all_watches(&self) {
        self.world().silent = u64::MAX;
    }

    /// Takes a running pod away as a drain of its node does: killed, with the condition that says so.
    pub(crate) fn evict(&self, pod: &str) {
        self.end(pod, |status| {
            status["conditions"] = json!([{
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }]);
        });
    }

    /// The node of a running pod is gone: nobody says what became of it, and after a while the cluster asks for its end.
    pub(crate) fn lose_node(&self, pod: &str) {
        let mut world = self.world();
        let mut child = world.processes.remove(pod).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        world.lost.insert(pod.to_owned());
        let mut object = world.pods[pod].clone();
        object["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        object["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        object["status"]["conditions"] = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }]);
        world.put_pod(object);
    }

    /// The kernel kills the run because it has too much memory.
    pub(crate) fn kill_for_memory(&self, pod: &str) {
        self.end(pod, |status| {
            status["containerStatuses"] =
                json!([terminated(&json!({"exitCode": 137, "reason": "OOMKilled"}))]);
        });
    }

    fn end(&self, pod: &str, say: impl FnOnce(&mut Value)) {
        let mut world = self.world();
        let mut child = world.processes.remove(pod).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut object = world.pods[pod].clone();
        object["status"] = json!({"phase": "Failed"});
        say(&mut object["status"]);
        world.put_pod(object);
    }

    /// Names of pods whose process runs.
    pub(crate) fn running(&self) -> Vec<String> {
        self.world().processes.keys().cloned().collect()
    }

    /// Waits until something is so in its world.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, so: impl Fn(&World) -> bool) {
        let began = Instant::now();
        while !so(&self.world()) {
            let world = || format!("{:#?}", self.world().requests);
            assert!(began.elapsed() < Duration::from_mins(2), "{what} never came: {}", world());
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        self.listening.end();
        let mut world = self.shared.lock();
        for child in world.processes.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        cluster::no_violations(&world.violations);
    }
}

fn terminated(state: &Value) -> Value {
    json!({"name": "patchwright", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": state}})
}

impl World {
    fn put_pod(&mut self, mut pod: Value) {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = if self.pods.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        self.version += 1;
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.changes.push((self.version, kind, pod.clone()));
        self.pods.insert(name, pod);
    }

    fn remove_pod(&mut self, name: &str) {
        let Some(mut pod) = self.pods.remove(name) else { return };
        self.version += 1;
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.changes.push((self.version, "DELETED", pod));
    }

    /// The kubelet: processes that have ended.
    fn look_after_pods(&mut self) {
        let mut ended = Vec::new();
        for (name, child) in &mut self.processes {
            if let Some(status) = child.try_wait().unwrap() {
                ended.push((name.clone(), status.code().unwrap_or(137)));
            }
        }
        for (name, code) in ended {
            self.processes.remove(&name);
            let Some(mut pod) = self.pods.get(&name).cloned() else { continue };
            if pod["metadata"]["deletionTimestamp"].is_string() {
                self.remove_pod(&name);
                continue;
            }
            let log =
                fs_err::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            let mut state =
                json!({"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }});
            if code != 0 {
                state["message"] = json!(log);
            }
            pod["status"] = json!({
                "phase": if code == 0 { "Succeeded" } else { "Failed" },
                "containerStatuses": [terminated(&state)],
            });
            self.put_pod(pod);
        }
    }

    /// The Job controller, and the scheduler.
    fn make_pod(&mut self, job: &Value) {
        let name = job["metadata"]["name"].as_str().unwrap();
        let template = job["spec"]["template"].clone();
        let pod_name = format!("{name}-x7k2p");
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": template["metadata"], "spec": template["spec"], "status": {"phase": "Pending"},
        });
        pod["metadata"]["name"] = json!(pod_name);
        pod["metadata"]["namespace"] = json!(NAMESPACE);
        cluster::admitted(&mut pod["spec"]);
        if let Some(change) = &self.pod_webhook {
            change(&mut pod["spec"]);
        }
        match self.fate.clone() {
            Fate::NoPod(why) => {
                self.events.push(cluster::warning(name, NAMESPACE, ("FailedCreate", &why)));
            }
            Fate::Told(reason, message) => {
                self.events.push(cluster::warning(&pod_name, NAMESPACE, (reason, message)));
                self.put_pod(pod);
            }
            Fate::Waits(status) => {
                pod["status"] = status;
                self.put_pod(pod);
            }
            Fate::Runs => {
                self.put_pod(pod.clone());
                let child = self.start_process(&pod_name, &pod["spec"]);
                self.processes.insert(pod_name, child);
                self.most = self.most.max(self.processes.len());
                pod["status"] = json!({"phase": "Running", "containerStatuses": [{
                    "name": "patchwright", "image": "a", "imageID": "", "ready": true, "restartCount": 0,
                    "state": {"running": {}},
                }]});
                self.put_pod(pod);
            }
        }
    }

    fn start_process(&self, name: &str, spec: &Value) -> Child {
        let run = &spec["containers"][0];
        let root = self.folder.join(name);
        fs_err::create_dir_all(&root).unwrap();
        let log = fs_err::File::create(self.folder.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_patchwright")]);
        command.args(run["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &root);
        if run["envFrom"][0]["secretRef"]["name"].is_string() {
            command.envs(&self.secret);
        }
        for variable in run["env"].as_array().into_iter().flatten() {
            let value = variable["value"].as_str().unwrap_or_default();
            // An empty folder of the pod's own.
            let mounts = run["volumeMounts"].as_array().unwrap();
            let is_mounted = mounts.iter().any(|mount| mount["mountPath"] == value);
            let value = if is_mounted { root.display().to_string() } else { value.to_owned() };
            command.env(variable["name"].as_str().unwrap(), value);
        }
        command
            .current_dir(&root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.into_file());
        command.spawn().unwrap()
    }

    /// What the pods have said.
    pub(crate) fn logs(&self) -> String {
        let mut logs = String::new();
        for entry in fs_err::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ext| ext == "log") {
                logs.push_str(&format!("== {}\n", path.display()));
                logs.push_str(&fs_err::read_to_string(path).unwrap());
            }
        }
        logs
    }

    /// No secret stands in what is sent.
    fn judge(&mut self, body: &Bytes) {
        let text = String::from_utf8_lossy(body);
        for hidden in self.hidden.iter().filter(|hidden| text.contains(hidden.as_str())) {
            self.violations.push(format!("a secret stands in a Job: {hidden}"));
        }
    }
}

async fn serve(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let query = cluster::query(&uri);
    let mut world = shared.lock();
    world.requests.push(format!("{method} {uri}"));
    if let Some(refusal) = cluster::unknown(&headers, &world.token) {
        return refusal;
    }
    let met =
        world.meets.iter().position(|(of, path, _)| *of == method && uri.path().contains(path));
    let met = met.map(|at| world.meets.remove(at).2);
    if let Some(Meets::Answer(code, header, text)) = met {
        let mut response = Response::builder().status(code);
        if let Some((name, value)) = header {
            response = response.header(name, value);
        }
        return response.body(Body::from(text)).unwrap();
    }
    let answer = route(&mut world, &shared, &method, &uri, &query, &body);
    match met {
        Some(Meets::Lost) => {
            status(504, "Timeout", "request did not complete within the allotted timeout")
        }
        _ => answer,
    }
}

fn route(
    world: &mut World,
    shared: &Shared,
    method: &Method,
    uri: &Uri,
    query: &BTreeMap<String, String>,
    body: &Bytes,
) -> Response<Body> {
    let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (resource, name) = match segments[..] {
        ["version"] => return cluster::version(),
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] => {
            return cluster::review(&world.rights, NAMESPACE, body);
        }
        ["apis", "batch", "v1", "namespaces", NAMESPACE, "jobs"] => ("jobs", None),
        ["apis", "batch", "v1", "namespaces", NAMESPACE, "jobs", name] => ("jobs", Some(name)),
        ["api", "v1", "namespaces", NAMESPACE, resource @ ("pods" | "events")] => (resource, None),
        _ => {
            world.violations.push(format!("{method} {uri} is no address of the API"));
            return status(404, "NotFound", "the server could not find the requested resource");
        }
    };
    let verb = match (method.as_str(), name, query.get("watch")) {
        ("POST", None, _) => "create",
        ("GET", Some(_), _) => "get",
        ("GET", None, Some(_)) => "watch",
        ("GET", None, None) => "list",
        ("DELETE", Some(_), _) => "delete",
        _ => return status(405, "MethodNotAllowed", "the server does not allow this method"),
    };
    let (right, who) = (format!("{verb} {resource}"), ("launcher", NAMESPACE));
    let refusal = cluster::forbidden(&world.rights, &mut world.used, who, &right);
    if let Some(refusal) = refusal {
        world.violations.push(format!("`{right}` is not allowed"));
        return refusal;
    }
    match (verb, resource) {
        ("create", _) => create(world, query, body),
        ("get", _) => world.jobs.get(name.unwrap()).map_or_else(
            || status(404, "NotFound", "jobs.batch not found"),
            |job| answer(200, job),
        ),
        ("delete", _) => delete(world, name.unwrap(), body),
        ("watch", _) => watch(Arc::clone(shared), world, query),
        (_, "jobs") => list(world, "batch/v1", "JobList", &world.jobs.clone(), query),
        (_, "pods") => list(world, "v1", "PodList", &world.pods.clone(), query),
        _ => cluster::events(&world.events, query),
    }
}

fn create(world: &mut World, query: &BTreeMap<String, String>, body: &Bytes) -> Response<Body> {
    world.judge(body);
    let mut job = match cluster::sent(query, body, &mut world.violations) {
        Ok(job) => job,
        Err(refusal) => return refusal,
    };
    let name = job["metadata"]["name"].as_str().unwrap().to_owned();
    if world.jobs.contains_key(&name) {
        return status(409, "AlreadyExists", &format!("jobs.batch \"{name}\" already exists"));
    }
    world.made.push(job.clone());
    if let Some((pointer, value)) = &world.webhook {
        *job.pointer_mut(pointer).unwrap() = value.clone();
    }
    cluster::completed(&mut job["spec"]["template"]["spec"]);
    job["metadata"]["uid"] = json!("0b0c0d0e-0000-4000-8000-000000000001");
    job["metadata"]["namespace"] = json!(NAMESPACE);
    world.jobs.insert(name, job.clone());
    world.make_pod(&job);
    answer(201, &job)
}

fn delete(world: &mut World, name: &str, body: &Bytes) -> Response<Body> {
    let options: Value = serde_json::from_slice(body).unwrap();
    let wrong = schema::check(&options);
    world.violations.extend(wrong);
    // Jobs leave their pods behind unless one says so.
    if options["propagationPolicy"] != "Background" {
        world.violations.push("the pods of the Job are left behind".to_owned());
    }
    if world.jobs.remove(name).is_none() {
        return status(404, "NotFound", &format!("jobs.batch \"{name}\" not found"));
    }
    let pod = format!("{name}-x7k2p");
    if let Some(child) = world.processes.get(&pod) {
        let id = rustix::process::Pid::from_child(child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let mut object = world.pods[&pod].clone();
        object["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        world.put_pod(object);
    } else if !world.lost.contains(&pod) {
        world.remove_pod(&pod);
    }
    status(200, "", "")
}

fn list(
    world: &World,
    version: &str,
    kind: &str,
    objects: &BTreeMap<String, Value>,
    query: &BTreeMap<String, String>,
) -> Response<Body> {
    let label = query.get("labelSelector").map(String::as_str);
    let from = query.get("continue").cloned().unwrap_or_default();
    // Pages are short here, so that each list has several.
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(500).min(2);
    let chosen = objects.iter().filter(|(name, one)| **name > from && has(one, label));
    let mut page: Vec<(&String, &Value)> = chosen.take(limit + 1).collect();
    let more = page.len() > limit;
    page.truncate(limit);
    let token = if more { page.last().unwrap().0.as_str() } else { "" };
    let items: Vec<&Value> = page.iter().map(|(_, one)| *one).collect();
    let metadata = json!({"resourceVersion": world.version.to_string(), "continue": token});
    answer(200, &json!({"apiVersion": version, "kind": kind, "metadata": metadata, "items": items}))
}

fn has(object: &Value, label: Option<&str>) -> bool {
    let Some((name, value)) = label.and_then(|label| label.split_once('=')) else { return true };
    object["metadata"]["labels"][name] == value
}

fn watch(shared: Shared, world: &mut World, query: &BTreeMap<String, String>) -> Response<Body> {
    let label = query.get("labelSelector").cloned();
    world.begun += 1;
    let mut seen: u64 = query["resourceVersion"].parse().unwrap_or_default();
    let (watches, number) = (world.watches, world.begun);
    if seen < world.compacted {
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "code": 410,
            "reason": "Expired", "message": format!("too old resource version: {seen}")}});
        return answer(200, &gone);
    }
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(16);
    tokio::spawn(async move {
        loop {
            let lines: Vec<(u64, String)> = {
                let world = shared.lock();
                if world.watches != watches {
                    return;
                }
                let tells = number > world.silent;
                let new = world.changes.iter().filter(|(version, _, pod)| {
                    tells && *version > seen && has(pod, label.as_deref())
                });
                new.map(|(version, kind, pod)| {
                    (*version, format!("{}\n", json!({"type": kind, "object": pod})))
                })
                .collect()
            };
            for (version, line) in lines {
                seen = version;
                if sender.send(Ok(Bytes::from(line))).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|part| (part, receiver))
    });
    let body = Body::from_stream(stream);
    Response::builder().status(StatusCode::OK).body(body).unwrap()
}
