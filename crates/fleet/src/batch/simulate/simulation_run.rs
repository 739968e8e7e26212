//! One simulated campaign, from its first claim to its end: a clock that jumps to the next thing that happens,
//! and what happens then.
//!
//! Workers, GitHub and the model are simulated here; what they do with a job is in [`super::work`]. Everything
//! that the product decides is asked of the [`Queue`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::calendar::Calendar;
use super::options::Options;
use super::profile::{Profile, SampledRun};
use super::queue::{Capacity, ClaimedJob, Queue};
use super::quota::Quotas;
use super::tally::{SimulationReport, Tally};
use crate::batch::campaign::{Campaign, CampaignMode};
use crate::batch::drive::StepOutcome;
use crate::batch::waves;
use patchwright_base::duration::parse_duration;
use patchwright_base::error::{Failure, Result, Service};
use patchwright_types::campaign::{
    CampaignState, JobKind, Millis, PaceLimits, TargetState, millis_of,
};

/// A campaign that takes longer than this does not end.
const HORIZON: Millis = 20 * 365 * 86_400_000;
/// How often a wave that waits is looked at, as workers do.
const LOOK: Millis = 30_000;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimulationEvent {
    /// A service answers somebody again.
    Answers(SimulatedService),
    /// People merge a pull request.
    Merged(usize),
    /// Work that was cut off by a service.
    Cut(usize, SimulatedService),
    Ends(usize),
    /// A write asks for its place, and goes out.
    Write(usize),
    Written(usize),
    /// Something may be claimed, or a wave opened.
    Look,
}

/// A service, as it is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimulatedService {
    GitHub,
    Model,
}

impl SimulatedService {
    pub(super) fn service(self) -> Service {
        match self {
            SimulatedService::GitHub => Service::ForgeApi,
            SimulatedService::Model => Service::Model,
        }
    }
}

/// A job under way.
pub(super) struct ActiveJob {
    pub(super) claimed: ClaimedJob,
    pub(super) token: usize,
    pub(super) drawn: SampledRun,
    pub(super) began: Millis,
    /// Since when the next write waits.
    pub(super) asked: Millis,
}

/// What a simulation is about.
#[derive(Clone, Copy)]
pub(super) struct SimulationInput<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) options: &'a Options,
    pub(super) profile: &'a Profile,
    pub(super) seed: u64,
}

pub(super) struct SimulationRun<'a> {
    pub(super) setting: SimulationInput<'a>,
    pub(super) queue: Queue,
    pub(super) calendar: Calendar,
    pub(super) quotas: Quotas,
    pub(super) tally: Tally,
    pub(super) limits: PaceLimits,
    pub(super) now: Millis,
    pub(super) works: Vec<Option<ActiveJob>>,
    pub(super) runs: usize,
    pub(super) publishers: Vec<bool>,
    /// What is left of runs that were cut off.
    pub(super) left: HashMap<usize, SampledRun>,
    /// Writes that were made for a target already.
    pub(super) written: HashMap<usize, u32>,
    pub(super) open_pulls: usize,
    pub(super) suspected: [bool; 2],
    events: BinaryHeap<Reverse<(Millis, u64, SimulationEvent)>>,
    sequence: u64,
    free: Vec<usize>,
    /// When the next look is due that is in the events.
    look_at: Option<Millis>,
    /// Targets that are neither waiting nor settled; and whether a step of the campaign may be due.
    busy: usize,
    may_step: bool,
    ended: usize,
    failed: usize,
}

