//! `patchwright man`: the manual pages, one for each command, made from the same text as the help.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::cli::Cli;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;

/// Write the manual pages into a folder
///
/// One page for the program and one for each command: `patchwright.1`, `patchwright-issue.1`, ….
/// `man -l DIR/patchwright.1` shows the first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for the pages; made when it is absent, pages in it are replaced
    #[arg(long, env = "PATCHWRIGHT_MAN_DIR", value_name = "DIR")]
    pub out: PathBuf,
}

pub fn run(args: &Args, ui: Ui) -> Result<()> {
    let unwritable = |err: std::io::Error| {
        Failure::usage(format!("cannot write manual pages to `{}`", args.out.display()))
            .caused_by(err)
            .hint("name a folder that you may write to")
    };
    fs_err::create_dir_all(&args.out).map_err(unwritable)?;
    // It lists every command itself; a page for the `help` of each says nothing more.
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.out).map_err(unwritable)?;
    ui.say(&format!("wrote the manual pages to {}", args.out.display()));
    Ok(())
}
