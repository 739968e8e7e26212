//! `batch run`: from a plan to targets, waves, and an end.
//!
//! [`run`] can be interrupted at any point and run again: everything that it decides is read from the
//! store, and everything that it does is there once. [`advance`] is the step by which a campaign goes on;
//! workers take it too, so that a campaign nobody watches opens its waves.

pub(super) mod begin;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::begin::{Shard, import, stored};

use super::campaign::Campaign;
use super::fleet::Fleet;
use super::selection::Selection;
use super::waves::{self, Step};
use super::worker::{self, WorkerOptions};
use super::{history, refresh, target, track, window};
use crate::store::StoreResult;
use patchwright_base::error::{Failure, Result};
use patchwright_report::campaign::{History, Waiting};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, CampaignView, Event, JobKind, Millis, Target, TargetState,
};

/// Default lease of the worker in this process, in milliseconds.
const LEASE: Millis = 120_000;
/// Between two looks at the store.
const LOOK: Duration = Duration::from_secs(1);
/// A look at all targets takes at most so much less time than the pause after it.
const PAUSES: u32 = 20;
/// However long a look takes, people want to see something.
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// How long the worker gets to put its runs back when the command is interrupted.
const ENDING: Duration = Duration::from_secs(8);
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
    /// Every target is settled.
    Done,
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
    pub history: History,
}

/// Plans, queues, works and publishes until there is nothing left to do here.
pub async fn run(
    fleet: &Fleet,
    campaign: Campaign,
    options: &Options,
    watch: &mut dyn CampaignObserver,
) -> Result<CampaignEnd> {
    let (campaign, row) = begin::begin(fleet, campaign, options, watch).await?;
    let mut drive = Drive { fleet, campaign, id: row.id, seen: 0, tracker: None };
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
        track(fleet, &drive.id, track::When::AtTheEnd).await;
    }
    let events = drive.fresh_events().await?;
    let view = fleet.store.view(&drive.id).await?;
    watch.look(&view, &events);
    let history = history::history(&fleet.store, &view).await?;
    Ok(CampaignEnd { why, view, history })
}

/// A campaign as it is stored.
pub fn campaign_of(row: &CampaignRow) -> Result<Campaign> {
    serde_json::from_str(&row.spec).map_err(|err| {
        Failure::internal(format!("the stored campaign `{}` cannot be read", row.id)).caused_by(err)
    })
}

/// What was done, or what is waited for, by one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// A wave was opened, or nothing changed.
    Going,
    /// The next wave waits, and for what.
    Waits(String),
    /// The campaign was stopped just now.
    Paused,
    Done,
}

/// Opens the next wave when it may be opened, stops or ends the campaign when it is time. Anybody may
/// call it at any time.
pub async fn advance(fleet: &Fleet, id: &str) -> Result<StepOutcome> {
    let store = &fleet.store;
    let mut going = StepOutcome::Going;
    // One step may make the next one possible: an empty wave, or one whose targets are all skipped.
    // Bounded, in case a campaign has more empty waves than anybody would write.
    for _ in 0..100 {
        let row = store.campaign(id).await?;
        if row.state != CampaignState::Running {
            return Ok(going);
        }
        let campaign = campaign_of(&row)?;
        if let Some(why) = nothing_to_decide(fleet, &campaign, &row).await? {
            return Ok(StepOutcome::Waits(why));
        }
        let view = store.view(id).await?;
        if let Some(why) = short_of_money(fleet, &campaign, &view) {
            // Stored changes have been paid for, so they are published before the campaign pauses.
            if !view.targets.iter().any(is_being_published) {
                pause(fleet, id, &why).await?;
                return Ok(StepOutcome::Paused);
            }
            return Ok(StepOutcome::Waits(why));
        }
        match waves::next(&campaign, &view) {
            Step::Open(wave) => {
                let job_of = |target: &Target| target::job(fleet, &campaign, target);
                store.open_wave(id, wave, &job_of).await?;
                going = StepOutcome::Going;
            }
            Step::Wait(why) => return Ok(StepOutcome::Waits(why)),
            Step::Pause(why) => {
                pause(fleet, id, &why).await?;
                return Ok(StepOutcome::Paused);
            }
            Step::Done => {
                store.set_campaign_state(id, CampaignState::Done, None).await?;
                return Ok(StepOutcome::Done);
            }
        }
    }
    Ok(going)
}

/// What is waited for, when a few look-ups show that everything stays as it is. A campaign of thousands of
/// targets takes this step after each of them, and reading all of them each time would be most of its work.
async fn nothing_to_decide(
    fleet: &Fleet,
    campaign: &Campaign,
    row: &CampaignRow,
) -> StoreResult<Option<String>> {
    let standing = fleet.store.standing(&row.id).await?;
    let opens = standing.waiting.is_some_and(|wave| wave <= row.wave);
    // A budget and a failure rate are decided by what all targets came to.
    let short_of_money = row.budget_usd.is_some() && !standing.running;
    if !standing.busy || opens || standing.misconfigured || short_of_money {
        return Ok(None);
    }
    if let Some(most) = campaign.limits.max_failure_rate
        && may_be_above(fleet, row, most).await?
    {
        return Ok(None);
    }
    Ok(Some(format!("wave {}: some targets to go", row.wave + 1)))
}

