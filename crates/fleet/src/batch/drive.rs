//! `batch run`: from a plan to targets, waves, and an end.
//!
//! [`run`] can be interrupted at any point and run again: everything that it decides is read from the
//! store, and everything that it does is there once. [`advance`] is the step by which a campaign goes on.

mod advance;
mod away;
pub(super) mod begin;
mod elsewhere;
mod limits;
mod parts;
mod release;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::advance::{StepOutcome, advance};
use self::away::{DatabaseWait, Look};
pub use self::begin::{import, stored};
pub use self::parts::{KnownParts, LostParts};

use super::campaign::Campaign;
use super::fleet::Fleet;
use super::scope::{Scope, Shard};
use super::selection::Selection;
use super::worker::{self, WorkerOptions};
use super::{history, refresh, track, window};
use crate::store::{Store, StoreResult};
use patchwright_base::error::{Failure, Result};
use patchwright_report::campaign::{History, Waiting};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, CampaignView, Event, JobKind, Millis, Target, TargetState,
};

/// Default lease of the worker in this process, in milliseconds.
const LEASE: Millis = 120_000;
/// Between two looks at the store.
const LOOK: Duration = Duration::from_secs(1);
/// However much shorter time is: each look reads the whole campaign.
const SHORTEST_LOOK: Duration = Duration::from_millis(60);
/// A look at all targets takes at most so much less time than the pause after it.
const PAUSES: u32 = 20;
/// However long a look takes, people want to see something.
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// How long the worker gets to put its runs back when the command is interrupted.
const ENDING: Duration = Duration::from_secs(8);
/// How long what became of a run waits for room on the disk of the database, before a command ends that somebody waits for.
const ROOM_WAIT: Duration = Duration::from_mins(10);
/// Events that are read at a time.
const EVENTS: i64 = 1_000;

/// How a campaign is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Changes are stored and not published, here or by any worker.
    pub hold: bool,
    /// Targets are queued, and left to workers.
    pub detach: bool,
    /// Runs at once, in place of what the campaign says.
    pub concurrency: Option<NonZeroUsize>,
    /// Lease of the worker in this process, in milliseconds; the jobs of a killed one are
    /// free after that. 120 seconds by default.
    pub lease: Option<Millis>,
    /// Only these repositories.
    pub only: Vec<String>,
    pub shard: Option<Shard>,
    /// Nothing is run: what is stored is published.
    pub publish_only: bool,
    /// What the campaign selects, when that has been looked up already.
    pub selection: Option<Selection>,
    /// The parts of a matrix whose databases were taken over.
    pub parts: KnownParts,
}

impl Options {
    /// What of the campaign is worked on.
    pub(super) fn scope(&self) -> Scope {
        let Options { only, shard, publish_only, hold, .. } = self;
        Scope { only: only.clone(), shard: *shard, publish_only: *publish_only, hold: *hold }
    }
}

/// Receives everything that people may want to see.
pub trait CampaignObserver: Send {
    /// A remark about the campaign as a whole.
    fn say(&mut self, line: &str);
    /// What nothing can be done about but to wait for it; nothing when that has passed.
    fn wait(&mut self, waiting: Option<Waiting>);
    /// What happened since it was last called, and how things stand.
    fn look(&mut self, view: &CampaignView, events: &[Event]);
}

/// Why the command ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EndReason {
    /// Everything that was asked for is settled.
    Done,
    /// What is stored is published, and so many repositories have not been run.
    NotRun(usize),
    /// People have to look first.
    Paused(String),
    /// The budget is used up.
    Budget(String),
    /// Nothing goes on before somebody merges, or a gate opens.
    Waiting(String),
    /// Left to workers.
    Detached,
    /// A signal.
    Interrupted,
}

/// How a campaign stands when the command ends.
#[derive(Clone, Debug)]
pub struct CampaignEnd {
    pub why: EndReason,
    pub view: CampaignView,
    /// Failed ones of those that were asked for.
    pub failed: usize,
    pub history: History,
}

