//! All pods of this fleet, followed by one watch: a list, then its changes. When the watch ends it goes on from
//! where it was; when that is too long ago (410), or after trouble, the list is asked for again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use http::StatusCode;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;

use super::api::{ApiError, Cluster};
use super::manifest::{JOB, of_fleet};
use super::refusal;
use super::template::CONTAINER;
use crate::batch::fleet::Fleet;
use patchwright_base::error::Result;
use patchwright_base::ui::Ui;
use patchwright_sandbox::kubernetes::pod::{Pod, PodEnd, PodState};

/// The longest line of a watch: one pod.
const LONGEST: usize = 4 << 20;
/// After trouble, doubled each time.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A watch that was not refused within this time works, even if nothing has changed.
const CALM: Duration = Duration::from_secs(2);
/// The server ends a watch after four minutes and sends bookmarks in between: longer silence is a connection
/// that nobody has closed.
const SILENCE: Duration = Duration::from_mins(5);

/// A pod of a Job.
#[derive(Clone, Debug)]
pub(super) struct LaunchedPod {
    pub(super) name: String,
    pub(super) state: PodState,
    /// See [`Pod::ends_by`].
    ends_by: Option<i64>,
    /// Why the cluster takes it away, when it does.
    disruption: Option<String>,
    /// The pod as the API server has it, as far as it says what was asked for: its specification.
    pub(super) made: Arc<Value>,
}

impl LaunchedPod {
    /// The end of a pod that is to be removed and is overdue, although the API server does not say that it has ended.
    pub(super) fn lost(&self, now: i64) -> Option<PodEnd> {
        self.ends_by.filter(|ends_by| *ends_by < now)?;
        let why = self.disruption.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let why = format!("the pod should have ended, and its node does not say so{why}");
        Some(PodEnd { why, disrupted: true, not_started: false })
    }
}

/// How long one pod is asked for: whoever asks has other things to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pods by the name of their Job.
pub(super) type Pods = Arc<HashMap<String, LaunchedPod>>;

/// The background task. Dropping it ends that.
pub(super) struct Observer {
    pods: watch::Receiver<Pods>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Looks once, so that wrong rights and addresses are known at start, and goes on in the background.
    ///
    /// # Errors
    /// When the server says no, or does not answer.
    pub(super) async fn start(
        cluster: &Cluster,
        fleet: &Fleet,
        identity: &str,
    ) -> Result<Observer> {
        let label = of_fleet(identity);
        let (pods, version) = cluster.pods_of(&label).await.map_err(|err| refusal(&err))?;
        let view = PodCache::of(pods);
        let (sender, receiver) = watch::channel(view.by_job());
        let scale = fleet.env.time_scale();
        let watcher = Watcher {
            cluster: cluster.clone(),
            label,
            view,
            sender,
            ui: fleet.ui,
            scale,
            failed: 0,
            expired: false,
        };
        let task = tokio::spawn(watcher.go_on(version));
        Ok(Observer { pods: receiver, task })
    }

    /// Is told each time that something has changed.
    pub(super) fn pods(&self) -> watch::Receiver<Pods> {
        self.pods.clone()
    }

