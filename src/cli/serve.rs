//! `patchwright serve`.

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::config::env::Env;
use crate::error::{Failure, Result};

/// Take webhooks, work them off, show what is going on
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let _ = (args, env, ui);
    Err(Failure::internal("not there yet"))
}
