//! The run's `journal.jsonl`: every item and every side effect, appended and flushed before the next
//! step. Resume, replay, reports, cost and evidence are views of it.
//!
//! One JSON object a line: `{"seq":…,"at":…,"is":…,…}`. A torn last line (power cut) is dropped on reading and cut off
//! on opening; a journal with a whole line that this version does not know is refused, and left as it is. The file is
//! created with mode 0600 and locked while it is open for writing, so two processes cannot work on one run. Everything
//! passes through redaction on its way in. What the entries mean is decided by their readers; nothing here interprets
//! them.

mod clean;
mod entry;
pub mod follow;
mod format;
mod not_recorded;
mod observer;

use parking_lot::Mutex;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::clean::redact_strings;
pub use self::entry::{Entry, SandboxBasis};
pub use self::format::FORMAT;
pub use self::not_recorded::NotRecorded;
pub use self::observer::{Observer, WrittenLine};
use patchwright_base::clock::Clock;
use patchwright_base::error::{Failure, Result};

/// Name of the file in the run's folder.
pub const FILE: &str = "journal.jsonl";

/// Largest line, in bytes. Replies and outputs are bounded far below it.
pub const MAX_LINE: usize = 64 << 20;

/// Largest journal that is read, in bytes.
pub const MAX_JOURNAL: u64 = 1 << 30;

/// Takes our own secrets out of a text. Called with every string that goes into the journal.
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

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
    file: Arc<JournalFile>,
    /// The sub-agent whose entries come through here; `None` for the run's own.
    lane: Option<String>,
}

/// The file behind a journal and its lanes.
struct JournalFile {
    path: PathBuf,
    clock: Clock,
    redact: Redact,
    tail: Mutex<Tail>,
    observer: OnceLock<Arc<dyn Observer>>,
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
        // The file's name is an entry of the folder, which a power cut could lose although the file
        // itself was flushed.
        folder.sync_all().map_err(|err| unusable(dir, err))?;
        let file = fs_err::File::from_parts(file, &path);
        let tail = Mutex::new(Tail { file, length: 0, seq: 0, broken: false });
        let file = JournalFile { path, clock, redact, tail, observer: OnceLock::new() };
        Ok(Journal { file: Arc::new(file), lane: None })
    }

    /// Opens the journal in `dir` to continue it: a last line without an end, which a power cut leaves, is cut off,
    /// the complete lines are returned.
    pub fn open(dir: &Path, clock: Clock, redact: Redact) -> Result<(Journal, Vec<Line>)> {
        let path = dir.join(FILE);
        let mut options = std::fs::OpenOptions::new();
        let file =
            options.append(true).read(true).open(&path).map_err(|err| unusable(&path, err))?;
        lock(&file, &path)?;
        let mut file = fs_err::File::from_parts(file, &path);
        let contents = contents(&mut file, &path)?;
        let (lines, length) = parse(&contents, &path)?;
        // Appending behind a torn line would damage the new line as well.
        if length < contents.len() as u64 {
            file.set_len(length).map_err(|err| unusable(&path, err))?;
        }
        let seq = lines.last().map_or(0, |line| line.seq);
        let tail = Mutex::new(Tail { file, length, seq, broken: false });
        let file = JournalFile { path, clock, redact, tail, observer: OnceLock::new() };
        Ok((Journal { file: Arc::new(file), lane: None }, lines))
    }

    /// Lets somebody watch what is written from here on, in all lanes. The first observer stays the only one.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let _ = self.file.observer.set(observer);
    }

    /// This journal as a sub-agent writes to it: its entries carry the agent's id.
    #[must_use]
    pub fn lane(&self, agent: &str) -> Journal {
        Journal { file: Arc::clone(&self.file), lane: Some(agent.to_owned()) }
    }

    /// The run's own journal, of whatever lane this is.
    #[must_use]
    pub fn of_run(&self) -> Journal {
        Journal { file: Arc::clone(&self.file), lane: None }
    }

    /// The sub-agent whose entries come through here.
    pub fn agent(&self) -> Option<&str> {
        self.lane.as_deref()
    }

    /// Writes one entry and returns its sequence number. When this returns, the entry is with the
    /// operating system; what costs money or is seen by others is on the disk.
    ///
    /// # Errors
    /// The disk's, as a failure of this machine. A line is written wholly or not at all.
    pub fn append(&self, entry: &Entry) -> Result<u64> {
        self.write(entry, entry.must_be_durable())
    }

    /// [`Journal::append`] of an entry that is on the disk in any case when this returns.
    ///
    /// # Errors
    /// The disk's, as a failure of this machine. A line is written wholly or not at all.
    pub fn append_durably(&self, entry: &Entry) -> Result<u64> {
        self.write(entry, true)
    }

    fn write(&self, entry: &Entry, is_durable: bool) -> Result<u64> {
        let file = &self.file;
        let mut tail = file.tail.lock();
        let seq = tail.seq + 1;
        let at = file.clock.now();
        let line = match &self.lane {
            None => self.line(seq, at, entry)?,
            Some(agent) => {
                let (agent, entry) = (agent.clone(), Box::new(entry.clone()));
                self.line(seq, at, &Entry::Lane { agent, entry })?
            }
        };
        if tail.broken {
            return Err(Failure::machine(format!(
                "`{}` cannot be continued after a failed write",
                file.path.display()
            )));
        }
        let written = tail.write(&line, is_durable);
        written.map_err(|err| unusable(&file.path, err))?;
        tail.seq = seq;
        if let Some(observer) = file.observer.get() {
            let (agent, entry) = match (&self.lane, entry.of_agent()) {
                (Some(agent), (_, entry)) => (Some(agent.as_str()), entry),
                (None, of_agent) => of_agent,
            };
            observer.wrote(&WrittenLine { at, agent, entry });
        }
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

    fn line(&self, seq: u64, at: DateTime<Utc>, entry: &Entry) -> Result<Vec<u8>> {
        let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut object = serde_json::Map::new();
        object.insert("seq".to_owned(), seq.into());
        object.insert("at".to_owned(), at.into());
        let body = serde_json::to_value(entry)
            .map_err(|err| Failure::internal("a journal entry is not JSON").caused_by(err))?;
        if let Value::Object(fields) = body {
            object.extend(fields);
        }
        let mut value = Value::Object(object);
        // On the value and not on its text: a replacement inside JSON text could break its syntax.
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
            // A torn line in the middle makes the whole journal unreadable, so a failed write is
            // cut off.
            Err(_) => self.broken = self.file.set_len(self.length).is_err(),
        }
        written
    }
}

