//! The run's `journal.jsonl`: every item and every side effect, appended and flushed before the next
//! step. Resume, replay, reports, cost and evidence are views of it.
//!
//! One JSON object a line: `{"seq":…,"at":…,"is":…,…}`. A torn last line (power cut) is dropped on
//! reading and cut off on opening. The file is created with mode 0600 and locked while it is open for
//! writing, so two processes cannot work on one run. Everything passes through redaction on its way
//! in. What the entries mean is decided by their readers; nothing here interprets them.

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compact::Trigger;
use crate::clock::Clock;
use crate::egress::ledger::HostUse;
use crate::error::{Failure, Result};
use crate::provider::Reply;
use crate::provider::item::{CallOutput, Item, Usage};
use crate::review::finding::Finding;
use crate::task::outcome::Outcome;
use crate::task::plan::Plan;
use crate::task::{Limits, Task};
use crate::tools::dispatch::Fault;
use crate::verify::CheckRun;

/// Name of the file in the run's folder.
pub const FILE: &str = "journal.jsonl";

/// Largest line, in bytes. Replies and outputs are bounded far below it.
pub const MAX_LINE: usize = 64 << 20;

/// Largest journal that is read, in bytes.
pub const MAX_JOURNAL: u64 = 1 << 30;

/// Takes our own secrets out of a text. Called with every string that goes into the journal.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// One line of the journal, without its sequence number and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "written one at a time, never kept in numbers")]
pub enum Entry {
    /// First line.
    RunStarted {
        run: String,
        version: String,
        task: Task,
        /// The resolved configuration without secrets, for replay and for comparing on resume.
        config: Value,
    },
    /// The base commit, its branch, and the image were pinned.
    WorkspaceOpened {
        base: String,
        branch: String,
        image: String,
        /// Our bare repository that has the base commit.
        #[serde(default)]
        repository: String,
    },
    /// Instructions and declared tools: what the first request is made of besides items. Once more,
    /// without items, when a run goes on with another model or other tools.
    Prompted {
        instructions: String,
        tools: Value,
        items: Vec<Item>,
        /// The tool profile in which calls are understood from here on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// A reply arrived completely.
    Replied {
        turn: u32,
        reply: Reply,
        cost_usd: f64,
    },
    /// A request brought no reply, but attempts at it had begun to be answered and may be billed.
    Lost {
        usage: Usage,
        cost_usd: f64,
    },
    /// A call is about to run.
    CallStarted {
        turn: u32,
        id: String,
        name: String,
        writes: bool,
        /// What it runs with, when a hook changed what the model wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// A call from inside another one is about to run.
    NestedStarted {
        /// The id of the call that makes it.
        outer: String,
        /// Counts the calls of that one, from 1.
        number: u32,
        name: String,
        arguments: Value,
        writes: bool,
    },
    /// It has run; what it answered went to the call that made it.
    NestedEnded {
        outer: String,
        number: u32,
        success: bool,
        duration_ms: u64,
        /// Bytes that it answered.
        bytes: u64,
    },
    /// A call has run.
    CallEnded {
        turn: u32,
        output: CallOutput,
        duration_ms: u64,
        /// Why the call could not even be run; counted, so that a model that cannot form a call is
        /// stopped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
        /// Of a tool that ran a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// A hook did not let it run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
    },
    /// The conversation was shortened: from here on it is `items`.
    Compacted {
        trigger: Trigger,
        /// Tokens before and after, as estimated.
        before: u64,
        after: u64,
        /// The answers to the requests for notes; `null` where the request was refused as too long.
        replies: Vec<Option<Reply>>,
        cost_usd: f64,
        items: Vec<Item>,
    },
    /// Items added by the harness (nudges, check failures).
    Added {
        items: Vec<Item>,
    },
    PlanUpdated {
        plan: Plan,
    },
    /// The model reported a finding.
    Found {
        finding: Finding,
    },
    /// Lines of a changed file's difference were shown to the model; the first one is 0.
    Shown {
        path: String,
        from: usize,
        /// After the last one.
        to: usize,
    },
    /// A check ran; `when` is `base`, `loop` or `head`.
    Checked {
        when: String,
        run: CheckRun,
    },
    /// The agent stopped.
    Stopped {
        reason: String,
        final_message: String,
    },
    /// What the run has reached over the network by now, and what was refused, by host.
    Reached {
        hosts: Vec<HostUse>,
    },
    /// What was collected: the tree id and the path of the stored change.
    Collected {
        tree: String,
        files: usize,
    },
    /// A write to the forge is about to happen: `push`, `pull_request`, `comment`, …
    EffectIntended {
        effect: String,
        key: String,
        detail: Value,
    },
    /// It happened; `detail` has ids and links.
    EffectDone {
        effect: String,
        key: String,
        detail: Value,
    },
    /// Last line of a run that came to an end.
    RunEnded {
        outcome: Box<Outcome>,
    },
    /// An entry of a sub-agent. It is about that agent alone: its conversation, its calls, its plan.
    Lane {
        agent: String,
        entry: Box<Entry>,
    },
    /// In a lane, first: a call has started the agent.
    Spawned {
        /// Id of the call.
        call: String,
        /// As which kind of agent.
        kind: String,
        /// What is asked for it, as in the catalogue.
        model: String,
        /// Its own limits, inside the run's.
        limits: Limits,
        /// What it is to do.
        message: String,
    },
    /// In a lane: a call has sent a message, which waits until the agent can take it.
    Sent {
        call: String,
        text: String,
        /// What the agent is doing is given up for it.
        interrupt: bool,
    },
    /// In a lane: the agent has taken messages that were sent to it.
    Told {
        messages: usize,
        items: Vec<Item>,
    },
    /// In a lane: a call was given up before it had ended, for the agent was interrupted or closed.
    CallDropped {
        turn: u32,
        output: CallOutput,
    },
    /// In a lane: the agent works no more, until it is opened again.
    Closed,
    /// In a lane: it takes messages again.
    Reopened,
    /// Something worth keeping that nothing depends on.
    Note {
        text: String,
    },
}

impl Entry {
    /// The entry, and the sub-agent that it is about; of the run itself none.
    pub fn of_agent(&self) -> (Option<&str>, &Entry) {
        match self {
            Entry::Lane { agent, entry } => (Some(agent), entry),
            entry => (None, entry),
        }
    }

    /// What the run's own model had answered by this entry, in order; `None` for a request that was
    /// refused as too long.
    pub fn replies(&self) -> Vec<Option<&Reply>> {
        match self {
            Entry::Replied { reply, .. } => vec![Some(reply)],
            Entry::Compacted { trigger, replies, .. } => {
                let refused = (*trigger == Trigger::Overflow).then_some(None);
                refused.into_iter().chain(replies.iter().map(Option::as_ref)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The entries that must be on the disk, not only with the operating system, before the next
    /// step: what costs money or is seen by others.
    fn must_be_durable(&self) -> bool {
        matches!(
            self,
            Entry::Replied { .. }
                | Entry::Compacted { .. }
                | Entry::Lost { .. }
                | Entry::EffectIntended { .. }
                | Entry::EffectDone { .. }
                | Entry::RunEnded { .. }
        )
    }
}

/// A recorded entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Counts from 1, without gaps.
    pub seq: u64,
    pub at: DateTime<Utc>,
    #[serde(flatten)]
    pub entry: Entry,
}

/// The journal of one run, open for appending. Shared by reference; appending is atomic.
pub struct Journal {
    file: Arc<Opened>,
    /// The sub-agent whose entries come through here; `None` for the run's own.
    lane: Option<String>,
}

/// The file behind a journal and its lanes.
struct Opened {
    path: PathBuf,
    clock: Clock,
    redact: Redact,
    tail: Mutex<Tail>,
}

/// The end of the file.
struct Tail {
    file: fs_err::File,
    /// Bytes of complete lines.
    length: u64,
    seq: u64,
    /// Set when a failed write could not be taken back: the file must not grow any more.
    broken: bool,
}

impl Journal {
    /// Starts the journal of a new run in `dir`, which is made (mode 0700) when absent. Fails when
    /// there is a journal already.
    pub fn create(dir: &Path, clock: Clock, redact: Redact) -> Result<Journal> {
        let path = dir.join(FILE);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|err| unusable(&path, err))?;
        let mut options = std::fs::OpenOptions::new();
        options.append(true).read(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(|err| unusable(&path, err))?;
        lock(&file, &path)?;
        let folder = std::fs::File::open(dir).map_err(|err| unusable(dir, err))?;
        folder.sync_all().map_err(|err| unusable(dir, err))?;
        let file = fs_err::File::from_parts(file, &path);
        let tail = Mutex::new(Tail { file, length: 0, seq: 0, broken: false });
        Ok(Journal { file: Arc::new(Opened { path, clock, redact, tail }), lane: None })
    }

    /// Opens the journal in `dir` to go on with it: a torn last line is cut off, the complete lines
    /// are returned.
    pub fn open(dir: &Path, clock: Clock, redact: Redact) -> Result<(Journal, Vec<Line>)> {
        let path = dir.join(FILE);
        let mut options = std::fs::OpenOptions::new();
        let file =
            options.append(true).read(true).open(&path).map_err(|err| unusable(&path, err))?;
        lock(&file, &path)?;
        let mut file = fs_err::File::from_parts(file, &path);
        let contents = contents(&mut file, &path)?;
        let (lines, length) = parse(&contents, &path)?;
        if length < contents.len() as u64 {
            file.set_len(length).map_err(|err| unusable(&path, err))?;
        }
        let seq = lines.last().map_or(0, |line| line.seq);
        let tail = Mutex::new(Tail { file, length, seq, broken: false });
        let file = Arc::new(Opened { path, clock, redact, tail });
        Ok((Journal { file, lane: None }, lines))
    }

    /// The same journal for the entries of a sub-agent.
    #[must_use]
    pub fn lane(&self, agent: &str) -> Journal {
        Journal { file: Arc::clone(&self.file), lane: Some(agent.to_owned()) }
    }

    /// Writes one entry and returns its sequence number. When this returns, the entry is with the
    /// operating system; what costs money or is seen by others is on the disk.
    ///
    /// # Errors
    /// The disk's, as a failure of this machine. A line is written wholly or not at all.
    pub fn append(&self, entry: &Entry) -> Result<u64> {
        let file = &self.file;
        let mut tail = file.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = tail.seq + 1;
        let line = match &self.lane {
            None => self.line(seq, entry)?,
            Some(agent) => {
                let (agent, entry) = (agent.clone(), Box::new(entry.clone()));
                self.line(seq, &Entry::Lane { agent, entry })?
            }
        };
        if tail.broken {
            return Err(Failure::machine(format!(
                "`{}` cannot be continued after a failed write",
                file.path.display()
            )));
        }
        let written = tail.write(&line, entry.must_be_durable());
        written.map_err(|err| unusable(&file.path, err))?;
        tail.seq = seq;
        Ok(seq)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Takes our own secrets out of a text, as for everything that is written here.
    pub fn redact(&self, text: &str) -> String {
        (self.file.redact)(text)
    }

    fn line(&self, seq: u64, entry: &Entry) -> Result<Vec<u8>> {
        let at = self.file.clock.now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut object = serde_json::Map::new();
        object.insert("seq".to_owned(), seq.into());
        object.insert("at".to_owned(), at.into());
        let body = serde_json::to_value(entry)
            .map_err(|err| Failure::internal("a journal entry is not JSON").caused_by(err))?;
        if let Value::Object(fields) = body {
            object.extend(fields);
        }
        let mut value = Value::Object(object);
        redact_strings(&mut value, &self.file.redact);
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        if line.len() > MAX_LINE {
            return Err(Failure::internal(format!(
                "a journal entry has {} bytes, more than the {MAX_LINE} allowed",
                line.len()
            )));
        }
        Ok(line)
    }
}

impl Tail {
    fn write(&mut self, line: &[u8], durable: bool) -> std::io::Result<()> {
        let written = self.file.write_all(line).and_then(|()| {
            if durable { off_the_runtime(|| self.file.sync_data()) } else { Ok(()) }
        });
        match written {
            Ok(()) => self.length += line.len() as u64,
            // A torn line in the middle would make the whole journal unreadable.
            Err(_) => self.broken = self.file.set_len(self.length).is_err(),
        }
        written
    }
}

/// Reads a journal without changing it. A torn last line is left out.
///
/// # Errors
/// When the file cannot be read, is larger than [`MAX_JOURNAL`], or is damaged before its last line.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let mut file = fs_err::File::open(path).map_err(|err| unusable(path, err))?;
    Ok(parse(&contents(&mut file, path)?, path)?.0)
}

fn contents(file: &mut fs_err::File, path: &Path) -> Result<Vec<u8>> {
    let size = file.metadata().map_err(|err| unusable(path, err))?.len();
    if size > MAX_JOURNAL {
        return Err(Failure::machine(format!(
            "`{}` has {size} bytes, more than the {MAX_JOURNAL} that are read",
            path.display()
        )));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.seek(SeekFrom::Start(0)).map_err(|err| unusable(path, err))?;
    file.take(size).read_to_end(&mut bytes).map_err(|err| unusable(path, err))?;
    Ok(bytes)
}

/// The complete lines and their length in bytes.
fn parse(bytes: &[u8], path: &Path) -> Result<(Vec<Line>, u64)> {
    let mut lines: Vec<Line> = Vec::new();
    let mut length = 0;
    for raw in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = length + raw.len();
        let is_last = end == bytes.len();
        let expected = lines.len() as u64 + 1;
        let parsed = match raw.strip_suffix(b"\n") {
            Some(text) => serde_json::from_slice::<Line>(text).map_err(anyhow::Error::from),
            None => break,
        };
        match parsed {
            Ok(line) if line.seq == expected => lines.push(line),
            // Blocks of a file may reach the disk out of order, so a torn line can have its end.
            Err(_) if is_last => break,
            Ok(line) => {
                let cause = anyhow::anyhow!("line {expected} has number {}", line.seq);
                return Err(damaged(path, expected, cause));
            }
            Err(err) => return Err(damaged(path, expected, err)),
        }
        length = end;
    }
    Ok((lines, length as u64))
}

fn damaged(path: &Path, line: u64, cause: anyhow::Error) -> Failure {
    Failure::machine(format!("the journal is damaged at line {line}: `{}`", path.display()))
        .caused_by(cause)
        .hint("start a new run; another version of patchwright may have written this one")
}

fn unusable(path: &Path, err: std::io::Error) -> Failure {
    let hint = match err.kind() {
        std::io::ErrorKind::AlreadyExists => "this run has been started before; resume it instead",
        std::io::ErrorKind::NotFound => "check the run id and `--state-dir`",
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "free some space, or point `--state-dir` at another disk, and run again: it resumes"
        }
        _ => "check that `--state-dir` is a folder that you may write to",
    };
    Failure::machine(format!("cannot use the journal `{}`", path.display()))
        .caused_by(err)
        .hint(hint)
}

fn lock(file: &std::fs::File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Failure::machine(format!("another process works on `{}`", path.display()))
                .hint("wait for it, or stop it first"))
        }
        Err(std::fs::TryLockError::Error(err)) => Err(unusable(path, err)),
    }
}

/// Waiting for the disk must not hold up other runs on this thread.
fn off_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn redact_strings(value: &mut Value, redact: &Redact) {
    match value {
        Value::String(text) => {
            let clean = redact(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| redact_strings(value, redact)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| redact_strings(value, redact));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
