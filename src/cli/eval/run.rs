//! `patchwright eval run`: models at work on instances, judged and compared.

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::Config;
use patchwright_config::flags::Common;
use patchwright_eval::evaluate::{Contestant, Evaluation, Scope};
use patchwright_eval::instance::{self, Instance};
use patchwright_eval::judge::Judge;
use patchwright_eval::ledger::Ledger;
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;

use super::super::exec::without_docker;
use super::{Inputs, outcome, repositories};

/// Have models work on instances, and compare them
///
/// Each model works on each instance as `exec` does, at the commit before people solved it, without the tests that
/// decide. Its change is then judged by those tests in a fresh sandbox. A killed evaluation goes on where it was: nothing
/// is paid for twice.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub inputs: Inputs,

    /// Models to compare [default: the configured model]
    #[arg(long, env = "PATCHWRIGHT_MODELS", value_name = "MODEL,…", value_delimiter = ',')]
    pub models: Vec<String>,

    /// Only instances with these names
    #[arg(long, env = "PATCHWRIGHT_ONLY", value_name = "ID,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Times that each model works on each instance
    #[arg(long, env = "PATCHWRIGHT_TRIALS", value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub trials: u32,

    /// Runs at the same time
    #[arg(long, env = "PATCHWRIGHT_JOBS", value_name = "NUMBER", default_value_t = 1)]
    pub jobs: usize,

    /// Begin nothing once all runs together have cost so much
    #[arg(long, env = "PATCHWRIGHT_BUDGET_USD", value_name = "USD")]
    pub budget_usd: Option<f64>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let mut config = args.common.resolve()?;
    let instances = chosen(instance::read(&args.inputs.instances)?, &args.only)?;
    let repositories = repositories(&args.inputs.repo, env)?;
    without_docker(&mut config, env, ui).await;
    let ledger = Ledger::open(&args.inputs.out, &config)?;
    let mut contestants = Vec::new();
    // A model that cannot be asked is said before the first is paid.
    for name in models(&args.models, &config)? {
        let config = Config { model: name.clone(), ..config.clone() };
        let world = World::for_repository(&config, &args.common, env).await?;
        contestants.push(Contestant { name, config, world });
    }
    let world = World::without_model(None, &config, &args.common, env).await?;
    let environment = RunEnvironment::new(ui.among_many(), env);
    let evaluation = Evaluation {
        instances: &instances,
        contestants: &contestants,
        judge: Judge { world: &world, config: &config, environment: &environment },
        repositories: &repositories,
        scope: Scope { trials: args.trials, jobs: args.jobs, budget_usd: args.budget_usd },
        ui,
    };
    let (ledger, left) = Box::pin(evaluation.run(ledger)).await;
    outcome::tell(&args.inputs.out, &instances, &ledger, left, ui)
}

/// The models, each once.
fn models(named: &[String], config: &Config) -> Result<Vec<String>> {
    let mut models: Vec<String> = Vec::new();
    for name in named.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        if models.iter().any(|known| known == name) {
            return Err(Failure::usage(format!("`--models` names `{name}` twice"))
                .hint("`--trials` has each model work several times"));
        }
        models.push(name.to_owned());
    }
    if models.is_empty() {
        models.push(config.model.clone());
    }
    Ok(models)
}

/// The instances that were asked for.
pub(super) fn chosen(instances: Vec<Instance>, only: &[String]) -> Result<Vec<Instance>> {
    let known = |id: &&String| instances.iter().any(|it| it.instance_id == **id);
    if let Some(unknown) = only.iter().find(|id| !known(id)) {
        return Err(Failure::usage(format!("there is no instance `{unknown}`"))
            .hint("`--only` takes the `instance_id` of instances, with commas between them"));
    }
    let is_wanted = |it: &Instance| only.is_empty() || only.contains(&it.instance_id);
    Ok(instances.into_iter().filter(is_wanted).collect())
}
