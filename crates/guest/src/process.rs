//! Runs commands: process groups, time limits, output caps, and no survivors.
//!
//! Called by the shell tools and by [`super::serve`] for commands of the harness. Each command runs
//! below a launcher ([`super::launch`]); the write end of the launcher's standard input is its
//! lifeline: closing it kills the command with everything it started. Standard output and error
//! share one pipe, so they stay in order; standard input is empty unless the caller feeds it.

use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use super::background::Background;
use super::fork_server::{ForkServer, Launcher, Order, execute};
use super::keeper::Keeper;
use super::launch::Streams;
use super::memory::{MemoryMark, MemoryWatch};
use super::output::BoundedOutput;
use super::programs::{Patches, Programs};
use super::protocol::{Exec, MAX_OUTPUT_CAP};
use super::quota::{Inside, WorkspaceQuota};
use super::resident::Resident;
use super::sessions::Sessions;
use super::spill::{Spill, Spills};
use super::usual_names::UsualNames;
use crate::tool::{CommandOutput, ToolError};

/// The exit code of a command that ran out of time, as `timeout(1)` has it.
pub const TIMED_OUT: i32 = 124;

/// How often a running command looks for cancellation.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long the pipe may stay open after the launcher has ended.
pub(super) const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// How long a launcher may take to kill its command.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// Every process that the guest started, and their descendants.
#[derive(Debug, Default)]
pub struct Processes {
    workspace: PathBuf,
    /// What every command has in its environment.
    env: RwLock<Arc<BTreeMap<String, String>>>,
    /// Who runs, and who ends it.
    pub(super) keeper: Arc<Keeper>,
    /// The shell that outlives its commands; `None` until it is asked for.
    pub(super) resident: Mutex<Option<Resident>>,
    /// Where the next such shell begins; the workspace when nothing is said.
    pub(super) next_folder: Mutex<Option<PathBuf>>,
    /// Commands that outlive the call that started them.
    pub(super) sessions: Sessions,
    /// What commands left running.
    pub(super) background: Arc<Background>,
    /// What commands of tools find besides.
    programs: Programs,
    /// Under which names all commands find those of the image.
    usual_names: Option<UsualNames>,
    /// Where outputs of tools go that are too long to be shown.
    spills: Option<Arc<Spills>>,
    /// Counts who is ended for want of memory.
    memory: Option<Arc<MemoryWatch>>,
}

/// What a sandbox has of its own for the commands in it.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// The whole environment.
    pub(super) env: BTreeMap<String, String>,
    /// Watches how much the workspace holds.
    pub(super) room: Option<Arc<WorkspaceQuota>>,
    pub(super) forks: Option<ForkServer>,
    pub(super) memory: Option<Arc<MemoryWatch>>,
}

/// A command to run.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    pub argv: &'a [String],
    /// Relative to the workspace, or absolute inside the sandbox.
    pub cwd: Option<&'a Path>,
    /// Added to the environment that every command has.
    pub env: &'a BTreeMap<String, String>,
    pub timeout: Duration,
    /// Bytes of output to keep, head and tail together.
    pub output_cap: usize,
}

impl Processes {
    /// Commands start in `workspace`.
    pub(super) fn new(workspace: PathBuf, surroundings: Surroundings) -> Processes {
        let Surroundings { env, room, forks, memory } = surroundings;
        let tmp = env.get("TMPDIR").map_or("/tmp", String::as_str);
        let spills = Spills::below(Path::new(tmp), &workspace);
        let usual_names = UsualNames::below(Path::new(tmp), &workspace);
        let programs = Programs::find();
        programs.tell_login_shells(&env);
        let env = RwLock::new(Arc::new(env));
        let keeper = Arc::new(Keeper::new(room, forks));
        let processes = Processes { workspace, env, keeper, programs, ..Processes::default() };
        Processes { usual_names, spills, memory, ..processes }
    }

    /// The environment of every command, before what a call adds.
    pub fn env(&self) -> Arc<BTreeMap<String, String>> {
        Arc::clone(&self.env.read())
    }

    /// What a command of a tool has in its environment besides.
    pub fn tool_env(&self, patches: Patches) -> BTreeMap<String, String> {
        self.programs.env(&self.env(), &self.workspace, patches)
    }

    /// The folder in which commands start.
    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Adds to the environment of every command from now on.
    pub fn add_env(&self, more: BTreeMap<String, String>) {
        let mut env = self.env.write();
        Arc::make_mut(&mut env).extend(more);
    }

