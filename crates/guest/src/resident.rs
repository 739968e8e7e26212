//! A shell that outlives its commands: the folder, the variables and the functions that one command
//! leaves are there for the next.
//!
//! The shell reads its script from a pipe and runs each command with `eval`; a line with a random
//! mark says that it has ended, and how. What a command writes comes through a pipe of its own, so that what
//! it leaves in the background can write on, into a log. A command that runs out of time goes on as well, in
//! the shell that it has, and the next command gets a new one in the same folder; one that ends the shell ends
//! what it left, too.

mod marked;
mod outlet;

use std::io::{self, PipeWriter};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use self::marked::{Marked, token};
use self::outlet::{Heard, Outlet, pump};
use super::background::{self, Left, MAX_PROCESSES, PACE};
use super::output::BoundedOutput;
use super::process::{Ending, Processes, Running, Spec, TIMED_OUT, timespec};
use super::programs::Patches;
use super::quota::Inside;
use super::{descendants, environment};
use crate::tool::{CommandOutput, ToolError};

/// How long a shell may take to be there.
const START: Duration = Duration::from_secs(10);
/// How long to wait before looking again whether the shell takes more of a command.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How often the survivors of a command are looked for.
const PASSES: usize = 100;

/// A shell that waits for its next command.
#[derive(Debug)]
pub(super) struct Resident {
    running: Running,
    /// What the shell reads its script from.
    feed: PipeWriter,
    shell: Pid,
    /// What the model was told that its commands left running.
    told: Vec<Pid>,
}

/// What a command in the shell did.
#[derive(Debug)]
pub struct InShell {
    pub output: CommandOutput,
    /// The shell is still there; otherwise the next command starts a new one.
    pub is_alive: bool,
    /// What goes on in the background, for the model; may be empty.
    pub note: String,
}