impl<'a> SimulationRun<'a> {
    pub(super) fn new(setting: SimulationInput<'a>, queue: Queue) -> SimulationRun<'a> {
        let SimulationInput { campaign, options, .. } = setting;
        SimulationRun {
            queue,
            calendar: Calendar::new(options),
            quotas: Quotas::new(options),
            tally: Tally::new(options, waves::assign(campaign, options.repositories)),
            limits: PaceLimits::GITHUB.lowered(campaign.limits.creations_per_hour.map(i64::from)),
            now: options.start(),
            works: Vec::new(),
            runs: 0,
            publishers: vec![true; options.tokens],
            left: HashMap::new(),
            written: HashMap::new(),
            open_pulls: 0,
            suspected: [false; 2],
            events: BinaryHeap::new(),
            sequence: 0,
            free: Vec::new(),
            look_at: None,
            busy: 0,
            may_step: true,
            ended: 0,
            failed: 0,
            setting,
        }
    }

    /// Until every target is settled, the campaign pauses, or nothing happens any more.
    ///
    /// # Errors
    /// When the store cannot be used, or the campaign does not end.
    pub(super) async fn run(mut self) -> Result<(SimulationReport, Queue)> {
        let mut why = None;
        loop {
            if self.may_step {
                why = self.step().await?.or(why);
            }
            self.fill().await?;
            if self.may_step {
                continue;
            }
            let Some(Reverse((at, _, happening))) = self.events.pop() else { break };
            if at - self.setting.options.start() > HORIZON {
                return Err(Failure::usage("the campaign would not end within 20 years")
                    .hint("more `--workers` or `--tokens`, or shorter runs, make it shorter"));
            }
            if at > self.now {
                self.tally.pass(at - self.now, self.runs, &self.publishers);
                self.now = at;
                self.queue.set_clock(at).await?;
            }
            self.happen(happening).await?;
            let busy = self.runs > 0 || self.publishers.contains(&false);
            if self.tally.is_over && !busy {
                break;
            }
        }
        let standing = self.queue.status().await?;
        let requests = (self.quotas.most(), why);
        Ok((self.tally.report(standing, self.now, requests), self.queue))
    }

    /// A step of the campaign. Returns what it waits for.
    async fn step(&mut self) -> Result<Option<String>> {
        self.may_step = false;
        let outcome = self.queue.advance().await?;
        let standing = self.queue.status().await?;
        let is_busy = |state: &TargetState| !state.is_settled() && *state != TargetState::Waiting;
        self.busy =
            standing.states.iter().filter(|(state, _)| is_busy(state)).map(|(_, n)| n).sum();
        self.tally.is_over = standing.state != CampaignState::Running;
        self.look_at = None;
        match outcome {
            StepOutcome::Waits(why) => {
                if self.busy == 0 {
                    self.look_in(self.distance());
                }
                Ok(Some(why))
            }
            StepOutcome::Going | StepOutcome::Paused | StepOutcome::Done => Ok(None),
        }
    }

    /// Until a wave that waits is looked at again: a hundredth of the longest soak, or as workers do.
    fn distance(&self) -> Millis {
        let soaks = self.setting.campaign.waves.iter().filter_map(|wave| wave.soak.as_deref());
        let soaks = soaks.filter_map(|soak| parse_duration(soak).ok());
        let longest = soaks.map(millis_of).max().unwrap_or_default();
        (longest / 100).max(LOOK)
    }

    /// Gives out jobs as long as there is room and work.
    async fn fill(&mut self) -> Result<()> {
        if self.tally.is_over {
            return Ok(());
        }
        loop {
            let closed = self.quotas.closed_until(self.now);
            let has_workers = self.runs < self.setting.options.workers;
            let room = Capacity {
                runs: has_workers && closed.is_none(),
                publishers: self.publishers.clone(),
            };
            if let (true, Some(until)) = (has_workers, closed) {
                self.look_at(until);
            }
            if !room.runs && !room.publishers.contains(&true) {
                return Ok(());
            }
            let Some(claimed) = self.queue.claim(&room).await? else {
                if let Some(due) = self.queue.next_due().await? {
                    self.look_at(due.max(self.now + 1));
                }
                let is_short = self.setting.campaign.limits.budget_usd.is_some();
                if is_short && room.runs && self.runs == 0 && !self.tally.asked_for_money {
                    self.tally.asked_for_money = true;
                    self.may_step = true;
                }
                return Ok(());
            };
            self.tally.asked_for_money = false;
            self.start(claimed).await?;
        }
    }

    async fn start(&mut self, claimed: ClaimedJob) -> Result<()> {
        self.tally.claims += 1;
        match claimed.kind {
            JobKind::Publish => self.start_publishing(claimed).await,
            JobKind::Target | JobKind::Delivery => self.start_run(claimed).await,
        }
    }

    async fn happen(&mut self, happening: SimulationEvent) -> Result<()> {
        match happening {
            SimulationEvent::Look => {
                self.look_at = None;
                self.may_step |= self.busy == 0;
                Ok(())
            }
            SimulationEvent::Merged(target) => {
                self.open_pulls = self.open_pulls.saturating_sub(1);
                self.queue.merged(target).await?;
                self.may_step |= self.busy == 0;
                Ok(())
            }
            SimulationEvent::Answers(known) => self.answers(known).await,
            SimulationEvent::Cut(work, known) => self.cut(work, known).await,
            SimulationEvent::Ends(work) => self.run_ends(work).await,
            SimulationEvent::Write(work) => self.ask_to_write(work).await,
            SimulationEvent::Written(work) => self.written(work).await,
        }
    }

    /// The end of everything that is done with a target.
    pub(super) fn settled(&mut self, target: usize, state: TargetState) {
        self.busy = self.busy.saturating_sub(1);
        self.ended += 1;
        self.failed += usize::from(state == TargetState::Failed);
        self.tally.settled(target, state, self.now);
        self.left.remove(&target);
        self.written.remove(&target);
        let most = self.setting.campaign.limits.max_failure_rate;
        #[expect(clippy::cast_precision_loss, reason = "counts of repositories")]
        let near = most.is_some_and(|most| {
            state == TargetState::Failed && self.failed as f64 >= 0.98 * most * self.ended as f64
        });
        self.may_step |= self.busy == 0 || near;
    }

    pub(super) fn begin_work(&mut self, work: ActiveJob) -> usize {
        match work.claimed.kind {
            JobKind::Publish => self.take_publisher(work.token),
            JobKind::Target | JobKind::Delivery => self.runs += 1,
        }
        if let Some(at) = self.free.pop()
            && let Some(place) = self.works.get_mut(at)
        {
            *place = Some(work);
            return at;
        }
        self.works.push(Some(work));
        self.works.len() - 1
    }

    pub(super) fn end_work(&mut self, at: usize) -> Option<ActiveJob> {
        let work = self.works.get_mut(at)?.take()?;
        self.free.push(at);
        match work.claimed.kind {
            JobKind::Publish => self.give_publisher_back(work.token),
            JobKind::Target | JobKind::Delivery => self.runs -= 1,
        }
        Some(work)
    }

    fn take_publisher(&mut self, token: usize) {
        if let Some(is_free) = self.publishers.get_mut(token) {
            *is_free = false;
        }
    }

    fn give_publisher_back(&mut self, token: usize) {
        if let Some(is_free) = self.publishers.get_mut(token) {
            *is_free = true;
        }
    }

    pub(super) fn after(&mut self, wait: Millis, happening: SimulationEvent) {
        self.sequence += 1;
        let at = self.now.saturating_add(wait.max(0));
        self.events.push(Reverse((at, self.sequence, happening)));
    }

    fn look_in(&mut self, wait: Millis) {
        self.look_at(self.now + wait);
    }

    fn look_at(&mut self, at: Millis) {
        if self.look_at.is_none_or(|other| at < other) {
            self.look_at = Some(at);
            self.after(at - self.now, SimulationEvent::Look);
        }
    }

    /// Some gate counts open pull requests, so that it matters when they are merged.
    pub(super) fn counts_pulls(&self) -> bool {
        let campaign = self.setting.campaign;
        campaign.limits.max_open_pull_requests.is_some()
            || campaign.waves.iter().any(|wave| wave.max_open_pull_requests.is_some())
    }

    /// Writes that end one target.
    pub(super) fn writes(&self) -> u32 {
        let publish = &self.setting.campaign.publish;
        match self.setting.campaign.mode {
            CampaignMode::Report => 0,
            CampaignMode::Review => super::requests::WRITES_OF_A_REVIEW,
            CampaignMode::Pr => {
                super::requests::WRITES_OF_A_PULL
                    + u32::from(!publish.labels.is_empty())
                    + u32::from(
                        !publish.reviewers.is_empty()
                            || publish.code_owners.is_some_and(|most| most > 0),
                    )
                    + u32::from(!publish.assignees.is_empty())
                    + u32::from(publish.milestone.is_some())
                    + u32::from(publish.auto_merge == Some(true))
            }
        }
    }
}
