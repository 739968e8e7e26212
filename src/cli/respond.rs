//! `patchwright respond`: a comment → commits on the branch, or an answer.

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::config::env::Env;
use crate::error::{Failure, Result};
use crate::task::outcome::Conclusion;

/// Do what a comment asks for, or answer it
///
/// A mention in an issue, a pull request or a review thread becomes commits on the branch, a plan, a
/// review or an answer in the same thread.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The comment's web address
    #[arg(value_name = "COMMENT_URL")]
    pub comment: String,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    let _ = (args, env, ui);
    Err(Failure::internal("not there yet"))
}
