//! How far the unfinished runs of this machine are, read from their journals. The server's dashboard asks
//! again and again, so only what a journal has gained since is read.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use chrono::{DateTime, Utc};
use fs_err as fs;
use serde::Deserialize;

use patchwright_journal as journal;
use patchwright_journal::{Entry, Line};

/// Unfinished runs that are looked at, and bytes of a journal that one look reads.
const MOST_RUNS: usize = 64;
const MOST_BYTES: u64 = journal::MAX_LINE as u64 + 1;

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
    /// Of the last entry that was read.
    pub at: DateTime<Utc>,
}

/// What was read so far. Runs that are gone are forgotten.
#[derive(Default)]
pub struct LiveRuns(Mutex<HashMap<String, Reading>>);

#[derive(Clone)]
struct Reading {
    /// Bytes of complete lines.
    offset: u64,
    progress: RunProgress,
}

/// The fields of an entry that progress is made of; the rest, which may be long, is skipped.
#[derive(Deserialize)]
struct Glance {
    at: Option<DateTime<Utc>>,
    is: String,
    turn: Option<u32>,
    cost_usd: Option<f64>,
    name: Option<String>,
    entry: Option<Box<Glance>>,
}

impl LiveRuns {
    /// The unfinished runs in a state folder. Blocks on the disk.
    pub fn look(&self, state: &Path) -> Vec<RunProgress> {
        let mut known = self.0.lock();
        let mut now = HashMap::new();
        for run in unfinished(state) {
            let path = state.join("runs").join(&run).join(journal::FILE);
            let reading = read_on(&path, &run, known.remove(&run));
            if let Some(reading) = reading {
                now.insert(run, reading);
            }
        }
        let mut found: Vec<RunProgress> =
            now.values().map(|reading| reading.progress.clone()).collect();
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

/// Reads what is new. A journal that cannot be read has no progress: the run itself says why.
fn read_on(path: &Path, run: &str, known: Option<Reading>) -> Option<Reading> {
    let mut file = fs::File::open(path).ok()?;
    file.seek(SeekFrom::Start(known.as_ref().map_or(0, |known| known.offset))).ok()?;
    let mut lines = BufReader::new(file.take(MOST_BYTES));
    let mut reading = match known {
        Some(known) => known,
        None => begin(&mut lines, run)?,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without its end is still being written.
        if lines.read_until(b'\n', &mut line).ok()? == 0 || line.last() != Some(&b'\n') {
            return Some(reading);
        }
        reading.offset += line.len() as u64;
        if let Ok(glance) = serde_json::from_slice::<Glance>(&line) {
            reading.progress.note(&glance);
        }
    }
}

/// The first line says what the run is about.
fn begin(lines: &mut impl BufRead, run: &str) -> Option<Reading> {
    let mut line = Vec::new();
    lines.read_until(b'\n', &mut line).ok()?;
    let first: Line = serde_json::from_slice(&line).ok()?;
    let Entry::RunStarted { task, .. } = first.entry else { return None };
    let progress = RunProgress {
        run: run.to_owned(),
        subject: task.kind.subject(),
        started: first.at,
        phase: "starting",
        turn: 0,
        cost_usd: 0.0,
        last_call: None,
        at: first.at,
    };
    Some(Reading { offset: line.len() as u64, progress })
}

impl RunProgress {
    fn note(&mut self, glance: &Glance) {
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
            "stopped" | "collected" => "judging the change",
            "effect_intended" | "effect_done" => "publishing",
            "run_ended" => "ended",
            _ => self.phase,
        };
    }
}
