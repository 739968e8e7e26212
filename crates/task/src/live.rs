//! How far the unfinished runs of this machine are, read from their journals, for the server's dashboard.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use fs_err as fs;
use serde::Deserialize;

use patchwright_journal as journal;
use patchwright_journal::follow::Follower;
use patchwright_types::task::Task;

/// Unfinished runs that are looked at.
const MOST_RUNS: usize = 64;

/// Where a run is.
#[derive(Clone, Debug, PartialEq)]
pub struct RunProgress {
    pub run: String,
    /// What it is about, such as `acme/web#7`.
    pub subject: String,
    pub started: DateTime<Utc>,
    /// What it is doing, in a word or two.
    pub phase: &'static str,
    pub turn: u32,
    /// Sub-agents included.
    pub cost_usd: f64,
    /// The tool that was called last.
    pub last_call: Option<String>,
    /// When the last entry was written that was read.
    pub at: DateTime<Utc>,
}

/// What was read so far. Runs that are gone are forgotten.
#[derive(Default)]
pub struct LiveRuns(Mutex<HashMap<String, FollowedRun>>);

struct FollowedRun {
    journal: Follower,
    /// `None` while there is no complete line.
    progress: Option<RunProgress>,
}

/// The fields of an entry that progress is made of; the rest, which may be long, is skipped.
#[derive(Deserialize)]
struct ProgressFields {
    at: Option<DateTime<Utc>>,
    is: String,
    turn: Option<u32>,
    cost_usd: Option<f64>,
    name: Option<String>,
    entry: Option<Box<ProgressFields>>,
    /// The task; only the first entry has one.
    task: Option<Task>,
}

impl LiveRuns {
    /// The unfinished runs in a state folder. Blocks on the disk.
    pub fn look(&self, state: &Path) -> Vec<RunProgress> {
        let mut known = self.0.lock();
        let mut now = HashMap::new();
        for run in unfinished(state) {
            let path = state.join("runs").join(&run).join(journal::FILE);
            let fresh = || FollowedRun { journal: Follower::new(path), progress: None };
            let mut reading = known.remove(&run).unwrap_or_else(fresh);
            if reading.look(&run).is_some() {
                now.insert(run, reading);
            }
        }
        let mut found: Vec<RunProgress> =
            now.values().filter_map(|reading| reading.progress.clone()).collect();
        *known = now;
        found.sort_by_key(|progress| progress.started);
        found
    }
}

/// The runs that the pointers of unfinished work name.
fn unfinished(state: &Path) -> Vec<String> {
    let Ok(pointers) = fs::read_dir(state.join("unfinished")) else { return Vec::new() };
    let is_plain = |run: &String| {
        !run.is_empty() && run.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let named = pointers.flatten().filter_map(|pointer| fs::read_to_string(pointer.path()).ok());
    named.filter(is_plain).take(MOST_RUNS).collect()
}

impl FollowedRun {
    /// Reads what is new. A journal that cannot be read has no progress: the run itself says why.
    fn look(&mut self, run: &str) -> Option<()> {
        let gained = self.journal.views::<ProgressFields>().ok()?;
        if gained.starts_over {
            self.progress = None;
        }
        for glance in gained.lines.into_iter().flatten() {
            match &mut self.progress {
                Some(progress) => progress.note(&glance),
                None => self.progress = Some(begin(glance, run)?),
            }
        }
        Some(())
    }
}

/// The first line says what the run is about.
fn begin(first: ProgressFields, run: &str) -> Option<RunProgress> {
    let (started, task) = (first.at?, first.task?);
    Some(RunProgress {
        run: run.to_owned(),
        subject: task.kind.subject(),
        started,
        phase: "starting",
        turn: 0,
        cost_usd: 0.0,
        last_call: None,
        at: started,
    })
}

impl RunProgress {
    fn note(&mut self, glance: &ProgressFields) {
        self.at = glance.at.unwrap_or(self.at);
        self.cost_usd += glance.cost_usd.unwrap_or_default();
        if let Some(entry) = &glance.entry {
            self.cost_usd += entry.cost_usd.unwrap_or_default();
            return;
        }
        self.turn = glance.turn.unwrap_or(self.turn);
        if let (Some(name), "call_started") = (&glance.name, glance.is.as_str()) {
            self.last_call = Some(name.clone());
        }
        self.phase = match glance.is.as_str() {
            "workspace_opened" | "set_up_again" => "preparing the workspace",
            "prompted" | "replied" | "call_ended" | "compacted" => "asking the model",
            "call_started" => "running a tool",
            "checked" => "running checks",
            "attempt_started" | "attempt_ended" => "making attempts",
            "stopped" | "collected" | "selected" => "judging the change",
            "effect_intended" | "effect_done" => "publishing",
            "run_ended" => "ended",
            _ => self.phase,
        };
    }
}
