//! `patchwright schedule`.

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::config::env::Env;
use crate::error::{Failure, Result};

/// Run campaigns when their schedules say so
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign files
    #[arg(value_name = "CAMPAIGN.yml", required = true)]
    pub campaigns: Vec<std::path::PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let _ = (args, env, ui);
    Err(Failure::internal("not there yet"))
}
