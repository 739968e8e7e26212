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
    /// Its node does not get a volume of it, or its network, ready.
    Node,
    /// Nothing is told of it, and no node has begun with it.
    Silent,
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
        /// Why its command could not be started, in words; `None` when it was.
        not_started: Option<String>,
    },
}

/// How a pod ended that did not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEnd {
    pub why: String,
    /// The cluster took it away, for reasons that are none of the run's.
    pub disrupted: bool,
    /// The command of one of its containers could not be started.
    pub not_started: bool,
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
    deletion_grace_period_seconds: Option<i64>,
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

/// The kubelet's words for a command that could not be started: the image does not have it, or the runtime refuses
/// (`pkg/kubelet/kuberuntime/kuberuntime_container.go`, and containerd's).
const NOT_STARTED: &[&str] = &["StartError", "ContainerCannotRun"];

impl Detail {
    /// Why the command could not be started, in words; `None` when it was.
    fn not_started(&self) -> Option<String> {
        let is_so = NOT_STARTED.contains(&self.reason.as_str());
        is_so.then(|| said(&self.reason, &self.message))
    }
}

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

    /// When a pod that is to be removed has ended for certain, in seconds since 1970 by the server's clock, unless its node
    /// is gone; `None` when it is not to be removed. Quotas count it no longer either
    /// (`pkg/quota/v1/evaluator/core/pods.go`).
    pub fn ends_by(&self) -> Option<i64> {
        let asked = self.metadata.deletion_timestamp.as_deref()?;
        let asked = chrono::DateTime::parse_from_rfc3339(asked).ok()?.timestamp();
        Some(asked.saturating_add(self.metadata.deletion_grace_period_seconds.unwrap_or_default()))
    }

    /// A node has begun with it: the kubelet tells of its containers before it pulls their images.
    pub fn is_begun(&self) -> bool {
        let status = &self.status;
        !status.init_container_statuses.is_empty() || !status.container_statuses.is_empty()
    }

    /// It has ended, or is to end.
    pub fn is_ending(&self) -> bool {
        self.is_being_removed() || matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }

    /// Why the cluster takes it away, in words; `None` when it does not.
    /// Source: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/>: eviction by the API, drains, preemption,
    /// node pressure and nodes that are gone all leave this condition.
    pub fn disruption(&self) -> Option<String> {
        let all = &mut self.status.conditions.iter();
        let target = all.find(|one| one.r#type == "DisruptionTarget" && one.status == "True")?;
        let why = said(&target.reason, &target.message);
        Some(format!("the cluster took the pod away ({why})"))
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
                not_started: ended.not_started(),
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
        let of = |why: String, disrupted| PodEnd { why, disrupted, not_started: false };
        if let Some(why) = self.disruption() {
            return of(why, true);
        }
        let why = said(&status.reason, &status.message);
        if status.reason == "Evicted" {
            // Of older clusters.
            let disrupted = !OWN_FAULT.iter().any(|words| status.message.contains(words));
            return of(format!("the pod was evicted ({why})"), disrupted);
        }
        if let Some(ended) = self.ended(container) {
            let not_started = ended.not_started().is_some();
            return PodEnd { not_started, ..of(words_of(ended), false) };
        }
        if let Some(end) = self.end_of_first() {
            return end;
        }
        let disrupted =
            status.reason.starts_with(NO_ROOM) || OF_THE_NODE.contains(&status.reason.as_str());
        of(format!("the pod failed ({why})"), disrupted)
    }

    /// How a container ended that was to prepare the others, when it failed: the pod says nothing of it itself.
    fn end_of_first(&self) -> Option<PodEnd> {
        let ended = |one: &'_ ContainerStatus| one.state.terminated.clone();
        let all = self.status.init_container_statuses.iter();
        let mut all = all.filter_map(|one| Some((text::line(&one.name), ended(one)?)));
        let (name, ended) = all.find(|(_, ended)| ended.exit_code != 0)?;
        let (why, not_started) = if let Some(why) = ended.not_started() {
            (format!("the container `{name}` cannot be started ({why})"), true)
        } else {
            let why = said(&ended.reason, &ended.message);
            let code = ended.exit_code;
            (format!("the container `{name}` ended with exit code {code} ({why})"), false)
        };
        Some(PodEnd { why, disrupted: false, not_started })
    }
}

/// How the container ended in which the pod's work is done.
fn words_of(ended: &Detail) -> String {
    if ended.reason == "OOMKilled" {
        return "the run was killed because it needs more memory than its pod may have".to_owned();
    }
    let last = ended.message.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map(|last| format!(": {}", text::line(last))).unwrap_or_default();
    format!("the pod ended with exit code {}{last}", ended.exit_code)
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
        let first = |state: Value| {
            json!({"phase": "Failed",
            "initContainerStatuses": [{"name": "keys", "state": {"terminated": {"exitCode": 0}}},
                {"name": "guest", "state": {"terminated": state}}],
            "containerStatuses": [{"name": "patchwright", "state": {"waiting": {"reason": "PodInitializing"}}}]})
        };
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
            (
                first(
                    json!({"exitCode": 128, "reason": "StartError", "message": "exec: \"sh\": not found"}),
                ),
                false,
                "the container `guest` cannot be started (StartError: exec: \"sh\": not found)",
            ),
            (
                first(json!({"exitCode": 1, "reason": "Error", "message": "no\nroom"})),
                false,
                "the container `guest` ended with exit code 1 (Error: no room)",
            ),
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
        let ended = |code, out_of_memory, not_started: Option<&str>| ContainerPhase::Ended {
            code,
            out_of_memory,
            not_started: not_started.map(str::to_owned),
        };
        assert_eq!(standing(killed), ended(137, true, None));
        let absent =
            json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no"}});
        assert_eq!(standing(absent), ended(128, false, Some("StartError: no")));
        let absent = json!({"waiting": {"reason": "ErrImagePull", "message": "no"}});
        assert!(matches!(standing(absent), ContainerPhase::Waiting(Some(_))));
        assert_eq!(of(0), PodState::Succeeded);
        assert!(matches!(of(1), PodState::Failed(_)));
    }
}
