//! `patchwright replay`: runs a journal again, offline.

use std::path::PathBuf;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::SandboxChoice;
use patchwright_journal as journal;
use patchwright_task::{attempts, replay};

/// Run a journal again, offline: recorded model replies, real tools
///
/// Starts the same base commit in a fresh sandbox, feeds the recorded replies to the agent, runs the
/// tools for real, and compares the tree that comes out with the recorded one. Exits 0 when they are
/// the same and 20 when they differ.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: its id, its folder, or its journal.jsonl
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Repository to take the base commit from [default: the run's clone mirror or repository]
    #[arg(long, env = "PATCHWRIGHT_REPO", value_name = "PATH|URL")]
    pub repo: Option<String>,

    /// Where commands run [default: as recorded]
    #[arg(long, env = "PATCHWRIGHT_SANDBOX", value_name = "KIND")]
    pub sandbox: Option<SandboxChoice>,

    /// Folder that has the runs [default: ~/.local/state/patchwright]
    #[arg(long, env = "PATCHWRIGHT_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let state = args.state_dir.clone().unwrap_or_else(|| env.state_dir());
    let journal = attempts::conversation(&locate(&args.run, &state)?)?;
    let replayed =
        Box::pin(replay::run(&journal, args.repo.as_deref(), args.sandbox, &state, env, ui))
            .await?;
    ui.data(&format!("{}\nrecorded tree {}", replayed.summary(), replayed.recorded));
    Ok(if replayed.is_same() {
        0
    } else {
        patchwright_base::error::FailureKind::Partial.exit_code()
    })
}

/// Finds the journal of a run given by id, folder or file.
pub(super) fn locate(run: &str, state: &std::path::Path) -> Result<PathBuf> {
    let given = PathBuf::from(run);
    let candidates = [
        given.clone(),
        given.join(journal::FILE),
        state.join("runs").join(run).join(journal::FILE),
    ];
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Failure::usage(format!("there is no run `{run}`"))
            .hint(format!("runs are folders in {}", state.join("runs").display()))
    })
}