    /// How many take room at this time by the server's clock.
    pub(super) fn unfinished(&self, now: i64) -> usize {
        let is_there = |pod: &&LaunchedPod| {
            matches!(pod.state, PodState::Waiting(_) | PodState::Running) && pod.lost(now).is_none()
        };
        self.pods.borrow().values().filter(is_there).count()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the pod of a Job from the API server instead of from the watch's cache; `None` if it does not exist.
///
/// # Errors
/// When the server says no, or does not answer: then nobody knows.
pub(super) async fn pod_now(cluster: &Cluster, job: &str) -> Result<Option<LaunchedPod>, ApiError> {
    let label = format!("{JOB}={job}");
    let listed = tokio::time::timeout(PATIENCE, cluster.pods_of(&label)).await;
    let (pods, _) = listed.map_err(|_| ApiError::Unreachable("it takes too long".to_owned()))??;
    Ok(PodCache::of(pods).by_job().get(job).cloned())
}

/// Pods by their own names: a Job may have had more than one.
#[derive(Default)]
struct PodCache {
    pods: HashMap<String, (Pod, Arc<Value>)>,
}

impl PodCache {
    fn of(pods: Vec<Value>) -> PodCache {
        let mut view = PodCache::default();
        for pod in pods {
            if let Ok((pod, made)) = read(pod) {
                view.pods.insert(pod.name().to_owned(), (pod, made));
            }
        }
        view
    }

    /// The pod of each Job; where it has several, the one that gets furthest counts.
    fn by_job(&self) -> Pods {
        let mut all = HashMap::<String, LaunchedPod>::new();
        for (pod, made) in self.pods.values() {
            let Some(job) = pod.label(JOB) else { continue };
            let state = pod.state(CONTAINER);
            let is_better = all.get(job).is_none_or(|known| rank(&state) > rank(&known.state));
            if is_better {
                let launched = LaunchedPod {
                    name: pod.name().to_owned(),
                    state,
                    ends_by: pod.ends_by(),
                    disruption: pod.disruption(),
                    made: Arc::clone(made),
                };
                all.insert(job.to_owned(), launched);
            }
        }
        Arc::new(all)
    }
}

fn read(mut pod: Value) -> Result<(Pod, Arc<Value>), ApiError> {
    let made = Arc::new(json!({"spec": pod["spec"].take()}));
    let pod = serde_json::from_value(pod).map_err(|err| ApiError::Unreadable(err.to_string()))?;
    Ok((pod, made))
}

fn rank(state: &PodState) -> u8 {
    match state {
        PodState::Failed(_) => 0,
        PodState::Waiting(_) => 1,
        PodState::Running => 2,
        PodState::Succeeded => 3,
    }
}

#[derive(Deserialize)]
struct WatchEvent {
    r#type: String,
    object: Value,
}

struct Watcher {
    cluster: Cluster,
    label: String,
    view: PodCache,
    sender: watch::Sender<Pods>,
    ui: Ui,
    scale: f64,
    /// How often in a row the server was asked in vain.
    failed: u32,
    /// The watch before was refused as too old as well, without having told anything.
    expired: bool,
}

impl Watcher {
    async fn go_on(mut self, first: String) {
        let mut version = Some(first);
        loop {
            let is_watch = version.is_some();
            let ended = match version.take() {
                Some(since) => self.follow(since).await.map(Some),
                None => self.list().await.map(Some),
            };
            match ended {
                Ok(seen) => version = seen,
                // What happened since then is not known any more; the list is. When it is too old as well at once, there is
                // something wrong with the server.
                Err(err)
                    if is_watch
                        && err.is(StatusCode::GONE)
                        && !std::mem::replace(&mut self.expired, true) => {}
                Err(err) => self.wait(&err).await,
            }
        }
    }

    /// The server does what it is asked for.
    fn answers(&mut self) {
        self.expired = false;
        if std::mem::take(&mut self.failed) > 0 {
            self.ui.say("the Kubernetes API answers again");
        }
    }

    async fn wait(&mut self, err: &ApiError) {
        if self.failed == 0 {
            self.ui
                .failure(&format!("{err}; pods that run go on, it is asked again until it does"));
        }
        let wait = (FIRST * (1 << self.failed.min(5))).min(LONGEST_WAIT);
        self.failed += 1;
        self.pause(wait).await;
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time.mul_f64(self.scale).max(Duration::from_millis(50))).await;
    }

    async fn list(&mut self) -> Result<String, ApiError> {
        let (pods, version) = self.cluster.pods_of(&self.label).await?;
        self.view = PodCache::of(pods);
        self.publish();
        Ok(version)
    }

    /// Takes changes until the watch ends; the version that was seen last.
    async fn follow(&mut self, since: String) -> Result<String, ApiError> {
        let body = self.cluster.watch_pods(&self.label, &since).await?;
        let bytes = body.into_data_stream().map(|part| part.map_err(std::io::Error::other));
        let codec = LinesCodec::new_with_max_length(LONGEST);
        let mut lines = FramedRead::new(StreamReader::new(bytes), codec);
        let mut version = since;
        // A refusal may come as the first line of a watch that has begun.
        let mut next = tokio::time::timeout(CALM, lines.next()).await;
        if next.is_err() {
            self.answers();
            next = tokio::time::timeout(SILENCE, lines.next()).await;
        }
        while let Ok(Some(Ok(line))) = next {
            if let Some(seen) = self.apply(&line)? {
                version = seen;
            }
            self.answers();
            next = tokio::time::timeout(SILENCE, lines.next()).await;
        }
        // A connection that breaks loses nothing: the watch goes on from what was seen.
        self.pause(FIRST).await;
        Ok(version)
    }

    /// One change; the version that it brings.
    fn apply(&mut self, line: &str) -> Result<Option<String>, ApiError> {
        let change: WatchEvent = super::api::parse(line.as_bytes())?;
        if change.r#type == "ERROR" {
            let status = change.object["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let message = change.object["message"].as_str().unwrap_or_default();
            let reason = change.object["reason"].as_str().unwrap_or_default();
            return Err(ApiError::Answer {
                status: status.unwrap_or(500),
                reason: patchwright_base::text::line(reason),
                message: patchwright_base::text::line(message),
                retry_after: None,
            });
        }
        let (pod, made) = read(change.object)?;
        let version = pod.version().to_owned();
        match change.r#type.as_str() {
            "DELETED" => {
                self.view.pods.remove(pod.name());
                self.publish();
            }
            "ADDED" | "MODIFIED" => {
                self.view.pods.insert(pod.name().to_owned(), (pod, made));
                self.publish();
            }
            // A bookmark brings nothing but its version.
            _ => {}
        }
        Ok((!version.is_empty()).then_some(version))
    }

    fn publish(&self) {
        self.sender.send_replace(self.view.by_job());
    }
}
