//! The Kubernetes Job of one job of ours: the template of the operator with a name, labels and the command that
//! takes over exactly this job.

use serde_json::{Value, json};

use super::api::ApiError;
use super::changes::changes;
use super::template::CONTAINER;
use super::{Launcher, job_name};
use patchwright_types::campaign::Lease;

/// Which fleet a Job and its pod are of: the identity of its database.
pub(super) const FLEET: &str = "patchwright/fleet";
/// The name of a pod's Job, on the pod.
pub(super) const JOB: &str = "patchwright/job";
/// The lease that a Job was made for, in its annotations.
const LEASE: &str = "patchwright/lease";
const OWNER: &str = "patchwright/owner";
/// Removed by the cluster itself so many seconds after its end, should no launcher be there to do it.
const KEPT: u32 = 3600;

/// Chooses what is of one fleet.
pub(super) fn of_fleet(identity: &str) -> String {
    format!("{FLEET}={identity}")
}

impl Launcher {
    /// Makes the Job for a lease. Sent twice, it is one Job. With what the server has made of it that was not asked for;
    /// such a Job is not to go on.
    ///
    /// # Errors
    /// When the server does not make it.
    pub(super) async fn create(&self, lease: &Lease) -> Result<Option<String>, ApiError> {
        let made = self.made(lease, &job_name(lease)).await?;
        Ok(self.changes(lease, &made["spec"]["template"]))
    }

    async fn made(&self, lease: &Lease, name: &str) -> Result<Value, ApiError> {
        let cluster = &self.inner.cluster;
        let made = match cluster.create_job(&self.manifest(lease)).await? {
            Some(made) => Some(made),
            None => cluster.job(name).await?,
        };
        let Some(made) = made else {
            return Err(ApiError::Unreadable(format!(
                "the Job `{name}` is there already, and is not"
            )));
        };
        if lease_of(&made).is_none_or(|found| found.owner != lease.owner) {
            return Err(ApiError::Unreadable(format!("a Job `{name}` of others is in the way")));
        }
        Ok(made)
    }

    /// What of a pod, or of a Job's template, is not as it was asked for with this lease; `None` when all is well.
    pub(super) fn changes(&self, lease: &Lease, made: &Value) -> Option<String> {
        let asked = &self.manifest(lease)["spec"]["template"];
        changes(asked, made, &self.inner.template.accepted)
    }

    fn manifest(&self, lease: &Lease) -> Value {
        let name = job_name(lease);
        let mut pod = self.inner.template.pod.clone();
        let labels = json!({
            "app.kubernetes.io/name": "patchwright",
            "app.kubernetes.io/component": "run",
            "app.kubernetes.io/managed-by": "patchwright",
            FLEET: self.inner.fleet,
            JOB: name,
        });
        let labels = labels.as_object().cloned().unwrap_or_default();
        if !pod["metadata"]["labels"].is_object() {
            pod["metadata"]["labels"] = json!({});
        }
        if let Value::Object(all) = &mut pod["metadata"]["labels"] {
            all.extend(labels.clone());
        }
        let containers = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
        for run in containers.filter(|one| one["name"] == CONTAINER) {
            run["args"] = json!([
                "worker",
                "--one-job",
                format!("{}/{}", lease.job, lease.epoch),
                "--from",
                lease.owner,
                "--lease",
                format!("{}s", lease.length / 1000),
                // What a pod has done is put back at once when the pod has to go.
                "--drain",
                "0s",
            ]);
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {
                    LEASE: format!("{}/{}/{}", lease.job, lease.epoch, lease.length),
                    OWNER: lease.owner,
                },
            },
            "spec": {
                // Trying again is the queue's business: a second pod could not take the job over.
                "backoffLimit": 0,
                "completions": 1,
                "parallelism": 1,
                "ttlSecondsAfterFinished": KEPT,
                "template": pod,
            },
        })
    }
}

/// The lease that a Job was made for; `None` when it is none of ours.
pub(super) fn lease_of(job: &Value) -> Option<Lease> {
    let annotations = &job["metadata"]["annotations"];
    let mut parts = annotations[LEASE].as_str()?.splitn(3, '/').map(|part| part.parse().ok());
    let (job_id, epoch, length) = (parts.next()??, parts.next()??, parts.next()??);
    let owner = annotations[OWNER].as_str()?.to_owned();
    let lease = Lease { job: job_id, epoch, owner, length };
    (job["metadata"]["name"] == job_name(&lease).as_str()).then_some(lease)
}
