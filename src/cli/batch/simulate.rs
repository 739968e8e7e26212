//! `patchwright batch simulate`.

mod table;

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::selector::CampaignSelector;
use patchwright_base::duration::parse_duration;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::campaign::Campaign;
use patchwright_fleet::batch::drive;
use patchwright_fleet::batch::simulate::profile::{AssumedProfile, ENOUGH};
use patchwright_fleet::batch::simulate::{self, Options, Profile, ScheduledOutage};
use patchwright_fleet::store::{Store, StoreError};

/// Say how long a campaign would take, what it would cost, and what outages would do to it, without running it
///
/// Waves, windows, limits, budget, the pace of writes and outages are decided by the code that runs
/// campaigns, with a clock that does not wait; the length, cost and end of runs are drawn from those of a
/// campaign that was run, or from the figures below. Asks neither GitHub nor a model.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file, or the name or id of a campaign
    #[arg(value_name = "CAMPAIGN.yml|NAME")]
    pub campaign: String,

    /// Repositories [default: as many as the campaign has in the database, else as it lists]
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_REPOSITORIES", value_name = "N")]
    pub repositories: Option<usize>,

    /// Runs at once that all machines together have room for
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_WORKERS", value_name = "N", default_value_t = 10)]
    pub workers: usize,

    /// GitHub tokens or Apps, each with a pace of its own
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_TOKENS", value_name = "N", default_value_t = 1)]
    pub tokens: usize,

    /// Owners of the repositories, for `limits.per-organization`
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_ORGANIZATIONS", value_name = "N", default_value_t = 1)]
    pub organizations: usize,

    /// A service that does not answer for a while, after a while: `github:60m@2h`, `model:30m@1h`;
    /// repeatable
    #[arg(
        long = "outage",
        env = "PATCHWRIGHT_SIMULATE_OUTAGES",
        value_name = "SERVICE:TIME@TIME",
        value_delimiter = ','
    )]
    pub outages: Vec<ScheduledOutage>,

    /// Draw runs from those of this campaign [default: the campaign's own, when ten have ended]
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_FROM", value_name = "NAME")]
    pub from: Option<String>,

    /// Length of half of the runs, when none are measured; one of ten takes three times as long
    /// [default: 6m]
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_RUN_TIME", value_name = "TIME", value_parser = parse_duration, conflicts_with = "from")]
    pub run_time: Option<Duration>,

    /// Dollars for a run of that length, when none are measured [default: 0.40]
    #[arg(
        long,
        env = "PATCHWRIGHT_SIMULATE_RUN_COST",
        value_name = "DOLLARS",
        conflicts_with = "from"
    )]
    pub run_cost: Option<f64>,

    /// Share of runs that fail for good, when none are measured [default: 0.05]
    #[arg(
        long,
        env = "PATCHWRIGHT_SIMULATE_FAILING",
        value_name = "SHARE",
        conflicts_with = "from"
    )]
    pub failing: Option<f64>,

    /// REST requests that one token may make in an hour; an App of a large installation has up to 12,500
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_REQUESTS", value_name = "N", default_value_t = 5_000)]
    pub requests_per_hour: u32,

    /// After which time half of the pull requests are merged, for limits on open ones
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_MERGED_AFTER", value_name = "TIME", value_parser = parse_duration, default_value = "24h")]
    pub merged_after: Duration,

    /// When the campaign begins, for publishing windows
    #[arg(
        long,
        env = "PATCHWRIGHT_SIMULATE_START",
        value_name = "TIME",
        value_parser = time,
        default_value = "2026-01-05T08:00:00Z"
    )]
    pub start: DateTime<Utc>,

    /// How often it is simulated, each time with other draws
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_ROUNDS", value_name = "N", default_value_t = 5)]
    pub rounds: usize,

    /// Seed of the draws; equal seeds give equal answers
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_SEED", value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Repositories that go through a real database as well, to compare; none with 0
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_CHECK", value_name = "N", default_value_t = 200)]
    pub check: usize,

    /// Do not simulate it again with one limit lifted at a time, which takes as long for each
    #[arg(long, env = "PATCHWRIGHT_SIMULATE_NO_WHAT_IF")]
    pub no_what_if: bool,

    /// Database file with campaigns that were run, in place of `DATABASE_URL`
    #[arg(long, env = "PATCHWRIGHT_DATABASE", value_name = "FILE")]
    pub database: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let selector = CampaignSelector::parse(&args.campaign)?;
    let reserve = args.common.resolve()?.limits.max_cost_usd;
    let store = match super::status::existing(args.database.as_deref(), &args.common, env, ui).await
    {
        Ok(store) => Some(store),
        // A file needs no database: nothing was run yet.
        Err(failure) if is_needless(&args, &selector, &failure) => None,
        Err(failure) => return Err(failure),
    };
    let (campaign, known) = known(&selector, store.as_ref(), ui).await?;
    let profile = profile(&args, &campaign, store.as_ref(), ui).await?;
    let options = options(&args, &campaign, known)?;
    let reserve = campaign.agent.max_cost_usd.unwrap_or(reserve);
    let simulation = simulate::simulate(&campaign, &options, &profile, reserve).await?;
    ui.record(&table::json(&campaign, &simulation));
    ui.data(table::table(&campaign, &simulation, &profile).trim_end());
    Ok(0)
}