/// Takes the last line of a run that has ended away again. What the run came to was lost where it was recorded: it is as
/// if its process had died right before it wrote that line.
///
/// # Errors
/// When the file cannot be read or written, is damaged, or another process has it.
pub fn reopen(dir: &Path) -> Result<()> {
    let path = dir.join(FILE);
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).read(true).open(&path).map_err(|err| unusable(&path, err))?;
    lock(&file, &path)?;
    let mut file = fs_err::File::from_parts(file, &path);
    let contents = contents(&mut file, &path)?;
    let (lines, length) = parse(&contents, &path)?;
    if !matches!(lines.last().map(|line| &line.entry), Some(Entry::RunEnded { .. })) {
        return Ok(());
    }
    let whole = contents.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
    let before = whole.strip_suffix(b"\n").unwrap_or(whole);
    let length = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(length as u64).map_err(|err| unusable(&path, err))
}

/// Reads a journal without changing it. A last line without an end is left out.
///
/// # Errors
/// When the file cannot be read, is larger than [`MAX_JOURNAL`], or is damaged.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let mut file = fs_err::File::open(path).map_err(|err| unusable(path, err))?;
    Ok(parse(&contents(&mut file, path)?, path)?.0)
}

/// What can be read of a journal for people: the lines up to where it is damaged, and how it is.
pub fn read_until_damage(path: &Path) -> (Vec<Line>, Option<Failure>) {
    let bytes = fs_err::File::open(path)
        .map_err(|err| unusable(path, err))
        .and_then(|mut file| contents(&mut file, path));
    match bytes {
        Ok(bytes) => {
            let Parsed { lines, damage, .. } = parse_until_damage(&bytes, path);
            (lines, damage)
        }
        Err(failure) => (Vec::new(), Some(failure)),
    }
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
    // Another process may still append; what came after the size was read is left to it.
    file.take(size).read_to_end(&mut bytes).map_err(|err| unusable(path, err))?;
    Ok(bytes)
}

/// The complete lines of a journal, and their length in bytes. `path` is for messages.
///
/// # Errors
/// When one of them is damaged.
pub fn parse(bytes: &[u8], path: &Path) -> Result<(Vec<Line>, u64)> {
    let Parsed { lines, length, damage } = parse_until_damage(bytes, path);
    damage.map_or(Ok((lines, length)), Err)
}

/// The complete lines of a journal.
struct Parsed {
    lines: Vec<Line>,
    /// In bytes.
    length: u64,
    /// Why there are no more of them.
    damage: Option<Failure>,
}

fn parse_until_damage(bytes: &[u8], path: &Path) -> Parsed {
    let mut lines: Vec<Line> = Vec::new();
    let mut length = 0;
    let mut damage = None;
    for raw in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = length + raw.len();
        let is_last = end == bytes.len();
        let expected = lines.len() as u64 + 1;
        let Some(text) = raw.strip_suffix(b"\n") else { break };
        if expected == 1 {
            damage = format::newer(text, path);
        }
        if damage.is_some() {
            break;
        }
        match serde_json::from_slice::<Line>(text).map_err(anyhow::Error::from) {
            Ok(line) if line.seq == expected => lines.push(line),
            Err(err) if let Some(unknown) = format::unknown(text, expected, path, &err) => {
                damage = Some(unknown);
                break;
            }
            Ok(line) => {
                let cause = anyhow::anyhow!("line {expected} has number {}", line.seq);
                damage = Some(damaged(path, expected, cause));
                break;
            }
            Err(err) => {
                // What it recorded may have been done: a command that was begun is not to be begun again in silence.
                let failure = damaged(path, expected, err);
                damage = Some(if is_last { failure.hint(LAST_LINE) } else { failure });
                break;
            }
        }
        length = end;
    }
    Parsed { lines, length: length as u64, damage }
}

/// What else can be done about damage of the last line.
const LAST_LINE: &str = "it is the last line: without it the run is resumed from the line before, and does again what that line \
                         recorded, such as a command that had begun";

fn damaged(path: &Path, line: u64, cause: anyhow::Error) -> Failure {
    Failure::machine(format!("the journal is damaged at line {line}: `{}`", path.display()))
        .caused_by(cause)
        .hint(format!(
            "nothing was changed, and the run is not resumed: move its folder `{}` away to begin anew, or put an \
             undamaged journal in this one's place",
            path.parent().unwrap_or(path).display()
        ))
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

/// Whether a process has the journal in this folder open to write.
pub fn is_open(folder: &Path) -> bool {
    let Ok(file) = std::fs::File::open(folder.join(FILE)) else { return false };
    matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
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
