//! The addresses of the API that sandboxes use.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, Response};
use serde_json::{Value, json};

use super::{Fate, NAMESPACE, Shared, World, exec, kubelet};
use crate::support::cluster::{self, answer, schema, status};

pub(super) async fn serve(State(shared): State<Shared>, request: Request) -> Response<Body> {
    if shared.lock().is_away {
        let why = "the server is currently unable to handle the request";
        return status(503, "ServiceUnavailable", why);
    }
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    {
        let mut world = shared.lock();
        world.requests.push(format!("{method} {}", request.uri()));
        if let Some(refusal) = cluster::unknown(request.headers(), &world.token) {
            return refusal;
        }
        let met = world.meets.iter().position(|one| one.0 == method && path.contains(&one.1));
        if let Some((_, _, code, message)) = met.map(|at| world.meets.remove(at)) {
            let Some(seconds) = world.retry_after.filter(|_| code == 429) else {
                return status(code, cluster::reason(code), &message);
            };
            // As the server's own limits answer: no object, and the wait in a header alone.
            let limited = Response::builder().status(code).header("retry-after", seconds);
            return limited.body(Body::from(message)).unwrap();
        }
    }
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments[..] {
        ["version"] => cluster::version(),
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] => {
            let body = read(request).await;
            cluster::review(&shared.lock().rights, NAMESPACE, &body)
        }
        ["apis", "networking.k8s.io", "v1", "namespaces", NAMESPACE, "networkpolicies"] => {
            policies(&mut shared.lock())
        }
        ["api", "v1", "namespaces", NAMESPACE, "events"] => {
            events(&mut shared.lock(), &cluster::query(request.uri()))
        }
        ["api", "v1", "namespaces", NAMESPACE, "pods", name, "exec"] => {
            exec_in(&shared, name, request)
        }
        ["api", "v1", "namespaces", NAMESPACE, "pods", name, "log"] => {
            log(&shared, name, &cluster::query(request.uri())).await
        }
        ["api", "v1", "namespaces", NAMESPACE, "pods", ref name @ ..] if name.len() < 2 => {
            let query = cluster::query(request.uri());
            let body = read(request).await;
            let name = name.first().map(|name| (*name).to_owned());
            let slow = shared.lock().slow;
            let carried_out = tokio::spawn(async move {
                if method == Method::POST {
                    tokio::time::sleep(slow).await;
                }
                pods(&shared, method.as_str(), name.as_deref(), &query, &body)
            });
            carried_out.await.unwrap()
        }
        _ => {
            shared.lock().violations.push(format!("{method} {path} is no address of the API"));
            status(404, "NotFound", "the server could not find the requested resource")
        }
    }
}

fn policies(world: &mut World) -> Response<Body> {
    match allowed(world, "list networkpolicies") {
        None => answer(200, &json!({"kind": "NetworkPolicyList", "items": world.policies})),
        Some(refusal) => refusal,
    }
}

fn events(world: &mut World, query: &BTreeMap<String, String>) -> Response<Body> {
    let refusal = allowed(world, "list events");
    refusal.unwrap_or_else(|| cluster::events(&world.events, query))
}

async fn read(request: Request) -> Bytes {
    axum::body::to_bytes(request.into_body(), 16 << 20).await.unwrap()
}

fn allowed(world: &mut World, right: &str) -> Option<Response<Body>> {
    cluster::forbidden(&world.rights, &mut world.used, ("worker", NAMESPACE), right)
}

async fn log(shared: &Shared, name: &str, query: &BTreeMap<String, String>) -> Response<Body> {
    let container = {
        let mut world = shared.lock();
        if let Some(refusal) = allowed(&mut world, "get pods/log") {
            return refusal;
        }
        let Some(pod) = world.pods.get(name) else {
            return status(404, "NotFound", &format!("pods \"{name}\" not found"));
        };
        let all = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let of = all.iter().find(|one| one["name"] == query["container"].as_str());
        if of.is_none_or(|one| one["state"]["waiting"].is_object()) {
            let why = format!(
                "container \"{}\" in pod \"{name}\" is waiting to start: PodInitializing",
                query["container"]
            );
            return status(400, "BadRequest", &why);
        }
        kubelet::container(&world, name, &query["container"])
    };
    let log = kubelet::log(&container, &query["tailLines"]).await;
    Response::builder().header("content-type", "text/plain").body(Body::from(log)).unwrap()
}

fn exec_in(shared: &Shared, name: &str, request: Request) -> Response<Body> {
    let mut world = shared.lock();
    if let Some(refusal) = allowed(&mut world, "get pods/exec") {
        return refusal;
    }
    let Some(pod) = world.pods.get(name) else {
        return status(404, "NotFound", &format!("pods \"{name}\" not found"));
    };
    let container = cluster::query(request.uri())["container"].clone();
    let lists = ["initContainerStatuses", "containerStatuses"];
    let runs = lists.into_iter().any(|list| {
        let mut all = pod["status"][list].as_array().into_iter().flatten();
        all.any(|one| one["name"] == container.as_str() && one["state"]["running"].is_object())
    });
    if !runs {
        return status(500, "InternalError", &format!("container not found (\"{container}\")"));
    }
    let (name, streams) = (kubelet::container(&world, name, &container), world.streams.subscribe());
    exec::upgrade(request, &name, world.is_old, streams)
}

