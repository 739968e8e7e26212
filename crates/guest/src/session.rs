//! Commands that outlive the call that started them.
//!
//! A command runs in its call like any other for as long as the call waits. When it has not ended by then it
//! becomes a session: a thread takes its output, of which the head and the tail are kept, until somebody
//! asks. It has a launcher of its own, so it ends with everything it started: when the session is cut, when
//! the guest ends, and at the latest before the tree is collected. What a command has put into the background goes on
//! when it has ended by itself ([`super::background`]).
//!
//! Numbers are given in the order in which commands are started, whether they become sessions or not. So the
//! same calls give the same numbers, however long each of them took.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Signal;

use super::background::{Leaver, Outlived};
use super::output::BoundedOutput;
use super::process::{
    Ending, KILL_TIMEOUT, POLL_INTERVAL, Processes, Running, Sink, Spec, TIMED_OUT, cannot_start,
    exit_code, timespec,
};
use super::quota::Inside;
use super::terminal::Terminal;
use crate::tool::{CommandOutput, ToolError};

/// How often a session looks whether the workspace is full. Everything else wakes it.
const PACE: Duration = Duration::from_millis(200);
/// What a session's thread needs.
const STACK: usize = 128 << 10;
/// Characters of a command in a list of sessions.
const LABEL: usize = 60;

const CTRL_C: &[u8] = b"\x03";
const CTRL_D: &[u8] = b"\x04";
const CTRL_BACKSLASH: &[u8] = b"\x1c";

/// What a command gets as standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: programs that look whether there is something to read find that there is not.
    Empty,
    /// A pipe that stays open.
    Pipe,
    /// A terminal, which is its output as well.
    Terminal,
}

/// What a call about a session has to say.
#[derive(Debug)]
pub struct SessionReport {
    /// What is new since the last call; `session` is set while the command runs.
    pub output: CommandOutput,
    /// What the model should know besides; may be empty.
    pub note: String,
}

/// A command that goes on.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) label: String,
    stdin: Stdin,
    /// Dropping it ends the command with everything it started.
    lifeline: Mutex<Option<PipeWriter>>,
    /// Where input is written to; does not block.
    input: Mutex<Option<File>>,
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Debug)]
struct State {
    kept: BoundedOutput,
    ended: Option<SessionEnd>,
}

#[derive(Clone, Debug)]
struct SessionEnd {
    code: i32,
    /// Why it did not end by itself, or what goes on after it; may be empty.
    remark: String,
}

impl Processes {
    /// Runs a command until it ends or `spec.timeout` is over, and leaves it in a session then.
    ///
    /// # Errors
    /// For the model: too many sessions, or what [`Processes::run`] says.
    pub fn open(
        &self,
        spec: &Spec<'_>,
        stdin: Stdin,
        cancelled: &AtomicBool,
    ) -> Result<SessionReport, ToolError> {
        let started = Instant::now();
        let inside = self.enter()?;
        let (number, _seat) = self.sessions.number()?;
        let (streams, stdin, input, note) = streams(stdin)?;
        let mut kept = self.kept(spec.output_cap);
        let (mut running, outlived) = match streams {
            Streams::Quiet => self.start_leaving(spec, None)?,
            Streams::Fed(feed) => self.start_leaving(spec, Some(feed))?,
            Streams::Terminal(terminal) => self.start_on(spec, terminal)?,
        };
        let ending = running.follow(&mut kept, started + spec.timeout, &|_| {
            outlived.ending().or_else(|| self.interruption(cancelled))
        });
        if let (Ending::Ended, Some(code)) = (&ending, outlived.code()) {
            drop(input);
            let left = self.leaver().leave(running, inside, &mut kept);
            self.leave(code)?;
            return Ok(SessionReport {
                output: kept.finish(code, since(started)),
                note: [note, left].join("\n").trim().to_owned(),
            });
        }
        if matches!(ending, Ending::TimedOut) {
            let session = Session::new(label(spec), stdin, input, kept, &mut running);
            self.keep(number, &session, Live { running, outlived, inside })?;
            return Ok(self.told(number, &session, started, note));
        }
        let status = self.end(running, &mut kept);
        drop((inside, input));
        let (code, timed_out) = ending.exit_code(status)?;
        self.leave(code)?;
        let output = CommandOutput { timed_out, ..kept.finish(code, since(started)) };
        Ok(SessionReport { output, note })
    }

    /// Writes to a session, waits until `wait` is over or the command has ended, and tells what is new.
    /// Without anything to write it only waits.
    ///
    /// # Errors
    /// For the model: there is no such session, or it takes no input.
    pub fn write(
        &self,
        number: u32,
        chars: &[u8],
        wait: Duration,
        cancelled: &AtomicBool,
    ) -> Result<SessionReport, ToolError> {
        let started = Instant::now();
        let session = self.sessions.find(number)?;
        let until = started + wait;
        let note =
            if chars.is_empty() { String::new() } else { session.give(chars, until, cancelled)? };
        session.wait(until, cancelled);
        Ok(self.told(number, &session, started, note))
    }

