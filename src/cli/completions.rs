//! `patchwright completions`: what a shell needs to complete our commands and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use patchwright_base::ui::Ui;

/// Print the completions of a shell
///
/// For bash: `patchwright completions bash > ~/.local/share/bash-completion/completions/patchwright`.
/// For zsh, write it as `_patchwright` into a folder of `$fpath`; for fish, into
/// `~/.config/fish/completions/patchwright.fish`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell to complete in
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

pub fn run(args: &Args, ui: Ui) {
    ui.document(completions(args.shell).trim_end_matches('\n'));
}

/// The script for `shell`.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "patchwright", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
