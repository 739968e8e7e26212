//! A Kubernetes API server of our own that runs pods as containers of the real Docker: with the pod's users, limits,
//! volumes and network, its first containers one after the other, and `exec` over `WebSocket`s.
//!
//! Requests are checked: the token, the rights that `docs/kubernetes/sandboxes.yaml` gives, the schema of each object, and
//! the level `restricted`. Answers are as the API's documents describe. What it is not: a scheduler, a network plug-in
//! (a closed pod has no network at all), or anybody's cluster.
#![allow(dead_code, reason = "each test uses a part")]

mod exec;
mod kubelet;
mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Method;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::cluster;
use super::docker::socket;
use super::listening::{Listening, Port};

/// Namespace, policy and Role.
pub(crate) const MANIFEST: &str = "sandboxes.yaml";
pub(crate) const NAMESPACE: &str = "patchwright-sandboxes";
const TOKEN: &str = "service-account-token-5f1d07";

/// What happens to pods that are made.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    Runs,
    /// They wait, with this status.
    Waits(Value),
    /// They wait, and only an event says why: its reason, and its message.
    Told(&'static str, &'static str),
}

/// What changes a pod on its way in, as admission webhooks do.
type Webhook = Box<dyn Fn(&mut Value) + Send>;

/// The server. Dropping it removes its pods, and fails the test on requests that were not as they should be.
pub(crate) struct PodServer {
    shared: Shared,
    listening: Listening,
    folder: tempfile::TempDir,
}

type Shared = Arc<Mutex<World>>;

#[expect(clippy::struct_excessive_bools, reason = "each is a fault that a test may set")]
pub(crate) struct World {
    pub(crate) pods: BTreeMap<String, Value>,
    pub(crate) events: Vec<Value>,
    pub(crate) policies: Vec<Value>,
    /// The network plug-in does what policies say.
    pub(crate) enforces: bool,
    pub(crate) fate: Fate,
    pub(crate) webhook: Option<Webhook>,
    /// What requests of this method and path meet instead of their answer, once each.
    meets: Vec<(Method, String, u16, String)>,
    /// How long such a 429 says to wait, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Who has it is known.
    token: String,
    rights: BTreeSet<String>,
    pub(crate) used: BTreeSet<String>,
    /// Every pod that was ever made, as it was sent.
    pub(crate) made: Vec<Value>,
    pub(crate) requests: Vec<String>,
    violations: Vec<String>,
    /// Servers before 1.30 know no other protocol than the fourth.
    pub(crate) is_old: bool,
    /// The namespace asks for no more than the level `baseline`.
    pub(crate) is_baseline: bool,
    /// Each new number ends all streams.
    streams: tokio::sync::watch::Sender<u64>,
    /// Nobody answers.
    pub(crate) is_away: bool,
    /// How long it takes to make a pod: webhooks are asked first. One that is given up on the way is made all the same.
    pub(crate) slow: Duration,
    version: u64,
    /// Part of the names of its containers.
    id: String,
    port: u16,
    folder: std::path::PathBuf,
}