    /// Runs a command of the harness.
    pub fn exec(&self, exec: &Exec, cancelled: &AtomicBool) -> Result<CommandOutput, ToolError> {
        let spec = Spec {
            argv: &exec.argv,
            cwd: exec.cwd.as_deref(),
            env: &exec.env,
            timeout: Duration::from_millis(exec.timeout_ms),
            output_cap: exec.output_cap,
        };
        self.run_into(&spec, self.kept_by_host(spec.output_cap), cancelled)
    }

    /// Runs a command of a tool to its end, its time limit or its cancellation. Nothing that it started
    /// is alive when this returns.
    pub fn run(&self, spec: &Spec<'_>, cancelled: &AtomicBool) -> Result<CommandOutput, ToolError> {
        self.run_into(spec, self.kept(spec.output_cap), cancelled)
    }

    /// Writes an output that came from elsewhere into a file; where that is, and how many bytes are in it.
    pub fn save_output(&self, text: &str) -> Option<(String, u64)> {
        let mut spill = Spill::new(self.spills.clone());
        spill.open();
        spill.write(text.as_bytes());
        spill.finish()
    }

    /// What is kept of the output of a tool's command.
    pub(super) fn kept(&self, cap: usize) -> BoundedOutput {
        BoundedOutput::spilling(cap.min(MAX_OUTPUT_CAP), self.spills.clone())
            .watching(self.memory.as_ref().map(MemoryMark::now))
    }

    /// What is kept of the output of a command of the harness, which has no use for files in the sandbox.
    pub(super) fn kept_by_host(&self, cap: usize) -> BoundedOutput {
        let memory = self.memory.as_ref().map(MemoryMark::now);
        BoundedOutput::new(cap.min(MAX_OUTPUT_CAP)).watching(memory)
    }

    fn run_into(
        &self,
        spec: &Spec<'_>,
        mut kept: BoundedOutput,
        cancelled: &AtomicBool,
    ) -> Result<CommandOutput, ToolError> {
        let started = Instant::now();
        let inside = self.enter()?;
        let running = self.start(spec, None)?;
        let deadline = started + spec.timeout;
        let (code, timed_out) = self.attend(running, inside, &mut kept, deadline, cancelled)?;
        Ok(CommandOutput { timed_out, ..kept.finish(code, milliseconds(started)) })
    }

    /// Follows a command to its end; its exit code, and whether its time was up.
    pub(super) fn attend(
        &self,
        mut running: Running,
        inside: Option<Inside>,
        kept: &mut BoundedOutput,
        deadline: Instant,
        cancelled: &AtomicBool,
    ) -> Result<(i32, bool), ToolError> {
        let ending = running.follow(kept, deadline, &|_| self.interruption(cancelled));
        let status = self.end(running, kept);
        drop(inside);
        let (code, timed_out) = ending.exit_code(status)?;
        self.leave(code)?;
        Ok((code, timed_out))
    }

    /// A command begins; the workspace is watched while the answer lives.
    pub(super) fn enter(&self) -> Result<Option<Inside>, ToolError> {
        self.keeper.enter()
    }

    /// A command has ended; an error when the workspace now holds too much.
    pub(super) fn leave(&self, code: i32) -> Result<(), ToolError> {
        self.keeper.leave(code)
    }

    /// Why a running command has to end before its time.
    pub(super) fn interruption(&self, cancelled: &AtomicBool) -> Option<Ending> {
        self.keeper.interruption(cancelled)
    }

    /// Ends what runs with everything below it, and takes the rest of its output. `None` when the
    /// launcher had to be killed.
    pub(super) fn end(&self, running: Running, sink: &mut dyn Sink) -> Option<ExitStatus> {
        self.keeper.end(running, sink)
    }

    /// Starts a command. `feed` becomes its standard input, which is empty otherwise.
    pub(super) fn start(
        &self,
        spec: &Spec<'_>,
        feed: Option<PipeReader>,
    ) -> Result<Running, ToolError> {
        let (reader, writer) = std::io::pipe().map_err(|err| cannot_start(&err))?;
        let (streams, stderr) = match feed {
            None => {
                let stderr = writer.try_clone().map_err(|err| cannot_start(&err))?;
                (Streams::Inherited, OwnedFd::from(stderr))
            }
            // The launcher's own standard input is its lifeline.
            Some(feed) => (Streams::Fed, OwnedFd::from(feed)),
        };
        self.start_launcher(spec, streams, writer.into(), stderr, reader)
    }

