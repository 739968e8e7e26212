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
use patchwright_sandbox::kubernetes::pod::{Pod, PodState};

/// The longest line of a watch: one pod.
const LONGEST: usize = 4 << 20;
/// After trouble, doubled each time.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The server ends a watch after four minutes and sends bookmarks in between: longer silence is a connection
/// that nobody has closed.
const SILENCE: Duration = Duration::from_mins(5);

/// A pod of a Job.
#[derive(Clone, Debug)]
pub(super) struct LaunchedPod {
    pub(super) state: PodState,
    /// The pod as the API server has it, as far as it says what was asked for: its specification.
    pub(super) made: Arc<Value>,
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
        };
        let task = tokio::spawn(watcher.go_on(version));
        Ok(Observer { pods: receiver, task })
    }

    /// Is told each time that something has changed.
    pub(super) fn pods(&self) -> watch::Receiver<Pods> {
        self.pods.clone()
    }

    pub(super) fn unfinished(&self) -> usize {
        let is_there =
            |pod: &&LaunchedPod| matches!(pod.state, PodState::Waiting(_) | PodState::Running);
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
                all.insert(job.to_owned(), LaunchedPod { state, made: Arc::clone(made) });
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
}

impl Watcher {
    async fn go_on(mut self, first: String) {
        let mut version = Some(first);
        loop {
            let ended = match version.take() {
                Some(since) => self.follow(since).await.map(Some),
                None => self.list().await.map(Some),
            };
            match ended {
                Ok(seen) => version = seen,
                // What happened since then is not known any more; the list is.
                Err(err) if err.is(StatusCode::GONE) => {}
                Err(err) => self.wait(&err).await,
            }
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
        if std::mem::take(&mut self.failed) > 0 {
            self.ui.say("the Kubernetes API answers again");
        }
        let bytes = body.into_data_stream().map(|part| part.map_err(std::io::Error::other));
        let codec = LinesCodec::new_with_max_length(LONGEST);
        let mut lines = FramedRead::new(StreamReader::new(bytes), codec);
        let mut version = since;
        loop {
            let next = tokio::time::timeout(SILENCE, lines.next()).await;
            let Ok(Some(Ok(line))) = next else {
                // A connection that breaks loses nothing: the watch goes on from what was seen.
                self.pause(FIRST).await;
                return Ok(version);
            };
            if let Some(seen) = self.apply(&line)? {
                version = seen;
            }
        }
    }

    /// One change; the version that it brings.
    fn apply(&mut self, line: &str) -> Result<Option<String>, ApiError> {
        let change: WatchEvent = super::api::parse(line.as_bytes())?;
        if change.r#type == "ERROR" {
            let status = change.object["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let message = change.object["message"].as_str().unwrap_or_default();
            return Err(ApiError::Answer {
                status: status.unwrap_or(500),
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
