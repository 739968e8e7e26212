//! What a worker does with a job: a run, publishing, and what an outage does to both.

use super::queue::{ClaimedJob, JobVerdict, TargetVerdict};
use super::requests;
use super::simulation_run::{ActiveJob, SimulatedService, SimulationEvent, SimulationRun};
use crate::batch::campaign::{CampaignMode, PublishAs};
use crate::batch::outage::AGAIN;
use crate::batch::pace;
use crate::batch::publish::{publish_error, timing};
use crate::batch::target::verdict::wait_after;
use patchwright_base::error::{Result, Service};
use patchwright_types::campaign::{ErrorClass, JobKind, Millis, TargetState, WriteSlot, millis_of};

use super::profile::{RunEnd, SampledRun};

/// How long a request to GitHub is sent again that fails: five times.
const GITHUB_PATIENCE: Millis = 15_000;
/// How long a request to the model is sent again that fails: eight times.
const MODEL_PATIENCE: Millis = 60_000;
/// A limit of GitHub that lasts no longer than this is waited for; otherwise the job is put back.
const LIMIT_PATIENCE: Millis = 15 * 60_000;
/// From the claim to the first request to the model: clone, sandbox, setup.
const STARTING: Millis = 10_000;
/// What publishing reads before it writes, and how long one write takes.
const READING: Millis = 1_200;
const WRITING: Millis = 300;

