//! What gives sandboxes gives none: Docker or the API server is away, a quota of the cluster is used up, no node has
//! room, a pod was taken away. That is no repository's failure: the job goes back without an attempt counted, and this
//! process begins no run, or one at a time, until there are sandboxes again.
//!
//! Which engine or cluster works is this process's business and not the store's: another worker may have another one.
//! How often a job lost its sandbox is the store's, because each attempt may be another process's: a pod of its own,
//! where jobs are carried out in pods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{AGAIN, Outages};
use crate::batch::lease::HeldJob;
use crate::store::{StoreError, StoreResult};
use patchwright_sandbox::image::NamedBy;
use patchwright_sandbox::services::ServiceState;
use patchwright_sandbox::{
    EngineTrouble, ImageSpec, PreparedImage, Running, Sandbox, SandboxError, SandboxSpec, Stop,
};
use patchwright_task::world::World;
use patchwright_types::campaign::Millis;

/// How often one job may lose its sandbox, or the pod that it is carried out in, without an attempt counted while the
/// cluster works: what it does may be what empties nodes.
const TAKEN: u32 = 5;
/// Between two tries to write on a disk that is full.
const ROOM: Duration = Duration::from_secs(1);
/// Before the id of a job, the name of the value that says how it failed for want of a sandbox; `prune` removes it with
/// the job's end.
const FAILED: &str = "lost-sandbox:";

/// What is known of the place of sandboxes.
#[derive(Default)]
pub(super) struct SandboxBreaker {
    /// It gives none.
    closed: Option<Closed>,
    /// One was lost since leftovers were last looked for.
    has_lost_one: bool,
}

struct Closed {
    /// When it is tried again.
    due: Instant,
    /// It answers: only a run can find out whether it gives sandboxes again.
    refuses: bool,
}

/// How one job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobFailures {
    /// The first time, in milliseconds of the store's clock.
    since: Millis,
    taken: u32,
}

impl JobFailures {
    fn parse(text: &str) -> Option<JobFailures> {
        let (since, taken) = text.split_once(' ')?;
        Some(JobFailures { since: since.parse().ok()?, taken: taken.parse().ok()? })
    }

    /// What was so long ago is over one way or another, and what is still to come was written by a clock that jumped.
    fn is_recent(self, now: Millis, patience: Millis) -> bool {
        (0..=patience.saturating_mul(2)).contains(&now.saturating_sub(self.since))
    }
}

impl Outages {
    /// No other run can begin here, because of what failed one.
    fn close(&self, why: &str, trouble: EngineTrouble) {
        let refuses = trouble == EngineTrouble::Refuses;
        let due = Instant::now() + AGAIN.mul_f64(self.scale);
        if self.known.lock().place.closed.replace(Closed { due, refuses }).is_some() {
            return;
        }
        let why = self.redactor.redact(why);
        let until = if refuses {
            "runs are begun here one at a time until there are sandboxes again"
        } else {
            "no run is begun here until it does"
        };
        self.ui.failure(&format!("{why}; {until}"));
    }

    /// Whether runs can begin on this machine, as far as `who` is concerned, Docker or the API server. Asks once in a
    /// while when it did not answer before; what is wrong then comes of `asking`. Where it answers and gave no
    /// sandboxes, one run is let through at a time.
    pub async fn has_sandbox(
        &self,
        who: &str,
        asking: impl Future<Output = Option<String>>,
    ) -> bool {
        let Some(due) = self.known.lock().place.closed.as_ref().map(|closed| closed.due) else {
            return true;
        };
        if Instant::now() < due {
            return false;
        }
        let answers = asking.await.is_none();
        let mut known = self.known.lock();
        let Some(closed) = &mut known.place.closed else { return true };
        closed.due = Instant::now() + AGAIN.mul_f64(self.scale);
        if answers && !closed.refuses {
            known.place.closed = None;
            self.ui.say(&format!("{who} answers again"));
        }
        answers
    }

    /// Whether a sandbox was lost since this was asked last: its engine may not have removed it when it was told to.
    pub(in crate::batch) fn has_lost_a_sandbox(&self) -> bool {
        std::mem::take(&mut self.known.lock().place.has_lost_one)
    }

    /// A sandbox was made.
    fn has_made_one(&self) {
        let place = &mut self.known.lock().place;
        if place.closed.take_if(|closed| closed.refuses).is_some() {
            self.ui.say("there are sandboxes again");
        }
    }

