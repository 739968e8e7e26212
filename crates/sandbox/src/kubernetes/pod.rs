//! A pod as the API server describes it, and what that means in words.

use serde::Deserialize;

use patchwright_base::text;

/// How a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It does not run yet; the trouble that keeps it from it, if there is one.
    Waiting(Option<PodTrouble>),
    Running,
    Succeeded,
    Failed(PodEnd),
}

/// Why a pod does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTrouble {
    pub kind: TroubleKind,
    /// In words.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// No node has room for it, or may have it; one may be on its way.
    Unschedulable,
    /// Its image does not come.
    Image,
    /// It names what is not there, or what cannot be started.
    Configuration,
}

/// How one container of a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerPhase {
    /// It does not run yet; the trouble that keeps it from it, if there is one.
    Waiting(Option<PodTrouble>),
    Running,
    Ended {
        code: i32,
        out_of_memory: bool,
    },
}

/// How a pod ended that did not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEnd {
    pub why: String,
    /// The cluster took it away, for reasons that are none of the run's.
    pub disrupted: bool,
}

/// The parts of a `Pod` that matter here.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    labels: std::collections::BTreeMap<String, String>,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    #[serde(rename = "imageID")]
    image_id: String,
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerState {
    waiting: Option<Detail>,
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Detail>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Detail {
    reason: String,
    message: String,
    exit_code: i32,
}

/// What the kubelet says of a pod that it evicts because the pod itself has used more than it may
/// (`pkg/kubelet/eviction/eviction_manager.go`).
const OWN_FAULT: &[&str] =
    &["exceeds the limit", "exceeds the total limit", "exceeded its local ephemeral storage limit"];
/// Why a node sends a pod away that was given to it (`pkg/kubelet/lifecycle/predicate.go`, and node shutdown).
const NO_ROOM: &str = "OutOf";
const OF_THE_NODE: &[&str] =
    &["NodeAffinity", "NodeShutdown", "Shutdown", "Terminated", "UnexpectedAdmissionError"];

impl ContainerStatus {
    /// Why it does not begin.
    fn trouble(&self) -> Option<PodTrouble> {
        let waiting = self.state.waiting.as_ref()?;
        let (name, why) = (text::line(&self.name), said(&waiting.reason, &waiting.message));
        let (kind, why) = match waiting.reason.as_str() {
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "RegistryUnavailable"
            | "ImageInspectError" => (
                TroubleKind::Image,
                format!("the image of the container `{name}` cannot be had ({why})"),
            ),
            "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "CrashLoopBackOff" => (
                TroubleKind::Configuration,
                format!("the container `{name}` cannot be started ({why})"),
            ),
            _ => return None,
        };
        Some(PodTrouble { kind, why })
    }
}