/// There is no database, and nobody has asked for what is in one.
fn is_needless(args: &Args, selector: &CampaignSelector, failure: &Failure) -> bool {
    failure.kind == FailureKind::NothingToDo
        && matches!(selector, CampaignSelector::File(_))
        && args.from.is_none()
        && args.database.is_none()
}

fn time(text: &str) -> Result<DateTime<Utc>, String> {
    text.parse().map_err(|_| format!("`{text}` is no time; write it as `2026-01-05T08:00:00Z`"))
}

/// The campaign, and how many repositories the database has of it.
async fn known(
    selector: &CampaignSelector,
    store: Option<&Store>,
    ui: Ui,
) -> Result<(Campaign, usize)> {
    match (selector, store) {
        (CampaignSelector::File(campaign), None) => Ok(((**campaign).clone(), 0)),
        (CampaignSelector::File(campaign), Some(store)) => {
            let campaign = drive::recognized(store, (**campaign).clone()).await?;
            let count = match store.view(&campaign.id()).await {
                Ok(view) => view.targets.len(),
                Err(StoreError::NotFound(_)) => 0,
                Err(err) => return Err(err.into()),
            };
            Ok((campaign, count))
        }
        (CampaignSelector::Name(_), Some(store)) => {
            let row = selector.find(store, ui).await?;
            Ok((drive::campaign_of(&row)?, store.view(&row.id).await?.targets.len()))
        }
        (CampaignSelector::Name(name), None) => {
            Err(super::selector::unknown(format!("no campaign `{name}` was run yet")))
        }
    }
}

/// Measured runs where there are some.
async fn profile(
    args: &Args,
    campaign: &Campaign,
    store: Option<&Store>,
    ui: Ui,
) -> Result<Profile> {
    let assumed = assumed(args)?;
    let Some(store) = store else { return Ok(Profile::Assumed(assumed)) };
    if let Some(from) = &args.from {
        let row = CampaignSelector::parse(from)?.find(store, ui).await?;
        return Profile::measured(store, &row.id).await?.ok_or_else(|| {
            Failure::usage(format!(
                "fewer than {ENOUGH} runs of campaign `{}` have ended, which says too little",
                row.id
            ))
            .hint("leave out `--from`, or give `--run-time`, `--run-cost` and `--failing`")
        });
    }
    if args.run_time.is_some() || args.run_cost.is_some() || args.failing.is_some() {
        return Ok(Profile::Assumed(assumed));
    }
    let own = match store.campaign(&campaign.id()).await {
        Ok(row) => Profile::measured(store, &row.id).await?,
        Err(StoreError::NotFound(_)) => None,
        Err(err) => return Err(err.into()),
    };
    Ok(own.unwrap_or(Profile::Assumed(assumed)))
}

fn assumed(args: &Args) -> Result<AssumedProfile> {
    let usual = AssumedProfile::default();
    let cost_usd = args.run_cost.unwrap_or(usual.cost_usd);
    let failing = args.failing.unwrap_or(usual.failing);
    let median = args.run_time.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    if !cost_usd.is_finite() || cost_usd < 0.0 {
        return Err(Failure::usage(format!("`--run-cost` is {cost_usd}, which is no price")));
    }
    if !(0.0..=1.0).contains(&failing) {
        return Err(Failure::usage(format!("`--failing` must be from 0 to 1, and is {failing}")));
    }
    if median == Some(0) {
        return Err(Failure::usage("`--run-time` must be longer than nothing"));
    }
    // What may pass is tried again, and what fails leaves room for the rest.
    let passing = usual.passing.min(1.0 - failing);
    Ok(AssumedProfile {
        median: median.unwrap_or(usual.median),
        cost_usd,
        failing,
        passing,
        ..usual
    })
}

fn options(args: &Args, campaign: &Campaign, known: usize) -> Result<Options> {
    let listed = campaign.select.repositories.len();
    let counted = [known, listed].into_iter().find(|count| *count > 0);
    let repositories = args.repositories.or(counted).ok_or_else(|| {
        Failure::usage("it is not known how many repositories the campaign has")
            .hint("say `--repositories N`, or run it once: `patchwright batch plan` counts them")
    })?;
    Ok(Options {
        repositories,
        workers: args.workers,
        tokens: args.tokens,
        organizations: args.organizations,
        outages: args.outages.clone(),
        seed: args.seed,
        rounds: args.rounds,
        check: args.check,
        start: args.start,
        requests_per_hour: args.requests_per_hour,
        merged_after: args.merged_after,
        what_if: !args.no_what_if,
    })
}
