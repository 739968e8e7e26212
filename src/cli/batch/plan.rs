//! `patchwright batch plan`.

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::config::env::Env;
use crate::error::{Failure, Result};

/// Say what a campaign would do with each repository, what it would cost and how long it would take
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file
    #[arg(value_name = "CAMPAIGN.yml")]
    pub campaign: std::path::PathBuf,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let _ = (args, env, ui);
    Err(Failure::internal("not there yet"))
}
