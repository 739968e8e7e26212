//! The launcher: one small process per command, forked by `fork_server` or executed from this same binary.
//!
//! It makes a session of its own, takes rights away from itself, starts the command, and stays as
//! its reaper: every orphan of the command becomes its child. When the command ends, or when the
//! launcher's standard input ends (the guest cancelled, or died), it kills whatever is left below it
//! and exits with the command's exit code. So nothing that a command starts outlives it, but for what a command
//! of the model leaves in the background ([`LAUNCH_LEAVING`], [`LAUNCH_TERMINAL`]): with that the launcher stays.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

use super::{confine, descendants};

/// How long survivors may take to die. Only a process stuck in the kernel takes longer than
/// milliseconds.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);

/// Exit codes as shells use them.
const NOT_FOUND: u8 = 127;
pub(super) const NOT_RUNNABLE: u8 = 126;

/// The program's argument for a command with empty standard input.
pub const LAUNCH: &str = "launch";
/// The argument for a command that is fed: the launcher's standard error is then the reading end of what becomes the
/// command's standard input, and the command's standard error joins its output.
pub const LAUNCH_FED: &str = "launch-fed";
/// The argument for a command whose three streams are apart: the launcher's standard error is then a socket, from which
/// come the command's standard input and standard error, in one message of one byte.
pub const LAUNCH_PIPED: &str = "launch-piped";
/// The argument for a command whose input, output and error are a terminal: the launcher's standard output. It may leave
/// processes behind, as with [`LAUNCH_LEAVING`].
pub const LAUNCH_TERMINAL: &str = "launch-terminal";
/// [`LAUNCH_PIPED`] for a command that may leave processes behind: into the socket the launcher writes the exit code when
/// the command has ended and others run on.
pub const LAUNCH_LEAVING: &str = "launch-leaving";
/// The program's argument for the step between the launcher and such a command.
pub const ATTACH: &str = "attach";

/// How a command gets its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Streams {
    /// [`LAUNCH`].
    Inherited,
    /// [`LAUNCH_FED`].
    Fed,
    /// [`LAUNCH_PIPED`].
    Piped,
    /// [`LAUNCH_TERMINAL`].
    Terminal,
    /// [`LAUNCH_LEAVING`].
    Leaving,
}

impl Streams {
    /// The program's argument.
    pub fn argument(self) -> &'static str {
        match self {
            Streams::Inherited => LAUNCH,
            Streams::Fed => LAUNCH_FED,
            Streams::Piped => LAUNCH_PIPED,
            Streams::Terminal => LAUNCH_TERMINAL,
            Streams::Leaving => LAUNCH_LEAVING,
        }
    }
}

/// Runs `command` to its end; returns its exit code. Standard input is the lifeline; output goes where the launcher's goes. A
/// byte on the lifeline is a signal for the command's process group.
pub fn launch(command: &[String], streams: Streams) -> u8 {
    static GROUP: AtomicI32 = AtomicI32::new(0);
    let Some((program, args)) = command.split_first() else {
        return complain("no command was given", NOT_RUNNABLE);
    };
    let lifeline = match confine::detach_stdin() {
        Ok(lifeline) => lifeline,
        Err(err) => return complain(&format!("cannot detach: {err}"), NOT_RUNNABLE),
    };
    let _ = rustix::process::setsid();
    if let Err(err) = confine::harden_process() {
        return complain(&err, NOT_RUNNABLE);
    }
    confine::restrict_command();
    let watcher = std::thread::Builder::new().stack_size(64 << 10);
    if let Err(err) = watcher.spawn(move || watch(lifeline.into(), &GROUP)) {
        return complain(&format!("cannot start a thread: {err}"), NOT_RUNNABLE);
    }
    let status = match streams {
        Streams::Inherited | Streams::Fed | Streams::Piped => None,
        // Without one nobody could be told, so nothing is left.
        Streams::Leaving | Streams::Terminal => std::io::stderr().as_fd().try_clone_to_owned().ok(),
    };
    #[expect(clippy::disallowed_methods, reason = "this is the launcher")]
    let mut command = match streams {
        // A leader of a group could not open the session that a terminal needs.
        Streams::Terminal => Command::new("/proc/self/exe"),
        Streams::Inherited | Streams::Fed | Streams::Piped | Streams::Leaving => {
            let mut command = Command::new(program);
            command.process_group(0);
            command
        }
    };
    let fed = match streams {
        Streams::Inherited => Ok(()),
        Streams::Fed => feed(&mut command),
        Streams::Piped | Streams::Leaving => feed_apart(&mut command),
        Streams::Terminal => {
            command.args([ATTACH, "--", program]);
            feed_terminal(&mut command)
        }
    };
    if let Err(err) = fed {
        return complain(&format!("cannot pass the input on: {err}"), NOT_RUNNABLE);
    }
    command.args(args);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(err) => return not_started(program, &err),
    };
    // It has the command's streams, of which others see the end when nobody has them.
    drop(command);
    let child = Pid::from_child(&child);
    GROUP.store(child.as_raw_nonzero().get(), Ordering::Relaxed);
    let code = wait_for(child);
    match status.filter(|_| has_left_somebody()) {
        Some(status) => stay(&status, code),
        None => drop(descendants::leave_nobody(KILL_TIMEOUT)),
    }
    code
}

