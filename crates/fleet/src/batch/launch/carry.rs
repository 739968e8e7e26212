//! One job from its claim to its end: launched, followed until the pod has taken it over and beyond, and
//! removed.
//!
//! What counts is the job's row. Whatever the API server says about the pod, it is believed for words and for
//! when to look; who has the job, and whether it has ended, the database says.

use std::time::{Duration, Instant};

use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_sandbox::kubernetes::pod::{PodEnd, PodState, PodTrouble, TroubleKind};
use patchwright_types::campaign::{Job, JobEnd, Lease, millis_of};

use super::observe::{LaunchedPod, pod_now};
use super::{Launcher, handed_over, job_name, patience, scaled};
use crate::batch::fleet::Fleet;
use crate::batch::lease::HeldJob;
use crate::batch::worker::backoff;
use crate::store::{JobHolder, StoreError, StoreResult};

/// Between two looks at the job's row.
const LOOK: Duration = Duration::from_secs(5);
/// What keeps a pod from running is said after this; it often passes by itself.
const EARLY: Duration = Duration::from_secs(20);
/// How long a pod may take to begin, by what keeps it from it.
const UNSCHEDULABLE: Duration = Duration::from_mins(10);
const IMAGE: Duration = Duration::from_mins(3);
const CONFIGURATION: Duration = Duration::from_mins(1);
/// Nothing keeps it from running, as far as is known.
const SILENT: Duration = Duration::from_mins(10);
/// There is no pod: the cluster does not make one.
const NO_POD: Duration = Duration::from_mins(2);
/// A pod whose job has ended ends within this, or is removed; one that has not renewed its lease does so within this, or
/// loses its job.
const ENDING: Duration = Duration::from_mins(1);
/// Before a job that could not be launched is claimed again.
const AGAIN: Duration = Duration::from_mins(1);

/// Who has a job that was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchedJobHolder {
    /// The launcher that claimed it.
    Launcher,
    Pod,
    /// The pod, which has not renewed its lease in time.
    SilentPod,
    /// Nobody: it has ended, and the pod was the last who had it.
    EndedInPod,
    /// It has ended otherwise, or others have it.
    Over,
}

/// By the job's row, seen from the lease that it was launched with.
pub(super) fn launched_job_holder(holder: Option<&JobHolder>, lease: &Lease) -> LaunchedJobHolder {
    let Some(holder) = holder else { return LaunchedJobHolder::Over };
    let of = |lease: &Lease| holder.epoch == lease.epoch && holder.owner == lease.owner;
    match (of(lease), of(&handed_over(lease)), holder.runs) {
        (true, _, true) => LaunchedJobHolder::Launcher,
        (_, true, true) if holder.expired => LaunchedJobHolder::SilentPod,
        (_, true, true) => LaunchedJobHolder::Pod,
        (_, true, false) => LaunchedJobHolder::EndedInPod,
        _ => LaunchedJobHolder::Over,
    }
}

/// How following a pod came to its end.
enum FollowOutcome {
    /// Its job is over.
    Done,
    /// The pod ended without a word about its job, which is still its.
    Died(PodEnd),
    /// It has not begun, and is given up.
    NotBegun(Failure),
    /// The cluster has made another pod than was asked for. Whatever it has begun is not to go on.
    Weaker(Failure),
    /// This launcher ends; whoever comes next looks after the pod.
    Left,
    /// This launcher ends, and the pod has not begun.
    Recalled,
}