impl Pod {
    /// The value of one of its labels.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.get(name).map(String::as_str)
    }

    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// Somebody has asked for its removal.
    pub fn is_being_removed(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// One of its containers runs, also one that only prepares the others.
    pub fn runs(&self, container: &str) -> bool {
        let status = &self.status;
        let all = status.init_container_statuses.iter().chain(&status.container_statuses);
        all.filter(|one| one.name == container).any(|one| one.state.running.is_some())
    }

    /// The memory of one of its containers was not enough, and the kernel has ended it.
    pub fn ran_out_of_memory(&self, container: &str) -> bool {
        self.ended(container).is_some_and(|ended| ended.reason == "OOMKilled")
    }

    /// The image of one of its containers, as the node has it: a name with a digest, or an id of the node's own.
    pub fn image_id(&self, container: &str) -> Option<&str> {
        let run = self.status.container_statuses.iter().find(|one| one.name == container)?;
        Some(run.image_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Without what it says of containers of other names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Pod {
        let status = &mut self.status;
        status.container_statuses.retain(|one| names.contains(&one.name.as_str()));
        status.init_container_statuses.retain(|one| names.contains(&one.name.as_str()));
        self
    }

    /// The state of one of its containers; not of an init container.
    pub fn standing(&self, container: &str) -> ContainerPhase {
        let one = self.status.container_statuses.iter().find(|one| one.name == container);
        match one.map(|one| &one.state) {
            Some(ContainerState { terminated: Some(ended), .. }) => ContainerPhase::Ended {
                code: ended.exit_code,
                out_of_memory: ended.reason == "OOMKilled",
            },
            Some(ContainerState { running: Some(_), .. }) => ContainerPhase::Running,
            Some(_) | None => ContainerPhase::Waiting(one.and_then(ContainerStatus::trouble)),
        }
    }

    /// How the pod stands whose work is done in this container.
    pub fn state(&self, container: &str) -> PodState {
        // A side-car that does not end, or does not begin, keeps the phase as it is.
        let ended = self.ended(container).map(|ended| ended.exit_code);
        match (self.status.phase.as_str(), ended) {
            ("Succeeded", _) | ("Running" | "Pending", Some(0)) => PodState::Succeeded,
            ("Failed", _) | ("Running" | "Pending", Some(_)) => {
                PodState::Failed(self.end(container))
            }
            ("Running", None) => PodState::Running,
            _ => PodState::Waiting(self.trouble()),
        }
    }

    fn ended(&self, container: &str) -> Option<&Detail> {
        let run = self.status.container_statuses.iter().find(|one| one.name == container)?;
        run.state.terminated.as_ref()
    }

    fn trouble(&self) -> Option<PodTrouble> {
        let status = &self.status;
        let mut all = status.init_container_statuses.iter().chain(&status.container_statuses);
        if let Some(trouble) = all.find_map(ContainerStatus::trouble) {
            return Some(trouble);
        }
        let scheduled = status.conditions.iter().find(|one| one.r#type == "PodScheduled")?;
        if scheduled.status != "False" {
            return None;
        }
        let why = said(&scheduled.reason, &scheduled.message);
        let why = format!("no node takes the pod ({why})");
        Some(PodTrouble { kind: TroubleKind::Unschedulable, why })
    }

    fn end(&self, container: &str) -> PodEnd {
        let status = &self.status;
        // Eviction by the API, drains, preemption and node pressure all leave this condition
        // (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/).
        let target = status.conditions.iter().find(|one| one.r#type == "DisruptionTarget");
        if let Some(target) = target.filter(|target| target.status == "True") {
            let why = said(&target.reason, &target.message);
            return PodEnd {
                why: format!("the cluster took the pod away ({why})"),
                disrupted: true,
            };
        }
        let why = said(&status.reason, &status.message);
        if status.reason == "Evicted" {
            // Of older clusters.
            let disrupted = !OWN_FAULT.iter().any(|words| status.message.contains(words));
            return PodEnd { why: format!("the pod was evicted ({why})"), disrupted };
        }
        if let Some(ended) = self.ended(container) {
            let why = if ended.reason == "OOMKilled" {
                "the run was killed because it needs more memory than its pod may have".to_owned()
            } else {
                let last = ended.message.lines().rfind(|line| !line.trim().is_empty());
                let last = last.map(|last| format!(": {}", text::line(last))).unwrap_or_default();
                format!("the pod ended with exit code {}{last}", ended.exit_code)
            };
            return PodEnd { why, disrupted: false };
        }
        let disrupted =
            status.reason.starts_with(NO_ROOM) || OF_THE_NODE.contains(&status.reason.as_str());
        PodEnd { why: format!("the pod failed ({why})"), disrupted }
    }
}

/// Reason and message of others in one line.
pub fn said(reason: &str, message: &str) -> String {
    let (reason, message) = (text::line(reason), text::line(message));
    match (reason.is_empty(), message.is_empty()) {
        (true, true) => "it does not say why".to_owned(),
        (false, true) => reason,
        (true, false) => message,
        (false, false) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kubernetes::pod::{ContainerPhase, Pod, PodState};

    fn state(status: impl Into<Value>) -> PodState {
        let status: Value = status.into();
        serde_json::from_value::<Pod>(json!({"status": status})).unwrap().state("patchwright")
    }

    #[test]
    fn what_keeps_a_pod_from_running_is_said() {
        let waiting = |reason: &str| {
            json!({"phase": "Pending", "containerStatuses": [{"name": "patchwright",
                "state": {"waiting": {"reason": reason, "message": "of\u{1b}[31m others"}}}]})
        };
        for (status, expected) in [
            (
                waiting("ImagePullBackOff"),
                "Some(\"the image of the container `patchwright` cannot be had (ImagePullBackOff: of others)\")",
            ),
            (
                waiting("CreateContainerConfigError"),
                "Some(\"the container `patchwright` cannot be started (CreateContainerConfigError: of others)\")",
            ),
            (waiting("ContainerCreating"), "None"),
            (json!({"phase": "Pending"}), "None"),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "message": "0/3 nodes are available"}]}),
                "Some(\"no node takes the pod (Unschedulable: 0/3 nodes are available)\")",
            ),
        ] {
            let PodState::Waiting(trouble) = state(status) else { unreachable!("it waits") };
            assert_eq!(format!("{:?}", trouble.map(|trouble| trouble.why)), expected);
        }
    }

    #[test]
    fn an_end_says_whose_fault_it_was() {
        let ended = |state: Value| json!({"phase": "Failed", "containerStatuses": [{"name": "patchwright", "state": {"terminated": state}}]});
        for (status, disrupted, words) in [
            (ended(json!({"exitCode": 137, "reason": "OOMKilled"})), false, "more memory"),
            (
                ended(json!({"exitCode": 2, "message": "error: no key\n"})),
                false,
                "exit code 2: error: no key",
            ),
            (
                json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True",
                    "reason": "PreemptionByScheduler"}]}),
                true,
                "PreemptionByScheduler",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}),
                true,
                "low on disk",
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted",
                    "message": "Usage of EmptyDir volume \"work\" exceeds the limit \"1Gi\". "}),
                false,
                "exceeds the limit",
            ),
            (
                json!({"phase": "Failed", "reason": "OutOfmemory", "message": "Node didn't have enough resource"}),
                true,
                "OutOfmemory",
            ),
            (json!({"phase": "Failed"}), false, "does not say why"),
        ] {
            let PodState::Failed(end) = state(status) else { unreachable!("it failed") };
            assert_eq!(end.disrupted, disrupted, "{end:?}");
            assert!(end.why.contains(words), "{end:?}");
        }
    }

    #[test]
    fn a_side_car_that_goes_on_does_not_hide_the_end_of_a_run() {
        let of = |code: i32| {
            state(json!({"phase": "Running", "containerStatuses": [
                {"name": "docker", "state": {"running": {}}},
                {"name": "patchwright", "state": {"terminated": {"exitCode": code}}}]}))
        };
        let standing = |state: Value| {
            let status = json!({"phase": "Pending", "containerStatuses": [{"name": "service-db", "state": state}]});
            let pod: Pod = serde_json::from_value(json!({"status": status})).unwrap();
            assert!(matches!(
                pod.clone().only(&["sandbox"]).state("sandbox"),
                PodState::Waiting(None)
            ));
            pod.standing("service-db")
        };
        assert_eq!(standing(json!({"running": {}})), ContainerPhase::Running);
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        assert_eq!(standing(killed), ContainerPhase::Ended { code: 137, out_of_memory: true });
        let absent = json!({"waiting": {"reason": "ErrImagePull", "message": "no"}});
        assert!(matches!(standing(absent), ContainerPhase::Waiting(Some(_))));
        assert_eq!(of(0), PodState::Succeeded);
        assert!(matches!(of(1), PodState::Failed(_)));
    }
}
