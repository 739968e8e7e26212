//! The host's side of a git helper: starts it, answers what it asks for, and ends it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use git2::transport::Service;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::GitError;
use super::super::http::{Exchange, Session};
use super::super::partial::Part;
use super::super::stop::Stop;
use super::standby;
use super::wire::{self, Bounds, HelperError, Job, JobEnd, JobOutput};

/// The argument that makes this program a helper.
pub(super) const ARGUMENT: &str = "__git-helper";

/// Poll interval: how often a wait for the helper checks the deadline and the cancellation.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How long to wait for a killed helper to disappear.
const LAST_MOMENTS: Duration = Duration::from_secs(10);

/// Bytes of a request to a server: a negotiation is small.
const MAX_REQUEST: usize = 16 << 20;
/// Bytes of one piece of what the work makes.
const MAX_MADE: usize = 1 << 20;
/// Bytes of what the work gives in the end: a difference is the largest.
const MAX_ENDED: usize = 512 << 20;
/// Bytes of a piece that is handed in.
const PIECE: usize = 1 << 20;

/// The program that is started as a helper.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program whose `main` begins with [`super::run_if_asked`]. The first name stays.
pub fn use_program(path: &Path) {
    let _ = PROGRAM.set(path.to_owned());
}

/// What the helper gets from the host, besides its job.
#[derive(Default)]
pub(super) struct HelperInputs<'a> {
    /// The server that it may ask, and for which services.
    pub(super) server: Option<(Arc<Session>, &'a [Service])>,
    /// What it unpacks.
    pub(super) input: &'a [u8],
    /// Where what it makes goes.
    pub(super) output: Option<&'a mut dyn Write>,
}

/// Has a job done. When `stop` says so the helper is killed.
///
/// # Errors
/// What went wrong with the server before all else; then what the helper says, or how it ended.
pub(super) fn run(
    job: &Job,
    supplies: HelperInputs<'_>,
    stop: &Stop,
) -> Result<JobOutput, GitError> {
    let ready = standby::take();
    let was_ready = ready.is_some();
    let mut helper = ready.map_or_else(Helper::start, Ok)?;
    let order = serde_json::to_vec(job).map_err(|err| GitError::Machine(err.to_string()))?;
    let mut handler = HostHandler { supplies, exchange: None };
    let asks_a_server = handler.supplies.server.is_some();
    let spoken = helper
        .say(wire::JOB, &order, stop)
        .inspect(|()| {
            // What is received is packed next, as a rule. The one that receives waits for the server first.
            if was_ready && asks_a_server {
                standby::make();
            }
        })
        .and_then(|()| helper.serve(&mut handler, stop))
        .and_then(|ended| serde_json::from_slice::<JobEnd>(&ended).map_err(io::Error::from));
    let broken = match spoken {
        Ok(ended) => {
            if !ended.files_confined {
                say_once_that_files_are_open();
            }
            return match handler.failure() {
                // The helper only knows that the connection broke; the host knows why.
                Some(failure) if knows_less(&ended.result) => Err(failure),
                _ => ended.result.map_err(|trouble| trouble.out(&job.bounds)),
            };
        }
        Err(broken) => broken,
    };
    // Read the exit status before anything else: a signal names the limit that was hit.
    let status = helper.end();
    if let Some(failure) = handler.failure() {
        return Err(failure);
    }
    stop.check()?;
    Err(how_it_ended(status, &broken, &job.bounds))
}

/// Whether it has nothing to show, for a reason that may be a broken connection.
fn knows_less(result: &Result<JobOutput, HelperError>) -> bool {
    matches!(result, Err(_) | Ok(JobOutput::Part(Part::Unanswered(_))))
}

fn say_once_that_files_are_open() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "this kernel has no Landlock: what reads packs is confined by a list of system calls and by \
             limits, and could open files of this user"
        );
    }
}

/// A running helper. It does not outlive this.
pub(super) struct Helper {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Helper {
    #[expect(clippy::disallowed_methods, reason = "this is where git's helper is started")]
    pub(super) fn start() -> Result<Helper, GitError> {
        let program = PROGRAM.get().ok_or_else(|| {
            GitError::Machine("this program has named no helper for git".to_owned())
        })?;
        let failed =
            |err: io::Error| GitError::Machine(format!("git's helper cannot be started: {err}"));
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            // Tokens and keys may be in the environment, and the helper needs none of it.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A helper that was taken over could write anything to the log.
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            let _ = child.kill();
            return Err(GitError::Machine("git's helper has no pipes".to_owned()));
        };
        let helper = Helper { child, input, output };
        // With blocking pipes, a helper that hangs would keep this thread from checking the
        // deadline.
        rustix::io::ioctl_fionbio(&helper.input, true).map_err(|err| failed(err.into()))?;
        rustix::io::ioctl_fionbio(&helper.output, true).map_err(|err| failed(err.into()))?;
        Ok(helper)
    }

    /// This helper, where it has not ended while it waited.
    pub(super) fn if_alive(mut self) -> Option<Helper> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    fn say(&mut self, kind: u8, payload: &[u8], stop: &Stop) -> io::Result<()> {
        wire::write(&mut StoppableIo { stream: &mut self.input, stop }, kind, &[payload])
    }