impl Launcher {
    /// Carries the job out in a pod.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(in crate::batch) async fn carry_out(&self, fleet: &Fleet, held: &HeldJob) -> Result<()> {
        let name = job_name(&held.lease);
        self.inner.state.lock().followed.insert(name.clone());
        let ended = self.launch_and_follow(fleet, held, &name).await;
        self.inner.state.lock().followed.remove(&name);
        ended.map_err(Into::into)
    }

    async fn launch_and_follow(
        &self,
        fleet: &Fleet,
        held: &HeldJob,
        name: &str,
    ) -> StoreResult<()> {
        let mut follow = PodFollower::new(self, fleet, held, name);
        let mut ended = match self.create(&held.lease).await {
            Ok(None) => {
                fleet.ui.detail(&format!("job {}: launched as `{name}`", held.job.id));
                follow.follow().await
            }
            Ok(Some(why)) => FollowOutcome::Weaker(Failure::machine(why)),
            // Perhaps it is there all the same, and only the answer was lost.
            Err(err) => FollowOutcome::NotBegun(super::refusal(&err)),
        };
        loop {
            // What a pod has taken over in this moment stays its.
            match ended {
                FollowOutcome::Left => return Ok(()),
                FollowOutcome::Done => break,
                FollowOutcome::Recalled => {
                    if give_back(fleet, &held.lease, &JobEnd::Released).await? {
                        break;
                    }
                    return Ok(());
                }
                FollowOutcome::Died(end) => {
                    self.remove(fleet, name).await;
                    return self.bury(fleet, &held.job, &held.lease, &end).await;
                }
                FollowOutcome::NotBegun(why) => {
                    if give_back(fleet, &held.lease, &self.later(fleet, &why)).await? {
                        break;
                    }
                }
                FollowOutcome::Weaker(why) => {
                    let later = self.later(fleet, &why);
                    let given = match give_back(fleet, &held.lease, &later).await {
                        Ok(false) => give_back(fleet, &handed_over(&held.lease), &later).await,
                        given => given,
                    };
                    self.remove(fleet, name).await;
                    return given.map(drop);
                }
            }
            ended = follow.follow().await;
        }
        self.remove(fleet, name).await;
        Ok(())
    }

    /// Nothing is launched for a while, and the job is for later.
    fn later(&self, fleet: &Fleet, why: &Failure) -> JobEnd {
        self.pause(fleet, &why.to_string());
        let after = millis_of(scaled(fleet, AGAIN));
        JobEnd::Later { after, why: fleet.redactor.redact(&why.message) }
    }

    /// A pod died with its job: others need not wait until its lease has run out. An attempt counts unless the
    /// cluster took the pod away, which it may do a few times.
    pub(super) async fn bury(
        &self,
        fleet: &Fleet,
        job: &Job,
        lease: &Lease,
        end: &PodEnd,
    ) -> StoreResult<()> {
        fleet.ui.failure(&format!("job {} ({}): {}", job.id, job_name(lease), end.why));
        let why = fleet.redactor.redact(&end.why);
        let ended = if end.disrupted && fleet.outages.may_lose_pod(lease.job).await? {
            JobEnd::Later { after: 0, why }
        } else {
            JobEnd::Retry { after: backoff(job.attempt, fleet.env.time_scale()), why }
        };
        give_back(fleet, &handed_over(lease), &ended).await.map(drop)
    }

    /// Removes the Job with its pod. What cannot be removed now is an orphan, which is looked after later.
    pub(super) async fn remove(&self, fleet: &Fleet, name: &str) {
        if let Err(err) = self.inner.cluster.delete_job(name).await {
            fleet.ui.detail(&format!("the Job `{name}` could not be removed: {err}"));
        }
    }

    /// What was told last of a Job and its pod, as far as it is trouble.
    async fn last_words(&self, name: &str, pod: Option<&str>) -> Option<String> {
        let objects: Vec<&str> = [name].into_iter().chain(pod).collect();
        self.inner.cluster.last_warning(&objects).await.ok()?
    }
}

struct PodFollower<'a> {
    launcher: &'a Launcher,
    fleet: &'a Fleet,
    held: &'a HeldJob,
    name: &'a str,
    /// Trouble that was said already.
    said: Option<String>,
    /// The name of its pod, once there is one.
    pod: Option<String>,
    /// When its events were looked at, and what keeps it from beginning by them.
    looked: Option<Instant>,
    told: Option<PodTrouble>,
    /// The pod was there, and was as it was asked for.
    seen: bool,
    /// The pod has taken the job over.
    handed: bool,
    /// When the job was first seen to be over.
    over: Option<Instant>,
    /// When the pod was first seen not to have renewed its lease in time.
    silent: Option<Instant>,
}

/// What is known of a pod.
enum Known {
    Pod(PodState),
    /// The API server was asked: the pod existed before and is deleted now.
    Gone,
    /// The API server was asked: no pod exists, and none was seen before.
    Absent,
    /// The watch has reported no pod; it may lag, or have stalled.
    Unknown,
}

impl Known {
    /// How a pod ended that still has its job; `None` when it has not, as far as is known.
    fn ended(&self) -> Option<PodEnd> {
        match self {
            Known::Pod(state) => ended(state),
            Known::Gone => Some(removed()),
            Known::Absent | Known::Unknown => None,
        }
    }
}