/// So many have failed that the whole campaign has to be looked at. Counts of rows, in which a repository may
/// have failed several times: more failures than there are, and no fewer.
async fn may_be_above(fleet: &Fleet, row: &CampaignRow, most: f64) -> StoreResult<bool> {
    let store = &fleet.store;
    let failed = store.count_targets(&row.id, &[TargetState::Failed]).await?;
    if failed == 0 {
        return Ok(false);
    }
    let good: Vec<TargetState> = TargetState::ALL
        .iter()
        .copied()
        .filter(|state| {
            state.is_success() && !matches!(state, TargetState::Skipped | TargetState::Superseded)
        })
        .collect();
    let good = store.count_targets(&row.id, &good).await?;
    Ok(waves::share(failed, failed + good) >= most)
}

/// Pauses a campaign. The process that changes the state prints the reason, so it is printed once.
pub(super) async fn pause(fleet: &Fleet, id: &str, why: &str) -> StoreResult<()> {
    let why = fleet.redactor.redact(why);
    if fleet.store.set_campaign_state(id, CampaignState::Paused, Some(&why)).await? {
        fleet.ui.failure(&format!("the campaign is paused: {why}"));
    }
    Ok(())
}

fn is_open(target: &Target) -> bool {
    matches!(target.state, TargetState::Open | TargetState::Draft)
}

/// The campaign's issue; trouble with it is no trouble of the campaign.
async fn track(fleet: &Fleet, id: &str, when: track::When) {
    if let Err(failure) = track::update(fleet, id, when).await {
        fleet.ui.detail(&format!("the tracking issue is not up to date: {}", failure.message));
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
             may cost ${next:.2}; raise `limits.budget-usd` or lower `agent.max-cost-usd`, and run it \
             again"
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
}

impl Drive<'_> {
    /// Shows what happens until there is a reason to end.
    async fn until_settled(
        &mut self,
        worker: &Worker,
        watch: &mut dyn CampaignObserver,
    ) -> Result<EndReason> {
        let scale = self.fleet.env.time_scale();
        let shortest = LOOK.mul_f64(scale).max(Duration::from_millis(20));
        loop {
            let begun = Instant::now();
            // A wait is final only if nothing was running before the step: a job that ends
            // meanwhile may open the next wave.
            let was_busy = self.fleet.store.standing(&self.id).await?.busy;
            let step = advance(self.fleet, &self.id).await?;
            let events = self.fresh_events().await?;
            let view = self.fleet.store.view(&self.id).await?;
            watch.look(&view, &events);
            // Reading a campaign of ten thousand targets takes a while, so it is read less often.
            let pause = shortest.max(begun.elapsed() * PAUSES).min(LONGEST_LOOK);
            // After the output, so that what ended meanwhile is still shown.
            if self.fleet.drain.is_cancelled() {
                return Ok(EndReason::Interrupted);
            }
            if let Some(why) = self.reason_to_end(&view, &step, was_busy) {
                return Ok(why);
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

    /// Keeps the tracking issue up to date, and finds out what people did with the pull requests that a
    /// gate waits for.
    async fn look_around(&mut self, view: &CampaignView, step: &StepOutcome) {
        if matches!(step, StepOutcome::Waits(_)) && view.targets.iter().any(is_open) {
            refresh::now_and_then(self.fleet, &self.id).await;
        }
        let is_idle = self.tracker.as_ref().is_none_or(JoinHandle::is_finished);
        if is_idle && self.campaign.tracking_issue.is_some() {
            let (fleet, id) = (self.fleet.clone(), self.id.clone());
            self.tracker =
                Some(tokio::spawn(async move { track(&fleet, &id, track::When::Due).await }));
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
            StepOutcome::Waits(_)
            | StepOutcome::Going
            | StepOutcome::Paused
            | StepOutcome::Done => None,
        }
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
        let ready = any(&[TargetState::Ready]);
        let closed = window::closed_until(&self.campaign.windows, self.fleet.clock.now());
        match (closed, step) {
            (Some(until), _) if ready => Some(Waiting {
                why: format!(
                    "nothing is published before {}, when the next window opens",
                    until.format("%a %H:%M UTC")
                ),
                until: Some(until.timestamp_millis()),
            }),
            (_, StepOutcome::Waits(why)) if !ready && self.soaks() => {
                Some(Waiting { why: why.clone(), until: None })
            }
            _ => None,
        }
    }
}
