//! Pods that are not used, and what is said when there can be none.

use axum::http::Method;
use patchwright_sandbox::kubernetes::{KubernetesSandbox, PodSettings};
use patchwright_sandbox::{EngineTrouble, Sandbox, SandboxError};
use serde_json::{Value, json};

use super::{Pods, connected, pods};
use crate::sandboxes::{sh, spec};
use crate::support::docker::IMAGE;
use crate::support::pods::Fate;

/// What a server says that does not reach the node.
const AWAY: &str = "error dialing backend: No agent available";

/// What a webhook does to a pod.
type Change = fn(&mut Value);

/// Why there is no sandbox, and what to do; nothing is left of it.
async fn refusal(pods: &Pods) -> String {
    let Err(err) = pods.start().await else { panic!("it started") };
    pods.assert_nothing_left();
    said(err)
}

fn said(err: SandboxError) -> String {
    let failure = patchwright_base::error::Failure::from(err);
    let hints: Vec<String> = failure.hints.iter().map(ToString::to_string).collect();
    format!("{} | {}", failure.message, hints.join(" | "))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_webhook_changed_is_not_used() {
    let Some(pods) = pods().await else { return };
    let changes: [(Change, &str); 5] = [
        (
            |pod| {
                pod["spec"]["containers"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "istio-proxy", "image": "a"}));
            },
            "`containers` has \"istio-proxy\" besides",
        ),
        (|pod| pod["spec"]["hostNetwork"] = json!(true), "`hostNetwork` is true instead of absent"),
        (
            |pod| pod["spec"]["containers"][0]["env"] = json!([{"name": "TOKEN", "value": "x"}]),
            "`containers[\"sandbox\"].env`",
        ),
        (
            |pod| pod["spec"]["containers"][0]["securityContext"]["runAsUser"] = json!(0),
            "securityContext.runAsUser` is 0 instead of 10000",
        ),
        (
            |pod| pod["metadata"]["labels"]["app.kubernetes.io/component"] = json!("other"),
            "the label `app.kubernetes.io/component` is \"other\"",
        ),
    ];
    for (change, expected) in changes {
        pods.server.world().webhook = Some(Box::new(change));
        let said = refusal(&pods).await;
        assert!(said.contains(expected) && said.contains("admission webhook"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_there_is_no_pod() {
    let Some(pods) = pods().await else { return };
    let closed = pods.server.world().policies.clone();
    pods.server.world().policies.clear();
    let without = refusal(&pods).await;
    assert!(
        without.contains("no NetworkPolicy of the namespace takes away their egress"),
        "{without}"
    );
    assert!(without.contains("docs/kubernetes/sandboxes.yaml"), "{without}");
    let open = json!({"metadata": {"name": "everything"}, "spec": {"podSelector": {},
        "policyTypes": ["Egress"], "egress": [{}]}});
    pods.server.world().policies = [closed, vec![open]].concat();
    let besides = refusal(&pods).await;
    assert!(besides.contains("`everything` selects them too, and allows egress"), "{besides}");
    assert!(pods.server.world().made.is_empty());
}

/// The control for what `network: none` rests on: where the network is there, it is seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_nobody_enforces_is_found_out() {
    let Some(pods) = pods().await else { return };
    pods.server.world().enforces = false;
    let said = refusal(&pods).await;
    assert!(said.contains("although a NetworkPolicy forbids it"), "{said}");
    assert!(said.contains("open-to-everything-the-cluster-reaches"), "{said}");
    // Unless the operator says that it is meant.
    let template = "apiVersion: v1\nkind: PodTemplate\nmetadata:\n  annotations:\n    patchwright/sandbox-network: \
                    open-to-everything-the-cluster-reaches\n";
    let sandbox = connected(&pods.server, pods.state.path(), Some(template)).await;
    let running = sandbox.start(&spec(&pods.run, IMAGE)).await.unwrap();
    assert!(running.enforced.iter().any(|one| one.to_string() == "network: present"));
    assert_eq!(sh(&running, "ls /sys/class/net | wc -l").await, "2");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_comes_with_what_to_do() {
    let Some(pods) = pods().await else { return };
    for (code, message, expected) in [
        (403, "exceeded quota: compute", "raise the ResourceQuota"),
        (403, "violates PodSecurity \"restricted:latest\": x", "level `restricted`"),
        (400, "admission webhook \"policy.test\" denied the request: no", "exempt the namespace"),
        (404, "namespaces \"agents\" not found", "make the namespace"),
        (401, "Unauthorized", "the token of the service account"),
        (422, "Pod is invalid", "is the template"),
    ] {
        // A token is read anew once.
        let times = if code == 401 { 2 } else { 1 };
        pods.server.meets(&Method::POST, "/pods", code, message, times);
        let said = refusal(&pods).await;
        assert!(said.contains(message) && said.contains(expected), "{said}");
    }
    for (right, doing) in [
        ("get pods/exec", "the guest cannot be brought into the pod"),
        ("create pods", "cannot make a sandbox pod"),
        ("list networkpolicies", "cannot list network policies"),
    ] {
        pods.server.forbid(right);
        let said = refusal(&pods).await;
        let (verb, resource) = right.split_once(' ').unwrap();
        assert!(said.contains(doing), "{said}");
        assert!(said.contains(&format!("cannot {verb} resource \"{resource}\"")), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_reached_for_a_moment_ends_no_sandbox() {
    let Some(pods) = pods().await else { return };
    pods.server.meets(&Method::GET, "/exec", 500, AWAY, 1);
    pods.server.meets(&Method::GET, "/exec", 429, "too many requests", 1);
    let running = pods.start().await.unwrap();
    assert_eq!(sh(&running, "echo here").await, "here");
    running.stop().await.unwrap();
}

/// Only an image that a policy refuses may be what one repository names.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_of_all_pods_is_nothing_of_the_runs() {
    let Some(pods) = pods().await else { return };
    let refuses = Some(EngineTrouble::Refuses);
    let of_image = format!("admission webhook \"policy.test\" denied the request: image {IMAGE}");
    for (message, trouble, hint) in [
        ("status unknown for quota: compute, resources: pods", refuses, "in a moment"),
        ("maximum memory usage per Container is 128Mi, but limit is 256Mi", refuses, "LimitRange"),
        (
            "unable to create new content in namespace agents because it is being terminated",
            refuses,
            "the namespace is being removed",
        ),
        ("pod rejected: RuntimeClass \"gvisor\" not found", refuses, "make the RuntimeClass"),
        ("error looking up service account agents/default: not found", refuses, ""),
        (
            "admission webhook \"policy.test\" denied the request: no",
            refuses,
            "which is its operator's",
        ),
        (
            "ValidatingAdmissionPolicy 'labels' with binding 'b' denied request: no",
            refuses,
            "exempt",
        ),
        (of_image.as_str(), None, "a policy of the cluster refuses the image"),
    ] {
        let message = format!("pods \"x\" is forbidden: {message}");
        pods.server.meets(&Method::POST, "/pods", 403, &message, 1);
        let Err(err) = pods.start().await else { panic!("it started") };
        assert_eq!(err.trouble(), trouble, "{err}");
        let said = said(err);
        assert!(said.contains(&message) && said.contains(hint), "{said}");
    }
}

/// A quota that many change at once has the status of a pod that is there already.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_others_change_is_tried_again() {
    let Some(pods) = pods().await else { return };
    let conflict = "Operation cannot be fulfilled on resourcequotas \"compute\": the object has been modified; please \
                    apply your changes to the latest version and try again";
    pods.server.meets(&Method::POST, "/pods", 409, conflict, 1);
    let running = pods.start().await.unwrap();
    assert_eq!(sh(&running, "echo here").await, "here");
    // Nor has a pod gone whose removal was refused so.
    let pod = running.id.clone();
    pods.server.meets(&Method::DELETE, &pod, 409, conflict, 1);
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    pods.server.meets(&Method::POST, "/pods", 409, conflict, 5);
    let Err(err) = pods.start().await else { panic!("it started") };
    assert_eq!(err.trouble(), Some(EngineTrouble::Refuses), "{err}");
    let said = said(err);
    assert!(said.contains(conflict) && said.contains("run less at once"), "{said}");
}

/// The server's word for its own trouble is the same as for a container that does not run, but for the message.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_reached_is_nothing_of_the_runs() {
    let Some(pods) = pods().await else { return };
    let gone = "container not found (\"guest\")";
    for (message, times, trouble, hint) in
        [(AWAY, 5, Some(EngineTrouble::Away), "does not reach the node"), (gone, 1, None, "")]
    {
        pods.server.meets(&Method::GET, "/exec", 500, message, times);
        let Err(err) = pods.start().await else { panic!("it started") };
        assert_eq!(err.trouble(), trouble, "{err}");
        let said = said(err);
        assert!(said.contains(message) && said.contains(hint), "{said}");
        pods.assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_begin_says_why() {
    let Some(pods) = pods().await else { return };
    let waits = |reason: &str, message: &str| {
        json!({"phase": "Pending", "initContainerStatuses": [{"name": "guest",
            "state": {"waiting": {"reason": reason, "message": message}}}]})
    };
    for (status, expected, hint) in [
        (
            waits("ImagePullBackOff", "Back-off pulling image: not found"),
            "the image of the container `guest` cannot be had (ImagePullBackOff: Back-off pulling image: not found)",
            "`imagePullSecrets`",
        ),
        (
            waits("CreateContainerError", "exec: \"sh\": not found"),
            "the container `guest` cannot be started",
            "needs a shell",
        ),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}]}),
            "no node takes the pod (Unschedulable: 0/3 nodes are available",
            "smaller requests",
        ),
        (
            json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no"}),
            "the sandbox pod did not start: the pod failed (UnexpectedAdmissionError: no)",
            "",
        ),
        (
            json!({"phase": "Failed", "initContainerStatuses": [{"name": "guest", "state": {"terminated": {
                "exitCode": 128, "reason": "StartError", "message": "exec: \"sh\": executable file not found in $PATH"}}}],
                "containerStatuses": [{"name": "sandbox", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
            "the sandbox pod did not start: the container `guest` cannot be started (StartError: exec: \"sh\": \
             executable file not found in $PATH)",
            "needs a shell",
        ),
    ] {
        pods.server.world().fate = Fate::Waits(status);
        let said = refusal(&pods).await;
        assert!(said.contains(expected) && said.contains(hint), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_the_address_of_a_server_is_not_said() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster: {server: \
                'https://user:pass-w0rd@k8s.test:6443'}\nusers: [{name: a, user: {token: t}}]\ncontexts:\n- name: a\n  \
                context: {cluster: a, user: a, namespace: agents}\n";
    fs_err::write(&file, text).unwrap();
    // What is not there of a list is left out, as by `kubectl`.
    let kubeconfig = format!("{}/missing:{}", state.path().display(), file.display());
    let settings = PodSettings {
        kubeconfig: Some(&kubeconfig),
        template: None,
        state: state.path(),
        own_pod: None,
        time_scale: 0.01,
    };
    let sandbox = KubernetesSandbox::connect(settings).await.unwrap();
    assert_eq!(sandbox.place(), "the namespace `agents` of k8s.test:6443");
}

/// The status of the pod says nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_an_event_tells_of_a_pod_is_said() {
    let Some(pods) = pods().await else { return };
    let network = "plugin type=\"calico\" failed (add): no podCIDR assigned";
    pods.server.world().fate = Fate::Told("FailedCreatePodSandBox", network);
    let Err(err) = pods.start().await else { panic!("it started") };
    assert_eq!(err.trouble(), Some(EngineTrouble::Refuses), "{err}");
    let said = said(err);
    let expected = format!("the pod does not start (FailedCreatePodSandBox: {network})");
    assert!(said.contains(&expected) && said.contains("network plug-in"), "{said}");
    pods.assert_nothing_left();
}

/// A scheduler that is not there, or a kubelet that does not begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_which_nothing_is_told_is_nothing_of_the_runs() {
    let Some(pods) = pods().await else { return };
    pods.server.world().fate = Fate::Waits(json!({"phase": "Pending"}));
    let began = std::time::Instant::now();
    let Err(err) = pods.start().await else { panic!("it started") };
    assert_eq!(err.trouble(), Some(EngineTrouble::Refuses), "{err}");
    assert!(began.elapsed() < std::time::Duration::from_mins(1));
    let said = said(err);
    let expected = "no node has begun with the pod, and neither its status nor an event says why";
    assert!(said.contains(expected) && said.contains("look at the scheduler"), "{said}");
    pods.assert_nothing_left();
}

/// The API server's own limits answer with no object, and say how long in a header.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_server_is_waited_for_as_long_as_it_says() {
    let Some(pods) = pods().await else { return };
    pods.server.world().retry_after = Some(4);
    let limit = "Too many requests, please try again later.";
    pods.server.meets(&Method::GET, "/exec", 429, limit, 1);
    let began = std::time::Instant::now();
    let running = pods.start().await.unwrap();
    assert!(began.elapsed() >= std::time::Duration::from_secs(4), "{:?}", began.elapsed());
    running.stop().await.unwrap();
}

/// As programs of clouds do that say who we are.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_the_kubeconfig_is_asked_anew_and_heard() {
    let Some(pods) = pods().await else { return };
    let path = |name: &str| pods.state.path().join(name).display().to_string();
    let text = fs_err::read_to_string(pods.server.kubeconfig()).unwrap();
    let (before, rest) = text.split_once("{tokenFile: ").unwrap();
    let (token, after) = rest.split_once('}').unwrap();
    let connected = async |expires: &str| {
        let script = format!(
            "[ ! -e {} ] || {{ echo t0ken-of-stdout; echo 'the session has expired' >&2; exit 3; }}\n\
             printf '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
             \"status\":{{\"token\":\"%s\"{expires}}}}}' \"$(cat {token})\"\n",
            path("ended")
        );
        fs_err::write(path("program"), script).unwrap();
        let program = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [{}, s3cret-argument], \
             env: [{{name: CLIENT_SECRET, value: s3cret-variable}}]}}}}",
            path("program")
        );
        fs_err::write(path("kubeconfig"), format!("{before}{program}{after}")).unwrap();
        let settings = PodSettings {
            kubeconfig: Some(&path("kubeconfig")),
            template: None,
            state: pods.state.path(),
            own_pod: None,
            time_scale: 0.01,
        };
        KubernetesSandbox::connect(settings).await
    };
    // One that does not say until when its token is good.
    let running = connected("").await.unwrap().start(&spec(&pods.run, IMAGE)).await.unwrap();
    pods.server.rotate_token();
    running.stop().await.unwrap();
    pods.assert_nothing_left();
    let sandbox = connected(",\"expirationTimestamp\":\"2026-01-01T00:00:00Z\"").await.unwrap();
    fs_err::write(path("ended"), "").unwrap();
    let Err(err) = sandbox.start(&spec(&pods.run, IMAGE)).await else { panic!("it started") };
    assert_eq!(err.trouble(), Some(EngineTrouble::Refuses), "{err}");
    let said = said(err);
    let expected = "that says who we are failed (exit status: 3): the session has expired";
    assert!(said.contains(expected) && said.contains("sign in anew"), "{said}");
    let at_once = match connected("").await {
        Ok(_) => panic!("it is connected"),
        Err(err) => format!("{err:?}"),
    };
    assert!(at_once.contains(expected), "{at_once}");
    for secret in ["t0ken-of-stdout", "s3cret"] {
        assert!(!said.contains(secret) && !at_once.contains(secret), "{said}\n{at_once}");
    }
}
