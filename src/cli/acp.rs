//! `patchwright acp`: runs that an editor or another program drives.

use crate::acp::{self, Setup};
use crate::cli::exec::without_docker;
use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::{Mode, Source, file::File, merge};

/// Serve an editor by the Agent Client Protocol, over standard input and output
///
/// The editor starts this and opens sessions in folders of repositories. Each prompt is a run as that of `exec --apply`: it works on
/// the committed state and writes its change into the folder when it succeeds. Nobody is asked for permission; model,
/// keys, limits and sandbox are those of this command line, its configuration and its environment.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read and end with a plan, or do the work; with `plan`, clients cannot choose otherwise
    #[arg(long, env = "PATCHWRIGHT_MODE", value_name = "MODE")]
    pub mode: Option<Mode>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<()> {
    let mut config = args.common.resolve()?;
    merge::lay(&mut config, File { mode: args.mode, ..File::default() }, Source::Flag);
    without_docker(&mut config, env, ui).await;
    Box::pin(acp::serve(Setup { config, common: &args.common, env, ui })).await
}
