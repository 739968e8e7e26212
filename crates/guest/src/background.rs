//! What the commands of a model leave running: servers, watchers, a build that takes longer than a call may.
//!
//! A process that a command has put into the background stays when the command has ended, with its launcher.
//! What it writes from then on goes into a file, of which the beginning is kept. It ends like a session: when
//! the model ends it, before the tree is collected, and at the latest with the guest.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::Pid;

use super::descendants;
use super::keeper::Keeper;
use super::launch::Streams;
use super::pipe;
use super::process::{
    Ending, KILL_TIMEOUT, Processes, Running, Sink, Spec, cannot_start, milliseconds,
};
use super::quota::Inside;
use super::terminal::Terminal;
use crate::tool::{CommandOutput, ToolError};

/// Most commands that have left something running.
const MAX_LEFT: usize = 32;
/// Most processes that one command may leave. A fork bomb would leave no room for the next command.
pub(super) const MAX_PROCESSES: usize = 128;
/// Bytes of a log; what comes later is taken and thrown away, so that nothing waits for a full pipe.
const MAX_LOG: u64 = 16 << 20;
/// How often a thread checks whether it should end.
pub(super) const PACE: Duration = Duration::from_millis(200);
/// What a thread needs.
pub(super) const STACK: usize = 128 << 10;
/// Processes that are named.
const NAMED: usize = 5;
/// Characters of a command line.
const LABEL: usize = 60;

/// What was left running.
#[derive(Debug, Default)]
pub(super) struct Background(Mutex<Vec<Arc<Left>>>);

/// What one command left.
#[derive(Debug)]
pub(super) struct Left {
    is_cut: AtomicBool,
    /// Dropping it ends the processes.
    lifeline: Mutex<Option<PipeWriter>>,
    is_over: AtomicBool,
}

impl Left {
    pub(super) fn has_ended(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// It is to end.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        *self.lifeline.lock() = None;
    }
}

impl Background {
    /// Where the output goes, and room for one more.
    pub(super) fn log(&self, tmp: &Path) -> Option<(PathBuf, Log)> {
        let mut table = self.0.lock();
        table.retain(|left| !left.is_over.load(Ordering::Relaxed));
        if table.len() >= MAX_LEFT {
            return None;
        }
        (1..1000).find_map(|number| {
            let path = tmp.join(format!("background-{number}.log"));
            let file = File::options().write(true).create_new(true).open(&path).ok()?;
            Some((path, Log { file, room: MAX_LOG }))
        })
    }

    pub(super) fn keep(&self, lifeline: Option<PipeWriter>) -> Arc<Left> {
        let lifeline = Mutex::new(lifeline);
        let (is_cut, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let left = Arc::new(Left { is_cut, lifeline, is_over });
        self.0.lock().push(Arc::clone(&left));
        left
    }

    /// Ends everything, and waits for it.
    pub(super) fn end_all(&self, until: Instant) {
        let all = std::mem::take(&mut *self.0.lock());
        for left in &all {
            left.cut();
        }
        let is_over = |left: &Arc<Left>| left.is_over.load(Ordering::Relaxed);
        while !all.iter().all(is_over) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A file that takes so much and no more.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    room: u64,
}

impl Sink for Log {
    fn push(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX));
        self.room -= count as u64;
        // The folder may be full; the command goes on all the same.
        let _ = self.file.write_all(&bytes[..count]);
    }
}

/// Says that a command has ended while something that it left runs on: the launcher's word, which comes over a socket.
#[derive(Debug)]
pub(super) struct Outlived(OwnedFd);

impl Outlived {
    /// The exit code of the command; `None` while it runs, and when it has left nothing.
    pub(super) fn code(&self) -> Option<i32> {
        let mut byte = [0];
        // It stays there, so that whoever asks again gets it, too.
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (count, _) = rustix::net::recv(&self.0, &mut byte, flags).ok()?;
        (count == byte.len()).then(|| i32::from(byte[0]))
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.code().map(|_| Ending::Ended)
    }
}

/// What lets processes run on.
#[derive(Clone, Debug)]
pub(super) struct Leaver {
    pub(super) keeper: Arc<Keeper>,
    background: Arc<Background>,
    tmp: PathBuf,
}

impl Leaver {
    /// Leaves what runs on to a thread; what the model is told about it.
    pub(super) fn leave(
        &self,
        mut running: Running,
        inside: Option<Inside>,
        kept: &mut dyn Sink,
    ) -> String {
        running.drain(kept);
        let alive = descendants::alive_below(running.pid(), &|_| false);
        let names = names(&alive);
        let is_quiet = running.output.is_none();
        if alive.is_empty() {
            self.keeper.end(running, kept);
            return String::new();
        }
        if alive.len() > MAX_PROCESSES {
            self.keeper.end(running, kept);
            return format!("{names} ended with the command: at most {MAX_PROCESSES} may go on.");
        }
        let Some((path, mut log)) = self.background.log(&self.tmp) else {
            self.keeper.end(running, kept);
            return format!("{names} ended with the command: too much runs in the background.");
        };
        let left = self.background.keep(running.hand_over(PACE));
        let keeper = Arc::clone(&self.keeper);
        let pump = std::thread::Builder::new().name("background".to_owned()).stack_size(STACK);
        let kept_left = Arc::clone(&left);
        let spawned = pump.spawn(move || {
            follow_to_the_end(&keeper, running, &mut log);
            drop(inside);
            kept_left.has_ended();
        });
        if spawned.is_err() {
            left.cut();
            return format!("{names} ended with the command: no thread can be started.");
        }
        if is_quiet {
            let _ = fs_err::remove_file(path);
            return format!("In the background {names}.");
        }
        format!(
            "In the background {names}. What is written there from now on is in {}.",
            path.display()
        )
    }
}

