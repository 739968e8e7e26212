//! A shell that outlives its commands: the folder, the variables and the functions that one command
//! leaves are there for the next.
//!
//! The shell reads its script from a pipe and runs each command with `eval`; a line with a random
//! mark in the output says that it has ended, and how. Only the shell itself stays: what else a
//! command started is ended with it, as everywhere. A command that runs out of time takes the shell
//! with it, and so does one that ends the shell; the next command gets a new one.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, PipeWriter};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use super::output::Kept;
use super::process::{Ending, Processes, Running, Sink, Spec, TIMED_OUT, exit_code, timespec};
use super::programs::Patches;
use super::protocol::MAX_OUTPUT_CAP;
use super::{descendants, environment};
use crate::tool::{CommandOutput, ToolError};

/// How long a shell may take to be there.
const START: Duration = Duration::from_secs(10);
/// How long to wait before looking again whether the shell takes more of a command.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Digits of an exit code or a process id, with some room.
const MAX_NUMBER: usize = 12;
/// How often the survivors of a command are looked for.
const PASSES: usize = 100;

/// A shell that waits for its next command.
#[derive(Debug)]
pub(super) struct Resident {
    running: Running,
    /// What the shell reads its script from.
    feed: PipeWriter,
    shell: Pid,
}

/// What a command in the shell did.
#[derive(Debug)]
pub struct InShell {
    pub output: CommandOutput,
    /// The shell is still there; otherwise the next command starts a new one in the workspace.
    pub is_alive: bool,
}

impl Processes {
    /// Runs a script in the shell that stays, and starts that shell when there is none.
    pub fn in_shell(
        &self,
        script: &str,
        patches: Patches,
        timeout: Duration,
        output_cap: usize,
        cancelled: &AtomicBool,
    ) -> Result<InShell, ToolError> {
        if script.contains('\0') {
            return Err(ToolError::tell("a command cannot contain NUL characters"));
        }
        let mut slot = self.resident.lock();
        let started = Instant::now();
        let inside = self.enter()?;
        if self.interruption(cancelled).is_some() {
            return Err(ToolError::tell("the call was cancelled"));
        }
        let mut resident = match slot.take() {
            Some(resident) => resident,
            None => self.open_shell(patches, cancelled)?,
        };
        let token = token();
        let mut marked = Marked::new(&token, output_cap.min(MAX_OUTPUT_CAP));
        resident.running.discard();
        let deadline = started + timeout;
        // The empty line matters: bash does not know `{` right behind an `eval` that it could not parse.
        let text = format!(
            "command eval {} </dev/null >&9 2>&9 9>&-\n\
             \n{{ __patchwright=$?; disown -a || :; \
             command printf '\\n%s %d\\n' {token} \"$__patchwright\" >&9; }} 2>/dev/null\n",
            quoted(script)
        );
        let ending = match resident.send(text.as_bytes(), deadline) {
            Ok(()) => resident.running.follow(&mut marked, deadline, &|marked| {
                marked.number.map(|_| Ending::Ended).or_else(|| self.interruption(cancelled))
            }),
            Err(Errno::PIPE) => Ending::Ended,
            Err(_) => Ending::TimedOut,
        };
        let (code, is_alive) = if let (Some(code), Ending::Ended) = (marked.number, &ending) {
            resident.quiet();
            *slot = Some(resident);
            (code, true)
        } else {
            (exit_code(self.end(resident.running, &mut marked)), false)
        };
        drop(inside);
        let timed_out = matches!(ending, Ending::TimedOut);
        match ending {
            Ending::Ended => self.leave(code)?,
            Ending::TimedOut => self.leave(TIMED_OUT)?,
            Ending::Cancelled => return Err(ToolError::tell("the call was cancelled")),
            Ending::Full(why) => {
                return Err(ToolError::tell(format!("the command was ended: {why}")));
            }
        }
        let code = if timed_out { TIMED_OUT } else { code };
        let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(InShell { output: marked.finish(code, timed_out, duration), is_alive })
    }

    /// Where the shell is that stays; the workspace when there is none.
    ///
    /// # Errors
    /// When nobody can tell.
    pub fn shell_folder(&self) -> io::Result<PathBuf> {
        let slot = self.resident.lock();
        match slot.as_ref() {
            None => Ok(self.workspace().to_owned()),
            Some(resident) => {
                fs_err::read_link(format!("/proc/{}/cwd", resident.shell.as_raw_nonzero()))
            }
        }
    }

    /// There is a shell that stays.
    pub fn has_shell(&self) -> bool {
        // Where the lock is held, a command runs in it.
        self.resident.try_lock().is_none_or(|slot| slot.is_some())
    }

    /// Ends the shell; the next command gets a new one.
    pub fn restart_shell(&self) {
        let mut slot = self.resident.lock();
        if let Some(resident) = slot.take() {
            self.end(resident.running, &mut Kept::new(0));
        }
    }

