//! A small campaign of the same kind, once through rows in memory and once through the store: how far they
//! are apart, and what the store holds afterwards.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::options::{Options, ScheduledOutage};
use super::profile::Profile;
use super::queue::Queue;
use super::real::RealQueue;
use super::simulation_run::{SimulationInput, SimulationRun};
use super::tally::SimulationReport;
use crate::batch::campaign::Campaign;
use patchwright_base::error::{Failure, Result};

/// An outage of the whole begins no later than this in the small campaign.
const SOON: Duration = Duration::from_mins(10);

/// What the comparison found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    pub repositories: usize,
    /// How long the campaign takes by either, in seconds of its own time.
    pub seconds_in_memory: i64,
    pub seconds_in_store: i64,
    /// Both came to the same states, writes, runs and dollars.
    pub same: bool,
    /// Rows in the store for one repository, by table.
    pub rows: BTreeMap<String, f64>,
    /// Bytes in the store for one repository.
    pub bytes: f64,
    /// Time of this machine for everything that the store did for one repository, in milliseconds.
    pub store_milliseconds: f64,
}

/// Runs the comparison.
///
/// # Errors
/// When no file can be made.
#[expect(clippy::cast_precision_loss, reason = "averages")]
pub(super) async fn check(
    campaign: &Campaign,
    options: &Options,
    profile: &Profile,
    reserve: f64,
) -> Result<Check> {
    let repositories = options.check.min(options.repositories);
    let organizations = options.organizations.min(repositories);
    // As crowded as the whole is.
    let workers = (options.workers * repositories).div_ceil(options.repositories).max(2);
    let small = Options {
        repositories,
        organizations,
        workers,
        outages: early(options),
        ..options.clone()
    };
    let memory = super::in_memory(campaign, &small, profile, reserve, 0).await?;
    let folder = tempfile::tempdir().map_err(|err| {
        Failure::machine("no folder can be made for the simulated database").caused_by(err)
    })?;
    let row = super::row(campaign)?;
    let real =
        RealQueue::new(folder.path(), campaign, &row, &small, (reserve, profile.pack())).await?;
    let empty = real.size().await?;
    let setting =
        SimulationInput { campaign, options: &small, profile, seed: super::seed(&small, 0) };
    let began = Instant::now();
    let (stored, queue) = SimulationRun::new(setting, Queue::Store(Box::new(real))).run().await?;
    let spent = began.elapsed().as_secs_f64() * 1e3;
    let Queue::Store(real) = queue else { return Err(Failure::internal("another queue")) };
    let size = real.size().await?;
    real.store().close().await;
    let count = repositories as f64;
    let rows = size.rows.iter().map(|(table, rows)| (table.clone(), *rows as f64 / count));
    Ok(Check {
        repositories,
        seconds_in_memory: memory.seconds,
        seconds_in_store: stored.seconds,
        same: is_same(&memory, &stored),
        rows: rows.filter(|(_, rows)| *rows > 0.0).collect(),
        bytes: (size.bytes - empty.bytes) as f64 / count,
        store_milliseconds: spent / count,
    })
}

/// The outages, begun while a small campaign is under way.
fn early(options: &Options) -> Vec<ScheduledOutage> {
    let early =
        |outage: &ScheduledOutage| ScheduledOutage { begins: outage.begins.min(SOON), ..*outage };
    options.outages.iter().map(early).collect()
}

fn is_same(memory: &SimulationReport, stored: &SimulationReport) -> bool {
    let facts = |course: &SimulationReport| {
        (course.states.clone(), course.writes, course.runs, course.cut_off, course.done)
    };
    let close = (memory.cost_usd - stored.cost_usd).abs() < 0.01;
    facts(memory) == facts(stored) && close
}