impl Processes {
    /// Runs a command of the model to its end or its time limit. What it put into the background stays; the
    /// second value says so.
    ///
    /// # Errors
    /// As [`Processes::run`].
    pub fn run_leaving(
        &self,
        spec: &Spec<'_>,
        cancelled: &AtomicBool,
    ) -> Result<(CommandOutput, String), ToolError> {
        let started = Instant::now();
        let inside = self.enter()?;
        let mut kept = self.kept(spec.output_cap);
        let (mut running, outlived) = self.start_leaving(spec, None)?;
        let ending = running.follow(&mut kept, started + spec.timeout, &|_| {
            outlived.ending().or_else(|| self.interruption(cancelled))
        });
        if let (Ending::Ended, Some(code)) = (&ending, outlived.code()) {
            let note = self.leaver().leave(running, inside, &mut kept);
            self.leave(code)?;
            return Ok((kept.finish(code, milliseconds(started)), note));
        }
        let status = self.end(running, &mut kept);
        drop(inside);
        let (code, timed_out) = ending.exit_code(status)?;
        self.leave(code)?;
        let output = CommandOutput { timed_out, ..kept.finish(code, milliseconds(started)) };
        Ok((output, String::new()))
    }

    /// Starts a command that may leave processes behind, with this input or an empty one.
    pub(super) fn start_leaving(
        &self,
        spec: &Spec<'_>,
        input: Option<PipeReader>,
    ) -> Result<(Running, Outlived), ToolError> {
        let broken = |err: Errno| cannot_start(&err.into());
        let (reader, writer) = std::io::pipe().map_err(|err| cannot_start(&err))?;
        let input = if let Some(input) = input {
            OwnedFd::from(input)
        } else {
            let null = fs_err::File::open("/dev/null").map_err(|err| cannot_start(&err))?;
            OwnedFd::from(null.into_file())
        };
        let (ours, theirs) = pipe::sockets().map_err(broken)?;
        pipe::pass(&ours, input.as_fd(), writer.as_fd()).map_err(broken)?;
        let running = self.start_launcher(spec, Streams::Leaving, writer.into(), theirs, reader)?;
        Ok((running, Outlived(ours)))
    }

    /// Starts a command on a terminal, which may leave processes behind, too. The kernel has told those of them that
    /// have not been made to stay (`nohup`, `setsid`) to end.
    pub(super) fn start_on(
        &self,
        spec: &Spec<'_>,
        terminal: Terminal,
    ) -> Result<(Running, Outlived), ToolError> {
        let Terminal { near, far } = terminal;
        let (ours, theirs) = pipe::sockets().map_err(|err| cannot_start(&err.into()))?;
        let running = self.start_launcher(spec, Streams::Terminal, far, theirs, near)?;
        Ok((running, Outlived(ours)))
    }

    pub(super) fn leaver(&self) -> Leaver {
        let (keeper, background) = (Arc::clone(&self.keeper), Arc::clone(&self.background));
        Leaver { keeper, background, tmp: self.tmp() }
    }

    /// Where commands put what is not kept.
    pub(super) fn tmp(&self) -> PathBuf {
        self.env().get("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    }

    /// Ends what commands have left running.
    pub(super) fn end_background(&self) {
        self.background.end_all(Instant::now() + KILL_TIMEOUT * 2);
    }
}

/// Takes output until the processes have ended.
pub(super) fn follow_to_the_end(keeper: &Keeper, mut running: Running, sink: &mut Log) {
    let never = AtomicBool::new(false);
    loop {
        let until = Instant::now() + Duration::from_hours(1);
        match running.follow(sink, until, &|_| keeper.interruption(&never)) {
            Ending::TimedOut => {}
            _ => break,
        }
    }
    keeper.end(running, sink);
}

/// Processes as they are called, with their ids: `runs make serve (12)`.
pub(super) fn names(pids: &[Pid]) -> String {
    let name = |pid: &Pid| {
        let id = pid.as_raw_nonzero();
        let line = fs_err::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split('\0').filter(|word| !word.is_empty()).collect();
        let clean = |c: char| if c.is_control() || c == '`' { ' ' } else { c };
        let line: String = words.join(" ").chars().take(LABEL).map(clean).collect();
        format!("`{line}` ({id})")
    };
    let named: Vec<String> = pids.iter().take(NAMED).map(name).collect();
    let more = match pids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match pids.len() {
        0 => "a process runs".to_owned(),
        1 => format!("runs {}", named.join(", ")),
        _ => format!("run {}{more}", named.join(", ")),
    }
}
