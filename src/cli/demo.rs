//! `patchwright demo`: the main job, offline.

use std::path::PathBuf;

use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_types::outcome::Conclusion;

/// See the main job end to end, offline: no key, no network
///
/// A local forge holds a small repository with a failing check and an issue about it; a scripted
/// model works on it in Docker when it answers, else in the local sandbox; the result is a local
/// pull request with the diff and the evidence.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the demo's forge and reports [default: a new temporary folder]
    #[arg(long, env = "PATCHWRIGHT_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    Box::pin(patchwright_task::demo::run(args.dir.as_deref(), &args.common, env, ui)).await
}
