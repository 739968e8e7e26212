//! `patchwright batch`: one change, review or question for many repositories.

pub mod close;
pub mod plan;
pub mod retry;
pub mod run;
mod selector;
pub mod simulate;
pub mod status;

use std::path::Path;

use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::store;

/// Work on many repositories by a campaign file
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Plan(plan::Args),
    Run(run::Args),
    Simulate(simulate::Args),
    Status(status::Args),
    Retry(retry::Args),
    Close(close::Args),
}

impl Args {
    /// The flags of the subcommand that all commands share.
    pub fn common(&self) -> &Common {
        match &self.command {
            Command::Plan(args) => &args.common,
            Command::Run(args) => &args.common,
            Command::Simulate(args) => &args.common,
            Command::Status(args) => &args.common,
            Command::Retry(args) => &args.common,
            Command::Close(args) => &args.common,
        }
    }
}

/// The fleet, with the database file that the command line names in place of `DATABASE_URL`.
pub(super) async fn fleet(
    common: &Common,
    database: Option<&Path>,
    env: &Env,
    ui: Ui,
) -> Result<Fleet> {
    let env = match database {
        Some(file) => env.clone().with("DATABASE_URL", store::file_url(file)),
        None => env.clone(),
    };
    Fleet::open(common.resolve()?, common, &env, ui).await
}

/// The exit code says how it went: 0 all, 20 some failed.
pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    match args.command {
        Command::Plan(args) => plan::run(args, env, ui).await,
        Command::Run(args) => run::run(args, env, ui).await,
        Command::Simulate(args) => simulate::run(args, env, ui).await,
        Command::Status(args) => status::run(args, env, ui).await,
        Command::Retry(args) => retry::run(args, env, ui).await,
        Command::Close(args) => close::run(args, env, ui).await,
    }
}