impl<'a> PodFollower<'a> {
    fn new(
        launcher: &'a Launcher,
        fleet: &'a Fleet,
        held: &'a HeldJob,
        name: &'a str,
    ) -> PodFollower<'a> {
        PodFollower {
            launcher,
            fleet,
            held,
            name,
            said: None,
            pod: None,
            looked: None,
            told: None,
            seen: false,
            handed: false,
            over: None,
            silent: None,
        }
    }

    async fn follow(&mut self) -> FollowOutcome {
        let mut pods = self.launcher.inner.observer.pods();
        let began = Instant::now();
        loop {
            let told = pods.borrow_and_update().get(self.name).cloned();
            if let Some(outcome) = self.look(told, began.elapsed()).await {
                return outcome;
            }
            let longest = Duration::from_secs(if self.handed { 5 } else { 1 });
            let look = patience(self.fleet, LOOK).min(longest);
            tokio::select! {
                () = self.fleet.drain.cancelled() => {
                    return if self.handed { FollowOutcome::Left } else { FollowOutcome::Recalled };
                }
                changed = pods.changed() => {
                    if changed.is_err() {
                        return FollowOutcome::Left;
                    }
                }
                () = tokio::time::sleep(look) => {}
            }
        }
    }

    /// One look at the pod, of which the watch has told this, and at its job.
    async fn look(&mut self, told: Option<LaunchedPod>, waited: Duration) -> Option<FollowOutcome> {
        // A pod that was there, or should be there by now, is asked for.
        let was_there = self.seen || self.handed;
        let is_missed = was_there || waited > patience(self.fleet, NO_POD);
        let known = match told {
            None if is_missed => pod_now(&self.launcher.inner.cluster, self.name).await,
            None => Ok(None),
            told => Ok(told),
        };
        let mut lost = None;
        let pod = match known {
            Ok(Some(pod)) => {
                if let Some(why) = self.changes(&pod) {
                    return Some(FollowOutcome::Weaker(Failure::machine(why)));
                }
                lost = pod.lost(self.launcher.inner.cluster.now());
                self.pod = Some(pod.name);
                Known::Pod(pod.state)
            }
            Ok(None) if was_there => Known::Gone,
            Ok(None) if is_missed => Known::Absent,
            Ok(None) => Known::Unknown,
            Err(err) => {
                tracing::debug!(%err, name = self.name, "nobody knows how a pod stands");
                Known::Unknown
            }
        };
        // After the pod: what it wrote before it ended is seen.
        match self.launched_job_holder().await? {
            standing @ (LaunchedJobHolder::EndedInPod | LaunchedJobHolder::Over) => {
                // All of it may happen between two looks.
                if standing == LaunchedJobHolder::EndedInPod {
                    self.hand_over();
                }
                let since = *self.over.get_or_insert_with(Instant::now);
                let runs = matches!(pod, Known::Pod(PodState::Running | PodState::Waiting(_)));
                (!runs || since.elapsed() > patience(self.fleet, ENDING))
                    .then_some(FollowOutcome::Done)
            }
            LaunchedJobHolder::Pod => {
                self.hand_over();
                self.silent = None;
                pod.ended().map(FollowOutcome::Died)
            }
            LaunchedJobHolder::SilentPod => {
                self.hand_over();
                let since = *self.silent.get_or_insert_with(Instant::now);
                let late = since.elapsed() > patience(self.fleet, ENDING);
                pod.ended().or(late.then(|| lost.unwrap_or_else(silent))).map(FollowOutcome::Died)
            }
            LaunchedJobHolder::Launcher => {
                if let Some(end) = pod.ended().or(lost) {
                    return Some(FollowOutcome::NotBegun(not_begun(&end)));
                }
                let pod = self.with_events(pod, waited).await;
                let why = self.too_long(&pod, waited).await?;
                Some(FollowOutcome::NotBegun(Failure::machine(why)))
            }
        }
    }

    /// Why the pod may not be used; looked at once, when it is first seen.
    fn changes(&mut self, pod: &LaunchedPod) -> Option<String> {
        if std::mem::replace(&mut self.seen, true) {
            return None;
        }
        self.launcher.changes(&self.held.lease, &pod.made)
    }

    fn hand_over(&mut self) {
        if !std::mem::replace(&mut self.handed, true) {
            self.held.end();
            self.launcher.resume(self.fleet);
        }
    }

    /// `None` when the database does not answer just now.
    async fn launched_job_holder(&self) -> Option<LaunchedJobHolder> {
        match self.fleet.store.holder(self.held.job.id).await {
            Ok(holder) => Some(launched_job_holder(holder.as_ref(), &self.held.lease)),
            Err(err) => {
                tracing::debug!(job = self.held.job.id, %err, "who has a job cannot be found out");
                None
            }
        }
    }

    /// What keeps a pod from beginning is told in events alone when its node lacks a volume or a network.
    async fn with_events(&mut self, known: Known, waited: Duration) -> Known {
        let early = patience(self.fleet, EARLY);
        let (Known::Pod(PodState::Waiting(None)), Some(pod)) = (&known, &self.pod) else {
            return known;
        };
        if waited > early && self.looked.is_none_or(|last| last.elapsed() > early) {
            self.looked = Some(Instant::now());
            match self.launcher.inner.cluster.trouble_of(pod).await {
                Ok(told) => self.told = told,
                Err(err) => tracing::debug!(pod, %err, "nobody knows what is told of a pod"),
            }
        }
        Known::Pod(PodState::Waiting(self.told.clone()))
    }

    /// Why the pod is not waited for any longer. Says early what keeps it.
    async fn too_long(&mut self, pod: &Known, waited: Duration) -> Option<String> {
        let (trouble, longest) = match pod {
            Known::Gone | Known::Absent => (None, NO_POD),
            Known::Pod(PodState::Waiting(Some(trouble))) => (Some(trouble), longest_of(trouble)),
            Known::Pod(_) | Known::Unknown => (None, SILENT),
        };
        if let Some(PodTrouble { why, .. }) = trouble
            && waited > patience(self.fleet, EARLY)
            && self.said.as_ref() != Some(why)
        {
            self.said = Some(why.clone());
            self.fleet.ui.failure(&format!("job {} ({}): {why}", self.held.job.id, self.name));
        }
        if waited < patience(self.fleet, longest) {
            return None;
        }
        if let Some(trouble) = trouble {
            return Some(trouble.why.clone());
        }
        // Quotas, volumes and webhooks that say no are told in events only.
        let words = self.launcher.last_words(self.name, self.pod.as_deref()).await;
        let words = words.map(|words| format!(" ({words})")).unwrap_or_default();
        Some(match pod {
            Known::Gone | Known::Absent => format!("the cluster makes no pod{words}"),
            Known::Unknown => "the Kubernetes API does not say whether there is a pod".to_owned(),
            Known::Pod(PodState::Waiting(_)) => format!("the pod does not start{words}"),
            Known::Pod(_) => format!(
                "the pod runs and does not take its job: does it reach the database that `DATABASE_URL` of its \
                 Secret names, and is it the launcher's?{words}"
            ),
        })
    }
}