fn pods(
    shared: &Shared,
    method: &str,
    name: Option<&str>,
    query: &BTreeMap<String, String>,
    body: &Bytes,
) -> Response<Body> {
    let mut world = shared.lock();
    let verb = match (method, name) {
        ("POST", None) => "create",
        ("GET", None) => "list",
        ("GET", Some(_)) => "get",
        ("PATCH", Some(_)) => "patch",
        ("DELETE", Some(_)) => "delete",
        _ => return status(405, "MethodNotAllowed", "the server does not allow this method"),
    };
    if let Some(refusal) = allowed(&mut world, &format!("{verb} pods")) {
        return refusal;
    }
    let name = name.unwrap_or_default();
    if verb != "create" && verb != "list" && !world.pods.contains_key(name) {
        return status(404, "NotFound", &format!("pods \"{name}\" not found"));
    }
    match verb {
        "create" => create(shared, &mut world, query, body),
        "list" => list(&world, query),
        "get" => answer(200, &world.pods[name]),
        "patch" => patch(&mut world, name, body),
        _ => delete(shared, &mut world, name, body),
    }
}

fn create(
    shared: &Shared,
    world: &mut World,
    query: &BTreeMap<String, String>,
    body: &Bytes,
) -> Response<Body> {
    let mut pod = match cluster::sent(query, body, &mut world.violations) {
        Ok(pod) => pod,
        Err(refusal) => return refusal,
    };
    let level = if world.is_baseline { "baseline" } else { "restricted" };
    let soft = schema::softness_at(level, &pod["spec"]);
    if !soft.is_empty() {
        let why = format!("violates PodSecurity \"{level}:latest\": {}", soft.join(", "));
        return status(403, "Forbidden", &why);
    }
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    if world.pods.contains_key(&name) {
        return status(409, "AlreadyExists", &format!("pods \"{name}\" already exists"));
    }
    world.made.push(pod.clone());
    complete(world, &mut pod);
    if let Some(webhook) = &world.webhook {
        webhook(&mut pod);
    }
    match world.fate.clone() {
        Fate::Waits(waits) => {
            pod["status"] = waits;
            world.pods.insert(name, pod.clone());
        }
        Fate::Told(reason, message) => {
            world.events.push(cluster::warning(&name, NAMESPACE, (reason, message)));
            world.pods.insert(name, pod.clone());
        }
        Fate::Runs => {
            world.pods.insert(name.clone(), pod.clone());
            tokio::spawn(kubelet::run(shared.clone(), name));
        }
    }
    answer(201, &pod)
}

/// What the server fills in.
fn complete(world: &mut World, pod: &mut Value) {
    world.version += 1;
    let metadata = &mut pod["metadata"];
    metadata["uid"] = json!(format!("0b0c0d0e-0000-4000-8000-{:012}", world.version));
    metadata["namespace"] = json!(NAMESPACE);
    metadata["resourceVersion"] = json!(world.version.to_string());
    metadata["creationTimestamp"] = json!("2026-11-20T12:00:00Z");
    let spec = &mut pod["spec"];
    spec["schedulerName"] = json!("default-scheduler");
    spec["serviceAccountName"] = json!("default");
    spec["serviceAccount"] = json!("default");
    spec["priority"] = json!(0);
    spec["preemptionPolicy"] = json!("PreemptLowerPriority");
    spec["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 300}]);
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().unwrap() {
            container["terminationMessagePath"] = json!("/dev/termination-log");
            if container["terminationMessagePolicy"].is_null() {
                container["terminationMessagePolicy"] = json!("File");
            }
        }
    }
    pod["status"] = json!({"phase": "Pending"});
}

fn list(world: &World, query: &BTreeMap<String, String>) -> Response<Body> {
    let (name, value) = query["labelSelector"].split_once('=').unwrap();
    let has = |pod: &&Value| pod["metadata"]["labels"][name] == value;
    let items: Vec<&Value> = world.pods.values().filter(has).collect();
    let metadata = json!({"resourceVersion": world.version.to_string()});
    answer(
        200,
        &json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}),
    )
}

/// A JSON merge patch, of annotations alone.
fn patch(world: &mut World, name: &str, body: &Bytes) -> Response<Body> {
    let patch: Value = serde_json::from_slice(body).unwrap();
    world.version += 1;
    let version = world.version.to_string();
    let pod = world.pods.get_mut(name).unwrap();
    for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    pod["metadata"]["resourceVersion"] = json!(version);
    answer(200, pod)
}

fn delete(shared: &Shared, world: &mut World, name: &str, body: &Bytes) -> Response<Body> {
    let options: Value = serde_json::from_slice(body).unwrap();
    world.violations.extend(schema::check(&options));
    let metadata = &world.pods[name]["metadata"];
    for part in ["uid", "resourceVersion"] {
        let wanted = &options["preconditions"][part];
        if !wanted.is_null() && *wanted != metadata[part] {
            return status(409, "Conflict", "the precondition is not met");
        }
    }
    let pod = world.pods.get_mut(name).unwrap();
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    let pod = pod.clone();
    kubelet::remove(shared, world, name);
    answer(200, &pod)
}