/// Plans, queues, works and publishes until there is nothing left to do here.
pub async fn run(
    fleet: &Fleet,
    campaign: Campaign,
    options: &Options,
    watch: &mut dyn CampaignObserver,
) -> Result<CampaignEnd> {
    let fleet = &Fleet { scope: Arc::new(options.scope()), ..fleet.clone() };
    let (campaign, row) = begin::begin(fleet, campaign, options, watch).await?;
    let is_track_told = Arc::default();
    let mut drive = Drive { fleet, campaign, id: row.id, seen: 0, tracker: None, is_track_told };
    // Skips events of earlier commands: only new ones are shown.
    while !drive.fresh_events().await?.is_empty() {}
    advance(fleet, &drive.id).await?;
    let why = if options.detach {
        EndReason::Detached
    } else {
        let worker = Worker::start(fleet, &drive.campaign, options);
        let why = drive.until_settled(&worker, watch).await;
        // Before the result is returned, so that no run is left without its worker.
        worker.end().await?;
        why?
    };
    if let Some(tracker) = drive.tracker.take() {
        tracker.abort();
    }
    if why != EndReason::Interrupted && drive.campaign.tracking_issue.is_some() {
        track(fleet, &drive.id, track::UpdateTiming::AtTheEnd, &drive.is_track_told).await;
    }
    let events = drive.fresh_events().await?;
    let view = fleet.store.view(&drive.id).await?;
    watch.look(&fleet.scope.view_of(view.clone()), &events);
    let history = history::history(&fleet.store, &view).await?;
    let is_ours = |target: &&Target| {
        target.state == TargetState::Failed && fleet.scope.has(&target.repository)
    };
    let failed = view.targets.iter().filter(is_ours).count();
    Ok(CampaignEnd { why, view, failed, history })
}

/// A campaign as it is stored.
pub fn campaign_of(row: &CampaignRow) -> Result<Campaign> {
    let read = serde_json::from_str(&row.spec).map_err(|err| {
        Failure::internal(format!("the stored campaign `{}` cannot be read", row.id)).caused_by(err)
    });
    read.map(|campaign| Campaign { stored_as: Some(row.id.clone()), ..campaign })
}

/// A campaign with the id under which this store has the same work, also where an earlier version, to which a changed
/// limit was another campaign, has stored it.
///
/// # Errors
/// When the store cannot be used.
pub async fn recognized(store: &Store, campaign: Campaign) -> StoreResult<Campaign> {
    let hash = campaign.spec_hash();
    for row in store.campaigns(Some(&campaign.name)).await? {
        // One that another version has written is another campaign.
        let Ok(known) = campaign_of(&row) else { continue };
        if known.spec_hash() == hash {
            return Ok(Campaign { stored_as: Some(row.id), ..campaign });
        }
    }
    Ok(Campaign { stored_as: None, ..campaign })
}

/// Pauses a campaign. The process that changes the state prints the reason, so it is printed once.
pub(super) async fn pause(fleet: &Fleet, id: &str, why: &str) -> StoreResult<()> {
    let why = fleet.redactor.redact(why);
    if fleet.store.set_campaign_state(id, CampaignState::Paused, Some(&why)).await? {
        fleet.ui.failure(&format!("the campaign is paused: {why}"));
    }
    Ok(())
}

pub(super) fn is_open(target: &Target) -> bool {
    matches!(target.state, TargetState::Open | TargetState::Draft)
}

/// The campaign's issue; trouble with it is no trouble of the campaign.
async fn track(fleet: &Fleet, id: &str, when: track::UpdateTiming, is_told: &AtomicBool) {
    if let Err(failure) = track::update(fleet, id, when).await {
        let said = failure.to_string();
        // Whoever asked for an issue looks for it there: it is said once what is wrong.
        if is_told.swap(true, Ordering::Relaxed) {
            fleet.ui.detail(&said);
        } else {
            fleet.ui.failure(&said);
        }
    }
}

pub(super) fn is_being_published(target: &Target) -> bool {
    matches!(target.state, TargetState::Ready | TargetState::Publishing)
}

/// Why no further run is begun, when the budget has no room for what one may cost.
fn short_of_money(fleet: &Fleet, campaign: &Campaign, view: &CampaignView) -> Option<String> {
    no_room(reserve(fleet, campaign), view)
}

/// Why no further run is begun that may cost `next` dollars, when the budget has no room for it.
pub(super) fn no_room(next: f64, view: &CampaignView) -> Option<String> {
    let budget = view.campaign.budget_usd?;
    let is = |state: TargetState| view.targets.iter().any(|target| target.state == state);
    if is(TargetState::Running) || !is(TargetState::Queued) && !is(TargetState::Waiting) {
        return None;
    }
    let spent = view.campaign.spent_usd;
    // The margin absorbs rounding of sums of many small costs.
    (spent >= budget || spent + next > budget + 1e-6).then(|| {
        format!(
            "the budget of ${budget:.2} has no room for another run: ${spent:.2} are spent, and a run \
             may cost ${next:.2}; raise `limits.budget-usd`, and run it again"
        )
    })
}

/// The most that one run may cost, in dollars.
pub(super) fn reserve(fleet: &Fleet, campaign: &Campaign) -> f64 {
    campaign.agent.max_cost_usd.unwrap_or(fleet.config.limits.max_cost_usd)
}

/// The worker of this process.
struct Worker {
    handle: JoinHandle<Result<()>>,
    drain: CancellationToken,
}

