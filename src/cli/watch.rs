//! `patchwright watch`: a run as it goes, or as it went, by its journal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_journal::follow::Follower;
use patchwright_report::watch::Watched;

use super::replay;

/// How often the journal is looked at.
const PAUSE: Duration = Duration::from_millis(300);

/// Show what a run does, line by line, until it ends
///
/// Reads the run's journal and nothing else: it works for a run of another process, and for one that is
/// over. Interrupting it does not touch the run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: its id, its folder, or its journal.jsonl [default: the newest]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,

    /// Show what there is by now and end
    #[arg(long, env = "PATCHWRIGHT_NO_FOLLOW")]
    pub no_follow: bool,

    /// Folder that has the runs [default: ~/.local/state/patchwright]
    #[arg(long, env = "PATCHWRIGHT_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<()> {
    let state = args.state_dir.clone().unwrap_or_else(|| env.state_dir());
    let path = match &args.run {
        Some(run) => replay::locate(run, &state)?,
        None => newest(&state.join("runs"))?,
    };
    let (mut journal, mut watched) = (Follower::new(path), Watched::default());
    loop {
        let gained = journal.lines()?;
        if gained.starts_over {
            watched = Watched::default();
        }
        let is_at_end = gained.lines.is_empty();
        for line in gained.lines {
            watched.lines(&line?).iter().for_each(|line| ui.data(line));
        }
        if watched.is_over || (is_at_end && args.no_follow) {
            return Ok(());
        }
        if is_at_end {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The journal that was written to last.
fn newest(runs: &Path) -> Result<PathBuf> {
    let entries = fs_err::read_dir(runs).into_iter().flatten().flatten();
    let journals = entries.filter_map(|entry| {
        let path = entry.path().join(patchwright_journal::FILE);
        let modified = fs_err::metadata(&path).ok()?.modified().ok()?;
        Some((modified, path))
    });
    journals.max().map(|(_, path)| path).ok_or_else(|| {
        Failure::usage(format!("there are no runs in `{}`", runs.display()))
            .hint("name a run's folder, or the folder with the runs by `--state-dir`")
    })
}
