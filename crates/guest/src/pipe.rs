//! Commands whose standard input and output are a stream of the host. They run below a launcher as all
//! commands do, so ending the call ends everything that they started.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::flow::{Buffer, Flow, Lane, Send};
use super::launch::Streams;
use super::output::BoundedOutput;
use super::process::{
    Ending, PIPE_DRAIN_TIMEOUT, Processes, Running, Spec, cannot_start, timespec,
};
use super::protocol::Exec;
use crate::tool::{CommandOutput, ToolError};

/// How often a piped command looks whether it has to end; what the host sends wakes it at once.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How often it looks on kernels that do not tell when a process ends.
const POLL_INTERVAL_WITHOUT_PIDFD: Duration = Duration::from_millis(10);

impl Processes {
    /// Runs a command until it ends, its time is up or the call is cancelled. Its standard error is kept.
    pub(super) fn pipe(
        &self,
        id: u32,
        exec: &Exec,
        flow: &Arc<Flow>,
        send: Send<'_>,
        cancelled: &AtomicBool,
    ) -> Result<CommandOutput, ToolError> {
        let started = Instant::now();
        let inside = self.enter()?;
        let spec = Spec {
            argv: &exec.argv,
            cwd: exec.cwd.as_deref(),
            env: &exec.env,
            timeout: Duration::from_millis(exec.timeout_ms),
            output_cap: exec.output_cap,
        };
        let mut kept = self.kept_by_host(spec.output_cap);
        let (mut running, to, from) = self.start_piped(&spec)?;
        let mut lane = Lane::new(id, Arc::clone(flow), to, from, false);
        let mut buffer = Buffer::new();
        let deadline = (exec.timeout_ms > 0).then(|| started + spec.timeout);
        let ending = loop {
            if let Some(ending) = self.interruption(cancelled) {
                break ending;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break Ending::TimedOut;
            }
            if !turn(&mut lane, Some(&mut running), &mut kept, send, &mut buffer) {
                break Ending::Ended;
            }
        };
        lane.close_to();
        let status = self.end(running, &mut kept);
        if matches!(ending, Ending::Ended | Ending::TimedOut) {
            self.drain(&mut lane, &mut kept, send, &mut buffer, cancelled);
        }
        lane.end(send);
        drop(inside);
        let (code, timed_out) = ending.exit_code(status)?;
        self.leave(code)?;
        let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(CommandOutput { timed_out, ..kept.finish(code, duration) })
    }

    /// Sends the rest of the output of a command that has ended, at the host's pace.
    fn drain(
        &self,
        lane: &mut Lane,
        kept: &mut BoundedOutput,
        send: Send<'_>,
        buffer: &mut Buffer,
        cancelled: &AtomicBool,
    ) {
        // Only a process that got away could hold the pipe open without writing.
        let mut until = Instant::now() + PIPE_DRAIN_TIMEOUT;
        while lane.from.is_some() && self.interruption(cancelled).is_none() {
            let may_read = lane.pass(send, buffer).to_read;
            let Some(from) = lane.from.as_ref().filter(|_| may_read) else {
                turn(lane, None, kept, send, buffer);
                until = Instant::now() + PIPE_DRAIN_TIMEOUT;
                continue;
            };
            let mut fds = [PollFd::new(from, PollFlags::IN)];
            let left = until.saturating_duration_since(Instant::now());
            match rustix::event::poll(&mut fds, Some(&timespec(left))) {
                Ok(0) => return,
                Ok(_) => until = Instant::now() + PIPE_DRAIN_TIMEOUT,
                Err(_) => {}
            }
        }
    }

    /// A launcher with the writing end of the command's input and the reading end of its output.
    fn start_piped(&self, spec: &Spec<'_>) -> Result<(Running, OwnedFd, OwnedFd), ToolError> {
        let pipe = || std::io::pipe().map_err(|err| cannot_start(&err));
        let ((input, feed), (output, stdout), (errors, stderr)) = (pipe()?, pipe()?, pipe()?);
        let broken = |err: rustix::io::Errno| cannot_start(&err.into());
        for fd in [feed.as_fd(), output.as_fd()] {
            rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK).map_err(broken)?;
        }
        let (ours, theirs) = sockets().map_err(broken)?;
        pass(&ours, input.as_fd(), stderr.as_fd()).map_err(broken)?;
        let running = self.start_launcher(spec, Streams::Piped, stdout.into(), theirs, errors)?;
        Ok((running, feed.into(), output.into()))
    }
}

/// Our end and the launcher's of what it has in place of standard error.
pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)
}

/// Passes the launcher what the command gets as standard input and standard error.
pub(super) fn pass(
    ours: &OwnedFd,
    input: BorrowedFd<'_>,
    error: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let passed = [input, error];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&passed));
    let byte = [IoSlice::new(&[1])];
    rustix::net::sendmsg(ours, &byte, &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Moves bytes, then waits for more to do. False when the command has ended.
fn turn(
    lane: &mut Lane,
    running: Option<&mut Running>,
    kept: &mut BoundedOutput,
    send: Send<'_>,
    buffer: &mut Buffer,
) -> bool {
    let wanted = lane.pass(send, buffer);
    let flow = Arc::clone(&lane.flow);
    let wake = flow.wake();
    let ready = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
    let mut fds = vec![PollFd::from_borrowed_fd(wake.fd(), PollFlags::IN)];
    if let Some(to) = lane.to.as_ref().filter(|_| wanted.to_write) {
        fds.push(PollFd::new(to, PollFlags::OUT));
    }
    if let Some(from) = lane.from.as_ref().filter(|_| wanted.to_read) {
        fds.push(PollFd::new(from, PollFlags::IN));
    }
    let own = fds.len();
    let mut has_errors = false;
    let mut glance = POLL_INTERVAL;
    if let Some(running) = &running {
        has_errors = running.output.is_some();
        fds.extend(running.output.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match &running.pidfd {
            Some(fd) => fds.push(PollFd::new(fd, PollFlags::IN)),
            None => glance = POLL_INTERVAL_WITHOUT_PIDFD,
        }
    }
    if rustix::event::poll(&mut fds, Some(&timespec(glance))).is_err() {
        return true;
    }
    let happened: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
    if happened.first().is_some_and(|wake| wake.intersects(ready)) {
        wake.clear();
    }
    let Some(running) = running else { return true };
    let mut rest = happened.into_iter().skip(own);
    if has_errors && rest.next().is_some_and(|flags| flags.intersects(ready)) {
        running.take(kept);
        return true;
    }
    let has_ended = match rest.next() {
        Some(flags) => flags.intersects(ready),
        None => running.launcher.try_wait().is_ok_and(|status| status.is_some()),
    };
    !has_ended
}