impl Worker {
    fn start(fleet: &Fleet, campaign: &Campaign, options: &Options) -> Worker {
        // Ends with the command, and with the first signal.
        let drain = fleet.drain.child_token();
        let fleet = Fleet { drain: drain.clone(), ..fleet.clone() };
        let kinds = match (options.publish_only, options.hold) {
            (true, _) => vec![JobKind::Publish],
            (false, true) => vec![JobKind::Target],
            (false, false) => vec![JobKind::Target, JobKind::Publish],
        };
        let wished = options.concurrency.map(NonZeroUsize::get);
        let wished = wished.or(campaign.limits.concurrency.map(|n| n as usize));
        let room = wished.and_then(NonZeroUsize::new).unwrap_or_else(worker::room);
        let lease = options.lease.unwrap_or(LEASE);
        // The database may hold other campaigns, with other configurations; their jobs are not this
        // command's.
        let campaign = Some(campaign.id());
        let options = WorkerOptions {
            kinds,
            campaign,
            room,
            lease,
            retention: None,
            until_idle: false,
            launcher: None,
        };
        let handle = tokio::spawn(async move { worker::run(&fleet, options).await });
        Worker { handle, drain }
    }

    /// Its runs are put back into the queue, and their sandboxes removed.
    async fn end(self) -> Result<()> {
        self.drain.cancel();
        match tokio::time::timeout(ENDING, self.handle).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(err)) => Err(Failure::internal("the worker broke off").caused_by(err)),
            // Its jobs are claimed again when their leases have run out.
            Err(_) => Ok(()),
        }
    }
}

struct Drive<'a> {
    fleet: &'a Fleet,
    campaign: Campaign,
    id: String,
    /// The last event that was shown.
    seen: i64,
    /// Brings the tracking issue up to date beside everything else: its writes wait for their turn.
    tracker: Option<JoinHandle<()>>,
    /// What is wrong with the tracking issue has been said.
    is_track_told: Arc<AtomicBool>,
}