/// What the model is told when its shell is gone.
const SHELL_ENDED: &str = "The shell has ended; the next command gets a new one in the workspace, without the \
                           variables of this one.";

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
        let mut heard = Heard {
            marked: Marked::new(&token),
            kept: self.kept(output_cap),
            outlet: Outlet::open(&self.tmp(), &token),
        };
        resident.running.discard();
        let deadline = started + timeout;
        let text = script_of(script, &token, heard.outlet.as_ref());
        let ending = match resident.send(text.as_bytes(), deadline) {
            Ok(()) => resident.follow(&mut heard, deadline, &|| self.interruption(cancelled)),
            Err(Errno::PIPE) => Ending::Ended,
            Err(_) => Ending::TimedOut,
        };
        heard.finish_reading();
        let ended = heard.marked.number.filter(|_| matches!(ending, Ending::Ended));
        let Heard { mut kept, outlet, marked } = heard;
        let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(code) = ended {
            let note = self.left_by(&mut resident, outlet);
            *slot = Some(resident);
            drop(inside);
            self.leave(code)?;
            return Ok(InShell { output: kept.finish(code, took), is_alive: true, note });
        }
        if let (Ending::TimedOut, Some(outlet), None) = (&ending, outlet, marked.number) {
            self.folder_of(&resident);
            let note = self.go_on(resident, outlet, inside);
            let output = CommandOutput { timed_out: true, ..kept.finish(TIMED_OUT, took) };
            return Ok(InShell { output, is_alive: false, note });
        }
        let status = self.end(resident.running, &mut kept);
        drop(inside);
        let (code, timed_out) = ending.exit_code(status)?;
        self.leave(code)?;
        let output = CommandOutput { timed_out, ..kept.finish(code, took) };
        Ok(InShell { output, is_alive: false, note: SHELL_ENDED.to_owned() })
    }

    /// Lets what a command has put into the background write on, into a log; what the model is told of it.
    fn left_by(&self, resident: &mut Resident, outlet: Option<Outlet>) -> String {
        let alive = resident.left_running();
        let new: Vec<Pid> =
            alive.iter().copied().filter(|pid| !resident.told.contains(pid)).collect();
        resident.told = alive;
        if new.is_empty() {
            return String::new();
        }
        let names = background::names(&new);
        if resident.told.len() > MAX_PROCESSES {
            resident.quiet();
            return format!("{names} ended with the command: at most {MAX_PROCESSES} may go on.");
        }
        if outlet.as_ref().is_some_and(|outlet| outlet.is_closed) {
            return format!("In the background {names}.");
        }
        let tmp = self.tmp();
        let log = outlet.and_then(|outlet| Some((outlet, self.background.log(&tmp)?)));
        let Some((outlet, (path, log))) = log else {
            resident.quiet();
            return format!("{names} ended with the command: too much runs in the background.");
        };
        let left = self.background.keep(None);
        if pump(outlet, log, Arc::clone(&left), None).is_err() {
            left.has_ended();
            resident.quiet();
            return format!("{names} ended with the command: no thread can be started.");
        }
        format!(
            "In the background {names}. What is written there from now on is in {}.",
            path.display()
        )
    }

    /// Lets a command go on in its shell that has used up its time.
    fn go_on(&self, resident: Resident, outlet: Outlet, inside: Option<Inside>) -> String {
        let Some((path, log)) = self.background.log(&self.tmp()) else {
            self.end(resident.running, &mut BoundedOutput::new(0));
            return "The command was ended, and its shell: too much runs in the background. The next \
                    command gets a new one in the same folder."
                .to_owned();
        };
        let shell = resident.shell.as_raw_nonzero();
        let Resident { mut running, feed, shell: spared, .. } = resident;
        let left = self.background.keep(running.hand_over(PACE));
        let keeper = Arc::clone(&self.keeper);
        let end = Box::new(move |left: &Left| {
            // The command may have ended, and what earlier ones left in the same shell has not.
            while !left.is_cut()
                && !descendants::alive_below(running.pid(), &|pid| pid == spared).is_empty()
            {
                std::thread::sleep(PACE);
            }
            drop(inside);
            keeper.end(running, &mut BoundedOutput::new(0));
            drop(feed);
        });
        // Without a thread everything of it is dropped, and ends.
        let _ = pump(outlet, log, left, Some(end));
        format!(
            "The command was not ended: it goes on in the background, and what it writes from now on is in {}. \
             `kill {shell}` ends it. The next command gets a new shell in the same folder, without the \
             variables of this one.",
            path.display()
        )
    }

    /// Remembers where a shell is, for the one that comes after it.
    fn folder_of(&self, resident: &Resident) {
        let folder = fs_err::read_link(format!("/proc/{}/cwd", resident.shell.as_raw_nonzero()));
        *self.next_folder.lock() = folder.ok();
    }

    /// Ends what the shell's commands have left running, but not the shell.
    pub(super) fn quiet_shell(&self) {
        // While a command runs in it, nothing is collected.
        if let Some(resident) = self.resident.try_lock().as_deref().and_then(Option::as_ref) {
            resident.quiet();
        }
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
        *self.next_folder.lock() = None;
        if let Some(resident) = slot.take() {
            self.end(resident.running, &mut BoundedOutput::new(0));
        }
        self.end_background();
    }

    /// Ends the shell when the guest ends. A command that runs in it ends itself.
    pub(super) fn end_resident(&self, until: Instant) {
        let slot = self.resident.try_lock_until(until);
        if let Some(resident) = slot.and_then(|mut slot| slot.take()) {
            self.end(resident.running, &mut BoundedOutput::new(0));
        }
    }

    fn open_shell(&self, patches: Patches, cancelled: &AtomicBool) -> Result<Resident, ToolError> {
        let broken = |err: &dyn std::fmt::Display| {
            ToolError::Broken(format!("cannot start the shell: {err}"))
        };
        let (reader, feed) = std::io::pipe().map_err(|err| broken(&err))?;
        rustix::fs::fcntl_setfl(&feed, OFlags::NONBLOCK).map_err(|err| broken(&err))?;
        let folder = self.next_folder.lock().take().filter(|folder| folder.is_dir());
        let spec = Spec {
            argv: &[environment::default_shell(&self.env())],
            cwd: folder.as_deref(),
            env: &self.tool_env(patches),
            timeout: START,
            output_cap: 1024,
        };
        let running = self.start(&spec, Some(reader))?;
        let shell = running.pid();
        let mut resident = Resident { running, feed, shell, told: Vec::new() };
        let token = token();
        let mut marked = Marked::new(&token);
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
        marked.release(usize::MAX);
        let said = marked.take_released();
        let said = String::from_utf8_lossy(&said[..said.len().min(1024)]).into_owned();
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

    /// Hears what the command says until it has ended, or something else ends the wait.
    fn follow(
        &mut self,
        heard: &mut Heard,
        deadline: Instant,
        stop: &dyn Fn() -> Option<Ending>,
    ) -> Ending {
        loop {
            if heard.marked.number.is_some() {
                return Ending::Ended;
            }
            if let Some(ending) = stop() {
                return ending;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ending::TimedOut;
            }
            if self.running.output.is_none() && self.running.pidfd.is_none() {
                return Ending::Ended;
            }
            let Running { output, pidfd, .. } = &self.running;
            let fds = [
                heard.outlet.as_ref().map(|outlet| PollFd::new(&outlet.reader, PollFlags::IN)),
                output.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)),
                pidfd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)),
            ];
            let is_there = [fds[0].is_some(), fds[1].is_some(), fds[2].is_some()];
            let mut fds: Vec<PollFd<'_>> = fds.into_iter().flatten().collect();
            if rustix::event::poll(&mut fds, Some(&timespec(left.min(POLL_INTERVAL)))).is_err() {
                continue;
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            let [said, marks, ended] =
                is_there.map(|is_there| is_there && ready.next().unwrap_or_default());
            drop(ready);
            drop(fds);
            if said {
                heard.read();
            }
            if marks {
                heard.take_marks(&mut self.running);
            } else if ended && !said {
                return Ending::Ended;
            }
        }
    }

    /// What the commands so far have put into the background.
    fn left_running(&self) -> Vec<Pid> {
        let mut alive = Vec::new();
        // What is just about to end is not worth a word.
        for _ in 0..10 {
            alive = descendants::alive_below(self.running.pid(), &|pid| pid == self.shell);
            alive.extend(descendants::alive_below(self.shell, &|_| false));
            if alive.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        alive
    }

    /// Ends everything that the commands left running, but not the shell.
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

/// The script for a command. The empty line matters: bash does not know `{` right behind an `eval` that it could
/// not parse.
fn script_of(script: &str, token: &str, outlet: Option<&Outlet>) -> String {
    let to = outlet.map_or_else(
        || ">&9 2>&9".to_owned(),
        |outlet| format!(">{} 2>&1", quoted(&outlet.path.to_string_lossy())),
    );
    format!(
        "command eval {} </dev/null {to} 9>&-\n\
         \n{{ __patchwright=$?; disown -a || :; \
         command printf '\\n%s %d\\n' {token} \"$__patchwright\" >&9; }} 2>/dev/null\n",
        quoted(script)
    )
}

/// One word of a shell script.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