fn longest_of(trouble: &PodTrouble) -> Duration {
    match trouble.kind {
        TroubleKind::Unschedulable => UNSCHEDULABLE,
        TroubleKind::Image => IMAGE,
        TroubleKind::Configuration => CONFIGURATION,
        TroubleKind::Node | TroubleKind::Silent => SILENT,
    }
}

/// How a pod ended that still has its job; `None` when it has not ended.
pub(super) fn ended(pod: &PodState) -> Option<PodEnd> {
    match pod {
        PodState::Failed(end) => Some(end.clone()),
        PodState::Succeeded => {
            let why = "the pod ended and left its job as it was".to_owned();
            Some(PodEnd { why, disrupted: false, not_started: false })
        }
        PodState::Waiting(_) | PodState::Running => None,
    }
}

/// The end of a pod that is not there any more.
pub(super) fn removed() -> PodEnd {
    PodEnd { why: "somebody removed the pod".to_owned(), disrupted: true, not_started: false }
}

/// The end of a pod that runs, as far as anybody knows, and no longer works.
pub(super) fn silent() -> PodEnd {
    let why = "the pod does not renew its lease any more".to_owned();
    PodEnd { why, disrupted: false, not_started: false }
}

fn not_begun(end: &PodEnd) -> Failure {
    Failure::machine(text::cut(&format!("{}, before it took its job", end.why), 400))
}

/// Ends the holder's part in a job; false when others have it, who say themselves what becomes of it.
async fn give_back(fleet: &Fleet, lease: &Lease, end: &JobEnd) -> StoreResult<bool> {
    match fleet.store.end_job(lease, end).await {
        Ok(()) => Ok(true),
        Err(StoreError::LeaseLost { .. }) => Ok(false),
        Err(err) => Err(err),
    }
}