    /// Starts a launcher with these streams; `output` is what is followed.
    pub(super) fn start_launcher(
        &self,
        spec: &Spec<'_>,
        streams: Streams,
        stdout: OwnedFd,
        stderr: OwnedFd,
        output: impl Into<OwnedFd>,
    ) -> Result<Running, ToolError> {
        let cwd = match spec.cwd {
            Some(cwd) => self.workspace.join(cwd),
            None => self.workspace.clone(),
        };
        if !cwd.is_dir() {
            return Err(ToolError::tell(format!("there is no folder `{}`", cwd.display())));
        }
        let bad = |text: &str| text.contains('\0');
        if spec.argv.iter().any(|arg| bad(arg))
            || spec.env.iter().any(|(name, value)| bad(name) || bad(value) || name.contains('='))
        {
            return Err(ToolError::tell("a command cannot contain NUL characters"));
        }
        let (lifeline_end, lifeline) = std::io::pipe().map_err(|err| cannot_start(&err))?;
        let env = self.environment_of(spec, &cwd);
        let order = Order { streams, argv: spec.argv.to_vec(), env, cwd };
        let start = |forks: Option<&ForkServer>| {
            let fds = [lifeline_end.as_fd(), stdout.as_fd(), stderr.as_fd()];
            forks
                .and_then(|forks| forks.launch(&order, fds))
                .unwrap_or_else(|| execute(&order, fds).map(Launcher::from))
        };
        let launcher = self.keeper.spawn(start).map_err(|err| match err.raw_os_error() {
            Some(libc::E2BIG) => ToolError::tell("the command and its environment are too long"),
            Some(libc::EAGAIN) => ToolError::tell("there are too many processes in the sandbox"),
            _ => cannot_start(&err),
        })?;
        // Whoever reads the output sees its end when the command has closed it.
        drop((lifeline_end, stdout, stderr));
        let pidfd = rustix::process::pidfd_open(launcher.pid(), PidfdFlags::empty()).ok();
        let (output, lifeline) = (Some(File::from(output.into())), Some(lifeline));
        Ok(Running { launcher, pidfd, output, lifeline, buffer: Vec::new(), pace: POLL_INTERVAL })
    }

    /// The whole environment of a command. What comes last counts.
    fn environment_of(&self, spec: &Spec<'_>, cwd: &Path) -> Vec<(String, String)> {
        let mut env = self.env().as_ref().clone();
        env.insert("PWD".to_owned(), cwd.to_string_lossy().into_owned());
        env.extend(spec.env.clone());
        if let Some(names) = &self.usual_names {
            names.add(&mut env);
        }
        env.into_iter().collect()
    }

    /// Ends every running command; later ones end at once. Called when the host is gone.
    pub fn stop(&self) {
        self.keeper.refuse();
        let until = Instant::now() + KILL_TIMEOUT;
        self.sessions.cut_all();
        self.end_background();
        self.end_resident(until);
        self.keeper.wait_for_all(until);
    }
}

pub(super) fn cannot_start(err: &std::io::Error) -> ToolError {
    ToolError::Broken(format!("cannot start a command: {err}"))
}

pub(super) fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The exit code of a command as shells have it.
pub(super) fn exit_code(status: Option<ExitStatus>) -> i32 {
    status.map_or(TIMED_OUT, |status| {
        status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
    })
}

/// Where output goes as it arrives.
pub(super) trait Sink {
    fn push(&mut self, bytes: &[u8]);
}

impl Sink for BoundedOutput {
    fn push(&mut self, bytes: &[u8]) {
        BoundedOutput::push(self, bytes);
    }
}

/// Why [`Running::follow`] stopped.
#[derive(Debug)]
pub(super) enum Ending {
    Ended,
    TimedOut,
    Cancelled,
    /// The workspace holds too much.
    Full(String),
}

impl Ending {
    /// The exit code of a command that has ended with `status`, and whether its time was up.
    ///
    /// # Errors
    /// For the model: the command was ended for another reason than its time.
    pub(super) fn exit_code(self, status: Option<ExitStatus>) -> Result<(i32, bool), ToolError> {
        match self {
            Ending::Ended => Ok((exit_code(status), false)),
            Ending::TimedOut => Ok((TIMED_OUT, true)),
            Ending::Cancelled => Err(ToolError::tell("the call was cancelled")),
            Ending::Full(why) => Err(ToolError::tell(format!("the command was ended: {why}"))),
        }
    }
}

/// A launcher with its command.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) launcher: Launcher,
    /// Readable when the launcher has ended; absent on kernels without it.
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) output: Option<File>,
    lifeline: Option<PipeWriter>,
    /// What reads go into; made by the first one.
    buffer: Vec<u8>,
    /// Interval between checks of the stop condition.
    pace: Duration,
}