impl PodServer {
    pub(crate) fn start() -> PodServer {
        let folder = tempfile::tempdir().unwrap();
        let port = Port::take_everywhere();
        let policies =
            cluster::manifests(MANIFEST).into_iter().filter(|one| one["kind"] == "NetworkPolicy");
        let shared = Arc::new(Mutex::new(World {
            pods: BTreeMap::new(),
            events: Vec::new(),
            token: TOKEN.to_owned(),
            policies: policies.collect(),
            enforces: true,
            fate: Fate::Runs,
            webhook: None,
            meets: Vec::new(),
            retry_after: None,
            rights: cluster::rights(MANIFEST),
            used: BTreeSet::new(),
            made: Vec::new(),
            requests: Vec::new(),
            violations: Vec::new(),
            is_old: false,
            is_baseline: false,
            streams: tokio::sync::watch::Sender::new(0),
            is_away: false,
            slow: Duration::ZERO,
            version: 100,
            id: hex::encode(rand::random::<[u8; 4]>()),
            port: port.address.port(),
            folder: folder.path().to_owned(),
        }));
        let state = Arc::clone(&shared);
        let listening = port.serve_by(2, async move |listener| {
            let app = Router::new().fallback(routes::serve).with_state(state);
            axum::serve(listener, app).await.unwrap();
        });
        PodServer { shared, listening, folder }
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> String {
        let port = self.listening.address.port();
        cluster::kubeconfig(self.folder.path(), port, &self.world().token, NAMESPACE)
    }

    /// Another token counts from now on, and is in the file.
    pub(crate) fn rotate_token(&self) {
        let mut world = self.world();
        world.token.push_str("-next");
        cluster::write_token(self.folder.path(), &world.token);
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.lock()
    }

    /// The next requests of this method whose path has this text are answered so.
    pub(crate) fn meets(
        &self,
        method: &Method,
        path: &str,
        code: u16,
        message: &str,
        times: usize,
    ) {
        let mut world = self.world();
        for _ in 0..times {
            let meets = (method.clone(), path.to_owned(), code, message.to_owned());
            world.meets.push(meets);
        }
    }

    /// Ends all streams, as a restart of the server does.
    pub(crate) fn break_streams(&self) {
        self.world().streams.send_modify(|number| *number += 1);
    }

    /// Takes a right away.
    pub(crate) fn forbid(&self, right: &str) {
        assert!(self.world().rights.remove(right), "{right}");
    }

    /// The names of its pods.
    pub(crate) fn pods(&self) -> Vec<String> {
        self.world().pods.keys().cloned().collect()
    }

    /// The container in which commands of a pod run.
    pub(crate) fn container(&self, pod: &str) -> String {
        kubelet::container(&self.world(), pod, "sandbox")
    }

    /// Ends a pod as a node does that is short of something.
    pub(crate) fn evict(&self, pod: &str) {
        self.fails(
            pod,
            &json!({"phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: ephemeral-storage."}),
        );
    }

    /// Its node is gone: nothing runs any more, nobody says so, and after a while the cluster asks for the pod's end.
    #[expect(clippy::disallowed_methods, reason = "pods are containers")]
    pub(crate) fn lose_node(&self, pod: &str) {
        let mut command = std::process::Command::new("docker");
        command.args(["--host", &format!("unix://{}", socket()), "pause", &self.container(pod)]);
        assert!(command.output().unwrap().status.success());
        let mut world = self.world();
        let pod = world.pods.get_mut(pod).unwrap();
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
            "reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}]);
    }

    /// The kernel ends what runs in it, because it has too much memory.
    pub(crate) fn kill_for_memory(&self, pod: &str) {
        let state = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let container = kubelet::container_status("sandbox", "", &state);
        self.fails(pod, &json!({"phase": "Failed", "containerStatuses": [container]}));
    }

    /// Its time is up.
    pub(crate) fn overdue(&self, pod: &str) {
        self.fails(
            pod,
            &json!({"phase": "Failed", "reason": "DeadlineExceeded",
            "message": "Pod was active on the node longer than the specified deadline"}),
        );
    }

    fn fails(&self, pod: &str, status: &Value) {
        let mut world = self.world();
        world.put_status(pod, status.clone());
        kubelet::remove_containers(&world, pod);
    }

    /// Waits until something is so in its world.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, so: impl Fn(&World) -> bool) {
        let began = Instant::now();
        while !so(&self.world()) {
            let world = || format!("{:#?}", self.world().requests);
            assert!(began.elapsed() < Duration::from_mins(2), "{what} never came: {}", world());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for PodServer {
    fn drop(&mut self) {
        self.listening.end();
        let world = self.shared.lock();
        for pod in world.pods.keys() {
            kubelet::remove_containers(&world, pod);
        }
        cluster::no_violations(&world.violations);
    }
}

impl World {
    fn put_status(&mut self, pod: &str, status: Value) {
        self.version += 1;
        let version = self.version.to_string();
        let Some(pod) = self.pods.get_mut(pod) else { return };
        // What has failed stays so.
        if pod["status"]["phase"] != "Failed" {
            pod["status"] = status;
            pod["metadata"]["resourceVersion"] = json!(version);
        }
    }
}

/// The Docker command line.
#[expect(clippy::disallowed_methods, reason = "pods are containers")]
fn docker(args: &[String]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("docker");
    command.args(["--host", &format!("unix://{}", socket())]).args(args);
    command.kill_on_drop(true);
    command
}
