//! The queue in memory: rows as the store has them, for campaigns that are too large to go through a
//! database in a minute.
//!
//! What decides is the product's: [`Pace`], [`Breaker`], [`waves::next`], [`drive::no_room`]. What is written
//! anew is what the store's SQL says, which cannot be called without a database: which job is claimed
//! next, and what an end of a job does to its target. [`super::check`] compares both.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::options::Options;
use super::queue::{Capacity, ClaimedJob, JobVerdict, TargetVerdict};
use crate::batch::campaign::Campaign;
use crate::batch::drive::{self, StepOutcome};
use crate::batch::outage::TIMES;
use crate::batch::publish;
use crate::batch::waves::{self, WaveStep};
use crate::store::{Breaker, OutageEffect, PROBE, Pace, is_paused};
use patchwright_base::error::Service;
use patchwright_types::campaign::{
    CampaignRow, CampaignState, CampaignView, ErrorClass, JobKind, Millis, PaceLimits, Target,
    TargetState, WriteSlot,
};
use patchwright_types::run_facts::RunFacts;

/// When it may run, and its number.
type QueuePosition = (Millis, u64);

/// Queued jobs of one organisation or one token.
#[derive(Default)]
struct Lane {
    /// That may run as far as it was known last.
    ready: BTreeSet<(QueuePosition, usize)>,
    later: BTreeSet<(QueuePosition, usize)>,
    running: usize,
}

impl Lane {
    fn put(&mut self, place: QueuePosition, target: usize) {
        self.later.insert((place, target));
    }

    /// The first job that may run now.
    fn first(&mut self, now: Millis) -> Option<(QueuePosition, usize)> {
        while let Some(next) = self.later.first().copied().filter(|((at, _), _)| *at <= now) {
            self.later.remove(&next);
            self.ready.insert(next);
        }
        self.ready.first().copied()
    }
}

/// What a job's row has beside its place in the queue.
#[derive(Clone, Copy, Default)]
struct JobRow {
    attempt: u8,
    number: u64,
    cut_at: Option<Millis>,
}

pub(super) struct Rows {
    pub(super) now: Millis,
    campaign: Campaign,
    pub(super) view: CampaignView,
    /// By owner, and by token.
    targets: Vec<Lane>,
    publishes: Vec<Lane>,
    jobs: HashMap<(usize, JobKind), JobRow>,
    owners: usize,
    next_job: u64,
    running: usize,
    reserve: f64,
    max_attempts: i64,
    pace: Vec<Pace>,
    api: Breaker,
    model: Breaker,
}

impl Rows {
    pub(super) fn new(
        campaign: &Campaign,
        row: CampaignRow,
        options: &Options,
        reserve: f64,
    ) -> Rows {
        let waves = waves::assign(campaign, options.repositories);
        let new = |(place, wave): (usize, i64)| target(place, wave, options.start());
        let targets: Vec<Target> = waves.into_iter().enumerate().map(new).collect();
        let now = options.start();
        let (outages, interrupted) = Default::default();
        let view = CampaignView { campaign: row, targets, outages, interrupted, now };
        let lanes = |count: usize| std::iter::repeat_with(Lane::default).take(count).collect();
        Rows {
            now,
            view,
            targets: lanes(options.organizations),
            publishes: lanes(options.tokens),
            jobs: HashMap::new(),
            owners: options.organizations,
            next_job: 0,
            running: 0,
            reserve,
            max_attempts: i64::from(campaign.limits.max_attempts.unwrap_or(3).max(1)),
            pace: vec![Pace::default(); options.tokens],
            api: Breaker::default(),
            model: Breaker::default(),
            campaign: campaign.clone(),
        }
    }

    fn enqueue(&mut self, target: usize, kind: JobKind, lane: usize) {
        self.next_job += 1;
        let number = self.next_job;
        self.jobs.insert((target, kind), JobRow { number, ..JobRow::default() });
        if let Some(lane) = self.lane(kind, lane) {
            lane.put((0, number), target);
        }
    }

    fn lane(&mut self, kind: JobKind, at: usize) -> Option<&mut Lane> {
        match kind {
            JobKind::Publish => self.publishes.get_mut(at),
            JobKind::Target | JobKind::Delivery => self.targets.get_mut(at),
        }
    }

