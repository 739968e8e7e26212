//! One job from its claim to its end: launched, followed until the pod has taken it over and beyond, and
//! removed.
//!
//! What counts is the job's row. Whatever the API server says about the pod, it is believed for words and for
//! when to look; who has the job, and whether it has ended, the database says.

use std::time::{Duration, Instant};

use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_sandbox::kubernetes::pod::{PodEnd, PodState, PodTrouble, TroubleKind, said};
use patchwright_types::campaign::{Job, JobEnd, Lease, millis_of};

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
/// A pod whose job has ended ends within this, or is removed.
const ENDING: Duration = Duration::from_mins(1);
/// Before a job that could not be launched is claimed again.
const AGAIN: Duration = Duration::from_mins(1);

/// Who has a job that was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchedJobHolder {
    /// The launcher that claimed it.
    Launcher,
    Pod,
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
        let mut follow = PodFollower { launcher: self, fleet, held, name, said: None };
        let mut ended = match self.create(&held.lease).await {
            Ok(()) => {
                fleet.ui.detail(&format!("job {}: launched as `{name}`", held.job.id));
                follow.follow().await
            }
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
                    self.pause(fleet, &why.to_string());
                    let after = millis_of(scaled(fleet, AGAIN));
                    let why = fleet.redactor.redact(&why.message);
                    if give_back(fleet, &held.lease, &JobEnd::Later { after, why }).await? {
                        break;
                    }
                }
            }
            ended = follow.follow().await;
        }
        self.remove(fleet, name).await;
        Ok(())
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

    /// What was said about a Job and its pod, as far as it is trouble: the last of it.
    async fn last_words(&self, name: &str) -> Option<String> {
        let events = self.inner.cluster.events_about(name).await.ok()?;
        let last = events.iter().rfind(|event| event["type"] == "Warning")?;
        let word = |field: &str| last[field].as_str().unwrap_or_default();
        Some(said(word("reason"), word("message")))
    }
}

struct PodFollower<'a> {
    launcher: &'a Launcher,
    fleet: &'a Fleet,
    held: &'a HeldJob,
    name: &'a str,
    /// Trouble that was said already.
    said: Option<String>,
}

impl PodFollower<'_> {
    async fn follow(&mut self) -> FollowOutcome {
        let mut pods = self.launcher.inner.observer.pods();
        let began = Instant::now();
        let (mut seen, mut over, mut handed) = (false, None, false);
        loop {
            let pod = pods.borrow_and_update().get(self.name).cloned();
            seen |= pod.is_some();
            // After the pod: what it wrote before it ended is seen.
            match self.launched_job_holder().await {
                None => {}
                Some(standing @ (LaunchedJobHolder::EndedInPod | LaunchedJobHolder::Over)) => {
                    // All of it may happen between two looks.
                    if standing == LaunchedJobHolder::EndedInPod && !handed {
                        handed = true;
                        self.held.end();
                        self.launcher.resume(self.fleet);
                    }
                    let since = *over.get_or_insert_with(Instant::now);
                    let runs = matches!(pod, Some(PodState::Running | PodState::Waiting(_)));
                    if !runs || since.elapsed() > patience(self.fleet, ENDING) {
                        return FollowOutcome::Done;
                    }
                }
                Some(LaunchedJobHolder::Pod) => {
                    if !handed {
                        handed = true;
                        self.held.end();
                        self.launcher.resume(self.fleet);
                    }
                    if let Some(end) = ended(pod.as_ref(), seen) {
                        return FollowOutcome::Died(end);
                    }
                }
                Some(LaunchedJobHolder::Launcher) => {
                    if let Some(end) = ended(pod.as_ref(), seen) {
                        return FollowOutcome::NotBegun(not_begun(&end));
                    }
                    if let Some(why) = self.too_long(pod.as_ref(), began.elapsed()).await {
                        return FollowOutcome::NotBegun(Failure::machine(why));
                    }
                }
            }
            let look =
                patience(self.fleet, LOOK).min(Duration::from_secs(if handed { 5 } else { 1 }));
            tokio::select! {
                () = self.fleet.drain.cancelled() => {
                    return if handed { FollowOutcome::Left } else { FollowOutcome::Recalled };
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

    /// Why the pod is not waited for any longer. Says early what keeps it.
    async fn too_long(&mut self, pod: Option<&PodState>, waited: Duration) -> Option<String> {
        let (trouble, longest) = match pod {
            None => (None, NO_POD),
            Some(PodState::Waiting(Some(trouble))) => (Some(trouble), longest_of(trouble)),
            Some(_) => (None, SILENT),
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
        let words = self.launcher.last_words(self.name).await;
        let words = words.map(|words| format!(" ({words})")).unwrap_or_default();
        Some(match pod {
            None => format!("the cluster makes no pod{words}"),
            Some(PodState::Waiting(_)) => format!("the pod does not start{words}"),
            Some(_) => format!(
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
    }
}

/// How a pod ended that still has its job; `None` when it has not ended.
pub(super) fn ended(pod: Option<&PodState>, seen: bool) -> Option<PodEnd> {
    match pod {
        Some(PodState::Failed(end)) => Some(end.clone()),
        Some(PodState::Succeeded) => {
            let why = "the pod ended and left its job as it was".to_owned();
            Some(PodEnd { why, disrupted: false })
        }
        None if seen => {
            Some(PodEnd { why: "somebody removed the pod".to_owned(), disrupted: true })
        }
        None | Some(PodState::Waiting(_) | PodState::Running) => None,
    }
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
