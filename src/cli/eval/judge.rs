//! `patchwright eval judge`: changes that were made elsewhere, judged by the tests of their instances.

use std::path::PathBuf;

use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_eval::evaluate::judge_predictions;
use patchwright_eval::instance;
use patchwright_eval::judge::Judge;
use patchwright_eval::ledger::Ledger;
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;

use super::super::exec::without_docker;
use super::{outcome, repositories};

/// Judge changes that were made elsewhere
///
/// Takes predictions in the format of SWE-bench and tries each with the tests of its instance, in a fresh sandbox. No
/// model is asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Instances: a file of `eval mine`, or one of SWE-bench's datasets as JSON lines
    #[arg(value_name = "INSTANCES")]
    pub instances: PathBuf,

    /// Predictions: JSON lines, or a list, with `instance_id`, `model_name_or_path` and `model_patch`
    #[arg(value_name = "PREDICTIONS")]
    pub predictions: PathBuf,

    /// Where the repositories are, once for all or once for each: a folder or a URL [default: GitHub]
    #[arg(
        long,
        env = "PATCHWRIGHT_REPO",
        value_name = "[OWNER/NAME=]PATH|URL",
        value_delimiter = ','
    )]
    pub repo: Vec<String>,

    /// Folder of the results
    #[arg(long, env = "PATCHWRIGHT_OUT", value_name = "DIR", default_value = "evaluation")]
    pub out: PathBuf,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let mut config = args.common.resolve()?;
    let instances = instance::read(&args.instances)?;
    let predictions = instance::read_predictions(&args.predictions)?;
    let repositories = repositories(&args.repo, env)?;
    without_docker(&mut config, env, ui).await;
    let mut ledger = Ledger::open(&args.out, &config)?;
    let world = World::without_model(None, &config, &args.common, env).await?;
    let environment = RunEnvironment::new(ui.among_many(), env);
    let judge = Judge { world: &world, config: &config, environment: &environment };
    let (of, all) = (&repositories, &mut ledger);
    let left = Box::pin(judge_predictions(&judge, &instances, predictions, of, all, ui)).await?;
    outcome::tell(&args.out, &instances, &ledger, &left, ui)
}
