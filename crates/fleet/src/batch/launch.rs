//! Jobs that are carried out elsewhere: `worker --launch kubernetes` claims them as ever, and each runs in a
//! pod of its own, as one Kubernetes Job.
//!
//! This process decides only where a job runs. It holds the lease until the pod has taken it over
//! ([`crate::store::Store::hand_over`]), watches the pod, says in words what keeps it from running, and
//! removes it. From then on the pod renews the lease and writes what came of the work, so a launcher that
//! dies, loses the API server or is replaced by a newer one ends no run. All decisions are read from the
//! database and the API server: another launcher tidies up after a dead one ([`orphans`]).
//!
//! It knows no client library but [`api`], and nothing of what a job means.

mod api;
mod carry;
mod changes;
mod manifest;
mod observe;
mod orphans;
pub mod rights;
mod template;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use self::api::{ApiError, Cluster};
use self::observe::Observer;
use self::template::PodTemplate;
use crate::batch::fleet::Fleet;
use patchwright_base::error::{Failure, Result};
use patchwright_types::campaign::Lease;

/// The manifest that gives the rights.
const MANIFEST: &str = "docs/kubernetes/launcher.yaml";
/// After a trouble that every pod would have, nothing is launched for so long.
const PAUSE: Duration = Duration::from_mins(1);

/// Where jobs are launched. Cheap to clone.
#[derive(Clone)]
pub struct Launcher {
    inner: Arc<Inner>,
}

struct Inner {
    cluster: Cluster,
    template: PodTemplate,
    observer: Observer,
    /// The database's own name, in a label of each Job.
    fleet: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Jobs that a task of this process follows, by name.
    followed: BTreeSet<String>,
    /// Nothing is launched before this.
    paused: Option<Instant>,
    /// What was said last about launching.
    said: Option<String>,
}

impl std::fmt::Debug for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Launcher({})", self.inner.cluster)
    }
}

impl Launcher {
    /// Reads the template of pods, finds the cluster (`KUBECONFIG`, `~/.kube/config`, or the one that this
    /// process runs in), and looks at the pods that are there.
    ///
    /// # Errors
    /// When the template cannot be used, there is no cluster, the API server refuses us, or the database is
    /// one that pods cannot share.
    pub async fn open(fleet: &Fleet, template: &Path) -> Result<Launcher> {
        if fleet.store.is_file() {
            return Err(Failure::usage(
                "pods cannot share a database that is a file of this machine",
            )
            .hint("set `DATABASE_URL` to a PostgreSQL, here and in the Secret of the pods"));
        }
        let template = PodTemplate::read(template)?;
        let cluster = Cluster::find(template.namespace.as_deref()).await?;
        rights::check(&cluster, fleet.ui).await?;
        let identity = fleet.store.identity().await?;
        let observer = Observer::start(&cluster, fleet, &identity).await?;
        for warning in &template.warnings {
            fleet.ui.failure(warning);
        }
        let state = Mutex::default();
        let inner = Inner { cluster, template, observer, fleet: identity, state };
        let launcher = Launcher { inner: Arc::new(inner) };
        orphans::watch_over(&launcher, fleet);
        Ok(launcher)
    }

    /// Where pods run, for people.
    pub fn place(&self) -> String {
        self.inner.cluster.to_string()
    }

    /// How many pods of this fleet run or wait in the namespace, whoever launched them.
    pub(super) fn pods(&self) -> usize {
        self.inner.observer.unfinished(self.inner.cluster.now())
    }

    /// Nothing that every pod would meet was met just now.
    pub(super) fn works(&self) -> bool {
        self.inner.state.lock().paused.is_none_or(|until| Instant::now() >= until)
    }

    /// A trouble that every pod would have: no other one is launched for a while.
    fn pause(&self, fleet: &Fleet, why: &str) {
        let mut state = self.inner.state.lock();
        state.paused = Some(Instant::now() + scaled(fleet, PAUSE));
        if state.said.as_deref() != Some(why) {
            state.said = Some(why.to_owned());
            let wait = PAUSE.as_secs();
            fleet.ui.failure(&format!("{why}; no pod is launched for {wait} seconds"));
        }
    }

    /// A pod has begun to work.
    fn resume(&self, fleet: &Fleet) {
        let mut state = self.inner.state.lock();
        if state.paused.take().is_some() | state.said.take().is_some() {
            fleet.ui.say("pods run again");
        }
    }
}

/// The name of the Kubernetes Job for a lease, and of its holder once the pod has taken it over. The same
/// lease always has the same name, so that a request whose answer was lost makes no second one.
pub fn job_name(lease: &Lease) -> String {
    let hash = Sha256::digest(format!("{}\0{}", lease.owner, lease.length));
    format!("patchwright-{}-{}-{}", lease.job, lease.epoch, hex::encode(&hash[..4]))
}

/// The lease as it is after the pod has taken the job over.
fn handed_over(lease: &Lease) -> Lease {
    Lease { epoch: lease.epoch + 1, owner: job_name(lease), ..lease.clone() }
}

/// A wait as long as it is in tests, which have no minutes to lose; never less than what a process needs to
/// start.
fn patience(fleet: &Fleet, time: Duration) -> Duration {
    scaled(fleet, time).max(Duration::from_secs(3)).min(time)
}

fn scaled(fleet: &Fleet, time: Duration) -> Duration {
    time.mul_f64(fleet.env.time_scale())
}

/// What the API server's no means to people who run this.
fn refusal(err: &ApiError) -> Failure {
    let hint = match err {
        ApiError::Answer { status: 401, .. } => {
            Some("the token of the service account, or of the kubeconfig, is not accepted any more")
        }
        ApiError::Answer { status: 403, .. } => Some(
            "give the launcher the rights of `docs/kubernetes/launcher.yaml`: create, get, list and delete \
             Jobs, list and watch pods, list events",
        ),
        ApiError::Answer { status: 404, .. } => {
            Some("does the namespace of the pod template exist?")
        }
        ApiError::Unidentified(_) => Some("sign in anew, as for `kubectl`; nobody is asked here"),
        ApiError::Answer { .. } | ApiError::Unreachable(_) | ApiError::Unreadable(_) => None,
    };
    let failure = Failure::machine(err.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::launch::{handed_over, job_name};
    use patchwright_types::campaign::Lease;

    #[test]
    fn a_name_is_of_one_lease_and_fits_into_a_label() {
        let owner = "host-1:7:0badcafe@boot/1/2/3/host".to_owned();
        let lease = Lease { job: i64::MAX, epoch: i64::MAX - 1, owner, length: 120_000 };
        let name = job_name(&lease);
        assert_eq!(name, job_name(&lease));
        assert!(name.len() <= 63, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        let other = Lease { owner: "host-2:7:0badcafe".to_owned(), ..lease.clone() };
        assert_ne!(name, job_name(&other));
        let after = handed_over(&lease);
        assert_eq!((after.epoch, after.owner), (i64::MAX, name));
    }
}