    /// For how many milliseconds a job is put back whose sandbox failed, without an attempt counted; `None` when the
    /// attempt counts like any other. `asking` says why the engine is away at this moment, when it is.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn sandbox_failed(
        &self,
        held: &HeldJob,
        asking: impl Future<Output = Option<String>>,
    ) -> StoreResult<Option<Millis>> {
        let noticed = held.sandbox.take();
        self.known.lock().place.has_lost_one = true;
        let trouble = match noticed {
            Some((EngineTrouble::Refuses, why)) => {
                self.close(&why, EngineTrouble::Refuses);
                EngineTrouble::Refuses
            }
            noticed => match (asking.await, noticed) {
                (Some(why), _) => {
                    self.close(&why, EngineTrouble::Away);
                    EngineTrouble::Away
                }
                // It was over faster than anybody could ask.
                (None, Some((trouble, _))) => trouble,
                (None, None) => return Ok(None),
            },
        };
        let is_patient = self.is_patient_with(held.job.id, trouble).await?;
        Ok(is_patient.then(|| self.again()))
    }

    /// Whether a job may lose a pod once more without an attempt counted: the cluster took it away.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn may_lose_pod(&self, job: i64) -> StoreResult<bool> {
        self.is_patient_with(job, EngineTrouble::TookAway).await
    }

    pub(super) async fn is_patient_with(
        &self,
        job: i64,
        trouble: EngineTrouble,
    ) -> StoreResult<bool> {
        let name = format!("{FAILED}{job}");
        let (now, patience) = (self.store.now().await?, self.times().patience);
        let known = self.store.value(&name).await?;
        let known = known.and_then(|text| JobFailures::parse(&text));
        let known = known.filter(|failed| failed.is_recent(now, patience));
        let JobFailures { since, taken } = known.unwrap_or(JobFailures { since: now, taken: 0 });
        let taken = taken.saturating_add(u32::from(trouble == EngineTrouble::TookAway));
        self.remember(&name, &format!("{since} {taken}")).await?;
        Ok(now.saturating_sub(since) <= patience && taken <= TAKEN)
    }

    /// What was counted decides whether the attempt counts, so room for it is waited for, as for the end of the job.
    async fn remember(&self, name: &str, value: &str) -> StoreResult<()> {
        loop {
            let set = self.store.set_value(name, value).await;
            self.store.note_room(&set);
            match set {
                Err(StoreError::Full(_)) => tokio::time::sleep(ROOM).await,
                set => return set,
            }
        }
    }
}

/// What failed the sandbox of a job last, and why, when it was nothing of its own.
#[derive(Clone, Default)]
pub struct LastSandbox(Arc<Mutex<Option<(EngineTrouble, String)>>>);

impl LastSandbox {
    fn take(&self) -> Option<(EngineTrouble, String)> {
        self.0.lock().take()
    }

    fn is(&self, trouble: Option<EngineTrouble>, why: &str) {
        *self.0.lock() = trouble.map(|trouble| (trouble, why.to_owned()));
    }
}

/// Has it noticed what fails the sandboxes of a run.
pub fn observe_sandboxes(world: &mut World, outages: &Arc<Outages>, last: &LastSandbox) {
    world.sandbox = Arc::new(ObservedSandbox {
        inner: Arc::clone(&world.sandbox),
        outages: Arc::clone(outages),
        last: last.clone(),
    });
}

struct ObservedSandbox {
    inner: Arc<dyn Sandbox>,
    outages: Arc<Outages>,
    last: LastSandbox,
}

impl ObservedSandbox {
    fn notice(&self, err: &SandboxError) {
        self.last.is(err.trouble(), &err.to_string());
    }
}

#[async_trait]
impl Sandbox for ObservedSandbox {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn prepare(&self, spec: &ImageSpec<'_>) -> Result<PreparedImage, SandboxError> {
        let prepared = self.inner.prepare(spec).await;
        prepared.inspect_err(|err| match spec.named_by {
            // Every run needs it, and whoever looks after this machine can do something about it.
            NamedBy::Operator if err.is_of_registry() => {
                self.last.is(Some(EngineTrouble::Refuses), &err.to_string());
            }
            _ => self.notice(err),
        })
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Running, SandboxError> {
        let running = self.inner.start(spec).await.inspect_err(|err| self.notice(err))?;
        self.last.is(None, "");
        self.outages.has_made_one();
        let stopper = Box::new(ObservedStop { inner: running.stopper, last: self.last.clone() });
        Ok(Running { stopper, ..running })
    }

    async fn sweep(&self, run: Option<&str>) -> Result<Vec<String>, SandboxError> {
        self.inner.sweep(run).await
    }

    async fn drop_warm(&self) {
        self.inner.drop_warm().await;
    }

    async fn settled(&self) {
        self.inner.settled().await;
    }
}

struct ObservedStop {
    inner: Box<dyn Stop>,
    last: LastSandbox,
}

#[async_trait]
impl Stop for ObservedStop {
    async fn stop(self: Box<Self>) -> Result<(), SandboxError> {
        self.inner.stop().await
    }

    async fn ended_services(&self) -> Vec<ServiceState> {
        self.inner.ended_services().await
    }

    fn by_hand(&self) -> Option<String> {
        self.inner.by_hand()
    }

    async fn exit_reason(&self) -> Option<String> {
        let reason = self.inner.exit_reason().await;
        if let (Some(reason), Some(trouble)) = (&reason, self.inner.trouble()) {
            self.last.is(Some(trouble), reason);
        }
        reason
    }

    fn trouble(&self) -> Option<EngineTrouble> {
        self.inner.trouble()
    }
}
