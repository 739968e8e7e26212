//! Waits until a pod has come so far, as long as what keeps it from that may last.

use std::time::{Duration, Instant};

use tokio::time::Instant as Moment;

use super::api::ApiError;
use super::bring_up::ended;
use super::manifest::BRINGER;
use super::pod::{Pod, PodState, PodTrouble, TroubleKind};
use super::refusal::{self, refused};
use super::takedown::{self, SandboxPod};
use super::template::CONTAINER;
use super::{KubernetesSandbox, events};
use crate::{EngineTrouble, SandboxError};
use patchwright_base::waits;

/// Between two looks at a pod that begins.
const LOOK: Duration = Duration::from_millis(300);
/// Between two looks at what is told of a pod whose status says nothing, and before the first one.
const TOLD: Duration = Duration::from_secs(10);
/// What an image needs that cannot be started.
const SHELL: &str =
    "the image needs a shell (`sh`), and the cluster the runtime that the template names";

/// What is known of a pod that does not begin.
struct Wait {
    /// What keeps it from beginning, and when that was first seen.
    troubled: Option<(TroubleKind, Instant)>,
    /// When its events were looked at, and what they told.
    looked: Instant,
    has_looked: bool,
    told: Option<PodTrouble>,
}

impl KubernetesSandbox {
    /// Waits until the pod is so.
    pub(super) async fn until(
        &self,
        pod: &SandboxPod,
        is_so: impl Fn(&Pod) -> bool,
    ) -> Result<Pod, SandboxError> {
        let deadline = Moment::now() + self.waits.start;
        let mut wait =
            Wait { troubled: None, looked: Instant::now(), has_looked: false, told: None };
        let api = format!("the Kubernetes API at {}", self.cluster.server());
        loop {
            let (why, trouble) = match takedown::read(&self.cluster, &pod.name).await {
                Ok(Some(found)) if is_so(&found) => return Ok(found),
                // What keeps a service from beginning is that service's.
                Ok(Some(found)) => {
                    waits::over(&api);
                    let is_begun = found.is_begun();
                    let mut state = found.only(&[BRINGER, CONTAINER]).state(CONTAINER);
                    if state == PodState::Waiting(None) {
                        let told = self.told(&pod.name, &mut wait).await;
                        let is_silent = wait.has_looked && !is_begun;
                        state = PodState::Waiting(told.or_else(|| is_silent.then(silent)));
                    }
                    (self.patient(state, &mut wait.troubled)?, None)
                }
                Ok(None) => {
                    let why = "somebody removed the pod before it began";
                    return Err(ended(why, Some(EngineTrouble::TookAway)));
                }
                Err(
                    err @ (ApiError::Answer { status: 400..429, .. } | ApiError::Unidentified(_)),
                ) => {
                    return Err(refused("look at a sandbox pod", &err));
                }
                // It may be away for a while.
                Err(err) => {
                    waits::begun(&api, || {
                        let most = waits::in_words(deadline - Moment::now());
                        format!(
                            "waiting for {api}, where a sandbox pod begins, for up to {most}: {err}"
                        )
                    });
                    (err.to_string(), refusal::trouble(&err))
                }
            };
            if Moment::now() >= deadline {
                let after = self.waits.start.as_secs();
                let why = format!("the pod had not begun after {after} s: {why}");
                return Err(ended(&why, trouble.or(self.of_nobody(&pod.name).await)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What keeps the pod from beginning of which its status says nothing. Whoever may not list events goes without.
    async fn told(&self, pod: &str, wait: &mut Wait) -> Option<PodTrouble> {
        if wait.looked.elapsed() >= TOLD {
            wait.told = events::trouble(&self.cluster, pod).await.unwrap_or_else(|err| {
                tracing::debug!(pod, %err, "nobody knows what is told of a pod");
                None
            });
            (wait.looked, wait.has_looked) = (Instant::now(), true);
        }
        wait.told.clone()
    }

    /// A pod that does not begin is the cluster's, unless it is an image that takes so long: that may be the repository's.
    async fn of_nobody(&self, pod: &str) -> Option<EngineTrouble> {
        match events::is_pulling(&self.cluster, pod).await {
            Ok(is_pulling) => (!is_pulling).then_some(EngineTrouble::Refuses),
            // Whoever may not list events cannot tell.
            Err(err) => refusal::trouble(&err).filter(|trouble| *trouble == EngineTrouble::Away),
        }
    }

    /// What keeps the pod from beginning, as long as one may wait for it.
    fn patient(
        &self,
        state: PodState,
        since: &mut Option<(TroubleKind, Instant)>,
    ) -> Result<String, SandboxError> {
        match state {
            PodState::Waiting(Some(trouble)) => {
                let most = match trouble.kind {
                    TroubleKind::Unschedulable | TroubleKind::Node | TroubleKind::Silent => {
                        self.waits.node
                    }
                    TroubleKind::Image | TroubleKind::Configuration => self.waits.image,
                };
                // A node that came late has its own time for the image.
                let known = since.filter(|(kind, _)| *kind == trouble.kind);
                let (_, began) = known.unwrap_or_else(|| (trouble.kind, Instant::now()));
                *since = Some((trouble.kind, began));
                if began.elapsed() < most {
                    return Ok(trouble.why);
                }
                Err(given_up(trouble))
            }
            PodState::Waiting(None) | PodState::Running => {
                *since = None;
                Ok("it waits".to_owned())
            }
            PodState::Succeeded => Err(ended("the pod ended before it began", None)),
            PodState::Failed(end) if end.not_started => Err(SandboxError::Kubernetes {
                message: format!("the sandbox pod did not start: {}", end.why),
                hint: Some(SHELL.to_owned()),
                trouble: None,
            }),
            PodState::Failed(end) => {
                Err(ended(&end.why, end.disrupted.then_some(EngineTrouble::TookAway)))
            }
        }
    }
}

fn silent() -> PodTrouble {
    let why = "no node has begun with the pod, and neither its status nor an event says why";
    PodTrouble { kind: TroubleKind::Silent, why: why.to_owned() }
}

/// It was waited for long enough.
fn given_up(trouble: PodTrouble) -> SandboxError {
    let (hint, of_all) = match trouble.kind {
        TroubleKind::Unschedulable => {
            ("give the cluster room, or the template other nodes and smaller requests", true)
        }
        TroubleKind::Node => (
            "look at the node, its disk and its network plug-in, and at the runtime that the template names",
            true,
        ),
        TroubleKind::Image => (
            "name an image that the nodes can pull, with `--image`; the template can have \
             `imagePullSecrets`",
            false,
        ),
        TroubleKind::Configuration => (SHELL, false),
        TroubleKind::Silent => (
            "look at the scheduler that the template names, and at the kubelet of the pod's node",
            true,
        ),
    };
    SandboxError::Kubernetes {
        message: trouble.why,
        hint: Some(hint.to_owned()),
        trouble: of_all.then_some(EngineTrouble::Refuses),
    }
}