    /// What is new in a session. One that has ended is no more when that has been told.
    fn told(
        &self,
        number: u32,
        session: &Session,
        started: Instant,
        mut note: String,
    ) -> SessionReport {
        let (kept, ended) = session.drain();
        let Some(SessionEnd { code, remark }) = ended else {
            let output = kept.finish(0, since(started));
            return SessionReport {
                output: CommandOutput { session: Some(number), ..output },
                note,
            };
        };
        self.sessions.forget(number);
        let full = self.leave(code).err().map(|err| err.to_string());
        for remark in [remark, full.unwrap_or_default()] {
            if !remark.is_empty() {
                note = remark;
            }
        }
        SessionReport { output: kept.finish(code, since(started)), note }
    }

    /// Ends every session with what was started in it, and what commands left running.
    pub fn end_sessions(&self) {
        let sessions = self.sessions.cut_all();
        let until = Instant::now() + KILL_TIMEOUT * 2;
        for session in sessions {
            session.wait(until, &AtomicBool::new(false));
        }
        self.end_background();
        self.quiet_shell();
    }

    /// Makes a session of what runs.
    fn keep(&self, number: u32, session: &Arc<Session>, live: Live) -> Result<(), ToolError> {
        let (leaver, kept) = (self.leaver(), Arc::clone(session));
        let (hand, take) = sync_channel(1);
        let pump = std::thread::Builder::new().name(format!("session {number}")).stack_size(STACK);
        let spawned = pump.spawn(move || {
            if let Ok(live) = take.recv() {
                kept.pump(&leaver, live);
            }
        });
        if let Err(err) = spawned {
            session.cut();
            self.end(live.running, &mut BoundedOutput::new(0));
            return Err(ToolError::tell(format!(
                "the command was ended: it did not end in time, and cannot be left running ({err})"
            )));
        }
        self.sessions.add(number, Arc::clone(session));
        // The thread is there and waits for it.
        let _ = hand.send(live);
        Ok(())
    }
}

impl Ending {
    /// How a session has ended whose launcher gave this exit code.
    fn of_session(self, code: i32) -> SessionEnd {
        match self {
            Ending::Full(why) => {
                SessionEnd { code: TIMED_OUT, remark: format!("the command was ended: {why}") }
            }
            Ending::Ended | Ending::Cancelled | Ending::TimedOut => {
                SessionEnd { code, remark: String::new() }
            }
        }
    }
}

/// What runs in a session.
struct Live {
    running: Running,
    outlived: Outlived,
    inside: Option<Inside>,
}