    /// As [`crate::store::Store::claim_of`]: publishing first, then the first job of an owner that has room.
    pub(super) fn claim(&mut self, room: &Capacity) -> Option<ClaimedJob> {
        if self.view.campaign.state != CampaignState::Running
            || is_paused(self.api.pause(), self.now)
        {
            return None;
        }
        let now = self.now;
        let free = |token: &usize| room.publishers.get(*token).copied().unwrap_or_default();
        let publish = (0..self.publishes.len()).filter(free).filter_map(|token| {
            let lane = self.publishes.get_mut(token)?;
            if lane.running > 0 { None } else { Some((lane.first(now)?, token)) }
        });
        if let Some(((place, target), token)) = publish.min() {
            return Some(self.take((place, target), JobKind::Publish, token));
        }
        if !room.runs || !self.has_room() || is_paused(self.model.pause(), now) {
            return None;
        }
        let most = self.campaign.limits.per_organization.map_or(usize::MAX, |most| most as usize);
        let lanes = self.targets.iter_mut().enumerate();
        let first = lanes.filter(|(_, lane)| lane.running < most);
        let first = first.filter_map(|(at, lane)| Some((lane.first(now)?, at))).min();
        let ((place, target), owner) = first?;
        Some(self.take((place, target), JobKind::Target, owner))
    }

    /// Concurrency and budget, as the store's claim counts them.
    fn has_room(&self) -> bool {
        let row = &self.view.campaign;
        let running = i64::try_from(self.running).unwrap_or(i64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
        let held = self.running as f64 * self.reserve;
        row.concurrency.is_none_or(|most| running < most)
            && row.budget_usd.is_none_or(|budget| {
                row.spent_usd < budget && self.reserve <= budget + 1e-6 - row.spent_usd - held
            })
    }

    fn take(
        &mut self,
        (place, target): (QueuePosition, usize),
        kind: JobKind,
        lane: usize,
    ) -> ClaimedJob {
        if let Some(lane) = self.lane(kind, lane) {
            lane.ready.remove(&(place, target));
            lane.running += 1;
        }
        self.running += usize::from(kind == JobKind::Target);
        let row = self.jobs.entry((target, kind)).or_default();
        row.attempt = row.attempt.saturating_add(1);
        let (number, attempt) = (row.number, i64::from(row.attempt));
        let id = i64::try_from(number).unwrap_or(i64::MAX);
        let mut needed = vec![&mut self.api];
        if kind == JobKind::Target {
            needed.push(&mut self.model);
        }
        for breaker in needed {
            if breaker.pauses > 0 {
                breaker.until = self.now.saturating_add(PROBE);
                breaker.probe = Some(id);
            }
        }
        let max_attempts = match kind {
            JobKind::Publish => publish::ATTEMPTS,
            JobKind::Target | JobKind::Delivery => self.max_attempts,
        };
        let lease = None;
        ClaimedJob { target, kind, lane, attempt, max_attempts, lease }
    }

    /// The earliest time at which a claim may find what it does not find now.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let lanes = self.targets.iter().chain(&self.publishes);
        let due = lanes.filter_map(|lane| lane.later.first()).map(|((at, _), _)| *at);
        let pauses = [self.api.until, self.model.until];
        due.chain(pauses).filter(|at| *at > self.now).min()
    }

    pub(super) fn begin(&mut self, claimed: &ClaimedJob) {
        let now = self.now;
        let Some(target) = self.view.targets.get_mut(claimed.target) else { return };
        match claimed.kind {
            JobKind::Target | JobKind::Delivery => {
                target.state = TargetState::Running;
                target.attempts += 1;
                target.started_at = Some(now);
                target.ended_at = None;
            }
            JobKind::Publish => target.state = TargetState::Publishing,
        }
    }

    /// As [`crate::store::Store::end_target`].
    pub(super) fn end(&mut self, claimed: &ClaimedJob, verdict: &TargetVerdict, job: JobVerdict) {
        let now = self.now;
        if let Some(lane) = self.lane(claimed.kind, claimed.lane) {
            lane.running = lane.running.saturating_sub(1);
        }
        self.running -= usize::from(claimed.kind == JobKind::Target);
        let dead = matches!(job, JobVerdict::Retry(_)) && claimed.attempt >= claimed.max_attempts;
        let again = match job {
            JobVerdict::Done | JobVerdict::Failed => None,
            JobVerdict::Retry(after) => Some((after, 0)).filter(|_| !dead),
            JobVerdict::Later(after) => Some((after, 1)),
        };
        let key = (claimed.target, claimed.kind);
        if let Some((after, uncounted)) = again {
            let row = self.jobs.entry(key).or_default();
            row.attempt = row.attempt.saturating_sub(uncounted);
            let place = (now.saturating_add(after), row.number);
            if let Some(lane) = self.lane(claimed.kind, claimed.lane) {
                lane.put(place, claimed.target);
            }
        } else {
            self.jobs.remove(&key);
        }
        let Some(target) = self.view.targets.get_mut(claimed.target) else { return };
        if matches!(job, JobVerdict::Later(_)) && claimed.kind == JobKind::Target {
            target.attempts = (target.attempts - 1).max(0);
        }
        target.state = if dead { TargetState::Failed } else { verdict.state };
        target.class = verdict.class.or(dead.then_some(ErrorClass::Internal));
        if target.state.is_settled() {
            match claimed.kind {
                JobKind::Publish => target.published_at = Some(now),
                JobKind::Target | JobKind::Delivery => target.ended_at = Some(now),
            }
        }
        target.cost_usd += verdict.cost_usd;
        self.view.campaign.spent_usd += verdict.cost_usd;
        if verdict.state == TargetState::Ready && claimed.kind == JobKind::Target {
            self.enqueue(claimed.target, JobKind::Publish, verdict.token);
        }
    }

