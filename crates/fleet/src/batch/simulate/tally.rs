//! What is counted while a campaign is simulated.

use std::collections::BTreeMap;

use serde::Serialize;

use super::options::Options;
use super::queue::CampaignStatus;
use patchwright_types::campaign::{CampaignState, Millis, TargetState};
use patchwright_types::dollars;

const DAY: Millis = 86_400_000;

/// When a wave was worked on, in seconds from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WaveReport {
    pub targets: usize,
    pub began: Option<i64>,
    pub ended: Option<i64>,
}

/// One simulated campaign. Times are seconds from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulationReport {
    pub seconds: i64,
    /// Every target is settled.
    pub done: bool,
    /// Why it stopped before that.
    pub stopped: Option<String>,
    pub states: BTreeMap<&'static str, usize>,
    #[serde(serialize_with = "dollars::rounded")]
    pub cost_usd: f64,
    pub waves: Vec<WaveReport>,
    /// Pull requests opened on each day.
    pub pulls_by_day: Vec<u32>,
    pub claims: u64,
    pub runs: u64,
    /// Runs and publishings that an outage cut off, and jobs that were put back for a while.
    pub cut_off: u64,
    pub put_back: u64,
    pub writes: u64,
    pub rest: u64,
    pub git: u64,
    /// The most REST requests that one token made in an hour.
    pub most_in_an_hour: u32,
    /// Shares of the time: of the workers that ran something, of the tokens that published.
    pub workers_busy: f64,
    pub publishers_busy: f64,
}

#[derive(Default)]
pub(super) struct Tally {
    start: Millis,
    waves: Vec<i64>,
    wave_left: Vec<usize>,
    pub(super) is_over: bool,
    pub(super) asked_for_money: bool,
    pub(super) claims: u64,
    pub(super) report: SimulationReport,
    workers: usize,
    tokens: usize,
    worked: i128,
    published: i128,
}

impl Tally {
    pub(super) fn new(options: &Options, waves: Vec<i64>) -> Tally {
        let count = waves.iter().copied().max().map_or(0, |last| last + 1);
        let count = usize::try_from(count).unwrap_or_default();
        let mut reports = vec![WaveReport::default(); count];
        for wave in &waves {
            if let Some(report) = usize::try_from(*wave).ok().and_then(|at| reports.get_mut(at)) {
                report.targets += 1;
            }
        }
        Tally {
            start: options.start(),
            wave_left: reports.iter().map(|wave| wave.targets).collect(),
            waves,
            report: SimulationReport { waves: reports, ..SimulationReport::default() },
            workers: options.workers,
            tokens: options.tokens,
            ..Tally::default()
        }
    }

    fn wave_of(&self, target: usize) -> usize {
        self.waves.get(target).and_then(|wave| usize::try_from(*wave).ok()).unwrap_or_default()
    }

    pub(super) fn began(&mut self, target: usize, now: Millis) {
        self.report.runs += 1;
        let (at, seconds) = (self.wave_of(target), (now - self.start) / 1_000);
        if let Some(wave) = self.report.waves.get_mut(at) {
            wave.began.get_or_insert(seconds);
        }
    }

    pub(super) fn settled(&mut self, target: usize, state: TargetState, now: Millis) {
        let (at, seconds) = (self.wave_of(target), (now - self.start) / 1_000);
        if let Some(left) = self.wave_left.get_mut(at) {
            *left = left.saturating_sub(1);
            if let (0, Some(wave)) = (*left, self.report.waves.get_mut(at)) {
                wave.ended = Some(seconds);
            }
        }
        if matches!(state, TargetState::Open | TargetState::Draft) {
            let day = usize::try_from((now - self.start) / DAY).unwrap_or_default();
            if self.report.pulls_by_day.len() <= day {
                self.report.pulls_by_day.resize(day + 1, 0);
            }
            if let Some(pulls) = self.report.pulls_by_day.get_mut(day) {
                *pulls += 1;
            }
        }
    }

    /// Time passes, with so many at work.
    pub(super) fn pass(&mut self, time: Millis, runs: usize, publishers: &[bool]) {
        let publishing = publishers.iter().filter(|free| !**free).count();
        let times = |count: usize| i128::from(time) * i128::try_from(count).unwrap_or_default();
        self.worked += times(runs);
        self.published += times(publishing);
    }

    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    pub(super) fn report(
        mut self,
        standing: CampaignStatus,
        now: Millis,
        (most, waits): (u32, Option<String>),
    ) -> SimulationReport {
        let time = (now - self.start).max(1) as f64;
        let share = |worked: i128, count: usize| worked as f64 / (time * count.max(1) as f64);
        let done = standing.state == CampaignState::Done;
        let stopped = standing.reason.or(waits).unwrap_or_else(|| "nothing goes on".to_owned());
        self.report.seconds = (now - self.start) / 1_000;
        self.report.done = done;
        self.report.stopped = (!done).then_some(stopped);
        self.report.cost_usd = standing.spent_usd;
        self.report.claims = self.claims;
        self.report.most_in_an_hour = most;
        self.report.workers_busy = share(self.worked, self.workers);
        self.report.publishers_busy = share(self.published, self.tokens);
        let states = standing.states.into_iter();
        self.report.states = states.map(|(state, count)| (state.word(), count)).collect();
        self.report
    }
}
