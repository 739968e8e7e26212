//! A fork server: launchers that are forked, which spares the start of the program for each command.
//!
//! The guest forks it when its own walls stand and before it has threads, so every launcher is inside of the same
//! walls. For each command it gets what a launcher needs, with its three streams, and forks; the copy is a child
//! of the guest (`CLONE_PARENT`) and goes on in [`super::launch`]. Long orders are not for it, and when it is
//! missing or gone, launchers are executed instead: the guest works without it.

use parking_lot::Mutex;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

use super::launch::{self, Streams};

/// Most bytes of an order. The kernel's own bound on a command and its environment is far above.
const MOST: usize = 64 << 10;

/// Standard input, output and error of a launcher.
type Three<T> = [T; 3];

/// What a launcher is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) streams: Streams,
    pub(super) argv: Vec<String>,
    /// The whole environment.
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: PathBuf,
}

/// The guest's end.
#[derive(Debug)]
pub(super) struct ForkServer {
    pid: Pid,
    /// Held from an order to its answer.
    socket: Mutex<OwnedFd>,
}

impl ForkServer {
    /// Forks. `None` when this machine does not let us. Must run before other threads exist.
    #[expect(unsafe_code, reason = "forking is unsafe where there are threads")]
    pub(super) fn start() -> Option<ForkServer> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .ok()?;
        // SAFETY: this is the only thread, so nothing is in an unfinished state in the copy.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(ours);
            let served = close_others(&theirs).is_ok() && serve(theirs).is_ok();
            exit(u8::from(!served));
        }
        let pid = Pid::from_raw(pid).filter(|pid| pid.as_raw_nonzero().get() > 0)?;
        Some(ForkServer { pid, socket: Mutex::new(ours) })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Has a launcher forked. `None` when it must be executed instead; the error is that of the fork.
    pub(super) fn launch(
        &self,
        order: &Order,
        streams: Three<BorrowedFd<'_>>,
    ) -> Option<std::io::Result<Launcher>> {
        let body = serde_json::to_vec(order).ok().filter(|body| body.len() <= MOST)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&streams));
        let socket = self.socket.lock();
        rustix::net::sendmsg(&*socket, &[IoSlice::new(&body)], &mut control, SendFlags::NOSIGNAL)
            .ok()?;
        let mut answer = [0; 4];
        let (count, _) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&*socket, &mut answer, RecvFlags::empty())
        })
        .ok()?;
        let answer = (count == answer.len()).then(|| i32::from_ne_bytes(answer))?;
        if answer < 0 {
            return Some(Err(std::io::Error::from_raw_os_error(-answer)));
        }
        Pid::from_raw(answer).map(|pid| Ok(Launcher { pid, ended: None }))
    }
}

/// A launcher: a child of the guest, forked or executed.
#[derive(Debug)]
pub(super) struct Launcher {
    pid: Pid,
    ended: Option<ExitStatus>,
}

impl Launcher {
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended; `None` while it runs.
    pub(super) fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.wait_with(WaitOptions::NOHANG)
    }

    /// Kills it and collects it.
    pub(super) fn kill(&mut self) {
        if self.ended.is_none() {
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
            let _ = self.wait_with(WaitOptions::empty());
        }
    }

    fn wait_with(&mut self, options: WaitOptions) -> std::io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            let ended =
                rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.pid), options))?;
            self.ended = ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.ended)
    }
}

impl From<Child> for Launcher {
    fn from(child: Child) -> Launcher {
        Launcher { pid: Pid::from_child(&child), ended: None }
    }
}

/// Executes the program anew as a launcher.
pub(super) fn execute(order: &Order, streams: Three<BorrowedFd<'_>>) -> std::io::Result<Child> {
    let [input, output, error] = streams;
    #[expect(clippy::disallowed_methods, reason = "this is where commands are started")]
    let mut command = Command::new("/proc/self/exe");
    command
        .args([order.streams.argument(), "--"])
        .args(&order.argv)
        .env_clear()
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&order.cwd)
        .stdin(input.try_clone_to_owned()?)
        .stdout(output.try_clone_to_owned()?)
        .stderr(error.try_clone_to_owned()?)
        .spawn()
}

/// Takes orders until the guest is gone. Returns in the server only.
fn serve(socket: OwnedFd) -> Result<(), Errno> {
    let mut body = vec![0; MOST];
    while let Some((order, streams)) = receive(&socket, &mut body)? {
        let answer = match fork_beside() {
            Ok(None) => {
                // Whoever holds it could be waited for in the server's place.
                drop(socket);
                exit(become_launcher(&order, streams))
            }
            Ok(Some(pid)) => pid.as_raw_nonzero().get(),
            Err(err) => -err.raw_os_error(),
        };
        drop(streams);
        rustix::net::send(&socket, &answer.to_ne_bytes(), SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// The next order; `None` when the guest has closed its end.
fn receive(socket: &OwnedFd, body: &mut [u8]) -> Result<Option<(Order, Three<OwnedFd>)>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut into = [IoSliceMut::new(body)];
        rustix::net::recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut streams: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            streams.extend(fds);
        }
    }
    let body = body.get(..received.bytes).unwrap_or_default();
    if body.is_empty() {
        return Ok(None);
    }
    let order = serde_json::from_slice(body).map_err(|_| Errno::BADMSG)?;
    let streams = streams.try_into().map_err(|_| Errno::BADMSG)?;
    Ok(Some((order, streams)))
}

/// Forks a child of this process's parent: its number here, `None` in the child.
#[expect(unsafe_code, reason = "the library has no fork with this flag")]
fn fork_beside() -> Result<Option<Pid>, Errno> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: a copy with its own memory, of a process with one thread; no pointers are passed.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid < 0 {
        let err = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&err).unwrap_or(Errno::AGAIN));
    }
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}

/// Goes on as the program does when it is executed as a launcher; returns its exit code.
fn become_launcher(order: &Order, streams: Three<OwnedFd>) -> u8 {
    let [input, output, error] = streams;
    let ready = rustix::stdio::dup2_stdin(&input)
        .and_then(|()| rustix::stdio::dup2_stdout(&output))
        .and_then(|()| rustix::stdio::dup2_stderr(&error));
    if ready.is_err() {
        return launch::NOT_RUNNABLE;
    }
    drop((input, output, error));
    set_environment(&order.env);
    if let Err(err) = rustix::process::chdir(&order.cwd) {
        let message = format!("cannot enter `{}`: {err}", order.cwd.display());
        return launch::complain(&message, launch::NOT_RUNNABLE);
    }
    launch::launch(&order.argv, order.streams)
}

/// Replaces the environment.
#[expect(unsafe_code, reason = "other threads could be reading the environment")]
fn set_environment(env: &[(String, String)]) {
    // SAFETY: there is one thread.
    unsafe { libc::clearenv() };
    for (name, value) in env {
        // SAFETY: there is one thread.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Closes everything but the standard streams, which lead nowhere, and `kept`: the guest's wire, above all.
#[expect(unsafe_code, reason = "inherited files have a number and no owner")]
fn close_others(kept: &OwnedFd) -> std::io::Result<()> {
    let mut open: Vec<i32> = Vec::new();
    for entry in fs_err::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for number in open.into_iter().filter(|number| *number > 2 && *number != kept.as_raw_fd()) {
        // SAFETY: their owners are in the guest; this copy of them is never used, and never dropped.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Ends a copy of the guest, without what the guest does at its end.
#[expect(unsafe_code, reason = "the library has no exit that leaves the rest alone")]
fn exit(code: u8) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(code)) }
}
