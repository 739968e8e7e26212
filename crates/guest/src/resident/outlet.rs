//! What a command in the shell writes: through a pipe of its own, which what it leaves in the background can
//! write on to.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};

use super::marked::Marked;
use crate::background::{self, Left, PACE, STACK};
use crate::output::BoundedOutput;
use crate::process::{Running, Sink, timespec};

/// The pipe of one command, which what it leaves in the background can write on to.
pub(super) struct Outlet {
    pub(super) path: PathBuf,
    pub(super) reader: File,
    /// Keeps the pipe open while the command may still open it.
    pub(super) writer: Option<OwnedFd>,
    /// Nobody writes any more.
    pub(super) is_closed: bool,
}

impl Outlet {
    /// `None` where no pipe can have a name.
    pub(super) fn open(tmp: &Path, token: &str) -> Option<Outlet> {
        let path = tmp.join(format!(".{token}"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).ok()?;
        let open = |flags: OFlags| {
            rustix::fs::open(&path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        };
        let reader = open(OFlags::RDONLY);
        let writer = open(OFlags::WRONLY);
        let (Ok(reader), Ok(writer)) = (reader, writer) else {
            let _ = fs_err::remove_file(&path);
            return None;
        };
        Some(Outlet { path, reader: reader.into(), writer: Some(writer), is_closed: false })
    }

    /// Reads what is there. False when nothing is, or nothing can come any more.
    pub(super) fn read(&mut self, sink: &mut dyn Sink) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.reader.read(&mut buffer) {
            Ok(count @ 1..) => {
                sink.push(&buffer[..count]);
                true
            }
            Ok(0) => {
                self.is_closed = true;
                false
            }
            Err(_) => false,
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let _ = fs_err::remove_file(&self.path);
    }
}

/// What is heard of a command.
pub(super) struct Heard {
    /// Where the mark is looked for.
    pub(super) marked: Marked,
    /// What the command wrote.
    pub(super) kept: BoundedOutput,
    pub(super) outlet: Option<Outlet>,
}

impl Heard {
    pub(super) fn read(&mut self) {
        if let Some(outlet) = &mut self.outlet {
            outlet.read(&mut self.kept);
        }
    }

    /// Takes marks; without a pipe of its own the command's output comes with them.
    pub(super) fn take_marks(&mut self, running: &mut Running) {
        running.take(&mut self.marked);
        if self.outlet.is_none() {
            let before = self.marked.take_released();
            self.kept.push(&before);
        }
    }

    /// Takes what the command wrote before the end; what it left may write on and on.
    pub(super) fn finish_reading(&mut self) {
        let Some(outlet) = &mut self.outlet else {
            if self.marked.number.is_none() {
                self.marked.release(usize::MAX);
                let rest = self.marked.take_released();
                self.kept.push(&rest);
            }
            return;
        };
        outlet.writer = None;
        // Whoever writes to it has it open by now.
        let _ = fs_err::remove_file(&outlet.path);
        for _ in 0..256 {
            if !outlet.read(&mut self.kept) {
                return;
            }
        }
    }
}

/// What is done when nobody writes any more.
pub(super) type AtEnd = Box<dyn FnOnce(&Left) + Send>;

/// Takes what comes until nobody writes any more or it is to end; then does what is left to do.
pub(super) fn pump(
    mut outlet: Outlet,
    mut log: background::Log,
    left: Arc<Left>,
    end: Option<AtEnd>,
) -> io::Result<()> {
    let work = move || {
        while !left.is_cut() {
            let mut fds = [PollFd::new(&outlet.reader, PollFlags::IN)];
            let polled = rustix::event::poll(&mut fds, Some(&timespec(PACE)));
            let [fd] = &fds;
            let (is_there, is_closed) =
                (fd.revents().contains(PollFlags::IN), fd.revents().contains(PollFlags::HUP));
            if polled.is_ok() && is_there {
                outlet.read(&mut log);
            } else if is_closed {
                break;
            }
        }
        drop(outlet);
        if let Some(end) = end {
            end(&left);
        }
        left.has_ended();
    };
    let thread = std::thread::Builder::new().name("background".to_owned()).stack_size(STACK);
    thread.spawn(work).map(|_| ())
}
