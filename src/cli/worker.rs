//! `patchwright worker`.

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::config::env::Env;
use crate::error::{Failure, Result};

/// Work off jobs of the shared database until told to stop
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let _ = (args, env, ui);
    Err(Failure::internal("not there yet"))
}