    /// Answers until the work is done; returns what it gave.
    fn serve(&mut self, handler: &mut HostHandler<'_>, stop: &Stop) -> io::Result<Vec<u8>> {
        let most = |kind| match kind {
            wire::ASK => MAX_REQUEST,
            wire::MADE => MAX_MADE,
            wire::ENDED => MAX_ENDED,
            _ => 0,
        };
        loop {
            let mut output = StoppableIo { stream: &mut self.output, stop };
            let (kind, payload) = wire::read(&mut output, most)?;
            match kind {
                wire::ASK => handler.ask(&payload)?,
                wire::MORE => match handler.more() {
                    Ok(piece) => self.say(wire::PIECE, &piece, stop)?,
                    Err(()) => self.say(wire::BROKEN, &[], stop)?,
                },
                wire::MADE => handler.take(&payload)?,
                wire::ENDED => return Ok(payload),
                _ => return Err(nonsense()),
            }
        }
    }

    /// Makes sure that it has ended; how it did.
    fn end(&mut self) -> Option<ExitStatus> {
        let pause = Duration::from_millis(5);
        // One that closed its pipes is about to end, and what ended it is what we want to know.
        for _ in 0..20 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(pause);
        }
        let _ = self.child.kill();
        let mut waited = Duration::ZERO;
        while waited < LAST_MOMENTS {
            if let Ok(Some(_)) = self.child.try_wait() {
                break;
            }
            std::thread::sleep(pause);
            waited += pause;
        }
        None
    }
}

/// Reads and writes as long as it is not time to end.
struct StoppableIo<'a, S> {
    stream: &'a mut S,
    stop: &'a Stop,
}

impl<S: AsFd> StoppableIo<'_, S> {
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        self.stop.check().map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        match poll(&mut [PollFd::new(self.stream, flags)], Some(&GLANCE)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(err) => Err(err.into()),
        }
    }
}

impl<S: Read + AsFd> Read for StoppableIo<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                result => return result,
            }
        }
    }
}

impl<S: Write + AsFd> Write for StoppableIo<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.write(bytes) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Where the helper's requests are answered.
struct HostHandler<'a> {
    supplies: HelperInputs<'a>,
    exchange: Option<Result<Exchange, GitError>>,
}

impl HostHandler<'_> {
    /// Prepares a request to the server; reading the answer sends it.
    fn ask(&mut self, request: &[u8]) -> io::Result<()> {
        let Some((session, services)) = &self.supplies.server else { return Err(nonsense()) };
        let (number, body) = request.split_first().ok_or_else(nonsense)?;
        // A helper that a pack has taken over still cannot push.
        let service = services.iter().find(|service| number_of(**service) == *number);
        let service = service.ok_or_else(nonsense)?;
        // A failed connection stays failed: libgit2 may ask again, and would get half an answer.
        if !matches!(self.exchange, Some(Err(_))) {
            self.exchange = Some(Ok(Exchange::new(session.clone(), *service, body.to_vec())));
        }
        Ok(())
    }

    /// The next piece; empty at the end.
    fn more(&mut self) -> Result<Bytes, ()> {
        match &mut self.exchange {
            None => {
                let (piece, rest) =
                    self.supplies.input.split_at(self.supplies.input.len().min(PIECE));
                self.supplies.input = rest;
                Ok(Bytes::copy_from_slice(piece))
            }
            Some(Err(_)) => Err(()),
            Some(Ok(exchange)) => match exchange.more() {
                Ok(piece) => Ok(piece.unwrap_or_default()),
                Err(failure) => {
                    self.exchange = Some(Err(failure));
                    Err(())
                }
            },
        }
    }

    fn take(&mut self, made: &[u8]) -> io::Result<()> {
        self.supplies.output.as_mut().ok_or_else(nonsense)?.write_all(made)
    }

    /// What went wrong with the server.
    fn failure(self) -> Option<GitError> {
        self.exchange?.err()
    }
}

pub(super) fn number_of(service: Service) -> u8 {
    match service {
        Service::UploadPackLs => b'u',
        Service::UploadPack => b'U',
        Service::ReceivePackLs => b'r',
        Service::ReceivePack => b'R',
    }
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "git's helper said something that makes no sense")
}

/// Why a helper ended without a result. The signals are those of its bounds, as a rule.
fn how_it_ended(status: Option<ExitStatus>, broken: &io::Error, bounds: &Bounds) -> GitError {
    let signal = status.and_then(|status| status.signal());
    match signal {
        Some(libc::SIGXCPU) => GitError::Unacceptable(format!(
            "reading what was received takes more than {} s of processor time; fetch less history, or \
             look at what makes the repository so large",
            bounds.seconds
        )),
        Some(libc::SIGXFSZ) => GitError::Unacceptable(format!(
            "what was received becomes a file of more than {} bytes; fetch less history, or look at what \
             makes the repository so large",
            bounds.file
        )),
        // Rust's own memory ends with an abort, libgit2's with an error.
        Some(libc::SIGABRT) => out_of_memory(bounds),
        Some(libc::SIGKILL) => GitError::Machine(
            "git's helper was killed; the machine may be out of memory".to_owned(),
        ),
        Some(signal) => GitError::Unacceptable(format!(
            "git's helper crashed (signal {signal}) on what was received; nothing of it was kept, and \
             whoever made it may have meant that to happen"
        )),
        None => GitError::Machine(format!("git's helper did not finish: {broken}")),
    }
}

pub(super) fn out_of_memory(bounds: &Bounds) -> GitError {
    GitError::Unacceptable(format!(
        "reading what was received takes more than {} MiB of memory; an object of it is too large, or \
         made to look so",
        bounds.memory >> 20
    ))
}