    pub(super) fn merged(&mut self, target: usize) {
        let now = self.now;
        if let Some(target) = self.view.targets.get_mut(target) {
            target.state = TargetState::Merged;
            target.closed_at = Some(now);
        }
    }

    pub(super) fn reserve(&mut self, token: usize, limits: PaceLimits) -> WriteSlot {
        let now = self.now;
        let Some(pace) = self.pace.get_mut(token) else { return WriteSlot::In(0) };
        pace.forget(now);
        pace.reserve(now, limits)
    }

    pub(super) fn close_pace(&mut self, token: usize, wait: Millis) {
        let now = self.now;
        if let Some(pace) = self.pace.get_mut(token) {
            pace.close(now, wait);
        }
    }

    pub(super) fn cut_off(&mut self, claimed: &ClaimedJob, service: Service) -> OutageEffect {
        let now = self.now;
        let row = self.jobs.entry((claimed.target, claimed.kind)).or_default();
        let (id, cut_at) = (i64::try_from(row.number).unwrap_or(i64::MAX), row.cut_at);
        row.cut_at = Some(now);
        self.breaker(service).cut((id, cut_at), now, None, TIMES)
    }

    fn breaker(&mut self, service: Service) -> &mut Breaker {
        if service == Service::Model { &mut self.model } else { &mut self.api }
    }

    pub(super) fn works(&mut self, service: Service) {
        let now = self.now;
        let breaker = self.breaker(service);
        if breaker.since.is_some() {
            *breaker = Breaker::works(now);
        }
    }

    /// As [`drive::advance`].
    pub(super) fn advance(&mut self) -> StepOutcome {
        let mut going = StepOutcome::Going;
        for _ in 0..100 {
            if self.view.campaign.state != CampaignState::Running {
                return going;
            }
            self.view.now = self.now;
            if let Some(why) = drive::no_room(self.reserve, &self.view) {
                if self.view.targets.iter().any(drive::is_being_published) {
                    return StepOutcome::Waits(why);
                }
                return self.pause(why);
            }
            match waves::next(&self.campaign, &self.view) {
                WaveStep::Open(wave) => {
                    self.open(wave);
                    going = StepOutcome::Going;
                }
                WaveStep::Wait(why) => return StepOutcome::Waits(why),
                WaveStep::Pause(why) => return self.pause(why),
                WaveStep::Done => {
                    self.view.campaign.state = CampaignState::Done;
                    return StepOutcome::Done;
                }
            }
        }
        going
    }

    fn pause(&mut self, why: String) -> StepOutcome {
        self.view.campaign.state = CampaignState::Paused;
        self.view.campaign.reason = Some(why);
        StepOutcome::Paused
    }

    fn open(&mut self, wave: i64) {
        for at in 0..self.view.targets.len() {
            let Some(target) = self.view.targets.get_mut(at) else { continue };
            if target.state == TargetState::Waiting && target.wave <= wave {
                target.state = TargetState::Queued;
                self.enqueue(at, JobKind::Target, at % self.owners);
            }
        }
        self.view.campaign.wave = self.view.campaign.wave.max(wave);
    }

    /// How many targets are in each state.
    pub(super) fn states(&self) -> BTreeMap<TargetState, usize> {
        let mut states = BTreeMap::new();
        for target in &self.view.targets {
            *states.entry(target.state).or_default() += 1;
        }
        states
    }
}

/// A row without texts: there are as many as repositories.
fn target(place: usize, wave: i64, now: Millis) -> Target {
    Target {
        id: i64::try_from(place).unwrap_or(i64::MAX),
        campaign: String::new(),
        repository: String::new(),
        repository_id: None,
        number: None,
        base_branch: String::new(),
        base_sha: String::new(),
        wave,
        state: TargetState::Waiting,
        class: None,
        reason: None,
        run: None,
        attempts: 0,
        cost_usd: 0.0,
        tokens: 0,
        pull_request: None,
        url: None,
        created_at: now,
        updated_at: now,
        started_at: None,
        ended_at: None,
        publishing_at: None,
        published_at: None,
        closed_at: None,
        writes: 0,
        closing_at: None,
        fits_sha: None,
        facts: RunFacts::default(),
    }
}
