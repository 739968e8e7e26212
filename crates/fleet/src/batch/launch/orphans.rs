//! Jobs that no task of this process follows: of a launcher that died, was replaced or could not reach the API
//! server. Whichever launcher of the fleet looks first tidies up; what it may do, the job's row says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::carry::{LaunchedJobHolder, ended, launched_job_holder, removed, silent};
use super::manifest::{lease_of, of_fleet};
use super::observe::pod_now;
use super::{Inner, Launcher, patience};
use crate::batch::fleet::Fleet;
use crate::store::StoreResult;
use patchwright_sandbox::kubernetes::pod::PodEnd;
use patchwright_types::campaign::{Job, JobKind, Lease};

/// Between two looks, and the time that a launcher that lives has for its own Jobs.
const LOOK: Duration = Duration::from_mins(1);

/// Looks in the background, as long as the launcher lives.
pub(super) fn watch_over(launcher: &Launcher, fleet: &Fleet) {
    let inner = Arc::downgrade(&launcher.inner);
    let fleet = fleet.clone();
    tokio::spawn(async move {
        // When each orphan was first seen to need something done.
        let mut since = HashMap::<String, Instant>::new();
        loop {
            let Some(inner) = inner.upgrade() else { return };
            look(&Launcher { inner }, &fleet, &mut since).await;
            tokio::select! {
                () = fleet.drain.cancelled() => return,
                () = tokio::time::sleep(patience(&fleet, LOOK)) => {}
            }
        }
    });
}

async fn look(launcher: &Launcher, fleet: &Fleet, since: &mut HashMap<String, Instant>) {
    let inner: &Inner = &launcher.inner;
    let jobs = match inner.cluster.jobs_of(&of_fleet(&inner.fleet)).await {
        Ok(jobs) => jobs,
        Err(err) => {
            tracing::debug!(%err, "orphans could not be looked for");
            return;
        }
    };
    let mut still = HashMap::new();
    for job in &jobs {
        let Some(lease) = lease_of(job) else { continue };
        let name = super::job_name(&lease);
        if inner.state.lock().followed.contains(&name) {
            continue;
        }
        match what_to_do(launcher, fleet, &lease, &name).await {
            Ok(OrphanAction::None) => {}
            Ok(care) => {
                // Its own launcher may be at it at this moment.
                let first = since.get(&name).copied().unwrap_or_else(Instant::now);
                if first.elapsed() < patience(fleet, LOOK) {
                    still.insert(name, first);
                    continue;
                }
                tidy(launcher, fleet, &lease, care, &name).await;
            }
            Err(err) => tracing::debug!(%err, name, "an orphan was left as it is"),
        }
    }
    *since = still;
}

/// What an orphan needs.
enum OrphanAction {
    /// Nothing: a pod works on it, or it is about to.
    None,
    /// Its job is over.
    Remove,
    /// Its pod is gone, and the job is still the pod's.
    Bury(PodEnd),
}

async fn what_to_do(
    launcher: &Launcher,
    fleet: &Fleet,
    lease: &Lease,
    name: &str,
) -> StoreResult<OrphanAction> {
    let holder = fleet.store.holder(lease.job).await?;
    Ok(match launched_job_holder(holder.as_ref(), lease) {
        // Its launcher holds it. When that has died, others claim the job, and it is over for this Job.
        LaunchedJobHolder::Launcher => OrphanAction::None,
        LaunchedJobHolder::EndedInPod | LaunchedJobHolder::Over => OrphanAction::Remove,
        LaunchedJobHolder::Pod => dead(launcher, name).await,
        LaunchedJobHolder::SilentPod => match dead(launcher, name).await {
            OrphanAction::None => OrphanAction::Bury(gone_silent(launcher, name)),
            care => care,
        },
    })
}

/// Whether the pod is dead that has its job. Another launcher may have made it a moment ago, of which our watch, which
/// can be silent for a while, has not told: what it does not have is asked for, and without an answer it lives.
async fn dead(launcher: &Launcher, name: &str) -> OrphanAction {
    let inner: &Inner = &launcher.inner;
    let known = inner.observer.pods().borrow().get(name).cloned();
    let end = match known {
        Some(pod) => ended(&pod.state),
        None => match pod_now(&inner.cluster, name).await {
            Ok(Some(pod)) => ended(&pod.state),
            Ok(None) => Some(removed()),
            Err(err) => {
                tracing::debug!(%err, name, "an orphan was left as it is");
                None
            }
        },
    };
    end.map_or(OrphanAction::None, OrphanAction::Bury)
}

/// The end of a pod that seems to run and does not renew its lease.
fn gone_silent(launcher: &Launcher, name: &str) -> PodEnd {
    let inner: &Inner = &launcher.inner;
    let known = inner.observer.pods().borrow().get(name).cloned();
    known.and_then(|pod| pod.lost(inner.cluster.now())).unwrap_or_else(silent)
}

async fn tidy(launcher: &Launcher, fleet: &Fleet, lease: &Lease, care: OrphanAction, name: &str) {
    launcher.remove(fleet, name).await;
    fleet.ui.detail(&format!("removed the Job `{name}`, which no launcher looks after"));
    let OrphanAction::Bury(end) = care else { return };
    // How often it was tried is in the row, which the end is written to.
    let job = Job {
        id: lease.job,
        kind: JobKind::Target,
        campaign: None,
        subject: String::new(),
        attempt: 1,
        max_attempts: 1,
    };
    if let Err(err) = launcher.bury(fleet, &job, lease, &end).await {
        tracing::warn!(%err, name, "the end of a pod could not be written down");
    }
}