impl Running {
    /// Reads output until the launcher has ended, the time is up or `stop` says so.
    pub(super) fn follow<S: Sink>(
        &mut self,
        kept: &mut S,
        deadline: Instant,
        stop: &dyn Fn(&S) -> Option<Ending>,
    ) -> Ending {
        loop {
            if let Some(ending) = stop(kept) {
                return ending;
            }
            let now = Instant::now();
            if now >= deadline {
                return Ending::TimedOut;
            }
            match self.step(kept, self.pace.min(deadline - now)) {
                Step::Ended => return Ending::Ended,
                Step::Going => {}
            }
        }
    }

    /// Waits a moment for output or the end, and takes what is there.
    fn step(&mut self, kept: &mut dyn Sink, wait: Duration) -> Step {
        let ready = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let mut fds = Vec::with_capacity(2);
        fds.extend(self.output.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        fds.extend(self.pidfd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let mut results = [PollFlags::empty(); 2];
        if fds.is_empty() {
            std::thread::sleep(wait.min(Duration::from_millis(2)));
        } else if rustix::event::poll(&mut fds, Some(&timespec(wait))).is_ok() {
            for (result, fd) in results.iter_mut().zip(&fds) {
                *result = fd.revents();
            }
        }
        let output_first = self.output.is_some();
        let [first, second] = results;
        let (output_ready, ended) = if output_first { (first, second) } else { (second, first) };
        if output_first && output_ready.intersects(ready) {
            self.take(kept);
        } else if ended.intersects(ready)
            || (self.pidfd.is_none()
                && self.launcher.try_wait().is_ok_and(|status| status.is_some()))
        {
            return Step::Ended;
        }
        Step::Going
    }

    /// Reads once; forgets the pipe at its end. A terminal that nobody has open any more has an error
    /// in place of an end.
    pub(super) fn take(&mut self, kept: &mut dyn Sink) {
        use std::io::ErrorKind::{Interrupted, WouldBlock};
        let Some(output) = &mut self.output else { return };
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER];
        }
        match output.read(&mut self.buffer) {
            Ok(0) => self.output = None,
            Ok(count) => kept.push(&self.buffer[..count]),
            Err(err) if matches!(err.kind(), Interrupted | WouldBlock) => {}
            Err(_) => self.output = None,
        }
    }

    /// Has the lifeline back.
    pub(super) fn take_back(&mut self, lifeline: Option<PipeWriter>) {
        self.lifeline = lifeline;
    }

    /// Gives the lifeline away: dropping it ends the command. The stop condition is checked only every
    /// `pace` from now on.
    pub(super) fn hand_over(&mut self, pace: Duration) -> Option<PipeWriter> {
        self.pace = pace;
        self.lifeline.take()
    }

    /// The launcher's process.
    pub(super) fn pid(&self) -> Pid {
        self.launcher.pid()
    }

    /// Takes what has been written and not read yet.
    pub(super) fn drain(&mut self, kept: &mut dyn Sink) {
        // A bound: somebody may write on and on.
        for _ in 0..256 {
            let Some(output) = &self.output else { return };
            let mut fds = [PollFd::new(output, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timespec(Duration::ZERO))) {
                Ok(count) if count > 0 => self.take(kept),
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Throws away what has been written and not read yet.
    pub(super) fn discard(&mut self) {
        struct Nowhere;
        impl Sink for Nowhere {
            fn push(&mut self, _: &[u8]) {}
        }
        self.drain(&mut Nowhere);
    }

    /// Cuts the lifeline, waits for the launcher and takes the rest of the output. `None` when the
    /// launcher had to be killed.
    pub(super) fn finish(&mut self, kept: &mut dyn Sink) -> Option<ExitStatus> {
        // The launcher reads end of file on its end of the pipe, kills the command and exits.
        self.lifeline = None;
        let until = Instant::now() + KILL_TIMEOUT;
        while Instant::now() < until && matches!(self.step(kept, POLL_INTERVAL), Step::Going) {}
        let status = self.launcher.try_wait().ok().flatten();
        if status.is_none() {
            self.launcher.kill();
        }
        // Bounded, because a process that escaped the launcher may hold the write end open: the pipe
        // would never report its end (`man 7 pipe`).
        let until = Instant::now() + PIPE_DRAIN_TIMEOUT;
        while self.output.is_some() && Instant::now() < until {
            let Some(output) = &self.output else { break };
            let mut fds = [PollFd::new(output, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&timespec(until - Instant::now()))) {
                Ok(0) => break,
                Ok(_) => self.take(kept),
                Err(_) => {}
            }
        }
        status
    }
}

enum Step {
    Going,
    Ended,
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
