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
use super::{Inputs, outcome, repositories};

/// Judge changes that were made elsewhere
///
/// Takes predictions in the format of SWE-bench and tries each with the tests of its instance, in a fresh sandbox. No
/// model is asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub inputs: Inputs,

    /// Predictions: JSON lines, or a list, with `instance_id`, `model_name_or_path` and `model_patch`
    #[arg(value_name = "PREDICTIONS")]
    pub predictions: PathBuf,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let mut config = args.common.resolve()?;
    let instances = instance::read(&args.inputs.instances)?;
    let predictions = instance::read_predictions(&args.predictions)?;
    let repositories = repositories(&args.inputs.repo, env)?;
    without_docker(&mut config, env, ui).await;
    let mut ledger = Ledger::open(&args.inputs.out, &config)?;
    let world = World::without_model(None, &config, &args.common, env).await?;
    let environment = RunEnvironment::new(ui.among_many(), env);
    let judge = Judge { world: &world, config: &config, environment: &environment };
    let (of, all) = (&repositories, &mut ledger);
    let left = Box::pin(judge_predictions(&judge, &instances, predictions, of, all, ui)).await?;
    outcome::tell(&args.inputs.out, &instances, &ledger, left, ui)
}
