//! A pod of ours: shows that it is in use, ends it, and tells afterwards what it died of.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::HeartbeatTiming;
use super::api::{ApiError, Cluster};
use super::exec::{ExecEnd, Session};
use super::manifest::BEAT;
use super::pod::{Pod, PodState};
use super::refusal::{refused, trouble};
use super::template::CONTAINER;
use crate::docker::owned::Owned;
use crate::{EngineTrouble, SandboxError, Stop};

/// Waits between attempts to remove.
const RETRIES: &[Duration] = &[Duration::from_millis(500), Duration::from_secs(3)];
/// Between attempts to remove a pod whose server was away, and how many there are: for a day, after which the cluster has
/// ended it.
const LATER: Duration = Duration::from_secs(10);
const LATER_TIMES: u32 = 8640;
/// How often, and how far apart, it is asked what became of a pod whose stream broke: its node reports a moment later.
const ASKED: u32 = 10;
const APART: Duration = Duration::from_millis(500);

/// What becomes of a pod that is dropped.
#[derive(Clone, Copy)]
enum OnDrop {
    /// It is removed in the background.
    Remove,
    /// It stays, and the next sweep removes it.
    Leave,
    /// Somebody removes it already.
    Nothing,
}

/// A pod of ours that exists. Dropped before [`SandboxPod::keep`], it is removed in the background: no way out of
/// starting one leaves it behind.
pub(super) struct SandboxPod {
    pub(super) cluster: Cluster,
    pub(super) name: String,
    uid: String,
    memory_bytes: u64,
    /// The exec in which the guest runs, once it does.
    pub(super) session: Option<Session>,
    beating: Option<AbortOnDropHandle<()>>,
    /// Ends that exec: the pod was seen to be gone.
    pub(super) lost: CancellationToken,
    owned: Arc<Owned>,
    on_drop: OnDrop,
    /// What the last exit reason came to.
    trouble: Mutex<Option<EngineTrouble>>,
}

impl SandboxPod {
    /// `made` is the pod as the server has it; `owned` knows its name.
    pub(super) fn new(
        cluster: &Cluster,
        made: &Value,
        memory_bytes: u64,
        timing: HeartbeatTiming,
        owned: &Arc<Owned>,
    ) -> SandboxPod {
        let word = |name: &str| made["metadata"][name].as_str().unwrap_or_default().to_owned();
        let (name, uid) = (word("name"), word("uid"));
        let lost = CancellationToken::new();
        let beating = tokio::spawn(beat(cluster.clone(), name.clone(), timing, lost.clone()));
        SandboxPod {
            cluster: cluster.clone(),
            name,
            uid,
            memory_bytes,
            session: None,
            beating: Some(AbortOnDropHandle::new(beating)),
            lost,
            owned: Arc::clone(owned),
            on_drop: OnDrop::Remove,
            trouble: Mutex::default(),
        }
    }

    /// From now on only [`Stop::stop`] or the sweep removes it.
    pub(super) fn keep(&mut self) {
        self.on_drop = OnDrop::Leave;
    }

    /// Removes it, also when nobody waits for that any more.
    pub(super) async fn remove(mut self) -> Result<(), SandboxError> {
        self.on_drop = OnDrop::Nothing;
        let removed = tokio::spawn(self.removing()).await;
        removed.unwrap_or_else(|err| Err(SandboxError::Other(err.to_string())))
    }

    fn removing(&mut self) -> impl Future<Output = Result<(), SandboxError>> + Send + use<> {
        drop(self.beating.take());
        let (cluster, owned) = (self.cluster.clone(), Arc::clone(&self.owned));
        let (name, uid) = (self.name.clone(), self.uid.clone());
        owned.going(&name);
        async move {
            let removed = remove_or_later(cluster, name.clone(), uid, Arc::clone(&owned)).await;
            if removed.is_err() {
                owned.leave(&name);
            }
            removed
        }
    }