/// Says how the command ended, and waits for the end of what it has left.
fn stay(status: &OwnedFd, code: u8) {
    // Whoever follows the output sees whether somebody can still write there.
    if confine::detach_stdout().is_ok() {
        let _ = rustix::stdio::dup2_stderr(std::io::stdout());
    }
    // Nobody is left to tell when this fails; the lifeline then ends what is left.
    let _ = rustix::net::send(status, &[code], SendFlags::NOSIGNAL);
    while !matches!(rustix::process::wait(WaitOptions::empty()), Err(rustix::io::Errno::CHILD)) {}
}

/// Becomes `command`, as the leader of a session that standard input is the terminal of: what is typed
/// there as Ctrl-C interrupts it, and `/dev/tty` is there.
pub fn attach(command: &[String]) -> u8 {
    let Some((program, args)) = command.split_first() else {
        return complain("no command was given", NOT_RUNNABLE);
    };
    let attached = rustix::process::setsid()
        .and_then(|_| rustix::process::ioctl_tiocsctty(std::io::stdin().as_fd()));
    if let Err(err) = attached {
        return complain(&format!("cannot attach the terminal: {err}"), NOT_RUNNABLE);
    }
    #[expect(clippy::disallowed_methods, reason = "this is the launcher")]
    let err = Command::new(program).args(args).exec();
    not_started(program, &err)
}

fn not_started(program: &str, err: &std::io::Error) -> u8 {
    if err.kind() == std::io::ErrorKind::NotFound {
        return complain(&format!("`{program}`: command not found"), NOT_FOUND);
    }
    complain(&format!("cannot run `{program}`: {err}"), NOT_RUNNABLE)
}

/// Gives the command what came in place of standard error as its input.
fn feed(command: &mut Command) -> std::io::Result<()> {
    let input = std::io::stderr().as_fd().try_clone_to_owned()?;
    let output = std::io::stdout().as_fd().try_clone_to_owned()?;
    command.stdin(Stdio::from(input)).stderr(Stdio::from(output));
    Ok(())
}

/// Somebody goes on after the command, and is not just about to end.
fn has_left_somebody() -> bool {
    for _ in 0..10 {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Err(rustix::io::Errno::CHILD) => return false,
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    true
}

/// Gives the command the terminal that output goes to as its input, and for its errors.
fn feed_terminal(command: &mut Command) -> std::io::Result<()> {
    let terminal = std::io::stdout().as_fd().try_clone_to_owned()?;
    command.stdin(Stdio::from(terminal.try_clone()?)).stderr(Stdio::from(terminal));
    Ok(())
}

/// Gives the command what comes over the socket in place of standard error.
fn feed_apart(command: &mut Command) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let socket = std::io::stderr();
    rustix::net::recvmsg(
        socket.as_fd(),
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut passed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            passed.extend(fds);
        }
    }
    let mut passed = passed.into_iter();
    let (Some(input), Some(error)) = (passed.next(), passed.next()) else {
        return Err(std::io::Error::other("the streams did not come"));
    };
    command.stdin(Stdio::from(input)).stderr(Stdio::from(error.try_clone()?));
    rustix::stdio::dup2_stderr(error)?;
    Ok(())
}

/// Collects every dead child, until the command itself is among them.
fn wait_for(command: Pid) -> u8 {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                let status = ExitStatus::from_raw(status.as_raw());
                let code = status.code().or(status.signal().map(|signal| 128 + signal));
                return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Cannot happen while the command is our child; without one there is nothing to wait for.
            Err(_) => return u8::MAX,
        }
    }
}

/// Passes signals on until the other end of the lifeline is closed, then kills until the process ends.
fn watch(mut lifeline: std::fs::File, group: &AtomicI32) {
    let mut byte = [0];
    while lifeline.read(&mut byte).is_ok_and(|count| count > 0) {
        let group = Pid::from_raw(group.load(Ordering::Relaxed));
        let signal = Signal::from_named_raw(i32::from(byte[0]));
        if let (Some(group), Some(signal)) = (group, signal) {
            // It may have ended just now.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
    loop {
        descendants::kill_below(rustix::process::getpid(), &|_| false);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes a message where the command's output goes.
pub(super) fn complain(message: &str, code: u8) -> u8 {
    // Nobody is left to tell when this fails.
    let _ = writeln!(std::io::stdout(), "patchwright: {message}");
    code
}
