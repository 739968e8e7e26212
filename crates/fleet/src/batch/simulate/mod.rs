//! How long a campaign takes, what it costs, and what an outage does to it, without running it.
//!
//! Real is everything that decides: the pace of writes, waves and their gates, publishing windows, limits,
//! budget, the breaker that pauses for outages, when something is tried again. Simulated is the time, and what
//! others do: how long runs take and what becomes of them ([`profile`]), when GitHub and the model answer.
//!
//! A large campaign goes through rows in memory ([`rows`]). A small one like it goes through the store as
//! well ([`real`]), with the product's SQL; [`Check`] says how far the two are apart, and how many rows and
//! bytes a repository leaves behind.

mod calendar;
mod check;
mod options;
pub mod profile;
mod queue;
mod quota;
mod real;
mod requests;
mod rows;
mod simulation_run;
mod tally;
mod what_if;
mod work;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

pub use self::check::Check;
pub use self::options::{MOST_REPOSITORIES, Options, ScheduledOutage};
pub use self::profile::Profile;
use self::queue::Queue;
pub use self::requests::{
    DiscoveryRequests, GIT_OF_A_PULL, GIT_OF_A_RUN, REST_OF_A_PULL, REST_OF_A_RUN,
    WRITES_OF_A_PULL, discovery,
};
use self::rows::Rows;
use self::simulation_run::{SimulationInput, SimulationRun};
pub use self::tally::{SimulationReport, WaveReport};
pub use self::what_if::WhatIf;
use super::campaign::Campaign;
use super::drive::begin;
use patchwright_base::error::Result;
use patchwright_types::campaign::{CampaignRow, Millis, millis_of};

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    pub options: Options,
    /// The campaign whose runs the draws are from, and how many they are; `None`: assumed.
    pub measured: Option<(String, usize)>,
    pub discovery: DiscoveryRequests,
    /// One for each round.
    pub courses: Vec<SimulationReport>,
    /// Which change would make it shorter, the most helpful first.
    pub what_if: Vec<WhatIf>,
    /// Tokens that would halve the time, with the same workers; `None` when no number of them does.
    pub tokens_for_half: Option<usize>,
    pub check: Option<Check>,
}

/// Simulates a campaign. `reserve` is the most that one run may cost, in dollars.
///
/// # Errors
/// When an option is out of its bounds, or the campaign does not end.
pub async fn simulate(
    campaign: &Campaign,
    options: &Options,
    profile: &Profile,
    reserve: f64,
) -> Result<Simulation> {
    options.check()?;
    let mut courses = Vec::new();
    for round in 0..options.rounds {
        courses.push(in_memory(campaign, options, profile, reserve, round).await?);
    }
    let first = courses.first().cloned().unwrap_or_default();
    let asked = what_if::WhatIfInput { campaign, options, profile, reserve };
    let (what_if, tokens_for_half) = if options.what_if {
        (asked.all().await?, asked.tokens_for_half(&first).await?)
    } else {
        (Vec::new(), None)
    };
    let check = match options.check {
        0 => None,
        _ => Some(check::check(campaign, options, profile, reserve).await?),
    };
    let measured = match profile {
        Profile::Measured { of, runs, .. } => Some((of.clone(), runs.len())),
        Profile::Assumed(_) => None,
    };
    Ok(Simulation {
        options: options.clone(),
        measured,
        discovery: discovery(options.repositories as u64),
        courses,
        what_if,
        tokens_for_half,
        check,
    })
}

/// One round, with rows in memory.
async fn in_memory(
    campaign: &Campaign,
    options: &Options,
    profile: &Profile,
    reserve: f64,
    round: usize,
) -> Result<SimulationReport> {
    let row = row(campaign)?;
    let queue = Queue::Rows(Box::new(Rows::new(campaign, row, options, reserve)));
    let setting = SimulationInput { campaign, options, profile, seed: seed(options, round) };
    Ok(SimulationRun::new(setting, queue).run().await?.0)
}

fn row(campaign: &Campaign) -> Result<CampaignRow> {
    begin::row_of(campaign)
}

fn seed(options: &Options, round: usize) -> u64 {
    options.seed.wrapping_mul(1_000_003).wrapping_add(round as u64)
}

impl SimulationInput<'_> {
    /// How long a pull request stays open.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a time of days"
    )]
    fn merge_wait(&self, target: usize) -> Millis {
        let mut random = StdRng::seed_from_u64(self.seed ^ !(target as u64));
        let median = millis_of(self.options.merged_after) as f64;
        let chance: f64 = random.random_range(f64::EPSILON..1.0);
        (-chance.log2() * median).min(100.0 * median) as Millis
    }
}