    /// Why it died, and what of that is not its own doing; `None` when it lives, as far as the server knows.
    pub(super) async fn cause_of_death(&self) -> Option<(String, Option<EngineTrouble>)> {
        let taken = Some(EngineTrouble::TookAway);
        let pod = match read(&self.cluster, &self.name).await {
            Ok(Some(pod)) => pod,
            Ok(None) => return Some(("somebody removed the pod".to_owned(), taken)),
            Err(err) => return Some((err.to_string(), trouble(&err))),
        };
        if pod.ran_out_of_memory(CONTAINER) {
            let limit = self.memory_bytes >> 20;
            return Some((format!("out of memory (limit {limit} MiB)"), None));
        }
        match pod.state(CONTAINER) {
            PodState::Failed(end) => Some((end.why, taken.filter(|_| end.disrupted))),
            PodState::Succeeded => Some(("the pod has ended".to_owned(), None)),
            PodState::Running | PodState::Waiting(_) if pod.is_being_removed() => {
                let why = pod.disruption().unwrap_or_else(|| "somebody removes the pod".to_owned());
                Some((why, taken))
            }
            PodState::Running | PodState::Waiting(_) => None,
        }
    }

    /// Why the guest has ended whose pod is as it should be.
    fn end_of_guest(session: &Session) -> (String, Option<EngineTrouble>) {
        let why = match (session.ended(), session.broken()) {
            (Some(ExecEnd::Code(137)), _) => {
                "the guest was killed (137): a command killed everything, or memory ran out"
                    .to_owned()
            }
            (Some(ExecEnd::Code(code)), _) => {
                format!("the guest ended with exit code {code}{}", session.last_words())
            }
            (Some(ExecEnd::Otherwise(why)), _) => format!("the guest ended: {why}"),
            (None, why) => {
                let why = why.unwrap_or_default();
                let why =
                    format!("the connection to the pod broke ({why}), and with it the guest ended");
                return (why, Some(EngineTrouble::TookAway));
            }
        };
        (why, None)
    }
}

impl Drop for SandboxPod {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        match (self.on_drop, runtime) {
            (OnDrop::Nothing, _) => {}
            (OnDrop::Remove, Ok(runtime)) => {
                let by_hand = self.by_hand().unwrap_or_default();
                let removing = self.removing();
                runtime.spawn(async move {
                    if let Err(err) = removing.await {
                        tracing::warn!(%err, by_hand, "cannot remove an unfinished pod yet");
                    }
                });
            }
            (OnDrop::Remove | OnDrop::Leave, _) => self.owned.leave(&self.name),
        }
    }
}

#[async_trait]
impl Stop for SandboxPod {
    async fn stop(self: Box<Self>) -> Result<(), SandboxError> {
        self.remove().await
    }

    fn by_hand(&self) -> Option<String> {
        let namespace = self.cluster.namespace();
        Some(format!("kubectl delete pod {} --namespace {namespace}", self.name))
    }

    async fn exit_reason(&self) -> Option<String> {
        let session = self.session.as_ref()?;
        for _ in 0..ASKED {
            if let Some((reason, trouble)) = self.cause_of_death().await {
                *self.trouble.lock() = trouble;
                return Some(reason);
            }
            if session.ended().is_none() && session.broken().is_none() {
                return None;
            }
            tokio::time::sleep(APART).await;
        }
        let (reason, trouble) = SandboxPod::end_of_guest(session);
        *self.trouble.lock() = trouble;
        Some(reason)
    }

    fn trouble(&self) -> Option<EngineTrouble> {
        *self.trouble.lock()
    }
}

/// The pod of this name; `None` when it does not exist.
pub(super) async fn read(cluster: &Cluster, name: &str) -> Result<Option<Pod>, ApiError> {
    let Some(pod) = raw(cluster, name).await? else { return Ok(None) };
    serde_json::from_value(pod).map(Some).map_err(|err| ApiError::Unreadable(err.to_string()))
}

/// A pod as the server describes it, as JSON; `None` when there is none.
pub(super) async fn raw(cluster: &Cluster, name: &str) -> Result<Option<Value>, ApiError> {
    match cluster.ask(Method::GET, &path(cluster, name), None).await {
        Ok(pod) => Ok(Some(pod)),
        Err(err) if err.is(StatusCode::NOT_FOUND) => Ok(None),
        Err(err) => Err(err),
    }
}