impl Drive<'_> {
    /// Shows what happens until there is a reason to end.
    async fn until_settled(
        &mut self,
        worker: &Worker,
        watch: &mut dyn CampaignObserver,
    ) -> Result<EndReason> {
        let scale = self.fleet.env.time_scale();
        let shortest = LOOK.mul_f64(scale).max(SHORTEST_LOOK);
        let mut database = DatabaseWait::default();
        loop {
            let begun = Instant::now();
            let Look { was_busy, step, events, view } = match self.look().await {
                Ok(look) => look,
                Err(_) if database.waits(self.fleet).await => continue,
                Err(failure) => return Err(failure),
            };
            database = DatabaseWait::default();
            let others = self.fleet.scope.left_to_others(&view);
            let view = self.fleet.scope.view_of(view);
            watch.look(&view, &events);
            // Reading a campaign of ten thousand targets takes a while, so it is read less often.
            let pause = shortest.max(begun.elapsed() * PAUSES).min(LONGEST_LOOK);
            // After the output, so that what ended meanwhile is still shown.
            if self.fleet.drain.is_cancelled() {
                return Ok(EndReason::Interrupted);
            }
            if let Some(why) = self.reason_to_end(&view, &step, was_busy) {
                let not_run = self.fleet.scope.publish_only && why == EndReason::Done && others > 0;
                return Ok(if not_run { EndReason::NotRun(others) } else { why });
            }
            if let Some(why) = self.without_room(&view) {
                return Ok(why);
            }
            if let Some((waited, full)) = self.fleet.store.waits_for_room()
                && waited >= ROOM_WAIT.mul_f64(scale)
            {
                return Err(full.into());
            }
            watch.wait(self.waiting(&view, &step));
            self.look_around(&view, &step).await;
            if worker.handle.is_finished() {
                return Err(Failure::internal("the worker of this command has ended"));
            }
            tokio::select! {
                () = self.fleet.drain.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Something that is worked on here is queued, runs, or is to be published.
    async fn is_busy(&self) -> Result<bool> {
        let (store, scope) = (&self.fleet.store, &self.fleet.scope);
        if scope.is_everything() {
            return Ok(store.campaign_progress(&self.id).await?.busy);
        }
        let is_busy =
            |target: &Target| !target.state.is_settled() && target.state != TargetState::Waiting;
        Ok(scope.view_of(store.view(&self.id).await?).targets.iter().any(is_busy))
    }

    /// Keeps the tracking issue up to date, and finds out what people did with the pull requests that a
    /// gate waits for.
    async fn look_around(&mut self, view: &CampaignView, step: &StepOutcome) {
        if matches!(step, StepOutcome::Waits(_)) && view.targets.iter().any(is_open) {
            refresh::refresh_if_stale(self.fleet, &self.id).await;
        }
        let is_idle = self.tracker.as_ref().is_none_or(JoinHandle::is_finished);
        if is_idle && self.campaign.tracking_issue.is_some() {
            let (fleet, id) = (self.fleet.clone(), self.id.clone());
            let is_told = Arc::clone(&self.is_track_told);
            self.tracker = Some(tokio::spawn(async move {
                track(&fleet, &id, track::UpdateTiming::Due, &is_told).await;
            }));
        }
    }

    async fn fresh_events(&mut self) -> Result<Vec<Event>> {
        let events = self.fleet.store.events(&self.id, self.seen, EVENTS).await?;
        if let Some(last) = events.last() {
            self.seen = last.id;
        }
        Ok(events)
    }

    fn reason_to_end(
        &self,
        view: &CampaignView,
        step: &StepOutcome,
        was_busy: bool,
    ) -> Option<EndReason> {
        let any = |states: &[TargetState]| {
            view.targets.iter().any(|target| states.contains(&target.state))
        };
        let busy = any(&[TargetState::Running, TargetState::Publishing]);
        match view.campaign.state {
            CampaignState::Done => return Some(EndReason::Done),
            CampaignState::Closed => {
                return Some(EndReason::Paused(
                    "it was closed by `patchwright batch close`".to_owned(),
                ));
            }
            // What runs comes to its end; nothing new is begun.
            CampaignState::Paused if busy => return None,
            CampaignState::Paused => {
                let why = view.campaign.reason.clone().unwrap_or_default();
                let is_budget = short_of_money(self.fleet, &self.campaign, view).is_some();
                return Some(if is_budget {
                    EndReason::Budget(why)
                } else {
                    EndReason::Paused(why)
                });
            }
            CampaignState::Running => {}
        }
        if busy || any(&[TargetState::Queued]) {
            return None;
        }
        if any(&[TargetState::Ready]) {
            return self.blocked_by_pulls(view);
        }
        match step {
            // A soak ends by itself; a gate on open pull requests does not.
            StepOutcome::Waits(why) if !was_busy && !self.soaks() => {
                Some(EndReason::Waiting(why.clone()))
            }
            // The campaign goes on with what others have to do.
            StepOutcome::Done if !self.fleet.scope.is_everything() => Some(EndReason::Done),
            StepOutcome::Waits(_)
            | StepOutcome::Going
            | StepOutcome::Paused
            | StepOutcome::Done => None,
        }
    }

    /// Nothing is begun while this machine can keep nothing. Somebody waits for this command, and may not see why.
    fn without_room(&self, view: &CampaignView) -> Option<EndReason> {
        let is_busy = |target: &Target| {
            matches!(target.state, TargetState::Running | TargetState::Publishing)
        };
        if view.targets.iter().any(is_busy) || self.fleet.outages.has_disk(&self.fleet.state) {
            return None;
        }
        let why = "this machine can keep nothing more; the work so far is stored, and the same command goes on when \
                   there is room";
        Some(EndReason::Waiting(why.to_owned()))
    }

    fn soaks(&self) -> bool {
        self.campaign.waves.iter().any(|wave| wave.soak.is_some())
    }

    /// Stored changes that wait for people to merge or close others.
    fn blocked_by_pulls(&self, view: &CampaignView) -> Option<EndReason> {
        let most = self.campaign.limits.max_open_pull_requests?;
        let open = view.targets.iter().filter(|target| is_open(target)).count();
        (open >= most as usize).then(|| {
            EndReason::Waiting(format!(
                "{open} pull requests are open, and `limits.max-open-pull-requests` is {most}; the \
                 stored changes are published when some are merged or closed and it is run again"
            ))
        })
    }

    /// What is waited for while nothing runs.
    fn waiting(&self, view: &CampaignView, step: &StepOutcome) -> Option<Waiting> {
        let any = |states: &[TargetState]| {
            view.targets.iter().any(|target| states.contains(&target.state))
        };
        if any(&[TargetState::Running, TargetState::Publishing, TargetState::Queued]) {
            return None;
        }
        let mut all = view.targets.iter();
        let ready = all.find(|target| target.state == TargetState::Ready);
        // Others have the title of their change as their reason, until a publisher has looked.
        let why =
            ready.and_then(|target| target.reason.clone()).filter(|why| why.starts_with("waits"));
        let ready = ready.is_some();
        let closed = window::closed_until(&self.campaign.windows, self.fleet.clock.now());
        match (closed, step) {
            (Some(until), _) if ready => Some(Waiting {
                why: format!(
                    "nothing is published before {}, when the next window opens",
                    until.format("%a %H:%M UTC")
                ),
                until: Some(until.timestamp_millis()),
            }),
            (None, _) if ready => Some(Waiting { why: why?, until: None }),
            (_, StepOutcome::Waits(why)) if !ready && self.soaks() => {
                Some(Waiting { why: why.clone(), until: None })
            }
            _ => None,
        }
    }
}
