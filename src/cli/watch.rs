//! `patchwright watch`: a run as it goes, or as it went, by its journal.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_journal as journal;
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
    let (mut watched, mut shown, mut size) = (Watched::default(), 0, 0);
    loop {
        let began = Instant::now();
        let now = fs_err::metadata(&path).map_or(size, |file| file.len());
        if now != size || shown == 0 {
            size = now;
            let lines = journal::read(&path)?;
            for line in lines.iter().skip(shown) {
                watched.lines(line).iter().for_each(|line| ui.data(line));
            }
            shown = lines.len();
        }
        if watched.is_over || args.no_follow {
            return Ok(());
        }
        // A long journal takes a while to read, which must not become all that this does.
        tokio::time::sleep(PAUSE.max(5 * began.elapsed())).await;
    }
}

/// The journal that was written to last.
fn newest(runs: &Path) -> Result<PathBuf> {
    let entries = fs_err::read_dir(runs).into_iter().flatten().flatten();
    let journals = entries.filter_map(|entry| {
        let path = entry.path().join("journal.jsonl");
        let modified = fs_err::metadata(&path).ok()?.modified().ok()?;
        Some((modified, path))
    });
    journals.max().map(|(_, path)| path).ok_or_else(|| {
        Failure::usage(format!("there are no runs in `{}`", runs.display()))
            .hint("name a run's folder, or the folder with the runs by `--state-dir`")
    })
}