pub(super) fn path(cluster: &Cluster, name: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{name}", cluster.namespace())
}

/// Removes a pod as [`remove`] does. When the server is away, that is done in the background once it is back: a pod
/// that stays takes room, and counts for the quota. Should this process end before, the next sweep finds the pod.
async fn remove_or_later(
    cluster: Cluster,
    name: String,
    uid: String,
    owned: Arc<Owned>,
) -> Result<(), SandboxError> {
    let removed = remove(&cluster, &name, &uid).await;
    if removed.is_ok() {
        owned.gone(&name);
    }
    if removed.as_ref().is_err_and(|err| err.trouble() == Some(EngineTrouble::Away)) {
        tokio::spawn(async move {
            for _ in 0..LATER_TIMES {
                tokio::time::sleep(LATER).await;
                match delete(&cluster, &name, json!({"uid": uid})).await {
                    Err(err) if trouble(&err) == Some(EngineTrouble::Away) => {}
                    Ok(_) => return owned.gone(&name),
                    Err(err) => {
                        tracing::warn!(pod = name, %err, "cannot remove a pod");
                        return;
                    }
                }
            }
        });
    }
    removed
}

/// Removes this pod, and no later one of its name. One that is already gone is a success.
///
/// # Errors
/// When it is still there after all attempts.
async fn remove(cluster: &Cluster, name: &str, uid: &str) -> Result<(), SandboxError> {
    let mut waits = RETRIES.iter();
    loop {
        let Err(err) = delete(cluster, name, json!({"uid": uid})).await else { return Ok(()) };
        match waits.next() {
            Some(wait) => tokio::time::sleep(*wait).await,
            None => return Err(refused(&format!("remove the pod `{name}`"), &err)),
        }
    }
}

/// Removes a pod that is as these preconditions say; whether there was one.
pub(super) async fn delete(
    cluster: &Cluster,
    name: &str,
    preconditions: Value,
) -> Result<bool, ApiError> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "gracePeriodSeconds": 1, "preconditions": preconditions,
    });
    match cluster.ask(Method::DELETE, &path(cluster, name), Some(&options)).await {
        Ok(_) => Ok(true),
        Err(err) if err.is(StatusCode::NOT_FOUND) => Ok(false),
        // Of another version or of another pod, as asked. The server has the same word for trouble of its own.
        Err(err) if err.is_conflict() => {
            let is_of_version = options["preconditions"]["resourceVersion"].is_string();
            let there = if is_of_version { None } else { raw(cluster, name).await? };
            let uid = &options["preconditions"]["uid"];
            let is_it = there.is_some_and(|there| there["metadata"]["uid"] == *uid);
            if is_it { Err(err) } else { Ok(false) }
        }
        Err(err) => Err(err),
    }
}

/// Shows that the pod is in use, until that is over. The server's clock counts, so that no two machines have to agree
/// on the time. A pod that is gone, or is on its way out at two signs in a row, is lost: when its node is gone, nobody
/// else ends what waits for it.
async fn beat(cluster: Cluster, name: String, timing: HeartbeatTiming, lost: CancellationToken) {
    let mut was_ending = false;
    loop {
        tokio::time::sleep(timing.every).await;
        let now = cluster.now().to_string();
        let patch = json!({"metadata": {"annotations": {BEAT: now}}});
        match cluster.ask(Method::PATCH, &path(&cluster, &name), Some(&patch)).await {
            Ok(pod) => {
                let is_ending = serde_json::from_value::<Pod>(pod).is_ok_and(|pod| pod.is_ending());
                if std::mem::replace(&mut was_ending, is_ending) && is_ending {
                    return lost.cancel();
                }
            }
            Err(err) if err.is(StatusCode::NOT_FOUND) => return lost.cancel(),
            // The last one counts for a while.
            Err(err) => tracing::warn!(pod = name, %err, "cannot show that a sandbox is in use"),
        }
    }
}
