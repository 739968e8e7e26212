//! `patchwright review`: pull request → one review.

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::config::env::Env;
use crate::error::{Failure, Result};
use crate::task::outcome::Conclusion;

/// Review a pull request
///
/// Reads the change in a locked container on its pinned head, runs the repository's checks, and posts
/// one review with comments on the lines that hold the quoted code.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pull request, as `OWNER/REPO#N` or its web address
    #[arg(value_name = "OWNER/REPO#N")]
    pub pull_request: String,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    let _ = (args, env, ui);
    Err(Failure::internal("not there yet"))
}
