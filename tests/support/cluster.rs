//! What our API servers of Kubernetes have in common: where they are, what they refuse, and how they check the shape of
//! what is sent. [`super::kubernetes`] runs pods of the launcher as processes, [`super::pods`] sandboxes as containers.

pub(crate) mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Response, Uri};
use serde_json::{Value, json};

/// Writes a kubeconfig that leads to this port of the loopback, with the token in a file of its own, and returns its path.
pub(crate) fn kubeconfig(folder: &Path, port: u16, token: &str, namespace: &str) -> String {
    let path = folder.join("kubeconfig");
    let file = write_token(folder, token);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters:\n- name: test\n  cluster: {{server: \
         'http://127.0.0.1:{port}'}}\nusers:\n- name: test\n  user: {{tokenFile: {file}}}\ncontexts:\n- name: test\n  \
         context: {{cluster: test, user: test, namespace: {namespace}}}\n",
    );
    fs_err::write(&path, text).unwrap();
    path.display().to_string()
}

/// The token that is valid from now on; the path of its file.
pub(crate) fn write_token(folder: &Path, token: &str) -> String {
    let path = folder.join("token");
    fs_err::write(&path, token).unwrap();
    path.display().to_string()
}

/// The objects of a manifest below `docs/kubernetes`.
pub(crate) fn manifests(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kubernetes").join(name);
    let text = fs_err::read_to_string(path).unwrap();
    text.split("\n---\n").map(|one| serde_saphyr::from_str::<Value>(one).unwrap()).collect()
}

/// What the Role of a manifest allows, as `verb resource`.
pub(crate) fn rights(manifest: &str) -> BTreeSet<String> {
    let role = manifests(manifest).into_iter().find(|one| one["kind"] == "Role").unwrap();
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for resource in words(&rule["resources"]) {
            rights.extend(words(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}")));
        }
    }
    rights
}

/// The query of an address.
pub(crate) fn query(uri: &Uri) -> BTreeMap<String, String> {
    let query = uri.query().unwrap_or_default().as_bytes();
    url::form_urlencoded::parse(query).into_owned().collect()
}

/// The refusal of who does not have the token.
pub(crate) fn unknown(headers: &HeaderMap, token: &str) -> Option<Response<Body>> {
    let said = headers.get("authorization");
    let is_known = said.is_some_and(|value| *value == format!("Bearer {token}"));
    (!is_known).then(|| status(401, "Unauthorized", "Unauthorized"))
}

/// The refusal of what a Role does not allow; what it allows is written down in `used`.
pub(crate) fn forbidden(
    rights: &BTreeSet<String>,
    used: &mut BTreeSet<String>,
    (login, namespace): (&str, &str),
    right: &str,
) -> Option<Response<Body>> {
    if rights.contains(right) {
        used.insert(right.to_owned());
        return None;
    }
    let (verb, resource) = right.split_once(' ').unwrap();
    let why = format!(
        "{resource} is forbidden: User \"{login}\" cannot {verb} resource \"{resource}\" in API group \"\" in the \
         namespace \"{namespace}\""
    );
    Some(status(403, "Forbidden", &why))
}

/// An object that is to be made, or the refusal of one that is no such object. What a server would let pass without a
/// word is a violation.
#[expect(clippy::result_large_err, reason = "the answer to a request is not a hot path")]
pub(crate) fn sent(
    query: &BTreeMap<String, String>,
    body: &Bytes,
    violations: &mut Vec<String>,
) -> Result<Value, Response<Body>> {
    if query.get("fieldValidation").map(String::as_str) != Some("Strict") {
        violations.push("misspelt fields would be dropped in silence".to_owned());
    }
    let object: Value = serde_json::from_slice(body).unwrap();
    let wrong = schema::check(&object);
    if wrong.is_empty() {
        return Ok(object);
    }
    let kind = object["kind"].as_str().unwrap_or_default();
    Err(status(422, "Invalid", &format!("{kind} is invalid: {}", wrong.join(", "))))
}

/// Writes into a specification what the API server writes into fields that are left to it.
pub(crate) fn completed(spec: &mut Value) {
    let default = |place: &mut Value, name: &str, value: Value| {
        let fields = place.as_object_mut().unwrap();
        fields.entry(name).or_insert(value);
    };
    default(spec, "dnsPolicy", json!("ClusterFirst"));
    default(spec, "schedulerName", json!("default-scheduler"));
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", json!(30));
    for one in spec["containers"].as_array_mut().unwrap() {
        default(one, "imagePullPolicy", json!("IfNotPresent"));
        default(one, "terminationMessagePath", json!("/dev/termination-log"));
        default(one, "terminationMessagePolicy", json!("File"));
    }
}

/// What becomes of each pod on its way in, without any webhook.
pub(crate) fn admitted(spec: &mut Value) {
    let account = spec["serviceAccountName"].as_str().unwrap_or("default").to_owned();
    spec["serviceAccountName"] = json!(account);
    spec["serviceAccount"] = json!(account);
    spec["priority"] = json!(0);
    spec["preemptionPolicy"] = json!("PreemptLowerPriority");
    spec["nodeName"] = json!("node-1");
    spec["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 300}]);
}

/// Fails the test when a request was not as it should be.
pub(crate) fn no_violations(violations: &[String]) {
    if !std::thread::panicking() {
        assert!(violations.is_empty(), "Kubernetes would not have it:\n{}", violations.join("\n"));
    }
}

/// The word of the API for a refusal with this status.
pub(crate) fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    }
}

/// What a review of access says, by these rights.
pub(crate) fn review(rights: &BTreeSet<String>, namespace: &str, body: &Bytes) -> Response<Body> {
    let review: Value = serde_json::from_slice(body).unwrap();
    let asked = &review["spec"]["resourceAttributes"];
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let sub = text("subresource");
    let dash = if sub.is_empty() { "" } else { "/" };
    let right = format!("{} {}{dash}{sub}", text("verb"), text("resource"));
    let is_allowed = text("namespace") == namespace && rights.contains(&right);
    answer(201, &json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": is_allowed}}))
}

/// The version of the server.
pub(crate) fn version() -> Response<Body> {
    answer(200, &json!({"major": "1", "minor": "33", "gitVersion": "v1.33.2"}))
}

/// A list of events about the object that a query chooses.
pub(crate) fn events(events: &[Value], query: &BTreeMap<String, String>) -> Response<Body> {
    let about = query["fieldSelector"].strip_prefix("involvedObject.name=").unwrap();
    let chosen = events.iter().filter(|event| event["involvedObject"]["name"] == about);
    let items: Vec<&Value> = chosen.collect();
    answer(200, &json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// A warning about an object.
pub(crate) fn warning(object: &str, namespace: &str, (reason, message): (&str, &str)) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message,
        "metadata": {"name": format!("{object}.17"), "namespace": namespace},
        "involvedObject": {"name": object}, "lastTimestamp": "2026-11-20T12:00:05Z", "count": 1,
    })
}

/// A `Status` object.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Response<Body> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": if code < 300 { "Success" } else { "Failure" },
        "message": message, "reason": reason, "code": code,
    });
    answer(code, &body)
}

pub(crate) fn answer(code: u16, body: &Value) -> Response<Body> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}