    /// Ends the shell when the guest ends. A command that runs in it ends itself.
    pub(super) fn end_resident(&self, until: Instant) {
        let slot = self.resident.try_lock_until(until);
        if let Some(resident) = slot.and_then(|mut slot| slot.take()) {
            self.end(resident.running, &mut Kept::new(0));
        }
    }

    fn open_shell(&self, patches: Patches, cancelled: &AtomicBool) -> Result<Resident, ToolError> {
        let broken = |err: &dyn std::fmt::Display| {
            ToolError::Broken(format!("cannot start the shell: {err}"))
        };
        let (reader, feed) = std::io::pipe().map_err(|err| broken(&err))?;
        rustix::fs::fcntl_setfl(&feed, OFlags::NONBLOCK).map_err(|err| broken(&err))?;
        let spec = Spec {
            argv: &[environment::default_shell(&self.env())],
            cwd: None,
            env: &self.tool_env(patches),
            timeout: START,
            output_cap: 1024,
        };
        let running = self.start(&spec, Some(reader))?;
        let shell = running.pid();
        let mut resident = Resident { running, feed, shell };
        let token = token();
        let mut marked = Marked::new(&token, spec.output_cap);
        let text = format!("exec 9>&1\ncommand printf '\\n%s %d\\n' {token} \"$$\" >&9\n");
        let deadline = Instant::now() + START;
        if resident.send(text.as_bytes(), deadline).is_ok() {
            resident.running.follow(&mut marked, deadline, &|marked| {
                marked.number.map(|_| Ending::Ended).or_else(|| self.interruption(cancelled))
            });
        }
        if let Some(shell) = marked.number.and_then(Pid::from_raw) {
            return Ok(Resident { shell, ..resident });
        }
        self.end(resident.running, &mut marked);
        let said = marked.finish(TIMED_OUT, false, 0).output;
        Err(ToolError::tell(format!("the shell does not start: {}", said.trim())))
    }
}

impl Resident {
    /// Gives the shell more of its script.
    fn send(&mut self, mut text: &[u8], deadline: Instant) -> Result<(), Errno> {
        while !text.is_empty() {
            match rustix::io::write(&self.feed, text) {
                Ok(count) => text = text.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if Instant::now() >= deadline {
                        return Err(Errno::TIMEDOUT);
                    }
                    let mut fds = [PollFd::new(&self.feed, PollFlags::OUT)];
                    let _ = rustix::event::poll(&mut fds, Some(&timespec(POLL_INTERVAL)));
                }
                Err(err) => return Err(err),
            }
        }
        Ok(())
    }

    /// Ends everything that the last command left running, but not the shell.
    fn quiet(&self) {
        let spare = |pid: Pid| pid == self.shell;
        for _ in 0..PASSES {
            let below = descendants::kill_below(self.shell, &|_| false);
            // Orphans belong to the launcher.
            if below + descendants::kill_below(self.running.pid(), &spare) == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Output up to a line `MARK NUMBER`, which is not part of it.
struct Marked {
    kept: Kept,
    mark: Vec<u8>,
    /// What may be the beginning of the mark.
    held: Vec<u8>,
    number: Option<i32>,
}

impl Marked {
    fn new(token: &str, cap: usize) -> Marked {
        let mark = format!("\n{token} ").into_bytes();
        Marked { kept: Kept::new(cap), mark, held: Vec::new(), number: None }
    }

    /// Passes on the first bytes of what is held.
    fn release(&mut self, count: usize) {
        let released: Vec<u8> = self.held.drain(..count.min(self.held.len())).collect();
        self.kept.push(&released);
    }

    fn finish(mut self, code: i32, timed_out: bool, duration_ms: u64) -> CommandOutput {
        self.release(usize::MAX);
        self.kept.finish(code, timed_out, duration_ms)
    }
}

impl Sink for Marked {
    fn push(&mut self, bytes: &[u8]) {
        if self.number.is_some() {
            return;
        }
        self.held.extend_from_slice(bytes);
        while let Some(at) = memmem::find(&self.held, &self.mark) {
            let rest = self.held.get(at + self.mark.len()..).unwrap_or_default();
            let number = match memchr::memchr(b'\n', rest) {
                Some(end) => std::str::from_utf8(rest.get(..end).unwrap_or_default()).ok(),
                None if rest.len() <= MAX_NUMBER => return,
                None => None,
            };
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                self.release(at);
                self.held.clear();
                self.number = Some(number);
                return;
            }
            self.release(at + self.mark.len());
        }
        self.release((self.held.len() + 1).saturating_sub(self.mark.len()));
    }
}

/// Something that no command writes by chance.
fn token() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("patchwright{:016x}{:016x}", random(), random())
}

/// One word of a shell script.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