impl SimulationRun<'_> {
    pub(super) async fn start_run(&mut self, claimed: ClaimedJob) -> Result<()> {
        let (target, attempt) = (claimed.target, claimed.attempt);
        let setting = self.setting;
        let drawn = self.left.get(&target).copied();
        let drawn = drawn.unwrap_or_else(|| setting.profile.draw(setting.seed, target, attempt));
        let token = self.quotas.best(self.now);
        self.queue.begin(&claimed).await?;
        self.tally.began(target, self.now);
        let now = self.now;
        let at = self.begin_work(ActiveJob { claimed, token, drawn, began: now, asked: now });
        let mut from = now;
        if let Some(until) = self.calendar.out_until(SimulatedService::GitHub, now) {
            if until - now > GITHUB_PATIENCE {
                self.after(GITHUB_PATIENCE, SimulationEvent::Cut(at, SimulatedService::GitHub));
                return Ok(());
            }
            from = until;
        }
        if let Err(wait) = self.quotas.take(token, requests::REST_OF_A_RUN, now) {
            self.queue.close_pace(token, wait).await?;
            if wait > LIMIT_PATIENCE {
                let after = wait.max(publish_error::PAUSE);
                return self.put_back(at, after).await;
            }
            from = from.max(now + wait);
        }
        self.tally.report.rest += u64::from(requests::REST_OF_A_RUN);
        self.tally.report.git += u64::from(requests::GIT_OF_A_RUN);
        if self.is_suspected(SimulatedService::GitHub) {
            self.after(from - now + 1_000, SimulationEvent::Answers(SimulatedService::GitHub));
        }
        self.run_on(at, from, drawn.length);
        Ok(())
    }

    /// Goes on from a time for so long, unless the model is away meanwhile.
    fn run_on(&mut self, at: usize, from: Millis, length: Millis) {
        let mut ends = from + length;
        let mut asks = from + STARTING.min(length);
        while let Some((out, back)) =
            self.calendar.first_within(SimulatedService::Model, asks, ends)
        {
            if back - out > MODEL_PATIENCE {
                let done = out - from - (ends - from - length);
                if let Some(Some(work)) = self.works.get(at) {
                    let mut left = work.drawn;
                    left.length = (length - done.clamp(0, length)).max(1_000);
                    self.left.insert(work.claimed.target, left);
                }
                let wait = out + MODEL_PATIENCE - self.now;
                self.after(wait, SimulationEvent::Cut(at, SimulatedService::Model));
                return;
            }
            ends += back - out;
            asks = back;
            self.after(back - self.now + 1_000, SimulationEvent::Answers(SimulatedService::Model));
        }
        if self.is_suspected(SimulatedService::Model) {
            self.after(asks - self.now + 1_000, SimulationEvent::Answers(SimulatedService::Model));
        }
        self.after(ends - self.now, SimulationEvent::Ends(at));
    }

    fn is_suspected(&self, known: SimulatedService) -> bool {
        self.suspected[known as usize]
    }

    /// Somebody got an answer of a service.
    pub(super) async fn answers(&mut self, known: SimulatedService) -> Result<()> {
        if self.calendar.out_until(known, self.now).is_some() || !self.is_suspected(known) {
            return Ok(());
        }
        self.suspected[known as usize] = false;
        self.queue.works(known.service()).await
    }

    pub(super) async fn run_ends(&mut self, at: usize) -> Result<()> {
        let Some(Some(work)) = self.works.get_mut(at) else { return Ok(()) };
        let (fate, claimed) = (work.drawn.fate, &work.claimed);
        let (last, attempt) = (claimed.attempt >= claimed.max_attempts, claimed.attempt);
        let campaign = self.setting.campaign;
        let (state, class, job) = match fate {
            RunEnd::Changed if campaign.mode == CampaignMode::Review => {
                work.asked = self.now;
                self.after(0, SimulationEvent::Write(at));
                return Ok(());
            }
            RunEnd::Changed if campaign.mode == CampaignMode::Report => {
                (TargetState::Reported, None, JobVerdict::Done)
            }
            RunEnd::Changed => (self.publishes(at), None, JobVerdict::Done),
            RunEnd::Unchanged => (TargetState::Unchanged, None, JobVerdict::Done),
            RunEnd::Passing(class) if !last => {
                (TargetState::Queued, Some(class), JobVerdict::Retry(wait_after(attempt)))
            }
            RunEnd::Failed(class) | RunEnd::Passing(class) => {
                (TargetState::Failed, Some(class), JobVerdict::Failed)
            }
        };
        self.finish(at, state, class, job).await
    }

    fn publishes(&self, at: usize) -> TargetState {
        let target = self.works.get(at).and_then(Option::as_ref).map_or(0, |w| w.claimed.target);
        let campaign = self.setting.campaign;
        if campaign.publish.published.is_empty() {
            return TargetState::Ready;
        }
        match campaign.published(&self.setting.options.name_of(target)) {
            PublishAs::Held => TargetState::Held,
            PublishAs::Ready | PublishAs::Draft => TargetState::Ready,
        }
    }

    /// Ends a job with what became of its target.
    async fn finish(
        &mut self,
        at: usize,
        state: TargetState,
        class: Option<ErrorClass>,
        job: JobVerdict,
    ) -> Result<()> {
        let Some(work) = self.end_work(at) else { return Ok(()) };
        let is_run = work.claimed.kind != JobKind::Publish;
        let counts = is_run && !matches!(job, JobVerdict::Later(_));
        let cost_usd = if counts { work.drawn.cost_usd } else { 0.0 };
        if counts {
            // The next attempt is another run.
            self.left.remove(&work.claimed.target);
        }
        let verdict = TargetVerdict { state, class, cost_usd, token: work.token };
        self.queue.end(&work.claimed, &verdict, job).await?;
        self.tally.report.put_back += u64::from(matches!(job, JobVerdict::Later(_)));
        if state.is_settled() {
            self.settled(work.claimed.target, state);
        }
        Ok(())
    }

    /// A review that waits for its turn to write is not made again.
    fn goes_on(&mut self, at: usize) {
        let Some(Some(work)) = self.works.get(at) else { return };
        if is_run(work) {
            let drawn = SampledRun { length: STARTING, ..work.drawn };
            self.left.insert(work.claimed.target, drawn);
        }
    }

    /// Back into the queue, without an attempt counted.
    async fn put_back(&mut self, at: usize, after: Millis) -> Result<()> {
        let is_run = matches!(self.works.get(at), Some(Some(work)) if is_run(work));
        let state = if is_run { TargetState::Queued } else { TargetState::Ready };
        self.finish(at, state, None, JobVerdict::Later(after)).await
    }

    /// A service failed the work for longer than it is asked again.
    pub(super) async fn cut(&mut self, at: usize, known: SimulatedService) -> Result<()> {
        self.tally.report.cut_off += 1;
        let Some(Some(work)) = self.works.get(at) else { return Ok(()) };
        let (is_run, claimed) = (is_run(work), work.claimed.clone());
        let cut = self.queue.cut_off(&claimed, known.service()).await?;
        self.suspected[known as usize] = true;
        if !cut.counts {
            return self.put_back(at, millis_of(AGAIN)).await;
        }
        let of_model = known.service() == Service::Model;
        let class = Some(if of_model { ErrorClass::Model } else { ErrorClass::Forge });
        if claimed.attempt >= claimed.max_attempts {
            return self.finish(at, TargetState::Failed, class, JobVerdict::Failed).await;
        }
        let (state, after) = if is_run {
            (TargetState::Queued, wait_after(claimed.attempt))
        } else {
            let doublings = claimed.attempt.saturating_sub(1).clamp(0, 10);
            (TargetState::Ready, publish_error::PAUSE * (1 << doublings))
        };
        self.finish(at, state, class, JobVerdict::Retry(after)).await
    }

    pub(super) async fn start_publishing(&mut self, claimed: ClaimedJob) -> Result<()> {
        let (now, token) = (self.now, claimed.lane);
        let drawn = self.setting.profile.draw(self.setting.seed, claimed.target, 0);
        let campaign = self.setting.campaign;
        let begun = claimed.clone();
        let at = self.begin_work(ActiveJob { claimed, token, drawn, began: now, asked: now });
        let clock = chrono::DateTime::from_timestamp_millis(now).unwrap_or_default();
        if let Some((_, after)) = timing::closed(campaign, clock) {
            return self.put_back(at, after).await;
        }
        let most = campaign.limits.max_open_pull_requests;
        if most.is_some_and(|most| self.open_pulls >= most as usize) {
            return self.put_back(at, timing::LOOK_AGAIN).await;
        }
        self.queue.begin(&begun).await?;
        let out = self.calendar.out_until(SimulatedService::GitHub, now);
        if out.is_some_and(|until| until - now > GITHUB_PATIENCE) {
            self.after(GITHUB_PATIENCE, SimulationEvent::Cut(at, SimulatedService::GitHub));
            return Ok(());
        }
        if let Err(wait) = self.quotas.take(token, requests::REST_OF_A_PULL, now) {
            self.queue.close_pace(token, wait).await?;
            return self.put_back(at, wait.max(publish_error::PAUSE)).await;
        }
        self.tally.report.rest += u64::from(requests::REST_OF_A_PULL);
        self.tally.report.git += u64::from(requests::GIT_OF_A_PULL);
        let waited = out.map_or(0, |until| until - now);
        if self.is_suspected(SimulatedService::GitHub) {
            self.after(waited + 500, SimulationEvent::Answers(SimulatedService::GitHub));
        }
        self.after(waited + READING, SimulationEvent::Write(at));
        Ok(())
    }

    /// A write asks for its place in the row of the token's writes.
    pub(super) async fn ask_to_write(&mut self, at: usize) -> Result<()> {
        let now = self.now;
        let Some(Some(work)) = self.works.get_mut(at) else { return Ok(()) };
        if work.asked <= work.began {
            work.asked = now;
        }
        let (token, asked, is_run) = (work.token, work.asked, is_run(work));
        if let Some(until) = self.calendar.out_until(SimulatedService::GitHub, now) {
            let known = SimulatedService::GitHub;
            let waits = until - now <= GITHUB_PATIENCE;
            let next =
                if waits { SimulationEvent::Write(at) } else { SimulationEvent::Cut(at, known) };
            self.after((until - now).min(GITHUB_PATIENCE), next);
            return Ok(());
        }
        let places = if is_run { pace::PATIENCE } else { pace::PUBLISHER_PATIENCE };
        let patience = self.limits.gap.saturating_mul(places);
        match self.queue.reserve(token, self.limits).await? {
            WriteSlot::In(wait) => self.after(wait, SimulationEvent::Written(at)),
            WriteSlot::AskIn(wait) if now - asked + wait > patience => {
                self.goes_on(at);
                return self.put_back(at, publish_error::PAUSE).await;
            }
            WriteSlot::AskIn(wait) => self.after(wait, SimulationEvent::Write(at)),
        }
        Ok(())
    }

    pub(super) async fn written(&mut self, at: usize) -> Result<()> {
        self.tally.report.writes += 1;
        let now = self.now;
        let Some(Some(work)) = self.works.get_mut(at) else { return Ok(()) };
        work.asked = now + WRITING;
        let (target, is_run) = (work.claimed.target, is_run(work));
        let written = self.written.entry(target).or_default();
        *written += 1;
        if *written < self.writes() {
            self.after(WRITING, SimulationEvent::Write(at));
            return Ok(());
        }
        if is_run {
            return self.finish(at, TargetState::Reported, None, JobVerdict::Done).await;
        }
        self.finish(at, TargetState::Open, None, JobVerdict::Done).await?;
        self.open_pulls += 1;
        if self.counts_pulls() {
            let wait = self.setting.merge_wait(target);
            self.after(wait, SimulationEvent::Merged(target));
        }
        Ok(())
    }
}

fn is_run(work: &ActiveJob) -> bool {
    work.claimed.kind != JobKind::Publish
}