/// What a session is called in a list: the beginning of its script.
fn label(spec: &Spec<'_>) -> String {
    let script = spec.argv.last().map(String::as_str).unwrap_or_default();
    script.chars().take(LABEL).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Where a command's input comes from and its output goes.
enum Streams {
    Quiet,
    Fed(PipeReader),
    Terminal(Terminal),
}

/// The streams of a command, what its input really is, where to write to it, and what to say about it.
fn streams(stdin: Stdin) -> Result<(Streams, Stdin, Option<File>, String), ToolError> {
    let mut note = String::new();
    match stdin {
        Stdin::Empty => return Ok((Streams::Quiet, stdin, None, note)),
        Stdin::Terminal => match Terminal::open() {
            Ok(terminal) => {
                let input =
                    File::from(terminal.near.try_clone().map_err(|err| cannot_start(&err))?);
                return Ok((Streams::Terminal(terminal), stdin, Some(input), note));
            }
            Err(why) => note = format!("{why}: the command runs with pipes instead"),
        },
        Stdin::Pipe => {}
    }
    let (reader, writer) = std::io::pipe().map_err(|err| cannot_start(&err))?;
    rustix::fs::fcntl_setfl(&writer, OFlags::WRONLY | OFlags::NONBLOCK)
        .map_err(|err| cannot_start(&err.into()))?;
    Ok((Streams::Fed(reader), Stdin::Pipe, Some(File::from(OwnedFd::from(writer))), note))
}

impl Session {
    fn new(
        label: String,
        stdin: Stdin,
        input: Option<File>,
        kept: BoundedOutput,
        running: &mut Running,
    ) -> Arc<Session> {
        Arc::new(Session {
            label,
            stdin,
            lifeline: Mutex::new(running.hand_over(PACE)),
            input: Mutex::new(input),
            state: Mutex::new(State { kept, ended: None }),
            has_ended: Condvar::new(),
        })
    }

    /// Takes output until the command has ended. The thread of a session does nothing else.
    fn pump(&self, leaver: &Leaver, live: Live) {
        let Live { mut running, outlived, inside } = live;
        let keeper = &leaver.keeper;
        let mut sink = Shared(&self.state);
        let never = AtomicBool::new(false);
        let ending = loop {
            let until = Instant::now() + Duration::from_hours(1);
            let stop = || outlived.ending().or_else(|| keeper.interruption(&never));
            match running.follow(&mut sink, until, &|_| stop()) {
                Ending::TimedOut => {}
                ending => break ending,
            }
        };
        let ended = match (ending, outlived.code()) {
            (Ending::Ended, Some(code)) => {
                // Without one the session has been cut, and so has what was left.
                running.take_back(lock(&self.lifeline).take());
                SessionEnd { code, remark: leaver.leave(running, inside, &mut sink) }
            }
            (ending, _) => {
                self.cut();
                let code = exit_code(keeper.end(running, &mut sink));
                drop(inside);
                ending.of_session(code)
            }
        };
        *lock(&self.input) = None;
        lock(&self.state).ended = Some(ended);
        self.has_ended.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Ends the command with everything it started.
    pub(super) fn cut(&self) {
        *lock(&self.lifeline) = None;
    }

    fn wait(&self, until: Instant, cancelled: &AtomicBool) {
        let mut state = lock(&self.state);
        while state.ended.is_none() && !cancelled.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.has_ended.wait_for(&mut state, left.min(POLL_INTERVAL));
        }
    }

    /// What is new, and how it ended if it has.
    fn drain(&self) -> (BoundedOutput, Option<SessionEnd>) {
        let mut state = lock(&self.state);
        let ended = state.ended.clone();
        (state.kept.take(ended.is_none()), ended)
    }

    /// Passes on what was typed. The answer is what the model should know about it; may be empty.
    fn give(
        &self,
        chars: &[u8],
        until: Instant,
        cancelled: &AtomicBool,
    ) -> Result<String, ToolError> {
        if self.is_over() {
            return Ok("nothing was written: the command had already ended".to_owned());
        }
        if self.stdin != Stdin::Terminal {
            match chars {
                CTRL_C => return Ok(self.signal(Signal::INT)),
                CTRL_BACKSLASH => return Ok(self.signal(Signal::QUIT)),
                _ => {}
            }
        }
        let (text, ends) = match chars.strip_suffix(CTRL_D) {
            Some(text) if self.stdin != Stdin::Terminal => (text, true),
            _ => (chars, false),
        };
        // Held meanwhile, so that what two calls write is not mixed.
        let mut input = lock(&self.input);
        let Some(file) = input.as_ref() else {
            return match self.stdin {
                _ if text.is_empty() => Ok(String::new()),
                Stdin::Empty => Err(ToolError::tell(
                    "nothing was written: this session has no input. Start the command again with \
                     `tty`: true for a terminal, or with `stdin`: true for a pipe. Ctrl-C (\\u0003) \
                     interrupts it.",
                )),
                Stdin::Pipe | Stdin::Terminal => {
                    Err(ToolError::tell("nothing was written: the input of this session is closed"))
                }
            };
        };
        let written = send(file, text, until, cancelled);
        if ends {
            *input = None;
        }
        Ok(match written {
            Ok(count) if count == text.len() => String::new(),
            Ok(count) => format!(
                "only the first {count} of {} bytes were written: the command does not read its input",
                text.len()
            ),
            Err(err) => format!("the command does not take input any more ({err})"),
        })
    }

    /// For commands without a terminal: the signal that one would make of a control character.
    fn signal(&self, signal: Signal) -> String {
        let lifeline = lock(&self.lifeline);
        let number = u8::try_from(signal.as_raw()).unwrap_or_default();
        if let Some(lifeline) = lifeline.as_ref() {
            // The launcher reads it at once; when it is gone, so is the command.
            let _ = rustix::io::write(lifeline, &[number]);
        }
        String::new()
    }
}

/// Writes what is taken until then; the number of bytes.
fn send(to: &File, text: &[u8], until: Instant, cancelled: &AtomicBool) -> Result<usize, Errno> {
    let mut rest = text;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let is_cancelled = cancelled.load(Ordering::Relaxed);
                if is_cancelled || Instant::now() >= until {
                    break;
                }
                let mut fds = [PollFd::new(to, PollFlags::OUT)];
                let _ = rustix::event::poll(&mut fds, Some(&timespec(POLL_INTERVAL)));
            }
            Err(err) => return Err(err),
        }
    }
    Ok(text.len() - rest.len())
}

/// Output of a session, while others may ask for it.
struct Shared<'a>(&'a Mutex<State>);

impl Sink for Shared<'_> {
    fn push(&mut self, bytes: &[u8]) {
        lock(self.0).kept.push(bytes);
    }
}

fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
